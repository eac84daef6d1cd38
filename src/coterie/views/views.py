"""Named views of one set of rows, read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coterie.arrays import array_namespace, is_float, numbers_for, take_or_zero, to_host
from coterie.rows.partitions import DaskTable, fetch_rows
from coterie.rows.torch import upload_dense
from coterie.threads import in_order
from coterie.views.steps import Table


@dataclass(frozen=True)
class ViewBlock:
    """Some rows of one view, as the user stored them."""

    data: Table  # (b, d); rows that lack the view are zero
    present: np.ndarray | None  # (b,) bool; None: every row has the view

    def on(self, device: Any) -> ViewBlock:
        """Return the rows on a device, unless they are sparse: those are prepared on the host first."""
        return ViewBlock(*upload_dense(self.data, self.present, device))

    def known(self) -> Table:
        """Return the rows that have the view."""
        return self.data if self.present is None else self.data[self.present]


@dataclass(frozen=True)
class View:
    """One view: a table, and where it stores each row; rows may lack the view."""

    name: str
    data: Table  # (stored rows, d)
    columns: tuple[str, ...] | None = None
    positions: np.ndarray | None = None  # (n,) stored row of every row, -1 where it has none; None: 0..n-1
    may_lack: bool = False  # whether rows may lack the view by being NaN throughout, which only reading shows
    chosen: np.ndarray | None = None  # (d,) columns of the table, in the view's order; None: all, in the table's

    @property
    def n_rows(self) -> int:
        """Number of rows, including those that lack this view."""
        return self.data.shape[0] if self.positions is None else len(self.positions)

    @property
    def n_columns(self) -> int:
        """Columns of the view."""
        return self.data.shape[1] if self.chosen is None else len(self.chosen)

    @property
    def present(self) -> np.ndarray | None:
        """Which rows have this view; None: all of them."""
        return None if self.positions is None else self.positions >= 0  # (n,)

    def read(self, rows: slice | np.ndarray) -> ViewBlock:
        """Return the given rows, as stored; rows that lack the view are zero."""
        block = self._stored(rows)
        return mask_nan_rows(block) if self.may_lack else block

    def take(self, rows: np.ndarray) -> View:
        """Return the given rows as a view in memory."""
        block = self.read(rows)
        present = to_host(block.present)
        positions = None if present is None else np.where(present, np.arange(len(rows)), -1)
        return View(self.name, block.data, self.columns, positions)

    def pick(self, rows: np.ndarray) -> View:
        """Return the given rows, in this order and perhaps repeated, without reading them."""
        return replace(self, positions=rows if self.positions is None else self.positions[rows])

    def _stored(self, rows: slice | np.ndarray) -> ViewBlock:
        block = self._whole(rows)
        return block if self.chosen is None else replace(block, data=block.data[:, self.chosen])

    def _whole(self, rows: slice | np.ndarray) -> ViewBlock:
        if self.positions is None:
            return ViewBlock(self.data[numbers_for(self.data, rows)], None)
        positions = self.positions[rows]  # (b,)
        if (positions >= 0).all():
            return ViewBlock(self.data[numbers_for(self.data, positions)], None)
        return ViewBlock(*take_or_zero(self.data, positions))


@dataclass(frozen=True)
class Views(Sequence[View]):
    """The views of one set of rows, in a fixed order."""

    views: tuple[View, ...]
    ids: np.ndarray | None = None  # (n,) the rows' names, where the input had any
    device: Any = None  # where rows are copied as they are read; None: they stay where they are

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, number: Any) -> Any:
        return self.views[number]

    def __iter__(self) -> Iterator[View]:
        return iter(self.views)

    @property
    def n_rows(self) -> int:
        """Number of rows, the same in every view."""
        return self.views[0].n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """The views' names."""
        return tuple(view.name for view in self.views)

    def read(self, rows: slice | np.ndarray) -> list[ViewBlock]:
        """Return the given rows of every view."""
        return [self.read_view(number, rows) for number in range(len(self))]

    def take(self, rows: np.ndarray, n_threads: int = 1) -> Views:
        """Return the given rows as views in memory; several threads read a view each."""
        if self.on_dask:
            return self._fetched(rows).take(np.arange(len(rows)))
        ids = None if self.ids is None else self.ids[rows]
        return Views(tuple(in_order(lambda view: view.take(rows), self.views, n_threads)), ids, self.device)

    def pick(self, rows: np.ndarray) -> Views:
        """Return the given rows, in this order and perhaps repeated, without reading them."""
        if self.on_dask:
            raise ValueError("Rows of Dask collections cannot be chosen one by one. Choose them in the collections.")
        ids = None if self.ids is None else self.ids[rows]
        return Views(tuple(view.pick(rows) for view in self.views), ids, self.device)

    @property
    def on_dask(self) -> bool:
        """Whether the rows are the partitions of Dask collections."""
        return any(isinstance(view.data, DaskTable) for view in self.views)

    def _fetched(self, rows: np.ndarray) -> Views:
        """Return the given rows of Dask collections as views in memory: one pass over all of them together."""
        tables = fetch_rows([view.data for view in self.views], rows)
        views = tuple(replace(view, data=data) for view, data in zip(self.views, tables, strict=True))
        return replace(self, views=views)

    def read_view(self, number: int, rows: slice | np.ndarray) -> ViewBlock:
        """Return the given rows of one view."""
        block = self.views[number].read(rows)
        return block if self.device is None else block.on(self.device)

    @property
    def complete(self) -> bool:
        """Whether every row has every view, as far as that is known before the rows are read."""
        return all(view.positions is None or bool((view.positions >= 0).all()) for view in self.views)

    @property
    def may_lack(self) -> bool:
        """Whether only reading shows which rows have which views."""
        return any(view.may_lack for view in self.views)

    def presence(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Which of the given rows has which view."""
        size = len(range(self.n_rows)[rows]) if isinstance(rows, slice) else len(rows)
        full = np.ones(size, dtype=bool)
        return np.column_stack([full if view.present is None else view.present[rows] for view in self.views])  # (b, V)


@dataclass(frozen=True)
class ViewRows:
    """Views of the same rows as one object with a length that can be indexed by row: what `view_rows` returns."""

    views: Views

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of the columns of all views together."""
        return self.views.n_rows, sum(view.n_columns for view in self.views)

    def __len__(self) -> int:
        return self.views.n_rows

    def __repr__(self) -> str:
        return f"ViewRows({', '.join([f'{len(self)} rows', *(f'{own.name}: {own.n_columns}' for own in self.views)])})"

    def __getitem__(self, rows: Any) -> ViewRows:
        """Return some rows; nothing is read or copied."""
        chosen = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn asks for X[rows, ...]
        return ViewRows(self.views.pick(np.atleast_1d(np.arange(len(self))[chosen])))


def absent_views(names: Sequence[str], n_rows: int = 1) -> Views:
    """Return rows that lack every view."""
    return Views(tuple(View(name, np.zeros((0, 1)), None, np.full(n_rows, -1)) for name in names))


@dataclass(frozen=True)
class RawRows:
    """Some raw rows of every view, in memory."""

    first_row: int
    views: list[ViewBlock]


@dataclass(frozen=True)
class RowRange:
    """Some raw rows of every view, read on demand."""

    source: Views
    first_row: int
    stop: int
    origin: int = 0  # number of the source's first row, where the source is a part of all rows

    def read(self) -> RawRows:
        """Return the rows of every view."""
        return RawRows(self.origin + self.first_row, self.source.read(slice(self.first_row, self.stop)))


def mask_nan_rows(block: ViewBlock) -> ViewBlock:
    """Return a block of host memory with the rows that are NaN throughout marked as lacking the view."""
    missing = nan_rows(block.data)
    if not len(missing):
        return block
    present = np.ones(len(block.data), dtype=bool) if block.present is None else block.present.copy()
    present[missing] = False
    return ViewBlock(np.where(present[:, None], block.data, block.data.dtype.type(0)), present)


def nan_rows(data: Table) -> np.ndarray:
    """Return the numbers of the rows that are NaN throughout.

    Only rows that begin with NaN can be such rows, so a table without NaN costs a pass over one column.
    """
    if not is_float(data):
        return np.empty(0, dtype=np.int64)
    first = data[:, 0]  # (b,)
    xp = array_namespace(first)
    suspects = to_host(xp.nonzero(xp.isnan(first))[0])
    return suspects[to_host(xp.isnan(data[suspects])).all(axis=1)] if len(suspects) else suspects

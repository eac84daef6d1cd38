"""Whatever the user passes becomes named, validated views that can be read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from coterie.arrays import is_dask, like, to_host
from coterie.kernels import is_tensor
from coterie.rows.partitions import DaskTable, align_tables, as_dask_table, fetch_rows
from coterie.rows.torch import upload
from coterie.views.preparation import Table

# Frames of these libraries are recognised by the module they come from, so that neither need be imported.
FRAME_LIBRARIES = ("pandas", "polars", "modin")

CUDA = 2  # DLPack's number for a GPU's memory


@dataclass(frozen=True)
class ViewBlock:
    """Some rows of one view, as the user stored them."""

    data: Table  # (b, d); rows that lack the view are zero
    present: np.ndarray | None  # (b,) bool; None: every row has the view

    def on(self, device: Any) -> ViewBlock:
        """Return the rows on a device, unless they are sparse: those are prepared on the host first."""
        if is_tensor(self.data) or sparse.issparse(self.data):
            return self
        present = None if self.present is None else upload(self.present, device)
        return ViewBlock(upload(self.data, device), present)

    def known(self) -> Table:
        """Return the rows that have the view."""
        return self.data if self.present is None else self.data[self.present]


@dataclass(frozen=True)
class View:
    """One view: a table whose rows may be in another order than the fit's, or missing from it."""

    name: str
    data: Table  # (stored rows, d)
    columns: tuple[str, ...] | None = None
    positions: np.ndarray | None = None  # (n,) stored row of every row, -1 where it has none; None: 0..n-1
    may_lack: bool = False  # rows that are NaN throughout lack the view, which is seen when they are read

    @property
    def n_rows(self) -> int:
        """Rows of the fit, with or without this view."""
        return self.data.shape[0] if self.positions is None else len(self.positions)

    @property
    def n_columns(self) -> int:
        """Columns of the view."""
        return self.data.shape[1]

    @property
    def present(self) -> np.ndarray | None:
        """Which rows have this view; None: all of them."""
        return None if self.positions is None else self.positions >= 0  # (n,)

    def read(self, rows: slice | np.ndarray) -> ViewBlock:
        """Return the given rows, as stored; rows that lack the view are zero."""
        block = self._stored(rows)
        return without_nan_rows(block) if self.may_lack else block

    def take(self, rows: np.ndarray) -> View:
        """Return the given rows as a view in memory."""
        block = self.read(rows)
        present = to_host(block.present)
        positions = None if present is None else np.where(present, np.arange(len(rows)), -1)
        return View(self.name, block.data, self.columns, positions)

    def _stored(self, rows: slice | np.ndarray) -> ViewBlock:
        if self.positions is None:
            return ViewBlock(self.data[rows], None)
        positions = self.positions[rows]  # (b,)
        present = positions >= 0
        if present.all():
            return ViewBlock(self.data[positions], None)
        if is_tensor(self.data):
            known = like(present, self.data, bool)
            return ViewBlock(self.data[np.maximum(positions, 0)].masked_fill(~known[:, None], 0), known)
        if sparse.issparse(self.data) or getattr(self.data, "is_sparse", False):
            # An empty row at the end of the table stands for every missing one.
            empty = sparse.csr_array((1, self.n_columns), dtype=self.data.dtype)
            padded = sparse.vstack([self.data[positions[present]], empty], format="csr")
            order = np.where(present, np.cumsum(present) - 1, padded.shape[0] - 1)
            return ViewBlock(padded[order], present)
        data = np.zeros((len(positions), self.n_columns), dtype=self.data.dtype)
        data[present] = self.data[positions[present]]
        return ViewBlock(data, present)


@dataclass(frozen=True)
class Views(Sequence[View]):
    """The views of one set of rows, in a fixed order."""

    views: tuple[View, ...]
    ids: np.ndarray | None = None  # (n,) the rows' names, where the input had any
    device: Any = None  # where rows are brought as they are read; None: they stay where they are

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

    def take(self, rows: np.ndarray) -> Views:
        """Return the given rows as views in memory."""
        if self.on_dask:
            return self._fetched(rows).take(np.arange(len(rows)))
        ids = None if self.ids is None else self.ids[rows]
        return Views(tuple(view.take(rows) for view in self.views), ids, self.device)

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
class RawRows:
    """Some raw rows of every view, read."""

    first_row: int
    views: list[ViewBlock]


@dataclass(frozen=True)
class RowRange:
    """Raw rows that are read when they are needed."""

    source: Views
    first_row: int
    stop: int
    origin: int = 0  # number of the source's first row, where the source is a part of all rows

    def read(self) -> RawRows:
        """Return the rows of every view."""
        return RawRows(self.origin + self.first_row, self.source.read(slice(self.first_row, self.stop)))


def without_nan_rows(block: ViewBlock) -> ViewBlock:
    """Return a block of host memory in which rows that are NaN throughout lack the view."""
    missing = _nan_rows(block.data)
    if not len(missing):
        return block
    present = np.ones(len(block.data), dtype=bool) if block.present is None else block.present.copy()
    present[missing] = False
    return ViewBlock(np.where(present[:, None], block.data, block.data.dtype.type(0)), present)


def as_views(X: Any, groups: Any = None) -> Views:
    """Return what the user passed as validated views.

    Parameters
    ----------
    X : array, frame, or a list, tuple or dict of them
        Several 2-D tables with the same rows are several views. One table is one view, or as many as ``groups``
        names.
    groups : dict or list of column selections, optional
        How to split the columns of one table: slices, lists of column numbers, or lists of column names.

    Examples
    --------
    >>> import numpy as np
    >>> views = as_views({"words": np.zeros((4, 3)), "pixels": np.ones((4, 2))})
    >>> views.names, views.n_rows
    (('words', 'pixels'), 4)
    >>> as_views(np.zeros((4, 5)), groups={"left": slice(0, 2), "right": [2, 3, 4]}).names
    ('left', 'right')
    """
    X = open_files(X)
    if groups is not None:
        tables = _split_columns(X, groups)
    elif _is_dict_of_tables(X):
        tables = {str(name): table for name, table in X.items()}
        if len(tables) < len(X):
            raise ValueError(
                f"Two views have the same name: {', '.join(repr(name) for name in X)}. Rename one of them."
            )
    elif _is_list_of_tables(X):
        tables = {f"view{number}": table for number, table in enumerate(X)}
    else:
        tables = {"X": X}
    if not tables:
        raise ValueError("No views: X is empty. Pass at least one 2-D array.")
    lone = len(tables) == 1 and "X" in tables
    views = [_as_view(name, table, lone) for name, table in tables.items()]
    if any(isinstance(view.data, DaskTable) for view in views):
        return _align_partitions(views)
    if all(is_file_table(view.data) for view in views):
        return _align_files(views, [view.data for view in views])
    return _align(views, [_row_ids(table) for table in tables.values()])


def match_views(X: Any, groups: Any, names: Sequence[str]) -> Views:
    """Return new rows as views like those of the fit, in the fit's order.

    A dict may leave views out, and a list may hold None: the rows are then taken to lack those views.
    """
    X = list(open_files(X).values()) if _names_files(X) else open_files(X)  # a list is in the order of the fit's views
    if groups is None and _is_dict_of_tables(X):
        unknown = [str(name) for name in X if str(name) not in names]
        if unknown:
            raise ValueError(
                f"View {unknown[0]!r} was not in the fit, which had {', '.join(names)}. "
                "Pass the same names, or fit again."
            )
        known = {str(name): table for name, table in X.items() if table is not None}
        given = {name: known[name] for name in names if name in known}  # the fit's order decides that of the rows
    elif groups is None and _is_list_of_tables(X):
        if len(X) != len(names):
            raise ValueError(
                f"X has {len(X)} views, but the fit had {len(names)}: {', '.join(names)}. "
                "Pass them in the same order; None stands for a view that the rows lack."
            )
        given = {name: table for name, table in zip(names, X, strict=True) if table is not None}
    else:
        found = as_views(X, groups)
        if found.names != tuple(names):
            if len(found) != len(names):
                raise ValueError(f"X has {len(found)} view, but the fit had {len(names)}: {', '.join(names)}.")
            found = Views(
                tuple(
                    View(name, view.data, view.columns, view.positions) for name, view in zip(names, found, strict=True)
                ),
                found.ids,
            )
        return found
    if not given:
        raise ValueError("X holds no view at all. Pass at least one of: " + ", ".join(names) + ".")
    found = as_views(given)
    by_name = {view.name: view for view in found}
    absent = np.broadcast_to(-1, found.n_rows)
    views = tuple(by_name.get(name) or View(name, np.zeros((0, 0)), None, absent) for name in names)
    return Views(views, found.ids)


@dataclass(frozen=True)
class Shape:
    """What a view's columns were in the fit."""

    n_columns: int
    columns: tuple[str, ...] | None

    @classmethod
    def of(cls, view: View) -> Shape:
        """Return a view's shape."""
        return cls(view.n_columns, view.columns)


def check_columns(views: Views, shapes: Sequence[Shape]) -> None:
    """Refuse views with other columns than in the fit; a view that no row has may have any."""
    for view, shape in zip(views, shapes, strict=True):
        if not view.data.shape[0]:
            continue
        if view.n_columns != shape.n_columns:
            raise ValueError(
                f"View {view.name!r} has {view.n_columns} columns, but it had {shape.n_columns} in the fit. "
                "Pass the same columns in the same order."
            )
        if view.columns is not None and shape.columns is not None and view.columns != shape.columns:
            other = next(pair for pair in zip(view.columns, shape.columns, strict=True) if pair[0] != pair[1])
            raise ValueError(
                f"View {view.name!r} has column {other[0]!r} where it had {other[1]!r} in the fit. "
                "Pass the same columns in the same order."
            )


def check_overlap(views: Views, n_clusters: int) -> None:
    """Refuse views that too few rows have, or that no rows tie to the others."""
    if views.complete:
        return
    presence = views.presence()  # (n, V)
    shared = presence.astype(np.int64).T @ presence  # (V, V): rows that have both views
    needed = n_clusters + 1
    for v, name in enumerate(views.names):
        if shared[v, v] < needed:
            raise ValueError(
                f"View {name!r} is known for {shared[v, v]} of {views.n_rows} rows, too few to find {n_clusters} "
                "clusters in. Leave the view out, or add rows that have it."
            )
    n_groups, groups = connected_components(sparse.csr_array(shared >= needed))
    if n_groups > 1:
        apart = ", ".join(repr(name) for name, group in zip(views.names, groups, strict=True) if group == groups[0])
        raise ValueError(
            f"The views do not overlap enough: fewer than {needed} rows have both one of {apart} and one of the other "
            "views, so their clusters cannot be matched. Add rows that have both, or cluster the views apart."
        )


def lies_on_gpu(table: Any) -> bool:
    """Whether an array of any library lies in a GPU's memory."""
    return hasattr(table, "__dlpack_device__") and table.__dlpack_device__()[0] == CUDA


def open_files(X: Any) -> Any:
    """Return X with tables in the place of the paths of files, named as :func:`coterie.formats.open_views` does."""
    several = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else ()
    if not _names_files(X) and not any(map(_names_files, several)):
        return X
    from coterie.formats import open_table, open_views

    if _names_files(X):
        return open_views(X)
    if not isinstance(X, Mapping):
        return [open_table(table) if _names_files(table) else table for table in X]
    tables: dict[Any, Any] = {}
    for name, table in X.items():
        tables.update(open_views({name: table}) if _names_files(table) else {name: table})
    return tables


def _names_files(X: Any) -> bool:
    """Whether X is a path or a list of paths."""
    if isinstance(X, list | tuple) and X:
        return all(isinstance(item, str | PathLike) for item in X)
    return isinstance(X, str | PathLike)


def is_file_table(table: Any) -> bool:
    """Whether a table lies in a file and is read block by block (:mod:`coterie.formats`)."""
    return type(table).__module__.startswith("coterie.formats")


def _is_frame(table: Any) -> bool:
    return type(table).__module__.split(".")[0] in FRAME_LIBRARIES


def _is_dict_of_tables(X: Any) -> bool:
    return isinstance(X, Mapping) and not sparse.issparse(X)  # SciPy's DOK is a dict by birth


def _is_list_of_tables(X: Any) -> bool:
    """Whether X is a list of views, and not one table written as nested lists."""
    if not isinstance(X, list | tuple) or not X:
        return False
    # A table of pyarrow has neither, but names of columns.
    if any(hasattr(item, "ndim") or hasattr(item, "column_names") or _is_frame(item) or item is None for item in X):
        return True
    first = X[0]
    return isinstance(first, list | tuple) and bool(first) and isinstance(first[0], list | tuple)


def _split_columns(X: Any, groups: Any) -> dict[str, Any]:
    if _is_dict_of_tables(X) or _is_list_of_tables(X):
        raise ValueError(
            "views= splits the columns of one table, but X is a list or dict of tables already. "
            "Leave out views=, or pass one array or frame."
        )
    named = (
        groups.items()
        if isinstance(groups, Mapping)
        else ((f"view{number}", group) for number, group in enumerate(groups))
    )
    if not _is_frame(X) and not sparse.issparse(X) and not is_dask(X):
        X = np.asarray(X)
    return {str(name): _select_columns(X, str(name), group) for name, group in named}


def _select_columns(X: Any, name: str, group: Any) -> Any:
    names = list(X.columns) if _is_frame(X) or hasattr(X, "columns") else None
    if isinstance(group, str):
        group = [group]
    by_name = isinstance(group, list | tuple) and len(group) > 0 and all(isinstance(c, str) for c in group)
    if by_name:
        if names is None:
            raise ValueError(
                f"views[{name!r}] names columns, but X has no column names. Pass a frame, or slices or column numbers."
            )
        missing = [c for c in group if c not in names]
        if missing:
            raise ValueError(f"views[{name!r}] names column {missing[0]!r}, which X does not have.")
        return X[list(group)]
    width = X.shape[1] if getattr(X, "ndim", 2) == 2 else 0
    numbers = np.arange(width)[group] if isinstance(group, slice) else np.atleast_1d(np.asarray(group))
    if numbers.dtype == bool and len(numbers) == width:
        numbers = np.flatnonzero(numbers)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise ValueError(
            f"views[{name!r}] must be a slice, column numbers, column names or a mask of {width} columns. "
            f"Got {group!r} instead."
        )
    if numbers.size and (numbers.min() < -width or numbers.max() >= width):
        raise ValueError(f"views[{name!r}] reaches past the {width} columns of X.")
    if names is None:
        return X[:, group] if isinstance(group, slice) else X[:, numbers.astype(int)]
    return X.iloc[:, numbers] if hasattr(X, "iloc") else X[[names[c] for c in numbers]]


def _as_view(name: str, table: Any, lone: bool) -> View:
    label = "X" if lone else f"View {name!r}"
    named = getattr(table, "column_names", getattr(table, "columns", None))  # pyarrow's columns are the values
    columns = None if named is None else tuple(str(c) for c in named)
    table = _unmapped(name, table)
    data = table if is_file_table(table) else _as_dask_table(label, table) or _as_table(label, table)
    if data.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {data.ndim}D array instead: {label} has shape {data.shape}. "
            "Reshape your data: one row per sample, one column per feature "
            "(array.reshape(-1, 1) for a single feature)."
        )
    if data.shape[0] == 0:
        raise ValueError(
            f"{label}: found array with 0 sample(s) (shape={data.shape}) while a minimum of 1 is "
            "required. Pass at least as many rows as clusters."
        )
    if data.shape[1] == 0:
        raise ValueError(
            f"{label}: found array with 0 feature(s) (shape={data.shape}) while a minimum of 1 is "
            "required. Leave the view out."
        )
    if is_file_table(data) or isinstance(data, DaskTable):  # there is no end to looking at all of it now
        return View(name, data, columns, may_lack=not data.is_sparse and data.dtype.kind == "f")
    return View(name, data, columns, _positions_of_present_rows(data))


def _unmapped(name: str, table: Any) -> Any:
    """Return a memory map as a table in its file: rows that are read leave memory again, mapped ones do not."""
    if not isinstance(table, np.memmap) or table.ndim != 2 or not table.flags.c_contiguous:
        return table
    whole = table
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    if whole.filename is None or whole.mode == "c" or table.dtype.kind not in "biuf" or not table.size:
        return table  # there is no file, or what was written to the map is not in it
    from coterie.formats.tables import mapped_table

    return mapped_table(name, table, Path(whole.filename), whole.offset + table.ctypes.data - whole.ctypes.data)


def _as_table(label: str, table: Any) -> Table:
    """Return the table as a real NumPy array or CSR, copying only what cannot be used as it is."""
    if sparse.issparse(table):
        data: Any = sparse.csr_array(table)
        if not data.has_canonical_format:
            data = data.copy()
            data.sum_duplicates()
    elif _is_frame(table):
        data = _frame_values(table)
    else:
        if (tensor := _as_device_tensor(label, table)) is not None:
            return tensor
        if is_tensor(table):
            table = table.detach()
        if isinstance(table, np.ma.MaskedArray):
            table = np.ma.filled(table.astype(np.float64), np.nan)
        data = np.asarray(table)
    kind = data.dtype.kind
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {label} holds {data.dtype}. Pass real and imaginary parts as columns."
        )
    if kind in "biuf":
        return data
    if kind in "mM":
        raise ValueError(f"{label} holds dates or times ({data.dtype}). Turn them into numbers whose unit you choose.")
    if sparse.issparse(data):
        raise ValueError(f"{label} holds {data.dtype}. Convert it to numbers.")
    try:
        return data.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{label} holds values that are not numbers ({error}). "
            "Encode text and categories as numbers first, or leave those columns out."
        ) from error


def _as_dask_table(label: str, table: Any) -> DaskTable | None:
    """Return a Dask collection as a table; None for all else."""
    if not is_dask(table):
        return None
    found = as_dask_table(table)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{label} holds {found.dtype}. Turn its columns into real numbers, or leave them out.")
    return found


def _frame_values(table: Any) -> np.ndarray:
    """Return a frame's values; what it has no value for is NaN."""
    if hasattr(table, "iloc") and getattr(table, "ndim", 2) == 2 and any(hasattr(t, "na_value") for t in table.dtypes):
        return table.to_numpy(dtype=np.float64, na_value=np.nan)
    return table.to_numpy()


def _positions_of_present_rows(data: Table) -> np.ndarray | None:
    """Return where each row is stored, -1 for rows that are NaN throughout; None if there are none.

    Only rows that begin with NaN can be such rows, so a clean table costs a look at one column.
    """
    if sparse.issparse(data) or not _may_be_nan(data):
        return None
    missing = _nan_rows(data)
    if not len(missing):
        return None
    positions = np.arange(data.shape[0])
    positions[missing] = -1
    return positions


def _nan_rows(data: Table) -> np.ndarray:
    """Return the rows that are NaN throughout."""
    suspects = np.flatnonzero(_is_nan(data[:, 0]))
    return suspects[_is_nan(data[suspects]).all(axis=1)] if len(suspects) else suspects


def _may_be_nan(data: Table) -> bool:
    return data.is_floating_point() if is_tensor(data) else data.dtype.kind == "f"


def _is_nan(values: Any) -> np.ndarray:
    return to_host(values.isnan()) if is_tensor(values) else np.isnan(values)


def _as_device_tensor(label: str, table: Any) -> Any | None:
    """Return what lies on a GPU (torch, or CuPy and JAX by DLPack) as a tensor where it lies; None for all else."""
    if not lies_on_gpu(table):
        return None
    import torch

    found = table.detach() if is_tensor(table) else torch.from_dlpack(table)
    if found.is_complex():
        raise ValueError(f"Complex data not supported: {label}. Pass real and imaginary parts as columns.")
    return found.float() if found.dtype in (torch.uint16, torch.uint32) else found  # torch cannot pick rows of those


def _row_ids(table: Any) -> Any:
    """Return a pandas frame's index."""
    index = getattr(table, "index", None)
    return index if hasattr(index, "is_unique") and hasattr(index, "get_indexer") else None


def _align(views: list[View], ids: list[Any]) -> Views:
    """Check that the views have the same rows; frames with other indexes are matched by index."""
    known = [index for index in ids if index is not None]
    if any(not known[0].equals(index) for index in known[1:]):
        if len(known) < len(views):
            nameless = next(view.name for view, index in zip(views, ids, strict=True) if index is None)
            raise ValueError(
                f"The frames have different indexes, and view {nameless!r} has none to match its rows by. "
                "Pass it as a frame with an index, or bring all views to the same order first."
            )
        return _align_by_id(views, known)
    first = views[0]
    for view in views[1:]:
        if view.n_rows != first.n_rows:
            raise ValueError(
                f"View {view.name!r} has {view.n_rows} rows, but view {first.name!r} has {first.n_rows}. "
                "Every view needs the same rows in the same order; give a row that lacks a view NaN throughout, "
                "or pass frames whose indexes tell the rows apart."
            )
    lost = _rows_without_views(views)
    if len(lost):
        label = "X" if len(views) == 1 else "Every view"
        raise ValueError(
            f"{label} is NaN throughout in {len(lost)} rows (the first is row {lost[0]}): "
            "there is nothing to cluster them by. Leave them out."
        )
    return Views(tuple(views), None if not known else np.asarray(known[0]))


def _align_files(views: list[View], tables: list[Any]) -> Views:
    """Match the rows of tables in files: by id where they have ids, else by position."""
    from coterie.formats import match_rows

    ids, positions = match_rows(tables)
    return Views(tuple(replace(view, positions=rows) for view, rows in zip(views, positions, strict=True)), ids)


def _align_partitions(views: list[View]) -> Views:
    """Check that Dask collections have the same rows, and bring them to the same partitions."""
    own = next(view.name for view in views if isinstance(view.data, DaskTable))
    for view in views:
        if not isinstance(view.data, DaskTable):
            raise ValueError(
                f"View {own!r} is a Dask collection, but view {view.name!r} is not. Pass all views as Dask "
                "collections: dask.array.from_array turns an array into one."
            )
    found = _align(views, [None] * len(views))
    tables = align_tables([view.data for view in found])
    return Views(tuple(replace(view, data=table) for view, table in zip(found, tables, strict=True)))


def _align_by_id(views: list[View], ids: list[Any]) -> Views:
    union = ids[0]
    for view, index in zip(views, ids, strict=True):
        if not index.is_unique:
            raise ValueError(
                f"View {view.name!r} has repeated row ids ({index[index.duplicated()][0]!r} among them), so its "
                "rows cannot be matched with those of the other views. Make the index unique."
            )
        union = union.append(index.difference(union, sort=False))
    aligned = []
    for view, index in zip(views, ids, strict=True):
        positions = np.asarray(index.get_indexer(union))  # (n,)
        if view.positions is not None:
            positions = np.where(positions >= 0, view.positions[positions], -1)
        in_place = np.array_equal(positions, np.arange(view.data.shape[0]))
        aligned.append(View(view.name, view.data, view.columns, None if in_place else positions))
    lost = _rows_without_views(aligned)
    if len(lost):
        raise ValueError(
            f"Row {union[lost[0]]!r} and {len(lost) - 1} more are NaN throughout in every view. Leave them out."
        )
    return Views(tuple(aligned), np.asarray(union))


def _rows_without_views(views: list[View]) -> np.ndarray:
    if any(view.positions is None for view in views):
        return np.empty(0, dtype=int)
    return np.flatnonzero(~Views(tuple(views)).presence().any(axis=1))

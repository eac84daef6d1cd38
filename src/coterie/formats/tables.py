"""A table in a file: read block by block, by several threads at once, in any process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from coterie.formats.errors import FormatError, NoRowsError, blaming
from coterie.formats.matching import match_ids
from coterie.formats.unpacking import is_bomb

# A NumPy array or a SciPy CSR array; SciPy has no types to say so.
Table: TypeAlias = Any
Value = TypeVar("Value")
Columns: TypeAlias = "str | int | slice | Sequence[str | int | slice] | None"

# Scattered rows are read together where no more than this is between them, in pieces of about this size.
NEAR_ROWS, NEAR_BYTES = 32, 64 << 10
SPAN_BYTES = 32 << 20
LETTER_BYTES = 4  # in NumPy's text


class Lazy(Generic[Value]):
    """A value that is made when it is first asked for, once for all threads of a process.

    Only the recipe is pickled, so that an open file never is.

    Examples
    --------
    >>> squares = Lazy(pow, 3, 2)
    >>> squares()
    9
    """

    def __init__(self, make: Callable[..., Value], *arguments: Any) -> None:
        self._recipe = (make, *arguments)
        self._lock = threading.Lock()
        self._made: tuple[int, Value] | None = None

    def __call__(self) -> Value:
        """Return the value."""
        with self._lock:
            # A forked process must not share the file positions of its parent.
            if self._made is None or self._made[0] != os.getpid():
                make, *arguments = self._recipe
                self._made = (os.getpid(), make(*arguments))
            return self._made[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazy, self._recipe


@dataclass(frozen=True)
class Target:
    """Known labels, for evaluation only.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Numbers or text, as the file has them.
    ids : ndarray of shape (n,) or None
        The rows' names, where the file has any.
    """

    labels: np.ndarray
    ids: np.ndarray | None = None
    where: str = "The target"

    def for_rows(self, ids: np.ndarray | None, n_rows: int) -> np.ndarray:
        """Return the labels of some rows: by id where both have ids, else by position.

        Parameters
        ----------
        ids : ndarray of shape (n_rows,) or None
            The rows' ids.
        n_rows : int

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if ids is None or self.ids is None:
            if len(self.labels) != n_rows:
                raise FormatError(f"{self.where} has {len(self.labels)} labels for {n_rows} rows. Give both row ids.")
            return self.labels
        _, (_, found) = match_ids([("The data", ids), (self.where, self.ids)])
        places = np.arange(n_rows) if found is None else found[:n_rows]
        lacking = np.flatnonzero(places < 0)
        if len(lacking):
            row = str(ids[lacking[0]])
            raise FormatError(
                f"{self.where} has no label for {len(lacking)} of the rows, {row!r} among them. Add them."
            )
        return self.labels[places]


@dataclass(frozen=True, kw_only=True)
class Store:
    """What every format offers: a table of which any run of rows can be read."""

    where: str  # the file and the key, for messages
    shape: tuple[int, int]
    dtype: np.dtype
    columns: tuple[str, ...] | None = None
    ids: Lazy[np.ndarray] | None = None
    types: str = ""  # how the values are stored, where that says more than the dtype

    is_sparse: ClassVar[bool] = False

    def read(self, start: int, stop: int) -> Table:
        """Return the rows from start to stop."""
        raise NotImplementedError

    def take(self, rows: np.ndarray) -> Table:
        """Return rows by number; there is at least one, and the numbers rise."""
        parts = []
        for first, last in self._spans(rows):
            start = int(rows[first])
            parts.append(self.read(start, int(rows[last - 1]) + 1)[rows[first:last] - start])
        return stacked(parts)

    def _spans(self, rows: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yield runs of entries of ``rows`` that are near enough to be read together."""
        row_bytes = self.dtype.itemsize * self.shape[1]
        near = NEAR_ROWS + NEAR_BYTES // row_bytes
        longest = near + SPAN_BYTES // row_bytes
        first = 0
        breaks = np.flatnonzero(np.diff(rows) > near) + 1
        for end in [*breaks.tolist(), len(rows)]:
            while first < end:
                last = min(end, int(np.searchsorted(rows, rows[first] + longest)))
                yield first, last
                first = last


@dataclass(frozen=True, kw_only=True)
class ArrayStore(Store):
    """An array that can be sliced: in memory, mapped, or in an HDF5 or zarr file."""

    array: Lazy[Any]
    transposed: bool = False  # MATLAB's HDF5 files hold a row of the table in a column of the array

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop, images and the like as one row each."""
        array = self.array()
        block = np.asarray(array[..., start:stop].T if self.transposed else array[start:stop])
        return self._flat(block)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by number."""
        array = self.array()
        if isinstance(array, np.ndarray) and not self.transposed:
            return self._flat(np.asarray(array[rows]))
        return super().take(rows)

    def _flat(self, block: np.ndarray) -> np.ndarray:
        return block.reshape(len(block), self.shape[1]).astype(self.dtype, order="C", copy=False)  # (b, d)


@dataclass(frozen=True, kw_only=True)
class RawStore(Store):
    """Rows that lie one after the other in a file; they are read and not mapped, so that memory stays free."""

    path: Path
    stored: np.dtype  # with the file's byte order
    offset: int  # where the first row begins

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop."""
        width = self.shape[1]
        offset = self.offset + start * width * self.stored.itemsize
        values = np.fromfile(self.path, self.stored, (stop - start) * width, offset=offset)
        return values.reshape(-1, width).astype(self.dtype, copy=False)  # (b, d)


@dataclass(frozen=True, kw_only=True)
class CSRStore(Store):
    """A sparse matrix whose three CSR arrays can be sliced."""

    parts: Lazy[tuple[Any, Any, Any]]  # data, indices, indptr

    is_sparse: ClassVar[bool] = True

    def read(self, start: int, stop: int) -> sparse.csr_array:
        """Return the rows from start to stop."""
        data, indices, indptr = self.parts()
        starts = np.asarray(indptr[start : stop + 1], dtype=np.int64)  # (b + 1,)
        first, last = int(starts[0]), int(starts[-1])
        if first < 0 or last > data.shape[0] or falls(starts):
            raise FormatError(f"{self.where}: the row pointers (indptr) of rows {start} to {stop - 1} are broken.")
        columns = np.array(indices[first:last])
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.shape[1]:
            raise FormatError(
                f"{self.where}: rows {start} to {stop - 1} have an entry in column {columns.max()}, "
                f"but there are {self.shape[1]} columns."
            )
        values = np.array(data[first:last], dtype=self.dtype)
        block = sparse.csr_array((values, columns, starts - first), shape=(len(starts) - 1, self.shape[1]))
        block.sum_duplicates()
        return block


@dataclass(frozen=True, kw_only=True)
class StackStore(Store):
    """The rows of several stores, one after the other."""

    stores: tuple[Store, ...]
    starts: np.ndarray  # (s + 1,) the first row of each store, and the number of rows

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the stores are sparse; all of them are, or none."""
        return self.stores[0].is_sparse

    def read(self, start: int, stop: int) -> Table:
        """Return the rows from start to stop."""
        first, last = np.searchsorted(self.starts, [start, max(stop - 1, start)], side="right") - 1
        parts = []
        for store, offset in zip(self.stores[first : last + 1], self.starts[first : last + 1], strict=True):
            begin, end = max(start - offset, 0), min(stop - offset, store.shape[0])
            with blaming(f"{store.where}, rows {begin} to {end - 1},"):
                parts.append(store.read(begin, end))
        return stacked(parts).astype(self.dtype, copy=False)

    def take(self, rows: np.ndarray) -> Table:
        """Return rows by number; the numbers rise."""
        edges = np.searchsorted(rows, self.starts)  # (s + 1,)
        parts = []
        for i in np.flatnonzero(np.diff(edges)):
            mine = rows[edges[i] : edges[i + 1]] - self.starts[i]
            with blaming(f"{self.stores[i].where}, rows {mine[0]} to {mine[-1]},"):
                parts.append(self.stores[i].take(mine))
        return stacked(parts).astype(self.dtype, copy=False)


@dataclass(frozen=True, kw_only=True)
class MatchedStore(Store):
    """The rows of a table in another order; those that it lacks are NaN."""

    table: FileTable
    rows: np.ndarray  # (n,) where the table has each row; -1 where it has none

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the table is sparse; one that lacks rows is not, for then rows are NaN throughout."""
        return self.table.is_sparse and bool((self.rows >= 0).all())

    def read(self, start: int, stop: int) -> Table:
        """Return the rows from start to stop."""
        return self._at(self.rows[start:stop])

    def take(self, rows: np.ndarray) -> Table:
        """Return rows by number."""
        return self._at(self.rows[rows])

    def _at(self, places: np.ndarray) -> Table:
        present = places >= 0  # (b,)
        known = self.table[places[present]]
        if self.table.is_sparse and not self.is_sparse:
            known = known.toarray()
        if present.all():
            return known.astype(self.dtype, copy=False)
        block = np.full((len(places), self.shape[1]), np.nan, self.dtype)  # (b, d)
        block[present] = known
        return block


def stacked(parts: Sequence[Table]) -> Table:
    """Return blocks of rows as one block."""
    if len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


class FileTable:
    """A table in a file, read block by block.

    ``table[10:20]`` and ``table[[3, 5, 8]]`` give rows as a NumPy array or a SciPy CSR array of the type that the
    file holds. Several threads may read at once. A pickled table opens its file again where it is unpickled.

    Attributes
    ----------
    name : str
        The name of the view.
    where : str
        The file, and the key in it.
    shape : tuple of int
    dtype : numpy.dtype
    columns : tuple of str or None
        The columns' names, where the file has any.
    ids : ndarray or None
        The rows' names, where the file has any. They are read when they are first asked for.
    is_sparse : bool
    """

    ndim = 2

    def __init__(self, name: str, store: Store, chosen: np.ndarray | None = None, files: Sequence[Path] = ()) -> None:
        self.name = name
        self.store = store
        self.chosen = chosen  # column numbers; None: all of them
        self.files = tuple(files)

    @property
    def written(self) -> list[tuple[int, int]]:
        """The files' sizes, and when they were written: other numbers are other rows."""
        found = [path.stat() for path in self.files]
        return [(status.st_size, status.st_mtime_ns) for status in found]

    @property
    def where(self) -> str:
        """The file and the key in it."""
        return self.store.where

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.store.shape if self.chosen is None else (self.store.shape[0], len(self.chosen))

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        return self.store.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are CSR arrays."""
        return self.store.is_sparse

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns' names, where the file has any."""
        names = self.store.columns
        return names if names is None or self.chosen is None else tuple(names[c] for c in self.chosen)

    @property
    def ids(self) -> np.ndarray | None:
        """The rows' names, where the file has any."""
        if self.store.ids is None:
            return None
        with blaming(f"{self.where}: the row ids"):
            ids = self.store.ids()
        if len(ids) != len(self):
            raise FormatError(f"{self.where} has {len(self)} rows but {len(ids)} row ids. Write it again.")
        return ids

    def at(self, rows: np.ndarray) -> FileTable:
        """Return the table with its rows in another order, without reading it.

        Parameters
        ----------
        rows : ndarray of shape (n,)
            Where this table has each row, as `match_rows` says; -1 for one that it lacks, which is NaN throughout.

        Returns
        -------
        FileTable
            Without ids, and not sparse if it lacks rows.
        """
        dtype = self.dtype if (rows >= 0).all() else np.promote_types(self.dtype, np.float32)
        shape = (len(rows), self.shape[1])
        store = MatchedStore(
            where=self.where, shape=shape, dtype=dtype, columns=self.columns, table=self, rows=np.asarray(rows)
        )
        return FileTable(self.name, store)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = " sparse" if self.is_sparse else ""
        return f"FileTable({self.name!r}, {self.shape[0]} x {self.shape[1]} {self.dtype}{kind}, {self.where})"

    def __getitem__(self, rows: Any) -> Table:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._read(self.store.read, (start, max(start, stop)), start, max(start, stop) - 1)
            rows = np.arange(start, stop, step)
        numbers = self._row_numbers(rows)
        if not len(numbers):
            return self[:0]
        rising, back = (numbers, None) if (np.diff(numbers) > 0).all() else np.unique(numbers, return_inverse=True)
        block = self._read(self.store.take, (rising,), rising[0], rising[-1], len(rising))
        return block if back is None else block[back]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        block = self[:]
        return np.asarray(block.toarray() if self.is_sparse else block, dtype=dtype)

    def _row_numbers(self, rows: Any) -> np.ndarray:
        numbers = np.asarray(rows)
        if numbers.ndim == 1 and numbers.dtype == bool and len(numbers) == len(self):
            return np.flatnonzero(numbers)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise TypeError(f"Rows of {self.where} are chosen by a slice or a list of row numbers. Got {rows!r}.")
        numbers = numbers.astype(np.int64)
        if numbers.size and not -len(self) <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"{self.where} has {len(self)} rows. Asked for {numbers.min()} to {numbers.max()}.")
        return np.where(numbers < 0, numbers + len(self), numbers)

    def _read(
        self, read: Callable[..., Table], rows: tuple[Any, ...], first: int, last: int, count: int | None = None
    ) -> Table:
        """Return the chosen columns of some rows; an error says which rows they are."""
        count = last + 1 - first if count is None else count
        place = f"{self.where}, rows {first} to {last},"
        with blaming(place):
            block = read(*rows)
        if block.shape[0] != count:
            raise FormatError(f"{place} gave {block.shape[0]} rows instead of {count}. Has the file been changed?")
        return block if self.chosen is None else block[:, self.chosen]


def mapped_table(name: str, array: np.memmap, path: Path, offset: int) -> FileTable:
    """Return the table that a memory map shows, whose first row begins at a byte of the file."""
    dtype = check_dtype(array.dtype, str(path))
    shape = (array.shape[0], array.shape[1])
    store = RawStore(where=str(path), shape=shape, dtype=dtype, path=path, stored=array.dtype, offset=offset)
    return FileTable(name, store, files=[path])


def falls(pointers: np.ndarray) -> bool:
    """Whether pointers ever decrease; their differences could be too large for their type."""
    return bool((pointers[1:] < pointers[:-1]).any())


def csr_parts_of(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a sparse matrix that was read whole by rows, after making sure that no index points outside of it."""
    if hasattr(matrix, "check_format"):
        if falls(matrix.indptr):  # which SciPy does not ask of a matrix without entries, nor past an overflow
            raise ValueError("its pointers (indptr) must never fall")
        matrix.check_format(full_check=True)
    rows = sparse.csr_array(matrix)
    return rows.data, rows.indices, rows.indptr


def check_dtype(dtype: np.dtype, where: str) -> np.dtype:
    """Return the type that values are read as; refuse what is not a real number."""
    if dtype.kind in "biuf":
        return dtype.newbyteorder("=")
    if dtype.kind == "c":
        raise FormatError(f"{where} holds complex numbers. Store the real and imaginary parts as columns.")
    if dtype.kind in "mM":
        raise FormatError(f"{where} holds dates or times. Store them as numbers whose unit you choose.")
    if dtype.kind == "O":
        raise FormatError(f"{where} holds Python objects, which Coterie never unpickles. Store plain numbers.")
    if dtype.names:
        raise FormatError(f"{where} holds records ({', '.join(dtype.names)}). Store a two-dimensional array.")
    raise FormatError(f"{where} holds text ({dtype}). Encode it as numbers first.")


def check_shape(shape: Sequence[int], where: str) -> tuple[int, int]:
    """Return rows and columns: one number a row is one column, an image a row is flattened."""
    if len(shape) == 0:
        raise FormatError(f"{where} is a single number. A table has rows and columns.")
    n_columns = 1
    for side in shape[1:]:
        n_columns *= int(side)
    if shape[0] == 0:
        raise NoRowsError(f"{where} has no rows. Leave the file out.")
    if n_columns == 0:
        raise FormatError(f"{where} has no columns. Leave the file out.")
    return int(shape[0]), n_columns


def choose_columns(columns: Columns, names: Sequence[str] | None, width: int, where: str) -> np.ndarray | None:
    """Return the numbers of the chosen columns; None: all of them.

    A choice is a name, a number, or a range of numbers as in Python; "3" and "2:5" may be written as text. A name that
    is there goes before a number.

    Examples
    --------
    >>> choose_columns(["b", "0", "2:"], ("a", "b", "c", "d"), 4, "a.csv").tolist()
    [1, 0, 2, 3]
    """
    if columns is None:
        return None
    places = {name: number for number, name in enumerate(names or ())}
    chosen: list[int] = []
    for choice in [columns] if isinstance(columns, str | int | slice) else columns:
        if isinstance(choice, str) and choice in places:
            chosen.append(places[choice])
            continue
        span = as_range(choice, width)
        if span is None:
            there = listed(names) if names else f"it has no names, only numbers from 0 to {width - 1}"
            raise FormatError(f"{where} has no column {choice!r} ({there}).")
        chosen.extend(span)
    if not chosen:
        raise FormatError(f"{where}: no column is chosen. Name at least one of {listed(names or range(width))}.")
    return np.array(chosen)


def as_range(choice: Any, width: int) -> range | None:
    """Return the columns that a number or a range means; None where it means none."""
    if isinstance(choice, str):
        ends = choice.split(":")
        try:
            numbers = [int(end) if end.strip() else None for end in ends]
        except ValueError:
            return None
        if len(ends) > 2 or (len(ends) == 1 and numbers[0] is None):
            return None
        choice = numbers[0] if len(ends) == 1 else slice(*numbers)
    if isinstance(choice, slice):
        return range(width)[choice]
    number = int(choice)
    number = number + width if number < 0 else number
    return range(number, number + 1) if 0 <= number < width else None


def as_text(values: Sequence[Any] | np.ndarray, where: str) -> np.ndarray:
    """Return texts as an array, in which each takes as much room as the longest."""
    lengths = [len(value) if isinstance(value, str | bytes) else 0 for value in values]
    longest = max(lengths, default=0)
    if is_bomb(LETTER_BYTES * longest * len(lengths), sum(lengths)):
        raise FormatError(f"{where} has a text of {longest:,} letters among {len(lengths):,} of few. Shorten it.")
    return np.array(values, dtype=object).astype(np.str_)


def listed(names: Any, most: int = 12) -> str:
    """Return names in one line, not more than a reader wants to see."""
    names = [str(name) for name in names]
    rest = f", ... ({len(names)} in all)" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + rest


def place(path: Path, key: str | None) -> str:
    """Return a file and a key as they are written on the command line."""
    return f"{path}::{key}" if key else str(path)

"""Stores: tables of which any range of rows can be read, with the kinds that several formats share."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from coterie.formats.checks import check_dtype
from coterie.formats.errors import FormatError, errors_naming

# A NumPy array or a SciPy CSR array; SciPy has no static types for this.
RowBlock: TypeAlias = Any
Value = TypeVar("Value")

# Scattered rows are read in one span if no more than GAP_ROWS rows plus GAP_BYTES lie between them; a span has about
# SPAN_BYTES at most.
GAP_ROWS, GAP_BYTES = 32, 64 << 10
SPAN_BYTES = 32 << 20


class Lazy(Generic[Value]):
    """A value that is computed on first use, once for all threads of a process.

    Only the function and its arguments are pickled, never the value, which may be an open file.

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


@dataclass(frozen=True, kw_only=True)
class Store:
    """A table of which any range of rows can be read: the base class of what a format opens."""

    where: str  # the file and the key, for messages
    shape: tuple[int, int]
    dtype: np.dtype
    columns: tuple[str, ...] | None = None
    ids: Lazy[np.ndarray] | None = None
    numbers: range | None = None  # pandas' RangeIndex of the rows, if the file has no other ids
    types: str = ""  # how the values are stored, where that says more than the dtype
    is_sparse: bool = False

    def read(self, start: int, stop: int) -> RowBlock:
        """Return the rows from start to stop."""
        raise NotImplementedError

    def take(self, rows: np.ndarray) -> RowBlock:
        """Return rows by number; ``rows`` is not empty and strictly ascending."""
        parts = []
        for first, last in self._spans(rows):
            start = int(rows[first])
            parts.append(self.read(start, int(rows[last - 1]) + 1)[rows[first:last] - start])
        return stack_blocks(parts)

    def _spans(self, rows: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yield ranges of entries of ``rows`` that are near enough to be read together."""
        row_bytes = self.dtype.itemsize * self.shape[1]
        near = GAP_ROWS + GAP_BYTES // row_bytes
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


def file_version(status: os.stat_result) -> tuple[int, ...]:
    """Return numbers that change when a file is replaced or modified, also by one of the same size and time."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, kw_only=True)
class RawStore(Store):
    """Contiguous rows of a file; they are read and not mapped, so that memory stays free."""

    path: Path
    stored: np.dtype  # with the file's byte order
    offset: int  # where the first row begins
    version: tuple[int, ...]  # of the file, when it was opened

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop."""
        width = self.shape[1]
        with open(self.path, "rb") as file:
            if file_version(os.fstat(file.fileno())) != self.version:
                raise FormatError(f"{self.where} was changed or replaced while it was read. Open it again.")
            file.seek(self.offset + start * width * self.stored.itemsize)
            values = np.fromfile(file, self.stored, (stop - start) * width)
        return values.reshape(-1, width).astype(self.dtype, copy=False)  # (b, d)


@dataclass(frozen=True, kw_only=True)
class MapStore(Store):
    """The rows of a memory map that is open already; pages are released after reading, so that memory stays free.

    The file is not opened again: its path may by now be that of another file, or of none.
    """

    array: np.ndarray  # (n, d), contiguous in the map
    pages: Any  # the map itself, an mmap.mmap
    end: int  # byte of the file at which the map ends

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop."""
        self._refuse_cut()
        part = self.array[start:stop]
        block = np.array(part, dtype=self.dtype)  # (b, d)
        if part.size and hasattr(self.pages, "madvise"):
            page = mmap.PAGESIZE
            first = part.ctypes.data - np.frombuffer(self.pages, np.uint8).ctypes.data
            begin = first // page * page
            self.pages.madvise(mmap.MADV_DONTNEED, begin, first + part.nbytes - begin)
        return block

    def _refuse_cut(self) -> None:
        """Refuse a file that was truncated: reading a map beyond the end of its file kills the process."""
        size = self.pages.size()  # of the mapped file, not of the file that its path names now
        if size < self.end:
            raise FormatError(f"{self.where} was cut to {size} bytes while it was mapped. Map it again.")


@dataclass(frozen=True, kw_only=True)
class CSRStore(Store):
    """A sparse matrix whose three CSR arrays can be sliced."""

    parts: Lazy[tuple[Any, Any, Any]]  # data, indices, indptr
    is_sparse: bool = True

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

    def read(self, start: int, stop: int) -> RowBlock:
        """Return the rows from start to stop."""
        first, last = np.searchsorted(self.starts, [start, max(stop - 1, start)], side="right") - 1
        parts = []
        for store, offset in zip(self.stores[first : last + 1], self.starts[first : last + 1], strict=True):
            begin, end = max(start - offset, 0), min(stop - offset, store.shape[0])
            with errors_naming(f"{store.where}, rows {begin} to {end - 1},"):
                parts.append(store.read(begin, end))
        return stack_blocks(parts).astype(self.dtype, copy=False)

    def take(self, rows: np.ndarray) -> RowBlock:
        """Return rows by number; ``rows`` is strictly ascending."""
        edges = np.searchsorted(rows, self.starts)  # (s + 1,)
        parts = []
        for i in np.flatnonzero(np.diff(edges)):
            mine = rows[edges[i] : edges[i + 1]] - self.starts[i]
            with errors_naming(f"{self.stores[i].where}, rows {mine[0]} to {mine[-1]},"):
                parts.append(self.stores[i].take(mine))
        return stack_blocks(parts).astype(self.dtype, copy=False)


def sparse_store(
    where: str, shape: tuple[int, int], arrays: Sequence[Any], parts: Lazy[Any], by_rows: bool = True, **names: Any
) -> CSRStore:
    """Return a store of a sparse matrix; refuse data, indices and indptr whose shapes do not fit its own."""
    data, indices, indptr = arrays
    n_lines, lines = (shape[0], "row") if by_rows else (shape[1], "column")
    if indptr.shape != (n_lines + 1,) or data.shape != indices.shape or indices.dtype.kind not in "iu":
        raise FormatError(
            f"{where} is not a sparse matrix of {n_lines} {lines}s: it has {indptr.shape[0]} {lines} pointers, "
            f"{indices.shape[0]} indices and {data.shape[0]} values. Write it again."
        )
    return CSRStore(where=where, shape=shape, dtype=check_dtype(np.dtype(data.dtype), where), parts=parts, **names)


def stack_blocks(parts: Sequence[RowBlock]) -> RowBlock:
    """Return blocks of rows as one block."""
    if len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def falls(pointers: np.ndarray) -> bool:
    """Whether pointers ever decrease; they are compared because differences could overflow."""
    return bool((pointers[1:] < pointers[:-1]).any())


def build_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], prefix: str = ""
) -> sparse.csr_array:
    """Return a CSR array, after a check that no index is out of range; ``prefix`` is put before the names of its parts.

    Examples
    --------
    >>> build_csr(np.ones(2), np.array([0, 3]), np.array([0, 1, 2]), (2, 3))
    Traceback (most recent call last):
    ...
    ValueError: 'indices' must lie between 0 and 2. Got 0 to 3.
    """
    for part, array in {"data": data, "indices": indices, "indptr": indptr}.items():
        if array.ndim != 1 or array.dtype.kind not in ("buif" if part == "data" else "iu"):
            got = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"'{prefix}{part}' must be one-dimensional and numeric. Got {got} instead.")
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or falls(indptr):
        raise ValueError(
            f"'{prefix}indptr' must be {shape[0] + 1} numbers that start at 0 and never fall, one more than there are "
            f"rows. Got {len(indptr)}."
        )
    if not indptr[-1] == len(indices) == len(data):
        raise ValueError(
            f"'{prefix}indptr' must end at the number of entries. It ends at {indptr[-1]}, with {len(indices)} indices "
            f"and {len(data)} values."
        )
    if len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]:
        raise ValueError(
            f"'{prefix}indices' must lie between 0 and {shape[1] - 1}. Got {indices.min()} to {indices.max()}."
        )
    return sparse.csr_array((data, indices, indptr), shape=shape)


def csr_parts_of(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of a sparse matrix in memory, after a check that no index is out of range."""
    if hasattr(matrix, "check_format"):
        if falls(matrix.indptr):  # which SciPy misses without entries, or if differences overflow
            raise ValueError("its pointers (indptr) must never fall")
        matrix.check_format(full_check=True)
    rows = sparse.csr_array(matrix)
    return rows.data, rows.indices, rows.indptr

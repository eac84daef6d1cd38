"""A table in a file: read block by block, by several threads at once, in any process."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.formats.checks import check_dtype
from coterie.formats.errors import FormatError, errors_naming
from coterie.formats.stores import MapStore, RowBlock, Store

if TYPE_CHECKING:
    from coterie.formats.registry import Request


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
    request : Request or None
        What was asked of the file: columns, the column of ids, and so on.
    is_sparse : bool
    """

    ndim = 2

    def __init__(
        self,
        name: str,
        store: Store,
        chosen: np.ndarray | None = None,
        files: Sequence[Path] = (),
        request: Request | None = None,
    ) -> None:
        self.name = name
        self.request = request
        self.store = store
        self.chosen = chosen  # column numbers; None: all of them
        self.files = tuple(files)
        self.where, self.dtype, self.is_sparse = store.where, store.dtype, store.is_sparse
        self.shape, self.columns = store.shape, store.columns
        if chosen is not None:
            self.shape = store.shape[0], len(chosen)
            self.columns = None if store.columns is None else tuple(store.columns[c] for c in chosen)

    @property
    def written(self) -> list[tuple[int, int]]:
        """The files' sizes and modification times; rows may have changed if these have."""
        found = [path.stat() for path in self.files]
        return [(status.st_size, status.st_mtime_ns) for status in found]

    @property
    def ids(self) -> np.ndarray | None:
        """The rows' names, where the file has any."""
        if self.store.ids is None:
            return None
        with errors_naming(f"{self.where}: the row ids"):
            ids = self.store.ids()
        if len(ids) != len(self):
            raise FormatError(f"{self.where} has {len(self)} rows but {len(ids)} row ids. Write it again.")
        return ids

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = " sparse" if self.is_sparse else ""
        return f"FileTable({self.name!r}, {self.shape[0]} x {self.shape[1]} {self.dtype}{kind}, {self.where})"

    def __getitem__(self, rows: Any) -> RowBlock:
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
        self, read: Callable[..., RowBlock], rows: tuple[Any, ...], first: int, last: int, count: int | None = None
    ) -> RowBlock:
        """Return the chosen columns of some rows; an error says which rows they are."""
        count = last + 1 - first if count is None else count
        where = f"{self.where}, rows {first} to {last},"
        with errors_naming(where):
            block = read(*rows)
        if block.shape[0] != count:
            raise FormatError(f"{where} gave {block.shape[0]} rows instead of {count}. Has the file been changed?")
        return block if self.chosen is None else block[:, self.chosen]


def mapped_table(name: str, array: np.memmap, pages: Any, path: Path) -> FileTable:
    """Return an open memory map as a table."""
    dtype = check_dtype(array.dtype, str(path))
    shape = (array.shape[0], array.shape[1])
    end = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY + len(pages)
    return FileTable(name, MapStore(where=str(path), shape=shape, dtype=dtype, array=array, pages=pages, end=end))

"""Write tables of any format to a file of another, block by block where the formats allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from coterie.files import expand_home, written_whole
from coterie.formats.bundles import write_bundle
from coterie.formats.errors import FormatError, package
from coterie.formats.writing import WRITERS, open_writer

COPIED_BYTES = 32 << 20  # of float64 values in a block
TREES = (".h5", ".hdf5")
ARRAYS = (".npy", ".npz")  # hold a table as one array, not by its columns


def write_views(
    path: str | PathLike[str],
    views: Mapping[str, Any],
    *,
    ids: Any = None,
    target: Any = None,
    dense: bool = False,
    tell: Callable[[int], None] | None = None,
) -> None:
    """Write one table or several with the same rows to a file.

    Parameters
    ----------
    path : str or path
        One table may go to any format of `write_table`, where a table with column names keeps them. Several go to
        ``.npz``, as a bundle (:func:`coterie.datasets.save_views`), or to ``.h5``, an array each. A sparse table stays
        sparse in these two.
    views : mapping of str to FileTable, array, sparse array or frame
        The tables by name, with the same rows.
    ids : array-like or None, default=None
        The rows' ids; ``.npy`` and bundles cannot store them.
    target : array-like or None, default=None
        Known labels, kept as ``y``.
    dense : bool, default=False
        Whether sparse tables may be written as dense ones.
    tell : callable, default=None
        Called with the number of rows that are written.

    Examples
    --------
    >>> import tempfile
    >>> from coterie.formats import open_views
    >>> path = tempfile.mkdtemp() + "/both.npz"
    >>> write_views(path, {"left": np.eye(3), "right": sparse.csr_array(np.eye(3))})
    >>> [(name, table.is_sparse) for name, table in open_views(path).items()]
    [('left', False), ('right', True)]
    """
    path = expand_home(path)
    suffix = path.suffix.lower()
    tell = tell or (lambda rows: None)
    if suffix in TREES:
        return write_tree(path, views, ids, target, dense, tell)
    if suffix == ".npz" and (
        len(views) > 1 or target is not None or (any(map(is_sparse, views.values())) and not dense)
    ):
        return write_npz(path, views, target, dense)
    if suffix not in WRITERS and suffix != ".gz":
        raise FormatError(f"{path} cannot be written: {suffix or 'no extension'} is none of {listed_formats()}.")
    if len(views) > 1:
        raise FormatError(f"{path} holds one table, but there are {len(views)}. Write .npz or .h5, or one file each.")
    ((name, table),) = views.items()
    if is_sparse(table) and not dense:
        size = table.shape[0] * table.shape[1] * np.dtype(table.dtype).itemsize
        raise FormatError(
            f"View {name!r} is sparse, and {path} would hold {size / 1e6:,.0f} MB of it. Write .npz or .h5, or pass "
            "--dense (dense=True)."
        )
    columns = None if suffix in ARRAYS else getattr(table, "columns", None)
    with open_writer(path) as writer:
        for start, block in row_blocks(table, dense=True):
            stop = start + len(block)
            named = {name: block} if columns is None else {str(c): block[:, i] for i, c in enumerate(columns)}
            known = {} if target is None else {"y": np.asarray(target)[start:stop]}
            writer.write({**named, **known}, None if ids is None or suffix == ".npy" else ids[start:stop])
            tell(stop)
    return None


def listed_formats() -> str:
    """Return all extensions that can be written."""
    return ", ".join([*WRITERS, *TREES])


def is_sparse(table: Any) -> bool:
    """Whether a table, in memory or in a file, is sparse."""
    return sparse.issparse(table) or bool(getattr(table, "is_sparse", False))


def row_blocks(table: Any, *, dense: bool) -> Iterator[tuple[int, Any]]:
    """Yield blocks of rows, each after the number of its first row."""
    n_rows, width = table.shape
    step = max(1, COPIED_BYTES // (8 * width))
    for start in range(0, n_rows, step):
        block = table[start : min(start + step, n_rows)]
        if sparse.issparse(block):
            yield start, block.toarray() if dense else sparse.csr_array(block)
        else:
            yield start, np.asarray(block)


def in_memory(table: Any, dense: bool) -> Any:
    """Return a whole table, in memory."""
    found = table[:]
    if sparse.issparse(found):
        return found.toarray() if dense else sparse.csr_array(found)
    return np.asarray(found)


def write_npz(path: Path, views: Mapping[str, Any], target: Any, dense: bool) -> None:
    """Write a bundle, or a lone sparse matrix as SciPy does."""
    found = {name: in_memory(table, dense) for name, table in views.items()}
    if len(found) > 1 or target is not None:
        write_bundle(path, found, None if target is None else np.unique(target, return_inverse=True)[1])
        return
    (matrix,) = found.values()
    with written_whole(path) as file:
        sparse.save_npz(file, matrix)


class DeferredErrors:
    """A file object for HDF5, which crashes if a write fails: no write raises, and `check` raises the first error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._error: OSError | None = None
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def write(self, data: Any) -> int:
        """Write bytes, unless an earlier write failed: the file will be removed."""
        self._try(lambda: self._file.write(data))
        return len(data)

    def truncate(self, size: int) -> int:
        """Change the file's size."""
        self._try(lambda: self._file.truncate(size))
        return size

    def flush(self) -> None:
        """Flush the file's buffer."""
        self._try(self._file.flush)

    def _try(self, action: Callable[[], Any]) -> None:
        if self._error is None:
            try:
                action()
            except OSError as error:
                self._error = error

    def check(self) -> None:
        """Raise the first error."""
        if self._error is not None:
            raise self._error


def write_tree(
    path: Path, views: Mapping[str, Any], ids: Any, target: Any, dense: bool, tell: Callable[[int], None]
) -> None:
    """Write an HDF5 file: an array for every view, a sparse one as AnnData stores it."""
    h5py = package("h5py", "Writing HDF5")
    # HDF5 also reads what it writes, which the unfinished file is not open for.
    with written_whole(path) as unfinished, open(unfinished.name, "r+b") as file:
        out = DeferredErrors(file)

        def told(rows: int) -> None:
            out.check()
            tell(rows)

        with h5py.File(out, "w", track_order=True) as root:
            for name, table in views.items():
                if is_sparse(table) and not dense:
                    write_csr(root.create_group(name), table, told)
                else:
                    write_dense(root, name, table, told)
            for name, values in {"id": ids, "y": target}.items():
                if values is not None:
                    values = np.asarray(values)
                    root[name] = values.astype(h5py.string_dtype()) if values.dtype.kind in "OU" else values
        out.flush()
        out.check()


def write_dense(root: Any, name: str, table: Any, tell: Callable[[int], None]) -> None:
    """Write a table as an array."""
    array = None
    for start, block in row_blocks(table, dense=True):
        if array is None:
            chunks = (min(len(block), 4096), table.shape[1])
            array = root.create_dataset(name, table.shape, block.dtype, chunks=chunks)
        array[start : start + len(block)] = block
        tell(start + len(block))


def write_csr(group: Any, table: Any, tell: Callable[[int], None]) -> None:
    """Write a sparse table by rows."""
    group.attrs["encoding-type"], group.attrs["encoding-version"] = "csr_matrix", "0.1.0"
    group.attrs["shape"] = np.array(table.shape, dtype=np.int64)
    pointers = [np.zeros(1, dtype=np.int64)]
    for start, block in row_blocks(table, dense=False):
        for name, values in {"data": block.data, "indices": block.indices.astype(np.int64)}.items():
            if name not in group:
                group.create_dataset(name, (0,), values.dtype, maxshape=(None,), chunks=True)
            group[name].resize(len(group[name]) + len(values), axis=0)
            if len(values):
                group[name][-len(values) :] = values
        pointers.append(pointers[-1][-1] + block.indptr[1:].astype(np.int64))
        tell(start + block.shape[0])
    group["indptr"] = np.concatenate(pointers)

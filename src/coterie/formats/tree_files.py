"""Files that hold a tree of arrays: HDF5 (``.h5``), zarr, and AnnData (``.h5ad``) and MuData (``.h5mu``) in either.

A key is the path of an array in the tree. In AnnData, the default is X; in MuData a key begins with the modality, and
may leave out ``mod/`` and ``/X``. Sparse matrices are stored as AnnData stores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from coterie.formats import hdf5_text
from coterie.formats.checks import address, check_dtype, check_shape, listed, text_array
from coterie.formats.errors import FormatError, package
from coterie.formats.labels import Target, find_labels, tables_among
from coterie.formats.registry import Request
from coterie.formats.segments import KEEP_BYTES, Cursors, SegmentStore, rows_per_block
from coterie.formats.stores import ArrayStore, Lazy, Store, csr_parts_of, sparse_store
from coterie.formats.unpacking import BOMB_BYTES, SPARSE_ROW_BYTES, check_ratio
from coterie.formats.zarr_chunks import check_chunks

SPARSE_PARTS = ("data", "indices", "indptr")
HDF5 = (".h5", ".hdf5", ".he5", ".h5ad", ".h5mu", ".mat")


def open_root(path: Path) -> Any:
    """Open a file; h5py lets one thread read at a time, and zarr several."""
    if path.suffix.lower() in HDF5:
        h5py = package("h5py", "Reading HDF5")
        hdf5_text.check_heaps(path)
        return h5py.File(path, "r")
    return package("zarr", "Reading zarr").open(path, mode="r")


def node_at(path: Path, key: str) -> Any:
    """Return an array or a group of a file."""
    root = open_root(path)
    if not key:
        return root
    if is_array(root) or key not in root:
        there = () if is_array(root) else array_keys(root)
        raise FormatError(f"{path} has no {key!r} (there: {listed(there)}).")
    return child(root, key)


def child(group: Any, key: str) -> Any:
    """Return a member of a group; refuse one in another file or one that is pickled."""
    found = group[key]
    if hasattr(found, "file"):  # HDF5, whose links may lead to other files
        if found.file.filename != group.file.filename:
            raise FormatError(f"{group.file.filename}: {key!r} refers to another file. Copy the values into this one.")
    elif is_array(found) and "pickle" in json.dumps(found.metadata.to_dict(), default=str):
        raise FormatError(f"{found.store_path}: {key!r} is pickled, which Coterie never opens. Store plain numbers.")
    return found


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of an array or a group."""
    if hasattr(node, "id"):
        hdf5_text.check_attribute(node, name)
    return node.attrs.get(name, default)


def is_array(node: Any) -> bool:
    """Whether a node is an array and not a group."""
    return hasattr(node, "shape")


def sparse_kind(node: Any) -> str | None:
    """Return csr or csc for a group that holds a sparse matrix."""
    kind = str(attribute(node, "encoding-type", attribute(node, "h5sparse_format", "")))[:3]
    return kind if kind in ("csr", "csc") and not is_array(node) else None


def walk(node: Any, prefix: str = "", seen: set[Any] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the arrays and sparse matrices below a group."""
    seen = set() if seen is None else seen
    if hasattr(node, "id"):  # HDF5, where links may form cycles, or name a group many times
        if node.id in seen:
            return
        seen.add(node.id)
    for name in node:
        key, inner = f"{prefix}{name}", child(node, name)
        if is_array(inner) or sparse_kind(inner):
            yield key, inner
        elif not str(name).startswith("#"):  # where MATLAB keeps what cells refer to
            yield from walk(inner, f"{key}/", seen)


def array_keys(root: Any) -> tuple[str, ...]:
    """Return the keys of all arrays."""
    return tuple(key for key, _ in walk(root))


# -- stores -----------------------------------------------------------------------------------------------------


def read_chunks(store: ArrayStore, starts: np.ndarray, segment: int) -> Iterator[np.ndarray]:
    """Yield the rows of a segment as one block, so that each of its chunks is unpacked once."""
    yield store.read(int(starts[segment]), int(starts[segment + 1]))


def node_store(path: Path, key: str, where: str, transposed: bool = False, **names: Any) -> Store:
    """Return a store of an array or a sparse matrix."""
    node = node_at(path, key)
    if not is_array(node):
        return group_store(path, key, where, node, **names)
    dtype = check_dtype(np.dtype(node.dtype), where)
    shape = check_shape(node.shape[::-1] if transposed else node.shape, where)
    check_stored(node, where)
    store = ArrayStore(
        where=where, shape=shape, dtype=dtype, array=Lazy(node_at, path, key), transposed=transposed, **names
    )
    return store if node.chunks is None else chunked(store, node.chunks[-1 if transposed else 0])


def chunked(store: ArrayStore, chunk_rows: int) -> Store:
    """Return a store that reads and keeps whole chunks, or parts of them if they are too large to keep."""
    most = max(1, 2 * KEEP_BYTES // (store.shape[1] * store.dtype.itemsize))
    least = rows_per_block(store.shape[1], store.dtype)
    step = min(most, chunk_rows * max(1, least // chunk_rows))
    starts = np.append(np.arange(0, store.shape[0], step), store.shape[0])
    return SegmentStore(
        where=store.where,
        shape=store.shape,
        dtype=store.dtype,
        columns=store.columns,
        ids=store.ids,
        starts=starts,
        cursors=Lazy(Cursors, partial(read_chunks, store, starts), starts, store.shape[1] * store.dtype.itemsize),
    )


def check_stored(node: Any, where: str) -> None:
    """Refuse an array that claims far more bytes than the file stores for it, or whose values are in another file."""
    if getattr(node, "external", None) or getattr(node, "is_virtual", False):
        raise FormatError(f"{where} refers to other files. Copy the values into this one.")
    size = int(np.dtype(node.dtype).itemsize)
    for side in node.shape:
        size *= int(side)
    if size > BOMB_BYTES:
        check_ratio(size, int(node.id.get_storage_size() if hasattr(node, "id") else node.nbytes_stored()), where)
    if hasattr(node, "id"):
        hdf5_text.check_text(node)
    else:
        check_chunks(node, Path(node.store_path.store.root) / node.path)


def read_whole(node: Any, where: str) -> np.ndarray:
    """Return all values of an array."""
    check_stored(node, where)
    return np.asarray(node[:])


def group_store(path: Path, key: str, where: str, node: Any, **names: Any) -> Store:
    """Return a store of a sparse matrix; one that is stored by columns is read whole."""
    kind = sparse_kind(node)
    if kind is None:
        raise FormatError(f"{where} is a group, not an array (there: {listed(array_keys(node))}). Name one of these.")
    stated = attribute(node, "shape", attribute(node, "h5sparse_shape"))
    shape = check_shape([int(side) for side in stated], where)
    arrays = [child(node, name) for name in SPARSE_PARTS]
    for values in arrays:
        check_stored(values, where)
    _, indices, indptr = arrays
    check_ratio(SPARSE_ROW_BYTES * shape[0], 8 * (indptr.shape[0] + indices.shape[0]), where)
    is_csr = kind == "csr"
    parts: Lazy[Any] = Lazy(open_csr_parts if is_csr else csc_as_csr_parts, path, key, shape)
    return sparse_store(where, shape, arrays, parts, is_csr, **names)


def open_csr_parts(path: Path, key: str, shape: tuple[int, int]) -> tuple[Any, Any, np.ndarray]:
    """Return the arrays of a CSR matrix; values and indices stay in the file."""
    node = node_at(path, key)
    data, indices, indptr = (child(node, name) for name in SPARSE_PARTS)
    return data, indices, indptr[:]


def csc_as_csr_parts(path: Path, key: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of a sparse matrix that is stored as CSC."""
    node = node_at(path, key)
    return csr_parts_of(sparse.csc_array(tuple(child(node, name)[:] for name in SPARSE_PARTS), shape=shape))


# -- AnnData and MuData -----------------------------------------------------------------------------------------


def layout(root: Any, path: Path) -> str:
    """Return what a tree holds: anndata, mudata or plain arrays."""
    said = "" if is_array(root) else str(attribute(root, "encoding-type", "")).lower()
    by_suffix = {".h5ad": "anndata", ".h5mu": "mudata"}.get(path.suffix.lower(), "plain")
    return said if said in ("anndata", "mudata") else by_suffix


def modalities(root: Any, path: Path) -> tuple[str, ...]:
    """Return the modalities of a MuData file, in its order."""
    if "mod" not in root or not len(child(root, "mod")):
        raise FormatError(f"{path} has no modalities (no 'mod' group). Is it a MuData file?")
    order = attribute(child(root, "mod"), "mod-order")
    return tuple(str(name) for name in (order if order is not None else child(root, "mod")))


def anndata_store(path: Path, root: Any, key: str | None, prefix: str = "") -> Store:
    """Return a store of a part of an AnnData object, with the names of its rows and columns."""
    element = key or "X"
    full = f"{prefix}{element}"
    if full not in root:
        raise FormatError(f"{path} has no {full!r} (there: {listed(anndata_keys(root, prefix))}).")
    owner = f"{prefix}raw/" if element.startswith("raw/") else prefix
    names = {"X": f"{owner}var", "layers": f"{owner}var"}.get(element.removeprefix("raw/").partition("/")[0])
    columns = None if names is None else tuple(str(name) for name in frame_index(path, names))
    where = address(path, full if key or prefix else None)
    store = node_store(path, full, where, columns=columns, ids=Lazy(frame_index, path, f"{prefix}obs"))
    if columns is not None and len(columns) != store.shape[1]:
        raise FormatError(
            f"{where} has {store.shape[1]} columns but {len(columns)} names in {names!r}. Write it again."
        )
    return store


def anndata_keys(root: Any, prefix: str) -> tuple[str, ...]:
    """Return the keys of the arrays of an AnnData object that have its rows."""
    found = [key for group in ("layers", "obsm", "raw") for key in subkeys(root, f"{prefix}{group}")]
    return tuple([f"{prefix}X"] * (f"{prefix}X" in root) + found)


def subkeys(root: Any, group: str) -> list[str]:
    """Return the keys of the arrays of a group, but not those of variables; empty if there is no such group."""
    if group not in root or is_array(child(root, group)):
        return []
    return [f"{group}/{key}" for key, _ in walk(child(root, group)) if "var" not in key.partition("/")[0]]


def frame_index(path: Path, key: str) -> np.ndarray:
    """Return the index of a data frame in the file."""
    frame = node_at(path, key)
    if is_array(frame):
        raise FormatError(f"{address(path, key)} is in an old AnnData layout. Read and write it with a newer anndata.")
    return frame_column(child(frame, str(attribute(frame, "_index", "_index"))), address(path, key))


def frame_column(node: Any, where: str) -> np.ndarray:
    """Return a column of a data frame: numbers or text, also where it is stored as categories."""
    if is_array(node):
        values = read_whole(node, where)
        if values.dtype.kind in "OT":
            return text_array([item.decode() if isinstance(item, bytes) else str(item) for item in values], where)
        return values.astype(np.str_) if values.dtype.kind == "S" else values
    if "codes" in node:
        codes = read_whole(child(node, "codes"), where)
        lacking = codes < 0
        values = frame_column(child(node, "categories"), where)[codes]
    else:
        lacking = read_whole(child(node, "mask"), where)
        values = frame_column(child(node, "values"), where)
    if lacking.any():
        raise FormatError(f"{where} has no value in row {int(np.flatnonzero(lacking)[0])}. Every row needs one.")
    return values


# -- the reader -------------------------------------------------------------------------------------------------


def list_tables(path: Path) -> tuple[str, ...]:
    """Return the keys that open as views of their own; none where the file is one table."""
    root = open_root(path)
    kind = layout(root, path)
    if kind == "mudata":
        return modalities(root, path)
    if kind == "anndata" or is_array(root):
        return ()
    found = dict(walk(root))
    if len(found) == 1:
        return ()
    if not found:
        raise FormatError(f"{path} holds no arrays. Write it again.")
    return tables_among(found, lambda key: len(found[key].shape) if is_array(found[key]) else 2)


def open_store(path: Path, request: Request) -> Store:
    """Return a table of a file."""
    key, root = request.key, open_root(path)
    kind = layout(root, path)
    if kind == "anndata":
        return anndata_store(path, root, key)
    if kind == "mudata":
        modality, _, element = (key or "").removeprefix("mod/").partition("/")
        if modality in modalities(root, path):
            return anndata_store(path, root, element or None, f"mod/{modality}/")
        if key is None or not key.startswith("obsm/"):
            raise FormatError(f"{path} has no modality {modality!r} (there: {listed(modalities(root, path))}).")
        return anndata_store(path, root, key)
    if key is None:
        key = "" if is_array(root) else array_keys(root)[0]
    return node_store(path, key, address(path, key))


def read_labels(path: Path, request: Request) -> Target:
    """Return known labels; in AnnData and MuData a column of obs, with the rows' ids."""
    key, root = request.key, open_root(path)
    if layout(root, path) == "plain":
        node = root if is_array(root) else child(root, find_labels(path, array_keys(root), key))
        return Target(frame_column(node, address(path, key)))
    prefix, _, column = (key or "").rpartition("/")
    obs = f"mod/{prefix.removesuffix('/obs').removeprefix('mod/')}/obs" if prefix not in ("", "obs") else "obs"
    frame = node_at(path, obs)
    there = [name for name in frame if name != str(attribute(frame, "_index", "_index"))]
    name = find_labels(path, there, column or None)
    return Target(frame_column(child(frame, name), address(path, f"{obs}/{name}")), frame_index(path, obs))

"""MATLAB's files: version 4, version 5 to 7, and version 7.3 (HDF5, read block by block).

The multi-view papers keep their views in one cell array, often ``X``: ``X[0]`` or ``X/0`` is the first cell, and
``data/X/0`` that of a field of a struct. Rows are samples; where the cells differ in their number of rows and agree in
their number of columns, columns are samples.
"""

from __future__ import annotations

import json
import math
import mmap
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from coterie.formats import tree_files
from coterie.formats.checks import address, check_dtype, check_shape, listed
from coterie.formats.errors import FormatError
from coterie.formats.isolated import read_isolated
from coterie.formats.labels import Target, find_labels, is_label
from coterie.formats.matlab_child import LENGTH_BYTES
from coterie.formats.registry import Request
from coterie.formats.stores import ArrayStore, CSRStore, Lazy, Store, csr_parts_of, file_version
from coterie.formats.unpacking import SPARSE_ROW_BYTES, check_ratio

NUMERIC = {
    "numbers",
    "double",
    "single",
    "logical",
    "sparse",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}

VERSION_5 = (b"\x00\x01IM", b"\x01\x00MI")  # with the byte order; version 4 begins with a small number instead
MAX_CELLS = 10_000  # of one array that are opened as one view each


def is_hdf5(path: Path) -> bool:
    """Whether a file is of version 7.3."""
    with open(path, "rb") as file:
        head = file.read(520)
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def split_key(key: str) -> tuple[str, int | None]:
    """Return the variable and the number of the cell.

    Examples
    --------
    >>> split_key("X[1]"), split_key("X/1"), split_key("fea")
    (('X', 1), ('X', 1), ('fea', None))
    """
    found = re.fullmatch(r"(.+?)(?:\[(\d+)\]|/(\d+))", key)
    if found is None:
        return key, None
    return found[1], int(found[2] or found[3])


# -- version 4 to 7 ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A variable as the child process wrote it."""

    kind: str
    shape: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]  # its values, mapped; data, indices and indptr of a sparse one, by rows


EMPTY_STRUCT = Stored("struct", (), ())  # in place of a struct, of which only the fields are listed


@lru_cache(maxsize=1)  # the variables of one file are read one after the other
def read_variables_of(path: Path, version: tuple[int, ...]) -> dict[str, Stored]:
    """Return the variables of a file, read whole by a child process, once for each version of it."""
    return stored_in(read_isolated("coterie.formats.matlab_child", path))


def stored_in(content: mmap.mmap | bytes) -> dict[str, Stored]:
    """Return the variables in what the child process wrote."""
    end = len(content) - LENGTH_BYTES
    described = json.loads(content[end - int.from_bytes(content[end:], "little") : end])
    return {key: Stored(kind, tuple(shape), mapped(content, arrays)) for key, kind, shape, arrays in described}


def mapped(content: mmap.mmap | bytes, arrays: list[Any]) -> tuple[np.ndarray, ...]:
    """Return arrays as views of what the child process wrote."""
    return tuple(np.ndarray(shape, dtype, content, offset, order="F") for dtype, offset, shape in arrays)


def read_variables(path: Path) -> dict[str, Stored]:
    """Return the variables of a file of version 4 to 7, and what is in its cells and structs."""
    with open(path, "rb") as file:
        head = file.read(128)
    if 0 not in head[:4] and head[124:] not in VERSION_5:  # refused without a child process
        raise FormatError(f"{path} cannot be read: it is not a MATLAB file: bytes 124 to 127 are {head[124:]!r}.")
    return read_variables_of(path, file_version(path.stat()))


def mapped_array(path: Path, key: str, turn: bool = False) -> np.ndarray:
    """Return numbers or text, mapped; transposed where columns are samples."""
    values = read_variables(path)[key].arrays[0]
    return values.T if turn else values


def read_csr_parts(path: Path, key: str, turn: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of a sparse variable; transposed where columns are samples."""
    found = read_variables(path)[key]
    data, indices, indptr = found.arrays
    if not turn:
        return data, indices, indptr
    return csr_parts_of(sparse.csr_array((data, indices, indptr), shape=found.shape).T)


def store_5(path: Path, name: str, cell: int | None, where: str) -> Store:
    """Return a store of a variable or a cell."""
    found = read_variables(path)
    key = name if cell is None else f"{name}/{cell}"
    one, turn = found.get(key, EMPTY_STRUCT), False
    if one.kind not in ("numbers", "sparse", "text"):
        raise FormatError(f"{where} holds cells, a struct or an object, not numbers. Name what is in it.")
    if cell is not None:
        cells = [found.get(f"{name}/{i}", EMPTY_STRUCT) for i in range(math.prod(found[name].shape))]
        turn = columns_are_samples([one.shape for one in cells])
    shape = check_shape(one.shape[::-1] if turn else one.shape, where)
    dtype = check_dtype(one.arrays[0].dtype, where)
    if one.kind == "sparse":
        return CSRStore(where=where, shape=shape, dtype=dtype, parts=Lazy(read_csr_parts, path, key, turn))
    return ArrayStore(where=where, shape=shape, dtype=dtype, array=Lazy(mapped_array, path, key, turn))


def columns_are_samples(shapes: list[tuple[int, ...]]) -> bool:
    """Whether the cells of a cell array agree in their number of columns and differ in their number of rows."""
    flat = all(len(shape) == 2 for shape in shapes)
    return flat and len({shape[0] for shape in shapes}) > 1 and len({shape[1] for shape in shapes}) == 1


# -- version 7.3 ------------------------------------------------------------------------------------------------


def class_of(node: Any) -> str:
    """Return the MATLAB class of a variable."""
    if "MATLAB_sparse" in node.attrs:
        return "sparse"
    kind = tree_files.attribute(node, "MATLAB_class", b"")
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def matlab_shape(node: Any) -> tuple[int, ...]:
    """Return a variable's shape as MATLAB shows it."""
    if class_of(node) == "sparse":
        return int(tree_files.attribute(node, "MATLAB_sparse")), node["jc"].shape[0] - 1
    return tuple(node.shape[::-1]) if tree_files.is_array(node) else ()


def variables_73(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and class of every variable; the fields of a struct are ``name/field``."""
    root = tree_files.open_root(path)
    nodes = {name: tree_files.child(root, name) for name in root if not name.startswith("#")}
    for name, node in list(nodes.items()):
        if class_of(node) == "struct" and not tree_files.is_array(node):
            nodes.update({f"{name}/{field}": child for field, child in nodes.pop(name).items()})
    return {name: (matlab_shape(node), class_of(node)) for name, node in nodes.items()}


def cells_73(path: Path, name: str) -> list[Any]:
    """Return the cells of a cell array, in MATLAB's order."""
    node = tree_files.node_at(path, name)
    # Dimensions are stored in reverse, so the stored order is MATLAB's own.
    return [node.file[reference] for reference in tree_files.read_whole(node, address(path, name)).ravel()]


def csr_parts_73(path: Path, key: str, shape: tuple[int, int], turn: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of a sparse variable, which is stored as CSC; transposed where columns are samples."""
    node = tree_files.node_at(path, key)
    data, indices, indptr = (
        tree_files.child(node, name)[:] if name in node else np.empty(0) for name in ("data", "ir", "jc")
    )
    parts = (data, indices.astype(np.int64), indptr.astype(np.int64))
    return csr_parts_of((sparse.csr_array if turn else sparse.csc_array)(parts, shape=shape))


def store_73(path: Path, name: str, cell: int | None, where: str) -> Store:
    """Return a store of a variable or a cell."""
    node, turn = tree_files.node_at(path, name), False
    if cell is not None:
        cells = cells_73(path, name)
        node, turn = cells[cell], columns_are_samples([matlab_shape(one) for one in cells])
    if "MATLAB_empty" in node.attrs:
        raise FormatError(f"{where} has no rows. Leave it out.")
    if class_of(node) not in NUMERIC:
        raise FormatError(f"{where} holds values of class {class_of(node) or 'unknown'}. Encode them as numbers first.")
    if class_of(node) != "sparse":
        return tree_files.node_store(path, node.name, where, transposed=not turn)
    shape = matlab_shape(node)
    shape = check_shape(shape[::-1] if turn else shape, where)
    for part in node.values():
        tree_files.check_stored(part, where)
    check_ratio(
        SPARSE_ROW_BYTES * shape[0], 8 * node["jc"].shape[0] + 8 * (node["ir"].shape[0] if "ir" in node else 0), where
    )
    dtype = check_dtype(np.dtype(node["data"].dtype) if "data" in node else np.dtype(np.float64), where)
    return CSRStore(where=where, shape=shape, dtype=dtype, parts=Lazy(csr_parts_73, path, node.name, shape, turn))


# -- the reader -------------------------------------------------------------------------------------------------


def variables(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and class of every variable."""
    if is_hdf5(path):
        return variables_73(path)
    found = read_variables(path)
    cells = {key for key, one in found.items() if one.kind == "cell"}
    return {key: (one.shape, one.kind) for key, one in found.items() if not cells.intersection(owners(key))}


def owners(key: str) -> list[str]:
    """Return the keys of the variables that contain the one of a key.

    Examples
    --------
    >>> owners("data/X/0")
    ['data', 'data/X']
    """
    parts = key.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]


def list_tables(path: Path) -> tuple[str, ...]:
    """Return the keys that open as views of their own; none where the file is one table."""
    found = {name: of for name, of in variables(path).items() if not is_label(name)}
    cells = [name for name, (shape, kind) in found.items() if kind == "cell" and math.prod(shape) > 0]
    if cells:
        name = cells[0]
        count = math.prod(found[name][0])
        if count > MAX_CELLS:
            raise FormatError(f"{address(path, name)} claims {count:,} cells. Choose one: {path}::{name}/0.")
        return tuple(f"{name}/{i}" for i in range(count))
    wide = tuple(name for name, (shape, kind) in found.items() if kind in NUMERIC and min(shape, default=0) > 1)
    return wide if len(wide) > 1 else ()


def open_store(path: Path, request: Request) -> Store:
    """Return a table of a file."""
    found = variables(path)
    key = only_table(path, found) if request.key is None else request.key
    name, cell = (key, None) if key in found else split_key(key)
    if name not in found:
        raise FormatError(f"{path} has no variable {name!r} (there: {listed(found)}).")
    shape, kind = found[name]
    if kind == "cell" and cell is None:
        raise FormatError(
            f"{address(path, name)} is a cell array of {math.prod(shape)}. Choose a cell: {path}::{name}/0."
        )
    if cell is not None and (kind != "cell" or cell >= math.prod(shape)):
        has = f"{math.prod(shape)} cells, counted from 0" if kind == "cell" else "no cells"
        raise FormatError(f"{path} has no {key!r}: {name!r} has {has}.")
    return (store_73 if is_hdf5(path) else store_5)(path, name, cell, address(path, key))


def only_table(path: Path, found: dict[str, tuple[tuple[int, ...], str]]) -> str:
    """Return the variable that is meant where no key is given."""
    named = [name for name, (_, kind) in found.items() if kind in NUMERIC and (not is_label(name) or len(found) == 1)]
    wide = [name for name in named if min(found[name][0], default=0) > 1] or named
    if len(wide) != 1:
        raise FormatError(
            f"{path}: cannot tell which variable is meant (there: {listed(found)}). Say which: {path}::name."
        )
    return wide[0]


def read_labels(path: Path, request: Request) -> Target:
    """Return known labels."""
    name = find_labels(path, tuple(variables(path)), request.key)
    if is_hdf5(path):
        node = tree_files.node_at(path, name)
        tree_files.check_stored(node, address(path, name))
        return Target(np.asarray(node[:]))
    found = read_variables(path)[name]
    if found.kind not in ("numbers", "text"):
        raise FormatError(f"{address(path, name)} is not one label per row: it holds {found.kind}.")
    return Target(np.array(found.arrays[0]))

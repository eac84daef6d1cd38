"""MATLAB's files: version 4, version 5 to 7, and version 7.3 (HDF5, read block by block).

The multi-view papers keep their views in one cell array, often ``X``: ``X[0]`` or ``X/0`` is the first cell, and
``data/X/0`` that of a field of a struct. Rows are samples; where the cells do not all have as many rows, but as many
columns, it is the columns that are samples.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from coterie.formats import matlab_4, matlab_5, tree_files
from coterie.formats.errors import FormatError
from coterie.formats.labels import find_labels, is_label
from coterie.formats.tables import (
    ArrayStore,
    CSRStore,
    Lazy,
    Store,
    Target,
    check_dtype,
    check_shape,
    csr_parts_of,
    listed,
    place,
)
from coterie.formats.unpacking import ROW_BYTES, check_ratio

NUMERIC = {
    "double",
    "single",
    "logical",
    "sparse",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}

MAX_CELLS = 10_000  # of one array that are as many views


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


# -- version 4 and 5 --------------------------------------------------------------------------------------------


def reader(path: Path) -> Any:
    """Return the module that reads a file older than version 7.3."""
    return matlab_4 if matlab_4.is_version_4(path) else matlab_5


def load_5(path: Path, name: str, cell: int | None = None) -> Any:
    """Return a variable or a cell of it."""
    value = reader(path).load(path, name)
    if cell is None:
        return value
    cells = value.ravel(order="F")
    return cells[cell].T if columns_are_samples([np.shape(one) for one in cells]) else cells[cell]


def columns_are_samples(shapes: list[tuple[int, ...]]) -> bool:
    """Whether the cells of a cell array agree in their columns and not in their rows."""
    flat = all(len(shape) == 2 for shape in shapes)
    return flat and len({shape[0] for shape in shapes}) > 1 and len({shape[1] for shape in shapes}) == 1


def csr_parts_5(path: Path, name: str, cell: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a sparse variable by rows."""
    return csr_parts_of(load_5(path, name, cell))


def store_5(path: Path, name: str, cell: int | None, where: str) -> Store:
    """Return a store of a variable, which is in memory from now on."""
    array: Lazy[Any] = Lazy(load_5, path, name, cell)
    value = array()
    if isinstance(value, dict) or value.dtype == object:
        raise FormatError(f"{where} holds cells or a struct, not numbers. Name what is in it.")
    if sparse.issparse(value):
        shape, dtype = check_shape(value.shape, where), check_dtype(value.dtype, where)
        return CSRStore(where=where, shape=shape, dtype=dtype, parts=Lazy(csr_parts_5, path, name, cell))
    return ArrayStore(
        where=where, shape=check_shape(value.shape, where), dtype=check_dtype(value.dtype, where), array=array
    )


# -- version 7.3 ------------------------------------------------------------------------------------------------


def class_of(node: Any) -> str:
    """Return the MATLAB class of a variable."""
    if "MATLAB_sparse" in node.attrs:
        return "sparse"
    kind = tree_files.attribute(node, "MATLAB_class", b"")
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def shape_of(node: Any) -> tuple[int, ...]:
    """Return a variable's shape as MATLAB shows it."""
    if class_of(node) == "sparse":
        return int(tree_files.attribute(node, "MATLAB_sparse")), node["jc"].shape[0] - 1
    return tuple(node.shape[::-1]) if tree_files.is_array(node) else ()


def variables_73(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and class of every variable; the fields of a struct are ``name/field``."""
    root = tree_files.open_root(path)
    nodes = {name: tree_files.part(root, name) for name in root if not name.startswith("#")}
    for name, node in list(nodes.items()):
        if class_of(node) == "struct" and not tree_files.is_array(node):
            nodes.update({f"{name}/{field}": child for field, child in nodes.pop(name).items()})
    return {name: (shape_of(node), class_of(node)) for name, node in nodes.items()}


def cells_73(path: Path, name: str) -> list[Any]:
    """Return the cells of a cell array, in MATLAB's order."""
    node = tree_files.node_at(path, name)
    # Dimensions are stored in reverse, so the stored order is MATLAB's own.
    return [node.file[reference] for reference in tree_files.whole(node, place(path, name)).ravel()]


def csr_parts_73(path: Path, key: str, shape: tuple[int, int], turn: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a sparse variable, which is stored by columns, by rows."""
    node = tree_files.node_at(path, key)
    data, indices, indptr = (
        tree_files.part(node, name)[:] if name in node else np.empty(0) for name in ("data", "ir", "jc")
    )
    parts = (data, indices.astype(np.int64), indptr.astype(np.int64))
    return csr_parts_of((sparse.csr_array if turn else sparse.csc_array)(parts, shape=shape))


def store_73(path: Path, name: str, cell: int | None, where: str) -> Store:
    """Return a store of a variable or a cell."""
    node, turn = tree_files.node_at(path, name), False
    if cell is not None:
        cells = cells_73(path, name)
        node, turn = cells[cell], columns_are_samples([shape_of(one) for one in cells])
    if "MATLAB_empty" in node.attrs:
        raise FormatError(f"{where} has no rows. Leave it out.")
    if class_of(node) not in NUMERIC:
        raise FormatError(f"{where} holds values of class {class_of(node) or 'unknown'}. Encode them as numbers first.")
    if class_of(node) != "sparse":
        return tree_files.node_store(path, node.name, where, transposed=not turn)
    shape = shape_of(node)
    shape = check_shape(shape[::-1] if turn else shape, where)
    for part in node.values():
        tree_files.check_stored(part, where)
    check_ratio(ROW_BYTES * shape[0], 8 * node["jc"].shape[0] + 8 * (node["ir"].shape[0] if "ir" in node else 0), where)
    dtype = check_dtype(np.dtype(node["data"].dtype) if "data" in node else np.dtype(np.float64), where)
    return CSRStore(where=where, shape=shape, dtype=dtype, parts=Lazy(csr_parts_73, path, node.name, shape, turn))


# -- the family -------------------------------------------------------------------------------------------------


def variables(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and class of every variable."""
    return variables_73(path) if is_hdf5(path) else reader(path).variables(path)


def tables(path: Path) -> tuple[str, ...]:
    """Return the keys that open as views of their own; none where the file is one table."""
    found = {name: of for name, of in variables(path).items() if not is_label(name)}
    cells = [name for name, (shape, kind) in found.items() if kind == "cell" and math.prod(shape) > 0]
    if cells:
        name = cells[0]
        count = math.prod(found[name][0])
        if count > MAX_CELLS:
            raise FormatError(f"{place(path, name)} claims {count:,} cells. Choose one: {path}::{name}/0.")
        return tuple(f"{name}/{i}" for i in range(count))
    wide = tuple(name for name, (shape, kind) in found.items() if kind in NUMERIC and min(shape, default=0) > 1)
    return wide if len(wide) > 1 else ()


def open_store(path: Path, key: str | None) -> Store:
    """Return a table of a file."""
    found = variables(path)
    if key is None:
        key = only_table(path, found)
    name, cell = (key, None) if key in found else split_key(key)
    if name not in found:
        raise FormatError(f"{path} has no variable {name!r} (there: {listed(found)}).")
    shape, kind = found[name]
    if kind == "cell" and cell is None:
        raise FormatError(
            f"{place(path, name)} is a cell array of {math.prod(shape)}. Choose a cell: {path}::{name}/0."
        )
    if cell is not None and (kind != "cell" or cell >= math.prod(shape)):
        has = f"{math.prod(shape)} cells, counted from 0" if kind == "cell" else "no cells"
        raise FormatError(f"{path} has no {key!r}: {name!r} has {has}.")
    return (store_73 if is_hdf5(path) else store_5)(path, name, cell, place(path, key))


def only_table(path: Path, found: dict[str, tuple[tuple[int, ...], str]]) -> str:
    """Return the variable that is meant where no key is given."""
    named = [name for name, (_, kind) in found.items() if kind in NUMERIC and (not is_label(name) or len(found) == 1)]
    wide = [name for name in named if min(found[name][0], default=0) > 1] or named
    if len(wide) != 1:
        raise FormatError(
            f"{path}: cannot tell which variable is meant (there: {listed(found)}). Say which: {path}::name."
        )
    return wide[0]


def labels(path: Path, key: str | None) -> Target:
    """Return known labels."""
    name = find_labels(path, tuple(variables(path)), key)
    if is_hdf5(path):
        node = tree_files.node_at(path, name)
        tree_files.check_stored(node, place(path, name))
        return Target(np.asarray(node[:]))
    return Target(np.asarray(load_5(path, name)))

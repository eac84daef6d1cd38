"""MATLAB's files of version 4 to 7, read by SciPy; run as a child process by `isolated.read_isolated`.

It writes the values of every variable in Fortran order, then a JSON list, and in the last eight bytes the length of
that list. For each variable the list has its key, its kind (numbers, sparse, text, cell, struct or other), its shape,
and type, offset and shape of its arrays.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from coterie.formats.isolated import run_child

LENGTH_BYTES = 8


def write_variables(path: str, out: BinaryIO) -> None:
    """Write all variables of a file."""
    from scipy.io import loadmat

    warnings.simplefilter("ignore")  # about unreadable variables, whose kind is "other"
    found = loadmat(path, appendmat=False, chars_as_strings=True)
    described = []
    for name in [name for name in found if not name.startswith("__")]:
        for key, kind, value in flattened(name, found.pop(name)):
            arrays = [] if kind in ("cell", "struct", "other") else [write_array(part, out) for part in parts(value)]
            described.append((key, kind, np.shape(value), arrays))
    text = json.dumps(described).encode()
    out.write(text + len(text).to_bytes(LENGTH_BYTES, "little"))


def flattened(key: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield key, kind and value of a variable and of its members: ``data/X/0`` is a cell of a field of a struct."""
    kind = variable_kind(value)
    if kind == "struct" and value.size == 1:
        for name in value.dtype.names:
            yield from flattened(f"{key}/{name}", value.flat[0][name])
        return
    yield key, kind, value
    if kind == "cell":
        for number, cell in enumerate(value.ravel(order="F")):
            yield from flattened(f"{key}/{number}", cell)


def variable_kind(value: Any) -> str:
    """Return what a variable holds; objects, functions and what SciPy cannot read are "other"."""
    if sparse.issparse(value):
        return "sparse"
    if type(value) is not np.ndarray:
        return "other"
    if value.dtype.names:
        return "struct"
    return {"O": "cell", "U": "text"}.get(value.dtype.kind, "numbers")


def parts(value: Any) -> tuple[np.ndarray, ...]:
    """Return the arrays that a value consists of: one, or three of a sparse matrix, by rows."""
    if not sparse.issparse(value):
        return (value,)
    if hasattr(value, "check_format"):
        value.check_format(full_check=True)
    rows = sparse.csr_array(value)
    return rows.data, rows.indices, rows.indptr


def write_array(values: np.ndarray, out: BinaryIO) -> tuple[str, int, tuple[int, ...]]:
    """Write an array and return its type, offset and shape."""
    dtype = values.dtype.newbyteorder("<")
    stored = np.ascontiguousarray(values.T, dtype=dtype)
    out.write(bytes(-out.tell() % dtype.alignment))
    offset = out.tell()
    if stored.nbytes:
        out.write(stored.reshape(-1).view(np.uint8).data)
    return dtype.str, offset, values.shape


if __name__ == "__main__":
    run_child(write_variables, sys.argv[1:])

"""MATLAB's files of version 4: matrices one after the other, each with a header of twenty bytes.

A header is five whole numbers of 32 bits: how the matrix is stored, its rows, its columns, whether it is complex, and
the length of its name, which follows; then come the values, column by column. The first number is 1000 M + 10 P + T: M
is 0 for little and 1 for big endian, P is the type of the values, and T is 0 for a full matrix, 1 for text and 2 for a
sparse one, which is three columns: row, column and value of each entry, counted from one, and at the end the shape.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from coterie.formats.unpacking import ROW_BYTES, is_bomb, map_file

TYPES = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}
KINDS = {0: "double", 1: "char", 2: "sparse"}
HEADER = struct.Struct("<5i")


@dataclass(frozen=True)
class Matrix:
    """A matrix whose values have not been looked at."""

    name: str
    kind: str
    shape: tuple[int, int]  # of what is stored; a sparse matrix says its own shape with its values
    dtype: np.dtype
    is_complex: bool
    start: int  # where the values begin

    @property
    def end(self) -> int:
        """Where the next matrix begins."""
        return self.start + self.shape[0] * self.shape[1] * self.dtype.itemsize * (1 + self.is_complex)


def is_version_4(path: Path) -> bool:
    """Whether a file begins like one of version 4: later ones begin with text, without zeros."""
    with open(path, "rb") as file:
        return 0 in file.read(4)


def matrices(content: mmap.mmap) -> Iterator[Matrix]:
    """Yield what a file holds."""
    at = 0
    while at < len(content):
        found = read_header(content, at)
        if found.end > len(content):
            raise ValueError(
                f"variable {found.name!r} ends after byte {found.end:,}, and the file has {len(content):,}"
            )
        yield found
        at = found.end


def read_header(content: mmap.mmap, at: int) -> Matrix:
    """Return the matrix that begins at a byte."""
    head = content[at : at + HEADER.size]
    if len(head) < HEADER.size:
        raise ValueError(f"it ends within the header at byte {at:,}")
    order = "<" if int.from_bytes(head[:4], "little") < 5000 else ">"
    how, rows, columns, is_complex, length = struct.unpack(f"{order}5i", head)
    machine, values, kind = how // 1000, how // 10 % 100, how % 10
    if machine != (order == ">") or values not in TYPES or kind not in KINDS or how < 0:
        raise ValueError(f"the header at byte {at:,} is not one of version 4")
    if rows < 0 or columns < 0 or is_complex not in (0, 1) or length < 1:
        raise ValueError(f"the header at byte {at:,} has impossible sizes")
    start = at + HEADER.size + length
    name = content[at + HEADER.size : start].partition(b"\0")[0].decode("latin-1")
    return Matrix(name, KINDS[kind], (rows, columns), np.dtype(order + TYPES[values]), bool(is_complex), start)


def values_of(content: mmap.mmap, found: Matrix) -> np.ndarray:
    """Return the values of a matrix, mapped."""
    size = found.shape[0] * found.shape[1]
    parts = [
        np.ndarray(found.shape, found.dtype, content, found.start + i * size * found.dtype.itemsize, order="F")
        for i in range(1 + found.is_complex)
    ]
    return parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]


def sparse_shape(triplets: np.ndarray) -> tuple[int, int]:
    """Return the shape of a sparse matrix, which is in its last row."""
    if triplets.shape[0] < 1 or triplets.shape[1] not in (3, 4):
        raise ValueError(f"a sparse matrix is stored in three columns, not as {triplets.shape}")
    return whole(triplets[-1, 0]), whole(triplets[-1, 1])


def whole(value: Any) -> int:
    """Return a stored number as a count."""
    if not 0 <= value < 1 << 40 or value != int(value):
        raise ValueError(f"{value} is not a number of rows or columns")
    return int(value)


def as_sparse(triplets: np.ndarray) -> sparse.csc_array:
    """Return a sparse matrix from its entries."""
    shape = sparse_shape(triplets)
    if is_bomb(ROW_BYTES * max(shape), triplets.nbytes):
        raise ValueError(f"a sparse variable claims the shape {shape} for hardly any bytes")
    entries = triplets[:-1]
    rows, columns = (entries[:, i].astype(np.int64) - 1 for i in (0, 1))
    values = entries[:, 2] if triplets.shape[1] == 3 else entries[:, 2] + 1j * entries[:, 3]
    return sparse.csc_array(sparse.coo_array((values.astype(values.dtype.newbyteorder("=")), (rows, columns)), shape))


def as_text(codes: np.ndarray) -> np.ndarray:
    """Return the rows of a matrix of letters."""
    if codes.size and not 0 <= codes.min() <= codes.max() < 256:
        raise ValueError("its text is not made of letters")
    return np.array([bytes(row).decode("latin-1") for row in codes.astype(np.uint8)], dtype=np.str_)


def variables(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and class of every variable."""
    content = map_file(path)
    return {
        one.name: (sparse_shape(values_of(content, one)) if one.kind == "sparse" else one.shape, one.kind)
        for one in matrices(content)
    }


def load(path: Path, name: str) -> np.ndarray | sparse.csc_array:
    """Return a variable: numbers or text, mapped from the file, or a sparse matrix."""
    content = map_file(path)
    found = next(one for one in matrices(content) if one.name == name)
    values = values_of(content, found)
    if found.kind == "double":
        return values
    return as_sparse(values) if found.kind == "sparse" else as_text(values)

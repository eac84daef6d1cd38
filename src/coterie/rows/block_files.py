"""Values in files, without pickle and with a checksum: reading returns what was written, or raises an error.

A file is a prefix (magic, length and CRC-32 of the rest), a line of JSON that describes the value, and its arrays.
"""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from collections.abc import Callable
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np

from coterie.rows.blocks import STORABLE, block_parts

MAGIC = b"coterie1"
PREFIX = struct.Struct("<8sQI")  # magic, bytes of the rest, their checksum
CHUNK_BYTES = 2**20


class DamagedFileError(ValueError):
    """A file does not hold what was written to it; the message says in which way."""


def write_value(file: BinaryIO, value: Any, label: str = "") -> None:
    """Write arrays, numbers, lists, tuples and storable blocks; :func:`read_value` must be given the same ``label``."""
    arrays: list[np.ndarray] = []
    described = described_value(value, arrays)
    shapes = [{"dtype": a.dtype.str, "shape": a.shape, "fortran": is_fortran(a)} for a in arrays]
    header = json.dumps({"label": label, "value": described, "arrays": shapes}).encode() + b"\n"
    parts = [np.frombuffer(header, np.uint8), *map(as_bytes, arrays)]
    checksum = 0
    for part in parts:
        checksum = crc32(part.data, checksum)
    file.write(PREFIX.pack(MAGIC, sum(len(part) for part in parts), checksum))
    for part in parts:
        file.write(part.data)


def read_value(file: BinaryIO, label: str = "") -> Any:
    """Return what :func:`write_value` wrote with this label.

    Raises
    ------
    DamagedFileError
        If even one bit of the file has changed, or if it was written with another label or by something else.
    """
    check_file(file)
    file.seek(PREFIX.size)
    try:
        header = json.loads(file.readline())
        if header["label"] != label:
            raise DamagedFileError(f"it holds {header['label']!r} and not {label!r}")
        shapes = iter(header["arrays"])
        return restored_value(header["value"], lambda: read_array(file, **next(shapes)))
    except DamagedFileError:
        raise
    except (KeyError, TypeError, StopIteration, ValueError, OverflowError) as error:  # ValueError: also invalid JSON
        raise DamagedFileError(f"it was written by something else ({type(error).__name__}: {error})") from error


def check_file(file: BinaryIO) -> None:
    """Raise an error for a file that is not as it was written, before its content is used."""
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(PREFIX.size)
    if not size:
        raise DamagedFileError("it is empty")
    if not any(prefix):
        raise DamagedFileError("it begins with zeros")
    if len(prefix) < PREFIX.size:
        raise DamagedFileError(f"it is cut short, at {size} bytes")
    magic, length, expected = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise DamagedFileError("it does not begin as such a file does")
    if size != PREFIX.size + length:
        raise DamagedFileError(f"it has {size} bytes instead of {PREFIX.size + length}")
    if rest_checksum(file) != expected:
        raise DamagedFileError("its checksum is another")


def rest_checksum(file: BinaryIO) -> int:
    """Return the checksum of the rest of a file, read chunk by chunk."""
    found = 0
    while chunk := file.read(CHUNK_BYTES):
        found = crc32(chunk, found)
    return found


def is_fortran(array: np.ndarray) -> bool:
    """Return whether an array is stored column by column; reading restores that, as sums depend on the memory order."""
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, copied only if they are not contiguous."""
    if array.dtype.hasobject:
        raise TypeError(f"Only plain numbers and text can be written to files. Got an array of {array.dtype}.")
    ordered = np.ascontiguousarray(array.T if is_fortran(array) else array)
    return ordered.reshape(-1).view(np.uint8)


def read_array(file: BinaryIO, dtype: str, shape: list[int], fortran: bool) -> np.ndarray:
    """Return the next array of a file."""
    found = np.empty(shape, np.dtype(dtype), order="F" if fortran else "C")
    flat = as_bytes(found)
    if file.readinto(flat.data) != len(flat):  # type: ignore[attr-defined]
        raise DamagedFileError("it is cut short")
    return found


def value_bytes(value: Any) -> int:
    """Return how many bytes a value's file takes, besides its description."""
    arrays: list[np.ndarray] = []
    described_value(value, arrays)
    return PREFIX.size + sum(array.nbytes for array in arrays)


def described_value(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return a value as JSON; its arrays are appended to a list."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"kind": "array"}
    if isinstance(value, list | tuple):
        return {"kind": type(value).__name__, "items": [described_value(item, arrays) for item in value]}
    if dataclasses.is_dataclass(value):
        return {"kind": type(value).__name__, "items": [described_value(item, arrays) for item in block_parts(value)]}
    return value.item() if isinstance(value, np.generic) else value


def restored_value(described: Any, next_array: Callable[[], np.ndarray]) -> Any:
    """Return the value that JSON describes."""
    if not isinstance(described, dict):
        return described
    if described["kind"] == "array":
        return next_array()
    items = [restored_value(item, next_array) for item in described["items"]]
    if described["kind"] in ("list", "tuple"):
        return items if described["kind"] == "list" else tuple(items)
    return STORABLE[described["kind"]](*items)

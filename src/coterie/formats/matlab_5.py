"""MATLAB's files of version 5 to 7: variables one after the other, each compressed or not.

After 128 bytes of which the last four give the version and the byte order, a file is a sequence of elements: a kind, a
size, and so many bytes, up to the next multiple of eight. A variable is an element that holds elements: flags, shape,
name, and then its values, the cells of a cell array, or the fields of a struct. One of kind 15 is a variable that was
compressed by zlib: it is unpacked to a temporary file. Every size is checked against the bytes that hold it, so that a
damaged file is an error and never more than that.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from coterie.formats.unpacking import CHUNK, ROW_BYTES, is_bomb, map_file, unpack

# Numbers, letters, a sparse matrix, an array of cells (of dtype object), or a struct's fields by name.
Value: TypeAlias = "np.ndarray | sparse.csc_array | dict[str, Any]"

HEAD = 128  # bytes before the first element
ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
LETTERS = {
    "<": {1: "latin-1", 2: "latin-1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le", 18: "utf-32-le"},
    ">": {1: "latin-1", 2: "latin-1", 4: "utf-16-be", 16: "utf-8", 17: "utf-16-be", 18: "utf-32-be"},
}
CLASSES = {
    1: "cell",
    2: "struct",
    3: "object",
    4: "char",
    5: "sparse",
    6: "double",
    7: "single",
    8: "int8",
    9: "uint8",
    10: "int16",
    11: "uint16",
    12: "int32",
    13: "uint32",
    14: "int64",
    15: "uint64",
    16: "function",
    17: "opaque",
}
IS_COMPLEX, IS_LOGICAL = 0x800, 0x200
MAX_DEPTH = 16  # cells and structs inside each other
PEEK = 1 << 16  # bytes of a compressed variable in which its name is looked for


@dataclass(frozen=True)
class Variable:
    """A variable whose values have not been looked at."""

    name: str
    kind: str
    shape: tuple[int, ...]
    bits: int  # the flags
    parts: Elements  # that hold its values, to be read once

    @property
    def is_complex(self) -> bool:
        """Whether imaginary parts follow the real ones."""
        return bool(self.bits & IS_COMPLEX)

    @property
    def size(self) -> int:
        """The number of its values, cells or structs."""
        return math.prod(self.shape)


class Inflated:
    """A zlib stream that is read forward."""

    def __init__(self, packed: memoryview) -> None:
        self._packed = packed
        self._zlib = zlib.decompressobj()

    def read(self, size: int) -> bytes:
        """Return up to so many bytes; none at the end."""
        while not self._zlib.eof:
            feed = self._zlib.unconsumed_tail
            if not feed:
                feed, self._packed = bytes(self._packed[:CHUNK]), self._packed[CHUNK:]
            found = self._zlib.decompress(feed, size)
            if found:
                return found
            if not feed:
                raise ValueError("a compressed variable ends early")
        return b""


# -- elements ---------------------------------------------------------------------------------------------------


class Elements:
    """Yields kind and content of the elements that stand one after the other in some bytes."""

    def __init__(self, data: memoryview, order: str) -> None:
        self.rest = data  # what was not yielded yet
        self._order = order

    def __iter__(self) -> Elements:
        return self

    def __next__(self) -> tuple[int, memoryview]:
        if not len(self.rest):
            raise StopIteration
        if len(self.rest) < 8:
            raise ValueError("it ends within an element")
        kind, size = struct.unpack_from(f"{self._order}II", self.rest)
        if kind >> 16:  # so small that it stands in the place of its size
            kind, size, start, end = kind & 0xFFFF, kind >> 16, 4, 8
        else:
            start, end = 8, 8 + size + (-size % 8 if kind != COMPRESSED else 0)
        if size > min(end, len(self.rest)) - start:
            raise ValueError(f"an element of {size:,} bytes is longer than what holds it")
        content, self.rest = self.rest[start : start + size], self.rest[end:]
        return kind, content

    def take(self, what: str) -> tuple[int, memoryview]:
        """Return the next element, which has to be there."""
        element = next(self, None)
        if element is None:
            raise ValueError(f"a variable lacks its {what}")
        return element

    def numbers(self, what: str) -> np.ndarray:
        """Return the numbers of the next element, mapped."""
        kind, data = self.take(what)
        if kind not in NUMBERS:
            raise ValueError(f"an element of kind {kind} stands where the {what} should be")
        dtype = np.dtype(self._order + NUMBERS[kind])
        if len(data) % dtype.itemsize:
            raise ValueError(f"{len(data)} bytes of {what} are not a number of values of {dtype.itemsize} bytes")
        return np.frombuffer(data, dtype=dtype)

    def name(self) -> str:
        """Return the name that the next element holds."""
        return as_name(self.take("name")[1])


def as_name(data: memoryview) -> str:
    """Return a name, which may be filled up with zeros."""
    return bytes(data).partition(b"\0")[0].decode("latin-1")


def read_variable(data: memoryview, order: str) -> Variable:
    """Return the variable that the content of an element of kind 14 describes."""
    if not len(data):
        return Variable("", "double", (0, 0), 0, Elements(data, order))  # how an empty cell may be written
    parts = Elements(data, order)
    flags = parts.numbers("flags")
    bits = int(flags[0]) if len(flags) == 2 and flags.dtype.kind == "u" else 0
    if bits & 0xFF not in CLASSES:
        raise ValueError("a variable has no class that is known")
    kind = CLASSES[bits & 0xFF]
    if kind == "opaque":  # has no shape
        return Variable(parts.name(), kind, (), bits, parts)
    shape = tuple(parts.numbers("shape").tolist())
    if not 2 <= len(shape) <= 32 or not all(isinstance(side, int) and side >= 0 for side in shape):
        raise ValueError(f"a variable has the impossible shape {shape[:4]}")
    if bits & IS_LOGICAL and kind != "sparse":
        kind = "logical"
    return Variable(parts.name(), kind, shape, bits, parts)


# -- values -----------------------------------------------------------------------------------------------------


def value_of(variable: Variable, order: str, depth: int = 0) -> Value:
    """Return what a variable holds; numbers are mapped and keep the type in which they are stored."""
    if depth > MAX_DEPTH:
        raise ValueError(f"cells and structs are more than {MAX_DEPTH} deep inside each other")
    match variable.kind:
        case "cell":
            return cells_of(variable, order, depth)
        case "struct":
            fields = struct_fields(variable, order)
            return {name: value_of(one, order, depth + 1) for name, one in fields.items()}
        case "sparse":
            return sparse_of(variable)
        case "char":
            return text_of(variable, order)
        case "object" | "function" | "opaque":
            raise ValueError(f"variable {variable.name!r} is of class {variable.kind}, not numbers")
    if not variable.size:
        return np.zeros(variable.shape)
    values = joined([variable.parts.numbers("values") for _ in range(1 + variable.is_complex)])
    return shaped(values, variable)


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return real values as they are, and complex ones from their two parts."""
    return parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]


def shaped(values: np.ndarray, variable: Variable) -> np.ndarray:
    """Return values in the shape of a variable, of which MATLAB stores the first axis first."""
    if len(values) != variable.size:
        raise ValueError(f"variable {variable.name!r} has {len(values):,} values for the shape {variable.shape}")
    return values.reshape(variable.shape, order="F")


def inner(parts: Elements, order: str) -> list[Variable]:
    """Return the variables that stand one after the other in another."""
    found = []
    for kind, content in parts:
        if kind != MATRIX:
            raise ValueError(f"an element of kind {kind} stands where a variable should be")
        found.append(read_variable(content, order))
    return found


def cells_of(variable: Variable, order: str, depth: int) -> np.ndarray:
    """Return the cells of a cell array."""
    found = inner(variable.parts, order)
    cells = np.empty(len(found), dtype=object)  # as many as there are, whatever the shape claims
    for i, one in enumerate(found):
        cells[i] = value_of(one, order, depth + 1)
    return shaped(cells, variable)


def struct_fields(variable: Variable, order: str) -> dict[str, Variable]:
    """Return the fields of a struct by name, without looking at their values; an array of structs has none."""
    if variable.size != 1:
        return {}
    length = variable.parts.numbers("length of names")
    _, text = variable.parts.take("names")
    step = int(length[0]) if len(length) == 1 and length.dtype.kind in "iu" else 0
    if step < 1 or len(text) % step:
        raise ValueError(f"struct {variable.name!r} has no names of fields")
    names = [as_name(text[at : at + step]) for at in range(0, len(text), step)]
    found = inner(variable.parts, order)
    if len(found) != len(names):
        raise ValueError(f"struct {variable.name!r} has {len(found)} values for {len(names)} fields")
    return dict(zip(names, found, strict=True))


def sparse_of(variable: Variable) -> sparse.csc_array:
    """Return a sparse matrix, which is stored by columns."""
    if is_bomb(ROW_BYTES * variable.shape[0], len(variable.parts.rest)):
        raise ValueError(f"sparse variable {variable.name!r} claims {variable.shape[0]:,} rows for hardly any bytes")
    indices, pointers = variable.parts.numbers("row numbers"), variable.parts.numbers("column pointers")
    if variable.bits & IS_LOGICAL:  # whose kind says float64, though they take a byte each
        values = np.frombuffer(variable.parts.take("values")[1], dtype=np.uint8)
    else:
        values = joined([variable.parts.numbers("values") for _ in range(1 + variable.is_complex)])
    fits = len(variable.shape) == 2 and len(pointers) == variable.shape[1] + 1
    if not fits or indices.dtype.kind == "f" or pointers.dtype.kind == "f":
        raise ValueError(f"sparse variable {variable.name!r} has {len(pointers)} pointers for {variable.shape}")
    count = int(pointers[-1])  # there may be room for more
    if not 0 <= count <= min(len(indices), len(values)):
        raise ValueError(f"sparse variable {variable.name!r} has {count} entries, and room for {len(indices)}")
    own = [part.astype(part.dtype.newbyteorder("=")) for part in (values[:count], indices[:count], pointers)]
    return sparse.csc_array(tuple(own), shape=variable.shape)


def text_of(variable: Variable, order: str) -> np.ndarray:
    """Return the rows of a matrix of letters."""
    if not variable.size:
        return np.empty(0, dtype=np.str_)
    kind, data = variable.parts.take("letters")
    if kind not in LETTERS[order]:
        raise ValueError(f"an element of kind {kind} stands where letters should be")
    letters = np.array(list(bytes(data).decode(LETTERS[order][kind], "replace")), dtype=np.str_)
    return np.array(["".join(row) for row in shaped(letters, variable).reshape(-1, variable.shape[-1])], dtype=np.str_)


# -- the file ---------------------------------------------------------------------------------------------------


def byte_order(content: memoryview) -> str:
    """Return the byte order that the first bytes of a file state."""
    mark = bytes(content[HEAD - 4 : HEAD])
    if mark not in ORDERS:
        raise ValueError(f"it is not a MATLAB file: bytes 124 to 127 are {mark!r}")
    return ORDERS[mark]


class File:
    """The variables of a file, none of which has been looked at."""

    def __init__(self, path: Path) -> None:
        content = memoryview(map_file(path))
        self.path, self.order = path, byte_order(content)
        found = [element for element in Elements(content[HEAD:], self.order) if element[0] in (MATRIX, COMPRESSED)]
        named = [(self._peek(*element), element) for element in found]
        # One without a name is MATLAB's own business.
        self.variables = {variable.name: (variable, *element) for variable, element in named if variable.name}

    def _peek(self, kind: int, data: memoryview) -> Variable:
        """Return name, class and shape of a variable; a compressed one is not unpacked for it."""
        if kind == MATRIX:
            return read_variable(data, self.order)
        return self._unpacked(zlib.decompressobj().decompress(bytes(data[:PEEK]), PEEK))

    def _unpacked(self, data: Any) -> Variable:
        """Return the variable that a compressed element held; some of its values may be missing yet."""
        if len(data) < 8 or struct.unpack_from(f"{self.order}I", data)[0] != MATRIX:
            raise ValueError("a compressed element holds no variable")
        return read_variable(memoryview(data)[8:], self.order)

    def whole(self, name: str) -> Variable:
        """Return a variable with all that it holds."""
        _, kind, data = self.variables[name]
        if kind == MATRIX:
            return read_variable(data, self.order)
        return self._unpacked(unpack(Inflated(data), len(data), f"{self.path}::{name}"))  # type: ignore[arg-type]

    def fields(self, name: str) -> dict[str, Variable]:
        """Return the fields of a struct; of any other variable none."""
        return struct_fields(self.whole(name), self.order) if self.variables[name][0].kind == "struct" else {}


def variables(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and class of every variable, without reading them; the fields of a struct are ``name/field``."""
    file = File(path)
    found = {}
    for name, (variable, *_) in file.variables.items():
        fields = {f"{name}/{field}": one for field, one in file.fields(name).items()}
        found.update({key: (one.shape, one.kind) for key, one in (fields or {name: variable}).items()})
    return found


def load(path: Path, name: str) -> Value:
    """Return a variable or a field of a struct."""
    file = File(path)
    if name in file.variables:
        return value_of(file.whole(name), file.order)
    struct_name, _, field = name.partition("/")
    return value_of(file.fields(struct_name)[field], file.order)

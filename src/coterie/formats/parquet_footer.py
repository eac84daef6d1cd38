"""Read a parquet file's counts of missing values, and check the sizes that its pages claim.

Arrow could count missing values too, but it aborts the whole process where a damaged file states another type for a
column chunk than for its column, or another length for a histogram; and it allocates the memory that a page claims
before it reads the page. Footer and page headers are in Thrift's compact protocol: a struct is a sequence of fields,
each after a byte with its type and the increment of its number, and ends with a zero; integers take seven bits a byte.

Why this is not left to a child process that tries the file first: see `coterie.formats.isolated`.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from coterie.formats.unpacking import is_bomb, map_file

BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12  # types of fields
TAIL = 8  # bytes: the footer's length and the letters PAR1
MAX_NESTING = 32

# Field numbers in Parquet's definition: of the footer, a row group, a column chunk, its statistics, a page.
ROW_GROUPS, COLUMNS, META_DATA, PATH, PACKED, FIRST_PAGE, DICTIONARY, STATISTICS = 4, 1, 3, 3, 7, 9, 11, 12
NULL_COUNT, PAGE_UNPACKED, PAGE_PACKED = 3, 2, 3

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Chunk:
    """The footer's entry for a column of a row group."""

    name: str
    n_missing: int | None  # None if not stated
    start: int  # byte of the file
    packed: int  # bytes


class Thrift:
    """A reader of structs in Thrift's compact protocol; it raises an IndexError or ValueError for a broken one."""

    def __init__(self, data: bytes | mmap.mmap, at: int = 0) -> None:
        self._data = data
        self.at = at  # the byte that is read next

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return a struct's values by the numbers of their fields."""
        found, number = {}, 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 0x0F, depth + 1)
        return found

    def _value(self, kind: int, depth: int, in_list: bool = False) -> Any:
        if depth > MAX_NESTING:
            raise ValueError("structs that are too deep inside each other")
        if kind in INTEGERS:
            return self._integer()
        if kind == STRUCT:
            return self.struct(depth)
        if kind in LISTS:
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 0x0F, depth + 1, in_list=True) for _ in range(self._fitting(size))]
        if kind in (BINARY, DOUBLE):
            size = self._fitting(self._unsigned() if kind == BINARY else 8)
            self.at += size
            return self._data[self.at - size : self.at]
        if kind == BYTE or (kind in BOOLEANS and in_list):
            return self._byte()
        if kind in BOOLEANS:
            return kind == BOOLEANS[0]
        raise ValueError(f"a value of the unknown type {kind}")  # maps are not in parquet's files

    def _fitting(self, size: int) -> int:
        if size > len(self._data) - self.at:
            raise IndexError("a list or text that is longer than what holds it")
        return size

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        return value | byte << shift

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)  # the last bit is its sign


def read_footer(path: Path) -> list[list[Chunk]]:
    """Return the column chunks of every row group."""
    with open(path, "rb") as file:
        end = file.seek(-TAIL, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(0, end - size))
        content = file.read(size)
    try:
        footer = Thrift(content).struct()
    except IndexError as error:
        raise ValueError("its footer ends early") from error
    return [
        [as_chunk(column) for column in value_at(group, COLUMNS, list)] for group in value_at(footer, ROW_GROUPS, list)
    ]


def value_at(struct: Any, number: int, kind: type[Kind]) -> Kind:
    """Return a value of a struct; an empty one of the given type if there is none, or if it has another type."""
    value = struct.get(number) if isinstance(struct, dict) else None
    return value if isinstance(value, kind) else kind()


def as_chunk(column: Any) -> Chunk:
    """Return a column chunk of the footer."""
    about = value_at(column, META_DATA, dict)
    first, missing = value_at(about, FIRST_PAGE, int), value_at(about, STATISTICS, dict).get(NULL_COUNT)
    names = [name.decode("utf-8", "replace") for name in value_at(about, PATH, list) if isinstance(name, bytes)]
    return Chunk(
        name=".".join(names),
        n_missing=missing if isinstance(missing, int) else None,
        start=min(first, value_at(about, DICTIONARY, int) or first),
        packed=value_at(about, PACKED, int),
    )


def null_counts(groups: list[list[Chunk]]) -> dict[str, int | None]:
    """Return the number of missing values of each column of a file; None where the file does not state it."""
    counts: dict[str, int | None] = {}
    for chunk in (chunk for group in groups for chunk in group):
        so_far = counts.get(chunk.name, 0)
        counts[chunk.name] = None if chunk.n_missing is None or so_far is None else so_far + chunk.n_missing
    return counts


def check_pages(path: Path, groups: Iterable[Sequence[Chunk]], names: Sequence[str]) -> None:
    """Raise a ValueError where a page of some columns claims more bytes than there are."""
    inside = tuple(f"{name}." for name in names)  # the values of a list
    with map_file(path) as content:
        for chunk in (chunk for group in groups for chunk in group):
            if chunk.name in names or chunk.name.startswith(inside):
                check_chunk(content, chunk)


def check_chunk(content: mmap.mmap, chunk: Chunk) -> None:
    """Check the pages of a column chunk, one after the other."""
    at, end = chunk.start, min(chunk.start + chunk.packed, len(content))
    if at < 0:
        raise ValueError(f"column {chunk.name!r} begins before the file")
    while at < end:
        header = Thrift(content, at)
        try:
            page = header.struct()
        except IndexError as error:
            raise ValueError(f"a page of column {chunk.name!r} ends after the file") from error
        unpacked, packed = value_at(page, PAGE_UNPACKED, int), value_at(page, PAGE_PACKED, int)
        if not 0 <= packed <= len(content) - header.at or is_bomb(unpacked, packed):
            raise ValueError(f"a page of column {chunk.name!r} says that it is {packed:,} bytes, unpacked {unpacked:,}")
        at = header.at + packed

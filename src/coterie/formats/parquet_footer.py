"""What a parquet file says of missing values, and of how much room its pages take.

Arrow would tell of the values too, but it ends the whole process where a damaged file says that a column chunk has
another type than its column; and it makes the room that a page asks for before it reads it. The footer is in Thrift's
compact form: a struct is a run of fields, each a byte of type and distance from the last field's number, and a zero at
its end; whole numbers take seven bits a byte. Only the path down to what is asked for is looked at, and all else is
stepped over. A column chunk is a run of pages, each behind a header in the same form.

Why this is not left to a child process that opens the file first (benchmarks/fuzz.py, --checks none and --checks
probe): of 2,000 damaged files 2 end the process without this module and none with such a probe, but the probe imports
pyarrow anew, 0.7 s a file where this module takes 0.02 s, both on a busy machine; a folder of a thousand files would
take minutes more. And a page that claims 2 GiB takes them (2,062 MiB, with every compression) before Arrow sees that
they are not there: a probe that reads the first rows does not come to the pages behind them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.formats.unpacking import is_bomb, map_file

BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
TAIL = 8  # bytes: the footer's length and the letters PAR1
MAX_DEPTH = 32

# Numbers of fields, from Parquet's definition.
ROW_GROUPS, COLUMNS, META_DATA, PATH, STATISTICS, NULL_COUNT = 4, 1, 3, 3, 12, 3
PACKED, FIRST_PAGE, DICTIONARY = 7, 9, 11  # of a column chunk: bytes, and where its pages and its dictionary begin
PAGE_UNPACKED, PAGE_PACKED = 2, 3  # of a page: bytes


@dataclass
class Chunk:
    """What the footer says of a column of a row group; what it does not say is None."""

    name: str = ""
    n_missing: int | None = None
    packed: int | None = None  # bytes
    first_page: int | None = None
    dictionary: int | None = None

    @property
    def start(self) -> int:
        """Where it begins."""
        first = self.first_page or 0
        return min(first, self.dictionary or first)


class Thrift:
    """Reads a struct of Thrift's compact form; an IndexError or ValueError says that it is broken."""

    def __init__(self, data: bytes | mmap.mmap, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def at(self) -> int:
        """The byte that is read next."""
        return self._at

    def unsigned(self) -> int:
        """Return a whole number that is not negative."""
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def integer(self) -> int:
        """Return a whole number; the last bit is its sign."""
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)

    def text(self) -> str:
        """Return text."""
        size = self.unsigned()
        self._at += size
        return self._data[self._at - size : self._at].decode("utf-8", "replace")

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of a struct's fields; the value of each has to be read or skipped."""
        number = 0
        while True:
            head = self._data[self._at]
            self._at += 1
            if not head:
                return
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 0x0F

    def items(self) -> Iterator[int]:
        """Yield the type of every item of a list; each has to be read or skipped."""
        head = self._data[self._at]
        self._at += 1
        size = head >> 4 if head >> 4 < 15 else self.unsigned()
        if size > len(self._data):
            raise ValueError("a list that is longer than what holds it")
        for _ in range(size):
            yield head & 0x0F

    def skip(self, kind: int, depth: int = 0, in_list: bool = False) -> None:
        """Step over a value."""
        if depth > MAX_DEPTH:
            raise ValueError("structs that are too deep inside each other")
        if kind in INTEGERS:
            self.unsigned()
        elif kind == BINARY:
            size = self.unsigned()
            self._at += size
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in LISTS:
            for inner in self.items():
                self.skip(inner, depth + 1, in_list=True)
        elif kind == DOUBLE:
            self._at += 8
        elif kind == BYTE or (kind in BOOLEANS and in_list):
            self._at += 1
        elif kind not in BOOLEANS:  # maps are not in parquet's footers
            raise ValueError(f"a value of the unknown type {kind}")


def null_counts(groups: list[list[Chunk]]) -> dict[str, int | None]:
    """Return how many values each column of a file lacks; None where the file does not say."""
    counts: dict[str, int | None] = {}
    for chunk in (chunk for group in groups for chunk in group):
        so_far = counts.get(chunk.name, 0)
        counts[chunk.name] = None if chunk.n_missing is None or so_far is None else so_far + chunk.n_missing
    return counts


def read_footer(path: Path) -> list[list[Chunk]]:
    """Return the column chunks of every row group."""
    with open(path, "rb") as file:
        end = file.seek(-TAIL, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(0, end - size))
        footer = Thrift(file.read(size))
    groups = []
    try:
        for number, kind in footer.fields():
            if number == ROW_GROUPS and kind in LISTS:
                groups = [list(read_row_group(footer)) for _ in footer.items()]
            else:
                footer.skip(kind)
    except IndexError as error:
        raise ValueError("its footer ends early") from error
    return groups


def read_row_group(footer: Thrift) -> Iterator[Chunk]:
    """Yield the column chunks of a row group."""
    for number, kind in footer.fields():
        if number == COLUMNS and kind in LISTS:
            for _ in footer.items():
                yield read_chunk(footer)
        else:
            footer.skip(kind)


def read_chunk(footer: Thrift) -> Chunk:
    """Return what is said of a column chunk."""
    chunk = Chunk()
    for number, kind in footer.fields():
        if number != META_DATA or kind != STRUCT:
            footer.skip(kind)
            continue
        for inner, inner_kind in footer.fields():
            if inner == PATH and inner_kind in LISTS:
                chunk.name = ".".join([footer.text() for _ in footer.items()])
            elif inner == STATISTICS and inner_kind == STRUCT:
                chunk.n_missing = read_integers(footer, NULL_COUNT).get(NULL_COUNT)
            elif inner == PACKED and inner_kind in INTEGERS:
                chunk.packed = footer.integer()
            elif inner == FIRST_PAGE and inner_kind in INTEGERS:
                chunk.first_page = footer.integer()
            elif inner == DICTIONARY and inner_kind in INTEGERS:
                chunk.dictionary = footer.integer()
            else:
                footer.skip(inner_kind)
    return chunk


def read_integers(struct: Thrift, *wanted: int) -> dict[int, int]:
    """Return some whole numbers of a struct."""
    found = {}
    for number, kind in struct.fields():
        if number in wanted and kind in INTEGERS:
            found[number] = struct.integer()
        else:
            struct.skip(kind)
    return found


def check_pages(path: Path, groups: list[list[Chunk]], names: Sequence[str]) -> None:
    """Raise a ValueError where a page of some columns claims more bytes than there are."""
    inside = tuple(f"{name}." for name in names)  # the values of a list
    with map_file(path) as content:
        for chunk in (chunk for group in groups for chunk in group):
            if chunk.name in names or chunk.name.startswith(inside):
                check_chunk(content, chunk)


def check_chunk(content: mmap.mmap, chunk: Chunk) -> None:
    """Step over the pages of a column chunk."""
    at, end = chunk.start, min(chunk.start + (chunk.packed or 0), len(content))
    if at < 0:
        raise ValueError(f"column {chunk.name!r} begins before the file")
    while at < end:
        header = Thrift(content, at)
        try:
            sizes = read_integers(header, PAGE_UNPACKED, PAGE_PACKED)
        except IndexError as error:
            raise ValueError(f"a page of column {chunk.name!r} ends after the file") from error
        unpacked, packed = sizes.get(PAGE_UNPACKED, 0), sizes.get(PAGE_PACKED, 0)
        if not 0 <= packed <= len(content) - header.at or is_bomb(unpacked, packed):
            raise ValueError(f"a page of column {chunk.name!r} says that it is {packed:,} bytes, unpacked {unpacked:,}")
        at = header.at + packed

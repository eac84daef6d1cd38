"""What the end of a parquet file says of missing values.

Arrow would tell too, but it ends the whole process where a damaged file says that a column chunk has another type than
its column. The footer is in Thrift's compact form: a struct is a run of fields, each a byte of type and distance from
the last field's number, and a zero at its end; whole numbers take seven bits a byte. Only the path down to the counts
is looked at, and all else is stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
TAIL = 8  # bytes: the footer's length and the letters PAR1
MAX_DEPTH = 32

# Numbers of fields, from Parquet's definition.
ROW_GROUPS, COLUMNS, META_DATA, PATH, STATISTICS, NULL_COUNT = 4, 1, 3, 3, 12, 3


class Thrift:
    """Reads a struct of Thrift's compact form; an IndexError or ValueError says that it is broken."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

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


def null_counts(path: Path) -> dict[str, int | None]:
    """Return how many values each column of a file lacks; None where the file does not say."""
    with open(path, "rb") as file:
        end = file.seek(-TAIL, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(0, end - size))
        footer = Thrift(file.read(size))
    counts: dict[str, int | None] = {}
    try:
        for number, kind in footer.fields():
            if number == ROW_GROUPS and kind in LISTS:
                for _ in footer.items():
                    add_row_group(footer, counts)
            else:
                footer.skip(kind)
    except IndexError as error:
        raise ValueError("its footer ends early") from error
    return counts


def add_row_group(footer: Thrift, counts: dict[str, int | None]) -> None:
    """Add what a row group says to the counts."""
    for number, kind in footer.fields():
        if number == COLUMNS and kind in LISTS:
            for _ in footer.items():
                name, count = read_chunk(footer)
                so_far = counts.get(name, 0)
                counts[name] = None if count is None or so_far is None else so_far + count
        else:
            footer.skip(kind)


def read_chunk(footer: Thrift) -> tuple[str, int | None]:
    """Return the column of a chunk, and how many values it lacks."""
    name, count = "", None
    for number, kind in footer.fields():
        if number != META_DATA or kind != STRUCT:
            footer.skip(kind)
            continue
        for inner, inner_kind in footer.fields():
            if inner == PATH and inner_kind in LISTS:
                name = ".".join([footer.text() for _ in footer.items()])
            elif inner == STATISTICS and inner_kind == STRUCT:
                count = read_statistics(footer)
            else:
                footer.skip(inner_kind)
    return name, count


def read_statistics(footer: Thrift) -> int | None:
    """Return the number of missing values that statistics state."""
    count = None
    for number, kind in footer.fields():
        if number == NULL_COUNT and kind in INTEGERS:
            count = footer.integer()
        else:
            footer.skip(kind)
    return count

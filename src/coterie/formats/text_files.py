"""Tables as text: ``.csv``, ``.tsv`` and ``.txt``, plain or gzipped.

Numbers are float64, True and False are 1 and 0, and an empty field or NA is NaN. Columns are separated by commas
(``.csv``) or tabs (``.tsv``); by semicolons or tabs if the first line of a ``.csv`` has no comma; and in a ``.txt`` by
the first of tab, comma, semicolon and space that is in its first line. A line break ends a row, even between quotes,
and empty lines are skipped.

The first line holds names if none of its fields is a number, or if it has text over a number, or text beside numbers
that count up by one, or if it is 0, 1, 2, 3, ..., as pandas names columns. An empty first name, which pandas writes
over its index, makes that column the rows' ids. Two cases come with a warning, and ``header`` settles them: a first
line of numbers that may be names, such as years, is read as values; text beside fewer than four numbers that count up,
over whole numbers, is read as names.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coterie.formats.checks import MISSING, check_shape, listed, text_array
from coterie.formats.columns import EXACT, choose_columns, is_rounded, warn_of_others, warn_of_rounding
from coterie.formats.errors import FormatError, one_line, package
from coterie.formats.labels import Target, find_labels
from coterie.formats.registry import Request, suffix_of
from coterie.formats.segments import Cursors, SegmentStore
from coterie.formats.stores import Lazy, Store
from coterie.formats.unpacking import Content

SEGMENT_BYTES = 4 << 20  # of text that are parsed at a time
HEAD_BYTES = 16 << 20  # in which the first two lines are sought
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # the first bytes of such a file
YEARS = range(1800, 2201)
FEWEST_NAMES = 4  # from this number on, numbers that count up are taken for names without a warning
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{16,4000}")  # that float64 may not hold, and that Python reads
CODE = re.compile(r"[+-]?(0[0-9]+|[0-9]{16,})")  # whole numbers that are text: floats would lose digits of them
GROUPED_DIGITS = re.compile(r"[+-]?\d[\d.,'_\s]*")  # as spreadsheets write numbers in many countries
TRUTH = {"true": 1.0, "false": 0.0}  # in lower case; pandas writes True, R TRUE and databases true
DELIMITERS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,; "}


@dataclass(frozen=True)
class TextFile:
    """The layout of a text file: where its rows are, and the delimiter and the names of its columns."""

    path: Path
    content: Lazy[Content]
    delimiter: str
    names: tuple[str, ...]  # numbers where the file has none
    has_names: bool
    offsets: np.ndarray  # (s + 1,) where segments begin in the text
    starts: np.ndarray  # (s + 1,) their first rows

    def lines(self, segment: int) -> bytes:
        """Return the text of a segment."""
        text = self.content().read(int(self.offsets[segment]), int(self.offsets[segment + 1]))
        return b"\n".join(b" ".join(line.split()) for line in text.splitlines()) if self.delimiter == " " else text

    def numbers(self, segment: int, names: list[str]) -> Any:
        """Return some columns of a segment as an Arrow table of numbers; True is 1 and False 0."""
        try:
            return self.parse(segment, names, "double")
        except FormatError:
            text = self.parse(segment, names, "string")
            truths = {name: truth_values(text.column(name).to_numpy()) for name in names}
            others = [name for name in names if truths[name] is None]
            if len(others) == len(names):
                raise
        arrow = package("pyarrow", "Reading csv")
        numbers = self.parse(segment, others, "double") if others else {}
        return arrow.table({name: numbers[name] if name in others else truths[name] for name in names})

    def parse(self, segment: int, names: list[str], kind: str) -> Any:
        """Return some columns of a segment as an Arrow table of one type."""
        arrow, reader = package("pyarrow", "Reading csv"), package("pyarrow.csv", "Reading csv")
        text = self.lines(segment)
        convert = {"column_types": dict.fromkeys(names, kind), "include_columns": names}
        try:
            return reader.read_csv(
                arrow.BufferReader(text),
                read_options=reader.ReadOptions(column_names=list(self.names)),
                parse_options=reader.ParseOptions(delimiter=self.delimiter),
                convert_options=reader.ConvertOptions(**convert),
            )
        except arrow.ArrowInvalid as error:
            line = self.content().read(0, int(self.offsets[segment])).count(b"\n") + 1
            wrong = first_wrong_field(text, self, names if kind == "double" else [], line) or one_line(error)
            raise FormatError(f"{self.path}: {wrong}") from error

    def column(self, name: str) -> np.ndarray:
        """Return a whole column: numbers if all of it is whole numbers, else text."""
        parts = [self.parse(i, [name], "string").column(name).to_numpy() for i in range(len(self.starts) - 1)]
        values = text_array(np.concatenate(parts), f"{self.path}: column {name!r}")
        whole = all(value.isdecimal() and (value[0] != "0" or value == "0") and len(value) < 19 for value in values)
        return values.astype(np.int64) if whole else values


def read_lines(file: TextFile, names: list[str], segment: int) -> Iterator[np.ndarray]:
    """Yield the rows of a segment as one array."""
    table = file.numbers(segment, names)
    expected = int(file.starts[segment + 1] - file.starts[segment])
    if table.num_rows != expected:
        raise FormatError(
            f"{file.path}: {expected} lines hold {table.num_rows} rows. Line breaks in quoted text are not read: "
            "replace them, or convert the file to parquet."
        )
    block = np.column_stack([column.to_numpy() for column in table.columns])  # (b, d)
    for name in [name for name, large in zip(names, (np.abs(block) >= EXACT).any(axis=0), strict=True) if large]:
        fields = file.parse(segment, [name], "string").column(name).to_pylist()
        if any(is_rounded(int(field)) for field in fields if WHOLE_NUMBER.fullmatch(field.strip())):
            warn_of_rounding(name, str(file.path))
    yield block


def truth_values(column: np.ndarray) -> np.ndarray | None:
    """Return a column of True and False as 1 and 0, or None if it holds anything else.

    Examples
    --------
    >>> truth_values(np.array(["True", "", "False"], object))
    array([ 1., nan,  0.])
    """
    spelt = {field: field.strip() for field in set(column)}
    if not any(map(is_truth, spelt.values())):
        return None
    if not all(is_truth(field) or field in MISSING for field in spelt.values()):
        return None
    return np.array([TRUTH.get(spelt[field].lower(), np.nan) for field in column])  # (b,)


def first_wrong_field(text: bytes, file: TextFile, names: list[str], line: int) -> str | None:
    """Return a message about the first line that is wrong; ``names`` are the columns that must hold numbers."""
    width = len(file.names)
    for number, content in enumerate(text.split(b"\n"), start=line):
        if not content.strip(blank_of(file.delimiter)):
            continue
        fields = split_line(content.decode("utf-8", "replace"), file.delimiter)
        if len(fields) != width:
            return f"line {number} has {len(fields)} fields where the first line has {width}. Repair that line."
        if not names and not is_utf8(content):
            return not_utf8(number, content)
        for name in names:
            field = fields[file.names.index(name)]
            if not is_number(field) and field.strip() not in MISSING:
                if not is_utf8(content):
                    return not_utf8(number, content)
                column = f"column {name[:60]!r}" if file.has_names else f"column {name}"
                return f"{column} holds {field[:60]!r} in line {number}, which is not a number. {remedy_for(field)}"
    return None


def remedy_for(field: str) -> str:
    """Return what to do about a field that is no number."""
    if GROUPED_DIGITS.fullmatch(field.strip()):
        return "Write numbers with a decimal point, and without thousands separators."
    return (
        "Encode it as numbers, leave it out (choose columns, or numeric_only: --numeric-only), or make it the id "
        "column (id_column: --id-column)."
    )


def not_utf8(number: int, content: bytes) -> str:
    """Return a message about a line in another encoding, most often Latin-1."""
    return f"line {number} is not UTF-8 ({content[:60]!r}). Write the file in UTF-8."


def is_utf8(content: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_truth(field: str) -> bool:
    """Whether a field is True or False."""
    return field.strip().lower() in TRUTH


def is_number(field: str) -> bool:
    """Whether a field is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line."""
    line = line.rstrip("\r\n")
    return line.split() if delimiter == " " else next(csv.reader([line], delimiter=delimiter), [])


def holds_names(fields: list[str], second: list[str], where: object) -> bool:
    """Whether a first line holds the columns' names, judged by the second line too."""
    numbers = [field.strip() for field in fields if is_number(field)]
    text = [field for field in fields if not is_number(field) and field.strip() not in MISSING]
    if not numbers:
        pairs = [(field, below) for field, below in zip(fields, second, strict=False) if field in text]
        over_numbers = any(is_number(below) for _, below in pairs)
        if not over_numbers and any(is_truth(field) and is_truth(below) for field, below in pairs):
            raise FormatError(
                f"{where}: the first line ({', '.join(fields[:3])}) may be names or values. "
                "Say which: --header or --no-header (header=True or False)."
            )
        return True
    counts = all(number.isdecimal() for number in numbers) and (np.diff([int(number) for number in numbers]) == 1).all()
    from_zero = counts and numbers[0] == "0"
    if len(numbers) == len(fields):
        if from_zero and len(fields) >= FEWEST_NAMES:
            return True
        if may_be_names(numbers, second):
            warnings.warn(
                f"{where}: the first line ({', '.join(numbers[:3])}, ...) may be names; it is read as values. "
                "Say which: --header or --no-header (header=True or False).",
                stacklevel=2,
            )
        return False
    if not text:
        return from_zero and fields[0] == ""  # else a row with missing values
    over_numbers = any(is_number(below) for field, below in zip(fields, second, strict=False) if field in text)
    if over_numbers:
        return True
    if from_zero or (counts and len(numbers) > 1):
        below = [field.strip() for field in second if is_number(field)]
        if len(numbers) < FEWEST_NAMES and all(number.isdecimal() for number in below):
            warnings.warn(
                f"{where}: the first line ({', '.join(fields[:3])}) may be values; it is read as names. "
                "Say which: --header or --no-header (header=True or False).",
                stacklevel=2,
            )
        return True
    raise FormatError(
        f"{where}: the first line is neither names nor numbers ({text[0]!r} beside {numbers[0]!r}). "
        "Say which: --header or --no-header (header=True or False)."
    )


def may_be_names(numbers: list[str], second: list[str]) -> bool:
    """Whether whole numbers may be names of columns: years, equal steps, or fractions below all of them.

    Examples
    --------
    >>> may_be_names(["2019", "2020"], ["7", "3"]), may_be_names(["12", "7"], ["0.5", "0.1"])
    (True, True)
    >>> may_be_names(["12", "7", "9"], ["3", "8", "1"]), may_be_names(["1.5", "2"], ["0.5", "0.1"])
    (False, False)
    """
    if not all(number.isdecimal() for number in numbers) or len(set(numbers)) < max(2, len(numbers)):
        return False
    values = [int(number) for number in numbers]
    are_years = all(value in YEARS for value in values)
    equal_steps = len(values) > 2 and len(set(np.diff(values))) == 1
    over_fractions = bool(second) and all(is_number(field) and not field.strip().isdecimal() for field in second)
    return are_years or equal_steps or over_fractions


def look_at(path: Path, header: bool | None) -> TextFile:
    """Return the layout of a file, after one pass that counts its lines."""
    lazy = Lazy(Content, path)
    content = lazy()
    head = content.read(0, HEAD_BYTES)
    if head.startswith(UTF16):
        raise FormatError(f"{path} is text in UTF-16. Write it in UTF-8.")
    if b"\0" in head:
        raise FormatError(f"{path} is not text in UTF-8. Is its extension right?")
    text = head.removeprefix(BOM).lstrip(b"\r\n")  # empty lines are skipped, also before the names
    if not text:
        raise FormatError(f"{path} holds empty lines alone. Write it again.")
    first, second = [*text.split(b"\n", 2), b""][:2]
    if b"\r" in first.rstrip(b"\r"):
        raise FormatError(f"{path} has lines that end in a carriage return alone. Write it with line feeds.")
    begin = len(head) - len(text)
    kinds = DELIMITERS[plain_suffix(path)]
    line = first.decode("utf-8", "replace")
    delimiter = next((mark for mark in kinds if mark in line), kinds[0])
    fields = split_line(line, delimiter)
    below = split_line(second.decode("utf-8", "replace"), delimiter)
    has_names = holds_names(fields, below, path) if header is None else header
    if has_names and not is_utf8(first):
        raise FormatError(f"{path}: {not_utf8(1, first)}")
    names = tuple(field.strip() for field in fields) if has_names else tuple(str(i) for i in range(len(fields)))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(f"{path} has two columns {twice!r}. Rename one of them.")
    rows = min(begin + len(first) + 1, content.size) if has_names else begin
    offsets, starts = segments_of(content, rows, blank_of(delimiter))
    return TextFile(path, lazy, delimiter, names, has_names, offsets, starts)


def blank_of(delimiter: str) -> bytes:
    """Return the bytes that a line without fields may consist of."""
    return b"\r " if delimiter == " " else b"\r"


def segments_of(content: Content, begin: int, blank: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return where segments of whole lines begin, and their first rows."""
    offsets, starts, size = [begin], [0], SEGMENT_BYTES
    while offsets[-1] < content.size:
        text = content.read(offsets[-1], offsets[-1] + size)
        if offsets[-1] + len(text) < content.size:
            cut = text.rfind(b"\n") + 1
            if not cut:
                size *= 2  # a line that is longer than a segment
                continue
            text = text[:cut]
        offsets.append(offsets[-1] + len(text))
        starts.append(starts[-1] + count_rows(text, blank))
    return np.array(offsets), np.array(starts)


def count_rows(text: bytes, blank: bytes) -> int:
    """Return the number of lines that hold more than blanks."""
    if b" " in blank or b"\n\n" in text or b"\n\r\n" in text or text[:1] in b"\r\n":
        return sum(1 for line in text.split(b"\n") if line.strip(blank))
    return text.count(b"\n") + (not text.endswith(b"\n"))


def plain_suffix(path: Path) -> str:
    """Return the extension, without .gz."""
    return suffix_of(path).removesuffix(".gz")


# -- the reader -------------------------------------------------------------------------------------------------


def open_store(path: Path, request: Request) -> Store:
    """Return the table of a file."""
    file = look_at(path, request.header)
    id_name = find_id(file, request.id_column)
    hidden = [] if id_name is None else [file.names.index(id_name)]
    known = file.names if file.has_names else None
    chosen = choose_columns(request.columns, known, len(file.names), str(path), hidden)
    names = list(file.names) if chosen is None else [file.names[c] for c in chosen]
    if request.numeric_only:
        others = without_numbers(file)
        warn_of_others([name for name in names if name in others], str(path))
        names = [name for name in names if name not in others]
    store = SegmentStore(
        where=str(path),
        shape=check_shape((int(file.starts[-1]), len(names)), str(path)),
        dtype=np.dtype(np.float64),
        columns=tuple(names) if file.has_names else None,
        ids=None if id_name is None else Lazy(file.column, id_name),
        starts=file.starts,
        cursors=Lazy(Cursors, partial(read_lines, file, names), file.starts, 8 * len(names)),
    )
    store.read(0, 1)  # text in the first rows is an error now, not in the middle of a fit
    return store


def without_numbers(file: TextFile) -> set[str]:
    """Return the columns with values other than numbers in the first lines."""
    text = file.content().read(int(file.offsets[0]), int(file.offsets[0]) + HEAD_BYTES)
    lines = text.decode("utf-8", "replace").split("\n")
    whole = lines[:-1] if len(lines) > 1 else lines  # the last one may be cut
    rows = [split_line(line, file.delimiter) for line in whole if line.strip()]
    found = set()
    for number, name in enumerate(file.names):
        fields = [row[number] for row in rows if number < len(row) and row[number].strip() not in MISSING]
        if not (all(map(is_number, fields)) or all(map(is_truth, fields))):
            found.add(name)
    return found


def find_id(file: TextFile, id_column: str | int | None) -> str | None:
    """Return the name of the column of ids."""
    if id_column is not None:
        names = file.names if file.has_names else None
        chosen = choose_columns(id_column, names, len(file.names), str(file.path))
        return file.names[chosen[0]] if chosen is not None else None
    return "" if file.has_names and file.names[0] == "" and len(file.names) > 1 else None


def read_labels(path: Path, request: Request) -> Target:
    """Return known labels, and the rows' ids."""
    file = look_at(path, request.header)
    id_name = find_id(file, request.id_column)
    if not file.starts[-1]:
        raise FormatError(f"{path} has no rows: {listed(file.names)} is all there is.")
    name = find_labels(path, [name for name in file.names if name != id_name], request.key)
    values = as_fractions(file.column(name)) if request.fractions else file.column(name)
    return Target(values, None if id_name is None else file.column(id_name))


def as_fractions(values: np.ndarray) -> np.ndarray:
    """Return a column of text that holds only numbers as floats, NaN where they are missing; codes stay text.

    Examples
    --------
    >>> as_fractions(np.array(["0.5", "", "7"])), as_fractions(np.array(["007", "008"]))
    (array([0.5, nan, 7. ]), array(['007', '008'], dtype='<U3'))
    """
    if values.dtype.kind != "U":
        return values
    spelt, rows = np.unique(values, return_inverse=True)
    fields = [field.strip() for field in spelt.tolist()]
    known = [field for field in fields if field not in MISSING]
    if not known or not all(is_number(field) and not CODE.fullmatch(field) for field in known):
        return values
    return np.array([np.nan if field in MISSING else float(field) for field in fields])[rows]  # (n,)

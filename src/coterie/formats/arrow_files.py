"""Parquet and Arrow files (``.parquet``, ``.feather``, ``.arrow``): columns with types, rows in groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coterie.formats.checks import check_shape, listed, text_array
from coterie.formats.columns import EXACT, choose_columns, is_rounded, warn_of_others, warn_of_rounding
from coterie.formats.errors import FormatError, package
from coterie.formats.labels import Target, find_labels
from coterie.formats.parquet_footer import check_pages, null_counts, read_footer
from coterie.formats.registry import Request
from coterie.formats.segments import Cursors, SegmentStore, rows_per_block
from coterie.formats.stores import Lazy, Store

BUFFER_BYTES = 256 << 10  # of each column that are read ahead
PARQUET = (".parquet", ".pq")
ROWS_LOOKED_AT = 64  # at a time, for the length of a column's lists
MOST_NUMBERED = 1 << 61  # bound of a range of row numbers, so that its len() does not overflow


@dataclass(frozen=True)
class Field:
    """A column of the file: one number a row, or a list of ``width`` numbers a row."""

    name: str
    dtype: np.dtype
    width: int = 1
    is_list: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns it becomes."""
        return tuple(f"{self.name}[{i}]" for i in range(self.width)) if self.is_list else (self.name,)


# -- files ------------------------------------------------------------------------------------------------------


class ParquetFile:
    """A parquet file; its segments are its row groups."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metadata = Lazy(read_metadata, path)
        self._footer = Lazy(read_footer, path)

    def schema(self) -> Any:
        """Return the columns and their types."""
        return self._metadata().schema.to_arrow_schema()

    def segment_rows(self) -> list[int]:
        """Return the number of rows of each row group."""
        metadata = self._metadata()
        found = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if min(found, default=0) < 0:
            raise ValueError(f"one of its row groups says that it has {min(found)} rows")
        return found

    def with_gaps(self, names: Sequence[str]) -> set[str]:
        """Return the columns that may lack values, among them those whose missing values the file does not count."""
        if not names:
            return set()
        counts = null_counts(self._footer())
        return {name for name in names if counts.get(name) != 0}

    def batches(self, segment: int, names: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Yield the rows of a row group; pages are read as they are needed."""
        check_pages(self.path, [self._footer()[segment]], names)
        with self._open() as file:
            yield from file.iter_batches(n_rows, row_groups=[segment], columns=list(names))

    def column(self, name: str) -> Any:
        """Return a whole column."""
        check_pages(self.path, self._footer(), [name])
        with self._open() as file:
            return file.read(columns=[name]).column(name).combine_chunks()

    def _open(self) -> Any:
        parquet = package("pyarrow.parquet", "Reading parquet")
        checked = {"page_checksum_verification": True}  # where the writer stored checksums
        options = {"metadata": self._metadata(), "buffer_size": BUFFER_BYTES, "pre_buffer": False}
        return parquet.ParquetFile(self.path, **options, **checked)


def read_metadata(path: Path) -> Any:
    """Return the metadata in the footer of a parquet file."""
    return package("pyarrow.parquet", "Reading parquet").read_metadata(path)


@dataclass(frozen=True)
class ArrowFile:
    """An Arrow file or stream; its segments are its batches."""

    path: Path

    def open(self, names: Sequence[str] | None = None) -> Any:
        """Open the file, for some columns."""
        ipc, arrow = package("pyarrow.ipc", "Reading Arrow files"), package("pyarrow", "Reading Arrow files")
        source = arrow.memory_map(str(self.path))
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if not is_file:
            return StreamBatches(ipc.open_stream(source))
        if names is None:
            return ipc.open_file(source)
        numbers = {name: i for i, name in enumerate(ipc.open_file(source).schema.names)}
        options = ipc.IpcReadOptions(included_fields=[numbers[name] for name in names])
        return ipc.open_file(source, options=options)

    def schema(self) -> Any:
        """Return the columns and their types."""
        return self.open().schema

    def segment_rows(self) -> list[int]:
        """Return the number of rows of each batch."""
        file = self.open(self.schema().names[:1])
        return [file.get_batch(i).num_rows for i in range(file.num_record_batches)]

    def with_gaps(self, names: Sequence[str]) -> set[str]:
        """Return the columns that lack values."""
        found: set[str] = set()
        file = self.open(names)
        for batch in (file.get_batch(i) for i in range(file.num_record_batches if names else 0)):
            found.update(name for name in names if checked(batch, name).null_count)
        return found

    def batches(self, segment: int, names: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Yield the rows of a batch."""
        batch = self.open(names).get_batch(segment)
        for name in names:
            checked(batch, name)
        for start in range(0, batch.num_rows, n_rows):
            yield batch.slice(start, n_rows)

    def column(self, name: str) -> Any:
        """Return a whole column."""
        file = self.open([name])
        parts = [checked(file.get_batch(i), name) for i in range(file.num_record_batches)]
        return package("pyarrow", "Reading Arrow files").chunked_array(parts).combine_chunks()


def checked(batch: Any, name: str) -> Any:
    """Return a column of a batch after Arrow's full validation: offsets out of range would be followed otherwise."""
    column = batch.column(name)
    column.validate(full=True)
    return column


class StreamBatches:
    """A mapped Arrow stream with the interface of an Arrow file; its batches are not copied."""

    def __init__(self, stream: Any) -> None:
        self.schema = stream.schema
        self._batches = list(stream)
        self.num_record_batches = len(self._batches)

    def get_batch(self, number: int) -> Any:
        """Return a batch."""
        return self._batches[number]


def arrow_types() -> Any:
    """Return pyarrow's module of predicates of types."""
    return package("pyarrow", "Reading Arrow files").types


# -- values -----------------------------------------------------------------------------------------------------


def read_batches(
    file: ParquetFile | ArrowFile, fields: tuple[Field, ...], dtype: np.dtype, segment: int
) -> Iterator[np.ndarray]:
    """Yield the rows of a segment as arrays."""
    names = [field.name for field in fields]
    width = sum(field.width for field in fields)
    for batch in file.batches(segment, names, rows_per_block(width, dtype)):
        out = np.empty((batch.num_rows, width), dtype=dtype)  # (b, d)
        first = 0
        for field in fields:
            column = batch.column(field.name)
            is_long = field.dtype.kind in "iu" and field.dtype.itemsize == 8
            if dtype.kind == "f" and (is_long or arrow_types().is_decimal(column.type)):
                check_rounding(column, field, str(file.path))
            out[:, first : first + field.width] = column_values(column, field, dtype)
            first += field.width
        yield out


def check_rounding(column: Any, field: Field, where: str) -> None:
    """Warn if a column of integers or decimals that becomes float64 holds whole numbers that this does not hold."""
    numbers = (column.flatten() if field.is_list else column).drop_null()
    is_decimal = arrow_types().is_decimal(numbers.type)
    values = np.from_dlpack(numbers.cast("float64") if is_decimal else numbers)
    rows = np.flatnonzero((values >= EXACT) | (values <= -EXACT))  # compared as floats
    large = (numbers[row].as_py() for row in rows.tolist()) if is_decimal else values[rows].tolist()
    if any(value == int(value) and is_rounded(int(value)) for value in large):
        warn_of_rounding(field.name, where)


def column_values(column: Any, field: Field, dtype: np.dtype) -> np.ndarray:
    """Return a column of a batch as numbers; missing values are NaN."""
    types = arrow_types()
    if field.is_list:
        there = column.drop_null() if column.null_count else column
        lengths = np.asarray(there.value_lengths()) if not is_fixed(column.type) else None
        if (lengths is not None and (lengths != field.width).any()) or (column.null_count and dtype.kind != "f"):
            raise ValueError(f"column {field.name!r} must hold {field.width} numbers in every row, and does not")
        rows = column_values(there.flatten(), Field(field.name, field.dtype), dtype).reshape(len(there), field.width)
        if not column.null_count:
            return rows  # (b, width)
        found = np.full((len(column), field.width), np.nan, dtype=dtype)  # (b, width)
        found[np.asarray(column.is_valid())] = rows
        return found
    if column.null_count and dtype.kind != "f":
        raise ValueError(f"column {field.name!r} has missing values, which integers cannot hold. Store it as float")
    if types.is_decimal(column.type) or (column.null_count and not types.is_floating(column.type)):
        column = column.cast("float64", safe=types.is_decimal(column.type))  # integers are checked before
    if column.null_count or types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)[:, None]  # (b, 1)
    return np.from_dlpack(column)[:, None]  # (b, 1), not copied; pyarrow's own conversion asks pandas first


def is_fixed(kind: Any) -> bool:
    """Whether an Arrow type is a list of fixed length."""
    return arrow_types().is_fixed_size_list(kind)


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is a list."""
    return is_fixed(kind) or arrow_types().is_list(kind) or arrow_types().is_large_list(kind)


def number_type(kind: Any) -> np.dtype | None:
    """Return the NumPy type of an Arrow type that holds numbers, or lists of them; None for other types."""
    types = arrow_types()
    if is_list(kind):
        kind = kind.value_type
    if types.is_decimal(kind):
        return np.dtype(np.float64)
    if types.is_boolean(kind):
        return np.dtype(np.bool_)
    if types.is_integer(kind) or types.is_floating(kind):  # some versions of pyarrow's own conversion ask pandas
        letter = "f" if types.is_floating(kind) else "u" if types.is_unsigned_integer(kind) else "i"
        return np.dtype(f"{letter}{kind.bit_width // 8}")
    return None


def field_of(file: ParquetFile | ArrowFile, name: str, kind: Any) -> Field:
    """Return how a column is read; refuse what is not numbers."""
    dtype = number_type(kind)
    if dtype is None:
        inner = kind.value_type if is_list(kind) else kind
        what = "dates or times" if arrow_types().is_temporal(inner) else f"{inner}, not numbers,"
        raise FormatError(
            f"{file.path}: column {name!r} holds {what} from row 0 on. Encode it as numbers, leave it out (choose "
            "columns, or numeric_only: --numeric-only), or make it the id column (id_column: --id-column)."
        )
    if not is_list(kind):
        return Field(name, dtype)
    return Field(name, dtype, kind.list_size if is_fixed(kind) else first_length(file, name), is_list=True)


def first_length(file: ParquetFile | ArrowFile, name: str) -> int:
    """Return the length of the first list of a column; 0 where the first segment has none."""
    for batch in file.batches(0, [name], ROWS_LOOKED_AT):
        known = batch.column(name).drop_null()
        if len(known):
            return len(known[0])
    return 0


# -- the reader -------------------------------------------------------------------------------------------------


def arrow_file(path: Path) -> ParquetFile | ArrowFile:
    """Return a path as a parquet or an Arrow file, by its extension."""
    return ParquetFile(path) if path.suffix.lower() in PARQUET else ArrowFile(path)


def open_store(path: Path, request: Request) -> Store:
    """Return the table of a file."""
    file = arrow_file(path)
    schema = file.schema()
    names = list(schema.names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(f"{path} has two columns {twice!r}. Rename one of them.")
    ids, hidden = row_ids(file, schema, request.id_column)
    chosen = choose_columns(request.columns, names, len(names), str(path), [names.index(name) for name in hidden])
    names = names if chosen is None else [names[c] for c in chosen]
    if request.numeric_only:
        others = [name for name in names if number_type(schema.field(name).type) is None]
        warn_of_others(others, str(path))
        names = [name for name in names if name not in others]
    lengths = file.segment_rows()
    check_shape((sum(lengths), len(names)), str(path))
    fields = tuple(field_of(file, name, schema.field(name).type) for name in names)
    whole = [field.name for field in fields if field.dtype.kind != "f" and not field.is_list]
    gaps = [np.dtype(np.float64)] if file.with_gaps(whole) else []  # missing values are NaN, which only floats have
    dtype = np.result_type(*gaps, *{field.dtype for field in fields})
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return SegmentStore(
        where=str(path),
        shape=check_shape((sum(lengths), sum(field.width for field in fields)), str(path)),
        dtype=dtype,
        columns=tuple(name for field in fields for name in field.names),
        ids=ids,
        numbers=None if ids else row_numbers(schema, sum(lengths)),
        types=", ".join(f"{name} {schema.field(name).type}" for name in names),
        starts=starts,
        cursors=Lazy(Cursors, partial(read_batches, file, fields, dtype), starts, len(fields) * dtype.itemsize),
    )


def row_ids(
    file: ParquetFile | ArrowFile, schema: Any, id_column: str | int | None
) -> tuple[Lazy[np.ndarray] | None, tuple[str, ...]]:
    """Return the rows' ids, and the columns that hold ids and are left out of the table."""
    index = [name for name in index_columns(schema) if name in schema.names]
    if id_column is not None:
        chosen = choose_columns(id_column, schema.names, len(schema.names), str(file.path))
        name = schema.names[chosen[0]] if chosen is not None else ""
        return Lazy(whole_column, file, name), (name, *index)
    if not index:
        return None, ()
    if len(index) > 1:
        raise FormatError(
            f"{file.path} has an index of {len(index)} levels ({listed(index)}). Name one column as the id column."
        )
    return Lazy(whole_column, file, index[0]), (index[0],)


def index_columns(schema: Any) -> list[str]:
    """Return the columns that pandas recorded as the index; a RangeIndex is not a column."""
    return [name for name in noted_index(schema) if isinstance(name, str)]


def noted_index(schema: Any) -> list[Any]:
    """Return pandas' record of the index: names of columns, or a range."""
    noted = (schema.metadata or {}).get(b"pandas")
    found = json.loads(noted).get("index_columns", []) if noted else []
    return found if isinstance(found, list) else []


def row_numbers(schema: Any, n_rows: int) -> range | None:
    """Return pandas' RangeIndex of the rows, if any; that of a sliced or reversed frame does not count from 0."""
    for noted in noted_index(schema):
        if isinstance(noted, dict) and noted.get("kind") == "range":
            bounds: list[Any] = [noted.get(name) for name in ("start", "stop", "step")]
            if all(type(bound) is int and abs(bound) < MOST_NUMBERED for bound in bounds) and bounds[2]:
                found = range(*bounds)
                return found if len(found) == n_rows else None  # else it is of other rows
    return None


def whole_column(file: ParquetFile | ArrowFile, name: str, may_lack: bool = False) -> np.ndarray:
    """Return a whole column; refuse missing values, except, with ``may_lack``, of floats (as NaN) and dates (NaT)."""
    column, types = file.column(name), arrow_types()
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    can_mark_gaps = types.is_floating(column.type) or types.is_timestamp(column.type) or types.is_date(column.type)
    if column.null_count and not (may_lack and can_mark_gaps):
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise FormatError(f"{file.path}: column {name!r} has no value in row {row}. Every row needs one.")
    values = column.to_numpy(zero_copy_only=False)
    return text_array(values, f"{file.path}: column {name!r}") if values.dtype == object else values


def read_labels(path: Path, request: Request) -> Target:
    """Return known labels, and the rows' ids."""
    file = arrow_file(path)
    schema = file.schema()
    ids, hidden = row_ids(file, schema, request.id_column)
    name = find_labels(path, [name for name in schema.names if name not in hidden], request.key)
    labels = whole_column(file, name, may_lack=True)
    if ids is not None:
        return Target(labels, ids())
    return Target(labels, numbers=row_numbers(schema, len(labels)))

"""Write results, at once or block by block; a file appears under its name only when it is complete."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from coterie.files import expand_home, written_whole
from coterie.formats.errors import FormatError, package
from coterie.formats.registry import suffix_of

ID = "id"
NamedColumns = dict[str, np.ndarray]


def write_table(path: str | PathLike[str], columns: Mapping[str, Any], ids: Any = None) -> None:
    """Write columns to a file.

    Parameters
    ----------
    path : str or path
        The extension chooses the format: ``.csv``, ``.tsv`` (also with ``.gz``), ``.parquet``, ``.feather``,
        ``.arrow``, ``.npy`` (one column, no ids), ``.npz``, ``.json`` (a list of objects) or ``.jsonl`` (an object
        a line).
    columns : mapping of str to array-like
        Columns of the same length. One with two dimensions becomes ``name_0``, ``name_1`` and so on, except in
        ``.npy`` and ``.npz``.
    ids : array-like or None, default=None
        The rows' ids, written as the first column, ``id``.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/labels.csv"
    >>> write_table(path, {"label": [2, 0]}, ids=["a", "b"])
    >>> Path(path).read_text()
    'id,label\\n"a",2\\n"b",0\\n'
    """
    with open_writer(path) as writer:
        writer.write(columns, ids)


@contextmanager
def open_writer(path: str | PathLike[str]) -> Iterator[TableWriter]:
    """Open a file for results that come block by block.

    The blocks go to a temporary file beside the target, which takes the target's name at the end; after an exception it
    is removed, and an older file stays as it was. The blocks of an ``.npz`` are kept in memory until the end.

    Parameters
    ----------
    path : str or path
        As for `write_table`.

    Yields
    ------
    TableWriter

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/labels.npy"
    >>> with open_writer(path) as writer:
    ...     writer.write({"label": [2, 0]})
    ...     writer.write({"label": [1]})
    >>> np.load(path)
    array([2, 0, 1])
    """
    path = expand_home(path)
    begin = WRITERS.get(suffix_of(path))
    if begin is None:
        raise FormatError(f"{path} cannot be written: {path.suffix or 'no extension'} is none of {', '.join(WRITERS)}.")
    if path.is_dir():
        raise FormatError(f"{path} cannot be written: it is a folder. Name a file in it.")
    with written_whole(path) as file:
        writer = TableWriter(path, begin(file, path))
        try:
            yield writer
        except BaseException:
            writer.give_up()
            raise
        writer.finish()


class TableWriter:
    """A writer of blocks of columns; made by `open_writer`."""

    def __init__(self, path: Path, format_writer: Any) -> None:
        self._path = path
        self._format = format_writer
        self._types: dict[str, Any] | None = None

    def write(self, columns: Mapping[str, Any], ids: Any = None) -> None:
        """Write a block of rows.

        Parameters
        ----------
        columns : mapping of str to array-like
            The same columns, of the same types, every time.
        ids : array-like or None, default=None
            The rows' ids.
        """
        block: NamedColumns = {} if ids is None else {ID: np.asarray(ids)}
        for name, values in columns.items():
            if str(name) in block:
                raise FormatError(f"{self._path}: two columns are called {name!r}. Rename one of them.")
            block[str(name)] = np.asarray(values)
        self._check(block)
        self._format.write(block)

    def _check(self, block: NamedColumns) -> None:
        lengths = {name: len(values) if values.ndim in (1, 2) else -1 for name, values in block.items()}
        if not block or -1 in lengths.values() or len(set(lengths.values())) > 1:
            raise FormatError(
                f"{self._path}: columns must be one- or two-dimensional and of one length. Got {lengths}."
            )
        types = {name: (values.dtype.kind, values.shape[1:]) for name, values in block.items()}
        if self._types is not None and types != self._types:
            now, first = describe_types(types), describe_types(self._types)
            raise FormatError(f"{self._path}: a block has {now}, but the first one had {first}.")
        self._types = types

    def finish(self) -> None:
        """Write the end of the file."""
        if self._types is None:
            raise FormatError(f"{self._path} was given no rows. Write at least one block.")
        self._format.finish()

    def give_up(self) -> None:
        """End the writing of a file that will be removed: pyarrow would write to it after it is closed."""
        with suppress(Exception):
            self._format.finish()


def describe_types(types: Mapping[str, Any]) -> str:
    """Return columns and their types in one line."""
    return ", ".join(f"{name} ({kind}{list(shape) if shape else ''})" for name, (kind, shape) in types.items())


def flat(block: NamedColumns) -> NamedColumns:
    """Return a block whose columns all have one dimension."""
    columns: NamedColumns = {}
    for name, values in block.items():
        if values.ndim == 1:
            columns[name] = values
        else:
            columns.update({f"{name}_{i}": values[:, i] for i in range(values.shape[1])})
    return columns


class ArrowWriter:
    """Parquet, Arrow and text, all by pyarrow; the first block sets the schema."""

    def __init__(self, file: BinaryIO, open_arrow: Callable[[BinaryIO, Any], Any]) -> None:
        self._file, self._open = file, open_arrow
        self._writer: Any = None
        self._schema: Any = None

    def write(self, block: NamedColumns) -> None:
        """Write a block."""
        arrow = package("pyarrow", "Writing this format")
        columns = {name: as_arrow(values, arrow) for name, values in flat(block).items()}
        table = arrow.table(columns, schema=self._schema)
        if self._writer is None:
            self._schema = table.schema
            self._writer = self._open(self._file, table.schema)
        self._writer.write_table(table)

    def finish(self) -> None:
        """Close the writer, not the file."""
        if self._writer is not None:
            self._writer.close()


def as_arrow(values: np.ndarray, arrow: Any) -> Any:
    """Return a column as an Arrow array."""
    if values.dtype.kind in "iuf":  # not copied: arrow.array would, and import pandas first
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
        kind = arrow.from_numpy_dtype(values.dtype)
        return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(values)])
    return arrow.array(values.tolist() if values.dtype.kind in "OUS" else values)


def parquet_writer(file: BinaryIO, path: Path) -> ArrowWriter:
    """Return a writer of parquet."""
    parquet = package("pyarrow.parquet", "Writing parquet")
    return ArrowWriter(file, lambda sink, schema: parquet.ParquetWriter(sink, schema))


def arrow_writer(file: BinaryIO, path: Path) -> ArrowWriter:
    """Return a writer of Arrow files."""
    ipc = package("pyarrow.ipc", "Writing Arrow files")
    options = ipc.IpcWriteOptions(compression="lz4")
    return ArrowWriter(file, lambda sink, schema: ipc.new_file(sink, schema, options=options))


class TextWriter(ArrowWriter):
    """Text with a first line of names, gzipped if the file's name ends in .gz."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        suffix = suffix_of(path)
        # mtime=0: without the time in it, the same table gives the same file.
        is_packed = suffix.endswith(".gz")
        self._packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") if is_packed else None
        self._delimiter = "\t" if suffix.startswith(".tsv") else ","
        super().__init__(self._packed or file, self._begin)  # type: ignore[arg-type]

    def write(self, block: NamedColumns) -> None:
        """Write a block; yes and no are 1 and 0, as only numbers are read again."""
        super().write({name: own.astype(np.uint8) if own.dtype == bool else own for name, own in block.items()})

    def _begin(self, sink: BinaryIO, schema: Any) -> Any:
        csv = package("pyarrow.csv", "Writing csv")
        plain_names = not any(mark in name for name in schema.names for mark in ',"\t\r\n')
        header = "none" if plain_names else "needed"
        options = csv.WriteOptions(delimiter=self._delimiter, quoting_style="needed", quoting_header=header)
        return csv.CSVWriter(sink, schema, write_options=options)

    def finish(self) -> None:
        """Close the writer and the compressed stream, not the file."""
        super().finish()
        if self._packed is not None:
            self._packed.close()


class JsonWriter:
    """One JSON object per row: in a list, or one per line."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._is_list = path.suffix.lower() == ".json"
        self._started = False

    def write(self, block: NamedColumns) -> None:
        """Write a block."""
        columns = {name: [json_value(value) for value in values.tolist()] for name, values in flat(block).items()}
        for row in zip(*columns.values(), strict=True):
            before = ("[\n" if not self._started else ",\n") if self._is_list else ""
            after = "" if self._is_list else "\n"
            self._started = True
            self._file.write((before + json.dumps(dict(zip(columns, row, strict=True))) + after).encode())

    def finish(self) -> None:
        """Close the list."""
        if self._is_list:
            self._file.write(b"\n]\n" if self._started else b"[]\n")


def json_value(value: Any) -> Any:
    """Return a value for JSON: None in place of NaN and infinity, which it does not have."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


class NpyWriter:
    """One array; the header, which holds the number of rows, is written again at the end."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._rows = 0

    def write(self, block: NamedColumns) -> None:
        """Write a block."""
        if len(block) > 1:
            raise FormatError(
                f"{self._path} holds one column, without ids. Got {', '.join(block)}: use .npz or .parquet."
            )
        (values,) = block.values()
        if not self._rows:
            self._dtype, self._shape = values.dtype, values.shape[1:]
            if self._dtype.hasobject:
                raise FormatError(f"{self._path} cannot hold Python objects. Write text as .parquet or .csv.")
            self._write_header(0)
        self._rows += len(values)
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).tobytes())

    def _write_header(self, n_rows: int) -> None:
        described = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": described, "fortran_order": False, "shape": (n_rows, *self._shape)}
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, header)  # leaves room for any number of rows
        self._file.seek(0)
        self._file.write(buffer.getvalue())

    def finish(self) -> None:
        """Write the header again, with the number of rows."""
        self._write_header(self._rows)


class NpzWriter:
    """One array for each column, kept until the end."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._blocks: list[NamedColumns] = []

    def write(self, block: NamedColumns) -> None:
        """Keep a block."""
        for name, values in block.items():
            if values.dtype.hasobject:
                block[name] = values.astype(np.str_)
        self._blocks.append(block)

    def finish(self) -> None:
        """Write all blocks."""
        columns = {name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}
        np.savez_compressed(self._file, **columns)  # type: ignore[arg-type]


WRITERS: dict[str, Callable[[BinaryIO, Path], Any]] = {
    ".csv": TextWriter,
    ".csv.gz": TextWriter,
    ".tsv": TextWriter,
    ".tsv.gz": TextWriter,
    ".parquet": parquet_writer,
    ".feather": arrow_writer,
    ".arrow": arrow_writer,
    ".npy": NpyWriter,
    ".npz": NpzWriter,
    ".json": JsonWriter,
    ".jsonl": JsonWriter,
}

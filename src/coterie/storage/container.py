"""Files of named arrays and a JSON header: safetensors, read strictly. Nothing here knows of models.

A file is eight bytes that give the length of the header, the header, and the arrays' bytes one after the other. The
header is JSON: every array's type, shape and offsets, and under ``__metadata__`` one string, which is JSON again:
a checksum of the whole file, the version of the format, the version of Coterie that wrote it, and the content. Any
reader of safetensors can open the file. This one checks everything before it uses it, and allocates no more than the
file has room for.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import numpy as np

from coterie.files import written_whole

METADATA_KEY = "coterie"  # the one entry of the file's metadata
STORED_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}

MAX_HEADER = 1 << 24  # bytes; parsed JSON takes up to about fifteen times the memory of its text
MAX_DEPTH = 64  # lists and dicts inside each other
MAX_LISTS = 100_000  # and dicts in one text: each costs far more memory than its two characters
MAX_DIMENSIONS = 8

DAMAGED = "It is damaged, or not a model that Coterie wrote: get it again, or save the model anew."
OTHER = "Pass a file that coterie.save wrote."

# What other files begin with.
OTHER_FILES = (
    (b"PK\x03\x04", "a zip archive, as .npz, .pt and .xlsx files are"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"\x89HDF", "an HDF5 file, as .h5ad files are"),
    (b"PAR1", "a parquet file"),
    (b"ARROW1", "a feather file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
)
MARKUP = re.compile(rb"\s*<(?:!doctype|html|head|\?xml)", re.IGNORECASE)
STEPS = np.zeros(256, dtype=np.int8)  # of nesting, by byte: 1 into a list or dict, -1 out of it
STEPS[list(b"[{")], STEPS[list(b"]}")] = 1, -1

SIGNATURE = b'\\"sha256\\":\\"'  # precedes the checksum; quotes are escaped in JSON inside JSON
UNSIGNED = b"0" * 64


class ModelFileError(ValueError):
    """A file is not a model, or not one that this version of Coterie can read."""


def refuse_file(what: str, remedy: str = DAMAGED) -> NoReturn:
    """Raise the error for a file that is not a valid model file."""
    raise ModelFileError(f"{what}. {remedy}")


@contextmanager
def naming_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the file's path to the message of a ModelFileError raised inside."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None


def short(value: Any) -> str:
    """Return a value from a file as short text on one line, for a message."""
    text = ascii(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class ArrayBytes:
    """Where an array lies in the file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int  # bytes after the header
    end: int


@dataclass(frozen=True)
class ContainerHeader:
    """The header of a file."""

    writer: str  # the version of the library that wrote it
    content: dict[str, Any]
    spans: dict[str, ArrayBytes]  # in the order of their bytes
    text: bytes  # its bytes in the file
    file_bytes: int


# -- writing --------------------------------------------------------------------------------------------------------


def write_container(
    path: str | os.PathLike[str],
    content: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    version: int,
    writer: str,
) -> None:
    """Write content and arrays to a file, which appears under its name only when it is whole.

    Parameters
    ----------
    path : path
        An existing file is replaced.
    content : dict
        Plain JSON.
    arrays : dict of ndarray
        C-contiguous, of the types in ``STORED_DTYPES``.
    version : int
        Of the content.
    writer : str
        The version of the library, for the message to a reader that is too old for the content.
    """
    from safetensors.numpy import save  # only writing needs it

    entries = {"sha256": UNSIGNED.decode(), "version": version, "writer": writer, "content": content}
    text = json.dumps(entries, allow_nan=False, separators=(",", ":"))
    data = bytearray(save(dict(arrays), {METADATA_KEY: text}))
    length = int.from_bytes(data[:8], "little")
    _check_readable(data[8 : 8 + length], text.encode())
    sign(data)
    with written_whole(path) as file:
        file.write(data)


def _check_readable(header: bytearray, text: bytes) -> None:
    """Refuse to write a header that reading would refuse."""
    try:
        if len(header) <= MAX_HEADER:
            parse_json(header)
            parse_json(text)
            return
    except ModelFileError:
        pass
    refuse_file(
        f"its header would take more than {MAX_HEADER} bytes, {MAX_LISTS} lists or {MAX_DEPTH} levels",
        "Keep notes, parameters and column names shorter.",
    )


def sign(data: bytearray) -> None:
    """Write the checksum of a whole file, computed with zeros in the checksum's place, into it."""
    length = int.from_bytes(data[:8], "little")
    at = data.find(SIGNATURE, 8, 8 + length) + len(SIGNATURE)
    if at < len(SIGNATURE):
        raise ValueError("There is no place for a checksum in these bytes.")
    data[at : at + 64] = UNSIGNED
    data[at : at + 64] = hashlib.sha256(data).hexdigest().encode()


# -- reading --------------------------------------------------------------------------------------------------------


def read_container_header(path: str | os.PathLike[str], *, newest: int) -> ContainerHeader:
    """Return a file's header; its arrays are not read, so the checksum is not verified."""
    with naming_file(path), _opened(path) as file:
        return _read_header(file, newest)


def read_container(path: str | os.PathLike[str], *, newest: int) -> tuple[ContainerHeader, dict[str, np.ndarray]]:
    """Return a file's header and arrays, after verifying the checksum.

    Parameters
    ----------
    path : path
    newest : int
        The newest version of the content that the caller understands.
    """
    with naming_file(path), _opened(path) as file:
        header = _read_header(file, newest)
        at = header.text.find(SIGNATURE) + len(SIGNATURE)
        digest = hashlib.sha256(len(header.text).to_bytes(8, "little"))
        digest.update(header.text[:at] + UNSIGNED + header.text[at + 64 :])
        buffers = {}
        for name, span in header.spans.items():
            buffers[name] = np.empty(span.end - span.begin, dtype=np.uint8)
            if file.readinto(buffers[name]) != len(buffers[name]):
                refuse_file("it ends early")
            digest.update(buffers[name].data)
        if digest.hexdigest().encode() != header.text[at : at + 64]:
            refuse_file("its checksum does not match its bytes")
        return header, {name: _as_array(name, buffers[name], span) for name, span in header.spans.items()}


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    mode = os.stat(path).st_mode  # before opening, which would wait at a pipe
    if not stat.S_ISREG(mode):
        refuse_file(f"it is a {'folder' if stat.S_ISDIR(mode) else 'device or pipe'}, not a file", OTHER)
    with open(path, "rb") as file:
        yield file


def _read_header(file: BinaryIO, newest: int) -> ContainerHeader:
    size = os.fstat(file.fileno()).st_size
    start = file.read(512)
    _refuse_other_files(start)
    length = int.from_bytes(start[:8], "little")
    if length > size - 8:
        refuse_file(f"it holds {size} bytes, too few for the {length} of its header")
    if length > MAX_HEADER:
        refuse_file(f"its header takes {length} bytes, above {MAX_HEADER}")
    file.seek(8)
    text = file.read(length)
    table = parse_json(text)
    if not isinstance(table, dict):
        refuse_file("its header is not a JSON object")
    metadata = table.pop("__metadata__", None)
    if (
        not isinstance(metadata, dict)
        or list(metadata) != [METADATA_KEY]
        or not isinstance(metadata[METADATA_KEY], str)
    ):
        refuse_file("it holds safetensors, but no model of Coterie", OTHER)
    writer, content = _read_metadata(metadata[METADATA_KEY], text, newest)
    return ContainerHeader(writer, content, _read_spans(table, size - 8 - length), text, size)


def _refuse_other_files(start: bytes) -> None:
    if not start:
        refuse_file("it is empty", OTHER)
    for opening, words in OTHER_FILES:
        if start.startswith(opening):
            refuse_file(f"it looks like {words}", OTHER)
    if MARKUP.match(start):
        refuse_file("it looks like a web page", OTHER)
    if len(start) < 10 or start[8:9] != b"{":
        refuse_file("it does not begin like a model", OTHER)


def _read_metadata(inner: str, text: bytes, newest: int) -> tuple[str, dict[str, Any]]:
    found = parse_json(inner.encode("utf-8", "surrogatepass"))
    if not isinstance(found, dict) or not {"sha256", "version", "writer"} <= set(found):
        refuse_file("its header lacks the version or the checksum")
    version, writer = found["version"], found["writer"]
    if type(version) is not int or version < 1 or not isinstance(writer, str):
        refuse_file(f"its version is {short(version)}, not a whole number above 0")
    if version > newest:
        refuse_file(
            f"it was written by Coterie {short(writer)} in version {short(version)} of the format, and this one reads "
            f"versions up to {newest}",
            "Upgrade: pip install --upgrade coterie.",
        )
    if set(found) != {"sha256", "version", "writer", "content"} or not isinstance(found["content"], dict):
        refuse_file("its header has entries that it should not have, or lacks some")
    at = text.find(SIGNATURE) + len(SIGNATURE)
    digest = found["sha256"]
    if not isinstance(digest, str) or len(digest) != 64 or text[at : at + 64] != digest.encode("ascii", "replace"):
        refuse_file("its checksum is not where it should be")
    return writer, found["content"]


def _read_spans(table: dict[str, Any], n_bytes: int) -> dict[str, ArrayBytes]:
    spans = {name: _read_span(name, entry) for name, entry in table.items()}
    spans = dict(sorted(spans.items(), key=lambda item: (item[1].begin, item[1].end)))
    at = 0
    for name, span in spans.items():
        if span.begin != at:
            refuse_file(f"array {short(name)} begins at byte {span.begin} instead of {at}")
        at = span.end
    if at != n_bytes:
        refuse_file(f"its arrays take {short(at)} bytes, but {n_bytes} follow its header")
    return spans


def _read_span(name: str, entry: Any) -> ArrayBytes:
    label = f"array {short(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        refuse_file(f"{label} is not described by dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in STORED_DTYPES:
        refuse_file(f"{label} is of an unknown type, {short(kind)}")
    if not _is_counts(shape) or len(shape) > MAX_DIMENSIONS:
        refuse_file(f"{label} has no possible shape")
    if not _is_counts(offsets) or len(offsets) != 2:
        refuse_file(f"{label} has no possible place")
    begin, end = offsets
    item = STORED_DTYPES[kind].itemsize
    # NumPy limits the product of the nonzero sizes even if another size is zero.
    if math.prod(max(size, 1) for size in shape) * item >= 1 << 62 or math.prod(shape) * item != end - begin:
        refuse_file(f"{label} does not fill the bytes between its offsets")
    return ArrayBytes(STORED_DTYPES[kind], tuple(shape), begin, end)


def _is_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def _as_array(name: str, buffer: np.ndarray, span: ArrayBytes) -> np.ndarray:
    if span.dtype.kind == "b" and buffer.max(initial=0) > 1:
        refuse_file(f"array {short(name)} holds bytes that are neither true nor false")
    return buffer.view(span.dtype).reshape(span.shape)


def parse_json(text: bytes | bytearray, *, max_lists: int = MAX_LISTS) -> Any:
    """Return the value of a JSON text; refuse deep nesting, repeated keys, NaN and infinity.

    Examples
    --------
    >>> parse_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json(b"NaN")
    Traceback (most recent call last):
    ...
    coterie.storage.container.ModelFileError: its text is not JSON: NaN is no finite number. It is damaged, ...
    """
    steps = _steps(text)
    if len(steps) > 2 * max_lists:
        refuse_file(f"its text holds more than {max_lists} lists and dicts")
    if steps.cumsum(dtype=np.int32).max(initial=0) > MAX_DEPTH:
        refuse_file(f"its text is nested more than {MAX_DEPTH} deep")
    try:
        return json.loads(
            text.decode("utf-8"), parse_float=_finite, parse_constant=_finite, object_pairs_hook=_no_repeats
        )
    except (ValueError, RecursionError) as error:
        refuse_file(f"its text is not JSON: {str(error).splitlines()[0][:80]}")


def _steps(text: bytes | bytearray) -> np.ndarray:
    """Return 1 for every opening bracket of a JSON text and -1 for every closing one, outside of strings."""
    # Without escaped backslashes and quotes, every quote begins or ends a string.
    letters = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    inside = np.cumsum(letters == ord('"'), dtype=np.uint8) % 2 == 1
    steps = STEPS[letters]
    return steps[(steps != 0) & ~inside]


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found

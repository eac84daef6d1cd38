"""Results as files of JSON lines, which may be interrupted at any byte and continued."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from benchmarks.suites import settings_hash

Record = dict[str, Any]
Line = TypeVar("Line", bound=Mapping[str, Any])


def record_key(record: Record) -> tuple[str, str, int, str]:
    """Return the key that identifies a record; see :meth:`benchmarks.suites.Run.key`."""
    return (
        record["method"],
        record["data"],
        record["seed"],
        settings_hash(record["settings"]),
    )


def last_of(lines: Iterable[Line], *names: str) -> list[Line]:
    """Return the last line of every group of lines that are equal in these entries.

    Examples
    --------
    >>> last_of([{"data": "a", "x": 1}, {"data": "b", "x": 2}, {"data": "a", "x": 3}], "data")
    [{'data': 'a', 'x': 3}, {'data': 'b', 'x': 2}]
    """
    return list({tuple(str(line.get(name)) for name in names): line for line in lines}.values())


def failed(record: Record) -> bool:
    """Return whether a record has a reason instead of figures: too slow, not for such data, or an error."""
    return "failed" in record


def settled(record: Record, limit: float | None) -> bool:
    """Return whether a record need not be measured again: it has figures, or would fail again under ``limit``.

    Runs that ended with an error are measured again, as the error may have been fixed.
    """
    if record.get("error"):
        return False
    if not failed(record) or record["limit"] is None:
        return True
    return limit is not None and record["limit"] >= limit


def read_lines(path: Path) -> list[Record]:
    """Return the parsed lines of a file of JSON lines; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def read_records(path: str | os.PathLike[str]) -> list[Record]:
    """Return the records of a file, in order, without an incomplete last line.

    Raises
    ------
    ValueError
        If a line is not a record; the message names it.
    """
    path = Path(path)
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    records = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            record = json.loads(line)
            record_key(record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is not a record ({error}). Remove it.") from error
        records.append(record)
    return records


def append_record(path: str | os.PathLike[str], record: Record) -> None:
    """Append a record atomically, also while other processes append theirs."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, sort_keys=True, default=str, allow_nan=False).encode() + b"\n"
    with open(path, "a+b") as file, locked(file):
        remove_torn_line(file)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def remove_torn_line(file: BinaryIO) -> None:
    """Remove an incomplete last line, which an interrupted write leaves behind."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)


@contextmanager
def locked(file: BinaryIO) -> Iterator[None]:
    """Lock the file against other writers, if the system supports it."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)

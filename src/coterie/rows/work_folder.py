"""A folder with the results of a job so far, so that it can be killed and resumed.

A job is a sequence of steps, numbered in the order in which its code asks for them. A step's result is a file that is
complete or absent; a step over blocks is a folder with a file for every finished block. A resumed job runs the same
code from the start: results that have a file are read, the others are computed. A warning names every damaged file,
and its result is computed again.

The job's files are in a folder of their own inside the user's folder. It is marked, and nothing else is ever touched.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from coterie.files import lock
from coterie.rows.block_files import DamagedFileError, check_file, read_value, value_bytes, write_value
from coterie.validation import warn_caller

FOLDER = "coterie-job"
MARK = "made-by-coterie"  # without it, nothing in the folder is touched
JOB = "job.json"
LOCK = "lock"
UNFINISHED = ".unfinished"
FORMAT = "coterie job 1"
ENTRY = re.compile(r"(job\.json|step_\d+)(\.unfinished)?")  # names in the folder,
STEP_ENTRY = re.compile(r"whole|consumed|\d+(\.unfinished)?")  # and in the folder of a step

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MOST_NAMED = 10  # damaged files with a warning of their own


class WorkFolder:
    """The steps of one job; made by :func:`open_work_folder`, or for rows that do not fit into memory."""

    def __init__(self, path: Path, *, token: str = "", resumable: bool = False) -> None:
        self.path = path
        self.token = token  # of the job: part of every file's label, so that files of other jobs are refused
        self.resumable = resumable  # whether files must survive a crash of the machine
        self._n_steps = 0
        self._n_damaged = 0
        self._lock = threading.Lock()

    def next_step(self) -> Path:
        """Return the name of the next step."""
        self._n_steps += 1
        return self.path / f"step_{self._n_steps:04d}"

    def remember(self, make: Callable[[], Any]) -> Any:
        """Return the next step's result: read from its file, or computed now and written."""
        step = self.next_step()
        if step.exists():
            try:
                return self.read(step)
            except DamagedFileError as damage:
                self.report_damage(step, str(damage))
        result = make()
        self.write(step, result)
        if self.resumable:
            flush_folder(self.path)
        return result

    def read(self, path: Path) -> Any:
        """Return the value in a file of the folder; raise DamagedFileError if it is not what was written."""
        try:
            with open(path, "rb") as file:
                return read_value(file, self._label(path))
        except OSError as error:
            if error.errno == errno.EIO:  # the disk cannot read a part of it
                raise DamagedFileError(error.strerror) from error
            raise

    def is_intact(self, path: Path) -> bool:
        """Return whether a file is there as it was written; a damaged one is reported."""
        try:
            with open(path, "rb") as file:
                check_file(file)
        except FileNotFoundError:
            return False
        except DamagedFileError as damage:
            self.report_damage(path, str(damage))
            return False
        return True

    def write(self, path: Path, value: Any, n_files: int = 1) -> None:
        """Write a file, complete or not at all; it is the first of ``n_files`` of about its size."""
        unfinished = path.with_name(path.name + UNFINISHED)
        try:
            with open(unfinished, "wb") as file:
                write_value(file, value, self._label(path))
                if self.resumable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(unfinished, path)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            if error.errno not in NO_SPACE:
                raise
            raise OSError(error.errno, self._no_space(error, n_files * value_bytes(value)), str(path)) from error

    def finish(self, step: Path) -> None:
        """Mark a step as whole: all its blocks are written and, if resumable, survive a crash of the machine."""
        if self.resumable:
            flush_folder(step)
        (step / "whole").touch()
        if self.resumable:
            flush_folder(step)
            flush_folder(self.path)

    def report_damage(self, path: Path, reason: str) -> None:
        """Warn of a damaged file, whose result is computed again."""
        with self._lock:
            self._n_damaged += 1
            count = self._n_damaged
        if count <= MOST_NAMED:
            more = " More such files are not named." if count == MOST_NAMED else ""
            warn_caller(f"{path} was damaged: {reason}. What it held is computed again.{more}")

    def _label(self, path: Path) -> str:
        return f"{self.token}/{path.relative_to(self.path).as_posix()}"

    def _no_space(self, error: OSError, needed: int) -> str:
        free = (
            f"{format_bytes(shutil.disk_usage(self.path).free)} are free, and " if error.errno == errno.ENOSPC else ""
        )
        room = "Allow larger files (ulimit -f)" if error.errno == errno.EFBIG else "Make room"
        remedy = f"{room} and call fit again with the same work_dir: what is finished is kept"
        if not self.resumable:
            remedy = f"{room}, or name a folder on a larger disk as work_dir"
        return f"{error.strerror}: {free}this step needs {format_bytes(needed)} more. {remedy}."


def format_bytes(size: int) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> format_bytes(71599), format_bytes(5 * 10**9)
    ('71,599 bytes', '5.00 GB')
    """
    return (
        f"{size:,} bytes" if size < 10**6 else f"{size / 10**6:,.1f} MB" if size < 10**9 else f"{size / 10**9:,.2f} GB"
    )


@dataclass(frozen=True)
class KnownJob:
    """The description of a job in its folder."""

    job: Mapping[str, Any]
    drawn: int  # the seed of its random numbers
    token: str


@contextmanager
def open_work_folder(path: Path, job: Mapping[str, Any], drawn: int) -> Iterator[tuple[WorkFolder, int]]:
    """Open the folder of a job: a new one inside ``path``, or one that the same job left unfinished.

    ``job`` describes the job as plain data, and ``drawn`` is the seed of its random numbers. Yields the folder, and the
    seed that the job was started with. When the job is finished, the folder is removed.
    """
    if (path / JOB).exists():
        raise ValueError(
            f"work_dir={str(path)!r} holds a {JOB} that this Coterie did not write: something else may be using the "
            "folder. Name another one."
        )
    home = path / FOLDER
    with locked(home):
        refuse_unmarked(home)
        known = read_job(home)
        if known is None:
            clear(home)  # leftovers of a job that was killed while it cleared the folder
            known = KnownJob(json.loads(json.dumps(job)), drawn, secrets.token_hex(8))
            write_job(home, known)
        else:
            check_same_job(home, known.job, job)
        yield WorkFolder(home, token=known.token, resumable=True), known.drawn
        clear(home)
        remove_folder(home)


def read_job(home: Path) -> KnownJob | None:
    """Return the folder's unfinished job; None if there is none, or if its file is damaged: it is then begun again."""
    path = home / JOB
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        found = None
    if found is not None and (not isinstance(found, dict) or found.get("format") != FORMAT):
        raise ValueError(f"{path} was not written by this version of Coterie. Name another work_dir, or remove {home}.")
    if found is None or found.pop("checksum", None) != job_checksum(found):
        warn_caller(f"{path} was damaged. The job is begun again.")
        return None
    return KnownJob(found["job"], found["drawn"], found["token"])


def write_job(home: Path, known: KnownJob) -> None:
    """Mark the folder, and write the description of its job."""
    (home / MARK).touch()
    words = {"format": FORMAT, "job": known.job, "drawn": known.drawn, "token": known.token}
    unfinished = home / (JOB + UNFINISHED)
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump({**words, "checksum": job_checksum(words)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, home / JOB)
    flush_folder(home)


def job_checksum(words: Mapping[str, Any]) -> int:
    """Return a checksum of the content of a job's file."""
    return crc32(json.dumps(words, sort_keys=True).encode())


def check_same_job(path: Path, before: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Refuse to resume a job other than the one that was started."""
    now = json.loads(json.dumps(job))  # as it would be read from the file
    for name in {**before, **now}:
        if now.get(name) != before.get(name):
            raise ValueError(
                f"work_dir={str(path.parent)!r} holds another job, unfinished: there {name} is {before.get(name)}, "
                f"here it is {now.get(name)}. Go on with that job, give this one a folder of its own, or remove {path}."
            )


def refuse_unmarked(home: Path) -> None:
    """Refuse a folder that something else made: Coterie's has its mark, or only a lock if killed before marking."""
    if (home / MARK).exists():
        return
    for entry in home.iterdir():
        if entry.name != LOCK:
            raise ValueError(
                f"{home} is not Coterie's own: it holds {entry.name!r} and not {MARK!r}. Name another work_dir, or "
                "move that folder away."
            )


def clear(home: Path) -> None:
    """Remove the job's files, its description first, so that a half-cleared folder is started anew."""
    (home / JOB).unlink(missing_ok=True)
    for entry in home.iterdir():
        if not ENTRY.fullmatch(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            clear_step(entry)
        else:
            entry.unlink()


def clear_step(step: Path) -> None:
    """Remove the blocks of a step, and its folder unless it holds other files."""
    for entry in step.iterdir():
        if STEP_ENTRY.fullmatch(entry.name):
            entry.unlink()
    with suppress(OSError):
        step.rmdir()


def remove_folder(home: Path) -> None:
    """Remove the folder if it is empty; one with other files in it keeps its mark."""
    if {entry.name for entry in home.iterdir()} <= {MARK, LOCK}:
        (home / MARK).unlink(missing_ok=True)
        (home / LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # another process has begun a job there
            home.rmdir()


def flush_folder(path: Path) -> None:
    """Wait until the names of a folder's files are on the disk; Windows does that by itself."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Make a folder, and lock it against other processes while the block runs."""
    file = None
    while file is None:  # again if another process has removed the folder meanwhile
        try:
            home.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(
                f"work_dir={str(home.parent)!r} cannot be used: there is a file where {home} would be. Name another."
            ) from error
        refuse_unmarked(home)
        file = lock_folder(home)
    with file:
        yield


def warn_without_lock(home: Path, free: bool | None) -> None:
    """Warn if it cannot be known whether another process uses the folder."""
    if free is None and os.name != "nt":
        warn_caller(
            f"work_dir={str(home.parent)!r} is on a file system without locks: two fits at once would disturb each "
            "other there. Give every fit a folder of its own."
        )


def lock_folder(home: Path) -> IO[Any] | None:
    """Return a locked file of the folder; None if the folder was removed meanwhile, by a process that has finished."""
    with suppress(FileNotFoundError):
        file = open(home / LOCK, "a")  # noqa: SIM115 (the caller closes it)
        free = lock(file)
        if free is False:
            file.close()
            raise ValueError(
                f"work_dir={str(home.parent)!r} is in use by another process. Wait for it, or name another folder."
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(home / LOCK)):
                warn_without_lock(home, free)
                return file
        file.close()
    return None

"""Errors about files, with messages of one line."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coterie.lazy import import_extra

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FormatError(ValueError):
    """A file cannot be read or written: the message is one line that names the file, what is wrong and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class NoRowsError(FormatError):
    """A table has columns and no rows: nothing to fit, and nothing to predict."""


class NoColumnError(FormatError):
    """A table has no column of a name that was asked for."""


def printable(text: str) -> str:
    r"""Return text on one line, with unprintable characters, which a file's names may have, as escape sequences.

    Examples
    --------
    >>> printable("a.npz::x\ny\x1b[2J")
    'a.npz::x\\ny\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def errors_naming(where: object, remedy: str = "Is it complete? Write it again.") -> Iterator[None]:
    """Convert exceptions that a library raises while it reads a file to an error that names the file.

    Examples
    --------
    >>> with errors_naming("a.npy"):
    ...     raise EOFError("unexpected end")
    Traceback (most recent call last):
    ...
    coterie.formats.errors.FormatError: a.npy cannot be read: unexpected end. Is it complete? Write it again.
    """
    try:
        yield
    except (FormatError, ImportError, Warning):  # warnings are raised where the caller made them errors
        raise
    except Exception as error:  # a library may raise anything when it meets a broken file
        # Arrow also raises a MemoryError for the absurd sizes that a damaged file may ask for: the file is to blame.
        if isinstance(error, MemoryError) and not type(error).__module__.startswith("pyarrow"):
            raise
        if isinstance(error, OSError) and error.errno in NO_SPACE:  # reading only writes to temporary files
            raise FormatError(f"{where} cannot be unpacked: {no_space()}") from error
        raise FormatError(f"{where} cannot be read: {one_line(error)}. {remedy}") from error


def no_space() -> str:
    """Return the message for a lack of space for temporary files, with its remedy."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    return f"{folder} has {free:,} bytes left. Make room, or let TMPDIR name a folder on a larger disk."


def one_line(error: BaseException) -> str:
    """Return an exception's message on one line, without its full stop."""
    said = " ".join(str(error).split()) or type(error).__name__
    return (said if len(said) <= 200 else said[:200] + "...").rstrip(".")


def package(module: str, purpose: str) -> Any:
    """Import a library that only some formats need.

    Examples
    --------
    >>> package("json", "Reading json").loads("[1]")
    [1]
    """
    return import_extra(module, "files", purpose)

"""Writing files, each of which appears complete under its name or not at all; and locks between processes.

What is temporary is removed when a signal ends the process, too.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

# Signals by which a user, a scheduler or a closed terminal ends a process. Ctrl-C raises an exception, which suffices.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

_temporary: set[tuple[int, str]] = set()  # with the process that made them: a forked process must not remove them

LOCKS = fcntl is not None  # whether files can be locked here

LOCKED = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

NAME_LENGTH = 50  # of the target's name, so that the unfinished file's name fits any file system's limit


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name once all of it is on the disk.

    The unfinished file lies beside the target until then. Any exception, Ctrl-C too, removes it and leaves what was
    there before, and so does SIGTERM. After SIGKILL, the next process that writes the same target removes it. Missing
    folders are created, and links are followed.

    Parameters
    ----------
    path : str or path

    Yields
    ------
    binary file
        Its ``name`` is that of the unfinished file, for libraries that open files by name.

    Raises
    ------
    OSError
        If the file cannot be written; ``filename`` is the target's.
    ValueError
        If there is a device or a pipe of that name.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "a.txt") as file:
    ...     _ = file.write(b"all of it")
    >>> [entry.name for entry in folder.iterdir()]
    ['a.txt']
    """
    target = expand_home(path)
    if target.is_symlink():
        target = Path(os.path.realpath(target))  # the link stays, and the file that it leads to is written
        if target.is_symlink():
            raise ValueError(f"{path} is a link that leads back to itself. Name a file.")
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "It is a folder. Name a file in it", os.fspath(path))
    if os.path.exists(target) and not os.path.isfile(target):
        raise ValueError(f"{path} is a device or a pipe, in whose place a file would be put. Name a file.")
    unfinished = None
    try:
        if not target.parent.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
        file = open_unfinished(target)
        unfinished = file.name
        with suppress(OSError):  # there is no target yet, or the file system has no modes
            shutil.copymode(target, unfinished)  # a private file stays private, also while it is written
        with file, removed_when_ended(unfinished):
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if not LOCKS:
                    file.close()  # Windows moves no open file
                os.replace(unfinished, target)  # while the lock is held
            except BaseException:
                Path(unfinished).unlink(missing_ok=True)
                raise
    except OSError as error:
        if unfinished is not None and (error.errno is None or error.filename not in (None, unfinished)):
            raise  # the error is about another file, which was read meanwhile
        raise OSError(error.errno, f"Could not write the file: {error.strerror}", os.fspath(path)) from error


@contextmanager
def removed_when_ended(path: str) -> Iterator[None]:
    """Remove a temporary file or folder if a signal ends the process meanwhile.

    Only signals with the default action get a handler. A handler of the caller stays: it can end what runs by an
    exception only, which removes what is temporary as well. Only the main thread can set handlers, so another one sets
    none.
    """
    entry = (os.getpid(), os.path.abspath(path))
    is_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in ENDING if is_main and signal.getsignal(number) is signal.SIG_DFL]
    _temporary.add(entry)
    try:
        for number in taken:
            signal.signal(number, remove_and_end)
        yield
    finally:
        _temporary.discard(entry)
        for number in taken:
            if signal.getsignal(number) is remove_and_end:
                signal.signal(number, signal.SIG_DFL)


def remove_and_end(number: int, frame: FrameType | None) -> None:
    """Remove what is temporary and of this process, and let the signal take its default action."""
    for owner, path in list(_temporary):
        if owner == os.getpid():
            remove_temporary(path)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def remove_temporary(path: str, attempts: int = 20) -> None:
    """Remove a file, or a folder to which other threads may be writing: they can write nothing once it is gone."""
    with suppress(OSError):
        os.unlink(path)
    for _ in range(attempts):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path):
            return


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text to a file in UTF-8, complete or not at all; characters that UTF-8 cannot encode become question marks.

    File names may hold any bytes, and Python's text for them cannot always be encoded.
    """
    with written_whole(path) as file:
        file.write(text.encode("utf-8", "replace"))


def open_unfinished(target: Path) -> BinaryIO:
    """Open the unfinished file of a target: always the same one, unless another process is writing it now."""
    name = f".{target.name[:NAME_LENGTH]}"
    file = take_over(target.with_name(f"{name}.unfinished"))
    return file or open(target.with_name(f"{name}.{secrets.token_hex(6)}.unfinished"), "xb")


def lock(file: IO[Any]) -> bool | None:
    """Lock an open file against other processes until it is closed; return False if one of them has locked it.

    None means unknown: Windows, and some clusters' file systems, have no such locks. The lock of a process that is
    killed ends with it.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in LOCKED else None
    return True


def take_over(path: Path) -> BinaryIO | None:
    """Open for writing a file that a killed process may have left behind; None if it may be in use.

    Its writer holds a lock on it, which ends with the process.
    """
    if not LOCKS:
        return None
    # The file is not truncated before it is locked, and a link of this name is not followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = open(path, "wb", opener=lambda name, _: os.open(name, flags, 0o666))  # noqa: SIM115 (the caller closes it)
    except OSError:
        return None
    try:
        # Its writer may have finished just now: then the file has been renamed to the target.
        if lock(file) and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            file.truncate(0)
            return file
    except OSError:  # it is gone
        pass
    file.close()
    return None


def expand_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with ``~`` expanded, unless a file of that literal name exists or there is no such user.

    Examples
    --------
    >>> expand_home("~nobody-is-called-so.npy").name
    '~nobody-is-called-so.npy'
    """
    path = Path(path)
    if str(path).startswith("~") and not os.path.exists(path):
        try:
            return path.expanduser()
        except RuntimeError:  # no user has that name
            return path
    return path

"""Temporary folders for rows that do not fit into memory, removed when the fit ends or a signal ends the process."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

# Signals by which a user, a scheduler or a closed terminal ends a process. Ctrl-C raises an exception, which suffices.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

_folders: set[tuple[int, str]] = set()  # with the process that made them: a forked process must not remove them


@contextmanager
def spill_folder() -> Iterator[Path]:
    """Yield a new temporary folder."""
    with TemporaryDirectory(prefix="coterie-") as name:
        entry = (os.getpid(), name)
        _folders.add(entry)
        try:
            with removing_when_ended():
                yield Path(name)
        finally:
            _folders.discard(entry)


@contextmanager
def removing_when_ended() -> Iterator[None]:
    """Remove temporary folders if a signal ends the process meanwhile.

    Only signals with the default action get a handler. A handler of the caller stays: it can end the fit by
    an exception only, which removes the folders as well. Only the main thread can set handlers, so a fit in another one
    sets none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, remove_and_end)
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is remove_and_end:
                signal.signal(number, signal.SIG_DFL)


def remove_and_end(number: int, frame: FrameType | None) -> None:
    """Remove the temporary folders of this process, and let the signal take its default action."""
    for owner, name in list(_folders):
        if owner == os.getpid():
            remove_spilled(name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def remove_spilled(name: str, attempts: int = 20) -> None:
    """Remove a folder to which other threads may be writing: they can write nothing once it is gone."""
    for _ in range(attempts):
        shutil.rmtree(name, ignore_errors=True)
        if not os.path.exists(name):
            return

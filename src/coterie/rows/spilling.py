"""Temporary folders for rows that do not fit into memory, removed when the fit ends or a signal ends the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from coterie.files import removed_when_ended


@contextmanager
def spill_folder() -> Iterator[Path]:
    """Yield a new temporary folder."""
    with TemporaryDirectory(prefix="coterie-") as name, removed_when_ended(name):
        yield Path(name)

"""The folder of data sets on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from coterie.files import expand_home
from coterie.lazy import import_extra

VARIABLE = "COTERIE_DATA"


def find_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets: the argument, else ``$COTERIE_DATA``, else the user's cache.

    Examples
    --------
    >>> find_home("somewhere").name
    'somewhere'
    """
    chosen = data_home or os.environ.get(VARIABLE)
    return expand_home(chosen) if chosen else platform_cache()


def platform_cache() -> Path:
    """Return the user's cache folder for Coterie, as is usual on this system."""
    return Path(import_extra("pooch", "datasets", "Downloading data sets").os_cache("coterie"))


def writable_home(home: Path) -> Path:
    """Return ``home`` if it is writable, else the user's cache."""
    return home if may_write(home) else platform_cache()


def may_write(folder: Path) -> bool:
    """Whether a folder, which need not exist yet, is writable.

    A folder whose mode lets nobody write was closed on purpose, so that it counts as not writable
    even for an administrator, whom the system would allow to write.
    """
    folder = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    open_to_some = folder.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return folder.is_dir() and bool(open_to_some) and os.access(folder, os.W_OK)

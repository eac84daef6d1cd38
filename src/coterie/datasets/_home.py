"""Where data lies on disk."""

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
    """Return the folder that this system has for Coterie's cache."""
    return Path(import_extra("pooch", "datasets", "Downloading data sets").os_cache("coterie"))


def writable_home(home: Path) -> Path:
    """Return ``home`` if files may be made there, else the user's cache."""
    return home if may_write(home) else platform_cache()


def may_write(folder: Path) -> bool:
    """Tell whether files may be made in a folder, which need not exist yet.

    A folder whose mode lets nobody write was closed on purpose, so it is left alone even by an
    administrator, whom the system would let through.
    """
    folder = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    open_to_some = folder.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return folder.is_dir() and bool(open_to_some) and os.access(folder, os.W_OK)

"""Compiling with a cache of machine code where one can be kept, and without where not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit

# Sums may be reordered for speed, but NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}

_said = False


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Return numba's decorator for functions that run without the interpreter's lock.

    What it compiles is kept beside the package, in the user's cache folder, or in NUMBA_CACHE_DIR. In a hardened
    container none of these can be written, and functions are compiled again by every process.
    """

    def decorate(function: Any) -> Any:
        try:
            found = njit(cache=True, nogil=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            say_once("cannot be kept in any folder")
            return njit(nogil=True, **options)(function)
        forgive_cache(found)
        return found

    return decorate


def forgive_cache(function: Any) -> None:
    """Let a compiled function do without its cache if that cannot be written or read after all: a full or failing disk.

    numba looks at the folder when a function is defined, and at the files only when it is first called.
    """
    cache = function._cache
    load, save = cache.load_overload, cache.save_overload

    def load_or_compile(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception as error:  # whatever unpickling damaged bytes leads to
            with suppress(OSError):
                cache.flush()  # so that it is written anew
            say_once(f"could not be read from {cache.cache_path} ({type(error).__name__})")
            return None

    def save_or_forget(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            say_once(f"cannot be kept in {cache.cache_path} ({error.strerror})")

    cache.load_overload, cache.save_overload = load_or_compile, save_or_forget


def say_once(what: str) -> None:
    """Warn that functions have to be compiled, in the first case of a process."""
    global _said
    if not _said:
        _said = True
        warnings.warn(
            f"Compiled functions {what}: they are compiled anew, which takes a while. Set NUMBA_CACHE_DIR to a "
            "folder that can be written.",
            RuntimeWarning,
            stacklevel=2,
        )

"""Compiling with numba, with a cache of machine code on disk where one can be written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit

# Sums may be reordered for speed, but NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}

_said = False


def compiled(fastmath: Any = False) -> Callable[[Any], Any]:
    """Return numba's decorator for functions that run without the GIL.

    Fastmath is always given: otherwise numba takes it from the function that happens to be compiled first of those that
    call this one, and rounding would depend on that.

    Machine code is cached beside the package, in the user's cache folder, or in NUMBA_CACHE_DIR. Where none of these
    can be written, as in a hardened container, every process compiles the functions again.
    """

    def decorate(function: Any) -> Any:
        try:
            found = njit(cache=True, nogil=True, fastmath=fastmath)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            warn_once("cannot be kept in any folder")
            return njit(nogil=True, fastmath=fastmath)(function)
        tolerate_cache_errors(found)
        return found

    return decorate


def tolerate_cache_errors(function: Any) -> None:
    """Let a compiled function work without its cache if a full or failing disk prevents writing or reading it.

    numba checks the folder when a function is defined, but opens the files only at the first call.
    """
    cache = function._cache
    load, save = cache.load_overload, cache.save_overload

    def load_or_compile(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception as error:  # unpickling damaged bytes may raise anything
            with suppress(OSError):
                cache.flush()  # so that it is written again
            warn_once(f"could not be read from {cache.cache_path} ({type(error).__name__})")
            return None

    def save_or_forget(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            warn_once(f"cannot be kept in {cache.cache_path} ({error.strerror})")

    cache.load_overload, cache.save_overload = load_or_compile, save_or_forget


def warn_once(what: str) -> None:
    """Warn, once per process, that functions must be compiled again."""
    global _said
    if not _said:
        _said = True
        warnings.warn(
            f"Compiled functions {what}: they are compiled anew, which takes a while. Set NUMBA_CACHE_DIR to a "
            "folder that can be written.",
            RuntimeWarning,
            stacklevel=2,
        )

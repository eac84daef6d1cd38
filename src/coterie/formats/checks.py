"""Checks that a file holds a table, and the form of files and names in messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.formats.errors import FormatError, NoRowsError
from coterie.formats.unpacking import is_bomb

LETTER_BYTES = 4  # of a character in NumPy's arrays of text

# How text files write missing values.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "#N/A", "n/a", "-nan", "-NaN", "#NA", "1.#IND", "1.#QNAN")


def check_dtype(dtype: np.dtype, where: str) -> np.dtype:
    """Return the type that values are read as; refuse what is not a real number."""
    if dtype.kind in "biuf":
        return dtype.newbyteorder("=")
    if dtype.kind == "c":
        raise FormatError(f"{where} holds complex numbers. Store the real and imaginary parts as columns.")
    if dtype.kind in "mM":
        raise FormatError(f"{where} holds dates or times. Store them as numbers whose unit you choose.")
    if dtype.kind == "O":
        raise FormatError(f"{where} holds Python objects, which Coterie never unpickles. Store plain numbers.")
    if dtype.names:
        raise FormatError(f"{where} holds records ({', '.join(dtype.names)}). Store a two-dimensional array.")
    raise FormatError(f"{where} holds text ({dtype}). Encode it as numbers first.")


def check_shape(shape: Sequence[int], where: str) -> tuple[int, int]:
    """Return the numbers of rows and columns: a vector is one column, and dimensions after the first are flattened."""
    if len(shape) == 0:
        raise FormatError(f"{where} is a single number. A table has rows and columns.")
    n_columns = 1
    for side in shape[1:]:
        n_columns *= int(side)
    if shape[0] == 0:
        raise NoRowsError(f"{where} has no rows. Leave the file out.")
    if n_columns == 0:
        raise FormatError(f"{where} has no columns. Leave the file out.")
    return int(shape[0]), n_columns


def text_array(values: Sequence[Any] | np.ndarray, where: str) -> np.ndarray:
    """Return texts as an array, in which each takes the bytes of the longest; refuse a text that is far too long."""
    lengths = [len(value) if isinstance(value, str | bytes) else 0 for value in values]
    longest = max(lengths, default=0)
    if is_bomb(LETTER_BYTES * longest * len(lengths), sum(lengths)):
        raise FormatError(f"{where} has a text of {longest:,} letters among {len(lengths):,} of few. Shorten it.")
    return np.array(values, dtype=object).astype(np.str_)


def listed(names: Any, most: int = 12) -> str:
    """Return names in one line: the first ones, and the total number if there are more."""
    names = [str(name) for name in names]
    rest = f", ... ({len(names)} in all)" if len(names) > most else ""
    return (", ".join(names[:most]) or "nothing") + rest


def address(path: Path, key: str | None) -> str:
    """Return a file and a key as they are written on the command line."""
    return f"{path}::{key}" if key else str(path)

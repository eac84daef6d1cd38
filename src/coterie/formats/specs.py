"""Views as they are written on the command line: ``[name=]path[::key][[columns]]``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from os.path import exists  # unlike Path.exists, it takes any text
from typing import Any

from coterie.formats.errors import FormatError


@dataclass(frozen=True)
class Spec:
    """The parsed specification of a view."""

    name: str | None
    path: Any
    key: str | None = None
    columns: tuple[str, ...] | None = None


def parse_spec(spec: str | PathLike[str]) -> Spec:
    """Parse the specification of one view.

    Examples
    --------
    >>> parse_spec("rna=cells.h5mu::rna/obsm/X_pca[0:20]")
    Spec(name='rna', path='cells.h5mu', key='rna/obsm/X_pca', columns=('0:20',))
    >>> parse_spec("C:/data/pixels.npy")
    Spec(name=None, path='C:/data/pixels.npy', key=None, columns=None)
    """
    text = str(spec)
    if exists(text):
        return Spec(None, text)
    name = re.match(r"([^=:/\\\[\]]+)=", text)
    rest = text[name.end() :] if name else text
    columns = re.search(r"\[([^\[\]]*)\]$", rest)
    if columns and not exists(rest):
        rest = rest[: columns.start()]
    else:
        columns = None
    path, colons, key = rest.partition("::")
    if not path or (colons and not key):
        raise FormatError(
            f"{text!r} is not a view. Write [name=]path[::key][[columns]], such as rna=cells.h5ad::obsm/X_pca."
        )
    chosen = tuple(part.strip() for part in columns[1].split(",")) if columns else None
    return Spec(name[1] if name else None, path, key or None, chosen)


def name_of_key(key: str) -> str:
    """Return the name of a table, made from its key."""
    last = key.removesuffix("/X").rpartition("/")[2]
    return key.replace("/", "_") if last.isdecimal() else last


def names_of_keys(keys: Sequence[str]) -> list[str]:
    """Return the names of the tables of one file, made from their keys."""
    names = [name_of_key(key) for key in keys]
    return names if len(set(names)) == len(names) else [key.replace("/", "_") for key in keys]

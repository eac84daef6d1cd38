"""Blocks of rows as values: selecting rows and concatenating."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from coterie.arrays import array_namespace, numbers_for

Kind = TypeVar("Kind", bound=type)

# The dataclasses that a file may hold besides arrays, lists and numbers, by name.
STORABLE: dict[str, type] = {}


def storable_block(kind: Kind) -> Kind:
    """Register a dataclass of arrays as a kind of block, whose rows can be selected and which files can hold.

    Each array has one row for every row of the block. The class also gets a true ``__sizeof__``: Dask moves objects
    that look small from worker to worker.
    """
    STORABLE[kind.__name__] = kind
    setattr(kind, "__sizeof__", _size)  # noqa: B010
    return kind


def first_array(block: Any) -> Any:
    """Return a block's first array, which gives its library, device and length."""
    return block_parts(block)[0]


def block_length(block: Any) -> int:
    """Return the number of rows of a block."""
    return len(first_array(block))


def select_rows(block: Any, rows: Any) -> Any:
    """Return some rows of a block."""
    rows = numbers_for(first_array(block), rows)
    return _rebuilt(block, [part[rows] for part in block_parts(block)])


def concat_blocks(blocks: Sequence[Any]) -> Any:
    """Return blocks concatenated along the rows."""
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*map(block_parts, blocks), strict=True)
    return _rebuilt(blocks[0], [array_namespace(parts[0]).concat(list(parts)) for parts in columns])


def take_from(blocks: Iterable[Any], rows: np.ndarray, first: int = 0) -> Any:
    """Return the given rows, ascending, of consecutive blocks as one block; the blocks begin at row ``first``."""
    found = []
    for block in blocks:
        size = block_length(block)
        here = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + size)] - first
        found.append(select_rows(block, here))
        first += size
    return concat_blocks(found)


def fill(out: Any, first: Any, parts: Iterable[Any]) -> Any:
    """Copy ``first`` and the parts into ``out``, a NumPy array or tensor, one below the other, and return it."""
    out[: len(first)] = first
    at = len(first)
    for part in parts:
        out[at : at + len(part)] = part
        at += len(part)
    return out


def block_parts(block: Any) -> list[Any]:
    """Return a block's arrays."""
    if not dataclasses.is_dataclass(block):
        return [block]
    return [getattr(block, field.name) for field in dataclasses.fields(block)]


def _size(block: Any) -> int:
    return sum(int(getattr(part, "nbytes", 0)) for part in block_parts(block))


def _rebuilt(block: Any, parts: Sequence[Any]) -> Any:
    kind: Any = type(block)
    return kind(*parts) if dataclasses.is_dataclass(block) else parts[0]

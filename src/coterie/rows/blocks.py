"""Blocks of rows as values: selecting rows, concatenating, and writing to files without pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, TypeVar

import numpy as np

from coterie.arrays import array_namespace

Kind = TypeVar("Kind", bound=type)

# The dataclasses that a file may hold besides arrays, lists and numbers, by name.
_KINDS: dict[str, type] = {}


def storable_block(kind: Kind) -> Kind:
    """Register a dataclass of arrays, each with one row for every row of a block, to be selected from and stored.

    It gets a true ``__sizeof__``, too: Dask moves what looks small from worker to worker.
    """
    _KINDS[kind.__name__] = kind
    setattr(kind, "__sizeof__", _size)  # noqa: B010
    return kind


def first_array(block: Any) -> Any:
    """Return one of a block's arrays, which shows its library, device and length."""
    return _parts(block)[0]


def block_length(block: Any) -> int:
    """Return the number of rows of a block."""
    return len(first_array(block))


def select_rows(block: Any, rows: Any) -> Any:
    """Return some rows of a block."""
    return _rebuilt(block, [part[rows] for part in _parts(block)])


def concat_blocks(blocks: Sequence[Any]) -> Any:
    """Return blocks as one, one below the other."""
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*map(_parts, blocks), strict=True)
    return _rebuilt(blocks[0], [array_namespace(parts[0]).concat(list(parts)) for parts in columns])


def take_from(blocks: Iterable[Any], rows: np.ndarray, first: int = 0) -> Any:
    """Return the given rows, ascending, of consecutive blocks as one block; ``first`` is the first block's number."""
    found = []
    for block in blocks:
        size = block_length(block)
        here = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + size)] - first
        found.append(select_rows(block, here))
        first += size
    return concat_blocks(found)


def _parts(block: Any) -> list[Any]:
    if not dataclasses.is_dataclass(block):
        return [block]
    return [getattr(block, field.name) for field in dataclasses.fields(block)]


def _size(block: Any) -> int:
    return sum(int(getattr(part, "nbytes", 0)) for part in _parts(block))


def _rebuilt(block: Any, parts: Sequence[Any]) -> Any:
    kind: Any = type(block)
    return kind(*parts) if dataclasses.is_dataclass(block) else parts[0]


# -- files ------------------------------------------------------------------------------------------------------


def write_value(file: BinaryIO, value: Any) -> None:
    """Write arrays, numbers, lists, tuples and storable blocks: a line of JSON, then the arrays in turn."""
    arrays: list[np.ndarray] = []
    file.write(json.dumps(_described(value, arrays)).encode() + b"\n")
    for array in arrays:
        np.lib.format.write_array(file, array, allow_pickle=False)


def read_value(file: BinaryIO) -> Any:
    """Return what :func:`write_value` wrote."""
    described = json.loads(file.readline())
    return _restored(described, lambda: np.lib.format.read_array(file, allow_pickle=False))


def _described(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"kind": "array"}
    if isinstance(value, list | tuple):
        return {"kind": type(value).__name__, "items": [_described(item, arrays) for item in value]}
    if dataclasses.is_dataclass(value):
        return {"kind": type(value).__name__, "items": [_described(item, arrays) for item in _parts(value)]}
    return value.item() if isinstance(value, np.generic) else value


def _restored(described: Any, next_array: Any) -> Any:
    if not isinstance(described, dict):
        return described
    if described["kind"] == "array":
        return next_array()
    items = [_restored(item, next_array) for item in described["items"]]
    if described["kind"] in ("list", "tuple"):
        return items if described["kind"] == "list" else tuple(items)
    return _KINDS[described["kind"]](*items)

"""NumPy arrays and torch tensors under one roof: which functions are theirs, and how to move them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from coterie.kernels import is_tensor

Thing = TypeVar("Thing")

__all__ = [
    "array_namespace",
    "convert",
    "is_dask",
    "like",
    "map_arrays",
    "power_of_two",
    "precision_of",
    "stack",
    "to_device",
    "to_host",
]


def like(array: Any, other: Any, dtype: Any = None) -> Any:
    """Return a NumPy array as what ``other`` is, where ``other`` is, and in its precision unless another is given."""
    if not is_tensor(other):
        return np.ascontiguousarray(array, dtype=dtype or other.dtype)
    import torch

    dtype = other.dtype if dtype is None else getattr(torch, np.dtype(dtype).name)
    return torch.as_tensor(array, dtype=dtype, device=other.device).contiguous()


def convert(array: Any, dtype: Any) -> Any:
    """Return an array of either kind in another precision, itself where it has that already."""
    if not is_tensor(array):
        return array.astype(dtype, copy=False)
    import torch

    return array.to(getattr(torch, np.dtype(dtype).name))


def power_of_two(size: Any) -> Any:
    """Return the power of two just below each size, 1 for sizes of zero: dividing by it costs no digit.

    Examples
    --------
    >>> power_of_two(np.array([0.0, 5.0, 1e-300]))
    array([1.00000000e+000, 4.00000000e+000, 7.46610895e-301])
    """
    return np.exp2(np.floor(np.log2(np.where(size > 0, size, 1.0))))


def precision_of(array: Any) -> str:
    """Return the name of an array's type, whatever its kind."""
    return str(array.dtype).removeprefix("torch.")


def stack(parts: Sequence[Any]) -> Any:
    """Return arrays of one kind as one array with one more dimension."""
    return array_namespace(parts[0]).stack(parts)


def to_host(thing: Thing) -> Thing:
    """Return an array, or a dataclass, tuple, list or dict of arrays, as NumPy arrays: tensors, and Dask's."""

    def move(array: Any) -> Any:
        if is_tensor(array):
            return array.cpu().numpy()
        return array.compute() if is_dask(array) else array

    return map_arrays(thing, move)


def is_dask(table: Any) -> bool:
    """Whether a table is a Dask collection; Dask itself is not imported to find out."""
    return type(table).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(table, "compute")


def to_device(thing: Thing, device: Any) -> Thing:
    """Return an array, or a dataclass, tuple, list or dict of arrays, with every NumPy array as a tensor on a device.

    Numbers that only the host looks at (row numbers, bounds) stay where they are: they are no arrays of floats.
    """
    import torch

    def move(array: Any) -> Any:
        if sparse.issparse(array):
            array = array.toarray()
        if isinstance(array, np.ndarray) and array.dtype.kind in "fb":
            return torch.as_tensor(np.ascontiguousarray(array), device=device)
        return array

    return map_arrays(thing, move)


def map_arrays(thing: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to every array inside dataclasses, tuples, lists and dicts."""
    if is_dataclass(thing) and not isinstance(thing, type):
        changed = {field.name: map_arrays(getattr(thing, field.name), function) for field in fields(thing)}
        return replace(thing, **changed)
    if isinstance(thing, tuple | list):
        return type(thing)(map_arrays(item, function) for item in thing)
    if isinstance(thing, dict):
        return {name: map_arrays(item, function) for name, item in thing.items()}
    return function(thing)

"""NumPy arrays, SciPy's CSR arrays and torch tensors behind one set of functions.

Which library an array belongs to is known here, in :mod:`coterie.kernels` and in :mod:`coterie.rows`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from coterie.kernels import is_tensor, kernels_of, to_tensor
from coterie.waiting import computed_collection

Thing = TypeVar("Thing")

CUDA_MEMORY = 2  # DLPack's device type of CUDA memory

# Tensors that are copied to the host together: at least FEWEST_TOGETHER of one type, of at most MOST_TOGETHER numbers.
FEWEST_TOGETHER = 3
MOST_TOGETHER = 2**20

__all__ = [
    "array_namespace",
    "as_device_tensor",
    "beside",
    "contiguous",
    "convert",
    "detached",
    "device_of",
    "in_library_of",
    "is_complex",
    "is_dask",
    "is_float",
    "is_sparse_tensor",
    "lies_on_gpu",
    "like",
    "map_arrays",
    "numbers_for",
    "power_of_two",
    "precision_of",
    "scaled",
    "squared_norms",
    "stack",
    "take_or_zero",
    "to_device",
    "to_host",
    "unmasked",
]

# -- what an array is ---------------------------------------------------------------------------------------------


def precision_of(array: Any) -> str:
    """Return the name of an array's type, whatever its library."""
    return str(array.dtype).removeprefix("torch.")


def is_float(array: Any) -> bool:
    """Whether an array holds floats, which may be NaN."""
    return array.is_floating_point() if is_tensor(array) else array.dtype.kind == "f"


def is_complex(array: Any) -> bool:
    """Whether an array holds complex numbers."""
    return array.is_complex() if is_tensor(array) else array.dtype.kind == "c"


def device_of(array: Any) -> str | None:
    """Return the device of a tensor; None for everything that is not one.

    Examples
    --------
    >>> device_of(np.zeros(3)) is None
    True
    """
    return str(array.device) if is_tensor(array) else None


def is_dask(table: Any) -> bool:
    """Whether a table is a Dask collection; Dask is not imported."""
    return type(table).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(table, "compute")


def lies_on_gpu(table: Any) -> bool:
    """Whether an array of any library lies in a GPU's memory."""
    return hasattr(table, "__dlpack_device__") and table.__dlpack_device__()[0] == CUDA_MEMORY


# -- from one library, device or precision to another -------------------------------------------------------------


def like(array: Any, other: Any, dtype: Any = None) -> Any:
    """Return a NumPy array in the library and on the device of ``other``, and in its precision unless one is given."""
    if not is_tensor(other):
        return np.ascontiguousarray(array, dtype=dtype or other.dtype)
    import torch

    dtype = other.dtype if dtype is None else getattr(torch, np.dtype(dtype).name)
    return to_tensor(array, other.device, dtype).contiguous()


def convert(array: Any, dtype: Any) -> Any:
    """Return an array in another precision, without a copy if it has that already."""
    if not is_tensor(array):
        return array.astype(dtype, copy=False)
    import torch

    return array.to(getattr(torch, np.dtype(dtype).name))


def to_host(thing: Thing) -> Thing:
    """Return an array, or a dataclass, tuple, list or dict of arrays, with tensors and Dask arrays as NumPy arrays."""
    copied = {} if is_tensor(thing) else copied_together(small_tensors(thing))

    def move(array: Any) -> Any:
        if is_tensor(array):
            return copied[id(array)] if id(array) in copied else array.cpu().numpy()
        return computed_collection(array) if is_dask(array) else array

    return map_arrays(thing, move)


def small_tensors(thing: Any) -> list[Any]:
    """Return the tensors of up to MOST_TOGETHER numbers on a GPU inside dataclasses, tuples, lists and dicts."""
    found: list[Any] = []

    def note(array: Any) -> Any:
        if is_tensor(array) and array.is_cuda and array.numel() <= MOST_TOGETHER:
            found.append(array)
        return array

    map_arrays(thing, note)
    return found


def copied_together(tensors: Sequence[Any]) -> dict[int, np.ndarray]:
    """Return tensors as NumPy arrays by their ids, where many of one type fit into one copy: each waits for the GPU."""
    found: dict[int, np.ndarray] = {}
    for kind in {(tensor.dtype, tensor.device) for tensor in tensors}:
        own = [tensor for tensor in tensors if (tensor.dtype, tensor.device) == kind]
        if len(own) < FEWEST_TOGETHER:
            continue
        import torch  # not before there is a tensor

        whole = torch.cat([tensor.flatten() for tensor in own]).cpu().numpy()
        parts = np.split(whole, np.cumsum([tensor.numel() for tensor in own])[:-1])
        found |= {id(tensor): part.reshape(tensor.shape) for tensor, part in zip(own, parts, strict=True)}
    return found


def to_device(thing: Thing, device: Any) -> Thing:
    """Return an array, or a dataclass, tuple, list or dict of arrays, with every NumPy array as a tensor on a device.

    Integers, which only the host reads (row numbers, bounds), stay where they are.
    """

    def move(array: Any) -> Any:
        if sparse.issparse(array):
            array = array.toarray()
        if isinstance(array, np.ndarray) and array.dtype.kind in "fb":
            return to_tensor(np.ascontiguousarray(array), device)
        return array

    return map_arrays(thing, move)


def beside(rows: Any, other: Any) -> Any:
    """Return rows as tensors on the device of ``other``; unchanged if they are tensors, or ``other`` is not one."""
    return to_device(rows, other.device) if is_tensor(other) and not is_tensor(rows) else rows


def detached(table: Any) -> Any:
    """Return a tensor without its gradient, as float32 where NumPy lacks its type; everything else as it is."""
    if not is_tensor(table):
        return table
    return table.detach().float() if precision_of(table) == "bfloat16" else table.detach()


def unmasked(table: Any) -> Any:
    """Return a masked array of numbers as floats, NaN where it is masked; everything else as it is.

    ``np.asarray`` would return the values under the mask.

    Examples
    --------
    >>> unmasked(np.ma.array([1, 2], mask=[False, True])).tolist()
    [1.0, nan]
    """
    if not isinstance(table, np.ma.MaskedArray) or table.dtype.kind not in "biufO":
        return table
    return np.ma.filled(table if table.dtype.kind == "f" else table.astype(np.float64), np.nan)


def is_sparse_tensor(table: Any) -> bool:
    """Whether a table is one of torch's sparse tensors."""
    return is_tensor(table) and str(table.layout) != "torch.strided"


def as_device_tensor(table: Any) -> Any | None:
    """Return an array in a GPU's memory (torch, or CuPy and JAX by DLPack) as a tensor there; None for all others."""
    if not lies_on_gpu(table):
        return None
    import torch

    found = table.detach() if is_tensor(table) else torch.from_dlpack(table)
    return found.float() if found.dtype in (torch.uint16, torch.uint32) else found  # torch cannot index those


def in_library_of(given: Any, found: Any) -> Any:
    """Return rows in the library and on the device of an array that the user passed: torch's, or CuPy's or JAX's."""
    if is_tensor(given):
        import torch

        return torch.as_tensor(found, device=given.device)
    return array_namespace(given).from_dlpack(found) if lies_on_gpu(given) else to_host(found)


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


# -- small computations -------------------------------------------------------------------------------------------


def power_of_two(size: Any) -> Any:
    """Return the largest power of two up to each size, 1 for sizes of zero: dividing by it is exact.

    Examples
    --------
    >>> power_of_two(np.array([0.0, 5.0, 1e-300]))
    array([1.00000000e+000, 4.00000000e+000, 7.46610895e-301])
    """
    return np.exp2(np.floor(np.log2(np.where(size > 0, size, 1.0))))


def numbers_for(table: Any, rows: Any) -> Any:
    """Return row numbers as what indexes a table fastest: tensors would wait for the copy of a NumPy array."""
    return to_tensor(rows, table.device) if is_tensor(table) and isinstance(rows, np.ndarray) else rows


def stack(parts: Sequence[Any]) -> Any:
    """Return arrays of one library stacked into one array with a new first axis."""
    return array_namespace(parts[0]).stack(parts)


def contiguous(rows: Any) -> Any:
    """Return a NumPy array in C order; CSR arrays and tensors as they are."""
    return np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows


def scaled(rows: Any, factor: float) -> Any:
    """Return rows, which may be sparse, times a number, in their own precision."""
    return rows * (factor if is_tensor(rows) else rows.dtype.type(factor))


def squared_norms(rows: Any) -> Any:
    """Return the rows' squared lengths."""
    return kernels_of(rows).squared_norms(rows)  # (b,)


def take_or_zero(table: Any, numbers: np.ndarray) -> tuple[Any, Any]:
    """Return rows of a table by number, zero rows for the number -1, and a mask of the rows that are not -1.

    Examples
    --------
    >>> take_or_zero(np.array([[1.0], [2.0]]), np.array([1, -1]))
    (array([[2.],
           [0.]]), array([ True, False]))
    """
    present, d = numbers >= 0, table.shape[1]  # (b,)
    if is_tensor(table):
        known = like(present, table, bool)
        return table[np.maximum(numbers, 0)].masked_fill(~known[:, None], 0), known
    if sparse.issparse(table) or getattr(table, "is_sparse", False):
        # One empty row at the end is taken for every missing one.
        empty = sparse.csr_array((1, d), dtype=table.dtype)
        padded = sparse.vstack([table[numbers[present]], empty], format="csr")
        order = np.where(present, np.cumsum(present) - 1, padded.shape[0] - 1)
        return padded[order], present
    data = np.zeros((len(numbers), d), dtype=table.dtype)
    data[present] = table[numbers[present]]
    return data, present

"""Torch devices: which one a table is on, whether one can be used, and arrays of the caller's kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.arrays import array_namespace, is_dask, to_host
from coterie.kernels import is_tensor

CUDA = 2  # DLPack's number for a GPU's memory


def device_of(table: Any) -> str | None:
    """Return the name of the device that a tensor is on; None for anything else."""
    return str(table.device) if is_tensor(table) else None


def is_on_gpu(table: Any) -> bool:
    """Whether an array of any library is in a GPU's memory."""
    return hasattr(table, "__dlpack_device__") and table.__dlpack_device__()[0] == CUDA


def check_device(device: Any) -> str:
    """Return the name of a device that torch can work on."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError('device="cuda" needs torch and triton: pip install coterie[gpu].') from error
    try:
        torch.zeros(1, device="cpu" if device == "torch" else device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f'device={device!r} cannot be used: {reason}. Use device="cpu", or "auto".') from error
    return "cpu" if device == "torch" else str(device)


def in_kind_of(tables: Iterable[Any], found: Any) -> Any:
    """Return an array in the kind of the tables: tensors, CuPy's or JAX's on a GPU, Dask's; else NumPy's."""
    tables = list(tables)
    if any(map(is_dask, tables)):
        return found
    given = next((table for table in tables if is_tensor(table) or is_on_gpu(table)), None)
    if given is None:
        return to_host(found)
    if is_tensor(given):
        import torch

        return torch.as_tensor(found, device=given.device)
    return array_namespace(given).from_dlpack(found)


def free_gpu_memory(device: Any) -> int:
    """Give cached memory of a GPU back to it, and return how many bytes it has in all."""
    import torch

    _, whole = torch.cuda.mem_get_info(device)
    torch.cuda.empty_cache()
    return int(whole)

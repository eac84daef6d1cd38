"""Torch devices: whether one can be used, its memory, and arrays of the caller's kind."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from coterie.arrays import device_of, in_library_of, is_dask, lies_on_gpu
from coterie.lazy import import_extra
from coterie.rows.staging import DRIVER


def check_device(device: Any) -> str:
    """Return the name of a device that torch can work on."""
    torch = import_extra("torch", "gpu", f"device={device!r}")
    try:
        torch.zeros(1, device="cpu" if device == "torch" else device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f'device={device!r} cannot be used: {reason}. Use device="cpu", or "auto".') from error
    return "cpu" if device == "torch" else str(device)


def count_gpus() -> int:
    """Return the number of GPUs that the CUDA driver reports, 0 without a driver; torch is not imported."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return 0
    count = ctypes.c_int(0)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def in_kind_of(tables: Iterable[Any], found: Any) -> Any:
    """Return an array in the library of the tables: torch, CuPy or JAX on a GPU, Dask; otherwise NumPy."""
    tables = list(tables)
    if any(map(is_dask, tables)):
        return found
    return in_library_of(next((table for table in tables if device_of(table) or lies_on_gpu(table)), None), found)


def free_gpu_memory(device: Any) -> int:
    """Release torch's cached memory of a GPU, and return the GPU's total memory in bytes."""
    import torch

    _, whole = torch.cuda.mem_get_info(device)
    torch.cuda.empty_cache()
    return int(whole)

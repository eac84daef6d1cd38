"""Where the work is done: on this machine's cores, or on a GPU; and what goes back to whoever asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from coterie.arrays import array_namespace, to_host
from coterie.kernels import is_tensor
from coterie.rows import Rows
from coterie.rows.cuda import CudaRows
from coterie.rows.memory import MemoryRows
from coterie.views import RowRange, Views, lies_on_gpu

BLOCK_ROWS = 8192
DEVICE_BLOCK_ROWS = 2**20
STREAMED_BYTES = 2**28


def rows_of(views: Views, size: int | None, n_threads: int) -> Rows:
    """Return the views' raw rows in blocks of the given size, None for one that suits the place."""
    if size is None:
        size = block_size(views.n_rows) if views.device is None else device_block_size(views)
    ranges = [RowRange(views, start, min(start + size, views.n_rows)) for start in range(0, views.n_rows, size)]
    if views.device is not None:
        return CudaRows(ranges, n_rows=views.n_rows)
    return MemoryRows(ranges, n_rows=views.n_rows, n_threads=n_threads)


def block_size(n_rows: int) -> int:
    """Return rows per block: enough blocks to share among cores, large enough to be worth a call."""
    return int(np.clip(-(-n_rows // 8), 256, BLOCK_ROWS))


def device_block_size(views: Views) -> int:
    """Return rows per block on a device: many, but of rows in host memory so few that copies and work overlap."""
    if all(is_tensor(view.data) for view in views):
        return DEVICE_BLOCK_ROWS
    row_bytes = sum(view.n_columns * view.data.dtype.itemsize for view in views)
    return int(np.clip(STREAMED_BYTES // max(row_bytes, 1), 2**13, DEVICE_BLOCK_ROWS))


def place_views(views: Views, device: Any) -> Views:
    """Return the views with the device on which they are worked on: None is this machine's cores.

    "auto" is the GPU that a view lies on, and the cores where none does.
    """
    homes = {str(view.data.device) for view in views if is_tensor(view.data)}
    if len(homes) > 1:
        raise ValueError(f"The views lie on different devices: {', '.join(sorted(homes))}. Bring them to one of them.")
    if device == "auto":
        return replace(views, device=next(iter(homes), None))
    if device == "cpu":
        return replace(views, views=tuple(replace(view, data=to_host(view.data)) for view in views))
    return replace(views, device=check_device(device))


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


def as_given(found: Any, X: Any) -> Any:
    """Return rows in the kind of array that X holds on a GPU (torch, CuPy, JAX) or as tensors; else as NumPy arrays."""
    tables = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else [X]
    given = next((table for table in tables if is_tensor(table) or lies_on_gpu(table)), None)
    if given is None:
        return to_host(found)
    if is_tensor(given):
        import torch

        return torch.as_tensor(found, device=given.device)
    return array_namespace(given).from_dlpack(found)


@contextmanager
def explain_memory(views: Views) -> Iterator[None]:
    """Turn a GPU's lack of memory into an error that says what would do."""
    try:
        yield
    except MemoryError as error:
        raise error
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        import torch

        _, whole = torch.cuda.mem_get_info(views.device)
        message = str(error).split(". ")[1]  # how much was asked for
    else:
        return
    torch.cuda.empty_cache()
    columns = sum(view.n_columns for view in views)
    raise MemoryError(
        f"The GPU's {whole / 1e9:.0f} GB do not do for this fit of {views.n_rows} rows ({message}). A block takes "
        f"about {16 * columns} bytes a row while neighbours are looked for: pass block_size below {DEVICE_BLOCK_ROWS}. "
        "What is kept takes 6 bytes a neighbour, graph and row: pass fewer n_neighbors, or fewer graphs "
        '(concatenation=False). Rows in host memory (device="cuda") come to the card one block at a time.'
    )

"""Blocks of rows on a GPU, worked on one after the other; what lies in host memory is brought in ahead of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from coterie.progress import counted
from coterie.rows.blocks import take_from
from coterie.threads import in_order

# Threads that copy host memory to where the card can fetch it: one alone is slower than the bus.
LOADERS = 4


class CudaRows:
    """Blocks held as a list of tensors; see :class:`coterie.rows.Rows` for the verbs.

    Nothing here is particular to CUDA but the loading: on a CPU the same code runs on CPU tensors.
    """

    def __init__(self, blocks: Sequence[Any], *, n_rows: int) -> None:
        self.blocks = blocks
        self.n_rows = n_rows

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> CudaRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        return CudaRows(list(self.stream(function, load)), n_rows=self.n_rows)

    def replace(self, function: Callable[[Any], Any]) -> CudaRows:
        """Like ``map``, but every old block is given up as soon as the new one is there: these rows are spent."""
        waiting, self.blocks = deque(self.blocks), ()
        return CudaRows([function(waiting.popleft()) for _ in range(len(waiting))], n_rows=self.n_rows)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any]) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block."""
        total = zeros()
        for block in self.blocks:
            function(block, total)
        return total

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for every block, in the order of the rows."""
        return [function(block) for block in self.blocks]

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows."""
        return counted((function(block) for block in self._loaded(load)), len(self.blocks), self.n_rows)

    def collect(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Any:
        """Put the rows of ``function(block)`` together, in the order of the rows."""
        import torch

        parts = self.stream(function, load)
        first = next(parts)
        if len(first) == self.n_rows:
            return first
        out = torch.empty((self.n_rows, *first.shape[1:]), dtype=first.dtype, device=first.device)
        out[: len(first)] = first
        at = len(first)
        for part in parts:
            out[at : at + len(part)] = part
            at += len(part)
        return out

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""
        return take_from(self.blocks, rows)

    def _loaded(self, load: Callable[[Any], Any] | None) -> Iterator[Any]:
        return iter(self.blocks) if load is None else in_order(load, self.blocks, LOADERS)


_idle_streams: dict[Any, SimpleQueue[Any]] = {}


@contextmanager
def borrowed_stream(device: Any) -> Iterator[Any]:
    """Lend one of a few streams: torch keeps memory apart for each, and would ask the card for more with every new."""
    import torch

    idle = _idle_streams.setdefault(device, SimpleQueue())
    try:
        stream = idle.get_nowait()
    except Empty:
        stream = torch.cuda.Stream(device)
    try:
        yield stream
    finally:
        idle.put(stream)


def upload(array: np.ndarray, device: Any) -> Any:
    """Return an array as a tensor on a device; called from several threads, copies overlap with work on the device."""
    import torch

    device = torch.device(device)
    if not array.dtype.isnative:  # torch knows one order of bytes
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype in (np.uint16, np.uint32, np.uint64):  # torch hardly knows them
        array = array.astype(np.float32 if array.itemsize == 2 else np.float64)
    if device.type != "cuda":
        return torch.as_tensor(np.require(array, requirements=["C", "W"]), device=device)  # torch wants to be let in
    with borrowed_stream(device) as stream, torch.cuda.stream(stream):
        staged = torch.from_numpy(array) if array.flags.writeable else None
        if staged is None or not staged.is_pinned():  # the card can fetch pinned memory by itself, and no other
            staged = torch.empty(array.shape, dtype=torch.from_numpy(array[:0].copy()).dtype, pin_memory=True)
            staged.numpy()[...] = array
        found = staged.to(device, non_blocking=True)
        stream.synchronize()
    found.record_stream(torch.cuda.default_stream(device))
    return found

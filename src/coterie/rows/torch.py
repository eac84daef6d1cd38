"""Blocks of rows as torch tensors, worked on one after the other; host memory is uploaded ahead of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from coterie.kernels import is_tensor
from coterie.progress import counted
from coterie.rows.blocks import fill, take_from
from coterie.rows.staging import borrow, staged_upload
from coterie.threads import in_order

# Blocks of host memory that are uploaded at once: while one waits for the card, the next is copied.
LOADERS = 2


class TorchRows:
    """Blocks held as a list of tensors; see :class:`coterie.rows.Rows` for the verbs.

    Only uploading is particular to CUDA: the same code runs on CPU tensors.
    """

    def __init__(self, blocks: Sequence[Any], *, n_rows: int) -> None:
        self.blocks = blocks
        self.n_rows = n_rows

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> TorchRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        return TorchRows(list(self.stream(function, load)), n_rows=self.n_rows)

    def replace(self, function: Callable[[Any], Any]) -> TorchRows:
        """Like ``map``, but every old block is freed as soon as the new one exists: these rows are consumed."""
        waiting, self.blocks = deque(self.blocks), ()
        return TorchRows([function(waiting.popleft()) for _ in range(len(waiting))], n_rows=self.n_rows)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any], *, dense: bool = False) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block.

        There is one total, ``dense`` or not: blocks are worked on one after the other.
        """
        total = zeros()
        for block in self.blocks:
            function(block, total)
        return total

    def sums(self, functions: Sequence[Callable[[Any, Any], None]], zeros: Callable[[], Any]) -> Iterator[Any]:
        """Yield the sum by each function in turn."""
        return (self.sum(function, zeros) for function in functions)

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for every block, in the order of the rows."""
        return [function(block) for block in self.blocks]

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows."""
        return counted((function(block) for block in self._loaded(load)), len(self.blocks), self.n_rows)

    def collect(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Any:
        """Return the rows of ``function(block)`` as one array, in the order of the rows."""
        import torch

        parts = self.stream(function, load)
        first = next(parts)
        if len(first) == self.n_rows:
            return first
        out = torch.empty((self.n_rows, *first.shape[1:]), dtype=first.dtype, device=first.device)
        return fill(out, first, parts)

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""
        return take_from(self.blocks, rows)

    def _loaded(self, load: Callable[[Any], Any] | None) -> Iterator[Any]:
        return iter(self.blocks) if load is None else in_order(load, self.blocks, LOADERS)


def upload_dense(rows: Any, present: Any, device: Any) -> tuple[Any, Any]:
    """Return dense rows of host memory, and the mask of those that have the view, on a device; other rows unchanged."""
    if not isinstance(rows, np.ndarray):
        return rows, present
    return upload(rows, device), None if present is None else upload(present, device)


def upload_if_host(rows: np.ndarray, device: Any) -> Any:
    """Return rows as a tensor on a device; tensors, and all rows if there is no device, unchanged."""
    return rows if device is None or is_tensor(rows) else upload(rows, device)


def upload(array: np.ndarray, device: Any) -> Any:
    """Return an array as a tensor on a device; called from several threads, copies overlap with work on the device."""
    import torch

    device = torch.device(device)
    if min(array.strides, default=0) < 0:  # torch refuses them, even for a single row, which NumPy calls contiguous
        array = array.copy()
    if not array.dtype.isnative:  # torch has native byte order only
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype in (np.uint16, np.uint32, np.uint64):  # torch has few operations for them
        array = array.astype(np.float32 if array.itemsize == 2 else np.float64)
    if device.type != "cuda":
        writable = np.require(array, requirements=["C", "W"])  # torch warns of arrays that are read-only
        return torch.as_tensor(writable, device=device)
    given = as_tensor(array)
    with borrow(_streams, device, lambda: torch.cuda.Stream(device)) as stream, torch.cuda.stream(stream):
        found = torch.empty(given.shape, dtype=given.dtype, device=device)
        if given.is_pinned() or not staged_upload(given, found):
            found.copy_(given, non_blocking=True)
            stream.synchronize()
    found.record_stream(torch.cuda.default_stream(device))
    return found


_streams: dict[Any, SimpleQueue[Any]] = {}


def as_tensor(array: np.ndarray) -> Any:
    """Return a tensor that shares an array's memory, without torch's warning where it is read-only."""
    import torch

    if not array.flags.writeable:
        array = np.asarray(Writable(array))
    return torch.from_numpy(array)


class Writable:
    """A read-only array's memory, declared writable for readers that insist on it."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}
        self.array = array  # whose memory it is

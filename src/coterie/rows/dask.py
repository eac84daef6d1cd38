"""Blocks of rows on the workers of a Dask cluster: rows stay where they are, and only small sums travel."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from coterie.arrays import map_arrays, to_host
from coterie.kernels import is_tensor
from coterie.rows.blocks import join, take_from
from coterie.rows.exact import ExactSum, add_exactly
from coterie.rows.memory import after
from coterie.rows.tasks import Named, Part, array_of, computed, identity, persisted
from coterie.rows.workers import Asked, Placed, answers, at, by_threads, kept, placed, workers_of
from coterie.threads import one_thread_per_block

TOGETHER = 4  # totals that are added up at once


class DaskRows:
    """Partitions of rows, each a list of blocks on some worker; see :class:`coterie.rows.Rows` for the verbs.

    With a running ``distributed.Client`` what a verb makes stays on the workers, and what is lost with one of them is
    made again. Without a client, Dask's own scheduler does the work in this process.
    """

    def __init__(self, parts: Sequence[Part], sizes: np.ndarray, device: Any = None) -> None:
        self.sizes = sizes  # (P,) rows of every partition of the input, some of them perhaps none
        self.parts = parts  # those that have rows
        self.device = device  # where the workers keep blocks as tensors; None: NumPy arrays
        self.n_rows = int(sizes.sum())

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> DaskRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        return self._with(self._jobs(map_blocks, function, load))

    def replace(self, function: Callable[[Any], Any]) -> DaskRows:
        """Like ``map``, but every old block is given up as soon as the new one is there: these rows are spent."""
        jobs, self.parts = self._jobs(map_blocks, function), ()
        return self._with(jobs)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any]) -> list[Any]:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block.

        Every worker adds up its own partitions, and then workers each other's totals. They do so in whole numbers, so
        that it does not matter which partitions lie together.
        """
        named = Named(function)
        sent = self._send((function, zeros))
        opened = [part.opened(named) for part in self.parts]
        totals: list[Any] = []
        for worker, threads in by_threads(opened, workers_of([Part((part,)) for part in opened], self.sizes)):
            with at(worker):
                own = [named(sum_blocks, sent, *parts) for parts in threads]
                totals += added_up(named, own, len(threads))
        (total,) = added_up(named, totals, TOGETHER)
        (found,) = computed([named(as_numbers, total)])
        return self._at_home(found)

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for every partition as one block, in the order of the rows."""
        named = Named(function)
        asked = [Asked(part, worker) for part, worker in zip(self.parts, self._workers(), strict=True)]
        return answers(named, ask_block, asked, self._send(function))

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows, a partition at a time brought here."""
        waiting = deque(persisted([job.task for job in self._jobs(bring_blocks, function, load)]))
        while waiting:
            yield from computed([waiting.popleft()])[0]

    def collect(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Any:
        """Put the rows of ``function(block)`` together: as a Dask array, where they are, in the input's partitions."""
        named = Named(function)
        parts = kept(self._jobs(join_blocks, function, load))
        ((dtype, shape),) = computed([named(kind_of, parts[0])])
        waiting = iter(parts)
        empty = np.empty((0, *shape), dtype=dtype)
        every = [next(waiting) if size else named(identity, empty) for size in self.sizes]
        return array_of(every, self.sizes.tolist(), shape, dtype)

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""
        named = Named(take_from)
        bounds = np.cumsum([0, *self.sizes[self.sizes > 0]])
        cuts = np.searchsorted(rows, bounds)
        asked = [
            Asked(part, worker, (rows[cuts[number] : cuts[number + 1]] - bounds[number],))
            for number, (part, worker) in enumerate(zip(self.parts, self._workers(), strict=True))
            if cuts[number] < cuts[number + 1]
        ]
        return self._at_home(join(answers(named, pick_rows, asked)))

    def _jobs(
        self, work: Callable[..., Any], function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None
    ) -> list[Placed]:
        named = Named(function)
        (sent,) = persisted([self._send(after(load, function))])  # once, though tasks are handed out one by one
        pairs = zip(self.parts, self._workers(), strict=True)
        return [placed(part, worker, named, work, sent) for part, worker in pairs]

    def _workers(self) -> list[str | None]:
        return workers_of(self.parts, self.sizes[self.sizes > 0])

    def _with(self, jobs: list[Placed]) -> DaskRows:
        return DaskRows([Part((task,)) for task in kept(jobs)], self.sizes, self.device)

    def _send(self, thing: Any) -> Any:
        """Return what all tasks of a pass need as one task: it crosses once to each worker, and can be made again."""
        return Named("send")(unpacked, packed(thing), self.device)

    def _at_home(self, thing: Any) -> Any:
        """Return what came from the workers as what this process would have made."""
        if self.device is None:
            return thing
        import torch

        return map_arrays(thing, lambda part: torch.as_tensor(part) if isinstance(part, np.ndarray) else part)


def added_up(named: Named, totals: Sequence[Any], together: int) -> Sequence[Any]:
    """Return tasks that add up some totals at a time until one is left."""
    while len(totals) > 1:
        starts = range(0, len(totals), max(together, 2))
        totals = [named(add_totals, *totals[start : start + max(together, 2)]) for start in starts]
    return totals


# -- what workers do ------------------------------------------------------------------------------------------------


def map_blocks(function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
    """Return the function of every block."""
    with one_thread_per_block():
        return [function(block) for block in blocks]


def bring_blocks(function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
    """Return the function of every block, in the worker's own memory."""
    return to_host(map_blocks(function, blocks))


def join_blocks(function: Callable[[Any], Any], blocks: Sequence[Any]) -> Any:
    """Return the function of all blocks, one below the other, in the worker's own memory."""
    return to_host(join(map_blocks(function, blocks)))


def ask_block(function: Callable[[Any], Any], blocks: Sequence[Any]) -> Any:
    """Return the function of all blocks as one."""
    with one_thread_per_block():
        return to_host(function(join(blocks)))


def sum_blocks(sent: tuple[Callable[[Any, Any], None], Callable[[], Any]], *parts: Sequence[Any]) -> list[Any]:
    """Return the exact sum of the partitions' totals. A partition's own does not depend on where it lies."""
    function, zeros = sent
    found: list[Any] = []
    with one_thread_per_block():
        for blocks in parts:
            total = zeros()
            for block in blocks:
                function(block, total)
            add_exactly(found, to_host(total))
    return found


def add_totals(*totals: list[Any]) -> list[Any]:
    """Return the sum of totals, which stay as they are."""
    found: list[Any] = []
    for total in totals:
        add_exactly(found, total)
    return found


def as_numbers(total: list[Any]) -> list[Any]:
    """Return exact sums as floats."""
    return [part.value() if isinstance(part, ExactSum) else part for part in total]


def pick_rows(rows: np.ndarray, blocks: Sequence[Any]) -> Any:
    """Return some rows of a partition, in the worker's own memory."""
    return to_host(take_from(blocks, rows))


def kind_of(rows: np.ndarray) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the values' type, and the shape of one row."""
    return rows.dtype, rows.shape[1:]


# -- what is sent to them -------------------------------------------------------------------------------------------

_device: ContextVar[Any] = ContextVar("device", default=None)


def packed(thing: Any) -> bytes:
    """Return functions, and all that they know, as bytes. Tensors go as arrays: workers have devices of their own."""
    from io import BytesIO

    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            if is_tensor(value) and type(value).__name__ == "Tensor":
                return _tensor_here, (to_host(value),)
            return super().reducer_override(value)

    file = BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue()


def unpacked(data: bytes, device: Any) -> Any:
    """Return what was packed, its tensors on this worker's device."""
    token = _device.set(device)
    try:
        return pickle.loads(data)
    finally:
        _device.reset(token)


def _tensor_here(array: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(array, device=_device.get())

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
from coterie.rows.blocks import concat_blocks, take_from
from coterie.rows.exact import ExactSum, add_to_totals
from coterie.rows.memory import composed
from coterie.rows.tasks import Part, TaskMaker, as_dask_array, computed, identity, persisted
from coterie.rows.workers import (
    AssignedTask,
    PartitionQuery,
    assign_task,
    group_by_thread,
    on_worker,
    query_partitions,
    run_where_assigned,
    workers_of,
)
from coterie.threads import one_thread_per_block

TOTALS_PER_TASK = 4  # added up at once


class DaskRows:
    """Partitions of rows, each a list of blocks on some worker; see :class:`coterie.rows.Rows` for the verbs.

    With a running ``distributed.Client`` results of verbs stay on the workers, and results that are lost with a worker
    are computed again. Without a client, Dask's own scheduler does the work in this process.
    """

    def __init__(self, parts: Sequence[Part], sizes: np.ndarray, device: Any = None) -> None:
        self.sizes = sizes  # (P,) number of rows of every partition of the input, some perhaps 0
        self.parts = parts  # those that have rows
        self.device = device  # where the workers keep blocks as tensors; None: NumPy arrays
        self.n_rows = int(sizes.sum())

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> DaskRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        return self._with(self._jobs(map_blocks, function, load))

    def replace(self, function: Callable[[Any], Any]) -> DaskRows:
        """Like ``map``, but every old block is freed as soon as the new one exists: these rows are consumed."""
        jobs, self.parts = self._jobs(map_blocks, function), ()
        return self._with(jobs)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any], *, dense: bool = False) -> list[Any]:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block.

        Every worker sums its own partitions, and the workers' totals are then added up in a tree. The sums are exact,
        so the result does not depend on which worker holds which partitions. ``dense`` has no effect: every thread has
        a total anyway.
        """
        make_task = TaskMaker(function)
        sent = self._send((function, zeros))
        opened = [part.opened(make_task) for part in self.parts]
        totals: list[Any] = []
        for worker, threads in group_by_thread(opened, workers_of([Part((part,)) for part in opened], self.sizes)):
            with on_worker(worker):
                own = [make_task(sum_blocks, sent, *parts) for parts in threads]
                totals += tree_sum(make_task, own, len(threads))
        (total,) = tree_sum(make_task, totals, TOTALS_PER_TASK)
        (found,) = computed([make_task(as_floats, total)])
        return self._as_local(found)

    def sums(self, functions: Sequence[Callable[[Any, Any], None]], zeros: Callable[[], Any]) -> Iterator[Any]:
        """Yield the sum by each function in turn."""
        return (self.sum(function, zeros) for function in functions)

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for every partition as one block, in the order of the rows."""
        make_task = TaskMaker(function)
        queries = [PartitionQuery(part, worker) for part, worker in zip(self.parts, self._workers(), strict=True)]
        return query_partitions(make_task, apply_to_partition, queries, self._send(function))

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows; one partition at a time comes to this process."""
        waiting = deque(persisted([job.task for job in self._jobs(map_to_host, function, load)]))
        while waiting:
            yield from computed([waiting.popleft()])[0]

    def collect(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Any:
        """Return the rows of ``function(block)`` as a Dask array on the workers, in the input's partitions."""
        make_task = TaskMaker(function)
        parts = run_where_assigned(self._jobs(map_and_concat, function, load))
        ((dtype, shape),) = computed([make_task(dtype_and_shape, parts[0])])
        waiting = iter(parts)
        empty = np.empty((0, *shape), dtype=dtype)
        every = [next(waiting) if size else make_task(identity, empty) for size in self.sizes]
        return as_dask_array(every, self.sizes.tolist(), shape, dtype)

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""
        make_task = TaskMaker(take_from)
        bounds = np.cumsum([0, *self.sizes[self.sizes > 0]])
        cuts = np.searchsorted(rows, bounds)
        queries = [
            PartitionQuery(part, worker, (rows[cuts[number] : cuts[number + 1]] - bounds[number],))
            for number, (part, worker) in enumerate(zip(self.parts, self._workers(), strict=True))
            if cuts[number] < cuts[number + 1] or (number == 0 and not len(rows))
        ]
        return self._as_local(concat_blocks(query_partitions(make_task, take_on_worker, queries)))

    def _jobs(
        self, work: Callable[..., Any], function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None
    ) -> list[AssignedTask]:
        make_task = TaskMaker(function)
        (sent,) = persisted([self._send(composed(load, function))])  # sent once, though tasks are submitted one by one
        pairs = zip(self.parts, self._workers(), strict=True)
        return [assign_task(part, worker, make_task, work, sent) for part, worker in pairs]

    def _workers(self) -> list[str | None]:
        return workers_of(self.parts, self.sizes[self.sizes > 0])

    def _with(self, jobs: list[AssignedTask]) -> DaskRows:
        return DaskRows([Part((task,)) for task in run_where_assigned(jobs)], self.sizes, self.device)

    def _send(self, thing: Any) -> Any:
        """Return a task that holds what all tasks of a pass need, sent once to each worker."""
        return TaskMaker("send")(deserialised, serialised(thing), self.device)

    def _as_local(self, thing: Any) -> Any:
        """Return results of the workers as tensors if the workers have a device."""
        if self.device is None:
            return thing
        import torch

        return map_arrays(thing, lambda part: torch.as_tensor(part) if isinstance(part, np.ndarray) else part)


def tree_sum(make_task: TaskMaker, totals: Sequence[Any], together: int) -> Sequence[Any]:
    """Return tasks that add up a few totals at a time until one is left."""
    while len(totals) > 1:
        starts = range(0, len(totals), max(together, 2))
        totals = [make_task(sum_totals, *totals[start : start + max(together, 2)]) for start in starts]
    return totals


# -- what workers do ------------------------------------------------------------------------------------------------


def map_blocks(function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
    """Return ``function(block)`` for every block."""
    with one_thread_per_block():
        return [function(block) for block in blocks]


def map_to_host(function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
    """Return ``function(block)`` for every block, in the worker's host memory."""
    return to_host(map_blocks(function, blocks))


def map_and_concat(function: Callable[[Any], Any], blocks: Sequence[Any]) -> Any:
    """Return ``function(block)`` for every block, concatenated, in the worker's host memory."""
    return to_host(concat_blocks(map_blocks(function, blocks)))


def apply_to_partition(function: Callable[[Any], Any], blocks: Sequence[Any]) -> Any:
    """Return ``function`` of all blocks concatenated, in the worker's host memory."""
    with one_thread_per_block():
        return to_host(function(concat_blocks(blocks)))


def sum_blocks(sent: tuple[Callable[[Any, Any], None], Callable[[], Any]], *parts: Sequence[Any]) -> list[Any]:
    """Return the exact sum of the partitions' totals; a partition's total does not depend on where it lies."""
    function, zeros = sent
    found: list[Any] = []
    with one_thread_per_block():
        for blocks in parts:
            total = zeros()
            for block in blocks:
                function(block, total)
            add_to_totals(found, to_host(total))
    return found


def sum_totals(*totals: list[Any]) -> list[Any]:
    """Return the sum of totals, which are left unchanged."""
    found: list[Any] = []
    for total in totals:
        add_to_totals(found, total)
    return found


def as_floats(total: list[Any]) -> list[Any]:
    """Return exact sums as floats."""
    return [part.value() if isinstance(part, ExactSum) else part for part in total]


def take_on_worker(rows: np.ndarray, blocks: Sequence[Any]) -> Any:
    """Return some rows of a partition, in the worker's host memory."""
    return to_host(take_from(blocks, rows))


def dtype_and_shape(rows: np.ndarray) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the values' type, and the shape of one row."""
    return rows.dtype, rows.shape[1:]


# -- what is sent to them -------------------------------------------------------------------------------------------

_device: ContextVar[Any] = ContextVar("device", default=None)


def serialised(thing: Any) -> bytes:
    """Return pickled functions with their closures, tensors as arrays: workers have devices of their own."""
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


def deserialised(data: bytes, device: Any) -> Any:
    """Return what was serialised, its tensors on this worker's device."""
    token = _device.set(device)
    try:
        return pickle.loads(data)
    finally:
        _device.reset(token)


def _tensor_here(array: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(array, device=_device.get())

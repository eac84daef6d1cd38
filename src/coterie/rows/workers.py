"""Which worker of a Dask cluster does which task: tasks go where their rows lie, and rows stay there.

Dask itself would move a partition to an idle worker. That suits a single pass over partitions, but the next pass then
finds its rows elsewhere, and with many rows moving them takes most of the time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from coterie.rows.tasks import Part, TaskMaker, computed, future_of, persisted
from coterie.waiting import ask, current_client, raise_first_error, wait_for


@dataclass(frozen=True)
class AssignedTask:
    """A task, and the worker that it is assigned to; None: any."""

    task: Any
    worker: str | None


def workers_of(parts: Sequence[Part], sizes: np.ndarray) -> list[str | None]:
    """Return the worker of each partition: the one that holds it.

    Partitions that no worker holds yet are spread evenly, by rows. Those whose inputs are shared with others are left
    to Dask. So are all partitions while there are no workers.
    """
    client = current_client()
    n_threads = {} if client is None else ask(client.nthreads)
    if not n_threads:
        return [None] * len(parts)
    held = [[future for task in part.inputs if (future := future_of(task)) is not None] for part in parts]
    times = Counter(future.key for futures in held for future in futures)
    # What several partitions share is small, and every worker gets it.
    own = [[future for future in futures if times[future.key] == 1] for futures in held]
    if any(own):
        known = holders(client, [future for futures in own for future in futures])
        return [main_holder(known, futures) for futures in own]
    if any(hasattr(task, "__dask_graph__") and future_of(task) is None for part in parts for task in part.inputs):
        return [None] * len(parts)
    return list(spread_evenly(sizes, n_threads))


def holders(client: Any, futures: Sequence[Any]) -> dict[Any, str]:
    """Wait until all futures are computed, and return a worker that holds the result for each key."""
    wait_for(client, futures)
    return {key: workers[0] for key, workers in ask(client.who_has, futures).items() if workers}


def main_holder(known: dict[Any, str], futures: Sequence[Any]) -> str | None:
    """Return the worker that holds most of some futures; None if none does."""
    counts = Counter(known[future.key] for future in futures if future.key in known)
    return max(counts, key=counts.__getitem__, default=None)


def spread_evenly(sizes: Sequence[int] | np.ndarray, n_threads: dict[str, int]) -> Iterator[str]:
    """Yield a worker for each partition: adjacent ones together, and rows shared evenly among threads.

    Examples
    --------
    >>> list(spread_evenly([5, 5, 5, 5], {"a": 1, "b": 1})), list(spread_evenly([10, 10, 10], {"a": 2, "b": 1}))
    (['a', 'a', 'b', 'b'], ['a', 'a', 'b'])
    """
    threads = [worker for worker, count in n_threads.items() for _ in range(count)]
    ends = np.cumsum(sizes)
    for middle in ends - np.asarray(sizes) / 2:
        yield threads[min(int(middle / ends[-1] * len(threads)), len(threads) - 1)]  # the last ones may have no rows


@contextmanager
def on_worker(worker: str | None) -> Iterator[None]:
    """Assign tasks that are made inside to a worker, or to any other if that one is lost."""
    import dask

    if worker is None:
        yield
        return
    with dask.annotate(workers=[worker], allow_other_workers=True):
        yield


def assign_task(
    part: Part, worker: str | None, make_task: TaskMaker, function: Callable[..., Any], *arguments: Any
) -> AssignedTask:
    """Return a task on a partition, assigned to a worker; see :meth:`coterie.rows.tasks.Part.work`."""
    with on_worker(worker):
        return AssignedTask(part.work(make_task, function, *arguments), worker)


def run_where_assigned(jobs: list[AssignedTask]) -> list[Any]:
    """Run tasks on their workers, and return them; results stay where they were computed. The list is emptied.

    A worker gets one task for each of its threads, and the next when one has finished: idle workers may steal tasks
    that wait, and move their rows.
    """
    client = current_client()
    if client is None:
        return list(persisted([job.task for job in jobs]))
    worker_of = {job.task.key: job.worker for job in jobs}
    lines: dict[str | None, deque[Any]] = {worker: deque() for worker in worker_of.values()}
    for job in jobs:
        lines[job.worker].append(job.task)
    jobs.clear()  # a finished task must not keep its input rows alive
    found: dict[Any, Any] = {}

    def hand_out(counts: Mapping[str | None, int]) -> list[Any]:
        given = [lines[worker].popleft() for worker, count in counts.items() for _ in range(count) if lines[worker]]
        tasks = persisted(given)
        found.update((task.key, task) for task in tasks)
        return [future_of(task) for task in tasks]

    n_threads = {**ask(client.nthreads), None: len(worker_of)}
    going = set(hand_out({worker: n_threads.get(worker, 1) for worker in lines}))
    while going:
        done = wait_for(client, list(going), first=True)
        raise_first_error(done)
        going = going.difference(done).union(hand_out(Counter(worker_of[future.key] for future in done)))
    wait_for(client, [future_of(task) for task in found.values()])  # some may have been lost with a worker
    return [found[key] for key in worker_of]


@dataclass(frozen=True)
class PartitionQuery:
    """A partition, its worker (None: any), and the arguments of a function that is called with it."""

    part: Part
    worker: str | None
    arguments: tuple[Any, ...] = ()


def query_partitions(
    make_task: TaskMaker, function: Callable[..., Any], queries: Sequence[PartitionQuery], *shared: Any
) -> list[Any]:
    """Return ``function(*shared, *arguments, partition)``, something small, for every partition, in this process.

    A worker gets one task for each of its threads, over several partitions: none waits that could be stolen.
    """
    order: list[int] = []
    tasks = []
    for worker, threads in group_by_thread(range(len(queries)), [one.worker for one in queries]):
        for numbers in threads:
            group = [queries[number] for number in numbers]
            steps = [(one.part.open, len(one.part.inputs), one.arguments) for one in group]
            inputs = [task for one in group for task in one.part.inputs]
            with on_worker(worker):
                tasks.append(make_task(partial(run_queries, function, steps, len(shared)), *shared, *inputs))
            order += numbers
    found = chain.from_iterable(computed(tasks))
    return [answer for _, answer in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


def run_queries(
    function: Callable[..., Any], steps: Sequence[tuple[Callable[..., Any], int, tuple]], n_shared: int, *given: Any
) -> list[Any]:
    """Open some partitions, on a worker, one after the other, and call the function with each."""
    shared, inputs = given[:n_shared], iter(given[n_shared:])
    return [function(*shared, *arguments, open(*islice(inputs, count))) for open, count, arguments in steps]


def group_by_thread(tasks: Sequence[Any], workers: Sequence[str | None]) -> list[tuple[str | None, list[list[Any]]]]:
    """Return every worker, and its tasks in one list for each of its threads; an unassigned task has its own entry."""
    client = current_client()
    n_threads = {} if client is None else ask(client.nthreads)
    groups: dict[str | int, list[Any]] = {}
    for number, (task, worker) in enumerate(zip(tasks, workers, strict=True)):
        groups.setdefault(number if worker is None else worker, []).append(task)
    return [
        (None, [group]) if isinstance(worker, int) else (worker, split_evenly(group, n_threads.get(worker, 1)))
        for worker, group in groups.items()
    ]


def split_evenly(items: Sequence[Any], count: int) -> list[list[Any]]:
    """Return items as ``count`` lists of consecutive ones, or as fewer lists if some would be empty.

    Examples
    --------
    >>> split_evenly("abcd", 2), split_evenly("ab", 3)
    ([['a', 'b'], ['c', 'd']], [['a'], ['b']])
    """
    bounds = np.linspace(0, len(items), min(count, len(items)) + 1).round().astype(int)
    return [list(items[start:stop]) for start, stop in pairwise(bounds)]

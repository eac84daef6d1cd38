"""Who of a Dask cluster works on what: tasks go where their rows lie, and rows do not go anywhere.

Dask itself would move a partition to a worker that has nothing to do. That is right for a pass over partitions on its
own, but the next pass finds rows elsewhere, and with many rows it is their moving that takes the time.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from coterie.rows.tasks import Named, Part, computed, future_of, persisted


@dataclass(frozen=True)
class Placed:
    """A task, and the worker that is to do it; None for any."""

    task: Any
    worker: str | None


def cluster() -> Any:
    """Return the client of the cluster that tasks go to; None where there is none."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    client = getattr(get_scheduler(), "__self__", None)
    return client if isinstance(client, Client) else None


def workers_of(parts: Sequence[Part], sizes: np.ndarray) -> list[str | None]:
    """Return who is to work on each partition: the worker that has it.

    Partitions that nobody has yet are spread evenly, by rows. Those that first have to be put together from what others
    share are left to Dask. So is everything while there are no workers.
    """
    client = cluster()
    n_threads = {} if client is None else client.nthreads()
    if not n_threads:
        return [None] * len(parts)
    held = [[future for task in part.inputs if (future := future_of(task)) is not None] for part in parts]
    times = Counter(future.key for futures in held for future in futures)
    own = [[future for future in futures if times[future.key] == 1] for futures in held]  # others all need to know
    if any(own):
        known = holders(client, [future for futures in own for future in futures])
        return [most_at(known, futures) for futures in own]
    if any(hasattr(task, "__dask_graph__") and future_of(task) is None for part in parts for task in part.inputs):
        return [None] * len(parts)
    return list(spread(sizes, n_threads))


def holders(client: Any, futures: Sequence[Any]) -> dict[Any, str]:
    """Return a worker that has it for each key, once all are there."""
    from distributed import wait

    wait(futures)
    return {key: workers[0] for key, workers in client.who_has(futures).items() if workers}


def most_at(known: dict[Any, str], futures: Sequence[Any]) -> str | None:
    """Return who has most of some futures, if anybody has any."""
    counts = Counter(known[future.key] for future in futures if future.key in known)
    return max(counts, key=counts.__getitem__, default=None)


def spread(sizes: Sequence[int] | np.ndarray, n_threads: dict[str, int]) -> Iterator[str]:
    """Yield a worker for each partition: neighbours together, and as many rows for every thread as can be.

    Examples
    --------
    >>> list(spread([5, 5, 5, 5], {"a": 1, "b": 1})), list(spread([10, 10, 10], {"a": 2, "b": 1}))
    (['a', 'a', 'b', 'b'], ['a', 'a', 'b'])
    """
    threads = [worker for worker, count in n_threads.items() for _ in range(count)]
    ends = np.cumsum(sizes)
    for middle in ends - np.asarray(sizes) / 2:
        yield threads[min(int(middle / ends[-1] * len(threads)), len(threads) - 1)]  # those without rows may be last


@contextmanager
def at(worker: str | None) -> Iterator[None]:
    """Let tasks that are made in here be done by a worker as long as it lives, and by others after that."""
    import dask

    if worker is None:
        yield
        return
    with dask.annotate(workers=[worker], allow_other_workers=True):
        yield


def placed(part: Part, worker: str | None, named: Named, function: Callable[..., Any], *arguments: Any) -> Placed:
    """Return a task on a partition that a worker is to do; see :meth:`coterie.rows.tasks.Part.work`."""
    with at(worker):
        return Placed(part.work(named, function, *arguments), worker)


def kept(jobs: list[Placed]) -> list[Any]:
    """Let tasks be done, and return them with their results where they were made. The list is spent.

    A worker is given a task for each of its threads, and another one when one is done: what waits at a worker may be
    taken away from it by an idle one, and rows with it.
    """
    client = cluster()
    if client is None:
        return list(persisted([job.task for job in jobs]))
    from distributed import as_completed, wait

    worker_of = {job.task.key: job.worker for job in jobs}
    lines: dict[str | None, deque[Any]] = {worker: deque() for worker in worker_of.values()}
    for job in jobs:
        lines[job.worker].append(job.task)
    jobs.clear()  # a task that is done must not hold on to the rows that it took
    found: dict[Any, Any] = {}

    def hand_out(counts: Mapping[str | None, int]) -> list[Any]:
        given = [lines[worker].popleft() for worker, count in counts.items() for _ in range(count) if lines[worker]]
        tasks = persisted(given)
        found.update((task.key, task) for task in tasks)
        return [future_of(task) for task in tasks]

    n_threads = {**client.nthreads(), None: len(worker_of)}
    going = as_completed(hand_out({worker: n_threads.get(worker, 1) for worker in lines}))
    for done in going.batches():
        must_be_well(done)
        going.update(hand_out(Counter(worker_of[future.key] for future in done)))
    wait([future_of(task) for task in found.values()])  # some may have been lost in the meantime
    return [found[key] for key in worker_of]


def must_be_well(futures: Iterable[Any]) -> None:
    """Raise the error of the first task that had one."""
    for future in futures:
        if future.status in ("error", "cancelled"):
            future.result()


@dataclass(frozen=True)
class Asked:
    """A partition, the worker that is to ask it, None for any, and what it is asked for."""

    part: Part
    worker: str | None
    arguments: tuple[Any, ...] = ()


def answers(named: Named, function: Callable[..., Any], asked: Sequence[Asked], *shared: Any) -> list[Any]:
    """Return ``function(*shared, *arguments, partition)``, something small, for every partition, here.

    A worker's partitions are asked by one task for each of its threads: no more wait there than can be worked on.
    """
    order: list[int] = []
    tasks = []
    for worker, threads in by_threads(range(len(asked)), [one.worker for one in asked]):
        for numbers in threads:
            group = [asked[number] for number in numbers]
            steps = [(one.part.open, len(one.part.inputs), one.arguments) for one in group]
            inputs = [task for one in group for task in one.part.inputs]
            with at(worker):
                tasks.append(named(partial(ask_each, function, steps, len(shared)), *shared, *inputs))
            order += numbers
    found = chain.from_iterable(computed(tasks))
    return [answer for _, answer in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


def ask_each(
    function: Callable[..., Any], steps: Sequence[tuple[Callable[..., Any], int, tuple]], n_shared: int, *given: Any
) -> list[Any]:
    """Open some partitions, on a worker, one after the other, and ask each."""
    shared, inputs = given[:n_shared], iter(given[n_shared:])
    return [function(*shared, *arguments, open(*islice(inputs, count))) for open, count, arguments in steps]


def by_threads(tasks: Sequence[Any], workers: Sequence[str | None]) -> list[tuple[str | None, list[list[Any]]]]:
    """Return every worker, and its tasks in as many lists as it has threads. Tasks of nobody are on their own."""
    client = cluster()
    n_threads = {} if client is None else client.nthreads()
    groups: dict[str | int, list[Any]] = {}
    for number, (task, worker) in enumerate(zip(tasks, workers, strict=True)):
        groups.setdefault(number if worker is None else worker, []).append(task)
    return [
        (None, [group]) if isinstance(worker, int) else (worker, split(group, n_threads.get(worker, 1)))
        for worker, group in groups.items()
    ]


def split(items: Sequence[Any], count: int) -> list[list[Any]]:
    """Return items in so many lists of consecutive ones, none of them empty.

    Examples
    --------
    >>> split("abcd", 2), split("ab", 3)
    ([['a', 'b'], ['c', 'd']], [['a'], ['b']])
    """
    bounds = np.linspace(0, len(items), min(count, len(items)) + 1).round().astype(int)
    return [list(items[start:stop]) for start, stop in pairwise(bounds)]

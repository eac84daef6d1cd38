"""Dask tasks with names that Dask's dashboard can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from coterie.waiting import current_client, gathered


class TaskMaker:
    """Makes the tasks of one pass, named after a function; for a nested function, after the outer one.

    Examples
    --------
    >>> def sum_grams():
    ...     return lambda block: block
    >>> TaskMaker(sum_grams()).name, TaskMaker("read").name
    ('coterie-sum-grams', 'coterie-read')
    """

    def __init__(self, what: Any) -> None:
        while isinstance(what, partial):
            what = what.func
        known = what if isinstance(what, str) else getattr(what, "__qualname__", type(what).__name__)
        outer = known.split(".<locals>")[0].split(".")[-1]
        self.name = "coterie-" + outer.strip("_").replace("_", "-").lower()
        self._token = uuid4().hex
        self._count = 0

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a task."""
        from dask import delayed

        self._count += 1
        key = f"{self.name}-{self._token}-{self._count}"
        return delayed(function, pure=False, traverse=False)(*arguments, dask_key_name=key)


def identity(thing: Any) -> Any:
    """Return the argument."""
    return thing


@dataclass(frozen=True)
class Part:
    """A partition: the inputs and the function from which a worker gets its blocks."""

    inputs: tuple[Any, ...]  # tasks, or plain data
    open: Callable[..., Any] = identity  # called with the inputs' results

    def work(self, make_task: TaskMaker, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return one task that opens the partition and calls ``function`` with it, after the other arguments.

        If opening were a task of its own, Dask could send its result to another worker for the rest.
        """
        return make_task(partial(open_and_work, self.open, function, len(arguments)), *arguments, *self.inputs)

    def opened(self, make_task: TaskMaker) -> Any:
        """Return a task whose result is the partition: the one that made it, or a new one that opens it."""
        return self.inputs[0] if self.open is identity else self.work(make_task, identity)


def open_and_work(open: Callable[..., Any], function: Callable[..., Any], n_arguments: int, *given: Any) -> Any:
    """Call a function, on a worker, with the first arguments and the partition whose inputs are the others."""
    return function(*given[:n_arguments], open(*given[n_arguments:]))


def persisted(tasks: Sequence[Any]) -> Sequence[Any]:
    """Start tasks and return them; their results stay where they are computed."""
    import dask

    return dask.persist(*tasks, optimize_graph=False)


def computed(tasks: Sequence[Any]) -> list[Any]:
    """Return the results of tasks, in this process."""
    import dask

    client = current_client()
    if client is None:
        return list(dask.compute(*tasks, optimize_graph=False))
    started = iter(persisted([task for task in tasks if future_of(task) is None]))
    running = [next(started) if future_of(task) is None else task for task in tasks]
    return gathered(client, [future_of(task) for task in running])


def future_of(task: Any) -> Any:
    """Return the future of a task that was persisted on a cluster; None for other tasks, and for plain data."""
    graph = task.__dask_graph__() if hasattr(task, "__dask_graph__") else {}
    value = node_value(graph.get(getattr(task, "key", None)))
    return value if lies_on_worker(value) else None


def lies_on_worker(value: Any) -> bool:
    """Return whether a node of a graph is a result on a worker."""
    return type(node_value(value)).__module__.split(".")[0] == "distributed"


def node_value(value: Any) -> Any:
    """Return the data of a graph's node that holds data; other nodes as they are."""
    return getattr(value, "value", value)


def as_dask_array(parts: Sequence[Any], sizes: Sequence[int], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return tasks whose results are rows, some perhaps none, as one Dask array; ``shape`` is that of one row."""
    from dask.array import Array
    from dask.highlevelgraph import HighLevelGraph

    name = f"coterie-rows-{uuid4().hex}"
    rest = (0,) * len(shape)
    layer: dict[Any, Any] = {(name, number, *rest): (identity, part.key) for number, part in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=parts)
    chunks = (tuple(int(size) for size in sizes), *((size,) for size in shape))
    return Array(graph, name, chunks, dtype=dtype)

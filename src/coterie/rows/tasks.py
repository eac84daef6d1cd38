"""Dask tasks whose names say what is done: that is what Dask's dashboard shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4


class Named:
    """Makes the tasks of one pass, named for a function: of one inside another, for the outer one.

    Examples
    --------
    >>> def sum_grams():
    ...     return lambda block: block
    >>> Named(sum_grams()).name, Named("read").name
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
    """Return what it is given."""
    return thing


@dataclass(frozen=True)
class Part:
    """A partition: how a worker gets at its blocks."""

    inputs: tuple[Any, ...]  # tasks, or plain data
    open: Callable[..., Any] = identity  # called with the inputs' results

    def work(self, named: Named, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return one task that opens the partition and calls ``function`` with it, behind other arguments.

        If opening were a task of its own, its result could be sent to another worker for the rest.
        """
        return named(partial(open_and_work, self.open, function, len(arguments)), *arguments, *self.inputs)

    def opened(self, named: Named) -> Any:
        """Return a task whose result is the partition: that which made it, where there is one."""
        return self.inputs[0] if self.open is identity else self.work(named, identity)


def open_and_work(open: Callable[..., Any], function: Callable[..., Any], n_arguments: int, *given: Any) -> Any:
    """Call a function, on a worker, with some arguments and the partition that the others are the inputs of."""
    return function(*given[:n_arguments], open(*given[n_arguments:]))


def persisted(tasks: Sequence[Any]) -> Sequence[Any]:
    """Return tasks that are being done, and whose results stay where they are made."""
    import dask

    return dask.persist(*tasks, optimize_graph=False)


def computed(tasks: Sequence[Any]) -> list[Any]:
    """Return the results of tasks, here."""
    import dask

    return list(dask.compute(*tasks, optimize_graph=False))


def future_of(task: Any) -> Any:
    """Return what a task that was persisted has on a cluster; None for others, and for plain data."""
    graph = task.__dask_graph__() if hasattr(task, "__dask_graph__") else {}
    value = bare(graph.get(getattr(task, "key", None)))
    return value if lies_on_worker(value) else None


def lies_on_worker(value: Any) -> bool:
    """Whether a node of a graph is the result of something that was computed before."""
    return type(bare(value)).__module__.split(".")[0] == "distributed"


def bare(value: Any) -> Any:
    """Return what a node of a graph holds, if it is data."""
    return getattr(value, "value", value)


def array_of(parts: Sequence[Any], sizes: Sequence[int], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return tasks that make rows, some of them perhaps none, as one Dask array: of ``shape`` is one row."""
    from dask.array import Array
    from dask.highlevelgraph import HighLevelGraph

    name = f"coterie-rows-{uuid4().hex}"
    rest = (0,) * len(shape)
    layer: dict[Any, Any] = {(name, number, *rest): (identity, part.key) for number, part in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=parts)
    chunks = (tuple(int(size) for size in sizes), *((size,) for size in shape))
    return Array(graph, name, chunks, dtype=dtype)

"""Tables whose rows are the partitions of a Dask collection: read by whoever works on them, never as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from coterie.rows.tasks import Named, Part, array_of, bare, computed, identity, lies_on_worker
from coterie.rows.workers import Asked, answers, workers_of


class DaskTable:
    """A two-dimensional Dask array in chunks of whole rows, with just enough of an array's manners to be a view."""

    ndim = 2

    def __init__(self, array: Any, device: Any = None) -> None:
        self.array = array
        self.device = device  # where the workers bring the rows as they work; None: their own memory

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """The values' type."""
        return self.array.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are SciPy's sparse matrices."""
        return sparse.issparse(self.array._meta)

    @property
    def sizes(self) -> np.ndarray:
        """Rows of every partition, some of them perhaps none."""
        return np.array(self.array.chunks[0])  # (P,)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> Any:
        """Return some rows, computed: nothing else of the table comes here."""
        return fetch_rows([self], np.arange(len(self))[rows] if isinstance(rows, slice) else rows)[0]


def as_dask_table(table: Any) -> DaskTable:
    """Return a Dask array or dataframe as a table; where it does not know its partitions' lengths, they are counted."""
    array = table if hasattr(table, "chunks") else _frame_as_array(table)
    if array.ndim == 2:
        if np.isnan(array.shape[0]):
            array = array.compute_chunk_sizes()
        array = array.rechunk({1: -1})
    return DaskTable(array)


def _frame_as_array(frame: Any) -> Any:
    """Return a dataframe's values; its partitions' lengths are counted, which takes a pass over them."""
    dtype = common_type(list(frame.dtypes))
    count, values = Named("count"), Named("values")
    parts = frame.to_delayed()
    sizes = computed([count(len, part) for part in parts])
    return array_of([values(frame_values, part, dtype) for part in parts], sizes, (len(frame.columns),), dtype)


def common_type(kinds: Sequence[Any]) -> np.dtype:
    """Return the type that holds all columns of a frame: float64 where pandas marks what is missing, object for text.

    Examples
    --------
    >>> common_type([np.dtype("int8"), np.dtype("float32")])
    dtype('float32')
    """
    if any(getattr(kind, "kind", "O") not in "biufc" for kind in kinds):
        return np.dtype(object)
    plain = bool(kinds) and all(isinstance(kind, np.dtype) for kind in kinds)
    return np.result_type(*kinds) if plain else np.dtype(np.float64)


def frame_values(frame: Any, dtype: np.dtype) -> np.ndarray:
    """Return the values of a pandas frame; what it has no value for is NaN."""
    missing = {"na_value": np.nan} if dtype.kind == "f" else {}
    return frame.to_numpy(dtype=dtype, **missing)


def align_tables(tables: Sequence[DaskTable]) -> list[DaskTable]:
    """Return tables of as many rows each in the partitions of the first."""
    chunks = tables[0].array.chunks[0]
    return [DaskTable(table.array.rechunk({0: chunks}), table.device) for table in tables]


def partitions(tables: Sequence[DaskTable]) -> list[Part]:
    """Return every partition as the list of its chunks, one for each table.

    Where partitions share no work, whoever works on one makes its chunks itself, of what it has if they were persisted.
    As tasks of their own, the chunks of a partition would be made by different workers, and rows would travel before
    anything was done with them.
    """
    import dask
    from dask.optimization import cull

    arrays = [table.array for table in tables]
    graph = graph_of(arrays)
    if not any(map(lies_on_worker, graph.values())):  # which optimization would hide inside of tasks
        arrays = dask.optimize(*arrays)
        graph = graph_of(arrays)
    keys = [[(array.name, number, 0) for array in arrays] for number in range(len(tables[0].sizes))]
    parts = [cull(graph, own)[0] for own in keys]
    if share_work(parts):
        chunks = [array.to_delayed(optimize_graph=False).ravel() for array in arrays]
        return [Part(own, list_of) for own in zip(*chunks, strict=True)]
    return [part_of(part, own) for part, own in zip(parts, keys, strict=True)]


def graph_of(arrays: Sequence[Any]) -> dict[Any, Any]:
    """Return the tasks of some arrays."""
    from dask.utils import ensure_dict

    return {key: task for array in arrays for key, task in ensure_dict(array.__dask_graph__()).items()}


def part_of(graph: Mapping[Any, Any], keys: Sequence[Any]) -> Part:
    """Return the chunks that keys of a graph make: its own tasks as bytes, and what lies on workers as it is."""
    import cloudpickle
    from dask.delayed import Delayed

    held = {key: bare(value) for key, value in graph.items() if lies_on_worker(value)}
    tasks = {key: value for key, value in graph.items() if key not in held}
    packed = cloudpickle.dumps((tasks, list(held), keys))
    return Part((packed, *(Delayed(key, {key: future}) for key, future in held.items())), make_chunks)


def share_work(graphs: Sequence[Mapping[Any, Any]]) -> bool:
    """Whether graphs have tasks in common."""
    counts = Counter(key for graph in graphs for key in graph)
    tasks: dict[Any, Any] = {key: value for graph in graphs for key, value in graph.items()}
    return any(count > 1 and not is_literal(tasks[key]) for key, count in counts.items())


def is_literal(value: Any) -> bool:
    """Whether a node of a graph is data, such as the handle of a file, and not something to be done."""
    return type(value).__name__ == "DataNode" or not (hasattr(value, "dependencies") or isinstance(value, tuple))


def make_chunks(packed: bytes, *held: Any) -> list[Any]:
    """Compute some keys of a graph, here and now, from what others made before."""
    import cloudpickle
    from dask.local import get_sync

    graph, names, keys = cloudpickle.loads(packed)
    known = {name: (partial(identity, value),) for name, value in zip(names, held, strict=True)}
    return list(get_sync({**graph, **known}, keys))


def list_of(*items: Any) -> list[Any]:
    """Return the arguments."""
    return list(items)


def fetch_rows(tables: Sequence[DaskTable], rows: np.ndarray) -> list[Any]:
    """Return the given rows of every table, in that order, picked where they are."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    bounds = np.cumsum([0, *tables[0].sizes])  # (P + 1,)
    cuts = np.searchsorted(ascending, bounds)  # (P + 1,)
    named = Named("sample")
    parts = partitions(tables)
    asked = [
        Asked(part, worker, (ascending[cuts[number] : cuts[number + 1]] - bounds[number],))
        for number, (part, worker) in enumerate(zip(parts, workers_of(parts, tables[0].sizes), strict=True))
        if cuts[number] < cuts[number + 1]
    ]
    found = answers(named, pick_rows, asked)
    back = np.argsort(order, kind="stable")
    return [stacked(parts)[back] for parts in zip(*found, strict=True)]


def pick_rows(rows: np.ndarray, chunks: Sequence[Any]) -> list[Any]:
    """Return some rows of every chunk."""
    return [in_rows(chunk)[rows] for chunk in chunks]


def in_rows(chunk: Any) -> Any:
    """Return a chunk in a form that rows can be picked from."""
    return sparse.csr_array(chunk) if sparse.issparse(chunk) else np.asarray(chunk)


def stacked(parts: Sequence[Any]) -> Any:
    """Return chunks one below the other."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)

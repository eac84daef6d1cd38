"""Tables whose rows are the partitions of a Dask collection: read by the workers, never as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import unmasked
from coterie.rows.tasks import Part, TaskMaker, as_dask_array, computed, identity, lies_on_worker, node_value
from coterie.rows.workers import PartitionQuery, query_partitions, workers_of

WITNESSES = 4  # rows of a partition that must have the same values in the sample and in the pass over all rows


class DaskTable:
    """A two-dimensional Dask array in chunks of whole rows, with as much of an array's interface as a view needs."""

    ndim = 2

    def __init__(self, array: Any, device: Any = None) -> None:
        self.array = array
        self.device = device  # where the workers copy the rows to; None: their host memory

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
        """Number of rows of every partition, some perhaps 0."""
        return np.array(self.array.chunks[0])  # (P,)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> Any:
        """Return some rows, computed; only these are sent to this process."""
        return fetch_rows([self], np.arange(len(self))[rows] if isinstance(rows, slice) else rows)[0]


def as_dask_table(table: Any) -> DaskTable:
    """Return a Dask array or dataframe as a table; partitions of unknown length are counted."""
    array = table if hasattr(table, "chunks") else _frame_as_array(table)
    if array.ndim == 2:
        if np.isnan(array.shape[0]):
            array = with_counted_rows(array)
        array = array.rechunk({1: -1})
    if isinstance(array._meta, np.ma.MaskedArray):
        array = array.map_blocks(unmasked, meta=unmasked(array._meta))
    return DaskTable(array)


def with_counted_rows(array: Any) -> Any:
    """Return an array with its chunks' unknown lengths counted, which takes a pass over them."""
    from dask.array import Array

    count = TaskMaker("count")
    sizes = computed([count(row_count, chunk) for chunk in array.to_delayed()[:, 0]])
    return Array(array.dask, array.name, (tuple(sizes), *array.chunks[1:]), meta=array._meta)


def row_count(chunk: Any) -> int:
    """Return the rows of a chunk."""
    return int(chunk.shape[0])


def _frame_as_array(frame: Any) -> Any:
    """Return a dataframe's values; its partitions' lengths are counted, which takes a pass over them."""
    dtype = common_type(list(frame.dtypes))
    count, values = TaskMaker("count"), TaskMaker("values")
    parts = frame.to_delayed()
    sizes = computed([count(len, part) for part in parts])
    names = list(frame.columns)
    return as_dask_array([values(frame_values, part, dtype, names) for part in parts], sizes, (len(names),), dtype)


def common_type(kinds: Sequence[Any]) -> np.dtype:
    """Return the type that holds all columns of a frame: float64 for pandas' nullable types, object for text.

    Examples
    --------
    >>> common_type([np.dtype("int8"), np.dtype("float32")])
    dtype('float32')
    """
    if any(getattr(kind, "kind", "O") not in "biufc" for kind in kinds):
        return np.dtype(object)
    plain = bool(kinds) and all(isinstance(kind, np.dtype) for kind in kinds)
    return np.result_type(*kinds) if plain else np.dtype(np.float64)


def frame_values(frame: Any, dtype: np.dtype, names: list[Any]) -> np.ndarray:
    """Return the values of a pandas frame's columns in the order of ``names``, NaN where they are missing."""
    if list(frame.columns) != names:  # Dask does not check what partitions are
        absent = [name for name in names if name not in frame.columns]
        if absent or len(frame.columns) != len(names):
            raise ValueError(
                f"A partition of a Dask dataframe has the columns {list(frame.columns)[:5]}... ({frame.shape[1]}), but "
                f"the dataframe claims {names[:5]}... ({len(names)}). Give all partitions the same columns."
            )
        frame = frame[names]
    missing = {"na_value": np.nan} if dtype.kind == "f" else {}
    return frame.to_numpy(dtype=dtype, **missing)


def align_tables(tables: Sequence[DaskTable]) -> list[DaskTable]:
    """Return tables with the same number of rows, rechunked to the partitions of the first."""
    chunks = tables[0].array.chunks[0]
    return [DaskTable(table.array.rechunk({0: chunks}), table.device) for table in tables]


def partitions(tables: Sequence[DaskTable]) -> list[Part]:
    """Return every partition as the list of its chunks, one for each table.

    Where partitions share no tasks, the worker of a partition computes its chunks itself, from results that it holds if
    there are persisted ones. As tasks of their own, the chunks of a partition would be computed by different workers,
    and their rows would be sent between workers before they are used.
    """
    import dask
    from dask.optimization import cull

    arrays = [table.array for table in tables]
    graph = graph_of(arrays)
    if not any(map(lies_on_worker, graph.values())):  # optimization would hide results on workers inside tasks
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
    """Return the chunks of some keys of a graph as a partition: tasks are pickled, results on workers stay there."""
    import cloudpickle
    from dask.delayed import Delayed

    held = {key: node_value(value) for key, value in graph.items() if lies_on_worker(value)}
    tasks = {key: value for key, value in graph.items() if key not in held}
    pickled = cloudpickle.dumps((tasks, list(held), keys))
    return Part((pickled, *(Delayed(key, {key: future}) for key, future in held.items())), make_chunks)


def share_work(graphs: Sequence[Mapping[Any, Any]]) -> bool:
    """Return whether graphs have tasks in common, other than plain data."""
    counts = Counter(key for graph in graphs for key in graph)
    tasks: dict[Any, Any] = {key: value for graph in graphs for key, value in graph.items()}
    return any(count > 1 and not is_literal(tasks[key]) for key, count in counts.items())


def is_literal(value: Any) -> bool:
    """Whether a node of a graph is data, such as the handle of a file, and not a task."""
    return type(value).__name__ == "DataNode" or not (hasattr(value, "dependencies") or isinstance(value, tuple))


def make_chunks(pickled: bytes, *held: Any) -> list[Any]:
    """Return the results of some keys of a graph, computed in this thread from results that exist already."""
    import cloudpickle
    from dask.local import get_sync

    graph, names, keys = cloudpickle.loads(pickled)
    known = {name: (partial(identity, value),) for name, value in zip(names, held, strict=True)}
    return list(get_sync({**graph, **known}, keys))


def list_of(*items: Any) -> list[Any]:
    """Return the arguments as a list."""
    return list(items)


def fetch_rows(tables: Sequence[DaskTable], rows: np.ndarray) -> list[Any]:
    """Return the given rows of every table, in that order, selected on the workers."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    bounds = np.cumsum([0, *tables[0].sizes])  # (P + 1,)
    cuts = np.searchsorted(ascending, bounds)  # (P + 1,)
    make_task = TaskMaker("sample")
    parts = partitions(tables)
    widths = [table.array.shape[1] for table in tables]
    claims = [
        (int(first), [(int(size), width) for width in widths])
        for first, size in zip(bounds, tables[0].sizes, strict=False)
    ]
    queries = [
        PartitionQuery(part, worker, (ascending[cuts[number] : cuts[number + 1]] - bounds[number], *claims[number]))
        for number, (part, worker) in enumerate(zip(parts, workers_of(parts, tables[0].sizes), strict=True))
        if cuts[number] < cuts[number + 1]
    ]
    found = query_partitions(make_task, rows_of_chunks, queries)
    back = np.argsort(order, kind="stable")
    return [vstack_chunks(parts)[back] for parts in zip(*found, strict=True)]


@dataclass(frozen=True)
class Witnesses:
    """A few rows of a partition as they were when they were sampled: their numbers in it, and each view's sums."""

    rows: np.ndarray  # (w,)
    sums: list[np.ndarray]  # (w, 2) each

    def check(self, view: int, name: str, first: int, data: Any) -> None:
        """Raise ValueError if a view's rows are others now; ``first`` is the number of the partition's first row."""
        sums, found = self.sums[view], weighted_sums(data[self.rows])  # (w, 2)
        changed = np.abs(found - sums)[:, 0] > tolerance_of(data.dtype) * (found + sums)[:, 1]  # (w,)
        if changed.any():
            raise ValueError(
                f"View {name!r}: row {first + self.rows[changed.argmax()]} has other values than when it was read "
                "before. Its Dask collection gives other values each time that it is computed, and a fit reads it more "
                "than once. Seed its random numbers, leave its source as it is, or pass collection.persist()."
            )


def witnesses_of(sizes: np.ndarray, numbers: np.ndarray, tables: Sequence[Any]) -> list[Witnesses]:
    """Return witnesses for partitions of the given sizes, from sampled rows whose ``numbers`` are ascending."""
    cuts = np.searchsorted(numbers, np.cumsum([0, *sizes]))  # (P + 1,)
    firsts, found = np.cumsum([0, *sizes]), []
    for number in range(len(sizes)):
        own = np.arange(cuts[number], cuts[number + 1])
        own = own[np.unique(np.linspace(0, len(own) - 1, min(WITNESSES, len(own))).astype(np.intp))]  # (w,)
        found.append(Witnesses(numbers[own] - firsts[number], [weighted_sums(table[own]) for table in tables]))
    return found


def weighted_sums(rows: Any) -> np.ndarray:
    """Return each row's sum, and that of its absolute values, with another weight for every column (w x 2).

    Examples
    --------
    >>> weighted_sums(np.array([[1.0, -1.0], [np.nan, 2.0]])).tolist()
    [[-1.0, 3.0], [4.0, 4.0]]
    """
    weights = np.linspace(1, 2, rows.shape[1])  # (d,)
    values = np.nan_to_num((rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64), posinf=0, neginf=0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.column_stack([values @ weights, np.abs(values) @ weights])


def tolerance_of(dtype: np.dtype) -> float:
    """Return by what share a sum may differ though rows are the same: threads and processors round differently."""
    return float(np.sqrt(np.finfo(dtype if dtype.kind == "f" else np.float64).eps))


def rows_of_chunks(rows: np.ndarray, first: int, shapes: Sequence[tuple[int, int]], chunks: Sequence[Any]) -> list[Any]:
    """Return some rows of every chunk."""
    return [promised(in_rows(chunk), first, shape)[rows] for chunk, shape in zip(chunks, shapes, strict=True)]


def promised(data: Any, first: int, shape: tuple[int, int], told: str = "The") -> Any:
    """Return a partition's rows; raise ValueError if they are not what its Dask collection claims."""
    if data.shape != shape:
        raise ValueError(
            f"{told} partition of rows {first} to {first + shape[0] - 1} has shape {data.shape} instead of {shape}, "
            "which its Dask collection claims."
        )
    if data.dtype.kind not in "biuf":
        raise ValueError(
            f"{told} partition of rows {first} to {first + shape[0] - 1} holds {data.dtype}, though its Dask "
            "collection claims real numbers. Turn its chunks into those (collection.map_blocks)."
        )
    return data


def in_rows(chunk: Any) -> Any:
    """Return a chunk as an array or CSR array, whose rows can be selected."""
    return sparse.csr_array(chunk) if sparse.issparse(chunk) else np.asarray(unmasked(chunk))


def vstack_chunks(parts: Sequence[Any]) -> Any:
    """Return chunks concatenated along the rows."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)

"""Where rows are stored and processed: in memory, in files, on a torch device, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from coterie.arrays import device_of, to_host
from coterie.files import expand_home
from coterie.jobs import identify_job
from coterie.rows import Rows
from coterie.rows.dask import DaskRows
from coterie.rows.devices import check_device, free_gpu_memory, in_kind_of
from coterie.rows.disk import DiskRows
from coterie.rows.memory import MemoryRows
from coterie.rows.partitions import DaskTable, Witnesses, in_rows, partitions, promised, witnesses_of
from coterie.rows.spilling import spill_folder
from coterie.rows.tasks import Part
from coterie.rows.torch import TorchRows
from coterie.rows.work_folder import WorkFolder, open_work_folder
from coterie.validation import check_bytes, drawn_seed, refuse
from coterie.views import RowRange, View, Views

BLOCK_ROWS = 8192  # at most, on a CPU
DEVICE_BLOCK_ROWS = 2**20  # at most, on a device
STREAMED_BYTES = 2**29  # of raw rows per block, where they are copied from host memory to a device

# Memory of a fit apart from its rows: Python and its libraries, samples, sums, and the blocks being processed.
RESERVED_BYTES = 10**9
BLOCK_BYTES = 2**26  # of raw rows, where memory is limited
ROW_BYTES = 28  # of a row, besides its neighbours and its embedding: label, confidence, distances

# Numbers of rows, ascending, and their views in memory.
Sample: TypeAlias = tuple[np.ndarray, Views]


@dataclass(frozen=True)
class BlockPlan:
    """The size of blocks of rows, and the number of threads that process them."""

    block_size: int | None = None  # rows; None: chosen by the placement
    n_threads: int = 1


@dataclass(frozen=True)
class Placement:
    """Where a fit keeps its rows: in memory, or in files where they would take more than the limit."""

    stack: ExitStack  # temporary folders, removed when the fit is over
    memory_limit: int | None = None  # bytes
    folder: WorkFolder | None = None  # of a job that can be resumed

    def raw_rows(self, views: Views, plan: BlockPlan, kept_bytes: int, sample: Sample | None = None) -> Rows:
        """Return the views' raw rows in blocks, given how many bytes of each row the fit will keep.

        Rows of ``sample``, read before, must still have the same values.
        """
        if self.memory_limit is None and self.folder is None:
            return raw_rows(views, plan, sample)
        size = plan.block_size or limited_block_size(views)
        folder = self.folder
        if folder is None:
            if not self._must_spill(views.n_rows, kept_bytes):
                return raw_rows(views, replace(plan, block_size=size))
            folder = WorkFolder(self.stack.enter_context(spill_folder()))
        return DiskRows(row_ranges(views, size), n_rows=views.n_rows, n_threads=plan.n_threads, folder=folder)

    def _must_spill(self, n_rows: int, kept_bytes: int) -> bool:
        needed = n_rows * (kept_bytes + ROW_BYTES) + RESERVED_BYTES
        return self.memory_limit is not None and needed > self.memory_limit


@contextmanager
def placement_of(
    owner: str, parameters: Mapping[str, Any], views: Views
) -> Iterator[tuple[Placement, np.random.Generator]]:
    """Yield the placement of the rows of an estimator's views, and the source of all random draws."""
    work_dir, device = parameters["work_dir"], parameters["device"]
    limit = check_placement(owner, views, parameters["memory_limit"], work_dir, device)
    seed = drawn_seed(owner, parameters["random_state"])
    with open_placement(work_dir, limit, partial(identify_job, parameters, views), seed) as found:
        yield found


@contextmanager
def open_placement(
    work_dir: Any, memory_limit: int | None, job: Callable[[], Mapping[str, Any]], seed: int
) -> Iterator[tuple[Placement, np.random.Generator]]:
    """Yield a placement and a random generator; a resumed job keeps the seed that it began with."""
    with ExitStack() as stack:
        folder = None
        if work_dir is not None:
            folder, seed = stack.enter_context(open_work_folder(expand_home(work_dir), job(), seed))
        yield Placement(stack, memory_limit, folder), np.random.default_rng(seed)


def check_placement(owner: str, views: Views, memory_limit: Any, work_dir: Any, device: Any) -> int | None:
    """Return the memory limit in bytes; refuse files for rows on a torch device or a Dask cluster."""
    limit = None if memory_limit is None else check_bytes(owner, "memory_limit", memory_limit, low=RESERVED_BYTES)
    if limit is None and work_dir is None:
        return None
    name, value = ("work_dir", work_dir) if limit is None else ("memory_limit", memory_limit)
    if views.on_dask:
        refuse(owner, name, "None with Dask collections: a cluster has limits of its own", value)
    if views.device is not None:
        refuse(owner, name, f'None with device={device!r}: files are for device="cpu"', value)
    return limit


def raw_rows(views: Views, plan: BlockPlan, sample: Sample | None = None) -> Rows:
    """Return the views' raw rows in blocks; those of Dask collections must be as they are in ``sample``."""
    size, n_rows = plan.block_size, views.n_rows
    if views.on_dask:
        return partitioned_rows(views, size or block_size(n_rows), sample)
    if views.device is not None:
        return TorchRows(row_ranges(views, size or device_block_size(views)), n_rows=n_rows)
    return MemoryRows(row_ranges(views, size or block_size(n_rows)), n_rows=n_rows, n_threads=plan.n_threads)


def row_ranges(views: Views, size: int) -> list[RowRange]:
    """Return all rows as ranges of the given size."""
    return [RowRange(views, start, min(start + size, views.n_rows)) for start in range(0, views.n_rows, size)]


def partitioned_rows(views: Views, size: int, sample: Sample | None = None) -> DaskRows:
    """Return the rows of Dask collections, in blocks of the given size within every partition."""
    tables = [view.data for view in views if isinstance(view.data, DaskTable)]
    sizes = tables[0].sizes  # (P,)
    own = [PartitionView(view.name, view.may_lack, isinstance(view.data, DaskTable), view.n_columns) for view in views]
    firsts = np.cumsum([0, *sizes])
    known = witnesses_of(sizes, sample[0], [view.data for view in sample[1]]) if sample else [None] * len(sizes)
    bounds = [(int(first), int(n_rows)) for first, n_rows in zip(firsts, sizes, strict=False)]
    parts = [
        Part(part.inputs, OpenPartition(part.open, own, *bounds[number], size, tables[0].device, known[number]))
        for number, part in enumerate(partitions(tables))
        if sizes[number]
    ]
    return DaskRows(parts, sizes, tables[0].device)


@dataclass(frozen=True)
class PartitionView:
    """What a worker must know of a view besides its chunk."""

    name: str
    may_lack: bool
    has_chunks: bool  # new rows may lack a whole view
    n_columns: int


@dataclass(frozen=True)
class OpenPartition:
    """Opens a partition's chunks as ranges of raw rows, on a worker."""

    read: Callable[..., list[Any]]  # inputs of a task -> the chunks
    own: list[PartitionView]
    first: int  # number of the partition's first row
    n_rows: int
    size: int  # of blocks
    device: Any
    known: Witnesses | None = None

    def __call__(self, *inputs: Any) -> list[RowRange]:
        """Return the ranges."""
        chunks = iter(self.read(*inputs))
        views = Views(tuple(self._view(v, view, chunks) for v, view in enumerate(self.own)), device=self.device)
        return [replace(rows, origin=self.first) for rows in row_ranges(views, self.size)]

    def _view(self, v: int, view: PartitionView, chunks: Iterator[Any]) -> View:
        if not view.has_chunks:
            return View(view.name, np.zeros((0, 0)), None, np.full(self.n_rows, -1))
        data = promised(in_rows(next(chunks)), self.first, (self.n_rows, view.n_columns), f"View {view.name!r}: the")
        if self.known is not None:
            self.known.check(v, view.name, self.first, data)
        return View(view.name, data, may_lack=view.may_lack)


def block_size(n_rows: int) -> int:
    """Return the rows per block: enough blocks to share among cores, each large enough to be worth a call.

    Examples
    --------
    >>> [block_size(n_rows) for n_rows in (2_000, 20_000, 100_000, 10**6)]
    [256, 2048, 3125, 8192]
    """
    return int(np.clip(max(min(-(-n_rows // 8), 2048), -(-n_rows // 32)), 256, BLOCK_ROWS))


def limited_block_size(views: Views) -> int:
    """Return the rows per block where memory is limited: fewer for wide rows."""
    return int(np.clip(BLOCK_BYTES // row_bytes(views), 64, block_size(views.n_rows)))


def row_bytes(views: Views) -> int:
    """Return how many bytes of raw data a row has."""
    return max(sum(view.n_columns * view.data.dtype.itemsize for view in views), 1)


def device_block_size(views: Views) -> int:
    """Return the rows per block on a device: many, but fewer for rows in host memory, to overlap copies and work."""
    if all(device_of(view.data) is not None for view in views):
        return DEVICE_BLOCK_ROWS
    return int(np.clip(STREAMED_BYTES // row_bytes(views), 2**13, DEVICE_BLOCK_ROWS))


def place_views(views: Views, device: Any) -> Views:
    """Return the views with the device that processes their rows; None is the CPU with NumPy.

    "auto" is the device of views that are tensors, and the CPU with NumPy for all others.
    """
    if views.on_dask:
        return place_partitions(views, device)
    homes = {str(device_of(view.data)) for view in views if device_of(view.data) is not None}
    if len(homes) > 1:
        raise ValueError(f"The views lie on different devices: {', '.join(sorted(homes))}. Bring them to one of them.")
    if device == "auto":
        return replace(views, device=next(iter(homes), None))
    if device == "cpu":
        return replace(views, views=tuple(replace(view, data=to_host(view.data)) for view in views))
    return replace(views, device=check_device(device))


def place_partitions(views: Views, device: Any) -> Views:
    """Return the views of Dask collections with the device that each worker copies its rows to.

    This process need not have such a device: its samples and sums are tensors in host memory.
    """
    if device in ("auto", "cpu"):
        return views
    here = check_device("torch")
    device = here if device == "torch" else str(device)
    tables = [DaskTable(v.data.array, device) if isinstance(v.data, DaskTable) else v.data for v in views]
    placed = tuple(replace(view, data=table) for view, table in zip(views, tables, strict=True))
    return replace(views, views=placed, device=here)


def as_given(found: Any, X: Any) -> Any:
    """Return an array of the same library as those in X: torch, CuPy or JAX on a GPU, Dask; otherwise NumPy."""
    return in_kind_of(X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else [X], found)


@contextmanager
def explain_memory(views: Views) -> Iterator[None]:
    """Turn a GPU's out-of-memory error into one that names the remedy."""
    try:
        yield
    except MemoryError:
        raise
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        if views.on_dask:
            raise MemoryError(
                f"A worker's GPU has too little memory for its rows: {error}. Make partitions smaller."
            ) from error
        message = str(error).split(". ")[1]  # the size of the allocation that failed
    else:
        return
    whole = free_gpu_memory(views.device)  # after the except block, whose traceback keeps tensors alive
    columns = sum(view.n_columns for view in views)
    raise MemoryError(
        f"The GPU's {whole / 1e9:.0f} GB are not enough for this fit of {views.n_rows} rows ({message}). A block takes "
        f"about {16 * columns} bytes a row while neighbours are looked for: pass block_size below {DEVICE_BLOCK_ROWS}. "
        "What is kept takes 6 bytes a neighbour, graph and row: pass fewer n_neighbors, or fewer graphs "
        '(concatenation=False). Rows in host memory (device="cuda") come to the card one block at a time.'
    )

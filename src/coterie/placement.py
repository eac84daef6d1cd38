"""Where the work is done: on this machine's cores, with its disk, or on a GPU; and what goes back to whoever asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from coterie.arrays import device_of, in_library_of, is_dask, lies_on_gpu, to_host
from coterie.lazy import import_extra
from coterie.rows import Rows
from coterie.rows.dask import DaskRows
from coterie.rows.disk import DiskRows
from coterie.rows.memory import MemoryRows
from coterie.rows.partitions import DaskTable, in_rows, partitions
from coterie.rows.tasks import Part
from coterie.rows.torch import TorchRows
from coterie.rows.work_folder import WorkFolder, open_work_folder
from coterie.views import RowRange, View, Views

BLOCK_ROWS = 8192
DEVICE_BLOCK_ROWS = 2**20
STREAMED_BYTES = 2**29
FINGERPRINT_ROWS = 64


# What a fit takes whatever the rows are: Python and its libraries, samples, sums, and the blocks that are worked on.
RESERVED_BYTES = 10**9
BLOCK_BYTES = 2**26  # of raw rows, where memory is limited
ROW_BYTES = 28  # of a row, besides its neighbours and its embedding: label, confidence, distances


@dataclass(frozen=True)
class Workplace:
    """Where a fit keeps its rows: in memory, or, where they would take more than the limit, in files."""

    stack: ExitStack  # what is given back when the fit is over
    memory_limit: int | None = None  # bytes
    folder: WorkFolder | None = None  # where the job can be taken up again

    def rows(self, views: Views, size: int | None, n_threads: int, kept: int) -> Rows:
        """Return the views' raw rows in blocks; ``kept`` is how many bytes of each row the fit will keep."""
        if self.memory_limit is None and self.folder is None:
            return rows_of(views, size, n_threads)
        size = size or limited_block_size(views)
        folder = self.folder
        if folder is None:
            if not self._must_spill(views.n_rows, kept):
                return rows_of(views, size, n_threads)
            folder = WorkFolder(Path(self.stack.enter_context(TemporaryDirectory(prefix="coterie-"))))
        return DiskRows(row_ranges(views, size), n_rows=views.n_rows, n_threads=n_threads, folder=folder)

    def _must_spill(self, n_rows: int, kept: int) -> bool:
        return self.memory_limit is not None and n_rows * (kept + ROW_BYTES) + RESERVED_BYTES > self.memory_limit


@contextmanager
def workplace(
    work_dir: Any, memory_limit: int | None, job: Callable[[], Mapping[str, Any]], seed: int
) -> Iterator[tuple[Workplace, int]]:
    """Lend a workplace, and the seed to begin with: that of the job that is taken up, if there is one."""
    with ExitStack() as stack:
        if work_dir is None:
            yield Workplace(stack, memory_limit), seed
            return
        folder, seed = stack.enter_context(open_work_folder(Path(work_dir), job(), seed))
        yield Workplace(stack, memory_limit, folder), seed


def rows_of(views: Views, size: int | None, n_threads: int) -> Rows:
    """Return the views' raw rows in blocks of the given size, None for one that suits the place."""
    if views.on_dask:
        return partitioned_rows(views, size or block_size(views.n_rows))
    if views.device is not None:
        return TorchRows(row_ranges(views, size or device_block_size(views)), n_rows=views.n_rows)
    return MemoryRows(row_ranges(views, size or block_size(views.n_rows)), n_rows=views.n_rows, n_threads=n_threads)


def row_ranges(views: Views, size: int) -> list[RowRange]:
    """Return all rows as ranges of the given size."""
    return [RowRange(views, start, min(start + size, views.n_rows)) for start in range(0, views.n_rows, size)]


def partitioned_rows(views: Views, size: int) -> DaskRows:
    """Return the rows of Dask collections, in blocks of the given size within every partition."""
    tables = [view.data for view in views if isinstance(view.data, DaskTable)]
    sizes = tables[0].sizes  # (P,)
    own = [Seen(view.name, view.may_lack, isinstance(view.data, DaskTable), view.n_columns) for view in views]
    firsts = np.cumsum([0, *sizes])
    parts = [
        Part(
            part.inputs, OpenPartition(part.open, own, int(firsts[number]), int(sizes[number]), size, tables[0].device)
        )
        for number, part in enumerate(partitions(tables))
        if sizes[number]
    ]
    return DaskRows(parts, sizes, tables[0].device)


@dataclass(frozen=True)
class Seen:
    """What a worker must know of a view besides its chunk."""

    name: str
    may_lack: bool
    given: bool  # whether there is a chunk at all: new rows may lack a view
    n_columns: int


@dataclass(frozen=True)
class OpenPartition:
    """Makes ranges of raw rows of a partition's chunks, on a worker."""

    read: Callable[..., list[Any]]  # inputs of a task -> the chunks
    own: list[Seen]  # the views
    first: int  # number of the partition's first row
    n_rows: int
    size: int  # of blocks
    device: Any

    def __call__(self, *inputs: Any) -> list[RowRange]:
        """Return the ranges."""
        chunks = iter(self.read(*inputs))
        views = Views(tuple(self._view(seen, chunks) for seen in self.own), device=self.device)
        return [replace(rows, origin=self.first) for rows in row_ranges(views, self.size)]

    def _view(self, seen: Seen, chunks: Iterator[Any]) -> View:
        if not seen.given:
            return View(seen.name, np.zeros((0, 0)), None, np.full(self.n_rows, -1))
        data = in_rows(next(chunks))
        if data.shape != (self.n_rows, seen.n_columns):
            raise ValueError(
                f"View {seen.name!r}: the partition of rows {self.first} to {self.first + self.n_rows - 1} has shape "
                f"{data.shape} instead of {(self.n_rows, seen.n_columns)}, which its Dask collection claims."
            )
        return View(seen.name, data, may_lack=seen.may_lack)


def block_size(n_rows: int) -> int:
    """Return rows per block: enough blocks to share among cores, large enough to be worth a call."""
    return int(np.clip(-(-n_rows // 8), 256, BLOCK_ROWS))


def limited_block_size(views: Views) -> int:
    """Return rows per block where memory is limited: fewer of wide ones."""
    return int(np.clip(BLOCK_BYTES // row_bytes(views), 64, block_size(views.n_rows)))


def row_bytes(views: Views) -> int:
    """Return how many bytes of raw data a row has."""
    return max(sum(view.n_columns * view.data.dtype.itemsize for view in views), 1)


def device_block_size(views: Views) -> int:
    """Return rows per block on a device: many, but of rows in host memory so few that copies and work overlap."""
    if all(device_of(view.data) for view in views):
        return DEVICE_BLOCK_ROWS
    return int(np.clip(STREAMED_BYTES // row_bytes(views), 2**13, DEVICE_BLOCK_ROWS))


def place_views(views: Views, device: Any) -> Views:
    """Return the views with the device on which they are worked on: None is this machine's cores.

    "auto" is the GPU that a view lies on, and the cores where none does.
    """
    if views.on_dask:
        return place_partitions(views, device)
    homes = {home for view in views if (home := device_of(view.data))}
    if len(homes) > 1:
        raise ValueError(f"The views lie on different devices: {', '.join(sorted(homes))}. Bring them to one of them.")
    if device == "auto":
        return replace(views, device=next(iter(homes), None))
    if device == "cpu":
        return replace(views, views=tuple(replace(view, data=to_host(view.data)) for view in views))
    return replace(views, device=check_device(device))


def place_partitions(views: Views, device: Any) -> Views:
    """Return the views of Dask collections with the device that each worker brings its rows to.

    This process need not have such a device: what it makes of samples and sums are tensors in its memory.
    """
    if device in ("auto", "cpu"):
        return views
    here = check_device("torch")
    device = here if device == "torch" else str(device)
    tables = [DaskTable(v.data.array, device) if isinstance(v.data, DaskTable) else v.data for v in views]
    placed = tuple(replace(view, data=table) for view, table in zip(views, tables, strict=True))
    return replace(views, views=placed, device=here)


def check_device(device: Any) -> str:
    """Return the name of a device that torch can work on."""
    torch = import_extra("torch", "gpu", f"device={device!r}")
    try:
        torch.zeros(1, device="cpu" if device == "torch" else device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f'device={device!r} cannot be used: {reason}. Use device="cpu", or "auto".') from error
    return "cpu" if device == "torch" else str(device)


def as_given(found: Any, X: Any) -> Any:
    """Return rows in the kind of array that X holds: tensors, CuPy's or JAX's on a GPU, Dask's; else NumPy's."""
    tables = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else [X]
    if any(map(is_dask, tables)):
        return found
    return in_library_of(next((table for table in tables if device_of(table) or lies_on_gpu(table)), None), found)


@contextmanager
def explain_memory(views: Views) -> Iterator[None]:
    """Turn a GPU's lack of memory into an error that says what would do."""
    try:
        yield
    except MemoryError as error:
        raise error
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        import torch

        if views.on_dask:
            raise MemoryError(f"A worker's GPU does not do for its rows: {error}. Make partitions smaller.") from error
        _, whole = torch.cuda.mem_get_info(views.device)
        message = str(error).split(". ")[1]  # how much was asked for
    else:
        return
    torch.cuda.empty_cache()
    columns = sum(view.n_columns for view in views)
    raise MemoryError(
        f"The GPU's {whole / 1e9:.0f} GB do not do for this fit of {views.n_rows} rows ({message}). A block takes "
        f"about {16 * columns} bytes a row while neighbours are looked for: pass block_size below {DEVICE_BLOCK_ROWS}. "
        "What is kept takes 6 bytes a neighbour, graph and row: pass fewer n_neighbors, or fewer graphs "
        '(concatenation=False). Rows in host memory (device="cuda") come to the card one block at a time.'
    )


def describe_job(views: Views, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a job from others, as plain data: the settings, and of the views what is seen at a glance."""
    job: dict[str, Any] = {name: describe_setting(value) for name, value in settings.items()}
    job["number of rows"] = views.n_rows
    for view in views:
        job[f"view {view.name!r}"] = (
            f"{view.n_columns} columns of {view.data.dtype}, fingerprint {fingerprint(view):08x}"
        )
    return job


def describe_setting(value: Any) -> str:
    """Return a parameter's value in words; of a long one, a fingerprint."""
    words = np.array2string(value, threshold=10**6) if isinstance(value, np.ndarray) else repr(value)
    return words if len(words) < 200 else f"{words[:40]}... ({crc32(words.encode()):08x})"


def fingerprint(view: View) -> int:
    """Return a number that other rows would hardly have: from some of them, and from when their files were written."""
    rows = np.unique(np.linspace(0, view.n_rows - 1, FINGERPRINT_ROWS).astype(np.int64))
    data = view.read(rows).data
    parts = [data.data, data.indices] if sparse.issparse(data) else [to_host(data)]
    found = crc32(repr(getattr(view.data, "written", None)).encode())
    for part in parts:
        found = crc32(np.ascontiguousarray(part).tobytes(), found)
    return found

"""Forecast of a fit's memory, disk space and time, from the shape of the views and measured rates.

The operations of every stage are counted as in docs/scale, and divided by this machine's measured rates. The cost of a
stage's operations relative to a plain product or pass was measured by ``benchmarks/scripts/forecast.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coterie.machine import Rates, available_bytes, known_rates, seconds_of, whole_memory
from coterie.method.assignment import RUN_ROWS
from coterie.method.explanation import EXPLAINED_ROWS
from coterie.method.landmarks import EXACT_WORK, MEDOID_PASSES, PROJECTED_COLUMNS, sample_size
from coterie.placement import BLOCK_ROWS, RESERVED_BYTES, ROW_BYTES, check_placement
from coterie.progress import Progress
from coterie.rows.devices import count_gpus
from coterie.rows.memory import count_runs
from coterie.rows.torch import upload_if_host
from coterie.rows.work_folder import format_bytes
from coterie.settings import PILOTED_FROM, ROUNDS, Settings
from coterie.threads import one_thread_per_block
from coterie.validation import warn_caller
from coterie.views import Views
from coterie.views.preparation import FITTED_NUMBERS, most_directions

# (a, b, c) of a stage's seconds on one thread: a + b * products / their rate + c * passes / their rate. Measured by
# benchmarks/scripts/forecast.py, by least squares of the logarithms.
COSTS: dict[str, tuple[float, float, float]] = {
    "preparation": (0.0021, 2.8, 51),
    "landmarks": (0.0025, 0.95, 0.87),
    "graphs": (0.021, 2.8, 0.17),
    "n_clusters": (0.04, 0.41, 0.68),
    "rounds": (0.038, 0.015, 0.28),
    "assignment": (0.0031, 110, 0.022),
    "pilot": (0.032, 0.0, 3),
    "stability": (0.034, 4.2, 0.14),  # of one check by two halves of the landmarks, where clusters hardly touch
}

# The share of a fit's work that is not parallel: a million rows x 448 took 15.5, 8.3, 4.8, 3.6 and 4.0 s on 1, 2,
# 4, 8 and 16 threads.
SERIAL = 0.15

LONG_FIT = 10.0  # seconds, above which an idle GPU is worth a message

READ_ROWS = 2048  # of files, to measure how fast they are read
SAMPLE_COPIES = 6  # arrays of float64 that preparation has of a view's sample at once, and
BLOCK_COPIES = 3  # arrays of float32 that a thread has of its block


@dataclass(frozen=True)
class Forecast:
    """The forecast of a fit.

    Attributes
    ----------
    rows, columns : int
        Of all views together.
    n_landmarks, n_graphs : int
    memory : int
        Bytes beyond the input, at most: on the GPU where the rows are worked on there.
    disk : int
        Bytes of files that the fit keeps meanwhile.
    seconds : float
        Roughly; NaN for Dask collections, whose workers were not measured.
    stages : dict of float
        Seconds by stage.
    """

    rows: int
    columns: int
    n_landmarks: int
    n_graphs: int
    memory: int
    disk: int
    seconds: float
    stages: dict[str, float]

    def __str__(self) -> str:
        took = "time not known" if np.isnan(self.seconds) else f"about {format_seconds(self.seconds)}"
        disk = f", {format_bytes(self.disk)} of files" if self.disk else ""
        return (
            f"{self.rows:,} rows x {self.columns:,} columns, {self.n_landmarks:,} landmarks, {self.n_graphs} graphs: "
            f"{took}, {format_bytes(self.memory)} of memory beyond the input{disk}"
        )


@dataclass(frozen=True)
class Size:
    """The numbers that a fit's cost depends on."""

    n: int  # rows
    columns: np.ndarray  # (V,) as stored
    reduced: np.ndarray  # (V,) after preparation
    sample: int  # rows that preparation and landmarks are found from
    p: int  # landmarks
    searches: int  # views in which neighbours are searched, the concatenation included
    scales: tuple[int, ...]  # neighbours
    k: int  # clusters
    r: int  # vectors of a graph
    learned: int  # rows that the rounds learn from
    rounds: float
    bases: int  # ways to merge the graphs, among which one is chosen
    starts: int  # of k-means
    chooses_k: bool
    checks: float  # of stability: the expected number of them
    piloted: bool  # whether a sample is clustered first

    @property
    def graphs(self) -> int:
        """Number of graphs."""
        return self.searches * len(self.scales)

    @property
    def neighbours(self) -> int:
        """Neighbours of a row in all graphs together."""
        return self.searches * sum(self.scales)

    @classmethod
    def of(cls, views: Views, settings: Settings) -> Size:
        """Return the size of a fit.

        It is not known which basis will be chosen, nor whether the views are ambiguous, so that each basis is checked
        for how well it replicates: rounds and checks are means of the possible numbers.
        """
        n, k, wanted = views.n_rows, settings.most_clusters, settings.rounds
        p = min(settings.landmarks.wanted, n)
        columns = np.array([view.n_columns for view in views])
        scalings = settings.preparation.scalings
        piloted = n >= PILOTED_FROM and settings.may_share and settings.n_clusters is not None
        rounds = [wanted.max_iter or ROUNDS[basis] for basis in wanted.bases]
        own = wanted.for_graphs([0], k)[wanted.bases[0]]
        return cls(
            n=n,
            columns=columns,
            reduced=np.where([how == "auto" for how in scalings], np.minimum(columns, most_directions(k)), columns),
            sample=sample_size(n, p),
            p=p,
            searches=len(views) + (settings.graphs.concatenation and len(views) > 1),
            scales=tuple(settings.graphs.neighbors(settings.owner, p, n)),
            k=own.n_components,
            r=own.n_vectors,
            learned=settings.learned_rows(n, p),
            rounds=float(np.mean(rounds)),
            bases=len(wanted.bases),
            starts=settings.n_init,
            chooses_k=settings.n_clusters is None,
            checks=settings.measure_stability + (len(wanted.bases) / 2 if len(wanted.bases) > 1 else 0),
            piloted=piloted and settings.measure_stability,
        )


def forecast(views: Views, settings: Settings, parameters: Mapping[str, Any]) -> Forecast:
    """Return what a fit of the views will take; if they are in files, a few rows are read, otherwise none."""
    size = Size.of(views, settings)
    limit = check_placement(
        settings.owner, views, parameters["memory_limit"], parameters["work_dir"], parameters["device"]
    )
    kept, working = kept_bytes(size, settings), working_bytes(size, settings)
    in_files = parameters["work_dir"] is not None or (limit is not None and kept + RESERVED_BYTES > limit)
    stages = {} if views.on_dask else stage_seconds(views, size, settings)
    return Forecast(
        rows=size.n,
        columns=int(size.columns.sum()),
        n_landmarks=size.p,
        n_graphs=size.graphs,
        memory=working + (ROW_BYTES * size.n if in_files else kept),
        disk=kept if in_files else 0,
        seconds=sum(stages.values()) if stages else float("nan"),
        stages=stages,
    )


# -- bytes --------------------------------------------------------------------------------------------------------


def neighbour_bytes(size: Size, settings: Settings) -> int:
    """Return the bytes of a row's neighbours and their weights."""
    return size.neighbours * ((2 if size.p <= 2**16 else 4) + np.dtype(settings.preparation.dtype).itemsize)


def kept_bytes(size: Size, settings: Settings) -> int:
    """Return the bytes that a fit keeps of all rows: neighbours, weights, the embedding, labels and distances."""
    number = np.dtype(settings.preparation.dtype).itemsize
    return size.n * (neighbour_bytes(size, settings) + number * size.k + ROW_BYTES)


def working_bytes(size: Size, settings: Settings) -> int:
    """Return the bytes of a fit's temporary memory: samples, p x p matrices and the blocks being processed."""
    widest = int(np.minimum(size.sample * size.columns, FITTED_NUMBERS).max())
    samples = 4 * size.sample * int(size.columns.sum()) + 8 * SAMPLE_COPIES * widest
    copies = 0 if size.learned == size.n and size.bases == 1 else 1 if size.learned == size.n else 2  # as guided
    learned = copies * size.learned * neighbour_bytes(size, settings)
    rows = min(size.n, settings.plan.block_size or BLOCK_ROWS)  # of a block
    n_threads = min(settings.n_threads, max(size.graphs, -(-size.n // rows)))  # more threads would be idle
    outer = 8 * (size.graphs * size.r) ** 2
    sums = count_runs(size.learned, outer, dense=True) + n_threads  # and a block's own
    matrices = 8 * size.p**2 * (size.graphs + 2 * n_threads) + outer * sums
    block = rows * int(size.columns.sum() + size.p)
    return samples + learned + matrices + 4 * BLOCK_COPIES * block * n_threads


def look_ahead(views: Views, settings: Settings, parameters: Mapping[str, Any], progress: Progress) -> None:
    """Refuse a fit that does not fit into memory; if verbose, tell when a GPU will be idle during a long one."""
    if views.device is not None or views.on_dask:
        return
    if parameters["memory_limit"] is None:
        size = Size.of(views, settings)
        kept = 0 if parameters["work_dir"] is not None else kept_bytes(size, settings)
        check_memory(size.n, kept, kept + working_bytes(size, settings), whole_memory(), available_bytes())
    if progress.verbose and parameters["device"] == "auto":
        advice = gpu_advice(forecast(views, settings, parameters).seconds, settings.n_threads, count_gpus)
        if advice is not None:
            progress.say(advice)


def check_memory(n_rows: int, kept: int, needed: int, whole: int | None, free: int | None) -> None:
    """Refuse a fit that needs more than the whole memory, and warn of one that needs more than is free now."""
    words = (
        f"A fit of {n_rows:,} rows keeps {format_bytes(kept)} of them and takes {format_bytes(needed)} beyond its input"
    )
    remedy = 'Pass memory_limit="{}GB", so that they are kept in files, or fewer n_neighbors.'
    if whole is not None and needed > whole:
        raise MemoryError(f"{words}; this machine has {format_bytes(whole)}. {remedy.format(half_in_gb(whole))}")
    if free is not None and needed > free:
        warn_caller(f"{words}; {format_bytes(free)} are free at the moment. {remedy.format(half_in_gb(free))}")


def half_in_gb(size: int) -> int:
    """Return half of a number of bytes in whole GB, at least the 1 GB that every fit takes."""
    return max(size // (2 * 10**9), 1)


def gpu_advice(seconds: float, n_threads: int, count: Callable[[], int]) -> str | None:
    """Return the message for a long fit that leaves a GPU idle; None if the fit is short or there is no GPU.

    Host arrays stay on the CPU unless a device is requested, so that the labels of an old script do not change when a
    GPU is added to the machine.
    """
    if not seconds > LONG_FIT or not count():
        return None
    return (
        f'about {format_seconds(seconds)} on {n_threads} cores, while a GPU is idle: device="cuda" uses it '
        '(pip install "coterie[gpu]")'
    )


# -- seconds ------------------------------------------------------------------------------------------------------


def stage_seconds(views: Views, size: Size, settings: Settings) -> dict[str, float]:
    """Return the seconds of every stage."""
    rates = machine_rates(views.device)
    speed = 1.0 if views.device is not None else speed_up(settings.n_threads)
    work = count_work(size, settings)
    found = {}
    for stage, (products, passes) in work.items():
        fixed, by_product, by_pass = COSTS[stage]
        seconds = by_product * products / rates.products + by_pass * passes / rates.passes
        times = size.checks if stage == "stability" else 1
        found[stage] = times * (fixed + seconds / speed)
    reading = reading_seconds(views)
    return {"reading": reading, **found} if reading else found


def count_work(size: Size, settings: Settings) -> dict[str, tuple[float, float]]:
    """Return every stage's multiplications and additions in products, and the numbers that its passes read."""
    n, p, k, r = size.n, size.p, size.k, size.r
    graphs, neighbours, width = size.graphs, size.neighbours, int(size.columns.sum())
    squares = size.searches * sum(q * q for q in size.scales)
    fitted = np.minimum(size.sample * size.columns, FITTED_NUMBERS)
    shrinks = size.reduced < size.columns
    inner = int(size.reduced.sum())
    narrow = PROJECTED_COLUMNS if size.sample * p * inner > EXACT_WORK and inner > PROJECTED_COLUMNS else inner
    projecting = 2 * float((size.columns * size.reduced)[shrinks].sum())  # a row
    merging = 2.0 * size.learned * (graphs * r) ** 2 + 2.0 * (graphs * r) ** 3
    summing = float(size.learned) * (squares + neighbours * r) + graphs * p * p * r
    turns = size.bases * (size.bases > 1) + size.rounds
    starts = float(size.starts) * min(n, RUN_ROWS) * k * k
    reducing = 4.0 * graphs * p**3  # where iterations do not converge
    found = {
        "preparation": (20.0 * float((fitted * (size.reduced + 10))[shrinks].sum()), float(fitted.sum())),
        "landmarks": (
            MEDOID_PASSES * 2.0 * size.sample * p * narrow + size.sample * projecting,
            MEDOID_PASSES * float(size.sample) * p,
        ),
        "graphs": (n * (2.0 * inner * p + projecting), float(n) * (p * size.searches + width + neighbours)),
        "rounds": (turns * merging + reducing, turns * summing + starts),
        "assignment": (
            2.0 * n * k * k,
            float(n) * (size.rounds * neighbours * r + k) + min(n, EXPLAINED_ROWS) * neighbours * (r + k),
        ),
    }
    if size.piloted:
        rows = 2.0 * size.sample
        found["pilot"] = (
            rows * (inner * p + size.bases * (graphs * r) ** 2),
            rows * (p * size.searches + squares + neighbours * r) + graphs * p * p * r,
        )
    if size.checks:  # one of them
        found["stability"] = (4000.0 * graphs * r * graphs * r, 4000.0 * neighbours * r + graphs * p * p * r)
    if size.chooses_k:
        found["n_clusters"] = found["rounds"]
    return found


def speed_up(n_threads: int) -> float:
    """Return how many times faster several threads are than one.

    Examples
    --------
    >>> [round(speed_up(n), 1) for n in (1, 2, 16)]
    [1.0, 1.7, 4.9]
    """
    return n_threads / (1 + SERIAL * (n_threads - 1))


def machine_rates(device: Any) -> Rates:
    """Return the rates of products and passes of one thread of this machine, or of its GPU."""
    return known_rates("one thread" if device is None else f"device {device}", partial(measure_rates, device))


def measure_rates(device: Any) -> Rates:
    """Time a product and a pass."""
    n, d, p = (2**17 if device is not None else 2**11), 256, 1024
    rng = np.random.default_rng(0)
    rows = upload_if_host(rng.random((n, d), dtype=np.float32), device)
    landmarks = upload_if_host(rng.random((d, p), dtype=np.float32), device)
    # Reading a number of the result waits for the GPU.
    with one_thread_per_block():
        product = seconds_of(lambda: float((rows @ landmarks)[0, 0]))
        one_pass = seconds_of(lambda: float((rows * rows + rows).sum()))
    return Rates(2 * n * d * p / product, n * d / one_pass)


def reading_seconds(views: Views) -> float:
    """Return the seconds for reading views in files, from the time of a few rows."""
    some = slice(0, min(READ_ROWS, views.n_rows))
    in_files = [number for number, view in enumerate(views) if getattr(view.data, "files", ())]
    started = time.perf_counter()
    for number in in_files:
        views.read_view(number, some)
    return (time.perf_counter() - started) * views.n_rows / max(some.stop, 1) if in_files else 0.0


def format_seconds(seconds: float) -> str:
    """Return seconds as text.

    Examples
    --------
    >>> format_seconds(3.21), format_seconds(75), format_seconds(400), format_seconds(9000)
    ('3.2 s', '75 s', '7 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

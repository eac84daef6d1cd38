"""Comparable times: in units of the bare product of rows and landmarks, which is timed before and after."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import coterie
from benchmarks.data import load_data
from benchmarks.libraries import is_library, library_version, make_clustering, side_by_side
from benchmarks.measure import MEGABYTE, machine, peak_memory, source_hash, start_of_peak, versions
from coterie import metrics
from coterie.datasets import MultiViewData, iterate_views

if TYPE_CHECKING:
    from benchmarks.speed import SpeedRun

# The product is timed on at most this many rows: its time per row is the same for more.
PRODUCT_ROWS = 70_000
# It is repeated at least PRODUCT_TIMES times, and for at least PRODUCT_SECONDS.
PRODUCT_TIMES = 3
PRODUCT_SECONDS = 0.1

# A fit of this many rows loads all compiled kernels that a larger fit needs.
WARM_UP_ROWS = 1200


@dataclass(frozen=True)
class Seconds:
    """A duration: wall-clock time, and processor time of this process on all cores."""

    wall: float
    cpu: float

    def __truediv__(self, other: float) -> Seconds:
        return Seconds(self.wall / other, self.cpu / other)

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)


@dataclass(frozen=True)
class Timed:
    """A timed result, with the time of the bare product around it."""

    seconds: Seconds
    product: Seconds
    result: Any

    @property
    def ratio(self) -> float:
        """Wall-clock time in units of the bare product."""
        return self.seconds.wall / self.product.wall

    @property
    def cpu_ratio(self) -> float:
        """Processor time in units of the bare product: less disturbed by other processes, but blind to idle cores."""
        return self.seconds.cpu / self.product.cpu


def timed_call(work: Callable[[], Any]) -> tuple[Seconds, Any]:
    """Return the duration of a call, and its result.

    Examples
    --------
    >>> seconds, result = timed_call(lambda: "done")
    >>> seconds.wall > 0, result
    (True, 'done')
    """
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu), result


@dataclass(frozen=True)
class BareProduct:
    """One float32 product of the rows with the landmarks, on all threads: the work that every fit needs."""

    table: np.ndarray  # (b, d)
    landmarks: np.ndarray  # (d, p)
    out: np.ndarray  # (b, p), so that the time has no allocation in it
    n_rows: int

    @classmethod
    def of(cls, views: Mapping[str, np.ndarray], n_landmarks: int) -> BareProduct:
        """Return the product of the concatenated views with their first rows as landmarks."""
        n_rows = len(next(iter(views.values())))
        table = side_by_side({name: view[:PRODUCT_ROWS] for name, view in views.items()})
        landmarks = np.resize(table, (n_landmarks, table.shape[1])).T.copy()
        return cls(table, landmarks, np.zeros((len(table), n_landmarks), np.float32), n_rows)

    def seconds(self) -> Seconds:
        """Return the median duration of the product, scaled to all rows."""
        taken: list[Seconds] = []
        begun = time.perf_counter()
        while len(taken) < PRODUCT_TIMES or time.perf_counter() - begun < PRODUCT_SECONDS:
            taken.append(timed_call(lambda: np.matmul(self.table, self.landmarks, out=self.out))[0])
        middle = sorted(taken, key=lambda t: t.wall)[len(taken) // 2]
        return middle / (len(self.table) / self.n_rows)

    def describe(self) -> dict[str, int]:
        """Return the product's size."""
        return {"rows": self.n_rows, "columns": self.table.shape[1], "landmarks": self.landmarks.shape[1]}


def measure_speed(run: SpeedRun, data_home: str | None) -> dict[str, Any]:
    """Return the record of a run."""
    measured = MEASURES[run.kind](run, data_home)
    return {
        "part": run.part,
        "method": run.method.name,
        "data": run.data,
        "seed": run.seed,
        **measured,
        "settings": run.settings(),
        "versions": {**versions(), **library_version(run.method)},
        "machine": machine(),
        "code": {"version": coterie.__version__, "source": source_hash()},
    }


def measure_fit(run: SpeedRun, data_home: str | None) -> dict[str, Any]:
    """Time fits, with their stages, accuracy and peak memory."""
    data, n_clusters = read_data(run, data_home)
    product = BareProduct.of(data.views, run.product_landmarks)
    warm_up_on(run, data, n_clusters)

    def fit() -> tuple[Seconds, Fit]:
        model = make_clustering(run.method, n_clusters, run.seed)
        before = start_of_peak()
        seconds, labels = timed_call(lambda: model.fit_predict(data.views))
        return seconds, Fit(labels, getattr(model, "timings_", {}), max(peak_memory() - before, 0))

    timed = interleaved(fit, product.seconds, run.repeats, run.patience)
    middle = median_of(timed)
    return {
        **as_record(timed, product),
        "ACC": metrics.clustering_accuracy(data.target, middle.result.labels),
        "NMI": metrics.nmi(data.target, middle.result.labels),
        "peak_mb": round(max(t.result.peak for t in timed) / MEGABYTE, 1),
        "stages": {name: round(seconds / middle.product.wall, 4) for name, seconds in middle.result.timings.items()},
        "n_rows": len(data.target),
    }


@dataclass(frozen=True)
class Fit:
    """The results of a timed fit."""

    labels: np.ndarray
    timings: dict[str, float]  # seconds by stage
    peak: int  # bytes beyond those in use before


def measure_predict(run: SpeedRun, data_home: str | None) -> dict[str, Any]:
    """Time predictions of all rows beside the product with the model's own landmarks."""
    data, n_clusters = read_data(run, data_home)
    model = make_clustering(run.method, n_clusters, run.seed).fit(data.views)
    product = BareProduct.of(data.views, len(model.landmark_indices_))

    def predict() -> tuple[Seconds, Any]:
        return timed_call(lambda: model.predict(data.views))

    predict()  # loads kernels
    timed = interleaved(predict, product.seconds, run.repeats, run.patience)
    return {**as_record(timed, product), "n_rows": len(data.target)}


def measure_start(run: SpeedRun, data_home: str | None) -> dict[str, Any]:
    """Time whole new processes."""

    def begin() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", run.method.params["code"]], check=True)
        return time.perf_counter() - started

    begin()  # compiles and caches kernels
    taken = [begin() for _ in range(run.repeats)]
    return {"seconds": round(float(np.median(taken)), 4), "repeats": rounded(taken)}


def measure_report(run: SpeedRun, data_home: str | None) -> dict[str, Any]:
    """Measure the time of whole reports, with ids, known labels and columns to colour by, and the size of the page."""
    data, n_clusters = read_data(run, data_home)
    model = make_clustering(run.method, n_clusters, run.seed).fit(data.views)
    names = [f"class {label}" for label in data.target]
    numbers = next(iter(data.views.values()))[:, 0]
    told = {
        "target": names,
        "ids": [f"row {row}" for row in range(len(names))],
        "columns": {"a name": names, "a number": numbers},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        taken = [timed_call(lambda: model.report(path, data.views, **told))[0].wall for _ in range(run.repeats)]
        size = path.stat().st_size
    return {"seconds": rounded([np.median(taken)])[0], "repeats": rounded(taken), "bytes": size, "n_rows": len(names)}


MEASURES: dict[str, Callable[[Any, str | None], dict[str, Any]]] = {
    "fit": measure_fit,
    "predict": measure_predict,
    "start": measure_start,
    "report": measure_report,
}


def interleaved(
    work: Callable[[], tuple[Seconds, Any]], product: Callable[[], Seconds], repeats: int, patience: float
) -> list[Timed]:
    """Time the work several times, with the product before and after each.

    Other processes then slow both. No repeat begins after ``patience`` seconds of work.

    Examples
    --------
    >>> work, product = Seconds(6.0, 12.0), Seconds(2.0, 3.0)
    >>> [t.ratio for t in interleaved(lambda: (work, "done"), lambda: product, repeats=3, patience=10)]
    [3.0, 3.0]
    """
    product()  # not used: cold caches and sleeping threads
    timed: list[Timed] = []
    before = product()
    while len(timed) < repeats and sum(t.seconds.wall for t in timed) < patience:
        seconds, result = work()
        after = product()
        timed.append(Timed(seconds, (before + after) / 2, result))
        before = after
    return timed


def median_of(timed: Sequence[Timed]) -> Timed:
    """Return the repeat with the median ratio (the lower one of two)."""
    return sorted(timed, key=lambda t: t.ratio)[(len(timed) - 1) // 2]


def as_record(timed: Sequence[Timed], product: BareProduct) -> dict[str, Any]:
    """Return the entries of a record: the repeat with the median ratio, and the figures of all."""
    middle = median_of(timed)
    return {
        "seconds": round(middle.seconds.wall, 4),
        "product_seconds": round(middle.product.wall, 4),
        "ratio": round(middle.ratio, 4),
        "cpu_ratio": round(float(np.median([t.cpu_ratio for t in timed])), 4),
        "repeats": rounded(t.seconds.wall for t in timed),
        "ratios": rounded(t.ratio for t in timed),
        "product": product.describe(),
    }


def rounded(values: Any) -> list[float]:
    """Return numbers with the four decimals of records."""
    return [round(float(value), 4) for value in values]


def read_data(run: SpeedRun, data_home: str | None) -> tuple[Any, int]:
    """Return the run's data and its number of classes."""
    data = cached_rows(run.data, run.columns, run.rows, data_home)
    return data, len(set(data.target.tolist()))  # type: ignore[union-attr]


@lru_cache(maxsize=1)
def cached_rows(name: str, columns: tuple[int, ...], rows: int | None, data_home: str | None) -> MultiViewData:
    """Return a data set, or synthetic views with these columns; the last one is cached for the next run."""
    if columns:
        assert rows is not None
        return synthetic_rows(rows, columns)
    return load_data(name, data_home, rows)


def synthetic_rows(n_rows: int, columns: Sequence[int], n_clusters: int = 20) -> MultiViewData:
    """Return synthetic float32 views, filled block by block so that memory never holds a second copy.

    Examples
    --------
    >>> {name: view.shape for name, view in synthetic_rows(100, (3, 2)).views.items()}
    {'view0': (100, 3), 'view1': (100, 2)}
    """
    views = {f"view{v}": np.empty((n_rows, width), np.float32) for v, width in enumerate(columns)}
    target = np.empty(n_rows, np.int32)
    start = 0
    for block in iterate_views(n_rows, n_clusters, n_columns=columns, random_state=7):
        assert block.target is not None
        stop = start + len(block.target)
        target[start:stop] = block.target
        for name, rows in block.views.items():
            views[name][start:stop] = rows
        start = stop
    return MultiViewData(views, target, "synthetic")


def warm_up_on(run: SpeedRun, data: MultiViewData, n_clusters: int) -> None:
    """Fit some of the rows once, so that compiled kernels are loaded before the timed runs."""
    if not is_library(run.method):
        few = {name: view[:WARM_UP_ROWS] for name, view in data.views.items()}
        make_clustering(run.method, n_clusters, run.seed).fit(few)

"""The speed benchmark: the parts of ``python -m benchmarks speed``, and running them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import is_library, why_not
from benchmarks.records import Record, read_records
from benchmarks.runner import Summary, run_all
from benchmarks.suites import FILE_ORDER, Run
from benchmarks.timing import measure_speed
from coterie.peers.registry import CONCAT_LSC, COTERIE, LSC, METHODS, MVSCB, PUBLISHED, Method

# A method that took longer than this, in seconds, is not run on more rows.
TOO_SLOW = 60.0
# Nor is one whose expected time is longer than this, in seconds.
TOO_SLOW_BY_FAR = 4 * TOO_SLOW


@dataclass(frozen=True)
class SpeedRun(Run):
    """A timed run of one method on a number of rows."""

    part: str = ""
    kind: str = "fit"  # or "predict", "start", "report"
    columns: tuple[int, ...] = ()  # of synthetic views; empty for a named data set
    product_landmarks: int = 600  # of the bare product, the unit of time
    repeats: int = 3
    patience: float = 60.0  # seconds after which there are no more repeats
    order: str = FILE_ORDER  # times do not depend on it

    def settings(self) -> dict[str, Any]:
        """Return the settings that identify a measurement, without repeats and patience."""
        return {"part": self.part, **super().settings()}

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator, or of the new process."""
        return self.method.params if self.kind == "start" else super().parameters()


@dataclass(frozen=True)
class Sizes:
    """The sizes of the benchmark, in full or for a quick trial."""

    images: str = "mnist"
    image_rows: int = 70_000
    published_landmarks: int = 600
    synthetic_columns: tuple[int, ...] = (64, 64, 64)
    synthetic_rows: tuple[int, ...] = tuple(50_000 * 2**step for step in range(7))  # to 3,200,000
    synthetic_landmarks: int = 1000
    peer_rows: tuple[int, ...] = (1000, 2000, 5000, 10_000, 20_000, 70_000)
    million_rows: int = 1_000_000
    million_columns: tuple[int, ...] = (256, 128, 64)
    report_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    repeats: int = 3


FULL = Sizes()
QUICK = Sizes(
    images="digits",
    image_rows=300,
    published_landmarks=100,
    synthetic_columns=(8, 8, 8),
    synthetic_rows=(500, 1000),
    synthetic_landmarks=100,
    peer_rows=(200, 300),
    million_rows=500,
    million_columns=(16, 8, 4),
    report_rows=(300, 600),
    repeats=1,
)

KMEANS = Method("scikit-learn k-means", "sklearn.cluster.KMeans", {"n_init": 10})
LIBRARIES = (
    Method(
        "scikit-learn spectral clustering",
        "sklearn.cluster.SpectralClustering",
        {"affinity": "nearest_neighbors", "n_jobs": -1},  # its default, all pairs, is slower
    ),
    Method("mvlearn multi-view spectral", "mvlearn.cluster.MultiviewSpectralClustering"),
    Method("mvlearn co-regularised spectral", "mvlearn.cluster.MultiviewCoRegSpectralClustering"),
    KMEANS,
    Method("FAISS k-means, 10 runs", "faiss.Kmeans", {"n_runs": 10}),
    Method("FAISS k-means, 1 run", "faiss.Kmeans"),
    Method("FAISS k-means, 1 run on a sample", "faiss.Kmeans", {"all_rows": False}),
)
# The methods of README's table -> their names there.
SUMMARY = {
    "Coterie": "Coterie, defaults",
    "Guided co-training": "guided co-training, as published",
    "MVSC-B": "MVSC-B",
    "ConcatLSC": "LSC on all columns",
    "k-means, block": "k-means, views of one scale",
}
OURS = (COTERIE, PUBLISHED, LSC.on(0, "LSC, first view"), CONCAT_LSC, MVSCB)

FIRST_FIT = (
    "import coterie; from coterie.datasets import make_views; "
    "coterie.GuidedCoTraining(3, random_state=0).fit(make_views(500, 3).views)"
)
STARTS = {
    "import of numpy, scipy, scikit-learn and numba": "import numpy, scipy.sparse, sklearn.cluster, numba",
    "import coterie": "import coterie",
    "import coterie and first fit": FIRST_FIT,
}

Group = list[SpeedRun]  # runs that share a process


def published(sizes: Sizes) -> Method:
    """Return the paper's method with all ten rounds, and the number of landmarks of the promised time."""
    params = {"tol": 0, "n_landmarks": sizes.published_landmarks, "n_neighbors": 8, "max_iter": 10}
    return PUBLISHED.given(**params)


def synthetic_name(columns: Sequence[int]) -> str:
    """Return the name of synthetic views.

    Examples
    --------
    >>> synthetic_name((64, 32))
    'synthetic 64 + 32'
    """
    return "synthetic " + " + ".join(map(str, columns))


def mnist_part(sizes: Sizes) -> list[Group]:
    """Return whole fits of the images, and a single one by k-means."""
    methods = (published(sizes), COTERIE, KMEANS)
    return [
        [
            SpeedRun(
                method,
                sizes.images,
                0,
                sizes.image_rows,
                part="mnist",
                product_landmarks=sizes.published_landmarks,
                repeats=1 if method is KMEANS else sizes.repeats,
            )
            for method in methods
        ]
    ]


def rows_part(sizes: Sizes) -> list[Group]:
    """Return fits of the same settings on growing numbers of rows, each in its own process to measure its memory."""
    method = COTERIE.given(n_landmarks=sizes.synthetic_landmarks, n_neighbors=10)
    return [
        [
            SpeedRun(
                method,
                synthetic_name(sizes.synthetic_columns),
                0,
                rows,
                part="rows",
                columns=sizes.synthetic_columns,
                product_landmarks=sizes.synthetic_landmarks,
                repeats=sizes.repeats,
            )
        ]
        for rows in sizes.synthetic_rows
    ]


def predict_part(sizes: Sizes) -> list[Group]:
    """Return predictions of all images."""
    return [
        [
            SpeedRun(method, sizes.images, 0, sizes.image_rows, part="predict", kind="predict", repeats=sizes.repeats)
            for method in (published(sizes), COTERIE)
        ]
    ]


def peers_part(sizes: Sizes) -> list[Group]:
    """Return fits of all methods on images and on synthetic views, by growing number of rows."""
    data: tuple[tuple[str, tuple[int, ...]], ...] = (
        (sizes.images, ()),
        (synthetic_name(sizes.synthetic_columns), sizes.synthetic_columns),
    )
    return [
        [
            SpeedRun(method, name, 0, rows, part="peers", columns=columns, repeats=sizes.repeats, patience=10.0)
            for method in (*OURS, *LIBRARIES)
        ]
        for name, columns in data
        for rows in sizes.peer_rows
    ]


def million_part(sizes: Sizes) -> list[Group]:
    """Return fits of wide views of many rows, prepared by default (which may reduce columns) and by scaling alone."""
    return [
        [
            SpeedRun(
                method,
                synthetic_name(sizes.million_columns),
                0,
                sizes.million_rows,
                part="million",
                columns=sizes.million_columns,
                product_landmarks=1000,
                repeats=sizes.repeats,
            )
        ]
        for method in (COTERIE, Method("Coterie, block scaling", "GuidedCoTraining", {"scaling": "block"}))
    ]


def summary_part(sizes: Sizes) -> list[Group]:
    """Return fits of the methods in README's table, on the images and on the million rows."""
    data: tuple[tuple[str, int, tuple[int, ...]], ...] = (
        (sizes.images, sizes.image_rows, ()),
        (synthetic_name(sizes.million_columns), sizes.million_rows, sizes.million_columns),
    )
    return [
        [
            SpeedRun(METHODS[method], name, 0, rows, part="summary", columns=columns, repeats=sizes.repeats)
            for method in SUMMARY
        ]
        for name, rows, columns in data
    ]


def start_part(sizes: Sizes) -> list[Group]:
    """Return starts of new processes: imports, and the first fit."""
    return [
        [
            SpeedRun(
                Method(name, "start", {"code": code}),
                "new process",
                0,
                part="start",
                kind="start",
                repeats=sizes.repeats,
            )
            for name, code in STARTS.items()
        ]
    ]


def report_part(sizes: Sizes) -> list[Group]:
    """Return reports of growing numbers of rows, on which neither time nor size should depend."""
    return [
        [
            SpeedRun(
                COTERIE,
                synthetic_name(sizes.synthetic_columns),
                0,
                rows,
                part="report",
                kind="report",
                columns=sizes.synthetic_columns,
                repeats=sizes.repeats,
            )
        ]
        for rows in sizes.report_rows
    ]


PARTS: dict[str, Callable[[Sizes], list[Group]]] = {
    "mnist": mnist_part,
    "rows": rows_part,
    "predict": predict_part,
    "peers": peers_part,
    "million": million_part,
    "summary": summary_part,
    "start": start_part,
    "report": report_part,
}


def run_speed(
    parts: Iterable[str],
    results: str | os.PathLike[str],
    *,
    data_home: str | os.PathLike[str] | None = None,
    sizes: Sizes = FULL,
    again: bool = False,
    progress: bool = True,
) -> Summary:
    """Measure the parts, and append each measurement to the results as soon as it is done.

    Parameters
    ----------
    parts : names out of ``PARTS``
    results : path
        A file of JSON lines; measurements that are in it are not repeated.
    data_home : path, optional
        Folder of the data sets; None is as in :func:`coterie.datasets.load_views`.
    sizes : Sizes
        The sizes to measure.
    again : bool
        Whether to repeat measurements that are in the results; tables show the last ones.
    progress : bool
        Whether to show bars on standard error.

    Raises
    ------
    ValueError
        If a part is not known.
    """
    parts = list(parts)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"There is no part {unknown[0]!r} of the speed benchmark. There are: {', '.join(PARTS)}.")
    results = Path(results)
    total = Summary()
    for group in (group for part in parts for group in PARTS[part](sizes)):
        chosen = able(group, total) if any(is_library(run.method) for run in group) else group
        earlier = read_records(results)
        chosen = [run for run in chosen if not is_too_slow(run, earlier)]
        found = run_all(chosen, results, data_home=data_home, measure=measure_speed, again=again, progress=progress)
        total.measured += found.measured
        total.known += found.known
        total.missing.update(found.missing)
        total.failed.extend(found.failed)
    return total


def able(group: Group, summary: Summary) -> Group:
    """Return the runs whose packages can be imported; the reasons for the others are added to the summary."""
    reasons = {run.method.name: why_not(run.method) for run in group}
    for name, reason in reasons.items():
        if reason is not None:
            summary.missing[name] = f"{name}: {reason}"
    return [run for run in group if reasons[run.method.name] is None]


def is_too_slow(run: SpeedRun, records: Sequence[Record]) -> bool:
    """Return whether a run is to be skipped because fewer rows took too long already."""
    if run.part != "peers" or run.rows is None:
        return False
    taken = {
        record["n_rows"]: record["seconds"]
        for record in records
        if (record.get("part"), record["method"], record["data"]) == ("peers", run.method.name, run.data)
        and record["n_rows"] < run.rows
    }
    if not taken:
        return False
    return max(taken.values()) > TOO_SLOW or expected_seconds(taken, run.rows) > TOO_SLOW_BY_FAR


def expected_seconds(taken: dict[int, float], n_rows: int) -> float:
    """Return the time extrapolated to ``n_rows`` with the growth rate between the last two sizes.

    Examples
    --------
    >>> round(expected_seconds({1000: 1.0, 2000: 4.0}, 4000), 6)
    16.0
    """
    last = max(taken)
    before = max((n for n in taken if n < last), default=None)
    growth = 2.0 if before is None else np.log(taken[last] / taken[before]) / np.log(last / before)
    return float(taken[last] * (n_rows / last) ** growth)

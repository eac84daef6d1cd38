"""The measurement of one run, in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import platform
import sys
import time
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import coterie
from benchmarks.data import load_data, shuffled
from benchmarks.libraries import is_library, library_version, make_clustering, why_not
from benchmarks.suites import SHUFFLED, Run
from coterie import metrics
from coterie.datasets import MultiViewData
from coterie.peers.registry import Method, warm_up

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
MEGABYTE = 2**20


# Largest number of rows for methods that compare all pairs of rows: a set of this size takes them many minutes.
MOST_ROWS = {"quadratic": 20_000, "cubic": 5_000}
GROWTH = {"quadratic": "n²", "cubic": "n³"}


class NotForThisDataError(Exception):
    """Raised, with the reason, if a method is not measured on a data set."""


def measure(run: Run, data_home: str | None) -> dict[str, Any]:
    """Fit the run's method and return its record."""
    data, target = prepare(run, data_home)
    model = make_clustering(run.method, len(set(target.tolist())), run.seed)
    before = start_of_peak()
    started, cpu = time.perf_counter(), time.process_time()
    labels = model.fit_predict(data.views)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = max(peak_memory() - before, 0)
    return {
        **about(run),
        **metrics.scores(target, labels),
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu, 4),
        "peak_mb": round(peak / MEGABYTE, 1),
        "n_rows": len(target),
        "versions": {**versions(), **library_version(run.method)},
    }


def prepare(run: Run, data_home: str | None) -> tuple[MultiViewData, np.ndarray]:
    """Return the run's rows and classes, in the run's order, after loading everything that must not be timed.

    Raises
    ------
    ImportError
        If the method's package cannot be imported.
    NotForThisDataError
        If the method cannot take these rows, or would take too long.
    """
    if reason := why_not(run.method):
        raise ImportError(reason)
    data = cached_data(run.data, data_home, run.rows)
    if run.order == SHUFFLED:
        data = shuffled(data, run.seed)
    assert data.target is not None
    check_fits(run.method, data)
    if not is_library(run.method):
        warm_up(run.method.estimator)
    return data, data.target


def check_fits(method: Method, data: MultiViewData) -> None:
    """Refuse rows that are too many for the method, or views that another library cannot take."""
    n_rows = next(iter(data.views.values())).shape[0]
    most = MOST_ROWS.get(method.cost, n_rows)
    if n_rows > most:
        raise NotForThisDataError(f"time grows with {GROWTH[method.cost]}: not tried with more than {most:,} rows")
    if is_library(method) and not all(np.isfinite(table.sum()) for table in data.views.values()):
        raise NotForThisDataError("takes no missing views")


def about(run: Run) -> dict[str, Any]:
    """Return the entries of a record that describe the run, the machine and the code."""
    return {
        "method": run.method.name,
        "data": run.data,
        "seed": run.seed,
        "settings": run.settings(),
        "machine": machine(),
        "code": {"version": coterie.__version__, "source": source_hash()},
    }


@lru_cache(maxsize=1)
def cached_data(name: str, data_home: str | None, rows: int | None) -> MultiViewData:
    """Return the data set; the last one is cached, because the next run is likely on it, too."""
    return load_data(name, data_home, rows)


def start_of_peak() -> int:
    """Free unused memory, reset the kernel's peak of resident memory, and return the resident bytes."""
    import psutil

    gc.collect()
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
        except (OSError, AttributeError):  # other libc, or no permission: then the peak is since the start
            pass
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Return the peak of this process's resident bytes since the last reset."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def machine() -> dict[str, Any]:
    """Return the kind of machine, with nothing that identifies it."""
    from coterie.threads import count_threads

    return {"system": platform.system(), "cpu": cpu_model(), "cores": count_threads(-1)}


def cpu_model() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def source_hash() -> str:
    """Return the first twelve hexadecimal digits of a hash of the package's source files."""
    root = Path(coterie.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]

"""One run, measured: what happens in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import platform
import sys
import threading
import time
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import coterie
from benchmarks.data import load_data
from benchmarks.suites import Run
from coterie import metrics
from coterie.datasets import MultiViewData
from coterie.peers.registry import make_estimator, warm_up

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
MEGABYTE = 2**20


def measure(run: Run, data_home: str | None) -> dict[str, Any]:
    """Fit the run's method and return its record."""
    data = cached_data(run.data, data_home, run.rows)
    target = data.target
    assert target is not None
    warm_up(run.method.estimator)
    model = make_estimator(run.method, len(set(target.tolist())), run.seed)
    before = start_of_peak()
    started = time.perf_counter()
    labels = model.fit_predict(data.views)
    seconds = time.perf_counter() - started
    peak = max(peak_memory() - before, 0)
    return {
        "method": run.method.name,
        "data": run.data,
        "seed": run.seed,
        **metrics.scores(target, labels),
        "seconds": round(seconds, 4),
        "peak_mb": round(peak / MEGABYTE, 1),
        "n_rows": len(target),
        "settings": run.settings(),
        "versions": versions(),
        "machine": machine(),
        "code": {"version": coterie.__version__, "source": source_hash()},
    }


@lru_cache(maxsize=1)
def cached_data(name: str, data_home: str | None, rows: int | None) -> MultiViewData:
    """Return the data set; the last one stays, because the next run is likely on it too."""
    return load_data(name, data_home, rows)


def die_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def start_of_peak() -> int:
    """Give back what can be given back, forget the peak so far, and return the bytes in use."""
    import psutil

    gc.collect()
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
        except (OSError, AttributeError):  # another libc, or not allowed: the peak is then since the start
            pass
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Return the most bytes this process had in memory since the peak was forgotten."""
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
    """Return the versions of what the numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def machine() -> dict[str, Any]:
    """Return what kind of machine this is, and not which."""
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
    """Return twelve characters that stand for the package's code as it is."""
    root = Path(coterie.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]

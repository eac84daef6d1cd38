"""An hour of fits, predictions, saves and loads of varying size: memory must not grow.

    python benchmarks/long_run.py --minutes 60

Every half minute the garbage is collected, freed memory is given back to the system, and the process's resident memory
is written down. Two things that others keep for later, and that look like growth until they are full, are filled first:
NumPy's store of small blocks, a few of every size (3.5 MB in all, which fits of varying size fill slowly), and
what the C library keeps for each thread's next request, which is why the largest sizes come first, in every setting.
The first quarter is left out of the judgement. The result is one line of benchmarks/results/long_run.jsonl with the
samples, the slope of a straight line through them, and the verdict.
"""

import argparse
import ctypes
import gc
import os
import re
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import psutil
from scipy import sparse

import coterie
from coterie import GuidedCoTraining
from coterie.bench.measure import machine, source_hash
from coterie.bench.records import append_record
from coterie.datasets import make_views
from coterie.kernels import _numba

HERE = Path(__file__).resolve().parent
WARM_UP = 0.25  # share of the samples that are left out
ALLOWED = 0.03  # growth in an hour, as a share of what is in use


SETTINGS = ({}, {"dtype": "float64"}, {"n_neighbors": 7}, {"basis": "subspace"}, {"block_size": 777})
LARGEST = {"n": 3000, "k": 11, "widths": [60, 60, 60], "n_landmarks": 400}


def largest_first(rng):
    """Yield sizes, settings and kinds of fits: the largest of every sort, and then any."""
    for kind in range(len(KINDS)):
        for more in SETTINGS:
            yield LARGEST, more, kind
    while True:
        size = {
            "n": int(rng.integers(100, LARGEST["n"])),
            "k": int(rng.integers(2, LARGEST["k"])),
            "widths": rng.integers(2, 60, size=rng.integers(1, 4)).tolist(),
            "n_landmarks": int(rng.integers(50, LARGEST["n_landmarks"])),
        }
        yield size, SETTINGS[rng.integers(len(SETTINGS))], int(rng.integers(len(KINDS)))


def one_cycle(size, more, kind, seed, folder):
    """Fit rows of some size and kind, predict, save, load and predict again."""
    n, k = size["n"], size["k"]
    data = make_views(n, k, n_columns=size["widths"], random_state=seed)
    views = {name: KINDS[(kind + v) % len(KINDS)](view) for v, (name, view) in enumerate(data.views.items())}
    model = GuidedCoTraining(k, n_landmarks=min(n, size["n_landmarks"]), n_init=2, random_state=0, **more).fit(views)
    again = coterie.load(coterie.save(model, folder / "model.coterie")).predict(views)
    if not (again == model.labels_).all():
        raise AssertionError("A loaded model predicts other labels.")


KINDS = (
    lambda view: view.astype(np.float32),
    lambda view: view.astype(np.float64),
    lambda view: view.astype(np.float16),
    lambda view: sparse.csr_array(np.where(view > 0.5, view, 0)),
)


def fill_small_blocks():
    """Let NumPy store as many small blocks of every size as it keeps."""
    blocks = [np.empty(size, dtype=np.uint8) for size in range(1, 1025) for _ in range(8)]
    blocks.clear()


def malloc_in_use(folder):
    """Return the megabytes that were asked for and not freed yet: what malloc keeps for later is not among them."""
    libc = ctypes.CDLL("libc.so.6")
    libc.fopen.restype = ctypes.c_void_p
    path = folder / "malloc.xml"
    file = ctypes.c_void_p(libc.fopen(str(path).encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    whole = path.read_text().rpartition("</heap>")[2]  # the sums over all of malloc's arenas

    def size(kind):
        return int(re.search(rf'type="{kind}"[^/]*size="(\d+)"', whole)[1])

    return round((size("current") - size("fast") - size("rest") + size("mmap")) / 2**20, 3)


def sample(started, cycles, folder):
    """Return what is in use, once all that can be given back is given back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return {
        "malloc_mb": malloc_in_use(folder),
        "minutes": round((time.perf_counter() - started) / 60, 2),
        "cycles": cycles,
        "rss_mb": round(psutil.Process().memory_info().rss / 2**20, 2),
        "python_mb": round(tracemalloc.get_traced_memory()[0] / 2**20, 2),
        "threads": threading.active_count(),
        "compiled": sum(len(getattr(kernel, "signatures", ())) for kernel in vars(_numba).values()),
        "objects": len(gc.get_objects()),
    }


def slope_of(samples, name):
    """Return how much a number grows in an hour, by a straight line through the samples behind the warm-up."""
    kept = samples[int(WARM_UP * len(samples)) :]
    minutes, values = (np.array([line[key] for line in kept]) for key in ("minutes", name))
    return 60 * float(np.polyfit(minutes, values, 1)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=30, help="seconds between samples")
    parser.add_argument("--trace", action="store_true", help="also count what Python allocates, which is slow")
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    if args.trace:
        tracemalloc.start()
    fill_small_blocks()
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    samples, cycles, fits = [], 0, largest_first(rng)
    with tempfile.TemporaryDirectory() as folder:
        while time.perf_counter() - started < 60 * args.minutes:
            one_cycle(*next(fits), cycles, Path(folder))
            cycles += 1
            if time.perf_counter() - started >= args.every * (len(samples) + 1):
                samples.append(sample(started, cycles, Path(folder)))
                print(samples[-1], flush=True)
    growth = slope_of(samples, "rss_mb")
    share = growth / samples[-1]["rss_mb"]
    record = {
        "minutes": args.minutes,
        "cycles": cycles,
        "growth_mb_an_hour": round(growth, 2),
        "growth_share_an_hour": round(share, 4),
        "flat": bool(share < ALLOWED),
        "malloc_growth_mb_an_hour": round(slope_of(samples, "malloc_mb"), 3),
        "python_growth_mb_an_hour": round(slope_of(samples, "python_mb"), 2) if args.trace else None,
        "arena_max": os.environ.get("MALLOC_ARENA_MAX"),
        "samples": samples,
        "code": {"version": coterie.__version__, "source": source_hash()},
        "machine": machine(),
    }
    print({key: value for key, value in record.items() if key != "samples"})
    if not args.dry:
        append_record(HERE / "results" / "long_run.jsonl", record)
    sys.exit(not record["flat"])


if __name__ == "__main__":
    main()

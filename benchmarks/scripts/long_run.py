"""Two hours of fits, predictions, reports, models and resumed jobs: memory must not grow, and nothing may leak.

    python -m benchmarks.scripts.long_run --minutes 120

Forty fits of different sizes, types and settings are repeated, always the same ones in the same order: every model is
saved, loaded and predicts; some write a report, some run under a memory limit, and some are stopped between two stages
and resumed. After every round, threads, open files and temporary files are counted: there must never be more than after
the first.

Before counting, garbage is collected, freed memory is returned to the system, and two numbers are recorded: the
process's resident memory, and the memory allocated by malloc and not freed. A leak in a fit increases both by the same
amount every round; malloc's caches and fragmentation increase only the first, more and more slowly. Therefore growth is
estimated from the second half of the rounds, by the median of the slopes between all pairs of samples, which is robust
to a single jump. Fits of random sizes would not do, because they reach new peaks of memory for hours. NumPy's cache of
small blocks (3.5 MB) is filled first. Labels must be those of the first round, every time. The result is one line of
benchmarks/results/long_run.jsonl, rewritten after every round, so that a stopped run has a result, too.
"""

import argparse
import ctypes
import gc
import json
import re
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
from scipy import sparse
from scipy.stats import theilslopes

import coterie
from benchmarks.campaigns import RESULTS, code
from benchmarks.measure import machine
from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.files import write_text
from coterie.kernels import _numba
from coterie.progress import listening

LENGTH = 40  # fits in a round
ALLOWED = {"resident_mb": 0.03, "in_use_mb": 0.01}  # growth in an hour, as a share of the last sample

SETTINGS = ({}, {"dtype": "float64"}, {"n_neighbors": 7}, {"basis": "subspace"}, {"block_size": 777})
LIMITED, RESUMED, REPORTED = 4, 5, 6  # every fourth fit is under a memory limit, and so on
LEFT = ("threads", "open_files", "temporary_files")
LEAST_SAMPLES = 4  # enough for a slope in each half


def fits_of_a_round():
    """Return the sizes, settings and kinds of rows of the fits in a round."""
    rng = np.random.default_rng(0)
    fits = []
    for number in range(LENGTH):
        size = {
            "n": int(rng.integers(100, 3000)),
            "k": int(rng.integers(2, 11)),
            "widths": rng.integers(2, 60, size=rng.integers(1, 4)).tolist(),
            "n_landmarks": int(rng.integers(50, 400)),
        }
        fits.append((size, SETTINGS[number % len(SETTINGS)], number // len(SETTINGS)))
    return fits


def one_cycle(size, more, kind, seed, folder):
    """Fit rows of some size and kind, predict, save, load and predict again; return the labels."""
    n, k = size["n"], size["k"]
    data = make_views(n, k, n_columns=size["widths"], random_state=seed)
    views = {name: KINDS[(kind + v) % len(KINDS)](view) for v, (name, view) in enumerate(data.views.items())}
    model = GuidedCoTraining(k, n_landmarks=min(n, size["n_landmarks"]), n_init=2, random_state=0, **more)
    if seed % LIMITED == 0:
        model.set_params(memory_limit="1GB")
    if seed % RESUMED == 0:
        stop_half_way(model.set_params(work_dir=folder / "work"), views)
    model.fit(views)
    if seed % REPORTED == 0:
        model.report(folder / "report.html", views)
    again = coterie.load(coterie.save(model, folder / "model.coterie")).predict(views)
    if not (again == model.labels_).all():
        raise AssertionError("A loaded model predicts other labels.")
    return model.labels_


class Stopped(Exception):
    pass


def stop_half_way(model, views):
    """Fit, and stop when the rounds begin; the finished stages are in the job's folder."""

    def stop(stage):
        if stage == "rounds":
            raise Stopped

    with suppress(Stopped), listening(stop):
        model.fit(views)


def one_round(fits, folder):
    """Return the labels of all fits, as bytes."""
    return b"".join(one_cycle(*fit, number, folder).tobytes() for number, fit in enumerate(fits))


KINDS = (
    lambda view: view.astype(np.float32),
    lambda view: view.astype(np.float64),
    lambda view: view.astype(np.float16),
    lambda view: sparse.csr_array(np.where(view > 0.5, view, 0)),
)


def fill_small_blocks():
    """Fill NumPy's cache of small blocks of every size."""
    blocks = [np.empty(size, dtype=np.uint8) for size in range(1, 1025) for _ in range(8)]
    blocks.clear()


def malloc_in_use(folder):
    """Return the megabytes that are allocated and not freed, without malloc's caches."""
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


def sample(started, rounds, folder):
    """Return the memory, threads and files in use, after freeing as much memory as possible."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return {
        "minutes": round((time.perf_counter() - started) / 60, 2),
        "rounds": rounds,
        "resident_mb": round(psutil.Process().memory_info().rss / 2**20, 2),
        "in_use_mb": malloc_in_use(folder),
        "threads": threading.active_count(),
        "open_files": psutil.Process().num_fds(),
        "temporary_files": sum(1 for path in Path(tempfile.gettempdir()).rglob("*") if folder not in path.parents) - 1,
        "compiled": sum(len(getattr(kernel, "signatures", ())) for kernel in vars(_numba).values()),
        "objects": len(gc.get_objects()),
    }


def growth_an_hour(samples, name):
    """Return the growth of a number per hour, by the median slope over all pairs of samples."""
    minutes, values = (np.array([line[key] for line in samples]) for key in ("minutes", name))
    return 60 * float(theilslopes(values, minutes).slope)


def record_of(samples):
    """Return the record of the rounds so far: growth in their second half, and leaked resources."""
    judged = samples[len(samples) // 2 :]
    growth = {key: growth_an_hour(judged, key) for key in ALLOWED}
    share = {key: growth[key] / samples[-1][key] for key in ALLOWED}
    return {
        "minutes": samples[-1]["minutes"],
        "rounds": samples[-1]["rounds"],
        "fits": samples[-1]["rounds"] * LENGTH,
        "growth_mb_an_hour": {key: round(value, 3) for key, value in growth.items()},
        "growth_share_an_hour": {key: round(value, 5) for key, value in share.items()},
        "first_half_mb_an_hour": {key: round(growth_an_hour(samples[: -len(judged)], key), 3) for key in ALLOWED},
        "flat": all(share[key] < ALLOWED[key] for key in ALLOWED),
        "left": {key: max(line[key] for line in samples) - samples[0][key] for key in LEFT},
        "samples": samples,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # random rows have duplicates and graphs of several components
    fill_small_blocks()
    file = args.results / "long_run.jsonl"
    earlier = file.read_text() if file.exists() else ""
    told = {"code": code(), "machine": machine()}  # computed before the run, as source files may change meanwhile
    started = time.perf_counter()
    fits, samples, record = fits_of_a_round(), [], {}
    with tempfile.TemporaryDirectory() as name:
        tempfile.tempdir = name  # all temporary files go here, so that leaked ones are counted
        folder = Path(name) / "own"
        folder.mkdir()
        first = one_round(fits, folder)
        while time.perf_counter() - started < 60 * args.minutes:
            if one_round(fits, folder) != first:
                raise AssertionError("A round gives other labels than the first.")
            samples.append(sample(started, len(samples) + 2, folder))
            print(samples[-1], flush=True)
            if len(samples) < LEAST_SAMPLES:
                continue
            record = {**record_of(samples), **told}
            if not args.dry:
                write_text(file, earlier + json.dumps(record, sort_keys=True) + "\n")
    print({key: value for key, value in record.items() if key != "samples"})
    sys.exit(not record or not record["flat"] or any(record["left"].values()))


if __name__ == "__main__":
    main()

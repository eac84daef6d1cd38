"""Times of fits by number of threads, stage by stage.

    python -m benchmarks.scripts.threads --threads 1 2 4 8 16
    python -m benchmarks.scripts.threads --sets images few --repeats 5

The same rows are fitted with every number of threads: a million of 448 columns, rows of MNIST's shape, and a few
thousand of six views. Each record also has the time of the product of the rows with 1,000 landmarks on as many threads,
measured just before in the same process. Labels must be the same with every number of threads. Each record is one line
of benchmarks/results/threads.jsonl: seconds and stages of the repeat with the median time.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import coterie
from benchmarks.measure import machine, source_hash, versions
from benchmarks.records import append_record
from benchmarks.timing import BareProduct, synthetic_rows
from coterie import GuidedCoTraining

HERE = Path(__file__).resolve().parents[1]
LANDMARKS = 1000

# Name -> rows, columns of the views, clusters; the rows are synthetic, so no files are needed.
SETS = {
    "million": (1_000_000, (256, 128, 64), 20),
    "images": (70_000, (784, 512, 81), 10),  # MNIST's shape
    "few": (2_000, (216, 76, 64, 6, 240, 47), 10),  # UCI's shape
}
SETTINGS = {"default": {}, "as published": {"basis": "subspace", "measure_stability": False}}


def fit(views, n_clusters, n_threads, settings):
    """Return the seconds of a fit, the seconds of its stages, and its labels."""
    started = time.perf_counter()
    model = GuidedCoTraining(n_clusters, n_jobs=n_threads, random_state=0, **settings).fit(views)
    return time.perf_counter() - started, model.timings_, model.labels_


def measure(name, settings_name, n_threads, data, n_clusters, repeats):
    """Return the record of one number of threads, and the labels."""
    product = BareProduct.of(data.views, LANDMARKS)
    with threadpool_limits(n_threads):
        product_seconds = product.seconds().wall
    fits = [fit(data.views, n_clusters, n_threads, SETTINGS[settings_name]) for _ in range(repeats)]
    seconds, stages, labels = sorted(fits, key=lambda one: one[0])[(repeats - 1) // 2]
    record = {
        "method": f"Coterie, {settings_name}",
        "data": name,
        "seed": 0,
        "threads": n_threads,
        "seconds": round(seconds, 3),
        "product_seconds": round(product_seconds, 3),
        "stages": {stage: round(value, 3) for stage, value in stages.items()},
        "n_rows": len(data.target),
        "settings": {"threads": n_threads, "columns": SETS[name][1]},
        "versions": versions(),
        "machine": machine(),
        "code": {"version": coterie.__version__, "source": source_hash()},
    }
    return record, labels


def main(arguments=None):
    """Measure all numbers of threads on all sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", default=HERE / "results" / "threads.jsonl")
    chosen = parser.parse_args(arguments)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in chosen.sets:
        n_rows, columns, n_clusters = SETS[name]
        data = synthetic_rows(n_rows, columns, n_clusters)
        for settings_name in chosen.settings:
            fit({view: rows[:3000] for view, rows in data.views.items()}, n_clusters, 1, SETTINGS[settings_name])
            first = None
            for n_threads in [number for number in chosen.threads if number <= cores]:
                record, labels = measure(name, settings_name, n_threads, data, n_clusters, chosen.repeats)
                if first is not None and not np.array_equal(labels, first):
                    raise AssertionError(f"{name}, {settings_name}: {n_threads} threads lead to other labels.")
                first = labels
                append_record(chosen.results, record)
                stages = ", ".join(f"{stage} {value}" for stage, value in record["stages"].items() if value >= 0.01)
                print(f"{name:8} {settings_name:13} {n_threads:3} threads {record['seconds']:8.2f} s ", end="")
                print(f"(one product {record['product_seconds']:.2f} s)  {stages}", flush=True)


if __name__ == "__main__":
    main()

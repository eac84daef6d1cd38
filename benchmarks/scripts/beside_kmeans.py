"""Fits of few rows or many clusters, beside scikit-learn's k-means with ten restarts on the concatenation.

    python -m benchmarks.scripts.beside_kmeans
    python -m benchmarks.scripts.beside_kmeans --sets uci 100leaves --repeats 5
    python -m benchmarks.scripts.beside_kmeans --sets thousand

Both alternate in one process, so that other work on the machine slows both; the ratio is the median over the repeats,
in wall-clock time and in processor time. "thousand" is a fit of 1,000 clusters without k-means, which would take an
hour with ten restarts; its memory beyond the input is recorded. Each set is one line of
benchmarks/results/beside_kmeans.jsonl.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import coterie
from benchmarks.data import load_data
from benchmarks.libraries import side_by_side
from benchmarks.measure import MEGABYTE, machine, peak_memory, source_hash, start_of_peak, versions
from benchmarks.records import append_record
from benchmarks.timing import Seconds, timed_call
from coterie import GuidedCoTraining, metrics
from coterie.datasets import make_views

HERE = Path(__file__).resolve().parents[1]
REAL = ("uci", "100leaves")
# Name -> rows, columns of the views, clusters.
MADE = {
    "blobs, 50 clusters": (20_000, (32, 32, 32), 50),
    "blobs, 100 clusters": (20_000, (32, 32, 32), 100),
    "blobs, 200 clusters": (20_000, (32, 32, 32), 200),
}
THOUSAND = (100_000, (64,), 1000)


def load(name):
    """Return a data set by name."""
    if name in REAL:
        return load_data(name)
    n_rows, columns, k = THOUSAND if name == "thousand" else MADE[name]
    return make_views(n_rows, k, n_columns=columns, random_state=7)


def measure(name, repeats):
    """Return the record of one set."""
    data = load(name)
    k = len(np.unique(data.target))
    table = side_by_side(data.views)
    warm_up(data, k)
    fits, others, peaks = [], [], []
    for seed in range(1 if name == "thousand" else repeats):
        before = start_of_peak()
        fits.append(timed_fit(GuidedCoTraining(k, random_state=seed), data.views))
        peaks.append(peak_memory() - before)
        if name != "thousand":
            others.append(timed_fit(KMeans(k, n_init=10, random_state=seed), table))
    return as_record(name, data, k, fits, others, max(peaks))


def timed_fit(model, rows):
    """Return the duration of a fit, and the model."""
    return timed_call(lambda: model.fit(rows))


def warm_up(data, k):
    """Load the compiled kernels."""
    GuidedCoTraining(min(k, 20), random_state=0).fit({view: rows[:1500] for view, rows in data.views.items()})


def as_record(name, data, k, fits, others, peak):
    """Return one line of the results."""
    record = {
        "method": "Coterie",
        "data": name,
        "seed": 0,
        "n_rows": len(data.target),
        "n_clusters": k,
        "seconds": [round(seconds.wall, 3) for seconds, _ in fits],
        "cpu_seconds": [round(seconds.cpu, 3) for seconds, _ in fits],
        "stages": {stage: round(value, 3) for stage, value in fits[-1][1].timings_.items()},
        "NMI": [round(metrics.nmi(data.target, model.labels_), 4) for _, model in fits],
        "peak_mb": round(peak / MEGABYTE, 1),
        "settings": {"repeats": len(fits)},
        "versions": versions(),
        "machine": machine(),
        "code": {"version": coterie.__version__, "source": source_hash()},
    }
    if others:
        pairs = [(own, other) for (own, _), (other, _) in zip(fits, others, strict=True)]
        record["kmeans_seconds"] = [round(other.wall, 3) for _, other in pairs]
        record["kmeans_NMI"] = [round(metrics.nmi(data.target, model.labels_), 4) for _, model in others]
        record["ratio"] = ratio(pairs, "wall")
        record["cpu_ratio"] = ratio(pairs, "cpu")
    return record


def ratio(pairs: list[tuple[Seconds, Seconds]], clock: str) -> float:
    """Return the median ratio of the two times of each repeat."""
    return round(float(np.median([getattr(own, clock) / getattr(other, clock) for own, other in pairs])), 3)


def main(arguments=None):
    """Measure the sets that the command line names."""
    names = [*REAL, *MADE, "thousand"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", default=HERE / "results" / "beside_kmeans.jsonl")
    chosen = parser.parse_args(arguments)
    for name in chosen.sets:
        record = measure(name, chosen.repeats)
        append_record(chosen.results, record)
        shown = ("seconds", "kmeans_seconds", "ratio", "cpu_ratio", "NMI", "kmeans_NMI", "peak_mb")
        print(name, {key: record[key] for key in shown if key in record}, flush=True)


if __name__ == "__main__":
    main()

"""Touching clusters, mostly of unequal size, and data without clusters: does using stability to choose a basis help?

    python -m benchmarks.scripts.replication --draws 4 --jobs 16

Every shape of touching clusters is fitted with the defaults, with the basis chosen by the views' agreement alone, with
each basis, as published, and by k-means; data without clusters are fitted with the defaults. Each draw of a shape is
one line of benchmarks/results/replication.jsonl.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.measure import machine, source_hash
from benchmarks.records import append_record
from benchmarks.shapes import make_blobs
from coterie import GuidedCoTraining
from coterie.method import candidates
from coterie.metrics import ari
from coterie.peers import ConcatKMeans

RESULTS = Path(__file__).resolve().parents[1] / "results" / "replication.jsonl"

# Rows of each cluster, columns of each view, and the distance between the nearest centres.
TOUCHING = (
    ((1350, 150), (6, 4), 2.5), ((510, 90), (6, 4), 2.5), ((1380, 120), (8,), 3.2), ((1350, 150), (5, 5, 5), 2.0),
    ((450, 50), (3,), 3.2), ((720, 360, 120), (10,), 3.4), ((960, 120, 120), (4, 4), 2.5), ((900, 100), (20, 10), 3.2),
    ((1050, 450), (12, 6), 3.0), ((900, 600), (8, 8), 2.5), ((1600, 400), (15,), 3.5), ((2000, 375, 125), (6, 6), 3.0),
    ((1800, 600, 360, 240), (10, 10, 10), 2.5), ((1000, 600, 300, 100), (5,), 3.3), ((2850, 150), (30, 20), 4.0),
    ((264, 36), (4, 3), 3.0), ((850, 150), (2, 2), 3.0), ((750, 450, 150, 150), (25,), 3.6),
)  # fmt: skip

# Distribution of the rows, columns of each view, number of rows, and number of clusters asked for.
WITHOUT = (
    ("gaussian", (6, 4), 800, 2), ("gaussian", (6,), 800, 2), ("gaussian", (3,), 800, 3), ("heavy", (6, 4), 800, 2),
    ("heavy", (5,), 800, 2), ("uniform", (4, 3), 800, 3), ("gaussian", (20, 10), 1500, 5), ("skewed", (6, 4), 1000, 2),
    ("gaussian", (30,), 500, 2), ("gaussian", (4, 3), 200, 2), ("gaussian", (50, 30), 3000, 10),
    ("gaussian", (10,), 3000, 20), ("uniform", (10, 8), 4000, 8), ("gaussian", (2, 2), 2000, 4),
    ("gaussian", (100,), 1000, 6), ("uniform", (2,), 1500, 5),
)  # fmt: skip
DRAWS = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape),
    "skewed": lambda rng, shape: rng.exponential(size=shape),
}
BASES = ("diffusion", "commute", "islands")


def fit(model, views):
    """Return the fitted model, and whether it warned that clusters do not replicate."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(views)
    return model, any("do not replicate" in str(warning.message) for warning in heard)


def by_agreement_alone(k, seed, views):
    """Return the labels of a fit that chooses the basis without stability."""
    level, candidates.REPLICATED = candidates.REPLICATED, -1.0
    try:
        return fit(GuidedCoTraining(k, random_state=seed, n_jobs=1), views)[0].labels_
    finally:
        candidates.REPLICATED = level


def measure_touching(number, seed):
    """Return the record of one draw of a shape."""
    sizes, columns, gap = TOUCHING[number]
    data, k = make_blobs(sizes, columns, seed, gap=gap), len(sizes)
    model, warned = fit(GuidedCoTraining(k, random_state=seed, n_jobs=1), data.views)
    labels = {"default": model.labels_, "by agreement": by_agreement_alone(k, seed, data.views)}
    labels |= {
        basis: GuidedCoTraining(k, basis=basis, random_state=seed, n_jobs=1).fit(data.views).labels_ for basis in BASES
    }
    labels["published"] = GuidedCoTraining.as_published(k, random_state=seed, n_jobs=1).fit(data.views).labels_
    labels["k-means"] = ConcatKMeans(k, scaling="standard", random_state=seed).fit_predict(data.views)
    found = {name: round(ari(data.target, own), 4) for name, own in labels.items()}
    about = {"kind": "touching", "shape": number, "seed": seed, "n_views": len(columns), "n_clusters": k}
    return {**about, "stability": round(model.stability_, 4), "warned": warned, "ari": found}


def measure_without(number, seed):
    """Return the record of one draw of data without clusters."""
    kind, columns, n_rows, k = WITHOUT[number]
    rng = np.random.default_rng([seed, number])
    views = [DRAWS[kind](rng, (n_rows, width)) for width in columns]
    model, warned = fit(GuidedCoTraining(k, random_state=seed, n_jobs=1), views)
    about = {"kind": "without", "shape": number, "seed": seed, "n_views": len(columns), "n_clusters": k}
    return {**about, "stability": round(model.stability_, 4), "warned": warned}


def measure(task):
    """Return one line of the results."""
    kind, number, seed = task
    record = (measure_touching if kind == "touching" else measure_without)(number, seed)
    return {**record, "machine": machine(), "code": {"source": source_hash()}}


def main(arguments=None):
    """Measure all shapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    shapes = [("touching", number) for number in range(len(TOUCHING))]
    shapes += [("without", number) for number in range(len(WITHOUT))]
    tasks = [(*shape, seed) for seed in range(chosen.draws) for shape in shapes]
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        for record in pool.map(measure, tasks):
            append_record(chosen.results, record)


if __name__ == "__main__":
    main()

"""Measure the multi-view peers on UCI's digits: ACC, NMI, ARI and seconds, one line per seed.

    python benchmarks/peers_uci.py CoTraining RMSC --seeds 5

Rows are shuffled first. Methods that compare all pairs of rows use the seed only for k-means and for the sample of the
median distance: their embedding is computed once, and only k-means is run with each seed. Seconds are processor time of
one fit: the time that it would take on a core of its own.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from coterie import peers
from coterie.datasets import load_views
from coterie.metrics import ari, clustering_accuracy, nmi
from coterie.peers._common import cut, unit_rows

RESULTS = Path(__file__).parent / "results" / "peers.jsonl"
SHUFFLE = 0  # seed of the order of rows

# Published figures are means over single starts of k-means; our classes keep the best of ten.
SINGLE_START = "one start of k-means from random rows a seed"
REPORTED = ("CoTraining", "CoRegularised, pairwise", "CoRegularised, centroid", "AASC", "MSCMO")
# The settings in the table trial_aasc with which AASC comes nearest to its published figure.
LOCAL_START = f"local scales, unit rows, {SINGLE_START}"
RECUT = "embedding made once, k-means seeded"


@dataclass(frozen=True)
class Entry:
    """A method and how it is measured."""

    estimator: str
    params: dict[str, Any] = field(default_factory=dict)
    recut: bool = True  # compute the embedding once, as it hardly depends on the seed


ENTRIES = {
    "CoTraining": Entry("CoTraining"),
    "CoRegularised, pairwise": Entry("CoRegularised"),
    "CoRegularised, centroid": Entry("CoRegularised", {"kind": "centroid"}),
    "AASC": Entry("AASC"),
    "MultipleKernelLaplacian": Entry("MultipleKernelLaplacian"),
    "RMSC": Entry("RMSC"),
    "MMSC": Entry("MMSC", recut=False),
    "MSCMO": Entry("MSCMO"),
    "MultiNMF": Entry("MultiNMF", recut=False),
    "LTMSC": Entry("LTMSC"),
    "DiMSC": Entry("DiMSC"),
    "ExactGuidedCoTraining": Entry("ExactGuidedCoTraining"),
    "MVSCB": Entry("MVSCB", {"n_jobs": 1}, recut=False),
}


def main() -> None:
    """Measure the methods that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=list(ENTRIES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-home", type=Path)
    arguments = parser.parse_args()
    data = load_views("mfeat", data_home=arguments.data_home)
    classes = np.asarray(data.target)
    order = np.random.default_rng(SHUFFLE).permutation(len(classes))
    views, target = {name: table[order] for name, table in data.views.items()}, classes[order]
    for method in arguments.methods:
        for record in measure(method, views, target, arguments.seeds):
            write(record)


def measure(method: str, views: dict[str, np.ndarray], target: np.ndarray, seeds: int) -> list[dict[str, Any]]:
    """Return the records of one method."""
    entry = ENTRIES[method]
    if not entry.recut:
        return [score(method, seed, target, *fit(entry, views, seed)[1:]) for seed in range(seeds)]
    model, labels, seconds = fit(entry, views, 0)
    records = [score(method, 0, target, labels, seconds)]
    for seed in range(1, seeds):
        again = cut(model.embedding_, model.n_clusters, model.n_init, np.random.default_rng(seed))
        records.append(score(method, seed, target, again, seconds, RECUT))
    if method in REPORTED:
        records += single_starts(method, model.embedding_, target, seconds, SINGLE_START)
    if method == "AASC":
        local, _, seconds = fit(Entry("AASC", {"bandwidth": "local"}), views, 0)
        records += single_starts(method, unit_rows(local.embedding_), target, seconds, LOCAL_START)
    return records


def single_starts(
    method: str, embedding: np.ndarray, target: np.ndarray, seconds: float, note: str
) -> list[dict[str, Any]]:
    """Return twenty records of an embedding, each clustered by a single start of k-means."""
    k = embedding.shape[1]
    cuts = (KMeans(k, init="random", n_init=1, random_state=seed).fit_predict(embedding) for seed in range(20))
    return [score(method, seed, target, labels, seconds, note) for seed, labels in enumerate(cuts)]


def fit(entry: Entry, views: dict[str, np.ndarray], seed: int) -> tuple[Any, np.ndarray, float]:
    """Return the fitted model, its labels, and the processor seconds of the fit."""
    model = getattr(peers, entry.estimator)(10, random_state=seed, **entry.params)
    start = time.process_time()
    model.fit(views)
    return model, model.labels_, time.process_time() - start


def score(
    method: str, seed: int, target: np.ndarray, labels: np.ndarray, seconds: float, note: str = ""
) -> dict[str, Any]:
    """Return one record."""
    figures = {
        "acc": round(clustering_accuracy(target, labels), 4),
        "nmi": round(nmi(target, labels), 4),
        "ari": round(ari(target, labels), 4),
    }
    return {"method": method, "data": "uci", "seed": seed, **figures, "seconds": round(seconds, 1), "note": note}


def write(record: dict[str, Any]) -> None:
    """Append one line."""
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()

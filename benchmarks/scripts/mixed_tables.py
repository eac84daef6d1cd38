"""Tables of measured columns beside columns of two values: how far apart may the two values be?

    python -m benchmarks.scripts.mixed_tables --draws 30 --jobs 2

In one family of tables the measured columns show the clusters, and yes/no columns and categories are partly random; in
the other, yes/no columns show them, and the measured ones hardly do. Every table is one view. It is fitted with several
values of ``LARGEST_GAP``, without it, and by k-means on standardised columns. Each draw of a table is one line of
benchmarks/results/mixed_tables.jsonl.
"""

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.measure import machine, source_hash
from benchmarks.records import append_record
from coterie import GuidedCoTraining
from coterie.metrics import ari
from coterie.peers import ConcatKMeans
from coterie.views import preparation

RESULTS = Path(__file__).resolve().parents[1] / "results" / "mixed_tables.jsonl"
GAPS = (np.inf, 1.4, 1.0, 0.7, 0.5, 0.35)


def measured(rng, target, n_columns, separation):
    """Return normal columns in units of their own, whose means differ by cluster."""
    centers = separation * rng.standard_normal((target.max() + 1, n_columns))
    return (centers[target] + rng.standard_normal((len(target), n_columns))) * 10 ** rng.uniform(-1, 2, n_columns)


def answers(rng, shares):
    """Return a yes/no column, given every row's chance of a yes."""
    return (rng.random(len(shares)) < shares)[:, None]


def categories(rng, target, concentration):
    """Return a category of three to six values as 0/1 columns: random, or with other shares in every cluster."""
    count = rng.integers(3, 7)
    shares = rng.dirichlet(np.full(count, concentration or 1.0), size=target.max() + 1)
    drawn = [rng.choice(count, p=shares[own] if concentration else None) for own in target]
    return np.eye(count)[drawn]


def numbers_matter(rng):
    """Return a table whose measured columns show the clusters, and its clusters."""
    k, n_columns = rng.integers(3, 9), rng.integers(2, 16)
    target = rng.choice(k, size=rng.choice([600, 1500, 4000]), p=rng.dirichlet(np.full(k, 5.0)))
    parts = [measured(rng, target, n_columns, rng.uniform(1.5, 4) * np.sqrt(6 / n_columns))]
    kinds = {
        "random answer": lambda: answers(rng, np.full(len(target), rng.uniform(0.05, 0.95))),
        "answer": lambda: answers(rng, rng.random(k)[target]),
        "random category": lambda: categories(rng, target, None),
        "category": lambda: categories(rng, target, 0.5),
    }
    parts += [kinds[name]() for name in rng.choice(list(kinds), size=rng.integers(1, 5))]
    return np.column_stack(parts).astype(float), target


def answers_matter(rng):
    """Return a table whose yes/no columns show the clusters, and its clusters."""
    k = rng.integers(3, 7)
    target = rng.choice(k, size=rng.choice([600, 1500, 4000]), p=rng.dirichlet(np.full(k, 8.0)))
    shares = rng.choice([0.08, 0.92], size=(k, rng.integers(4, 13)))
    parts = [measured(rng, target, rng.integers(2, 10), rng.uniform(0.3, 1.2))]
    parts += [answers(rng, own[target]) for own in shares.T]
    return np.column_stack(parts).astype(float), target


FAMILIES = {"numbers": numbers_matter, "answers": answers_matter}


def measure(family, seed):
    """Return the record of one table."""
    warnings.simplefilter("ignore", UserWarning)  # some clusters do not replicate, which is what is measured
    table, target = FAMILIES[family](np.random.default_rng((seed, list(FAMILIES).index(family))))
    k, given, found = len(np.unique(target)), preparation.LARGEST_GAP, {}
    try:
        for gap in GAPS:
            preparation.LARGEST_GAP = gap
            found[str(gap)] = ari(target, GuidedCoTraining(k, random_state=seed, n_jobs=1).fit(table).labels_)
    finally:
        preparation.LARGEST_GAP = given
    found["k-means"] = ari(target, ConcatKMeans(k, scaling="standard", random_state=seed).fit_predict([table]))
    about = {"family": family, "seed": seed, "n_rows": len(table), "n_columns": table.shape[1], "n_clusters": k}
    return {**about, "ari": {name: round(float(value), 4) for name, value in found.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    told = {"code": {"source": source_hash()}, "machine": machine()}
    tasks = [(family, seed) for family in FAMILIES for seed in range(args.first, args.first + args.draws)]
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for record in pool.map(measure, *zip(*tasks, strict=True)):
            append_record(RESULTS, {**record, **told})
            print(record, flush=True)


if __name__ == "__main__":
    main()

"""Real data, with the figures that users were promised."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from coterie import GuidedCoTraining
from coterie.datasets import load_views
from coterie.metrics import ari, clustering_accuracy, nmi


def scores(make, data, seeds):
    labels = [make(seed).fit(data.views).labels_ for seed in seeds]
    return np.array([(clustering_accuracy(data.target, found), nmi(data.target, found)) for found in labels])


def test_defaults_on_mfeat(mfeat):
    accuracy, information = scores(lambda seed: GuidedCoTraining(10, random_state=seed), mfeat, range(3)).mean(axis=0)
    assert accuracy >= 0.965
    assert information >= 0.925


def test_published_settings_on_mfeat(mfeat):
    """In the median: one seed in ten or so ends with two classes merged (see the manual's benchmarks)."""
    found = scores(lambda seed: GuidedCoTraining.as_published(10, random_state=seed), mfeat, range(3))
    accuracy, information = np.median(found, axis=0)
    assert accuracy >= 0.955
    assert information >= 0.905


@pytest.mark.parametrize("name", ["bbcsport", "mfeat"])
def test_the_order_of_rows_changes_no_more_than_a_seed_does(name, data_folder):
    """Files are often sorted by class, and some published methods lean on it."""
    data = load_views(name, data_home=data_folder)
    kept = np.flatnonzero(np.arange(len(data.target)) % max(len(data.target) // 600, 1) == 0)  # sorted as they are
    views, k = {view: table[kept] for view, table in data.views.items()}, len(np.unique(data.target))

    def fit(seed, order=slice(None)):
        return GuidedCoTraining(k, random_state=seed).fit_predict({view: table[order] for view, table in views.items()})

    plain = [fit(seed) for seed in range(3)]
    between_seeds = [ari(one, other) for one, other in combinations(plain, 2)]
    orders = [np.random.default_rng(seed).permutation(len(kept)) for seed in range(2)]
    moved = [ari(plain[seed][order], fit(seed, order)) for seed, order in enumerate(orders)]
    assert np.mean(moved) > min(between_seeds) - 0.02


def test_the_very_first_fit_compiles_in_seconds(tmp_path):
    code = """
import time
from coterie import GuidedCoTraining
from coterie.datasets import make_views
views = make_views(300, 3, random_state=0).views
started = time.process_time()
GuidedCoTraining(3, random_state=0).fit(views)
first = time.process_time() - started
started = time.process_time()
GuidedCoTraining(3, random_state=0).fit(views)
print(first - (time.process_time() - started))
"""
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""},
    )
    assert float(out.stdout) < 20  # seconds of processor time; 13 on a quiet machine

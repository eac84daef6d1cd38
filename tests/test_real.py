"""Real data, with the figures that users were promised."""

import subprocess
import sys

import numpy as np

from coterie import GuidedCoTraining
from coterie.metrics import clustering_accuracy, nmi


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
    assert float(out.stdout) < 10  # seconds of processor time

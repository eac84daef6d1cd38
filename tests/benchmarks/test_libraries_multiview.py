"""Rows of other packages, where they are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from coterie.datasets import make_views
from coterie.metrics import ari

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def libraries():
    if not BENCHMARKS.is_dir():
        pytest.skip("needs the sources of the benchmarks")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import libraries_multiview
    finally:
        sys.path.remove(str(BENCHMARKS))
    return libraries_multiview


@pytest.mark.parametrize(
    "name", ["SNF (snfpy)", "WNN + Leiden (muon)", "Co-training (mvlearn)", "Co-regularised (mvlearn)"]
)
def test_easy_clusters_are_found(name, libraries):
    if reason := libraries.missing(name):
        pytest.skip(reason)
    data = make_views(300, 3, n_columns=(12, 10), separation=6, random_state=0)
    labels = libraries.make_library(name, 3, 0).fit_predict(data.views)
    assert ari(data.target, labels) > 0.9


def test_what_cannot_be_imported_has_a_reason(libraries, monkeypatch):
    monkeypatch.setitem(libraries.LIBRARIES, "other", (("no_such_package",), libraries.Snf))
    assert libraries.missing("other") == "no_such_package cannot be imported (No module named 'no_such_package')"


def test_the_resolution_is_searched_for(libraries):
    asked = []

    def cluster(resolution):
        asked.append(resolution)
        return np.arange(100) % max(int(20 * resolution), 1)

    assert len(np.unique(libraries.nearest_resolution(cluster, 7, 20))) == 7
    assert len(asked) < 20

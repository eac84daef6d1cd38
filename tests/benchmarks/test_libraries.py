"""Rows of other packages, where they are installed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from benchmarks.libraries import LIBRARIES, make_clustering, nearest_resolution, side_by_side, why_not
from coterie.datasets import make_views
from coterie.metrics import ari


@pytest.mark.parametrize("method", LIBRARIES, ids=lambda method: method.name)
def test_easy_clusters_are_found(method):
    if reason := why_not(method):
        pytest.skip(reason)
    data = make_views(300, 3, n_columns=(12, 10), separation=6, random_state=0)
    first, second = data.views
    views = {first: data.views[first], second: sparse.csr_array(data.views[second])}
    assert ari(data.target, make_clustering(method, 3, 0).fit_predict(views)) > 0.9


def test_sparse_and_dense_views_stand_side_by_side():
    table = side_by_side({"a": np.ones((2, 1)), "b": sparse.csr_array([[0, 2], [3, 0]])})
    assert table.tolist() == [[1, 0, 2], [1, 3, 0]]


def test_the_resolution_is_searched_for():
    asked = []

    def cluster(resolution):
        asked.append(resolution)
        return np.arange(100) % max(int(20 * resolution), 1)

    assert len(np.unique(nearest_resolution(cluster, 7, 20))) == 7
    assert len(asked) < 20

"""SFMC: the fused graph has exactly k components, and its steps have the properties that define them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components

from coterie.datasets import make_views
from coterie.metrics import clustering_accuracy, nmi
from coterie.peers import SFMC, sfmc


@pytest.mark.parametrize("k", [2, 3, 5])
def test_graph_has_exactly_k_components(k, seed):
    data = make_views(200, k, n_columns=(8, 6), separation=4, random_state=seed)
    model = SFMC(k, n_landmarks=60).fit(data.views)
    n, m = model.graph_.shape
    whole = sparse.block_array([[None, model.graph_], [model.graph_.T, None]], format="csr")
    pieces = connected_components(whole, directed=False)[1]
    assert len(np.unique(pieces[:n])) == k
    assert all(len(np.unique(pieces[:n][model.labels_ == label])) == 1 for label in range(k))
    assert np.allclose(model.graph_.sum(axis=1), 1, atol=1e-5)
    assert sum(model.view_weights_.values()) == pytest.approx(1)
    assert (n, m) == (200, 60)


def test_weights_of_a_row_are_those_of_the_closed_form(rng):
    table, anchors = rng.standard_normal((30, 3)), rng.standard_normal((15, 3))
    ours = sfmc.join(table, anchors, 10, 1)
    for row, weights in zip(table, ours, strict=True):
        squares = ((row - anchors) ** 2).sum(axis=1)
        order = np.argsort(squares)
        d = squares[order]
        wanted = np.zeros(15)
        wanted[order[:10]] = (d[10] - d[:10]) / (10 * d[10] - d[:10].sum())
        assert np.allclose(weights, wanted, atol=1e-6)


def test_alternate_sampling_follows_its_scores():
    table = np.array([[0.0], [1.0], [0.5], [0.9]])
    assert sfmc.alternate_sampling(table, 1).tolist() == [1]
    # s = (0, 1, .5, .9) -> s (1 - s) = (0, 0, .25, .09): the middle comes next, and never a row twice.
    assert sfmc.alternate_sampling(table, 2).tolist() == [1, 2]
    assert sorted(sfmc.alternate_sampling(table, 4).tolist()) == [0, 1, 2, 3]


def test_nearest_graph_is_the_minimum_for_every_row(rng):
    target, rows, anchors = rng.random((4, 6)), rng.standard_normal((4, 2)), rng.standard_normal((6, 2))
    ours = sfmc.nearest_graph(target, rows, anchors, 0.3)
    distances = ((rows[:, None] - anchors) ** 2).sum(axis=2)
    for a, d, p in zip(target, distances, ours, strict=True):
        found = minimize(
            lambda z, a=a, d=d: ((z - a) ** 2).sum() + 0.3 * d @ z,
            np.full(6, 1 / 6),
            bounds=[(0, None)] * 6,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
            options={"ftol": 1e-12},
        )
        assert np.allclose(p, found.x, atol=1e-5)


def test_mfeat_comes_to_the_published_figure(mfeat):
    order = np.random.default_rng(0).permutation(2000)
    labels = SFMC(10).fit_predict({view: table[order] for view, table in mfeat.views.items()})
    assert clustering_accuracy(mfeat.target[order], labels) == pytest.approx(0.853, abs=0.05)
    assert nmi(mfeat.target[order], labels) == pytest.approx(0.871, abs=0.05)

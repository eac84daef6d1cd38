"""AIMC: its objective falls, its steps are those of a plain transcription, and its figure is the published one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from coterie.datasets import make_views
from coterie.metrics import clustering_accuracy, nmi
from coterie.peers import AIMC, aimc


def stacked(rng, n=90, widths=(7, 5), k=3):
    target = rng.integers(0, k, n)
    tables = [rng.standard_normal((n, d)) + 3 * rng.standard_normal((k, d))[target] for d in widths]
    return tables, aimc.StackedViews.of(tables, 1)


def polar(matrix):
    u, _, vt = np.linalg.svd(matrix, full_matrices=False)
    return u @ vt


def test_rounds_match_a_literal_transcription(rng):
    tables, rows = stacked(rng)
    start = [0, 1, 2]
    sums = [t[start].T for t in tables]
    f, a = np.eye(3), np.full(2, 0.5)
    history = []
    for _ in range(5):
        g = [polar(s @ f.T) for s in sums]
        f = polar(sum(w * m.T @ s for w, m, s in zip(a, g, sums, strict=True)))
        costs = sum(
            w * ((t[:, None] - (m @ f).T) ** 2).sum(axis=2) for w, t, m in zip(a, tables, g, strict=True)
        )  # (n, k)
        y = costs.argmin(axis=1)
        errors = [np.linalg.norm(t - (m @ f).T[y]) for t, m in zip(tables, g, strict=True)]
        a = np.array([1 / (2 * e) for e in errors])
        history.append(sum(errors))
        sums = [np.stack([t[y == j].sum(axis=0) for j in range(3)], axis=1) for t in tables]
    ours = aimc.fit_from(rows, rows.columns_of(np.array(start)), 5, -1)
    assert np.array_equal(ours.state.labels, y)
    assert np.allclose(ours.objective, history)


def test_objective_never_rises(rng):
    _, rows = stacked(rng, n=200, widths=(9, 6, 8), k=5)
    for start in range(5):
        first = rows.columns_of(np.arange(start, start + 5))
        objective = aimc.fit_from(rows, first, 40, 0).objective
        assert all(after <= before + 1e-9 for before, after in pairwise(objective))


def test_starts_on_a_sample_end_on_all_rows(monkeypatch):
    data = make_views(600, 4, n_columns=(10, 8), separation=6, random_state=0)
    monkeypatch.setattr(aimc, "SAMPLE_ROWS", 200)
    model = AIMC(4, n_init=5, random_state=0).fit(data.views)
    assert clustering_accuracy(data.target, model.labels_) > 0.95
    assert np.array_equal(model.predict(data.views), model.labels_)
    assert sum(model.view_weights_.values()) == pytest.approx(1)


def test_mfeat_comes_to_the_published_figure(mfeat):
    order = np.random.default_rng(0).permutation(2000)
    labels = AIMC(10, random_state=0).fit_predict({v: t[order] for v, t in mfeat.views.items()})
    assert clustering_accuracy(mfeat.target[order], labels) == pytest.approx(0.9345, abs=0.02)
    assert nmi(mfeat.target[order], labels) == pytest.approx(0.8823, abs=0.02)

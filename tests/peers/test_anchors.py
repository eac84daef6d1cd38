"""Mixtures of anchors (LMVSC, SMVSC, FPMVS-CAG): the simplex against general solvers, and published figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from coterie.metrics import clustering_accuracy, nmi
from coterie.peers import FPMVSCAG, SMVSC, lmvsc
from coterie.peers import _constraints as constraints
from coterie.peers import _unified_anchors as unified


def general_solver(quadratic, linear):
    """argmin z^T Q z / 2 - b^T z on the simplex, by SciPy's sequential least squares."""
    m = len(linear)
    found = minimize(
        lambda z: z @ quadratic @ z / 2 - linear @ z,
        np.full(m, 1 / m),
        jac=lambda z: quadratic @ z - linear,
        bounds=[(0, None)] * m,
        constraints={"type": "eq", "fun": lambda z: z.sum() - 1, "jac": lambda z: np.ones(m)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


def test_projection_on_the_simplex_is_the_nearest_point(rng):
    rows = 2 * rng.standard_normal((20, 6))
    ours = constraints.onto_simplex(rows)
    assert np.allclose(ours, [general_solver(np.eye(6), row) for row in rows], atol=1e-6)
    assert np.allclose(ours.sum(axis=1), 1)
    assert np.allclose(constraints.onto_simplex(ours), ours)


def test_minimum_over_the_simplex_is_that_of_a_general_solver(rng):
    half = rng.standard_normal((8, 5))
    quadratic = half @ half.T + 0.1 * np.eye(8)
    linear = 3 * rng.standard_normal((10, 8))
    ours = constraints.simplex_minimum(quadratic, linear)
    assert np.allclose(ours, [general_solver(quadratic, row) for row in linear], atol=1e-3)


def test_minimum_over_the_simplex_is_optimal_for_ill_conditioned_anchors(rng):
    half = rng.standard_normal((40, 10)) * np.logspace(0, 2, 10)
    quadratic = half @ half.T + np.eye(40)
    linear = (half @ half[rng.integers(0, 40, 30)].T).T
    found = constraints.simplex_minimum(quadratic, linear)
    gradients = found @ quadratic - linear
    # At the minimum no corner is better than the point itself: the gap of Frank and Wolfe bounds what is left.
    gaps = (gradients * found).sum(axis=1) - gradients.min(axis=1)
    values = np.abs((found @ quadratic * found).sum(axis=1) / 2 - (linear * found).sum(axis=1))
    assert (gaps <= 5e-3 * values).all()


def test_mixtures_are_the_best_in_every_view(rng):
    table, anchors = rng.standard_normal((15, 4)), rng.standard_normal((6, 4))
    ours = lmvsc.mixtures(table, anchors, 0.5, 1)
    quadratic = anchors @ anchors.T + 0.5 * np.eye(6)
    assert np.allclose(ours, [general_solver(quadratic, anchors @ row) for row in table], atol=1e-3)


def test_singular_vectors_are_those_of_the_mixtures_side_by_side(rng):
    parts = [rng.random((50, 6)).astype(np.float32) for _ in range(3)]
    rows, values = lmvsc.left_singular_vectors(parts, 4)
    left, singular, _ = np.linalg.svd(np.hstack(parts) / np.sqrt(3), full_matrices=False)
    assert np.allclose(values, singular[:4], rtol=1e-4)
    assert np.allclose(rows @ rows.T, left[:, :4] @ left[:, :4].T, atol=1e-4)


def test_rounds_match_a_literal_transcription(rng):
    tables = [rng.standard_normal((40, d)).astype(np.float32) for d in (6, 5)]
    z = np.zeros((3, 40))
    z[[0, 1, 2], [0, 1, 2]] = 1
    anchors, a = np.zeros((3, 3)), np.full(2, 0.5)

    def polar(matrix):
        u, _, vt = np.linalg.svd(matrix, full_matrices=False)
        return u @ vt

    for _ in range(4):
        w = [polar(t.T @ (anchors @ z).T) for t in tables]
        anchors = polar(sum(v**2 * m.T @ t.T @ z.T for v, m, t in zip(a, w, tables, strict=True)))
        goal = sum(t @ (m @ anchors) for m, t in zip(w, tables, strict=True)) / ((a**2).sum() + 1)
        z = constraints.onto_simplex(goal).T
        errors = np.array([np.linalg.norm(t.T - m @ anchors @ z) ** 2 for m, t in zip(w, tables, strict=True)])
        a = (1 / errors) / (1 / errors).sum()
    ours = unified.fit_anchors(tables, 3, 1.0, np.arange(3), 4, -1)
    assert np.allclose(ours.state.mixtures, z.T, atol=1e-4)
    assert np.allclose(ours.state.weights, a, atol=1e-5)
    assert ours.objective[-1] == pytest.approx(a**2 @ errors + (z**2).sum(), rel=1e-4)


@pytest.mark.parametrize(("method", "acc", "known"), [(SMVSC, 0.8205, 0.7886), (FPMVSCAG, 0.823, 0.792)])
def test_mfeat_in_file_order_comes_to_the_published_figures(mfeat, method, acc, known):
    labels = method(10, random_state=0).fit_predict(mfeat.views)
    assert clustering_accuracy(mfeat.target, labels) == pytest.approx(acc, abs=0.02)
    assert nmi(mfeat.target, labels) == pytest.approx(known, abs=0.02)

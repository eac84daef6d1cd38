"""RMSC: the answer is feasible, and no other one is better by more than the gap to a lower bound."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.datasets import make_views
from coterie.peers import RMSC, rmsc
from coterie.peers import _dense as dense
from coterie.peers.rmsc import decompose, random_walk, soft_threshold, stationary, walk_vectors
from coterie.views import as_views

WEIGHT = 0.03


@pytest.fixture(scope="module")
def walks():
    data = make_views(100, 3, n_columns=(8, 6), separation=3, random_state=1)
    return [random_walk(a) for a in dense.view_affinities(as_views(data.views), np.random.default_rng(0))]


@pytest.fixture(scope="module")
def found(walks):
    return decompose(walks, WEIGHT, max_iter=500, tol=1e-5)


def cost(walk, walks):
    errors = sum(np.abs(other - walk).sum() for other in walks)
    return np.linalg.norm(walk, ord="nuc") + WEIGHT * errors


def test_constraints_are_met(found, walks):
    state = found.state
    assert found.converged
    assert (state.common >= 0).all()
    assert np.allclose(state.common.sum(axis=1), 1)
    assert np.allclose(state.common, state.low_rank, atol=1e-4)
    assert all(np.allclose(w, state.common + e, atol=1e-4) for w, e in zip(walks, state.errors, strict=True))


def test_the_objective_is_at_its_lower_bound(found, walks, monkeypatch):
    """For |S|_2 <= 1 and |T^v| <= lambda, sum_v <T^v, P^v> + sum_i min_j (S - sum_v T^v)_ij is below every cost.

    The multipliers of slower rounds, cut to these sizes, come near to the best of such bounds.
    """
    monkeypatch.setattr(rmsc, "GROWTH", 1.02)
    slow = decompose(walks, WEIGHT, max_iter=500, tol=1e-5).state
    left, values, right = np.linalg.svd(slow.multiplier)
    spectral = (left * np.minimum(values, 1)) @ right
    clipped = [np.clip(y, -WEIGHT, WEIGHT) for y in slow.multipliers]
    bound = sum(np.sum(t * w) for t, w in zip(clipped, walks, strict=True))
    bound += (spectral - sum(clipped)).min(axis=1).sum()
    reached = cost(found.state.common, walks)
    assert bound <= reached + 1e-9
    assert reached - bound < 0.01 * reached
    assert reached == pytest.approx(cost(slow.common, walks), rel=1e-3)
    assert found.objective[-1] == pytest.approx(reached, rel=1e-3)


def test_the_answer_is_better_than_the_views_and_their_mean(found, walks):
    reached = cost(found.state.common, walks)
    assert all(reached < cost(other, walks) for other in [*walks, sum(walks) / len(walks)])


def test_residuals_fall(walks):
    changes = [decompose(walks, WEIGHT, max_iter=rounds, tol=0).change for rounds in (10, 40, 80)]
    assert changes[0] > changes[1] > changes[2]


def test_soft_threshold_is_the_prox_of_absolute_values(rng):
    values = rng.standard_normal(50)
    found = soft_threshold(values, 0.4)
    grid = np.linspace(-4, 4, 8001)
    best = grid[np.argmin(0.5 * (grid - values[:, None]) ** 2 + 0.4 * np.abs(grid), axis=1)]
    assert np.allclose(found, best, atol=1e-3)


def test_a_reversible_walk_has_the_vectors_of_its_affinity(rng):
    rows = rng.standard_normal((40, 2))
    affinity = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    walk, degrees = random_walk(affinity), affinity.sum(axis=1)
    assert np.allclose(stationary(walk), degrees / degrees.sum(), atol=1e-6)
    expected = dense.top_vectors(dense.normalised(affinity), 3)
    found = walk_vectors(walk, 3)
    assert np.allclose(found @ found.T, expected @ expected.T, atol=1e-4)


def test_the_walk_is_published():
    data = make_views(90, 3, n_columns=(8, 6), separation=6, random_state=1)
    model = RMSC(3, weight=WEIGHT, random_state=0).fit(data.views)
    assert model.transition_.shape == (90, 90)
    assert np.allclose(model.transition_.sum(axis=1), 1)

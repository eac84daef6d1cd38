"""Methods that learn a weight for every view: AASC, MSCMO and the multiple kernel Laplacian, in closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.datasets import make_views
from coterie.metrics import clustering_accuracy, nmi
from coterie.peers import AASC, MSCMO, MultipleKernelLaplacian
from coterie.peers import _dense as dense
from coterie.peers._common import unit_rows
from coterie.peers.aasc import aggregate, best_weights, cut_vectors
from coterie.peers.mkl import graph_kernel, learn_kernel
from coterie.peers.mscmo import minimax, worst_case_weights
from coterie.views import as_views


@pytest.fixture
def affinities(rng, seed):
    data = make_views(120, 3, n_columns=(8, 6, 5), separation=3, n_noise=1, random_state=seed)
    return dense.view_affinities(as_views(data.views), rng)


@pytest.mark.parametrize("cls", [AASC, MSCMO, MultipleKernelLaplacian])
def test_views_that_are_the_same_have_the_same_weight(cls, seed):
    table = make_views(100, 3, n_columns=(6,), separation=4, random_state=seed).views["view0"]
    weights = cls(3, random_state=seed).fit({"one": table, "other": table}).view_weights_
    assert weights == pytest.approx({"one": 0.5, "other": 0.5})


def test_aascs_vectors_solve_the_generalised_problem(affinities):
    from scipy.linalg import eigh

    weights = np.array([0.5, 0.3, 0.2])
    total = sum(w**2 * a for w, a in zip(weights, affinities, strict=True))
    degrees = np.diag(total.sum(axis=1))
    _, expected = eigh(degrees - total, degrees, subset_by_index=(0, 2))
    found = cut_vectors(affinities, weights, 3)
    assert np.allclose(found.T @ degrees @ found, np.eye(3))
    assert np.allclose(found @ found.T, expected @ expected.T)


def test_aascs_weights_are_the_best_that_keep_the_mass(rng):
    masses, costs = rng.uniform(0.5, 1.5, 3), rng.uniform(0.1, 1, 3)
    start = rng.dirichlet(np.ones(3))
    total = start**2 @ masses
    best = best_weights(masses, costs, total)
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    if best**2 @ masses != pytest.approx(total):  # then no positive weights on the line reach it
        assert best.max() > 0.999
        return
    # All others on a fine grid that keep the mass cost as much or more.
    grid = np.linspace(0, 1, 1501)
    one, two = (axis.ravel() for axis in np.meshgrid(grid, grid))
    others = np.column_stack([one, two, 1 - one - two])[one + two <= 1]
    kept = others[np.abs(others**2 @ masses - total) < 1e-4]
    assert len(kept)
    assert best**2 @ costs <= (kept**2 @ costs).min() + 1e-3


def test_aascs_cut_falls(affinities):
    found = aggregate(affinities, 3, 10, 0)
    even = np.full(3, 1 / 3)
    vectors = cut_vectors(affinities, even, 3)
    common = sum(a / 9 for a in affinities)
    first = 3 - np.sum(vectors * (common @ vectors))
    assert found.objective[-1] <= first + 1e-9


def test_worst_case_weights_maximise(rng):
    costs = rng.uniform(0.1, 2, 4)
    best = worst_case_weights(costs, 0.4)
    others = rng.dirichlet(np.ones(4), size=2000)
    assert best.sum() == pytest.approx(1)
    assert best**0.4 @ costs >= (others**0.4 @ costs).max()
    assert np.array_equal(np.argsort(best), np.argsort(costs))
    assert np.allclose(worst_case_weights(np.zeros(3), 0.5), 1 / 3)


def test_minimax_weighs_the_noisy_view_most(affinities):
    found = minimax([dense.normalised(a) for a in affinities], 3, 0.5, 0.5, 50, 1e-4)
    assert found.state.weights.argmax() == 2  # the noise
    assert found.converged
    assert np.allclose(found.state.common.T @ found.state.common, np.eye(3))


def test_graph_kernels_are_positive_semi_definite(affinities):
    for affinity in affinities:
        values = np.linalg.eigvalsh(graph_kernel(affinity))
        assert values.min() > -1e-12
        assert values.max() == pytest.approx(1)


def test_kernel_k_means_never_gets_worse_and_weights_are_best(affinities, rng):
    kernels = [graph_kernel(a) for a in affinities]
    found = learn_kernel(kernels, 3, 10, 0)
    assert (np.diff(found.objective) <= 1e-12).all()
    h = found.state.indicators
    costs = np.array([np.trace(k @ (np.eye(len(h)) - h @ h.T)) for k in kernels])
    others = rng.dirichlet(np.ones(3), size=2000)
    assert found.objective[-1] == pytest.approx(found.state.weights**2 @ costs)
    assert found.objective[-1] <= (others**2 @ costs).min()


def test_aasc_with_local_scales_comes_to_the_published_figure(mfeat):
    """Means over single starts, as others report them; with the median distance it does better."""
    rows = unit_rows(AASC(10, bandwidth="local", random_state=0).fit(mfeat.views).embedding_)
    found = [KMeans(10, init="random", n_init=1, random_state=seed).fit_predict(rows) for seed in range(12)]
    assert np.mean([clustering_accuracy(mfeat.target, labels) for labels in found]) == pytest.approx(0.683, abs=0.05)
    assert np.mean([nmi(mfeat.target, labels) for labels in found]) == pytest.approx(0.649, abs=0.05)

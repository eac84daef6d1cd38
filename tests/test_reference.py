"""The package against the paper, written down plainly in dense float64."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from coterie import GuidedCoTraining
from coterie.datasets import make_views


def subspace_gap(a, b):
    """How far two orthonormal bases are from spanning the same space."""
    return np.linalg.norm(a - b @ (b.T @ a))


def algorithm_1(views, landmarks, n_clusters, n_neighbors, n_rounds):
    """Algorithm 1 of the paper; returns U* of the last round."""
    graphs = []
    for X in views:
        squares = cdist(X, X[landmarks]) ** 2
        sigma = np.median(pdist(X))
        nearest = np.argsort(squares, axis=1, kind="stable")[:, :n_neighbors]
        Z = np.zeros_like(squares)
        rows = np.arange(len(X))[:, None]
        Z[rows, nearest] = np.exp(-squares[rows, nearest] / (2 * sigma**2))  # Eq. (1)
        graphs.append(Z / Z.sum(axis=1, keepdims=True))
    for number in range(n_rounds):
        bases = []
        for Z in graphs:
            hat = Z / np.sqrt(Z.sum(axis=0))  # Eq. (2)
            bases.append(np.linalg.svd(hat, full_matrices=False)[0][:, :n_clusters])  # Eq. (4)
        U = np.linalg.svd(np.hstack(bases), full_matrices=False)[0][:, :n_clusters]  # Theorem 1
        if number == n_rounds - 1:
            return U
        A = np.maximum(U @ U[landmarks].T, 0)  # Eq. (8)
        for v, Z in enumerate(graphs):
            guided = A * Z
            sums = guided.sum(axis=1, keepdims=True)
            graphs[v] = np.where(sums > 0, guided / np.where(sums > 0, sums, 1), Z)


@pytest.mark.parametrize("n_rounds", [1, 2, 4, 7])
@pytest.mark.parametrize("shape", ["blobs", "rings"])
def test_published_settings_give_the_papers_algorithm(seed, n_rounds, shape):
    data = make_views(300, 4, shape=shape, dtype="float64", random_state=seed)
    views = list(data.views.values())
    landmarks = np.sort(np.random.default_rng(seed).choice(300, 60, replace=False))
    expected = algorithm_1(views, landmarks, 4, 8, n_rounds)

    model = GuidedCoTraining.as_published(
        4, landmarks=landmarks, max_iter=n_rounds, tol=0, dtype="float64", random_state=seed
    ).fit(views)
    # U* itself, before its rows are made unit.
    found = augmented_rows(model, views)

    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-8)
    assert subspace_gap(found, expected) < 1e-6


def test_float32_stays_close_to_float64(seed):
    views = list(make_views(300, 4, dtype="float64", random_state=seed).views.values())
    landmarks = np.arange(0, 300, 5)
    fits = [
        GuidedCoTraining.as_published(4, landmarks=landmarks, max_iter=5, tol=0, dtype=dtype).fit(views)
        for dtype in ("float32", "float64")
    ]
    single, double = (augmented_rows(model, views).astype(float) for model in fits)
    assert subspace_gap(single, double) < 1e-3


def augmented_rows(model, views):
    """U* at every row, from the fitted map."""
    from coterie.views import as_views

    row_map = model._fitted.row_map
    bounds = row_map.graph_map.bounds
    block = row_map.graph_map.connect(as_views(views).read(slice(None)))
    for guide in row_map.guides:
        block = guide(block, bounds)
    return row_map.basis(block, bounds)


def test_theorem_1(rng):
    """U* beats every competitor on Eq. (6), and is the SVD of the stacked bases."""
    from coterie.method.spectra import consensus

    n, k = 80, 3
    bases = [np.linalg.qr(rng.standard_normal((n, k)))[0] for _ in range(4)]
    bases[1] = np.linalg.qr(bases[0] + 0.3 * rng.standard_normal((n, k)))[0]
    stacked = np.hstack(bases)
    found = consensus(stacked.T @ stacked, np.ones(4), k)
    U = stacked @ found.rotation.reshape(-1, k)

    def objective(U):
        return sum(np.linalg.norm(U @ U.T - B @ B.T) ** 2 for B in bases)

    np.testing.assert_allclose(U.T @ U, np.eye(k), atol=1e-10)
    left, values, _ = np.linalg.svd(stacked, full_matrices=False)
    assert subspace_gap(U, left[:, :k]) < 1e-10
    np.testing.assert_allclose(found.singular_values, values, atol=1e-7)
    best = objective(U)
    for _ in range(2000):
        far = np.linalg.qr(rng.standard_normal((n, k)))[0]
        near = np.linalg.qr(U + rng.uniform(0.001, 0.3) * rng.standard_normal((n, k)))[0]
        assert objective(far) > best
        assert objective(near) > best - 1e-9

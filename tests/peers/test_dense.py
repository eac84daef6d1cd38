"""The pieces of methods that hold all pairs of rows, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.peers import _dense as dense
from coterie.peers._constraints import onto_simplex


@pytest.fixture
def affinity(rng):
    rows = rng.standard_normal((60, 3))
    return np.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2)) * (1 - np.eye(60))


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30), (dense.SMALL + 20, dense.SMALL + 30)])
def test_singular_values_are_shrunk_like_those_of_the_svd(shape, rng):
    matrix = rng.standard_normal(shape) @ np.diag(np.linspace(0, 2, shape[1]))
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    threshold = float(np.median(values))
    expected = (left * np.maximum(values - threshold, 0)) @ right
    shrunk, norm = dense.shrink_singular_values(matrix, threshold)
    assert np.allclose(shrunk, expected, atol=1e-8)
    assert norm == pytest.approx(np.maximum(values - threshold, 0).sum())


def test_shrinking_all_singular_values_leaves_nothing(rng):
    matrix = rng.standard_normal((8, 9))
    shrunk, norm = dense.shrink_singular_values(matrix, 100.0)
    assert norm == 0
    assert not shrunk.any()


def test_eigenvalues_that_come_often_are_all_found(rng):
    size = dense.SMALL + 50
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    often = np.concatenate([np.full(200, 1.0), np.full(size - 200, 0.1)])
    matrix = (basis * often) @ basis.T
    values, vectors = dense.eigenpairs_above(matrix, 0.5)
    assert np.allclose(values, np.ones(200))
    assert np.allclose(vectors @ vectors.T, basis[:, :200] @ basis[:, :200].T, atol=1e-8)


def test_rows_on_the_simplex_are_the_nearest_ones(rng):
    rows = rng.standard_normal((40, 7)) * 2
    found = onto_simplex(rows)
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=1), 1)
    # Optimality: what was taken off is the same for all entries that stay, and at least that for the others.
    shift = (rows - found).max(axis=1, where=found > 0, initial=-np.inf)[:, None]
    assert np.allclose((rows - found)[found > 0], np.broadcast_to(shift, rows.shape)[found > 0])
    assert (rows <= shift + 1e-12)[found == 0].all()


def test_a_row_on_the_simplex_stays(rng):
    rows = rng.dirichlet(np.ones(5), size=10)
    assert np.allclose(onto_simplex(rows), rows)


def test_neighbours_are_symmetric_and_the_nearest(affinity):
    kept = dense.nearest_only(affinity, 5)
    assert np.array_equal(kept, kept.T)
    for i, row in enumerate(affinity):
        nearest = np.argsort(-row)[:5]
        assert (kept[i, nearest] == row[nearest]).all()
    assert (kept > 0).sum() < 60 * 10 + 1
    assert dense.nearest_only(affinity, 100) is affinity


def test_the_laplacian_has_the_degrees_roots_in_its_kernel(affinity):
    laplacian = dense.laplacian(affinity)
    assert np.allclose(laplacian @ np.sqrt(affinity.sum(axis=1)), 0)
    assert np.linalg.eigvalsh(laplacian).min() > -1e-12


def test_common_vectors_are_those_of_the_weighted_sum(rng):
    bases = [np.linalg.qr(rng.standard_normal((30, 3)))[0] for _ in range(3)]
    weights = [0.5, 1.0, 2.0]
    total = sum(w * u @ u.T for w, u in zip(weights, bases, strict=True))
    expected = np.linalg.eigh(total)[1][:, -3:]
    found = dense.common_vectors(bases, weights, 3)
    assert np.allclose(found.T @ found, np.eye(3))
    assert np.allclose(found @ found.T, expected @ expected.T)


def test_local_affinities_have_the_distance_to_the_seventh_neighbour_as_scale(rng):
    table = rng.standard_normal((40, 3))
    distances = np.linalg.norm(table[:, None] - table, axis=2)  # (n, n)
    scales = np.sort(distances, axis=1)[:, 7]
    expected = np.exp(-(distances**2) / np.outer(scales, scales)) - np.eye(40)
    np.testing.assert_allclose(dense.local_affinity(table), expected, atol=1e-10)


def test_rows_that_are_all_the_same_have_finite_local_affinities():
    assert np.isfinite(dense.local_affinity(np.ones((10, 2)))).all()

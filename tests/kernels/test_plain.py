"""The loops in NumPy beside the compiled ones: the same neighbours, and the same numbers up to rounding."""

import itertools

import numpy as np
import pytest

from coterie.kernels import _numba, _plain
from coterie.kernels.cpu import widened

DTYPES = [np.float32, np.float64]


@pytest.fixture(params=range(3))
def rng(request):
    return np.random.default_rng(request.param)


def both(name, arguments, out):
    """Return what the function of that name writes to copies of an array, compiled and plain."""
    found = []
    for module in (_numba, _plain):
        own = [np.array(part) if isinstance(part, np.ndarray) else part for part in arguments]
        written = out(own)
        getattr(module, name)(*own)
        found.append(written)
    return found


def neighbours(rng, dtype, n=40, p=50, scales=(3, 8, 1)):
    """Random neighbours of three graphs, with weights that sum to one or are zero."""
    bounds = np.cumsum([0, *scales])
    indices = np.hstack([np.sort(rng.permuted(np.tile(np.arange(p), (n, 1)), axis=1)[:, :q], axis=1) for q in scales])
    weights = rng.random((n, bounds[-1])).astype(dtype)
    weights[3, : scales[0]] = 0
    _plain.unit_sums(weights, bounds)
    return indices.astype(np.uint16), weights, bounds


@pytest.mark.parametrize("dtype", [*DTYPES, np.uint8])
def test_sums_of_rows(rng, dtype):
    data = (200 * rng.random((30, 70))).astype(dtype)
    for found in both("row_sums", (data, np.empty(30)), lambda own: own[1]):
        np.testing.assert_allclose(found, data.sum(axis=1, dtype=np.float64), rtol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_sums_of_rows_show_what_is_not_finite(rng, value):
    data = rng.random((3, 70))
    data[1, 50] = value
    for found in both("row_sums", (data, np.empty(3)), lambda own: own[1]):
        assert np.isfinite(found).tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_distances_and_neighbours_are_the_same_to_the_bit(rng, dtype):
    products = rng.normal(size=(30, 200)).astype(dtype)
    norms, landmark_norms = (rng.random(size) * 5 for size in (30, 200))
    norms[4], landmark_norms[7] = np.inf, np.inf
    arguments = (products, norms.astype(dtype), landmark_norms.astype(dtype))
    compiled, plain = both("finish_distances", arguments, lambda own: own[0])
    np.testing.assert_array_equal(compiled, plain)
    ties = np.round(rng.random((3, 30, 200)) * 4).astype(dtype)
    ties[:, 5, 20:] = np.inf
    scales = np.array([5, 2, 17])
    empty = np.zeros((30, 24), np.uint16), np.zeros((30, 24), dtype)
    finished = (ties, np.empty(0, dtype), np.empty(0, dtype))
    products = (products[None], *arguments[1:])
    for given, part in itertools.product((finished, products), (4, 5)):
        compiled, plain = both("smallest", (*given, scales, *empty), lambda own, part=part: own[part])
        np.testing.assert_array_equal(compiled, plain)


def test_confidence_and_rows_of_zeros(rng):
    rows = rng.normal(size=(40, 3)).astype(np.float32)
    rows[[2, 7]] = 0
    nearest = rng.random(40)
    second = nearest + rng.random(40)
    second[4], nearest[5], nearest[6], second[6] = np.inf, 0, 0, 0
    expected = 1 - np.sqrt(nearest / np.where(second > 0, second, 1))
    expected[[2, 7]] = 0
    for module in (_numba, _plain):
        zero, found = np.ones(40, dtype=bool), np.empty(40, dtype=np.float32)
        module.zero_rows(rows, zero)
        module.confidence(nearest, second, zero, found)
        np.testing.assert_array_equal(np.flatnonzero(zero), [2, 7])
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_rows_beyond_limits(rng):
    squares = rng.random((50, 9)).astype(np.float32)
    squares[3], squares[4, :3] = np.inf, 0
    columns, limits = np.array([[0, 3], [6, 9]]), np.array([0.9, 0.5])
    expected = (squares[:, :3] > 0.9).any(axis=1) | (squares[:, 6:] > 0.5).any(axis=1)
    expected[3] = False  # the row lacks the view
    for module in (_numba, _plain):
        beyond = np.zeros(50, dtype=bool)
        module.mark_beyond(squares, columns, limits, beyond)
        np.testing.assert_array_equal(beyond, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_imputed_distances(rng, dtype):
    distances = (rng.random((3, 20, 30)) * 5).astype(dtype)
    distances[rng.random(distances.shape) < 0.3] = np.inf
    distances[:, 2, 2] = np.inf
    likeness = rng.random((3, 4)).astype(dtype)
    arguments = (distances, likeness, np.empty((20, 30), dtype))
    compiled, plain = both("impute_distances", arguments, lambda own: own[2])
    np.testing.assert_allclose(plain, compiled, rtol=1e-5)
    assert np.isinf(plain[2, 2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponents_and_unit_sums(rng, dtype):
    squares, bounds = (rng.random((20, 12)) * 5).astype(dtype), np.array([0, 4, 11, 12])
    squares[2], squares[3, :4], squares[4, 1:3], squares[5, 4:] = np.inf, 0, np.inf, 1e-30
    arguments = (squares, bounds, np.array([0.7, 0.0, 1e-200]))
    compiled, plain = both("gaussian_exponents", arguments, lambda own: own[0])
    np.testing.assert_allclose(plain, compiled, rtol=1e-5)
    weights = np.exp(plain)
    compiled, plain = both("unit_sums", (weights, bounds), lambda own: own[0])
    np.testing.assert_allclose(plain, compiled, rtol=1e-6)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_projections_and_embeddings(rng, dtype, unit):
    indices, weights, bounds = neighbours(rng, dtype)
    bases = widened(rng.normal(size=(3, 50, 7)).astype(dtype))
    stacked, embedding = np.empty((40, 21), dtype), np.empty((40, 7), dtype)
    close = {"rtol": 1e-5, "atol": 1e-6}
    arguments = (indices, weights, bounds, bases, unit, stacked)
    np.testing.assert_allclose(*both("project", arguments, lambda own: own[5]), **close)
    arguments = (indices, weights, bounds, bases, embedding)
    np.testing.assert_allclose(*both("embed", arguments, lambda own: own[4]), **close)


@pytest.mark.parametrize("dtype", DTYPES)
def test_guided_weights_and_unit_rows(rng, dtype):
    indices, weights, bounds = neighbours(rng, dtype)
    embedding, anchors = rng.normal(size=(40, 5)).astype(dtype), rng.normal(size=(50, 5)).astype(dtype)
    embedding[1] = 0  # it would lose all its weight
    close = {"rtol": 1e-4, "atol": 1e-6}
    arguments = (indices, weights, bounds, embedding, widened(anchors), np.empty_like(weights))
    np.testing.assert_allclose(*both("guide", arguments, lambda own: own[5]), **close)
    np.testing.assert_allclose(*both("unit_rows", (embedding,), lambda own: own[0]), rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 9])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nearest_centroids(rng, dtype, k):
    embedding, centroids = rng.normal(size=(40, 5)).astype(dtype), rng.normal(size=(k, 5)).astype(dtype)
    centroids[-1] = centroids[0]  # among equal ones the first wins
    outputs = np.empty(40, np.int32), np.empty(40), np.empty(40)
    arguments = (embedding, widened(centroids.T), k, *outputs)
    for part in (3, 4, 5):
        compiled, plain = both("assign", arguments, lambda own, part=part: own[part])
        np.testing.assert_allclose(plain, compiled, rtol=1e-5)
    by_products = (embedding @ centroids.T, embedding, centroids, (centroids**2).sum(axis=1), *outputs)
    for part in (4, 5, 6):
        compiled, plain = both("assign_from", by_products, lambda own, part=part: own[part])
        np.testing.assert_allclose(plain, compiled, rtol=1e-5)


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_levelled_columns(rng, kind):
    data = (rng.random((20, 6)) * 200).astype(kind)
    center, scale = data.mean(axis=0).astype(np.float32), rng.random(6).astype(np.float32)
    compiled, plain = both("level", (data, center, scale, np.empty(data.shape, np.float32)), lambda own: own[3])
    np.testing.assert_allclose(plain, compiled, rtol=1e-5, atol=1e-6)

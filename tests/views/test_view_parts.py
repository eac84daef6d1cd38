"""Statistics and directions of columns are those of plain references, the same to the bit on any number of threads."""

import numpy as np
import pytest
from scipy import sparse, stats

from coterie.kernels import cpu
from coterie.threads import one_thread_per_block
from coterie.views import as_views, by_rows, column_moments, prepare
from coterie.views.directions import principal_directions
from coterie.views.parts import PART_COLUMNS, by_columns, row_parts
from coterie.views.statistics import column_ends, column_tails

THREADS = [1, 2, 3]
WIDTHS = [1, PART_COLUMNS, 2 * PART_COLUMNS + 3]
KINDS = ["float64", "float32", "float16", "uint8", "int64", "bool"]


@pytest.fixture(autouse=True)
def threads_as_in_a_fit():
    with one_thread_per_block():
        yield


def table(rng, width, kind, n=300):
    values = 40 * rng.random((n, width)) * (rng.random((n, width)) < 0.7)
    signed = values - 10 * (np.dtype(kind).kind in "fi")
    return signed.astype(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("step", [1, 3])
def test_statistics_are_numpys(rng, width, kind, step):
    """Also of thinned rows, which do not lie side by side."""
    data = table(rng, width, kind)[::step]
    plain = data.astype(np.float64)
    found = [column_moments(data, n_threads=n_threads) for n_threads in THREADS]
    for own in found:
        np.testing.assert_array_equal(own.low, plain.min(axis=0))
        np.testing.assert_array_equal(own.high, plain.max(axis=0))
        np.testing.assert_array_equal(own.nonzeros, np.count_nonzero(plain, axis=0))
        np.testing.assert_array_equal(own.negatives, np.count_nonzero(plain < 0, axis=0))
        np.testing.assert_allclose(own.mean, plain.mean(axis=0), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(own.std, plain.std(axis=0), rtol=1e-13)
        assert own.mean.tobytes() == found[0].mean.tobytes()
        assert own.std.tobytes() == found[0].std.tobytes()


@pytest.mark.parametrize("width", WIDTHS)
def test_equal_values_do_not_vary(width):
    moments = column_moments(np.full((20_000, width), 0.1))
    assert not moments.varies().any()
    np.testing.assert_array_equal(moments.std, 0)


def test_sparse_and_dense_tables_have_the_same_statistics(rng):
    data = table(rng, 20, "float32")
    data[0, 3] = 0
    stored = sparse.csr_array(data)
    stored.data[:5] = 0  # a stored zero is a zero
    dense, found = column_moments(stored.toarray()), column_moments(stored)
    for name in ("low", "high", "nonzeros", "negatives", "peak", "mean", "std"):
        np.testing.assert_allclose(getattr(found, name), getattr(dense, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
def test_tails_are_scipys(rng, width):
    data = rng.lognormal(size=(400, width))
    data[:, 0] = 7
    moments = column_moments(data)
    found = [column_tails(data, moments, n_threads) for n_threads in THREADS]
    expected = [stats.skew(data[:, 1:], axis=0), stats.kurtosis(data[:, 1:], axis=0, fisher=False)]
    for own in found:
        np.testing.assert_allclose(own, np.reshape(expected, (2, -1)), rtol=1e-9)
        assert own.tobytes() == found[0].tobytes()


def test_tensors_have_the_same_statistics(rng):
    torch = pytest.importorskip("torch")
    data = rng.lognormal(size=(100, 5))
    mine, theirs = column_moments(torch.as_tensor(data)), column_moments(data)
    np.testing.assert_array_equal(column_ends(torch.as_tensor(data)).nonzeros, theirs.nonzeros)
    np.testing.assert_allclose(mine.std, theirs.std)
    np.testing.assert_allclose(column_tails(torch.as_tensor(data), mine), column_tails(data, theirs), rtol=1e-4)


@pytest.mark.parametrize("n_threads", THREADS)
def test_parts_come_back_in_order(rng, n_threads):
    data = rng.standard_normal((2500, 300))
    assert len(row_parts(data.shape)) > 1
    np.testing.assert_array_equal(by_rows(lambda part: part.sum(axis=1), data, n_threads), data.sum(axis=1))
    found = by_rows(sparse.csr_array, data, n_threads)
    np.testing.assert_array_equal(found.toarray(), data)
    scaled = by_columns(lambda part, own: part.max(axis=0) - own, data, n_threads, np.arange(300.0))
    np.testing.assert_array_equal(scaled, data.max(axis=0) - np.arange(300))


@pytest.mark.parametrize("shape", [(9000, 60), (60, 400), (400, 700), (35, 35), (25, 300)])
def test_directions_are_scikit_learns(rng, shape):
    n, d = shape
    rows = rng.standard_normal((n, 12)) @ rng.standard_normal((12, d)) + rng.standard_normal((n, d))
    rows = rows.astype(np.float32)
    found = [principal_directions(rows, 20, 3, n_threads) for n_threads in THREADS]
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    theirs = cpu.principal_directions(rows, 20, 3)
    np.testing.assert_allclose(found[0].T @ found[0], np.eye(20), atol=1e-12)
    np.testing.assert_allclose(found[0] @ found[0].T, theirs @ theirs.T, atol=1e-4)


@pytest.mark.parametrize("large", [1, 1e3])
def test_directions_beside_a_large_one_are_found(rng, large):
    rows = 3 * rng.standard_normal((2000, 4)) @ rng.standard_normal((4, 50)) + rng.standard_normal((2000, 50))
    rows += large * rng.standard_normal((2000, 1)) * rng.standard_normal(50)
    top = np.linalg.svd(rows, full_matrices=False)[2][:5].T  # (50, 5)
    found = principal_directions(rows.astype(np.float32), 20, 0)
    np.testing.assert_allclose(found @ (found.T @ top), top, atol=1e-5)


def test_rows_have_no_more_directions_than_their_rank(rng):
    rows = (rng.standard_normal((200, 3)) @ rng.standard_normal((3, 40))).astype(np.float32)
    found = principal_directions(rows, 20, 0)
    assert found.shape == (40, 3)
    np.testing.assert_allclose(rows @ found @ found.T, rows, atol=1e-4)


SHAPES = {
    "plain": lambda rng: rng.standard_normal((3000, 150)).astype(np.float32),
    "counts": lambda rng: rng.poisson(rng.lognormal(0, 2, size=(3000, 150))).astype(np.uint8),
    "heavy": lambda rng: rng.standard_t(2, size=(3000, 150)),
    "thinned": lambda rng: rng.standard_normal((30_000, 140)).astype(np.float32),
}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("scaling", ["auto", "half"])
def test_threads_learn_the_same_preparation(rng, kind, scaling):
    data = SHAPES[kind](rng)
    found = [prepare(data, scaling=scaling, n_threads=n_threads) for n_threads in THREADS]
    assert len({own.factor for own in found}) == 1
    assert len({own(data[:100]).tobytes() for own in found}) == 1


def test_several_threads_take_the_same_rows(rng):
    views = as_views({"a": rng.standard_normal((50, 3)), "b": sparse.csr_array(rng.random((50, 4)).round())})
    numbers = np.array([3, 3, 40, 7])
    for one, other in zip(views.take(numbers), views.take(numbers, n_threads=3), strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(densely(one.data), densely(other.data))


def densely(rows):
    return rows.toarray() if sparse.issparse(rows) else rows

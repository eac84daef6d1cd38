"""Whatever is asked for, a fit succeeds and is whole, or is refused with a reason."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_fits import numbered_fit, odd_fit, outcome
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.kernels import cpu
from coterie.method.spectra import consensus, occupied_eigenpairs
from coterie.views.preparation import column_moments, prepare


@settings(max_examples=120)
@given(st.randoms(use_true_random=False))
def test_odd_fits_succeed_or_are_refused(draw):
    outcome(odd_fit(draw))


@pytest.mark.parametrize("first", [*range(0, 100, 20), 140, 1860])
def test_cases_of_the_campaign(first):
    found = [outcome(numbered_fit(number)) for number in range(first, first + 20)]
    assert "fitted" in found


# -- what the campaign found ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clear():
    return make_views(200, 3, n_columns=(6, 4), separation=7, random_state=0)


def fit(views, **settings):
    return GuidedCoTraining(3, **{"n_landmarks": 60, "random_state": 0, **settings}).fit(views)


@pytest.mark.parametrize("constant", [1e20, 1e300])
def test_rows_that_lack_a_view_with_a_large_constant(clear, constant):
    """What stands in their place, zeros, is that far away from the others when the constant is taken off."""
    first, second = clear.views.values()
    first = np.column_stack([first, np.full(len(first), constant)])
    first[::3] = np.nan
    found = fit([first, second], scaling="block")
    assert adjusted_rand_score(found.labels_, clear.target) > 0.9
    np.testing.assert_array_equal(found.predict([first, second]), found.labels_)


def test_an_eigenvalue_that_comes_very_often_is_found_every_time():
    """LAPACK's search for the largest ones finds 2 of 4 here, or none."""
    p = 58
    values = np.r_[np.ones(p - 3), 0, 0, 0]
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((p, p)))[0]
    pieces = np.eye(p) - np.full((p, p), 1 / 60)
    for matrix, top in ((np.eye(p), 1.0), (pieces, 1.0), ((turn * values) @ turn.T, 1.0)):
        found, vectors = cpu.largest_eigenpairs(matrix, 4)
        np.testing.assert_allclose(found, top)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-12)


@pytest.mark.parametrize("empty", [[], [0], [1, 3], [0, 1, 2, 3, 4, 5]])
def test_columns_of_zeros_change_no_eigenpair(empty):
    stack = np.random.default_rng(0).standard_normal((9, 6))
    stack[:, empty] = 0
    matrix = stack.T @ stack
    values, vectors = occupied_eigenpairs(matrix, 2)
    np.testing.assert_allclose(values, np.linalg.svd(stack)[1] ** 2, atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-12)


@pytest.mark.parametrize("power", [-300, -200, -30, 0, 30, 200, 300])
def test_moments_of_columns_of_any_size(power):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 3)) + 2
    plain = column_moments(table)
    for rows in (table, sparse.csr_array(table)):
        large = column_moments(rows * 10.0**power)
        for name in ("mean", "std", "peak"):
            np.testing.assert_allclose(getattr(large, name) / 10.0**power, getattr(plain, name), rtol=1e-9)


def test_the_least_int8_is_the_largest_in_size():
    table = np.array([[-128], [3]], dtype=np.int8)
    assert column_moments(table).peak.tolist() == [128]


@pytest.mark.parametrize("scaling", ["auto", "block", "half", "standard", "none"])
@pytest.mark.parametrize(("dtype", "power"), [("float64", 30), ("float64", -30), ("float32", 30), ("float32", -30)])
def test_units_at_the_ends_of_floats(clear, scaling, dtype, power):
    views = {name: (view * 10.0**power).astype(dtype) for name, view in clear.views.items()}
    model = fit(views, scaling=scaling)
    assert adjusted_rand_score(clear.target, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(views), model.labels_)


def test_columns_of_unlike_units_in_float32():
    """A column of 1e-40 is brought to unit size by a factor that float32 cannot hold."""
    rng = np.random.default_rng(0)
    table = (rng.standard_normal((40, 3)) * [1e-40, 1.0, 1e30]).astype(np.float32)
    rows = prepare(table, scaling="standard")(table)
    np.testing.assert_allclose(rows.astype(float).std(axis=0), 1 / np.sqrt(3), rtol=1e-3)


def test_only_the_shares_of_weights_count(clear):
    plain = fit(clear.views, view_weights=[1.0, 2.0])
    large = fit(clear.views, view_weights=[2.0**1000, 2.0**1001])
    np.testing.assert_array_equal(plain.labels_, large.labels_)
    np.testing.assert_array_equal(plain.transform(clear.views), large.transform(clear.views))
    assert large.view_weights_["view1"] == 2.0**1001
    assert large.history_[-1]["agreement"] == plain.history_[-1]["agreement"]


def test_weights_too_large_to_square_still_tell_graphs_apart():
    outer = np.diag([3.0, 2.0, 1.0, 4.0])
    plain = consensus(outer, np.array([1.0, 0.5]), 2)
    large = consensus(outer, np.array([2.0**700, 2.0**699]), 2)
    np.testing.assert_array_equal(plain.rotation, large.rotation)
    np.testing.assert_array_equal(plain.singular_values * 2.0**700, large.singular_values)


def test_a_bandwidth_too_small_to_square():
    weights = cpu.gaussian(np.array([[4.0, 4.0, 9.0]]), np.array([0, 3]), [1e-200])
    np.testing.assert_array_equal(weights, [[0.5, 0.5, 0.0]])


def test_shared_neighbours_of_one_view_are_its_own(clear):
    X = clear.views["view0"]
    own, shared = fit(X), fit(X, neighbors="shared")
    np.testing.assert_array_equal(own.labels_, shared.labels_)
    np.testing.assert_array_equal(own.transform(X), shared.transform(X))


def test_what_all_sparse_rows_share_does_not_drown_the_rest(clear):
    views = {name: np.column_stack([view, np.full(200, 1e25)]) for name, view in clear.views.items()}
    model = fit({name: sparse.csr_array(view) for name, view in views.items()}, scaling="block")
    assert adjusted_rand_score(clear.target, model.labels_) == 1


def test_large_sparse_float32_is_not_taken_for_infinite():
    rng = np.random.default_rng(0)
    table = sparse.csr_array((3e38 * rng.random((60, 5))).astype(np.float32))  # a row's sum is beyond float32
    assert GuidedCoTraining(2, random_state=0).fit(table).labels_.shape == (60,)


@pytest.mark.parametrize("kind", [">f4", ">i2", "u2", "u4", "u8"])
def test_tensors_are_made_of_any_type(clear, kind):
    views = {name: np.rint(50 * view + 1000).astype(kind) for name, view in clear.views.items()}
    for view in views.values():
        view.flags.writeable = False
    assert adjusted_rand_score(clear.target, fit(views, device="torch").labels_) == 1


def test_sparse_and_dense_views_side_by_side_as_tensors(clear):
    views = {**clear.views, "view1": sparse.csr_array(clear.views["view1"])}
    model = fit(views, device="torch")
    assert adjusted_rand_score(clear.target, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(views), model.labels_)


def test_rows_that_differ_by_rounding_alone_are_not_magnified():
    """Of unit rows that point the same way to 184 digits, the last digits would be brought to unit size."""
    rows = np.column_stack([np.full(4, 1e184), np.arange(4.0), np.full(4, 1e184)])
    prepared = prepare(rows, scaling="block", metric="cosine")(rows)
    np.testing.assert_allclose(prepared, [[1, 0, 1]] * 4, atol=1e-6)


@pytest.mark.parametrize("power", [0, 12, 31, 67, 300])
def test_constant_columns_of_any_size_come_out_as_zero(power):
    values = 1 + np.random.default_rng(0).random(50)
    rows = np.tile(values * 10.0**power, (16, 1))  # the mean of 16 such values is seldom the value
    np.testing.assert_array_equal(prepare(rows, scaling="block")(rows), 0)


def test_counts_whose_sum_is_beyond_float32():
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(1, 1, (2, 60))[rng.integers(2, size=60)]).clip(max=15).astype(np.float32)
    large = counts * np.float32(2.0**124)  # and float32 ends at 2**128
    plain, scaled = prepare(counts), prepare(large)
    assert "CommonTotal" in plain.describe()
    assert scaled.describe() == plain.describe()
    np.testing.assert_allclose(scaled(large), plain(counts), rtol=1e-4, atol=1e-5)


def test_a_graph_without_vectors_has_no_say_whatever_it_weighs():
    outer = np.diag([0.0, 0.0, 3.0, 2.0])
    plain = consensus(outer, np.array([0.0, 1.0]), 2)
    large = consensus(outer, np.array([2.0**1000, 1.0]), 2)
    np.testing.assert_array_equal(plain.rotation, large.rotation)
    np.testing.assert_array_equal(plain.singular_values, large.singular_values)


def test_words_in_a_dense_tensor_of_which_some_rows_are_lost(clear):
    rng = np.random.default_rng(0)
    words = rng.poisson(rng.gamma(0.05, 1.0, (3, 80))[clear.target]).astype(np.float64)
    words[np.arange(200) % 4 > 0] = np.nan  # so few are left that some landmarks lack the view
    views = {**clear.views, "words": words}
    model = fit(views, device="torch")
    assert "words" in model._fitted.row_map.graph_map.preparations[2].describe()
    assert adjusted_rand_score(clear.target, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(views), model.labels_)

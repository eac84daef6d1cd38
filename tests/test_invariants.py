"""What must not change the answer, and what must change it in a known way."""

import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coterie.settings
from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views, make_views


@pytest.fixture(scope="module")
def digits():
    return load_digit_views()


@pytest.fixture(scope="module")
def rings():
    return make_views(1500, 5, shape="rings", n_weak=1, random_state=3)


def fit(views, k=5, **settings):
    return GuidedCoTraining(k, **{"random_state": 0, **settings}).fit(views)


def test_prediction_is_exact_on_digits(digits, seed):
    model = fit(digits.views, 10, random_state=seed, store_embedding=True)
    np.testing.assert_array_equal(model.predict(digits.views), model.labels_)
    np.testing.assert_array_equal(model.transform(digits.views), model.embedding_)


def test_prediction_is_exact_on_synthetic_views(rings, seed):
    model = fit(rings.views, random_state=seed)
    np.testing.assert_array_equal(model.predict(rings.views), model.labels_)


def test_prediction_does_not_depend_on_the_other_rows(digits):
    model = fit(digits.views, 10)
    part = {name: view[100:400] for name, view in digits.views.items()}
    np.testing.assert_array_equal(model.predict(part), model.labels_[100:400])
    one = {name: view[7:8] for name, view in digits.views.items()}
    np.testing.assert_array_equal(model.predict(one), model.labels_[7:8])


@pytest.fixture
def few_learned(monkeypatch):
    """Let the rounds learn from few rows, as they do where there are very many."""
    monkeypatch.setattr(coterie.settings, "LEARNED_ROWS", 900)
    monkeypatch.setattr(coterie.settings, "LEARNED_PER_LANDMARK", 1)


def test_rows_that_were_not_learned_from_follow(digits, few_learned):
    model = fit(digits.views, 10, n_landmarks=300, store_embedding=True)
    np.testing.assert_array_equal(model.predict(digits.views), model.labels_)
    np.testing.assert_array_equal(model.transform(digits.views), model.embedding_)


def test_half_of_the_rows_teach_what_all_do(rings, few_learned, monkeypatch):
    settings = {"n_landmarks": 300, "n_neighbors": 8, "store_embedding": True, "basis": "diffusion"}
    some = fit(rings.views, **settings)
    monkeypatch.setattr(coterie.settings, "LEARNED_ROWS", 10**6)
    every = fit(rings.views, **settings)
    assert not np.array_equal(some.embedding_, every.embedding_)
    assert adjusted_rand_score(some.labels_, every.labels_) > 0.95
    np.testing.assert_allclose(some.consensus_singular_values_[:5], every.consensus_singular_values_[:5], rtol=0.08)


def test_rows_that_are_learned_from_are_the_same_everywhere(rings, few_learned, tmp_path):
    settings = {"n_landmarks": 300, "n_neighbors": 8}
    plain = fit(rings.views, **settings)
    tables = {name: da.from_array(view, chunks=(400, -1)) for name, view in rings.views.items()}
    others = (
        fit(rings.views, block_size=100, n_jobs=1, **settings),
        fit(rings.views, work_dir=tmp_path / "job", block_size=250, **settings),
        fit(tables, **settings),
        fit(rings.views, device="torch", **settings),
    )
    for other in others:
        assert adjusted_rand_score(plain.labels_, np.asarray(other.labels_)) > 0.999


def test_all_rows_are_learned_from_as_published(rings, few_learned, monkeypatch):
    published = GuidedCoTraining.as_published(5, n_landmarks=200, random_state=0)
    some = published.fit(rings.views).transform(rings.views)
    monkeypatch.setattr(coterie.settings, "LEARNED_ROWS", 10**6)
    np.testing.assert_array_equal(published.fit(rings.views).transform(rings.views), some)


def test_new_rows_join_the_right_clusters(seed):
    data = make_views(3000, 6, random_state=seed)
    old = {name: view[:2000] for name, view in data.views.items()}
    new = {name: view[2000:] for name, view in data.views.items()}
    model = fit(old, 6)
    assert adjusted_rand_score(data.target[:2000], model.labels_) > 0.95
    assert adjusted_rand_score(data.target[2000:], model.predict(new)) > 0.95


def test_permuted_rows_permute_the_answer(rng):
    data = make_views(1500, 5, n_weak=1, separation=5, random_state=3)
    order = rng.permutation(1500)
    landmarks = np.sort(rng.choice(1500, 300, replace=False))
    plain = fit(data.views, landmarks=landmarks)
    moved = fit(
        {name: view[order] for name, view in data.views.items()},
        landmarks=np.flatnonzero(np.isin(order, landmarks)),
    )
    assert adjusted_rand_score(plain.labels_[order], moved.labels_) > 0.995


def test_permuted_views_and_columns_leave_the_partition(rings, rng):
    landmarks = np.arange(0, 1500, 5)
    plain = fit(rings.views, landmarks=landmarks)
    names = list(rings.views)[::-1]
    turned = fit({name: rings.views[name] for name in names}, landmarks=landmarks)
    assert adjusted_rand_score(plain.labels_, turned.labels_) > 0.995
    shuffled = {name: view[:, rng.permutation(view.shape[1])] for name, view in rings.views.items()}
    assert adjusted_rand_score(plain.labels_, fit(shuffled, landmarks=landmarks).labels_) > 0.995


def test_a_view_twice_is_the_view_once():
    """With one view and its copy the augmented view is that view's own basis."""
    X = next(iter(make_views(600, 4, random_state=1).views.values()))
    landmarks = np.arange(0, 600, 3)
    once = GuidedCoTraining.as_published(4, landmarks=landmarks, random_state=0).fit(X)
    twice = GuidedCoTraining.as_published(4, landmarks=landmarks, random_state=0).fit([X, X])
    assert adjusted_rand_score(once.labels_, twice.labels_) == 1
    np.testing.assert_allclose(list(twice.agreement_.values()), 1, atol=1e-6)


def test_units_do_not_matter(rings):
    landmarks = np.arange(0, 1500, 5)
    plain = fit(rings.views, landmarks=landmarks)
    other_units = {
        name: view.astype(float) * 10.0**power + offset
        for (name, view), power, offset in zip(rings.views.items(), (-20, 4, 20), (0, 1e6, 0), strict=True)
    }
    assert adjusted_rand_score(plain.labels_, fit(other_units, landmarks=landmarks).labels_) > 0.995


def test_threads_do_not_matter(digits):
    alone, together = (fit(digits.views, 10, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(alone.labels_, together.labels_)
    np.testing.assert_array_equal(alone.cluster_centers_, together.cluster_centers_)


@pytest.mark.parametrize("block_size", [7, 100, 5000])
def test_block_sizes_hardly_matter(digits, block_size):
    plain = fit(digits.views, 10)
    other = fit(digits.views, 10, block_size=block_size)
    assert adjusted_rand_score(plain.labels_, other.labels_) >= 0.999


def test_same_seed_same_answer(rings):
    first, second = fit(rings.views), fit(rings.views)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first._fitted.row_map.basis.bases, second._fitted.row_map.basis.bases)


def test_nothing_passed_in_is_changed(rings):
    copies = {name: view.copy() for name, view in rings.views.items()}
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - that it is left alone is the point
    fit(rings.views)
    for name, view in rings.views.items():
        np.testing.assert_array_equal(view, copies[name])
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_sparse_input_gives_the_labels_of_dense_input(rng):
    from scipy import sparse

    data = make_views(800, 4, n_columns=(30, 20), random_state=0)
    views = {name: np.where(view > 0.3, view, 0) for name, view in data.views.items()}
    for cls in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        landmarks = np.arange(0, 800, 4)
        settings = dict(landmarks=landmarks, scaling="block", metric="euclidean")
        dense = fit(views, 4, **settings)
        thin = fit({name: cls(view) for name, view in views.items()}, 4, **settings)
        assert adjusted_rand_score(dense.labels_, thin.labels_) > 0.99
        np.testing.assert_array_equal(thin.predict({name: cls(view) for name, view in views.items()}), thin.labels_)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int64", "float16", "float64"])
def test_every_real_dtype(dtype):
    data = make_views(500, 3, separation=6, random_state=0)
    whole = {name: np.clip(np.rint(20 * view + 60), 0, 127) for name, view in data.views.items()}
    views = {name: view > 60 if dtype == "bool" else view.astype(dtype) for name, view in whole.items()}
    model = fit(views, 3)
    same = fit({name: view.astype("float32") for name, view in views.items()}, 3)
    np.testing.assert_array_equal(model.labels_, same.labels_)
    np.testing.assert_array_equal(model.predict(views), model.labels_)
    if dtype != "bool":
        assert adjusted_rand_score(data.target, model.labels_) > 0.95

"""How far a partition depends on the landmarks: plain clusters do not, a cloud does; fits with other seeds agree."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, jaccard_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.method.graphs import Block
from coterie.method.stability import keep_landmarks, label_means, row_jaccard


def fitted(data, k, seed=0, **settings):
    return GuidedCoTraining(k, random_state=seed, **settings).fit(data.views)


# -- the whole -----------------------------------------------------------------------------------------------------


def test_plain_clusters_do_not_depend_on_the_landmarks():
    model = fitted(make_views(600, 4, separation=7, random_state=0), 4)
    assert model.stability_ > 0.99
    assert (model.cluster_stability_ > 0.99).all()


def test_a_cloud_cut_in_pieces_depends_on_them():
    cloud = make_views(600, 1, n_columns=(8, 6), random_state=0)
    assert fitted(cloud, 6).stability_ < 0.5


def test_more_stable_where_fits_with_other_seeds_agree_more():
    told, seen = [], []
    for separation in (0.5, 0.7, 0.9, 1.2, 2):
        data = make_views(500, 5, n_columns=(10, 8), separation=separation, random_state=1)
        first, second = (fitted(data, 5, seed, n_landmarks=200, basis="diffusion") for seed in (0, 1))
        told.append(first.stability_)
        seen.append(adjusted_rand_score(first.labels_, second.labels_))
    assert np.argsort(told).tolist() == np.argsort(seen).tolist()
    assert told[-1] - told[0] > 0.7


def test_clusters_that_run_into_each_other_are_told_from_one_that_stands_alone():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [0.4, 0], [0.8, 0], [9, 9]])
    target = np.arange(600) % 4
    views = [centres[target] + rng.standard_normal((600, 2)) for _ in range(2)]
    model = GuidedCoTraining(4, random_state=0).fit(views)
    alone = model.labels_[target == 3][0]
    others = np.delete(model.cluster_stability_, alone)
    assert model.cluster_stability_[alone] > 0.95
    assert (others < 0.8).all()


def test_one_cluster_cannot_change():
    model = fitted(make_views(100, 1, random_state=0), 1)
    assert model.stability_ == 1
    assert model.cluster_stability_.tolist() == [1]


def test_too_few_landmarks_to_tell():
    model = fitted(make_views(60, 2, separation=7, random_state=0), 2, n_landmarks=3, n_neighbors=2)
    assert model.stability_ == 0
    assert not model.cluster_stability_.any()


@pytest.mark.parametrize("settings", [{"basis": "subspace"}, {"n_neighbors": 4}, {"dtype": "float64"}])
def test_settings_of_all_kinds(settings):
    data = make_views(400, 3, separation=7, random_state=0)
    assert fitted(data, 3, **settings).stability_ > 0.95


def test_rows_that_lack_views():
    data = make_views(500, 4, separation=7, missing=0.3, random_state=0)
    model = fitted(data, 4)
    assert model.stability_ > 0.9
    assert np.isfinite(model.cluster_stability_).all()


def test_the_answer_depends_on_nothing_but_the_seed():
    data = make_views(500, 5, separation=1.5, random_state=0)
    first, second = (fitted(data, 5, n_jobs=jobs, block_size=size) for jobs, size in ((1, None), (2, 100)))
    assert first.stability_ == pytest.approx(second.stability_, abs=1e-9)
    # Between block sizes the clusters are the same, but their numbers may not be.
    np.testing.assert_allclose(np.sort(first.cluster_stability_), np.sort(second.cluster_stability_))


# -- the pieces ----------------------------------------------------------------------------------------------------


def test_landmarks_that_go_leave_the_others_whole():
    block = Block(
        np.array([[0, 2, 4, 1, 3], [1, 3, 4, 0, 2]], dtype=np.uint16),
        np.array([[0.5, 0.25, 0.25, 0.6, 0.4], [0.2, 0.3, 0.5, 0.0, 1.0]], dtype=np.float32),
    )
    bounds, kept = np.array([0, 3, 5]), np.array([True, False, True, False, True])
    thin = keep_landmarks(block, bounds, kept)

    dense = np.zeros((2, 2, 5))
    for g in range(2):
        columns = slice(bounds[g], bounds[g + 1])
        np.put_along_axis(dense[g], block.indices[:, columns].astype(int), block.weights[:, columns], axis=1)
    expected = dense[:, :, kept]
    expected /= np.maximum(expected.sum(axis=2, keepdims=True), 1e-9)
    for g in range(2):
        found = np.zeros((2, 3))
        for row in range(2):
            for column in range(bounds[g], bounds[g + 1]):
                found[row, thin.indices[row, column]] += thin.weights[row, column]
        np.testing.assert_allclose(found, expected[g], atol=1e-7)
    assert (np.diff(thin.indices[:, :3].astype(int), axis=1) >= 0).all()


def test_the_least_weight_that_is_left_of_a_row_becomes_all_of_it():
    least = np.finfo(np.float32).smallest_subnormal  # of which one over it is infinite
    block = Block(np.array([[0, 1]], dtype=np.uint16), np.array([[1, least]], dtype=np.float32))
    assert keep_landmarks(block, np.array([0, 2]), np.array([False, True])).weights.tolist() == [[0, 1]]


def test_rows_far_from_all_others_leave_the_figure_finite(rng):
    views = make_views(400, 3, separation=7, random_state=0).views
    far = rng.permutation(400)[:20]
    for view in views.values():
        view[far] = rng.uniform(-60, 60, size=(20, view.shape[1]))
    assert np.isfinite(GuidedCoTraining.as_published(3, random_state=0).fit(views).stability_)


def test_rows_jaccard_is_scikit_learns(rng):
    first, second = rng.integers(3, size=(2, 60))
    found = row_jaccard(first, second)
    for row in range(60):
        assert found[row] == pytest.approx(jaccard_score(first == first[row], second == second[row]))


def test_rows_that_nobody_knows_have_no_jaccard():
    assert np.isnan(row_jaccard(np.array([-1, -1]), np.array([0, -1]))).all()


def test_means_of_groups():
    np.testing.assert_array_equal(label_means(np.array([1.0, 0.0, 3.0]), np.array([2, 2, 0]), 3), [3, np.nan, 0.5])

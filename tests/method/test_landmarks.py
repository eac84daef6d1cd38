"""Landmarks are medoids, or means of the medoids' groups: by brute force."""

import numpy as np
import pytest
from scipy import sparse

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.method.landmarks import (
    Groups,
    group_means,
    kmedoids,
    means_of_groups,
    medoids_of_groups,
    prepare_members,
)
from coterie.metrics import ari
from coterie.settings import PILOTED_FROM
from coterie.views import as_views, prepare


def test_medoid_of_a_group_by_brute_force(rng):
    """The row nearest to the mean has the least sum of squared distances to the others."""
    rows = rng.standard_normal((60, 3))
    labels = rng.integers(4, size=60).astype(np.int32)
    found = medoids_of_groups(rows, labels, 4)
    for group in range(4):
        members = np.flatnonzero(labels == group)
        sums = ((rows[members][:, None] - rows[members]) ** 2).sum(axis=(1, 2))
        assert found[group] == members[sums.argmin()]


def test_landmarks_cover_all_groups(rng):
    rows = np.repeat(50 * rng.standard_normal((10, 4)), 30, axis=0) + rng.standard_normal((300, 4))
    landmarks = kmedoids(rows, 40, rng)
    assert len(np.unique(landmarks)) == 40
    assert set(landmarks // 30) == set(range(10))


def test_landmarks_are_distinct_rows(rng):
    rows = np.repeat(rng.standard_normal((7, 3)), 10, axis=0)
    landmarks = kmedoids(rows, 20, rng)
    assert len(np.unique(rows[landmarks], axis=0)) == len(landmarks) <= 7


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_means_of_groups_by_brute_force(kind, rng):
    rows, labels = rng.standard_normal((60, 3)), rng.integers(4, size=60)
    means, counts = means_of_groups(kind(rows), labels, 5)
    means = means.toarray() if sparse.issparse(means) else means
    assert counts.tolist() == np.bincount(labels, minlength=5).tolist()
    np.testing.assert_allclose(means[:4], [rows[labels == group].mean(axis=0) for group in range(4)])
    assert not means[4].any()


def test_a_view_counts_the_rows_that_have_it(rng):
    """Groups are the same in every view, and a group without a view is absent there."""
    first, second = rng.standard_normal((8, 2)), rng.standard_normal((8, 3))
    second[[1, 4, 5]] = np.nan
    views = as_views({"a": first, "b": second})
    preparations = [prepare(first, scaling="none"), prepare(second[[0, 2, 3, 6, 7]], scaling="none")]
    groups = Groups(np.arange(8), np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 2, 4, 6]))
    own, other = group_means(prepare_members(views, preparations, np.arange(8), 1), preparations, groups)
    first, second = preparations[0](first), preparations[1](second)
    np.testing.assert_allclose(own.rows, first.reshape(4, 2, 2).mean(axis=1), rtol=1e-5)
    assert own.present.all()
    assert other.present.tolist() == [True, True, False, True]
    np.testing.assert_allclose(
        other.rows[[0, 1, 3]], [second[0], second[2:4].mean(axis=0), second[6:].mean(axis=0)], rtol=1e-5
    )


def test_landmarks_are_means_where_rows_are_many_and_rows_as_published(rng):
    X = rng.standard_normal((400, 4))
    few, many = (GuidedCoTraining(2, n_landmarks=p, scaling="none", random_state=0).fit(X) for p in (300, 100))
    published = GuidedCoTraining.as_published(2, n_landmarks=100, random_state=0).fit(X)
    assert is_a_row(few, X).all()
    assert not is_a_row(many, X).all()
    assert is_a_row(published, X).all()


def is_a_row(model, X):
    """Whether each landmark is the row that ``landmark_indices_`` names."""
    graph_map = model._fitted.row_map.graph_map
    rows = graph_map.preparations[0](X[model.landmark_indices_])
    return np.isclose(graph_map.landmarks[0].rows, rows, atol=1e-6).all(axis=1)


def test_landmarks_of_ones_own_may_be_any_of_many_rows():
    """Where a pilot looks at a sample first, the numbers are still those of all rows."""
    data = make_views(PILOTED_FROM, 4, n_columns=(6, 5), random_state=0)
    chosen = np.arange(0, PILOTED_FROM, 400)
    model = GuidedCoTraining(4, landmarks=chosen, random_state=0).fit(data.views)
    np.testing.assert_array_equal(model.landmark_indices_, chosen)
    assert ari(data.target, model.labels_) > 0.99

"""Clusters that keep their numbers over refits."""

import numpy as np
import pandas as pd
import pytest

from coterie import GuidedCoTraining
from coterie.alignment import align, describe_changes, matches
from coterie.datasets import make_views


@pytest.fixture(scope="module")
def data():
    return make_views(600, 5, separation=8, random_state=0)


def fit(views, k, seed=0):
    return GuidedCoTraining(k, random_state=seed, n_landmarks=120).fit(views)


def test_numbers_are_kept_over_refits(data, seed):
    old = fit(data.views, 5)
    later = {name: view[100:] for name, view in data.views.items()}
    new = fit(later, 5, seed + 1)
    before = new.labels_.copy()
    found = align(new, old, later)
    np.testing.assert_array_equal(found.model.labels_, old.labels_[100:])
    assert found.in_words() == []
    np.testing.assert_array_equal(new.labels_, before)  # the model that was passed is as it was


def test_everything_is_renumbered_together(data):
    old = fit(data.views, 5)
    found = align(fit(data.views, 5, 3), old, data.views).model
    np.testing.assert_array_equal(found.predict(data.views), found.labels_)
    np.testing.assert_array_equal(found.confidence(data.views), found.confidence_)
    np.testing.assert_array_equal(found.cluster_sizes_, np.bincount(found.labels_))
    np.testing.assert_array_equal(found.labels_[found.medoid_indices_], np.arange(5))
    agreement = (found.view_labels(data.views) == found.labels_[:, None]).astype(float)
    for cluster in range(5):
        own = agreement[found.labels_ == cluster].mean(axis=0)
        np.testing.assert_allclose(found.cluster_agreement_[cluster], own, atol=1e-12)
    assert len(found.cluster_stability_) == 5


def test_what_was_split_and_merged_is_said(data):
    five, four = fit(data.views, 5), fit(data.views, 4)
    finer = align(five, four, data.views)
    coarser = align(four, five, data.views)
    assert len(finer.split) == 1
    assert not finer.merged
    assert len(coarser.merged) == 1
    assert not coarser.split
    assert "fell into" in finer.in_words()[0]
    assert "became" in " ".join(coarser.in_words())
    same = set(finer.kept) - set(finer.moved.values())
    for number in same:
        assert (four.labels_[finer.model.labels_ == number] == number).mean() > 0.9


def test_born_and_gone_by_hand():
    shared = np.array([[10, 0, 0], [0, 0, 9], [3, 2, 3]])
    same = matches(shared)
    assert same == {0: 0, 1: 2}
    found = describe_changes(None, shared, same)
    assert found.moved == {2: 1}
    assert found.born == (2,)
    assert found.gone == (1,)


def test_rows_are_matched_where_the_models_have_their_views_in_another_order():
    """The rows of a prediction are in the order of the model's first view."""
    first, second, _ = make_views(300, n_clusters=4, separation=8, random_state=0).views.values()
    ids = [f"row{i}" for i in range(300)]
    frames = {"a": pd.DataFrame(first, index=ids), "b": pd.DataFrame(second, index=ids)}
    old = GuidedCoTraining(4, random_state=0).fit({name: frames[name] for name in ("b", "a")})
    new = GuidedCoTraining(4, random_state=1).fit(frames)
    found = align(new, old, {"a": frames["a"][::-1], "b": frames["b"]})
    assert found.in_words() == align(new, old, frames).in_words()
    assert len(found.kept) == 4

"""The registry of methods: every line can be made and fitted, and says what it takes and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie import GuidedCoTraining, peers
from coterie.datasets import make_views
from coterie.metrics import ari, scores
from coterie.peers.registry import METHODS, MOST_ROWS, Method, make_estimator, warm_up
from coterie.views.preparation import prepare


@pytest.fixture(scope="module")
def data():
    return make_views(300, 3, n_columns=(30, 25), separation=8, random_state=0)


def test_every_peer_is_registered():
    registered = {method.estimator for method in METHODS.values()}
    assert registered == {*peers.__all__, "GuidedCoTraining", "as_published"}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_can_be_made_and_fitted(name, data):
    method = METHODS[name]
    assert method.name == name
    assert method.cost in MOST_ROWS
    if method.one_view:
        method = method.on("view0", f"{name}, view0 alone")
    labels = make_estimator(method, 3, seed=0).fit_predict(data.views)
    assert labels.shape == (300,)
    assert len(np.unique(labels)) == 3


def test_the_first_two_are_ours():
    ours, published = list(METHODS.values())[:2]
    assert make_estimator(ours, 4, 1).get_params() == GuidedCoTraining(4, random_state=1).get_params()
    same = GuidedCoTraining.as_published(4, random_state=1)
    assert make_estimator(published, 4, 1).get_params() == same.get_params()


def test_slow_methods_bear_fewer_rows():
    assert Method("a", "LSC").is_feasible_for(10**9)
    assert [Method("a", "SC", cost="cubic").is_feasible_for(n) for n in (3_000, 3_001)] == [True, False]
    assert [Method("a", "SC", cost="quadratic").is_feasible_for(n) for n in (20_000, 20_001)] == [True, False]


def test_parameters_are_added_and_the_line_stays_as_it_was():
    method = METHODS["k-means, block"]
    assert method.given(n_init=3).params == {"scaling": "block", "n_init": 3}
    assert METHODS["LSC"].on(1, "x").params == {"view": 1}
    assert method.params == {"scaling": "block"}


def test_a_warm_up_fits_methods_of_one_view_too():
    for name in ("LSC", "ConcatKMeans"):
        warm_up(name)


def test_kmeans_auto_runs_on_the_columns_that_coterie_prepares(data):
    columns = np.hstack([prepare(view, n_clusters=3)(view) for view in data.views.values()])  # (n, d)
    assert columns.shape[1] < 55  # they are reduced
    expected = KMeans(3, n_init=10, random_state=0).fit_predict(columns)
    found = peers.ConcatKMeans(3, scaling="auto", random_state=0).fit_predict(data.views)
    assert ari(expected, found) == 1


def test_scores_are_those_of_the_single_functions():
    from coterie import metrics

    rng = np.random.default_rng(0)
    true, found = rng.integers(4, size=(2, 200))
    assert scores(true, found) == {
        "ACC": metrics.clustering_accuracy(true, found),
        "NMI": metrics.nmi(true, found),
        "ARI": metrics.ari(true, found),
        "purity": metrics.purity(true, found),
    }

"""Co-training and co-regularisation against mvlearn, where it is installed, and against plain transcriptions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.peers import CoRegularised, CoTraining
from coterie.peers import _dense as dense
from coterie.peers._common import unit_rows
from coterie.peers.coregularised import coregularise
from coterie.peers.cotraining import cotrain
from coterie.views import as_views


@pytest.fixture
def affinities(rng, seed):
    # Clusters that overlap, so that the methods have something to do.
    data = make_views(150, 4, n_columns=(10, 8, 6), separation=2.5, random_state=seed)
    return dense.view_affinities(as_views(data.views), rng)


def top(matrix, k):
    return np.linalg.eigh(matrix)[1][:, -k:]


def normalise(affinity):
    half = np.diag(np.abs(affinity.sum(axis=1)) ** -0.5)
    return half @ affinity @ half


def same_space(one, other, atol=1e-6):
    return np.allclose(one @ one.T, other @ other.T, atol=atol)


def mvlearn_cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old package
        return pytest.importorskip("mvlearn.cluster", exc_type=ImportError)


def on_affinities(cls, affinities, **parameters):
    """Fit one of mvlearn's classes to affinities that are made already."""

    class Given(cls):
        def _affinity_mat(self, X):
            return X

    model = Given(random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(affinities)
    return model


def test_cotraining_matches_a_plain_transcription(affinities):
    bases = [top(normalise(a), 4) for a in affinities]
    for _ in range(3):
        spans = [u @ u.T for u in bases]
        projected = [(sum(spans) - own) @ a for own, a in zip(spans, affinities, strict=True)]
        bases = [top(normalise((s + s.T) / 2), 4) for s in projected]
    ours = cotrain(affinities, 4, 3)
    assert all(same_space(u, w) for u, w in zip(ours, bases, strict=True))


@pytest.mark.parametrize("kind", ["pairwise", "centroid"])
def test_coregularisation_matches_a_plain_transcription(kind, affinities):
    graphs, weight = [normalise(a) for a in affinities], 0.3
    bases = [top(g, 4) for g in graphs]
    common = top(sum(u @ u.T for u in bases), 4)
    for _ in range(3):
        for v in (1, 2, 0):
            drawn = common @ common.T
            if kind == "pairwise":
                drawn = sum(u @ u.T for w, u in enumerate(bases) if w != v)
            bases[v] = top(graphs[v] + weight * drawn, 4)
        common = top(sum(u @ u.T for u in bases), 4)
    ours = coregularise(graphs, 4, kind, weight, max_iter=3, tol=0).state
    assert all(same_space(u, w) for u, w in zip(ours.views, bases, strict=True))
    if kind == "centroid":
        assert same_space(ours.common, common)


@pytest.mark.parametrize("kind", ["pairwise", "centroid"])
@pytest.mark.parametrize("weight", [0.02, 1.0])
def test_agreement_and_its_objective_never_fall(kind, weight, affinities):
    found = coregularise([dense.normalised(a) for a in affinities], 4, kind, weight, max_iter=15, tol=0)
    assert (np.diff(found.objective) >= -1e-9).all()


def test_strongly_drawn_views_agree(affinities):
    graphs = [dense.normalised(a) for a in affinities]
    bases = coregularise(graphs, 4, "pairwise", 1e3, max_iter=20, tol=0).state.views
    assert all(same_space(u, bases[0], atol=1e-2) for u in bases)


def test_cotraining_finds_mvlearns_clusters(affinities):
    cluster = mvlearn_cluster()
    theirs = on_affinities(cluster.MultiviewSpectralClustering, affinities, n_clusters=4, max_iter=5, n_init=20)
    ours = cotrain(affinities, 4, 5)
    embedding = np.hstack([unit_rows(u) for u in ours])
    labels = KMeans(4, n_init=20, random_state=0).fit_predict(embedding)
    assert ari(theirs.labels_, labels) > 0.95


def test_coregularisation_finds_mvlearns_clusters(affinities):
    cluster = mvlearn_cluster()
    # It counts the first eigenvectors as a round.
    theirs = on_affinities(
        cluster.MultiviewCoRegSpectralClustering, affinities, n_clusters=4, v_lambda=0.5, max_iter=6, n_init=20
    )
    ours = coregularise([dense.normalised(a) for a in affinities], 4, "pairwise", 0.5, max_iter=5, tol=0).state
    rows = unit_rows(np.hstack(ours.views))
    assert np.allclose(rows @ rows.T, theirs.embedding_ @ theirs.embedding_.T, atol=1e-5)


def test_one_view_may_be_cut_alone():
    data = make_views(150, 3, n_columns=(8, 8), separation=6, random_state=0)
    for cls in (CoTraining, CoRegularised):
        all_of_them = cls(3, random_state=0).fit(data.views)
        one = cls(3, view="view1", random_state=0).fit(data.views)
        assert all_of_them.embedding_.shape == (150, 6)
        assert one.embedding_.shape == (150, 3)
        assert ari(data.target, one.labels_) > 0.9

"""Anchor graphs and the transfer cut, against the bipartite graph's own dense eigenproblem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh

from coterie.metrics import ari, clustering_accuracy, nmi
from coterie.peers import USENC, USPEC, FastMICE, fastmice
from coterie.peers import _ensemble as ensemble
from coterie.peers import _transfer as transfer
from coterie.peers._lloyd import lloyd


def dense_vectors(graph, k):
    """The top generalised eigenvectors of the whole graph of rows and anchors, at the rows."""
    n, p = graph.shape
    whole = np.block([[np.zeros((n, n)), graph], [graph.T, np.zeros((p, p))]])
    return eigh(whole, np.diag(whole.sum(axis=1)))[1][:, ::-1][:n, :k]


def test_transfer_cut_solves_the_whole_bipartite_graph(rng):
    graph = rng.random((60, 12)) * (rng.random((60, 12)) < 0.5) + 0.01
    basis = transfer.transfer_cut(sparse.csr_array(graph), 3).basis  # (p, k)
    ours = (graph / graph.sum(axis=1, keepdims=True)) @ basis  # before rows are made unit
    reference = dense_vectors(graph, 3)
    for column in range(3):  # an eigenvector's length and sign are free
        cosine = ours[:, column] @ reference[:, column]
        cosine /= np.linalg.norm(ours[:, column]) * np.linalg.norm(reference[:, column])
        assert abs(cosine) == pytest.approx(1, abs=1e-9)
    unit = transfer.transfer_cut(sparse.csr_array(graph), 3)(sparse.csr_array(graph))
    assert np.allclose(unit, ours / np.linalg.norm(ours, axis=1, keepdims=True))


def test_weights_are_gaussian_in_the_mean_kept_distance(rng):
    table, anchors = rng.standard_normal((50, 4)), rng.standard_normal((9, 4))
    indices, squares = transfer.nearest_anchors(table, anchors, 3, 1)
    distances = np.linalg.norm(table[:, None] - anchors, axis=2)
    nearest = np.sort(distances, axis=1)[:, :3]
    assert np.allclose(np.sort(np.sqrt(squares), axis=1), nearest)
    graph = transfer.AnchorGraph(anchors, 3, float(nearest.mean()), unit=False).weigh(indices, squares).toarray()
    wanted = np.where(distances <= nearest[:, -1:], np.exp(-(distances**2) / (2 * nearest.mean() ** 2)), 0)
    assert np.allclose(graph, wanted)
    unit = transfer.AnchorGraph(anchors, 3, float(nearest.mean()), unit=True).weigh(indices, squares).toarray()
    assert np.allclose(unit, wanted / np.linalg.norm(wanted, axis=1, keepdims=True))


def test_incidence_has_a_one_for_every_partition():
    found = transfer.incidence([np.array([0, 1, 1]), np.array([2, 0, 1])], [2, 3]).toarray()
    assert found.tolist() == [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0], [0, 1, 0, 1, 0]]


def test_consensus_of_equal_partitions_is_that_partition(rng):
    labels = rng.permutation(np.repeat(np.arange(3), 20))
    names = [np.array([0, 1, 2]), np.array([2, 0, 1]), np.array([1, 2, 0])]
    members = [(ensemble.Member(None, None, np.zeros((3, 3))), name[labels]) for name in names]
    assert ari(labels, ensemble.agree(members, 3, rng, 1).labels) == 1


def test_lloyd_falls_and_fills_empty_groups(rng):
    table = rng.standard_normal((200, 3))
    costs = [lloyd(table, 9, n_iter=i, rng=np.random.default_rng(1)).cost for i in range(8)]
    assert all(after <= before + 1e-9 for before, after in pairwise(costs))
    twins = np.repeat(np.arange(6.0)[:, None], 10, axis=0)  # starts are often the same value, and leave groups empty
    groups = lloyd(twins, 6, n_iter=30, n_runs=2, rng=rng)
    assert len(np.unique(groups.labels)) == 6
    assert groups.cost < 1e-9


def test_members_draw_some_columns_of_some_views(rng):
    widths = [len(fastmice.draw_columns(100, rng)) for _ in range(200)]
    assert 20 <= min(widths) < 30
    assert 70 < max(widths) <= 80
    assert len(fastmice.draw_columns(1, rng)) == 1
    tables = [rng.standard_normal((40, 6)), rng.standard_normal((40, 5))]
    member, labels = fastmice.fit_member(tables, 3, 10, 5, rng, 1)
    assert len(member.join.parts) in (1, 2)
    assert np.array_equal(member(tables, 1), labels)


def test_fastmice_on_mfeat_is_near_the_known_figures(mfeat):
    order = np.random.default_rng(0).permutation(len(mfeat.target))
    labels = FastMICE(10, n_members=8, random_state=0).fit_predict({v: t[order] for v, t in mfeat.views.items()})
    assert nmi(mfeat.target[order], labels) == pytest.approx(0.903, abs=0.05)
    assert clustering_accuracy(mfeat.target[order], labels) > 0.8


def test_uspec_and_usenc_on_one_view_of_mfeat(mfeat):
    pixels = mfeat.views["pix"]
    alone = nmi(mfeat.target, USPEC(10, random_state=0).fit_predict(pixels))
    assert alone > 0.8
    assert nmi(mfeat.target, USENC(10, n_members=6, random_state=0).fit_predict(pixels)) > 0.8

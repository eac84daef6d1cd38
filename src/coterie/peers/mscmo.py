"""MSCMO: common vectors, with most weight on the view that fits them worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut, unit_rows
from coterie.peers._dense import check_row_count, common_vectors, normalised, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.peers.coregularised import overlap, regularised_vectors
from coterie.threads import one_thread_per_block
from coterie.validation import check_real, refuse


@dataclass(frozen=True)
class CommonVectors:
    """Vectors of every view, the common ones, and the views' weights."""

    views: tuple[np.ndarray, ...]  # each (n, k), orthonormal
    common: np.ndarray  # (n, k), orthonormal
    weights: np.ndarray  # (V,) summing to one


@peer
class MSCMO(Peer):
    """Multi-feature spectral clustering with minimax optimisation.

    The cost of a view is the normalised cut of its vectors in its graph plus their distance from common vectors. The
    vectors minimise the weighted sum of these costs and the weights maximise it, so that the view that fits worst
    is weighted most. Memory grows with n^2 and time faster; n is refused above 10,000.

    Parameters
    ----------
    weight : float, default=0.5
        Weight of the distance from the common vectors, lambda.
    gamma : float, default=0.5
        Exponent of the views' weights, between 0 and 1: near 0 views are weighted alike, near 1 the costliest one gets
        all the weight.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_clusters)
        The common vectors, rows of length one.
    view_weights_ : dict of float
        Weight of every view; they sum to one.
    objective_ : list of float
        sum_v a_v^gamma c_v after each round, c_v the cost of view v. Vectors lower it and weights raise it, so that it
        is not monotone.
    n_iter_

    Notes
    -----
    Lee and Liu (ICIP 2016) report .800 ACC and .755 NMI for UCI's digits, which is near to the mean over single starts
    of k-means from random rows; the best of ten starts is higher. See the manual's page "Which method when".

    References
    ----------
    H. Wang, C. Weng and J. Yuan: Multi-Feature Spectral Clustering with Minimax Optimization. CVPR 2014.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import MSCMO
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = MSCMO(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    weight: float = 0.5
    gamma: float = 0.5
    max_iter: int = 20
    tol: float = 1e-6
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> MSCMO:
        self._check_parameters()
        views = self._read_views(X)
        check_row_count("MSCMO", views.n_rows, len(views) + 3)
        rng = self._make_rng()
        with one_thread_per_block():
            graphs = [normalised(affinity) for affinity in view_affinities(views, rng)]  # each (n, n)
            found = minimax(graphs, self.n_clusters, self.weight, self.gamma, self.max_iter, self.tol)
            embedding = unit_rows(found.state.common)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.view_weights_ = dict(zip(views.names, found.state.weights.tolist(), strict=True))
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self

    def _check_parameters(self) -> None:
        check_real("MSCMO", "weight", self.weight, low=0, above=True)
        check_real("MSCMO", "gamma", self.gamma, low=0, above=True)
        if self.gamma >= 1:
            refuse("MSCMO", "gamma", "a number between 0 and 1", self.gamma)
        self._check_ints(max_iter=1, n_init=1)
        check_real("MSCMO", "tol", self.tol, low=0)


def minimax(
    graphs: Sequence[np.ndarray], n_clusters: int, weight: float, gamma: float, max_iter: int, tol: float
) -> Alternation[CommonVectors]:
    """Alternate between vectors that minimise sum_v a_v^gamma c_v and weights that maximise it.

    c_v = tr(U^vT (I - L^v) U^v) + lambda (k - |U^vT U*|^2), L^v the normalised affinities.
    """
    views = tuple(top_vectors(graph, n_clusters) for graph in graphs)
    even = np.full(len(graphs), 1 / len(graphs))  # (V,)
    start = CommonVectors(views, common_vectors(views, even, n_clusters), even)
    return alternate(start, partial(minimax_round, graphs, weight, gamma), max_iter=max_iter, tol=tol)


def minimax_round(
    graphs: Sequence[np.ndarray], weight: float, gamma: float, now: CommonVectors
) -> Round[CommonVectors]:
    """Update the views' vectors, the common ones and the weights."""
    k = now.common.shape[1]
    # A view's weight multiplies all of its cost, so its best vectors do not depend on it.
    views = tuple(regularised_vectors(graph, [now.common], weight, k) for graph in graphs)
    common = common_vectors(views, now.weights**gamma, k)
    costs = np.array([view_cost(g, u, common, weight) for g, u in zip(graphs, views, strict=True)])  # (V,)
    weights = worst_case_weights(costs, gamma)
    return Round(CommonVectors(views, common, weights), float(weights**gamma @ costs))


def view_cost(graph: np.ndarray, vectors: np.ndarray, common: np.ndarray, weight: float) -> float:
    """Return c_v, which is never negative."""
    k = vectors.shape[1]
    cut_off = k - np.sum(vectors * (graph @ vectors))
    return float(max(cut_off + weight * (k - overlap(vectors, common)), 0.0))


def worst_case_weights(costs: np.ndarray, gamma: float) -> np.ndarray:
    """Return the weights on the simplex that maximise sum_v a_v^gamma c_v: a_v ~ c_v^(1 / (1 - gamma))."""
    if costs.max() <= 0:
        return np.full(len(costs), 1 / len(costs))
    weights = (costs / costs.max()) ** (1 / (1 - gamma))
    return weights / weights.sum()

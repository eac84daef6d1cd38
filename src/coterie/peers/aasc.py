"""AASC: one affinity from all views, with weights that make its normalised cut small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut, prepared_table
from coterie.peers._dense import check_row_count, local_affinity, normalised, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_choice, check_real
from coterie.views import Views

BANDWIDTHS = ("median", "local")

# The search for the multiplier ends this near to the smallest ratio of cost to mass, in units of the ratios' range.
NEAR = 1e-9


@dataclass(frozen=True)
class Aggregate:
    """Generalised eigenvectors of the common affinity, and the weights that it was made with."""

    vectors: np.ndarray  # (n, k): F^T D F = I
    weights: np.ndarray  # (V,) summing to one


@peer
class AASC(Peer):
    """Affinity aggregation for spectral clustering.

    The views' affinities are added up as sum_v w_v^2 A^v. Its generalised eigenvectors and the weights that minimise
    their normalised cut are found by turns; k-means clusters the vectors. Memory grows with n^2 and time faster; n is
    refused above 10,000.

    Parameters
    ----------
    bandwidth : "median" or "local", default="median"
        Scale of a view's affinities: its median distance, or every row's own, the distance to its seventh neighbour.
    tol : float, default=1e-5
        The rounds end when no weight changes by more than this.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_clusters)
        The generalised eigenvectors that k-means clusters.
    view_weights_ : dict of float
        Weight of every view; they sum to one.
    objective_ : list of float
        The normalised cut of the vectors in the common affinity, summed over vectors, after each round.
    n_iter_

    Notes
    -----
    Lee and Liu (ICIP 2016) report .683 ACC and .649 NMI for UCI's digits. Of forty settings of columns, scales and
    k-means that were tried, ``bandwidth="local"`` with unit rows and single starts of k-means comes nearest, within
    .05. The default is the median distance, which the other methods of all pairs use too. It finds better clusters: all
    views then have nearly the same weight, while local scales give half of it to one view. Costs of the second
    eigenvector alone, as in the authors' code, give nearly the same weights. The page "Which method when" has the
    figures.

    References
    ----------
    H.-C. Huang, Y.-Y. Chuang and C.-S. Chen: Affinity Aggregation for Spectral Clustering. CVPR 2012.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import AASC
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = AASC(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    bandwidth: str = "median"
    max_iter: int = 20
    tol: float = 1e-5
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> AASC:
        check_choice("AASC", "bandwidth", self.bandwidth, BANDWIDTHS)
        self._check_ints(max_iter=1, n_init=1)
        check_real("AASC", "tol", self.tol, low=0)
        views = self._read_views(X)
        check_row_count("AASC", views.n_rows, len(views) + 3)
        rng = self._make_rng()
        with one_thread_per_block():
            affinities = local_affinities(views) if self.bandwidth == "local" else view_affinities(views, rng)
            found = aggregate(affinities, self.n_clusters, self.max_iter, self.tol)
            embedding = found.state.vectors  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.view_weights_ = dict(zip(views.names, found.state.weights.tolist(), strict=True))
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self


def local_affinities(views: Views) -> list[np.ndarray]:
    """Return the affinities of every view with a scale for each row."""
    return [local_affinity(prepared_table(view, dtype=np.float64)) for view in views]


def aggregate(affinities: Sequence[np.ndarray], n_clusters: int, max_iter: int, tol: float) -> Alternation[Aggregate]:
    """Minimise tr(F^T L F) over F and over the weights by turns, L the Laplacian of sum_v w_v^2 A^v, F^T D F = I."""
    weights = np.full(len(affinities), 1 / len(affinities))  # (V,)
    start = Aggregate(cut_vectors(affinities, weights, n_clusters), weights)
    return alternate(start, partial(aggregate_round, affinities), max_iter=max_iter, tol=tol)


def aggregate_round(affinities: Sequence[np.ndarray], now: Aggregate) -> Round[Aggregate]:
    """Update the weights, and then the vectors."""
    masses = np.array([mass(a, now.vectors) for a in affinities])  # (V,) tr(F^T D^v F)
    costs = masses - [np.sum(now.vectors * (a @ now.vectors)) for a in affinities]  # (V,) tr(F^T L^v F)
    weights = best_weights(masses, np.maximum(costs, 0), total=now.weights**2 @ masses)
    vectors = cut_vectors(affinities, weights, now.vectors.shape[1])
    common = combine(affinities, weights)
    objective = mass(common, vectors) - np.sum(vectors * (common @ vectors))
    return Round(Aggregate(vectors, weights), float(objective), np.abs(weights - now.weights).max())


def cut_vectors(affinities: Sequence[np.ndarray], weights: np.ndarray, count: int) -> np.ndarray:
    """Return the smallest solutions of L f = lambda D f, F = D^(-1/2) U with U the top of the normalised affinity."""
    total = combine(affinities, weights)
    degrees = total.sum(axis=1)  # (n,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5
    return top_vectors(normalised(total), count) * roots[:, None]  # (n, k)


def combine(affinities: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return sum_v w_v^2 A^v."""
    total = np.zeros_like(affinities[0])
    for affinity, weight in zip(affinities, weights, strict=True):
        total += weight**2 * affinity
    return total


def mass(affinity: np.ndarray, vectors: np.ndarray) -> float:
    """Return tr(F^T D F), D the row sums of the affinity."""
    return float(affinity.sum(axis=1) @ np.sum(vectors**2, axis=1))


def best_weights(masses: np.ndarray, costs: np.ndarray, total: float) -> np.ndarray:
    """Return the weights that minimise sum_v w_v^2 c_v where sum_v w_v = 1 and sum_v w_v^2 m_v is the given total.

    Stationary points of the Lagrangian are w_v ~ 1 / (c_v - t m_v), with a multiplier t that is found by a line search
    (Section 4). For t below the smallest c_v / m_v all weights are positive, and sum_v w_v^2 m_v rises with t; where it
    does not reach the total, the nearest end of the search interval is taken.
    """
    if (masses <= 0).any():  # a view without any affinity, as with a single row
        return np.full(len(masses), 1 / len(masses))
    ratios = costs / masses  # (V,)
    width = max(float(ratios.max() - ratios.min()), NEAR)

    def weights_at(log_step: float) -> np.ndarray:
        inverse = 1 / (masses * (ratios - ratios.min() + width * np.exp(log_step)))
        return inverse / inverse.sum()  # (V,)

    def excess(log_step: float) -> float:
        return float(weights_at(log_step) ** 2 @ masses) - total

    near, far = -np.log(1 / NEAR), np.log(1 / NEAR)
    if excess(near) <= 0:
        return weights_at(near)
    return weights_at(far if excess(far) >= 0 else brentq(excess, near, far))

"""MMSC: one non-negative cluster indicator, near the indicators of all views, which are smooth on their graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut, unit_rows
from coterie.peers._dense import check_row_count, laplacian, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_real

# Added to the first indicators, since updates are multiplicative and zeros would stay zero.
OFFSET = 0.2


@peer
class MMSC(Peer):
    """Multi-modal spectral clustering with a common non-negative indicator.

    Every view has an indicator that is smooth on its graph and near to a common one, which has no negative entries and
    orthonormal columns. The views' own have a closed form; the common one is found by multiplicative updates, and its
    largest entry in a row is the row's cluster. Memory grows with n^2 and time with n^3; n is refused above 10,000.

    Parameters
    ----------
    weight : float, default=1.0
        Weight of the distance between the views' indicators and the common one, the paper's alpha.
    max_iter : int, default=500
        Updates at most.
    tol : float, default=1e-6
        The updates end when the objective changes by less than this, relatively.
    n_init : int, default=10
        Restarts of the k-means that the updates start from.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_clusters)
        The common indicator: no negative entries.
    objective_ : list of float
        The minimised objective after each update; it never rises.
    n_iter_ : int
        Number of updates.

    Notes
    -----
    Orthonormal columns are enforced by a penalty here, the squared norm of G^T G - I, with which the updates are known
    never to raise the objective. They start from k-means on the spectral embedding of all views together.

    References
    ----------
    X. Cai, F. Nie, H. Huang and F. Kamangar: Heterogeneous Image Feature Integration via Multi-Modal Spectral
    Clustering. CVPR 2011.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import MMSC
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = MMSC(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    weight: float = 1.0
    max_iter: int = 500
    tol: float = 1e-6
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> MMSC:
        check_real("MMSC", "weight", self.weight, low=0, above=True)
        self._check_ints(max_iter=1, n_init=1)
        check_real("MMSC", "tol", self.tol, low=0)
        views = self._read_views(X)
        check_row_count("MMSC", views.n_rows, len(views) + 4)
        rng = self._make_rng()
        with one_thread_per_block():
            kernel = smoothing_kernel(view_affinities(views, rng), self.weight)  # (n, n)
            first = cut(unit_rows(top_vectors(kernel, self.n_clusters)), self.n_clusters, self.n_init, rng)
            found = refine_indicator(kernel, first, self.n_clusters, self.max_iter, self.tol)
        self.embedding_, self.labels_ = found.state, found.state.argmax(axis=1)
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self


def smoothing_kernel(affinities: Sequence[np.ndarray], weight: float) -> np.ndarray:
    """Return M = mean_v alpha (L^v + alpha I)^(-1), with eigenvalues from 0 to 1 and no negative entries.

    The best G^v for a given G are alpha (L^v + alpha I)^(-1) G. Put into sum_v tr(G^vT L^v G^v) + alpha |G^v - G|^2
    they leave alpha sum_v (|G|^2 - tr(G^T M^v G)), so that tr(G^T M G) is to be maximised.
    """
    total = np.zeros_like(affinities[0])
    eye = np.eye(len(total))
    for affinity in affinities:
        shifted = laplacian(affinity)
        shifted[np.diag_indices_from(shifted)] += weight
        total += weight * cho_solve(cho_factor(shifted, overwrite_a=True), eye)
    total /= len(affinities)
    # Rounding alone can make entries of an M-matrix's inverse negative.
    return np.maximum((total + total.T) / 2, 0)  # (n, n)


def refine_indicator(
    kernel: np.ndarray, labels: np.ndarray, n_clusters: int, max_iter: int, tol: float
) -> Alternation[np.ndarray]:
    """Minimise |G^T G - I|^2 / 2 - tr(G^T M G) over G >= 0 by multiplicative updates, from given labels."""
    start = np.eye(n_clusters)[labels] + OFFSET  # (n, k)
    start /= np.linalg.norm(start, axis=0)
    return alternate(start, partial(update_indicator, kernel), max_iter=max_iter, tol=tol)


def update_indicator(kernel: np.ndarray, indicator: np.ndarray) -> Round[np.ndarray]:
    """Multiply G by the fourth root of (M G + G) / (G G^T G), for which the quartic objective cannot rise."""
    ratio = (kernel @ indicator + indicator) / np.maximum(
        indicator @ (indicator.T @ indicator), np.finfo(float).tiny
    )  # (n, k)
    indicator = indicator * ratio**0.25
    gap = indicator.T @ indicator - np.eye(indicator.shape[1])
    objective = 0.5 * np.sum(gap**2) - np.sum(indicator * (kernel @ indicator))
    return Round(indicator, float(objective))

"""RMSC: the views' random walks, as a common one of low rank plus sparse errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from coterie.peers._alternation import Alternation, Round, alternate, warn_unless_converged
from coterie.peers._common import Peer, cut, unit_rows
from coterie.peers._constraints import onto_simplex
from coterie.peers._dense import check_row_count, shrink_singular_values, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_real

# A random walk's largest singular values are about 1, and so is the first penalty. It must grow slowly: with a factor
# of 1.3 a round, the final objective is farther above the optimum.
FIRST_PENALTY = 1.0
GROWTH = 1.1
POWER_STEPS, REST = 2000, 1e-10  # for the stationary distribution


@dataclass(frozen=True)
class Walk:
    """The common transition matrix, its copy of low rank, the errors, and the Lagrange multipliers."""

    common: np.ndarray  # (n, n) P: no negative entries, rows summing to one
    low_rank: np.ndarray  # (n, n) Q = P at the end
    errors: tuple[np.ndarray, ...]  # each (n, n): E^v
    multiplier: np.ndarray  # (n, n) of Q = P
    multipliers: tuple[np.ndarray, ...]  # each (n, n) of P^v = P + E^v
    penalty: float


@peer
class RMSC(Peer):
    """Robust multi-view spectral clustering via low-rank and sparse decomposition.

    Every view is a random walk between rows. By augmented Lagrange multipliers, the walks are decomposed into a common
    one of low rank and sparse errors of each view; k-means clusters the top eigenvectors of the common walk. Memory
    grows with n^2 and time with n^3 a round; n is refused above 10,000.

    Parameters
    ----------
    weight : float, default=0.005
        Weight of the errors, the paper's lambda: smaller values let views differ more from the common walk.
    tol : float, default=1e-3
        The rounds end when the residual of the constraints and the change of the common walk, relative to the views'
        walks, are within this.

    Attributes
    ----------
    embedding_
    transition_ : ndarray of shape (n, n)
        The common walk: no negative entries, and rows that sum to one.
    objective_ : list of float
        The nuclear norm of the common walk plus the weighted absolute errors, after each round.
    n_iter_

    References
    ----------
    R. Xia, Y. Pan, L. Du and J. Yin: Robust Multi-view Spectral Clustering via Low-Rank and Sparse Decomposition. AAAI
    2014.

    D. Zhou, J. Huang and B. Schölkopf: Learning from Labeled and Unlabeled Data on a Directed Graph. ICML 2005.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import RMSC
    >>> data = make_views(150, n_clusters=3, separation=8, random_state=0)
    >>> labels = RMSC(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    weight: float = 0.005
    max_iter: int = 100
    tol: float = 1e-3
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> RMSC:
        check_real("RMSC", "weight", self.weight, low=0, above=True)
        self._check_ints(max_iter=1, n_init=1)
        check_real("RMSC", "tol", self.tol, low=0)
        views = self._read_views(X)
        check_row_count("RMSC", views.n_rows, 4 * len(views) + 8)
        rng = self._make_rng()
        with one_thread_per_block():
            walks = [random_walk(affinity) for affinity in view_affinities(views, rng)]  # each (n, n)
            found = decompose(walks, self.weight, self.max_iter, self.tol)
            embedding = unit_rows(walk_vectors(found.state.common, self.n_clusters))  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        warn_unless_converged("RMSC", found, self.tol)
        self.embedding_, self.labels_, self.transition_ = embedding, labels, found.state.common
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self


def random_walk(affinity: np.ndarray) -> np.ndarray:
    """Return D^(-1) A; a row without any weight goes to all rows with the same probability."""
    degrees = affinity.sum(axis=1, keepdims=True)  # (n, 1)
    return np.where(degrees > 0, affinity / np.where(degrees > 0, degrees, 1), 1 / len(affinity))


def decompose(walks: Sequence[np.ndarray], weight: float, max_iter: int, tol: float) -> Alternation[Walk]:
    """Minimise |P|_* + lambda sum_v |E^v|_1 where P^v = P + E^v, P >= 0 and P 1 = 1."""
    mean = reduce(np.add, walks) / len(walks)  # (n, n): feasible, and near to all of them
    zero = np.zeros_like(mean)
    start = Walk(mean, mean, tuple(walk - mean for walk in walks), zero, (zero,) * len(walks), FIRST_PENALTY)
    return alternate(start, partial(decompose_round, walks, weight), max_iter=max_iter, tol=tol)


def decompose_round(walks: Sequence[np.ndarray], weight: float, now: Walk) -> Round[Walk]:
    """Update Q and the errors, which do not depend on each other, then P, then the multipliers."""
    mu, n_views = now.penalty, len(walks)
    low_rank, norm = shrink_singular_values(now.common + now.multiplier / mu, 1 / mu)
    errors = tuple(
        soft_threshold(walk - now.common + y / mu, weight / mu) for walk, y in zip(walks, now.multipliers, strict=True)
    )
    total = low_rank - now.multiplier / mu
    for walk, error, y in zip(walks, errors, now.multipliers, strict=True):
        total += walk - error + y / mu
    common = onto_simplex(total / (n_views + 1))
    gaps = [walk - common - error for walk, error in zip(walks, errors, strict=True)]
    multipliers = tuple(y + mu * gap for y, gap in zip(now.multipliers, gaps, strict=True))
    state = Walk(common, low_rank, errors, now.multiplier + mu * (common - low_rank), multipliers, mu * GROWTH)
    size = np.linalg.norm(walks[0])
    primal = max(np.linalg.norm(common - low_rank), *(np.linalg.norm(gap) for gap in gaps)) / size
    dual = np.linalg.norm(common - now.common) / size
    objective = norm + weight * sum(float(np.abs(error).sum()) for error in errors)
    return Round(state, objective, float(max(primal, dual)))


def soft_threshold(values: np.ndarray, threshold: float) -> np.ndarray:
    """Return values moved towards zero by the threshold: the prox of the sum of absolute values."""
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0)


def walk_vectors(walk: np.ndarray, count: int) -> np.ndarray:
    """Return the top eigenvectors of (Pi^(1/2) P Pi^(-1/2) + its transpose) / 2, Pi the stationary distribution."""
    roots = np.sqrt(stationary(walk))  # (n,)
    scaled = walk * roots[:, None] / roots
    return top_vectors((scaled + scaled.T) / 2, count)  # (n, k)


def stationary(walk: np.ndarray) -> np.ndarray:
    """Return the stationary distribution of the walk P, by power iterations of the lazy walk (I + P) / 2."""
    share = np.full(len(walk), 1 / len(walk))  # (n,)
    for _ in range(POWER_STEPS):
        before, share = share, (share + share @ walk) / 2
        if np.abs(share - before).sum() < REST:
            break
    return np.maximum(share / share.sum(), np.finfo(float).tiny)

"""LMVSC: every row as a mixture of its view's anchors, and the singular vectors of all mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from coterie.method.spectra import inverse_roots
from coterie.peers._common import Peer
from coterie.peers._constraints import simplex_minimum
from coterie.peers._docstrings import peer
from coterie.peers._lloyd import lloyd
from coterie.threads import count_threads, in_order, one_thread_per_block
from coterie.validation import check_choice, check_real
from coterie.views.steps import Table

SCALINGS = ("minmax", "none", "block", "half", "standard", "auto")
ANCHOR_PASSES = 100
ANCHOR_ROWS = 10_000  # sample for k-means of anchors: on all rows it would cost more than everything else
ROWS = 1024  # whose mixtures are found at once


@peer
class LMVSC(Peer):
    """Large-scale multi-view subspace clustering: mixtures of anchors, in linear time.

    In each view every row is the best mixture of m anchors, weights on the simplex, with a ridge. The
    top left singular vectors of all views' mixtures side by side are clustered by k-means. Time
    O(n m (d + m)), memory O(n m V): both grow linearly with the number of rows.

    Parameters
    ----------
    n_landmarks : int, default=100
        Number of anchors of each view, m, by k-means over 10,000 rows at most; all rows if they are fewer.
    alpha : float, default=1.0
        Ridge on the weights of a mixture, in the squared units of the views.
    scaling : "minmax", "none", "block", "half", "standard" or "auto", default="minmax"
        Preparation of each view: columns from 0 to 1, or as in :class:`coterie.GuidedCoTraining`.
    n_init : int, default=10
        Restarts of k-means, for the anchors and at the end.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_clusters)
        The rows that k-means clusters.
    singular_values_ : ndarray of shape (n_clusters,)
        Singular values of the mixtures side by side.

    Notes
    -----
    alpha is in the squared units of the views, so their scale matters. Of five scalings tried on UCI's digits, columns
    from 0 to 1 came nearest to the published figure, which is the only reason for this default. The manual's page
    "Which method when" has the figures.

    References
    ----------
    Z. Kang, W. Zhou, Z. Zhao, J. Shao, M. Han and Z. Xu: Large-Scale Multi-View Subspace Clustering in
    Linear Time. AAAI 2020.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import LMVSC
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = LMVSC(3, n_landmarks=20, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    n_landmarks: int = 100
    alpha: float = 1.0
    scaling: str = "minmax"
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> LMVSC:
        self._check_ints(n_landmarks=1, n_init=1)
        check_real("LMVSC", "alpha", self.alpha, low=0)
        check_choice("LMVSC", "scaling", self.scaling, SCALINGS)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views, self.scaling)
        with one_thread_per_block():
            parts = []
            for table in reader.tables(views):
                anchors = find_anchors(table, self.n_landmarks, self.n_init, rng, n_threads)
                parts.append(mixtures(table, anchors, self.alpha, n_threads))  # (n, m)
            embedding, values = left_singular_vectors(parts, self.n_clusters)
            groups = lloyd(embedding, self.n_clusters, n_iter=100, n_runs=self.n_init, rng=rng, n_threads=n_threads)
        self.embedding_, self.singular_values_, self.labels_ = embedding, values, groups.labels
        return self


def find_anchors(table: Table, n_anchors: int, n_init: int, rng: np.random.Generator, n_threads: int) -> np.ndarray:
    """Return the centres of k-means, dense; all rows if there are no more than ``n_anchors``."""
    n = table.shape[0]
    if n > ANCHOR_ROWS >= n_anchors:
        table = table[np.sort(rng.choice(n, ANCHOR_ROWS, replace=False))]
    anchors = table
    if table.shape[0] > n_anchors:
        anchors = lloyd(table, n_anchors, n_iter=ANCHOR_PASSES, n_runs=n_init, rng=rng, n_threads=n_threads).centers
    return anchors.toarray() if sparse.issparse(anchors) else anchors  # (m, d)


def mixtures(table: Table, anchors: np.ndarray, alpha: float, n_threads: int) -> np.ndarray:
    """Return argmin |x - H^T z|^2 + alpha |z|^2, z >= 0, sum z = 1, for every row x (H: the anchors)."""
    quadratic = anchors @ anchors.T + np.asarray(alpha * np.eye(len(anchors)), dtype=anchors.dtype)  # (m, m)

    def solve(start: int) -> np.ndarray:
        return simplex_minimum(quadratic, np.asarray(table[start : start + ROWS] @ anchors.T))  # (b, m)

    return np.concatenate(list(in_order(solve, range(0, table.shape[0], ROWS), n_threads)))  # (n, m)


def left_singular_vectors(parts: Sequence[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the top left singular vectors of [Z_1 .. Z_V] / sqrt(V), from its Gram matrix, and the values."""
    stacked = np.hstack(parts) / np.float32(np.sqrt(len(parts)))  # (n, V m)
    gram = stacked.T.astype(np.float64) @ stacked if len(stacked) < ROWS else sum_products(stacked)
    values, vectors = eigh(gram)
    values, vectors = np.maximum(values[::-1][:count], 0), vectors[:, ::-1][:, :count]  # (k,), (V m, k)
    return stacked @ (vectors * inverse_roots(values)).astype(np.float32), np.sqrt(values)


def sum_products(rows: np.ndarray) -> np.ndarray:
    """Return rows^T rows in float64, block by block."""
    blocks = (rows[start : start + ROWS].astype(np.float64) for start in range(0, len(rows), ROWS))
    return sum(block.T @ block for block in blocks)  # type: ignore[return-value]

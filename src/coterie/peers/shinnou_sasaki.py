"""Shinnou and Sasaki's reduction: rows near a centre are represented by it, all others are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, gaussian_affinity, spectral_embedding
from coterie.peers._docstrings import peer
from coterie.peers._lloyd import dense, group_rows
from coterie.threads import count_threads, one_thread_per_block


@peer
class ShinnouSasaki(Peer):
    """Spectral clustering of centres and of the rows far from them, of one view or of all side by side.

    k-means makes p groups. Rows near their centre are removed and take its cluster; the centres and the
    rows that remain are clustered by spectral clustering. Time O(n p d + (p + r)^3), memory
    O(n + (p + r)^2).

    Parameters
    ----------
    n_landmarks : int, default=200
        Number of centres, p.
    n_remaining : int, default=800
        Number of rows that remain, r: those farthest from their centres.
    n_init : int, default=10
        Restarts of the last k-means.

    Attributes
    ----------
    landmark_labels_ : ndarray of shape (p,)
        Cluster of every centre.
    remaining_ : ndarray
        Rows that were not removed.

    Notes
    -----
    The paper sets a distance below which rows are removed; here the number of rows that remain is set, since time and
    memory depend on it. There is no ``predict``, since rows far from all centres do not take the cluster of a centre.

    References
    ----------
    H. Shinnou and M. Sasaki: Spectral Clustering for a Large Data Set by Reducing the Similarity Matrix Size.
    LREC 2008.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import ShinnouSasaki
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = ShinnouSasaki(3, n_landmarks=30, n_remaining=60, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_landmarks: int = 200
    n_remaining: int = 800
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> ShinnouSasaki:
        self._check_ints(n_landmarks=1, n_remaining=0, n_init=1)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views)
        with one_thread_per_block():
            table = reader.table(views)  # (n, d)
            groups = group_rows(table, self.n_landmarks, rng, n_threads)
            p = groups.centers.shape[0]
            kept = farthest_rows(groups.gaps, max(self.n_remaining, self.n_clusters - p))  # (r,)
            check_row_count("ShinnouSasaki", p + len(kept), 3)
            reduced = np.vstack([dense(groups.centers), dense(table[kept])])  # (p + r, d)
            embedding = spectral_embedding(gaussian_affinity(reduced, rng), self.n_clusters)
            found = cut(embedding, self.n_clusters, self.n_init, rng)  # (p + r,)
        labels = found[:p][groups.labels]  # (n,)
        labels[kept] = found[p:]
        self.labels_, self.landmark_labels_, self.remaining_ = labels, found[:p], kept
        return self


def farthest_rows(gaps: np.ndarray, count: int) -> np.ndarray:
    """Return the rows farthest from their centres, ascending; a row that equals its centre is never among them."""
    count = min(count, int(np.count_nonzero(gaps > 0)))
    return np.sort(np.argsort(-gaps, kind="stable")[:count])

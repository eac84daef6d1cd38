"""KASP: spectral clustering of the centroids of k-means; rows take their centroid's cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, gaussian_affinity, spectral_embedding
from coterie.peers._docstrings import peer
from coterie.peers._lloyd import dense, group_rows, nearest_center
from coterie.threads import count_threads, one_thread_per_block


@peer
class KASP(Peer):
    """K-means-based approximate spectral clustering, of one view or of all side by side.

    k-means makes p groups, their centroids are clustered by spectral clustering, and every row takes
    its centroid's cluster. Time O(n p d + p^3), memory O(n + p^2): linear in the number of rows.

    Parameters
    ----------
    n_landmarks : int, default=500
        Number of centroids, p; all rows if they are fewer, which makes the result exact.
    n_init : int, default=10
        Restarts of the last k-means.

    Attributes
    ----------
    landmark_labels_ : ndarray of shape (p,)
        Cluster of every centroid.
    landmark_embedding_ : ndarray of shape (p, n_clusters)
        The centroids' eigenvectors, each of length one.

    Notes
    -----
    ``predict`` gives a new row the cluster of its nearest centroid.

    References
    ----------
    D. Yan, L. Huang and M. Jordan: Fast Approximate Spectral Clustering. KDD 2009.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import KASP
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = KASP(3, n_landmarks=50, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_landmarks: int = 500
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> KASP:
        self._check_ints(n_landmarks=1, n_init=1)
        views = self._read_views(X)
        self._check_ints(n_landmarks=self.n_clusters)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        check_row_count("KASP", min(self.n_landmarks, views.n_rows), 3)
        reader = self._learn_reader(views)
        with one_thread_per_block():
            table = reader.table(views)  # (n, d)
            groups = group_rows(table, self.n_landmarks, rng, n_threads)
            embedding = spectral_embedding(gaussian_affinity(dense(groups.centers), rng), self.n_clusters)  # (p, k)
            center_labels = cut(embedding, self.n_clusters, self.n_init, rng)  # (p,)
        self._reader, self._centers = reader, groups.centers
        self.landmark_labels_, self.landmark_embedding_ = center_labels, embedding
        self.labels_ = center_labels[groups.labels]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster of the nearest centroid of rows, new or old."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            numbers, _ = nearest_center(reader.table(views), self._centers, count_threads(self.n_jobs))
        return self.landmark_labels_[numbers]

"""U-SPEC: spectral clustering of one table through anchors and the transfer cut."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.method.assignment import assign
from coterie.peers._common import Peer, fit_cut
from coterie.peers._docstrings import peer
from coterie.peers._transfer import join_to_anchors, transfer_cut
from coterie.threads import count_threads, one_thread_per_block


@peer
class USPEC(Peer):
    """Ultra-scalable spectral clustering (U-SPEC) of one view, or of all views side by side.

    Rows are joined to their nearest anchors, which are means of k-means over a sample, and embedded by
    the bipartite graph's eigenvectors, which follow from those of its smaller side. Time O(n p d),
    memory O(n q): both grow linearly with the number of rows.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Number of anchors, p; all rows if they are fewer.
    n_neighbors : int, default=5
        Number of anchors that a row is joined to, q.

    Attributes
    ----------
    embedding_

    Notes
    -----
    The authors search a row's nearest anchors approximately, first among groups of anchors. Here the
    search is exact: a product and a selection, block by block, take less time than the approximation.
    ``predict`` maps new rows like those of the fit.

    References
    ----------
    D. Huang, C. Wang, J. Wu, J. Lai and C. Kwoh: Ultra-Scalable Spectral Clustering and Ensemble
    Clustering. IEEE Transactions on Knowledge and Data Engineering 32 (2020).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import USPEC
    >>> data = make_views(300, n_clusters=3, separation=6, random_state=0)
    >>> model = USPEC(3, n_landmarks=50, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_landmarks: int = 1000
    n_neighbors: int = 5
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> USPEC:
        self._check_ints(n_landmarks=1, n_neighbors=1, n_init=1)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views)
        with one_thread_per_block():
            join, graph = join_to_anchors(
                reader.table(views), self.n_landmarks, self.n_neighbors, rng, n_threads, unit=False
            )
            spectrum = transfer_cut(graph, self.n_clusters)
            embedding = spectrum(graph)  # (n, k)
            clusters = fit_cut(embedding, self.n_clusters, self.n_init, rng)
        self._reader, self._join, self._spectrum = reader, join, spectrum
        self._centroids = clusters.centroids
        self.embedding_, self.labels_ = embedding, clusters.labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old, by the map that the rows of the fit went through."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            graph = self._join(reader.table(views), count_threads(self.n_jobs))  # (n, p)
            return assign(self._spectrum(graph), self._centroids).labels

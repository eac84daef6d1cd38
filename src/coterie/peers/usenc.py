"""U-SENC: many U-SPECs of one table, and their consensus."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.peers._common import Peer
from coterie.peers._docstrings import peer
from coterie.peers._ensemble import agree, cut_member, draw_sizes
from coterie.peers._transfer import join_to_anchors
from coterie.threads import count_threads, one_thread_per_block
from coterie.validation import refuse


@peer
class USENC(Peer):
    """Ultra-scalable ensemble clustering (U-SENC) of one view, or of all views side by side.

    Twenty U-SPECs each have their own anchors and number of clusters; the transfer cut of the bipartite
    graph of rows and all these clusters gives the labels. Time and memory grow linearly with the number
    of rows: twenty times those of :class:`coterie.peers.USPEC`.

    Parameters
    ----------
    n_members : int, default=20
        Number of U-SPECs, M.
    member_clusters : tuple of two int, default=(20, 60)
        The smallest and the largest number of clusters of a member, limited to a fifth of the rows or, if larger, k.
    n_landmarks : int, default=1000
        Number of each member's anchors, p; all rows if they are fewer.
    n_neighbors : int, default=5
        Number of anchors that a row is joined to, q.

    Attributes
    ----------
    embedding_
    base_labels_ : ndarray of shape (n, n_members)
        Every member's clusters.

    Notes
    -----
    ``predict`` maps new rows through all members, like the rows of the fit.

    References
    ----------
    D. Huang, C. Wang, J. Wu, J. Lai and C. Kwoh: Ultra-Scalable Spectral Clustering and Ensemble
    Clustering. IEEE Transactions on Knowledge and Data Engineering 32 (2020).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import USENC
    >>> data = make_views(300, n_clusters=3, separation=6, random_state=0)
    >>> model = USENC(3, n_members=5, n_landmarks=50, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_members: int = 20
    member_clusters: tuple[int, int] = (20, 60)
    n_landmarks: int = 1000
    n_neighbors: int = 5
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> USENC:
        self._check_ints(n_members=1, n_landmarks=1, n_neighbors=1)
        low, high = self._member_sizes()
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views)
        with one_thread_per_block():
            table = reader.table(views)  # (n, d)
            most = max(self.n_clusters, views.n_rows // 5)
            members = []
            for size in draw_sizes(low, high, self.n_members, most, rng):
                join, graph = join_to_anchors(table, self.n_landmarks, self.n_neighbors, rng, n_threads, unit=False)
                members.append(cut_member(join, graph, int(size), rng, n_threads))
            found = agree(members, self.n_clusters, rng, n_threads)
        self._reader, self._ensemble = reader, found.ensemble
        self.embedding_, self.base_labels_, self.labels_ = found.embedding, found.base_labels, found.labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old, by the map that the rows of the fit went through."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            return self._ensemble(reader.table(views), count_threads(self.n_jobs))

    def _member_sizes(self) -> tuple[int, int]:
        sizes = self.member_clusters
        pair = isinstance(sizes, tuple | list) and len(sizes) == 2 and all(isinstance(s, int) for s in sizes)
        if not pair or not 1 <= sizes[0] <= sizes[1]:
            refuse("USENC", "member_clusters", "two whole numbers of at least 1, the smaller one first", sizes)
        return sizes[0], sizes[1]

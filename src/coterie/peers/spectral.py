"""SC: spectral clustering of one table, with affinities between all pairs of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, gaussian_affinity, spectral_embedding
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block


@peer
class SC(Peer):
    """Spectral clustering of one view, or of all side by side, after Ng, Jordan and Weiss.

    Gaussian affinities with sigma the median distance, the top k eigenvectors of the normalised
    affinities, unit rows, k-means. Memory grows with the square of the number of rows and time
    faster; n is refused above 10,000.

    Parameters
    ----------
    n_clusters

    Attributes
    ----------
    embedding_

    References
    ----------
    A. Ng, M. Jordan and Y. Weiss: On Spectral Clustering: Analysis and an Algorithm. NIPS 2001.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import SC
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = SC(3, view=0, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    view: str | int | None = None
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> SC:
        self._check_ints(n_init=1)
        views = self._read_views(X)
        check_row_count("SC", views.n_rows, 3)
        rng = self._make_rng()
        reader = self._learn_reader(views, dtype=np.float64)
        with one_thread_per_block():
            affinity = gaussian_affinity(reader.table(views), rng)  # (n, n)
            embedding = spectral_embedding(affinity, self.n_clusters)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        return self

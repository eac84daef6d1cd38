"""Exact guided co-training: the method of 2016, with affinities between all pairs of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from coterie.kernels import cpu
from coterie.method.spectra import inverse_roots
from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, normalised, spectral_embedding, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block


@peer
class ExactGuidedCoTraining(Peer):
    """Guided co-training with affinities between all pairs of rows.

    :class:`coterie.GuidedCoTraining` is its scalable form. In each round, every view's affinities
    are multiplied by those of the augmented view, which is made of the top eigenvectors of all views.
    Memory grows with the square of the number of rows and time faster; n is refused above 10,000.

    Parameters
    ----------
    max_iter : int, default=10
        Number of times that the augmented view is made.

    Attributes
    ----------
    embedding_
    n_iter_ : int
        Number of times that the augmented view was made.

    References
    ----------
    C. Lee and T. Liu: Guided Co-training for Multi-view Spectral Clustering. ICIP 2016.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import ExactGuidedCoTraining
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = ExactGuidedCoTraining(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    max_iter: int = 10
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> ExactGuidedCoTraining:
        self._check_ints(max_iter=1, n_init=1)
        views = self._read_views(X)
        check_row_count("ExactGuidedCoTraining", views.n_rows, 2 * len(views) + 2)
        rng = self._make_rng()
        with one_thread_per_block():
            guide = cotrain(view_affinities(views, rng), self.n_clusters, self.max_iter)  # (n, n)
            embedding = spectral_embedding(guide, self.n_clusters)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_, self.n_iter_ = embedding, labels, self.max_iter
        return self


def cotrain(affinities: list[np.ndarray], n_clusters: int, max_iter: int) -> np.ndarray:
    """Alternate between A* and the views that it guides, A^v <- A* (Hadamard) A^v; return the last A*."""
    guide = augmented_affinity(affinities, n_clusters)
    for _ in range(max_iter - 1):
        affinities = [affinity * guide for affinity in affinities]
        guide = augmented_affinity(affinities, n_clusters)
    return guide


def augmented_affinity(affinities: list[np.ndarray], n_clusters: int) -> np.ndarray:
    """Return A* = U S U^T, where U S W^T = M are the views' top eigenvectors side by side, rows of length one.

    U S U^T = M (M^T M)^(-1/2) M^T needs no singular vectors of M itself. Negative affinities, whose
    sums would be no valid degrees, are set to zero.
    """
    stacked = np.hstack([top_vectors(normalised(a), n_clusters) for a in affinities])  # (n, V k)
    stacked = np.ascontiguousarray(stacked)
    cpu.unit_rows(stacked)
    values, vectors = eigh(stacked.T @ stacked)  # (V k,), (V k, V k)
    half = stacked @ (vectors * np.sqrt(inverse_roots(values)))  # (n, V k)
    return np.maximum(half @ half.T, 0)  # (n, n)

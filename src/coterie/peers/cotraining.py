"""Co-training: every view's affinities are projected on the space that the other views' eigenvectors span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.peers._common import Peer, chosen_views, cut, unit_rows
from coterie.peers._dense import check_row_count, normalised, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block


@peer
class CoTraining(Peer):
    """Co-training for multi-view spectral clustering.

    In every round the columns of each view's affinities are projected on the space that the top k eigenvectors of the
    other views span, and the view's own eigenvectors are recomputed. The final ones, as unit rows side by side, are
    clustered by k-means. Memory grows with the square of the number of rows and time faster; n is refused above 10,000.

    Parameters
    ----------
    view : str or int, default=None
        The view whose eigenvectors k-means clusters, if one is known to be the most informative; None: all of them.
    max_iter : int, default=10
        Number of rounds. There is no objective that could end them earlier.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_views * n_clusters)
        The rows that k-means clusters; each view's part has length one.
    n_iter_

    Notes
    -----
    Lee and Liu (ICIP 2016) report .779 ACC and .745 NMI for UCI's digits, which is near to the mean over single starts
    of k-means from random rows; the best of ten starts is higher. See the manual's page "Which method when".

    References
    ----------
    A. Kumar and H. Daumé III: A Co-training Approach for Multi-view Spectral Clustering. ICML 2011.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import CoTraining
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = CoTraining(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    view: str | int | None = None
    max_iter: int = 10
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> CoTraining:
        self._check_ints(max_iter=1, n_init=1)
        views = self._read_views(X)
        check_row_count("CoTraining", views.n_rows, len(views) + 3)
        chosen = chosen_views("CoTraining", views, self.view)
        rng = self._make_rng()
        with one_thread_per_block():
            bases = cotrain(view_affinities(views, rng), self.n_clusters, self.max_iter)
            embedding = np.hstack([unit_rows(bases[v]) for v in chosen])  # (n, V k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_, self.n_iter_ = embedding, labels, self.max_iter
        return self


def cotrain(affinities: Sequence[np.ndarray], n_clusters: int, max_iter: int) -> list[np.ndarray]:
    """Return every view's top eigenvectors, each n x k, after ``max_iter`` rounds."""
    bases = [top_vectors(normalised(affinity), n_clusters) for affinity in affinities]
    if len(affinities) == 1:  # no other view to project on
        return bases
    for _ in range(max_iter):
        # All views use the others' vectors of the round before, so that their order does not matter.
        bases = [
            top_vectors(normalised(project(affinity, bases[:v] + bases[v + 1 :])), n_clusters)
            for v, affinity in enumerate(affinities)
        ]
    return bases


def project(affinity: np.ndarray, bases: Sequence[np.ndarray]) -> np.ndarray:
    """Return the symmetric part of sum_w U^w U^wT A."""
    stacked = np.hstack(bases)  # (n, (V - 1) k)
    projected = stacked @ (stacked.T @ affinity)  # (n, n)
    return (projected + projected.T) / 2

"""ConcatLSC: LSC on all views side by side."""

from __future__ import annotations

from coterie.peers.lsc import LSC


class ConcatLSC(LSC):
    """Landmark-based spectral clustering of all views side by side, their values as they are.

    It is :class:`coterie.peers.LSC` with ``view=None``, under the name that tables have for it.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, k.
    n_landmarks, n_neighbors, landmarks, bandwidth, n_init, n_jobs, random_state
        As in :class:`coterie.peers.LSC`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of every row.
    embedding_ : ndarray of shape (n, n_clusters)
        The rows that k-means cut, each of length one.
    singular_values_ : ndarray
        Of the normalised graph, behind the first.

    References
    ----------
    X. Chen and D. Cai: Large Scale Spectral Clustering with Landmark-Based Representation. AAAI
    2011.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import ConcatLSC
    >>> data = make_views(300, n_clusters=3, separation=4, random_state=0)
    >>> labels = ConcatLSC(3, n_landmarks=50, n_neighbors=20, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    view = None

    def __init__(
        self,
        n_clusters=8,
        *,
        n_landmarks=800,
        n_neighbors=8,
        landmarks="kmeans",
        bandwidth="mean_squared",
        n_init=10,
        n_jobs=-1,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.n_landmarks = n_landmarks
        self.n_neighbors = n_neighbors
        self.landmarks = landmarks
        self.bandwidth = bandwidth
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

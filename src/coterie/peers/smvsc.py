"""SMVSC: rows as mixtures of anchors that all views share."""

from __future__ import annotations

from coterie.peers._docstrings import peer
from coterie.peers._unified_anchors import UnifiedAnchorPeer


@peer
class SMVSC(UnifiedAnchorPeer):
    """Scalable multi-view subspace clustering with unified anchors.

    Every row is a mixture Z of m anchors A that all views share, rotated into each view by W_v. W_v, A, Z
    and the views' weights are updated by turns, and k-means clusters the singular vectors of Z. A round
    takes time O(n d m) and memory O(n m): both grow linearly with the number of rows.

    Parameters
    ----------
    n_landmarks : int or None, default=None
        Number of common anchors, m; None: k.
    start : "first" or "random", default="first"
        Rows that consist of one anchor each at the start: the first m rows, as published, so that the result depends on
        the order of rows, or m random ones.

    Attributes
    ----------
    embedding_
    view_weights_ : dict of float
        a_v of every view; they sum to one.
    objective_ : list of float
        ``sum_v a_v^2 |X_v - W_v A Z|^2 + |Z|^2`` after each round.
    n_iter_

    Notes
    -----
    Columns have unit variance, and those of dense views mean zero; sparse views are not centred. The published update
    of Z omits the weights a_v^2, so that it does not minimise the objective; with the weights, and A = I at the start,
    the published figure was not met. That figure depends on the order of rows: with shuffled rows, ACC is lower. The
    manual's page "Which method when" has the figures.

    References
    ----------
    M. Sun, P. Zhang, S. Wang, S. Zhou, W. Tu, X. Liu, E. Zhu and C. Wang: Scalable Multi-view Subspace
    Clustering with Unified Anchors. ACM Multimedia 2021.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import SMVSC
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = SMVSC(3, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    ridge = 1.0

"""k-means on all views side by side: the usual baseline."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import KMeans

from coterie.peers._common import Peer, prepared_table, side_by_side
from coterie.peers._docstrings import peer
from coterie.validation import check_choice

SCALINGS = ("none", "block", "half", "standard", "auto")


@peer
class ConcatKMeans(Peer):
    """scikit-learn's k-means on all views side by side. Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    scaling : "none", "block", "half", "standard" or "auto", default="none"
        Preparation of each view. "none": values as they are; "block": centred, with unit mean squared
        norm; "half" and "standard": the same, after dividing every column by the root of its standard
        deviation, or by the standard deviation itself; "auto": the default of
        :class:`coterie.GuidedCoTraining`.
    n_init : int, default=10
        Number of restarts.
    random_state : int, RandomState or None, default=None
        Seed of the restarts.

    Attributes
    ----------
    cluster_centers_ : ndarray
        The means, in the scaled columns of all views.

    References
    ----------
    S. Lloyd: Least squares quantization in PCM. IEEE Transactions on Information Theory 28 (1982).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import ConcatKMeans
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> labels = ConcatKMeans(3, scaling="block", random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    scaling: str = "none"
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> ConcatKMeans:
        check_choice("ConcatKMeans", "scaling", self.scaling, SCALINGS)
        self._check_ints(n_init=1)
        views = self._read_views(X)
        table = side_by_side([prepared_table(view, self.scaling, n_clusters=self.n_clusters) for view in views])
        model = KMeans(self.n_clusters, n_init=self.n_init, random_state=self.random_state)
        self.labels_ = model.fit_predict(table)
        self.cluster_centers_ = model.cluster_centers_
        return self

"""What all peers share: reading views, tables to measure distances on, and cutting an embedding into clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from coterie.method.assignment import assign, fit_centroids
from coterie.rows.memory import MemoryRows
from coterie.validation import check_int, refuse
from coterie.views import Table, View, ViewBlock, Views, as_views, check_finite, prepare


class Peer(ClusterMixin, BaseEstimator):
    """A method that clusters the rows it is given, and no others."""

    n_clusters: int
    random_state: Any

    def _read_views(self, X: Any) -> Views:
        """Return X as views, with at least as many rows as clusters."""
        check_int(type(self).__name__, "n_clusters", self.n_clusters, low=1)
        views = as_views(X)
        if len(views) == 1:
            # scikit-learn's n_features_in_ makes sense for one table alone.
            validate_data(self, X if hasattr(X, "shape") else views[0].data, skip_check_array=True)
        if views.n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={views.n_rows} should be >= n_clusters={self.n_clusters}. "
                "Ask for fewer clusters or pass more rows."
            )
        return views

    def _make_rng(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def pick_view(owner: str, views: Views, chosen: str | int | None) -> View:
    """Return the view of that name or number; the only one where none is chosen."""
    if chosen is None and len(views) == 1:
        return views[0]
    if isinstance(chosen, str) and chosen in views.names:
        return views[views.names.index(chosen)]
    whole = isinstance(chosen, int | np.integer) and not isinstance(chosen, bool)
    if whole and 0 <= chosen < len(views):  # type: ignore[operator]
        return views[chosen]
    names = ", ".join(map(repr, views.names))
    refuse(owner, "view", f"the name or number of one of the {len(views)} views ({names})", chosen)
    raise AssertionError  # refuse always raises


def prepared_table(view: View, scaling: str = "none", dtype: Any = np.float32, n_clusters: int = 8) -> Table:
    """Return all rows of a view, scaled, with dense views centred (which no distance notices).

    With ``scaling="auto"`` they are prepared as by default, for ``n_clusters`` clusters.

    A row that lacks the view stands at its mean; in a sparse view it is empty.
    """
    block = read_finite(view)
    metric = "auto" if scaling == "auto" else "euclidean"
    steps = prepare(block.known(), scaling=scaling, metric=metric, n_clusters=n_clusters, dtype=dtype)
    rows = steps(block.data)  # (n, d)
    if block.present is not None and not sparse.issparse(rows):
        rows[~block.present] = 0
    return rows


def stored_table(view: View) -> Table:
    """Return all rows of a view in float64, neither centred nor scaled: for methods to which zero means something.

    A row that lacks the view stands at its mean; in a sparse view it is empty.
    """
    block = read_finite(view)
    rows = block.data.astype(np.float64)  # (n, d), a copy
    if block.present is not None and not sparse.issparse(rows):
        rows[~block.present] = rows[block.present].mean(axis=0)
    return rows


def read_finite(view: View) -> ViewBlock:
    """Return all rows of a view as stored; refuse values that are not finite."""
    block = view.read(slice(None))
    with np.errstate(invalid="ignore"):  # a sum that is not finite is what we look for
        sums = np.asarray(block.data.sum(axis=1, dtype=np.float64)).ravel()  # (n,)
    check_finite(view.name, sums, block.present, np.arange(len(sums)))
    return block


def side_by_side(tables: list[Table]) -> Table:
    """Return the tables as one, sparse where any of them is."""
    if len(tables) == 1:
        return tables[0]
    if any(sparse.issparse(table) for table in tables):
        return sparse.csr_array(sparse.hstack(tables, format="csr"))  # (n, sum of d)
    return np.hstack(tables)  # (n, sum of d)


def cut(embedding: np.ndarray, n_clusters: int, n_init: int, rng: np.random.Generator) -> np.ndarray:
    """Return labels by k-means: the best of several restarts, refined on all rows."""
    rows = MemoryRows([embedding], n_rows=len(embedding), n_threads=1)
    centroids = fit_centroids(rows, n_clusters, method="kmeans", n_init=n_init, rng=rng)
    return assign(embedding, centroids).labels  # (n,)

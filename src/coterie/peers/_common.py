"""Shared by all peers: reading views, preparing their tables, and k-means on an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.kernels import cpu
from coterie.method.assignment import assign, fit_centroids
from coterie.rows.memory import MemoryRows
from coterie.validation import check_int, drawn_seed, refuse
from coterie.views import (
    Preparation,
    Shape,
    Table,
    View,
    ViewBlock,
    Views,
    as_views,
    check_columns,
    check_finite_rows,
    match_views,
    prepare,
)
from coterie.views.frames import for_sklearn
from coterie.views.statistics import column_ends
from coterie.views.steps import Columns


@dataclass(eq=False, repr=False)
class Peer(ClusterMixin, BaseEstimator):
    """A method that clusters the rows of its fit; it has ``predict`` if its own steps apply to other rows too."""

    n_clusters: int = 8  # all other parameters are keyword-only

    def _check_ints(self, **lows: int) -> None:
        """Refuse parameters that are not whole numbers of at least the given ones."""
        for name, low in lows.items():
            check_int(type(self).__name__, name, getattr(self, name), low=low)

    def _read_views(self, X: Any) -> Views:
        """Return X as views, with at least as many rows as clusters."""
        check_int(type(self).__name__, "n_clusters", self.n_clusters, low=1)
        views = as_views(X)
        if len(views) == 1:
            # scikit-learn's n_features_in_ is defined for a single table only.
            validate_data(self, for_sklearn(X) if hasattr(X, "shape") else views[0].data, skip_check_array=True)
        if views.n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={views.n_rows} should be >= n_clusters={self.n_clusters}. "
                "Ask for fewer clusters or pass more rows."
            )
        return views

    def _learn_reader(self, views: Views, scaling: str = "none", dtype: Any = np.float32) -> TableReader:
        """Return the fitted reader that converts the method's views to tables, in the fit and after it."""
        chosen = chosen_views(type(self).__name__, views, getattr(self, "view", None))
        chains = [learn_chain(views[v], scaling, dtype, self.n_clusters) for v in chosen]
        return TableReader(views.names, tuple(map(Shape.of, views)), chosen, tuple(chains))

    def _read_new_rows(self, X: Any) -> tuple[TableReader, Views]:
        """Return the fit's reader, and rows with the same views and columns as the fit's."""
        check_is_fitted(self)
        reader: TableReader = self._reader
        views = match_views(X, None, reader.names)
        if hasattr(self, "n_features_in_") and hasattr(X, "shape"):
            validate_data(self, for_sklearn(X), reset=False, skip_check_array=True)
        check_columns(views, reader.shapes)
        return reader, views

    def _make_rng(self) -> np.random.Generator:
        return np.random.default_rng(drawn_seed(type(self).__name__, self.random_state))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(frozen=True)
class TableReader:
    """The conversion of views to tables, fitted to the rows of the fit and applied to new rows too."""

    names: tuple[str, ...]  # of all views
    shapes: tuple[Shape, ...]
    chosen: tuple[int, ...]  # numbers of the views that are read
    chains: tuple[Preparation, ...]  # one for each of those

    def tables(self, views: Views, rows: slice | np.ndarray = slice(None)) -> list[Table]:
        """Return a table of every chosen view."""
        return [self._table(views[v], v, chain, rows) for v, chain in zip(self.chosen, self.chains, strict=True)]

    def table(self, views: Views, rows: slice | np.ndarray = slice(None)) -> Table:
        """Return the chosen views as one table, side by side."""
        return side_by_side(self.tables(views, rows))

    def _table(self, view: View, number: int, chain: Preparation, rows: slice | np.ndarray) -> Table:
        if view.data.shape[0]:
            return apply_chain(view.name, view.read(rows), chain, rows)
        size = len(range(view.n_rows)[rows]) if isinstance(rows, slice) else len(rows)
        nothing = ViewBlock(np.zeros((size, self.shapes[number].n_columns)), np.zeros(size, dtype=bool))
        return apply_chain(view.name, nothing, chain)


def chosen_views(owner: str, views: Views, chosen: str | int | None) -> tuple[int, ...]:
    """Return the number of the view with a given name or number; the numbers of all views for None."""
    if chosen is None:
        return tuple(range(len(views)))
    if isinstance(chosen, str) and chosen in views.names:
        return (views.names.index(chosen),)
    whole = isinstance(chosen, int | np.integer) and not isinstance(chosen, bool)
    if whole and 0 <= chosen < len(views):  # type: ignore[operator]
        return (int(chosen),)
    names = ", ".join(map(repr, views.names))
    refuse(owner, "view", f"None or the name or number of one of the {len(views)} views ({names})", chosen)
    raise AssertionError  # refuse always raises


def fit_chain(known: Table, scaling: str, dtype: Any, n_clusters: int = 8) -> Preparation:
    """Return the preparation of a view, fitted to its known rows.

    "raw" leaves values as they are; "zscore" gives every column unit variance (and a dense one mean zero); "minmax"
    gives it values from 0 to 1, a sparse one keeping its zeros; all others are those of
    :func:`coterie.views.prepare`, which centres dense views: this changes no distance.
    """
    if scaling == "raw":
        return Preparation((), 1.0, np.dtype(dtype), "raw")
    if scaling == "minmax":
        ends = column_ends(known)
        width = np.where(ends.high > ends.low, ends.high - ends.low, np.inf)  # (d,)
        low = None if sparse.issparse(known) else ends.low
        return Preparation((Columns(low, 1 / width),), 1.0, np.dtype(dtype), "given")
    if scaling == "zscore":
        return replace(prepare(known, scaling="standard", metric="euclidean", dtype=dtype), factor=1.0)
    metric = "auto" if scaling == "auto" else "euclidean"
    return prepare(known, scaling=scaling, metric=metric, n_clusters=n_clusters, dtype=dtype)


def learn_chain(view: View, scaling: str, dtype: Any, n_clusters: int = 8) -> Preparation:
    """Return the preparation of a view, fitted to all rows that have it."""
    return fit_chain(read_finite(view).known(), scaling, dtype, n_clusters)


def apply_chain(name: str, block: ViewBlock, chain: Preparation, rows: slice | np.ndarray = slice(None)) -> Table:
    """Return prepared rows. A row that lacks the view is zero: the mean, if the preparation centres columns."""
    numbers = np.asarray(rows) if not isinstance(rows, slice) else rows.start or 0
    check_finite_rows(name, block.data, block.present, numbers)
    found = chain(block.data)  # (n, d)
    if block.present is not None and not sparse.issparse(found):
        found[~block.present] = 0
    return found


def prepared_table(view: View, scaling: str = "none", dtype: Any = np.float32, n_clusters: int = 8) -> Table:
    """Return all rows of a view, scaled, with dense views centred (which changes no distance).

    ``n_clusters`` is used with ``scaling="auto"`` alone.
    """
    return apply_chain(view.name, view.read(slice(None)), learn_chain(view, scaling, dtype, n_clusters))


def stored_table(view: View) -> Table:
    """Return all rows of a view in float64, neither centred nor scaled: for methods in which zero has a meaning.

    A row that lacks the view is the mean of the others; in a sparse view it is empty.
    """
    block = read_finite(view)
    rows = block.data.astype(np.float64)  # (n, d), a copy
    if block.present is not None and not sparse.issparse(rows):
        rows[~block.present] = rows[block.present].mean(axis=0)
    return rows


def read_finite(view: View) -> ViewBlock:
    """Return all rows of a view as stored; refuse values that are not finite."""
    block = view.read(slice(None))
    check_finite_rows(view.name, block.data, block.present, 0, columns=view.columns)
    return block


def side_by_side(tables: Sequence[Table]) -> Table:
    """Return the tables as one, sparse where any of them is."""
    if len(tables) == 1:
        return tables[0]
    if any(sparse.issparse(table) for table in tables):
        return sparse.csr_array(sparse.hstack(tables, format="csr"))  # (n, sum of d)
    return np.hstack(tables)  # (n, sum of d)


@dataclass(frozen=True)
class KMeansFit:
    """An embedding's clusters, and the centroids that rows are compared with."""

    labels: np.ndarray  # (n,)
    centroids: np.ndarray  # (k, c)


def fit_cut(embedding: np.ndarray, n_clusters: int, n_init: int, rng: np.random.Generator) -> KMeansFit:
    """Return clusters by k-means: the best of several restarts, refined on all rows."""
    rows = MemoryRows([embedding], n_rows=len(embedding), n_threads=1)
    centroids = fit_centroids(rows, n_clusters, method="kmeans", n_init=n_init, rng=rng)
    return KMeansFit(assign(embedding, centroids).labels, centroids)


def cut(embedding: np.ndarray, n_clusters: int, n_init: int, rng: np.random.Generator) -> np.ndarray:
    """Return labels by k-means."""
    return fit_cut(embedding, n_clusters, n_init, rng).labels  # (n,)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Return a copy of rows, scaled to length one."""
    found = np.array(rows, order="C")
    cpu.unit_rows(found)
    return found

"""MultiNMF: non-negative factors of every view whose rows agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut, stored_table
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_real
from coterie.views import Table, View

TINY = 1e-30  # keeps quotients finite where entries of a factor have become zero
INNER = 5  # updates of a view's factors in a round, before that of the common one
ALONE = 100  # updates of each view at the start, without the agreement term


@dataclass(frozen=True)
class Factor:
    """X^v ~ V U^T of one view."""

    rows: np.ndarray  # (n, k) V
    columns: np.ndarray  # (d, k) U, each column summing to one


@dataclass(frozen=True)
class Factors:
    """The views' factors, and the common factor of the rows."""

    views: tuple[Factor, ...]
    common: np.ndarray  # (n, k) V*


@peer
class MultiNMF(Peer):
    """Multi-view clustering via joint non-negative matrix factorisation.

    Every view is a product of non-negative factors, X^v ~ V^v U^vT, with columns of U^v that sum to one so that the
    rows of the V^v can be compared; all V^v are regularised towards a common V*, which k-means clusters. A round costs
    time and memory that grow linearly with n.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, k, and of columns of the factors.
    weight : float, default=0.01
        Weight of the distance between each view's factor and the common one, the paper's lambda.
    random_state : int, RandomState or None, default=None
        Seed of the first factors and of k-means.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_clusters)
        The common factor, its columns scaled to a mean square of one.
    objective_ : list of float
        The squared errors of all views plus the weighted squared distances from the common factor, after each round;
        it never rises.
    n_iter_

    Notes
    -----
    A column with negative values is shifted so that its least value is zero, and each view is divided by its sum.

    References
    ----------
    J. Liu, C. Wang, J. Gao and J. Han: Multi-View Clustering via Joint Nonnegative Matrix Factorization. SDM 2013.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import MultiNMF
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = MultiNMF(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    weight: float = 0.01
    max_iter: int = 200
    tol: float = 1e-5
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> MultiNMF:
        check_real("MultiNMF", "weight", self.weight, low=0, above=True)
        self._check_ints(max_iter=1, n_init=1)
        check_real("MultiNMF", "tol", self.tol, low=0)
        views = self._read_views(X)
        rng = self._make_rng()
        with one_thread_per_block():
            tables = [non_negative(view) for view in views]
            found = factorise(tables, self.n_clusters, self.weight, self.max_iter, self.tol, rng)
            embedding = found.state.common / root_mean_square(found.state.common)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self


def non_negative(view: View) -> Table:
    """Return a view's rows, with negative columns shifted to a least value of zero, divided by their sum."""
    table = stored_table(view)  # (n, d)
    if sparse.issparse(table) and table.data.size and table.data.min() < 0:
        table = table.toarray()
    if not sparse.issparse(table):
        table = table - np.minimum(table.min(axis=0), 0)
    return table / (float(table.sum()) or 1.0)


def root_mean_square(rows: np.ndarray) -> np.ndarray:
    """Return every column's root mean square, 1 where it is zero."""
    sizes = np.sqrt(np.mean(rows**2, axis=0))  # (k,)
    return np.where(sizes > 0, sizes, 1.0)


def factorise(
    tables: Sequence[Table], n_clusters: int, weight: float, max_iter: int, tol: float, rng: np.random.Generator
) -> Alternation[Factors]:
    """Minimise sum_v |X^v - V^v U^vT|^2 + lambda |V^v - V*|^2 over factors without negative entries."""
    views: list[Factor] = []
    rows = rng.uniform(size=(tables[0].shape[0], n_clusters)) / tables[0].shape[0]  # (n, k)
    for table in tables:
        # Each view starts from the rows of the one before, so that column c is the same cluster in all.
        factor = unit_columns(Factor(rows, rng.uniform(size=(table.shape[1], n_clusters))))
        views.append(update_view(table, factor, factor.rows, weight=0.0, repeats=ALONE))
        rows = views[-1].rows
    start = Factors(tuple(views), np.mean([view.rows for view in views], axis=0))
    return alternate(start, partial(factor_round, tables, weight), max_iter=max_iter, tol=tol)


def factor_round(tables: Sequence[Table], weight: float, now: Factors) -> Round[Factors]:
    """Update every view's factors, and then the common one, which is their mean."""
    views = tuple(
        update_view(table, factor, now.common, weight, INNER) for table, factor in zip(tables, now.views, strict=True)
    )
    common = np.mean([view.rows for view in views], axis=0)  # (n, k)
    losses = [squared_error(table, factor) for table, factor in zip(tables, views, strict=True)]
    distances = [np.sum((factor.rows - common) ** 2) for factor in views]
    return Round(Factors(views, common), float(sum(losses) + weight * sum(distances)))


def update_view(table: Table, factor: Factor, common: np.ndarray, weight: float, repeats: int) -> Factor:
    """Return a view's factors after multiplicative updates, which lower its part of the objective."""
    for _ in range(repeats):
        rows, columns = factor.rows, factor.columns
        pull = weight * np.sum(rows * common, axis=0)  # (k,)
        push = weight * columns.sum(axis=0) * np.sum(rows**2, axis=0)  # (k,)
        columns = columns * (table.T @ rows + pull) / (columns @ (rows.T @ rows) + push + TINY)  # (d, k)
        factor = unit_columns(Factor(rows, columns))
        rows, columns = factor.rows, factor.columns
        above = table @ columns + weight * common  # (n, k)
        factor = Factor(rows * above / (rows @ (columns.T @ columns) + weight * rows + TINY), columns)
    return factor


def unit_columns(factor: Factor) -> Factor:
    """Return the same product with columns of U that sum to one."""
    sums = factor.columns.sum(axis=0)  # (k,)
    sums = np.where(sums > 0, sums, 1.0)
    return Factor(factor.rows * sums, factor.columns / sums)


def squared_error(table: Table, factor: Factor) -> float:
    """Return |X - V U^T|^2 without the product of the factors where X is sparse."""
    if not sparse.issparse(table):
        return float(np.sum((table - factor.rows @ factor.columns.T) ** 2))
    size = float(table.multiply(table).sum())
    inner = float(np.sum(factor.rows * (table @ factor.columns)))
    return size - 2 * inner + float(np.sum((factor.rows.T @ factor.rows) * (factor.columns.T @ factor.columns)))

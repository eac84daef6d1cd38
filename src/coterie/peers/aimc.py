"""AIMC: one set of cluster labels for all views, with orthonormal centres that are rotated into each view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import squared_norms
from coterie.kernels import cpu
from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, side_by_side
from coterie.peers._constraints import polar
from coterie.peers._docstrings import peer
from coterie.threads import count_threads, in_order, one_thread_per_block
from coterie.validation import check_real
from coterie.views.steps import Table

ROWS = 4096  # that are compared with all centres at once
SAMPLE_ROWS = 10_000  # that starts are tried on


@peer
class AIMC(Peer):
    """Fast multi-view clustering in an adaptively weighted integral space; nothing to tune.

    All views share labels and k orthonormal centres F; G_v maps these to each view, and a view's
    weight is the inverse of its error. Each round updates G_v and F by Procrustes, labels by the
    nearest centre, then weights. It takes time O(n d k) and memory O(n k): both grow linearly with
    the number of rows.

    Parameters
    ----------
    n_init : int, default=30
        Number of starts from k random rows, of which the best objective is kept. Above 10,000 rows, starts
        are compared on a sample of that size, and the best one goes on with all rows. The published start
        is the first k rows, so that the result depends on their order.
    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    view_weights_ : dict of float
        a_v of every view, normalised to sum to one.
    objective_ : list of float
        ``sum_v |X_v - G_v F_y|_F`` after each round of the best start. It never rises if every view has at
        least k columns; the columns of G_v cannot be orthonormal in a view with fewer.
    n_iter_ : int
        Rounds of the best start.

    Notes
    -----
    Columns have unit variance, and those of dense views mean zero; sparse views are not centred.
    ``predict`` is the method's own assignment step. The published figure for UCI's digits is met; random starts replace
    the published one from the first k rows. The page "Which method when" has the figures.

    References
    ----------
    M. Chen, T. Liu, C. Wang, D. Huang and J. Lai: Adaptively-weighted Integral Space for Fast
    Multiview Clustering. ACM Multimedia 2022.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import AIMC
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = AIMC(3, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    n_init: int = 30
    max_iter: int = 50
    tol: float = 1e-5
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> AIMC:
        self._check_ints(n_init=1, max_iter=1)
        check_real("AIMC", "tol", self.tol, low=0)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views, "zscore")
        with one_thread_per_block():
            rows = StackedViews.of(reader.tables(views), n_threads)
            best = best_start(rows, self.n_clusters, self.n_init, self.max_iter, self.tol, rng)
            if views.n_rows > SAMPLE_ROWS:
                sums = rows.sums(nearest_centers(rows, best.state.centers), self.n_clusters)  # (d, k)
                best = fit_from(rows, sums, self.max_iter, self.tol)
        centers = best.state.centers
        self._reader, self._centers = reader, centers
        self.labels_, self.objective_, self.n_iter_ = best.state.labels, list(best.objective), best.n_iter
        shares = centers.weights / centers.weights.sum()  # (V,)
        self.view_weights_ = dict(zip(views.names, shares.tolist(), strict=True))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the nearest centre of rows, new or old, in all views together."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            rows = StackedViews.of(reader.tables(views), count_threads(self.n_jobs))
            return nearest_centers(rows, self._centers)


@dataclass(frozen=True)
class StackedViews:
    """The views side by side, and the columns of each."""

    table: Table  # (n, d)
    bounds: np.ndarray  # (V + 1,) a view's columns
    n_threads: int

    @classmethod
    def of(cls, tables: Sequence[Table], n_threads: int) -> StackedViews:
        """Return tables of the same rows as one."""
        bounds = np.cumsum([0, *(table.shape[1] for table in tables)])
        return cls(side_by_side(tables), bounds, n_threads)

    @cached_property
    def energies(self) -> np.ndarray:
        """Sum of squares of every view."""
        views = (self.table[:, start:stop] for start, stop in pairwise(self.bounds))
        return np.array([float(squared_norms(view).sum(dtype=np.float64)) for view in views])  # (V,)

    def sample(self, n_rows: int, rng: np.random.Generator) -> StackedViews:
        """Return ``n_rows`` random rows; all rows if there are no more."""
        n = self.table.shape[0]
        if n <= n_rows:
            return self
        return StackedViews(self.table[np.sort(rng.choice(n, n_rows, replace=False))], self.bounds, self.n_threads)

    def split(self, columns: np.ndarray) -> list[np.ndarray]:
        """Split an array with one row per column of the table into the views' parts."""
        return np.split(columns, self.bounds[1:-1])

    def columns_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return some rows as columns, in float64."""
        found = self.table[numbers]
        return np.asarray(found.todense() if sparse.issparse(found) else found, dtype=np.float64).T  # (d, k)

    def sums(self, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """Return S, the sums of columns by cluster, in float64 (d x k)."""
        n, d = self.table.shape
        if sparse.issparse(self.table):
            members = sparse.csr_array((np.ones(n), (labels, np.arange(n))), shape=(n_clusters, n))
            return (members @ self.table).toarray().T

        def add(start: int) -> np.ndarray:
            some, total = slice(start, start + ROWS), np.zeros((n_clusters, d))
            cpu.add_groups(self.table[some], labels[some], total, np.zeros(n_clusters))
            return total

        return sum(in_order(add, range(0, n, ROWS), self.n_threads)).T  # type: ignore[union-attr]


@dataclass(frozen=True)
class Centers:
    """Centres of the clusters in every view, and the views' weights."""

    columns: np.ndarray  # (d, k): G_v F, views stacked
    weights: np.ndarray  # (V,) a_v
    bounds: np.ndarray  # (V + 1,)

    def weighted(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a_v G_v F, and sum_v a_v |G_v f_j|^2 of every cluster."""
        scaled = self.columns * np.repeat(self.weights, np.diff(self.bounds))[:, None]  # (d, k)
        return scaled, (scaled * self.columns).sum(axis=0)


@dataclass(frozen=True)
class MappedCenters:
    """The state of the rounds: sums over the rows of every cluster, and centres, weights and labels from these."""

    sums: np.ndarray  # (d, k): S, of columns by cluster
    directions: np.ndarray  # (k, k): F
    weights: np.ndarray  # (V,) a_v
    labels: np.ndarray  # (n,)
    centers: Centers  # that the labels refer to

    @classmethod
    def from_sums(cls, sums: np.ndarray, bounds: np.ndarray) -> MappedCenters:
        """Return a start from sums alone, with equal weights."""
        weights = np.full(len(bounds) - 1, 1 / (len(bounds) - 1))
        return cls(sums, np.eye(sums.shape[1]), weights, np.empty(0, dtype=int), Centers(sums, weights, bounds))


def best_start(
    rows: StackedViews, n_clusters: int, n_init: int, max_iter: int, tol: float, rng: np.random.Generator
) -> Alternation[MappedCenters]:
    """Return the end of the best of several starts, on a sample of at most SAMPLE_ROWS rows."""
    sample = rows.sample(SAMPLE_ROWS, rng)
    n = sample.table.shape[0]
    starts = (sample.columns_of(rng.choice(n, n_clusters, replace=False)) for _ in range(n_init))
    ends = (fit_from(sample, start, max_iter, tol) for start in starts)
    return min(ends, key=lambda end: end.objective[-1])


def fit_from(rows: StackedViews, sums: np.ndarray, max_iter: int, tol: float) -> Alternation[MappedCenters]:
    """Alternate between centres, labels and weights until the objective converges; ``sums`` are those at the start."""
    start = MappedCenters.from_sums(sums, rows.bounds)
    return alternate(start, lambda before: improve(rows, before), max_iter=max_iter, tol=tol)


def improve(rows: StackedViews, before: MappedCenters) -> Round[MappedCenters]:
    """Return one round: maps and centres by Procrustes, labels by the nearest centre, then weights."""
    split = rows.split(before.sums)
    maps = [polar(own @ before.directions.T) for own in split]  # G_v: (d_v, k)
    directions = polar(sum(a * g.T @ s for a, g, s in zip(before.weights, maps, split, strict=True)))  # F
    centers = Centers(np.vstack([g @ directions for g in maps]), before.weights, rows.bounds)
    labels = nearest_centers(rows, centers)
    sums = rows.sums(labels, len(directions))
    errors = view_errors(rows, centers, sums, labels)  # (V,)
    return Round(MappedCenters(sums, directions, 0.5 / errors, labels, centers), float(errors.sum()))


def nearest_centers(rows: StackedViews, centers: Centers) -> np.ndarray:
    """Return argmin_j sum_v a_v |x_v - G_v f_j|^2 of every row."""
    scaled, lengths = centers.weighted()
    scaled, lengths = (2 * scaled).astype(rows.table.dtype), lengths.astype(rows.table.dtype)

    def label(start: int) -> np.ndarray:
        return (lengths - rows.table[start : start + ROWS] @ scaled).argmin(axis=1)  # (b,)

    return np.concatenate(list(in_order(label, range(0, rows.table.shape[0], ROWS), rows.n_threads)))


def view_errors(rows: StackedViews, centers: Centers, sums: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return |X_v - G_v F_y|_F of every view: |X|^2 - 2 <S, G F> + sum_j n_j |G f_j|^2."""
    counts = np.bincount(labels, minlength=centers.columns.shape[1])  # (k,)
    found = [
        energy - 2 * np.vdot(own, center) + counts @ (center * center).sum(axis=0)
        for energy, own, center in zip(rows.energies, rows.split(sums), rows.split(centers.columns), strict=True)
    ]
    least = np.finfo(np.float32).eps * np.maximum(rows.energies, 1)  # keeps weights finite if a view fits exactly
    return np.sqrt(np.maximum(found, least))

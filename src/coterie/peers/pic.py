"""PIC: power iteration clustering, by one vector that is stopped before it becomes constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coterie.peers._common import Peer, cut
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_choice, check_real
from coterie.views.steps import Table, UnitRows

AFFINITIES = ("auto", "cosine", "shifted")


@peer
class PIC(Peer):
    """Power iteration clustering with cosine affinities, of one view or of all side by side.

    A vector of the degrees is averaged over neighbours repeatedly. Long before it is constant, it is
    nearly constant within clusters; the iteration stops there, and k-means clusters its entries. No
    n x n matrix is formed: a round takes time O(n d) and memory O(n).

    Parameters
    ----------
    affinity : "auto", "cosine" or "shifted", default="auto"
        Cosines between rows; (1 + cosine) / 2, which is never negative; or the first where no value of X is negative,
        and else the second.
    tol : float, default=1e-5
        The rounds end when no entry's step changes by more than tol / n.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, 1)
        The vector, with mean zero and unit variance.
    objective_ : list of float
        The largest change of a step in each round, times n.
    n_iter_

    References
    ----------
    F. Lin and W. Cohen: Power Iteration Clustering. ICML 2010.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import PIC
    >>> data = make_views(300, n_clusters=2, separation=8, random_state=0)
    >>> model = PIC(2, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    affinity: str = "auto"
    max_iter: int = 1000
    tol: float = 1e-5
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> PIC:
        self._check_ints(max_iter=1, n_init=1)
        check_choice("PIC", "affinity", self.affinity, AFFINITIES)
        check_real("PIC", "tol", self.tol, low=0)
        views = self._read_views(X)
        reader = self._learn_reader(views, "raw", dtype=np.float64)
        with one_thread_per_block():
            walk = random_walk(reader.table(views), self.affinity)
            vector, accelerations = power_iteration(walk, self.max_iter, self.tol)
            embedding = standardised(vector)[:, None]  # (n, 1)
            labels = cut(embedding, self.n_clusters, self.n_init, self._make_rng())
        self.embedding_, self.objective_, self.n_iter_ = embedding, accelerations, len(accelerations)
        self.labels_ = labels
        return self


@dataclass(frozen=True)
class RandomWalk:
    """D^-1 A, where A are affinities of unit rows to all others."""

    rows: Table  # (n, d), each of length one or zero
    shift: float  # affinities are shift + (1 - shift) cosine
    degrees: np.ndarray  # (n,)

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """Return D^-1 A v."""
        return affinity_product(self.rows, self.shift, vector) / self.degrees


def affinity_product(rows: Table, shift: float, vector: np.ndarray) -> np.ndarray:
    """Return A v from X (X^T v); a row has no affinity to itself."""
    lengths = np.asarray((rows * rows).sum(axis=1)).ravel()  # (n,) one, or zero for a row of zeros
    cosines = rows @ (rows.T @ vector)  # (n,)
    own = shift + (1 - shift) * lengths
    return shift * vector.sum() + (1 - shift) * cosines - own * vector


def random_walk(table: Table, affinity: str) -> RandomWalk:
    """Return the walk of a table's rows; refuse cosines that make a degree negative."""
    rows = UnitRows()(table)
    values = table.data if sparse.issparse(table) else table
    shifted = affinity == "shifted" or (affinity == "auto" and bool((values < 0).any()))
    shift = 0.5 if shifted else 0.0
    degrees = affinity_product(rows, shift, np.ones(table.shape[0]))  # (n,)
    if degrees.min() < -1e-9:
        raise ValueError(
            f"The degree of row {degrees.argmin()} is {degrees.min():.3g}: its cosines to other rows are mostly "
            "negative, and no random walk can follow them. Set affinity='shifted'."
        )
    return RandomWalk(rows, shift, np.where(degrees > 1e-12, degrees, np.inf))


def power_iteration(walk: RandomWalk, max_iter: int, tol: float) -> tuple[np.ndarray, list[float]]:
    """Return v, and n max|d_t - d_(t-1)| of every round, d_t = |v_t - v_(t-1)|."""
    degrees = np.where(np.isfinite(walk.degrees), walk.degrees, 0)
    n, vector = len(degrees), degrees / (degrees.sum() or 1.0)  # (n,)
    step, accelerations = vector, list[float]()
    while len(accelerations) < max_iter:
        after = walk(vector)
        after /= np.abs(after).sum() or 1.0
        before, step = step, np.abs(after - vector)
        vector = after
        accelerations.append(float(n * np.abs(step - before).max()))
        if accelerations[-1] <= tol:
            break
    return vector, accelerations


def standardised(vector: np.ndarray) -> np.ndarray:
    """Return a vector with mean zero and unit variance, which changes no clusters; zeros if it is constant."""
    away = vector - vector.mean()
    spread = away.std()
    return away / spread if spread > 1e-13 * np.abs(vector).max(initial=0.0) else np.zeros_like(vector)

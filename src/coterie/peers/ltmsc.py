"""LT-MSC: every view's rows as combinations of its rows, with coefficients that form a tensor of low rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, svd

from coterie.peers._alternation import Alternation, Round, alternate, warn_unless_converged
from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, shrink_singular_values, spectral_embedding
from coterie.peers._docstrings import peer
from coterie.peers._subspace import RANK_TOLERANCE, row_coordinates, shared_affinity
from coterie.threads import one_thread_per_block
from coterie.validation import check_real

MODES = 3  # unfoldings of a tensor: rows, columns, views
# With a penalty that starts low and grows slowly, the rounds end at the optimum; with a factor of 2 a round, the final
# objective is a few percent above it.
FIRST_PENALTY = 0.02
GROWTH = 1.15


@dataclass(frozen=True)
class Problem:
    """The views X^v = A^v Q^T in a basis Q of the space that their columns span together; a row is a column of X^v."""

    basis: np.ndarray  # (n, D) Q, orthonormal
    tables: tuple[np.ndarray, ...]  # each (r_v, n): X^v
    dictionaries: tuple[np.ndarray, ...]  # each (r_v, D): A^v = X^v Q
    inverses: tuple[Any, ...]  # Cholesky factors of A^vT A^v + 3 I


@dataclass(frozen=True)
class Representation:
    """Coefficients Z^v = Q Y^v, a copy for each unfolding, the errors, and the Lagrange multipliers."""

    tensor: np.ndarray  # (V, D, n) Y
    copies: tuple[np.ndarray, ...]  # each (V, D, n) G_m = Y at the end, of low rank when unfolded
    errors: tuple[np.ndarray, ...]  # each (r_v, n): E^v
    copy_multipliers: tuple[np.ndarray, ...]  # each (V, D, n)
    error_multipliers: tuple[np.ndarray, ...]  # each (r_v, n)
    penalty: float


@peer
class LTMSC(Peer):
    """Low-rank tensor constrained multi-view subspace clustering.

    In each view, every row is written as a combination of all rows, with errors in few rows. The coefficients of all
    views are one tensor, whose three unfoldings should have low rank; it is found by augmented Lagrange multipliers,
    and the absolute coefficients are the affinities for spectral clustering. Memory grows with n^2 and time with n^3 a
    round; n is refused above 10,000.

    Parameters
    ----------
    weight : float, default=0.1
        Weight of the errors, the paper's lambda.
    tol : float, default=1e-4
        The rounds end when the constraints' relative residual, and the coefficients' relative change, are within this.

    Attributes
    ----------
    embedding_
    objective_ : list of float
        The mean nuclear norm of the unfoldings plus the weighted errors, after each round.
    n_iter_

    Notes
    -----
    The columns of all coefficients lie in the space that the views' columns span together. So each view's n x n
    coefficients are stored as D x n, where D, the dimension of that space, is at most the sum of the views' ranks. The
    result is the same.

    References
    ----------
    C. Zhang, H. Fu, S. Liu, G. Liu and X. Cao: Low-Rank Tensor Constrained Multiview Subspace Clustering. ICCV 2015.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import LTMSC
    >>> data = make_views(100, n_clusters=3, separation=8, random_state=0)
    >>> labels = LTMSC(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    weight: float = 0.1
    max_iter: int = 100
    tol: float = 1e-4
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> LTMSC:
        check_real("LTMSC", "weight", self.weight, low=0, above=True)
        self._check_ints(max_iter=1, n_init=1)
        check_real("LTMSC", "tol", self.tol, low=0)
        views = self._read_views(X)
        n, width = views.n_rows, min(sum(view.n_columns for view in views), views.n_rows)
        check_row_count("LTMSC", n, round(4 + 9 * len(views) * width / n, 1))
        rng = self._make_rng()
        with one_thread_per_block():
            problem = build_problem([row_coordinates(view).T for view in views])
            found = represent(problem, self.weight, self.max_iter, self.tol)
            affinity = shared_affinity([problem.basis @ y for y in found.state.tensor])  # (n, n)
            embedding = spectral_embedding(affinity, self.n_clusters)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        warn_unless_converged("LTMSC", found, self.tol)
        self.embedding_, self.labels_ = embedding, labels
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self


def build_problem(tables: Sequence[np.ndarray]) -> Problem:
    """Return the problem in a basis of the space that the views' columns, n numbers each, span together."""
    stacked = np.vstack(tables).T  # (n, sum of r)
    left, values, _ = svd(stacked, full_matrices=False, check_finite=False)
    basis = left[:, : max(int((values > RANK_TOLERANCE * values[0]).sum()), 1)]  # (n, D)
    dictionaries = tuple(table @ basis for table in tables)  # each (r_v, D)
    inverses = tuple(cho_factor(a.T @ a + MODES * np.eye(basis.shape[1])) for a in dictionaries)
    return Problem(basis, tuple(tables), dictionaries, inverses)


def represent(problem: Problem, weight: float, max_iter: int, tol: float) -> Alternation[Representation]:
    """Minimise sum_m |unfold_m(Z)|_* / 3 + lambda |E|_2,1 where X^v = X^v Z^v + E^v."""
    n, width = problem.basis.shape
    zero = np.zeros((len(problem.tables), width, n))
    none = tuple(np.zeros_like(table) for table in problem.tables)
    start = Representation(zero, (zero,) * MODES, none, (zero,) * MODES, none, FIRST_PENALTY)
    return alternate(start, partial(represent_round, problem, weight), max_iter=max_iter, tol=tol)


def represent_round(problem: Problem, weight: float, now: Representation) -> Round[Representation]:
    """Update Y, then the errors and the copies, which do not depend on each other, then the multipliers."""
    mu = now.penalty
    tensor = best_coefficients(problem, now)  # (V, D, n)
    fitted = [a @ y for a, y in zip(problem.dictionaries, tensor, strict=True)]  # each (r_v, n)
    wanted = [
        x - f + m / mu for x, f, m in zip(problem.tables, fitted, now.error_multipliers, strict=True)
    ]  # each (r_v, n)
    errors, cost = shrink_columns(wanted, weight / mu)
    shrunk = [low_rank(tensor + w / mu, mode, 1 / (MODES * mu)) for mode, w in enumerate(now.copy_multipliers)]
    copies = tuple(copy for copy, _ in shrunk)
    gaps = tuple(x - f - e for x, f, e in zip(problem.tables, fitted, errors, strict=True))
    spreads = tuple(tensor - copy for copy in copies)
    state = Representation(
        tensor,
        copies,
        errors,
        tuple(w + mu * s for w, s in zip(now.copy_multipliers, spreads, strict=True)),
        tuple(m + mu * g for m, g in zip(now.error_multipliers, gaps, strict=True)),
        mu * GROWTH,
    )
    objective = sum(norm for _, norm in shrunk) / MODES + weight * cost
    return Round(state, objective, residual(problem, now, state, gaps, spreads))


def best_coefficients(problem: Problem, now: Representation) -> np.ndarray:
    """Return Y^v = (A^vT A^v + 3 I)^(-1) (A^vT (X^v - E^v + L^v / mu) + sum_m G_m^v - W_m^v / mu)."""
    pulls = np.zeros_like(now.tensor)  # (V, D, n)
    for g, w in zip(now.copies, now.copy_multipliers, strict=True):
        pulls += g - w / now.penalty
    tensor = np.empty_like(now.tensor)
    for v, (a, x) in enumerate(zip(problem.dictionaries, problem.tables, strict=True)):
        wanted = x - now.errors[v] + now.error_multipliers[v] / now.penalty
        tensor[v] = cho_solve(problem.inverses[v], a.T @ wanted + pulls[v])
    return tensor


def low_rank(tensor: np.ndarray, mode: int, threshold: float) -> tuple[np.ndarray, float]:
    """Return the tensor with the singular values of one unfolding shrunk, and their sum."""
    axis = (1, 2, 0)[mode]
    moved = np.moveaxis(tensor, axis, 0)
    shrunk, norm = shrink_singular_values(moved.reshape(moved.shape[0], -1), threshold)
    return np.moveaxis(shrunk.reshape(moved.shape), 0, axis), norm


def shrink_columns(blocks: Sequence[np.ndarray], threshold: float) -> tuple[tuple[np.ndarray, ...], float]:
    """Return stacked blocks with columns shortened by the threshold (the prox of |E|_2,1), and their |E|_2,1."""
    lengths = np.sqrt(sum(np.sum(block**2, axis=0) for block in blocks))  # (n,)
    kept = np.maximum(lengths - threshold, 0)
    factors = kept / np.where(lengths > 0, lengths, 1)
    return tuple(block * factors for block in blocks), float(kept.sum())


def residual(
    problem: Problem,
    before: Representation,
    now: Representation,
    gaps: Sequence[np.ndarray],
    spreads: Sequence[np.ndarray],
) -> float:
    """Return the largest of the constraints' relative residuals and the coefficients' relative change."""
    size = np.sqrt(sum(np.sum(x**2) for x in problem.tables)) or 1.0
    missed = np.sqrt(sum(np.sum(gap**2) for gap in gaps)) / size
    scale = max(np.linalg.norm(now.tensor), np.finfo(float).tiny)
    apart = max(np.linalg.norm(spread) for spread in spreads) / scale
    moved = np.linalg.norm(now.tensor - before.tensor) / scale
    return float(max(missed, apart, moved))

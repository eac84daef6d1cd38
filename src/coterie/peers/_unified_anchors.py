"""Anchors that all views share, rotated into each of them: the common part of SMVSC and FPMVS-CAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from coterie.arrays import squared_norms
from coterie.kernels import cpu
from coterie.method.spectra import inverse_roots
from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut, unit_rows
from coterie.peers._constraints import onto_simplex, polar
from coterie.threads import one_thread_per_block
from coterie.validation import check_choice, check_real
from coterie.views.steps import Table

STARTS = ("first", "random")


@dataclass(frozen=True)
class AnchorFit:
    """Every row as a mixture of the common anchors, and how the views are weighted."""

    mixtures: np.ndarray  # (n, m): Z^T
    anchors: np.ndarray  # (m, m): A
    weights: np.ndarray  # (V,) summing to one


def fit_anchors(
    tables: Sequence[Table], n_anchors: int, ridge: float, start: np.ndarray, max_iter: int, tol: float
) -> Alternation[AnchorFit]:
    """Reduce sum_v a_v^2 |X_v - W_v A Z|^2 + ridge |Z|^2 by alternating updates.

    W_v has orthonormal columns, A is orthonormal, the columns of Z lie on the simplex, and the weights sum to one. At
    first, row ``start[j]`` consists of anchor j alone, and all other mixtures are zero.
    """
    mixtures = np.zeros((tables[0].shape[0], n_anchors), dtype=np.float32)  # Z^T
    mixtures[start, np.arange(len(start))] = 1
    # Anchors of zero make W_v start as the first columns of the identity.
    first = AnchorFit(mixtures, np.zeros((n_anchors, n_anchors)), np.full(len(tables), 1 / len(tables)))
    energies = np.array([float(squared_norms(table).sum(dtype=np.float64)) for table in tables])
    return alternate(first, lambda before: improve(tables, energies, ridge, before), max_iter=max_iter, tol=tol)


def improve(tables: Sequence[Table], energies: np.ndarray, ridge: float, before: AnchorFit) -> Round[AnchorFit]:
    """Return one round: W_v and A by Procrustes, then the mixtures, then the weights."""
    sums = [moments(table, before.mixtures) for table in tables]  # X_v Z^T: (d_v, m)
    maps = [polar(own @ before.anchors.T) for own in sums]  # W_v
    anchors = polar(sum(a**2 * w.T @ s for a, w, s in zip(before.weights, maps, sums, strict=True)))  # A
    centers = [w @ anchors for w in maps]  # W_v A: (d_v, m)
    mixtures = mix(tables, centers, before.weights, ridge)
    errors = view_errors(tables, energies, centers, mixtures)
    weights = (1 / errors) / (1 / errors).sum()
    objective = float(weights**2 @ errors) + ridge * float(np.vdot(mixtures, mixtures))
    return Round(AnchorFit(mixtures, anchors, weights), objective)


def moments(table: Table, mixtures: np.ndarray) -> np.ndarray:
    """Return X_v Z^T."""
    found = table.T @ mixtures
    return np.asarray(found.todense() if sparse.issparse(found) else found, dtype=np.float64)  # (d_v, m)


def mix(tables: Sequence[Table], centers: Sequence[np.ndarray], weights: np.ndarray, ridge: float) -> np.ndarray:
    """Return every row's mixture: the projection of sum_v (W_v A)^T x_v / (sum a_v^2 + ridge) on the simplex.

    The minimiser would have a factor a_v^2 in each term. The published figures are those without it: every view has the
    same weight here, and mixtures are nearly one-hot.
    """
    share = (weights**2).sum() + ridge
    parts = (table @ (center / share).astype(np.float32) for table, center in zip(tables, centers, strict=True))
    return onto_simplex(sum(parts))


def view_errors(
    tables: Sequence[Table], energies: np.ndarray, centers: Sequence[np.ndarray], mixtures: np.ndarray
) -> np.ndarray:
    """Return |X_v - W_v A Z|^2 of every view."""
    second = mixtures.T.astype(np.float64) @ mixtures  # (m, m)
    found = [
        energy - 2 * np.vdot(moments(table, mixtures), center) + np.vdot(center.T @ center, second)
        for table, energy, center in zip(tables, energies, centers, strict=True)
    ]
    return np.maximum(found, np.finfo(np.float32).eps * np.maximum(energies, 1))  # (V,)


def embed_mixtures(mixtures: np.ndarray, count: int) -> np.ndarray:
    """Return the top left singular vectors of Z^T, each row of length one."""
    gram = mixtures.T.astype(np.float64) @ mixtures  # (m, m)
    values, vectors = cpu.largest_eigenpairs(gram, min(count, len(gram)))
    return unit_rows(mixtures @ (vectors * inverse_roots(values)).astype(np.float32))  # (n, k)


@dataclass(eq=False, repr=False, kw_only=True)
class UnifiedAnchorPeer(Peer):
    """Base class of the two estimators, which differ in their ridge."""

    ridge: ClassVar[float]

    n_landmarks: int | None = None
    start: str = "first"
    max_iter: int = 50
    tol: float = 1e-3
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        owner = type(self).__name__
        self._check_ints(max_iter=1, n_init=1, **({} if self.n_landmarks is None else {"n_landmarks": 1}))
        check_choice(owner, "start", self.start, STARTS)
        check_real(owner, "tol", self.tol, low=0)
        views = self._read_views(X)
        rng = self._make_rng()
        reader = self._learn_reader(views, "zscore")
        m = min(self.n_landmarks or self.n_clusters, views.n_rows)
        first = np.arange(m) if self.start == "first" else rng.choice(views.n_rows, m, replace=False)
        with one_thread_per_block():  # rounding must not depend on the number of cores
            found = fit_anchors(reader.tables(views), m, self.ridge, first, self.max_iter, self.tol)
            embedding = embed_mixtures(found.state.mixtures, self.n_clusters)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        self.view_weights_ = dict(zip(views.names, found.state.weights.tolist(), strict=True))
        return self

"""Affinities between all pairs of rows: what the methods need that do not scale."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from coterie.kernels import cpu
from coterie.method.graphs import median_distance
from coterie.method.rowmap import LandmarkRows, squared_distances, squared_norms
from coterie.method.spectra import top_eigenpairs
from coterie.views.preparation import Table

MAX_ROWS = 10_000

# Below this size all eigenvectors cost less than the wait for a few.
SMALL = 400


def check_row_count(owner: str, n_rows: int, n_matrices: float = 1) -> None:
    """Refuse more rows than a matrix of all pairs allows."""
    if n_rows > MAX_ROWS:
        raise ValueError(
            f"{owner} compares all pairs of rows, so it takes at most {MAX_ROWS:,} of them. "
            f"Got {n_rows:,} rows instead. Use LSC or GuidedCoTraining, whose memory grows linearly."
        )


def gaussian_affinity(table: Table, rng: np.random.Generator) -> np.ndarray:
    """Return exp(-d^2 / 2 sigma^2) for all pairs of rows, sigma their median distance, with a zero diagonal."""
    sigma = median_distance(table, rng)
    everyone = LandmarkRows(table, np.ones(table.shape[0], dtype=bool))
    affinity = squared_distances(table, squared_norms(table), everyone)  # (n, n)
    affinity *= -0.5 / sigma**2
    np.exp(affinity, out=affinity)
    np.fill_diagonal(affinity, 0)
    return affinity


def normalised(affinity: np.ndarray) -> np.ndarray:
    """Return D^(-1/2) A D^(-1/2), D the row sums; a row without any weight stays zero."""
    degrees = affinity.sum(axis=1)  # (n,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5
    return affinity * roots * roots[:, None]


def top_vectors(matrix: np.ndarray, count: int) -> np.ndarray:
    """Return the eigenvectors of a symmetric matrix's largest eigenvalues, largest first."""
    n = len(matrix)
    if n <= SMALL or count >= n // 2:
        return top_eigenpairs(matrix, count).vectors  # (n, k)
    # Lanczos from a fixed start, with room for eigenvalues that crowd near one, as they do once views agree.
    start = np.random.default_rng(0).uniform(0.5, 1.5, size=n)
    room = min(n - 1, max(4 * count, 20))
    try:
        values, vectors = eigsh(matrix, count, which="LA", v0=start, ncv=room, maxiter=30, tol=1e-7)
    except ArpackNoConvergence:
        return top_eigenpairs(matrix, count).vectors  # (n, k)
    return np.ascontiguousarray(vectors[:, np.argsort(-values)])  # (n, k)


def spectral_embedding(affinity: np.ndarray, n_components: int) -> np.ndarray:
    """Return the top eigenvectors of the normalised affinity, as unit rows (Ng, Jordan and Weiss)."""
    rows = np.ascontiguousarray(top_vectors(normalised(affinity), n_components))  # (n, k)
    cpu.unit_rows(rows)
    return rows

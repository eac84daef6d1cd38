"""Affinities between all pairs of rows, and their eigenvectors, for the methods that do not scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from coterie.arrays import squared_norms
from coterie.kernels import cpu
from coterie.machine import available_bytes
from coterie.method.distances import LandmarkRows, squared_distances
from coterie.method.graphs import median_distance
from coterie.method.spectra import inverse_roots
from coterie.peers._common import prepared_table, unit_rows
from coterie.views import Table, View

# Beyond this many rows the eigenvectors of a single n x n matrix take minutes, whatever the memory.
MAX_ROWS = 10_000

# Up to this size, all eigenvectors cost less than a few by Lanczos.
SMALL = 400

LOCAL_NEIGHBOUR = 7  # number of the neighbour whose distance is a row's scale

POWER_STEPS = 5  # of power iteration, which detects eigenvalues that LAPACK left out

ALTERNATIVE = "Use GuidedCoTraining, LSC or MVSCB, whose memory and time grow linearly."


def check_row_count(owner: str, n_rows: int, n_matrices: float = 3) -> None:
    """Refuse more rows than MAX_ROWS, or than memory has room for with ``n_matrices`` n x n matrices of float64."""
    needed, available = n_matrices * n_rows**2 * 8, available_bytes()
    lacks_memory = available is not None and needed > available
    if n_rows <= MAX_ROWS and not lacks_memory:
        return
    limit = f"It takes at most {MAX_ROWS:,} rows, since its time grows with n^3. " if n_rows > MAX_ROWS else ""
    on_hand = "" if available is None else f", and {available / 1e9:.1f} GB are available"
    raise ValueError(
        f"{owner} compares all pairs of rows: {n_rows:,} rows need about {needed / 1e9:.1f} GB "
        f"({n_matrices:g} matrices of n x n){on_hand}. {limit}{ALTERNATIVE}"
    )


def view_affinities(views: Iterable[View], rng: np.random.Generator) -> list[np.ndarray]:
    """Return the Gaussian affinities of every view, each n x n."""
    return [gaussian_affinity(prepared_table(view, dtype=np.float64), rng) for view in views]


def gaussian_affinity(table: Table, rng: np.random.Generator) -> np.ndarray:
    """Return exp(-d^2 / 2 sigma^2) for all pairs of rows, sigma their median distance, with a zero diagonal."""
    sigma = median_distance(table, rng)
    return weigh_pairs(pairwise_squares(table), 0.5 / sigma**2)


def local_affinity(table: Table) -> np.ndarray:
    """Return exp(-d^2 / s_i s_j) for all pairs of rows, s_i the distance to a near neighbour, with a zero diagonal.

    This is the local scaling of Zelnik-Manor and Perona, which adapts to dense and sparse regions of a table.
    """
    squares = pairwise_squares(table)  # (n, n)
    near = min(LOCAL_NEIGHBOUR, len(squares) - 1)
    scales = np.sqrt(np.maximum(np.partition(squares, near, axis=1)[:, near], np.finfo(float).tiny))  # (n,)
    return weigh_pairs(squares, 1 / (scales * scales[:, None]))


def pairwise_squares(table: Table) -> np.ndarray:
    """Return the squared distances between all pairs of rows."""
    everyone = LandmarkRows(table, np.ones(table.shape[0], dtype=bool))
    return squared_distances(table, squared_norms(table), everyone)  # (n, n)


def weigh_pairs(squares: np.ndarray, factors: float | np.ndarray) -> np.ndarray:
    """Return exp(-f d^2), in the same memory, with a zero diagonal."""
    squares *= factors
    np.negative(squares, out=squares)
    with np.errstate(under="ignore"):
        np.exp(squares, out=squares)
    np.fill_diagonal(squares, 0)
    return squares


def nearest_only(affinity: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Return the affinities between rows of which one is among the other's nearest; all others are zero."""
    n = len(affinity)
    if n_neighbors >= n - 1:
        return affinity
    nearest = np.argpartition(affinity, n - n_neighbors, axis=1)[:, n - n_neighbors :]  # (n, q)
    kept = np.zeros(affinity.shape, dtype=bool)
    np.put_along_axis(kept, nearest, True, axis=1)
    return np.where(kept | kept.T, affinity, 0.0)  # (n, n)


def normalised(affinity: np.ndarray) -> np.ndarray:
    """Return D^(-1/2) A D^(-1/2), D the row sums; a row without any weight stays zero.

    Projected affinities can be negative, and so can their sums: D holds the absolute values of the sums.
    """
    degrees = np.abs(affinity.sum(axis=1))  # (n,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5
    return affinity * roots * roots[:, None]


def laplacian(affinity: np.ndarray) -> np.ndarray:
    """Return I - D^(-1/2) A D^(-1/2)."""
    return np.eye(len(affinity)) - normalised(affinity)


def top_vectors(matrix: np.ndarray, count: int) -> np.ndarray:
    """Return the eigenvectors of a symmetric matrix's largest eigenvalues, largest first."""
    n = len(matrix)
    if n <= SMALL or count >= n // 2:
        return cpu.largest_eigenpairs(matrix, count)[1]  # (n, k)
    # Lanczos from a fixed start, with a larger basis for the many eigenvalues near one that agreeing views have.
    start = np.random.default_rng(0).uniform(0.5, 1.5, size=n)
    room = min(n - 1, max(4 * count, 20))
    try:
        values, vectors = eigsh(matrix, count, which="LA", v0=start, ncv=room, maxiter=30, tol=1e-7)
    except ArpackNoConvergence:
        return cpu.largest_eigenpairs(matrix, count)[1]  # (n, k)
    return np.ascontiguousarray(vectors[:, np.argsort(-values)])  # (n, k)


def common_vectors(bases: Sequence[np.ndarray], weights: Iterable[float], count: int) -> np.ndarray:
    """Return the top eigenvectors of sum_v w_v U^v U^vT, from the small Gram matrix of the bases side by side."""
    stacked = np.hstack([u * np.sqrt(w) for u, w in zip(bases, weights, strict=True)])  # (n, V k)
    values, vectors = eigh(stacked.T @ stacked)  # (V k,), (V k, V k)
    top = slice(None, -count - 1, -1)
    return stacked @ (vectors[:, top] * inverse_roots(values[top]))  # (n, k)


def spectral_embedding(affinity: np.ndarray, n_components: int) -> np.ndarray:
    """Return the top eigenvectors of the normalised affinity, as unit rows (Ng, Jordan and Weiss)."""
    return unit_rows(top_vectors(normalised(affinity), n_components))  # (n, k)


def shrink_singular_values(matrix: np.ndarray, threshold: float) -> tuple[np.ndarray, float]:
    """Return the proximal operator of the nuclear norm at a matrix, and the nuclear norm of the result.

    Singular values are lowered by ``threshold``, and those below it become zero. They are computed from the Gram matrix
    of the shorter side, of which only the eigenvectors with eigenvalues above threshold^2 are needed.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    gram = matrix @ matrix.T if wide else matrix.T @ matrix  # (m, m)
    values, vectors = eigenpairs_above(gram, threshold**2)  # (r,), (m, r)
    singular = np.sqrt(values)
    scaled = vectors * (1 - threshold / singular)
    shrunk = scaled @ (vectors.T @ matrix) if wide else (matrix @ vectors) @ scaled.T
    return shrunk, float((singular - threshold).sum())


def eigenpairs_above(matrix: np.ndarray, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of a positive semi-definite matrix above a bound, and their vectors.

    LAPACK may leave some out if an eigenvalue has a high multiplicity. A few power iterations on the orthogonal
    complement of those found detect this, and then all eigenvalues are computed.
    """
    if len(matrix) > SMALL:
        values, vectors = eigh(matrix, subset_by_value=(bound, np.inf), check_finite=False)
        start = np.random.default_rng(0).standard_normal((len(matrix), 2))
        for _ in range(POWER_STEPS):
            start -= vectors @ (vectors.T @ start)
            start = matrix @ (start / np.maximum(np.linalg.norm(start, axis=0), np.finfo(float).tiny))
        if np.linalg.norm(start - vectors @ (vectors.T @ start), axis=0).max() <= 1.01 * bound:
            return values, vectors
    values, vectors = eigh(matrix, check_finite=False)
    above = values > bound
    return values[above], vectors[:, above]

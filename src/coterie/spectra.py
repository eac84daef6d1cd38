"""The small eigenproblems: p x p for a graph, Gk x Gk for the consensus. Always float64, always on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

# Directions whose share of the largest eigenvalue is below this are rounding, not structure.
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Spectrum:
    """The top of a graph's spectrum."""

    basis: np.ndarray  # (p, r): e_i = sum_j z_ij basis[j]; columns beyond the graph's rank are zero
    singular_values: np.ndarray  # (r + 1,) of Zhat, descending, one more than is used: the gap behind r


@dataclass(frozen=True)
class Consensus:
    """The augmented view U* as a combination of the graphs' own bases (the paper's Theorem 1)."""

    rotation: np.ndarray  # (G, r, k): U* = sum_g E^g rotation[g]
    singular_values: np.ndarray  # (G r,) of [w_1 E^1 .. w_G E^G], descending


def graph_spectrum(gram: np.ndarray, n_components: int, *, drop_first: bool = False, diffuse: bool = False) -> Spectrum:
    """Return the top left singular vectors of Zhat = Z D^(-1/2), as a map from the weights Z.

    Zhat^T Zhat = D^(-1/2) G D^(-1/2) with G = Z^T Z, and D, the column sums of Z, are the row sums of G because the
    rows of Z sum to one (Eqs. (2) to (4)). A landmark that nobody is joined to has degree zero and drops out.
    With ``diffuse`` every vector is multiplied by its singular value, so that weak directions count less.
    """
    degrees = gram.sum(axis=1)  # (p,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5  # (p,) D^(-1/2)
    laplacian = gram * roots * roots[:, None]  # (p, p)
    wanted = min(n_components + 1 + drop_first, len(laplacian))
    values, vectors = top_eigenpairs(laplacian, wanted)  # (m,), (p, m)
    if drop_first:
        values, vectors = values[1:], vectors[:, 1:]
    used = min(n_components, len(values))
    lengths = inverse_roots(values[:used])  # (m,): Zhat v has length sqrt(value)
    if diffuse:
        lengths = np.where(lengths > 0, 1.0, 0.0)
    basis = np.zeros((len(laplacian), n_components))
    basis[:, :used] = vectors[:, :used] * roots[:, None] * lengths
    return Spectrum(basis, np.sqrt(np.maximum(values, 0)))


def consensus(outer: np.ndarray, weights: np.ndarray, n_components: int) -> Consensus:
    """Return the k left singular vectors of the weighted stack of bases that hold most of it.

    ``outer`` is H = sum_i e_i e_i^T of the unweighted stack (Gr x Gr); ``weights`` has one number per graph.
    """
    n_graphs = len(weights)
    scale = np.repeat(weights, outer.shape[0] // n_graphs)  # (G r,)
    values, vectors = eigh(outer * scale * scale[:, None])
    values, vectors = values[::-1], vectors[:, ::-1]
    rotation = vectors[:, :n_components] * inverse_roots(values[:n_components]) * scale[:, None]  # (G r, k)
    return Consensus(rotation.reshape(n_graphs, -1, rotation.shape[1]), np.sqrt(np.maximum(values, 0)))


def top_eigenpairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` largest eigenvalues of a symmetric matrix, descending, and their vectors."""
    size = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[size - count, size - 1])
    return values[::-1], vectors[:, ::-1]


def inverse_roots(values: np.ndarray) -> np.ndarray:
    """Return values^(-1/2), zero for directions that carry nothing."""
    real = values > RANK_TOLERANCE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.where(real, np.where(real, values, 1.0) ** -0.5, 0.0)

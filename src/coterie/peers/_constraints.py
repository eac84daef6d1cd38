"""Minimisers under constraints: orthonormal factors, and rows on the simplex."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, svd

MOST_STEPS = 500
STEP_TOLERANCE = 1e-5
CHECK_EVERY = 10  # steps between checks for converged rows


def polar(matrix: np.ndarray) -> np.ndarray:
    """Return U V^T of the matrix's SVD: the orthonormal Q with the largest tr(Q^T M) (Procrustes)."""
    left, _, right = svd(matrix, full_matrices=False, check_finite=False)
    return left @ right


def onto_simplex(rows: np.ndarray) -> np.ndarray:
    """Return the nearest point of the simplex, z >= 0 and sum z = 1, for every row.

    The rows are lowered by a threshold and cut at zero. With the values sorted, u_1 >= u_2 >= .., it is the largest
    (u_1 + .. + u_j - 1) / j, because these rise as long as u_j is above them, and fall from there on.

    Examples
    --------
    >>> onto_simplex(np.array([[0.5, 0.5], [3.0, 0.0], [-1.0, -1.0]]))
    array([[0.5, 0.5],
           [1. , 0. ],
           [0.5, 0.5]])
    """
    descending = -np.sort(-rows, axis=1)  # (n, m)
    sums = np.cumsum(descending, axis=1)
    sums -= 1
    sums /= np.arange(1, rows.shape[1] + 1, dtype=rows.dtype)
    return np.maximum(rows - sums.max(axis=1, keepdims=True), 0)  # (n, m)


def simplex_minimum(quadratic: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Return argmin z^T Q z / 2 - b^T z over the simplex for every row b: accelerated projected gradients.

    A row's momentum is reset when it points uphill (O'Donoghue and Candes), and converged rows are no longer updated.
    """
    longest = float(eigh(quadratic, eigvals_only=True, subset_by_index=[len(quadratic) - 1] * 2)[0]) or 1.0
    system = quadratic / np.asarray(longest, dtype=quadratic.dtype)
    found = np.empty_like(linear)
    left, goal = np.arange(len(linear)), linear / np.asarray(longest, dtype=linear.dtype)  # rows still moving
    now = onto_simplex(goal)  # (b, m)
    ahead, pace = now, np.ones((len(now), 1), dtype=linear.dtype)
    for number in range(1, MOST_STEPS + 1):
        after = onto_simplex(ahead - ahead @ system + goal)
        moved = after - now
        uphill = np.einsum("ij,ij->i", ahead - after, moved)[:, None] > 0  # (b, 1)
        faster = np.where(uphill, 1, (1 + np.sqrt(1 + 4 * pace**2)) / 2).astype(linear.dtype)
        ahead = after + np.where(uphill, 0, (pace - 1) / faster) * moved
        now, pace = after, faster
        if number % CHECK_EVERY == 0 or number == MOST_STEPS:
            moving = (np.abs(moved).max(axis=1) > STEP_TOLERANCE) & (number < MOST_STEPS)  # (b,)
            found[left[~moving]] = now[~moving]
            left, goal, now, ahead, pace = left[moving], goal[moving], now[moving], ahead[moving], pace[moving]
            if not len(left):
                break
    return found

"""The CPU's work on small symmetric matrices, in numba: some eigenvalues, and steps of Lanczos' method."""

from __future__ import annotations

import numpy as np

from coterie.kernels._compiling import FASTMATH, compiled

INVARIANT = 1e-6  # what is left of a vector of length one where a Krylov space is invariant

# An interval of numbers around 1 is halved this often until it holds no number between its ends.
HALVINGS = 53
SMALLEST = 1e-290  # a pivot; one over it, times a number of the order of 1, is finite


@compiled()
def largest_values(diagonal, squares, low, high, values):
    """Write the largest eigenvalues of a symmetric tridiagonal matrix to ``values``, ascending, by bisection.

    ``squares`` are those of the numbers beside the diagonal, and all eigenvalues lie from ``low`` to ``high``. As many
    are below a number as pivots of the matrix less that number are negative. Each pivot waits for the one before it,
    which takes most of LAPACK's time; here all eigenvalues are halved together, so that others' pivots fill the wait.
    """
    n, m = diagonal.shape[0], values.shape[0]
    lower, upper, middle = np.full(m, low), np.full(m, high), np.empty(m)
    pivots, below = np.empty(m), np.empty(m)
    for _ in range(HALVINGS):
        for s in range(m):
            middle[s] = (lower[s] + upper[s]) / 2
            pivots[s] = diagonal[0] - middle[s]
            below[s] = 1.0 if pivots[s] < 0 else 0.0
        for i in range(1, n):
            for s in range(m):
                last = pivots[s] if abs(pivots[s]) > SMALLEST else -SMALLEST
                pivots[s] = diagonal[i] - middle[s] - squares[i - 1] / last
                below[s] += 1.0 if pivots[s] < 0 else 0.0
        for s in range(m):
            if below[s] > n - m + s:
                upper[s] = middle[s]
            else:
                lower[s] = middle[s]
    for s in range(m):
        values[s] = (lower[s] + upper[s]) / 2


@compiled(fastmath=FASTMATH)
def extend_krylov(matrix, basis, diagonal, beside, first, last):
    """Add rows ``first + 1`` to ``last`` to an orthonormal Krylov basis, and return how many rows it then has.

    M q_j = beside[j - 1] q_(j-1) + diagonal[j] q_j + beside[j] q_(j+1), where q_j are the rows of ``basis``. What the
    terms of q_j leave is made orthogonal to all rows: rounding errors would grow. Rows end early where the space is
    invariant.
    """
    for j in range(first, last):
        image = np.dot(matrix, basis[j])
        overlap = image[0] * 0
        for c in range(image.shape[0]):
            overlap += basis[j, c] * image[c]
        diagonal[j] = overlap
        for c in range(image.shape[0]):
            image[c] -= overlap * basis[j, c]
        before = basis[: j + 1]
        image -= np.dot(np.dot(before, image), before)
        square = 0.0
        for c in range(image.shape[0]):
            square += image[c] * image[c]
        beside[j] = np.sqrt(square)
        if beside[j] < INVARIANT:
            return j + 1
        for c in range(image.shape[0]):
            basis[j + 1, c] = image[c] / beside[j]
    return last + 1

"""The CPU's kernels for small symmetric matrices, in numba: the largest eigenvalues, and Lanczos' method.

A graph's matrix is stored as its lower triangle, row by row: half as much to read, and reading limits the speed of a
product with a vector. Where few landmarks share rows, only the nonzeros are stored: see
:class:`coterie.kernels.cpu.LowerTriangle`.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels._compiling import FASTMATH, compiled

INVARIANT = 1e-6  # largest norm of M q outside of a Krylov space that is taken as invariant
STEPS_GROWTH = 1.15  # ratio of Lanczos' iterations between two convergence checks
CHECK_BISECTIONS = 36  # bisections in a convergence check, which needs no eigenvalue to the last bit

# After this many bisections an interval around 1 holds no float64 between its ends.
BISECTIONS = 53

# Absolute value of a pivot: a number of order 1 can be divided by it. A smaller pivot is replaced by -SMALLEST, so it
# counts as negative.
SMALLEST = 1e-290


@compiled()
def largest_values(diagonal, squares, low, high, values):
    """Write the largest eigenvalues of a symmetric tridiagonal matrix to ``values``, ascending, by bisection.

    ``squares`` are the squared off-diagonal entries, and all eigenvalues lie from ``low`` to ``high``. The number of
    eigenvalues below x is the number of negative pivots of T - x I. Each pivot depends on the one before it, and
    waiting for it takes most of LAPACK's time. Here all eigenvalues are bisected together, so that the pivots of the
    others fill the wait.
    """
    n, m = diagonal.shape[0], values.shape[0]
    lower, upper, middle = np.full(m, low), np.full(m, high), np.empty(m)
    pivots, below = np.empty(m), np.empty(m)
    for _ in range(BISECTIONS):
        for s in range(m):
            middle[s] = (lower[s] + upper[s]) / 2
            pivots[s] = diagonal[0] - middle[s]
            below[s] = 1.0 if pivots[s] <= SMALLEST else 0.0
        for i in range(1, n):
            for s in range(m):
                last = pivots[s] if abs(pivots[s]) > SMALLEST else -SMALLEST
                pivots[s] = diagonal[i] - middle[s] - squares[i - 1] / last
                below[s] += 1.0 if pivots[s] <= SMALLEST else 0.0
        for s in range(m):
            if below[s] > n - m + s:
                upper[s] = middle[s]
            else:
                lower[s] = middle[s]
    for s in range(m):
        values[s] = (lower[s] + upper[s]) / 2


@compiled()
def nth_value(diagonal, squares, rank, low, high):
    """Return an approximation of the eigenvalue of such a matrix that has ``rank`` eigenvalues below it."""
    for _ in range(CHECK_BISECTIONS):
        middle = (low + high) / 2
        pivot, below = diagonal[0] - middle, 0
        below += pivot <= SMALLEST
        for i in range(1, diagonal.shape[0]):
            pivot = diagonal[i] - middle - squares[i - 1] / divisor(pivot)
            below += pivot <= SMALLEST
        if below > rank:
            high = middle
        else:
            low = middle
    return (low + high) / 2


@compiled()
def divisor(pivot):
    """Return a pivot, or -SMALLEST for one too small to divide by."""
    return pivot if abs(pivot) > SMALLEST else -SMALLEST


@compiled()
def write_vectors(diagonal, off_diagonal, values, vectors):
    """Write such a matrix's unit eigenvectors of given eigenvalues to the rows of ``vectors``."""
    for s in range(values.shape[0]):
        write_vector(diagonal, off_diagonal, values[s], vectors[s])


@compiled()
def write_vector(diagonal, off_diagonal, value, vector):
    """Write the unit eigenvector of an eigenvalue, which must be accurate to the last bits for an accurate vector.

    The pivots from either end give the position of its largest entry; the others are computed from there towards both
    ends, so that errors do not grow.
    """
    n = diagonal.shape[0]
    down, up = np.empty(n), np.empty(n)
    down[0], up[n - 1] = divisor(diagonal[0] - value), divisor(diagonal[n - 1] - value)
    for i in range(1, n):
        j = n - 1 - i
        down[i] = divisor(diagonal[i] - value - off_diagonal[i - 1] ** 2 / down[i - 1])
        up[j] = divisor(diagonal[j] - value - off_diagonal[j] ** 2 / up[j + 1])
    largest = np.abs(down + up - (diagonal - value)).argmin()
    vector[largest] = square = 1.0
    for i in range(largest - 1, -1, -1):
        vector[i] = -off_diagonal[i] / down[i] * vector[i + 1]
        square += vector[i] * vector[i]
    for i in range(largest + 1, n):
        vector[i] = -off_diagonal[i - 1] / up[i] * vector[i - 1]
        square += vector[i] * vector[i]
    vector /= np.sqrt(square)


@compiled(fastmath=FASTMATH)
def add_row_sums(triangle, sums):
    """Add the row sums of a symmetric matrix, given its lower triangle, to ``sums``."""
    for i in range(sums.shape[0]):
        row, total = triangle[i * (i + 1) // 2 :], 0.0
        for j in range(i):
            total += row[j]
            sums[j] += row[j]
        sums[i] += total + row[i]


@compiled()
def normalise(triangle, roots, constant, found):
    """Write D^(-1/2) G D^(-1/2) - c c^T, given the roots of 1 / D and a vector c, to ``found``: in one pass.

    Fastmath is off: reordered, the product of the two roots could overflow.
    """
    for i in range(roots.shape[0]):
        start = i * (i + 1) // 2
        for j in range(i + 1):
            found[start + j] = triangle[start + j] * roots[i] * roots[j] - constant[i] * constant[j]


@compiled(fastmath=FASTMATH)
def count_nonzeros(triangle):
    """Return the number of nonzeros."""
    count = 0
    for e in range(triangle.shape[0]):
        count += triangle[e] != 0
    return count


@compiled()
def normalise_nonzeros(triangle, roots, values, columns, starts):
    """Write the nonzeros of D^(-1/2) G D^(-1/2), given the roots of 1 / D, as a sparse lower triangle.

    The diagonal is halved, because products use every stored entry twice: as (i, j) and as (j, i).
    """
    count = 0
    for i in range(roots.shape[0]):
        starts[i] = count
        row = triangle[i * (i + 1) // 2 :]
        for j in range(i + 1):
            if row[j] != 0:
                values[count], columns[count] = row[j] * roots[i] * roots[j] * (0.5 if i == j else 1.0), j
                count += 1
    starts[roots.shape[0]] = count


@compiled()
def label_components(columns, starts, components):
    """Write the connected component of every landmark to ``components``, and return the number of components."""
    count = 0
    for i in range(components.shape[0]):
        components[i] = i
        for e in range(starts[i], starts[i + 1]):
            first, second = root_of(components, i), root_of(components, np.int64(columns[e]))
            components[max(first, second)] = min(first, second)
    for i in range(components.shape[0]):  # a root is the first of its component
        if components[i] == i:
            components[i] = -count - 1
            count += 1
        else:
            components[i] = components[components[i]]
    for i in range(components.shape[0]):
        components[i] = -components[i] - 1
    return count


@compiled()
def root_of(components, i):
    """Return the landmark that represents another one's component, and shorten the path to it."""
    while components[i] != i:
        components[i] = components[components[i]]
        i = components[i]
    return i


@compiled()
def fill_from_nonzeros(values, columns, starts, constant, whole):
    """Write the whole of a matrix given by its nonzeros, less c c^T."""
    for i in range(len(whole)):
        for j in range(len(whole)):
            whole[i, j] = -constant[i] * constant[j]
    for i in range(len(whole)):
        for e in range(starts[i], starts[i + 1]):
            whole[i, columns[e]] += values[e]
            whole[columns[e], i] += values[e]


@compiled()
def multiply(lower, vector, image):
    """Write the product of a symmetric matrix, given as its ``LowerTriangle``, with a vector to ``image``."""
    if len(lower.starts):  # not the nonzeros: a graph may have none
        multiply_nonzeros(lower.values, lower.columns, lower.starts, vector, image)
        subtract_constants(lower.constant, lower.components, lower.shares, vector, image)
    else:
        multiply_triangle(lower.values, vector, image)


@compiled(fastmath=FASTMATH)
def multiply_nonzeros(values, columns, starts, vector, image):
    """Write the product of a matrix, given by its nonzeros, with a vector to ``image``: each is read once."""
    image[:] = 0
    for i in range(vector.shape[0]):
        own, total = vector[i], vector[i] * 0
        for e in range(starts[i], starts[i + 1]):
            column, value = columns[e], values[e]
            total += value * vector[column]
            image[column] += value * own
        image[i] += total


@compiled()
def subtract_constants(constant, components, shares, vector, image):
    """Subtract from ``image`` the projections of ``vector`` on the parts of c in the components."""
    overlaps = np.zeros_like(shares)
    for i in range(vector.shape[0]):
        overlaps[components[i]] += constant[i] * vector[i]
    for t in range(shares.shape[0]):
        overlaps[t] = overlaps[t] / shares[t] if shares[t] > 0 else 0.0
    for i in range(vector.shape[0]):
        image[i] -= constant[i] * overlaps[components[i]]


@compiled(fastmath=FASTMATH)
def multiply_triangle(triangle, vector, image):
    """Write the product of a symmetric matrix with a vector to ``image``: four rows at once, each read once."""
    n = vector.shape[0]
    image[:] = 0
    for i in range(0, n - 3, 4):
        starts = i * (i + 1) // 2, (i + 1) * (i + 2) // 2, (i + 2) * (i + 3) // 2, (i + 3) * (i + 4) // 2
        row_1, row_2 = triangle[starts[0] : starts[0] + i], triangle[starts[1] : starts[1] + i]
        row_3, row_4 = triangle[starts[2] : starts[2] + i], triangle[starts[3] : starts[3] + i]
        own_1, own_2, own_3, own_4 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        sum_1 = sum_2 = sum_3 = sum_4 = own_1 * 0
        for j in range(i):
            value = vector[j]
            sum_1 += row_1[j] * value
            sum_2 += row_2[j] * value
            sum_3 += row_3[j] * value
            sum_4 += row_4[j] * value
            image[j] += row_1[j] * own_1 + row_2[j] * own_2 + row_3[j] * own_3 + row_4[j] * own_4
        image[i] += sum_1
        image[i + 1] += sum_2
        image[i + 2] += sum_3
        image[i + 3] += sum_4
        for below in range(1, 4):
            for j in range(i, i + below):
                value = triangle[starts[below] + j]
                image[i + below] += value * vector[j]
                image[j] += value * vector[i + below]
    for i in range(n // 4 * 4, n):
        row, own = triangle[i * (i + 1) // 2 :], vector[i]
        total = own * 0
        for j in range(i):
            total += row[j] * vector[j]
            image[j] += row[j] * own
        image[i] += total
    for i in range(n):
        image[i] += triangle[i * (i + 3) // 2] * vector[i]


@compiled()
def search_krylov(lower, basis, diagonal, off_diagonal, done, first_check, count, tolerance):
    """Continue Lanczos' method after ``done`` iterations until the ``count`` largest eigenpairs seem to have converged.

    The smallest of them usually converges last. Returns the number of iterations once its residual, the norm of
    M v - lambda v, is within ``tolerance`` or ``diagonal`` is full; 0 where the space is invariant.
    """
    most = diagonal.shape[0]
    while done < most:
        before, done = done, min(max(first_check, int(done * STEPS_GROWTH) + 1), most)
        if extend_krylov(lower, basis, diagonal, off_diagonal, before, done) <= done:
            return 0
        own, next_to = diagonal[:done], off_diagonal[: done - 1]
        bound = np.abs(own).max() + 2 * next_to.max()
        vector = np.empty(done)
        write_vector(own, next_to, nth_value(own, next_to**2, done - count, -bound, bound), vector)
        if off_diagonal[done - 1] * abs(vector[-1]) <= tolerance:
            break
    return done


@compiled(fastmath=FASTMATH)
def extend_krylov(lower, basis, diagonal, off_diagonal, first, last):
    """Add rows ``first + 1`` to ``last`` to an orthonormal Krylov basis, and return its number of rows.

    M q_j = off_diagonal[j - 1] q_(j-1) + diagonal[j] q_j + off_diagonal[j] q_(j+1), where q_j are the rows of
    ``basis``. Each new row is made orthogonal to all rows before it, because rounding errors would grow otherwise.
    Stops early where the space is invariant.
    """
    image = np.empty(basis.shape[1], dtype=basis.dtype)
    for j in range(first, last):
        multiply(lower, basis[j], image)
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
        off_diagonal[j] = np.sqrt(square)
        if off_diagonal[j] < INVARIANT:
            return j + 1
        for c in range(image.shape[0]):
            basis[j + 1, c] = image[c] / off_diagonal[j]
    return last + 1

"""The CPU's kernels for groups of rows, in numba: nearest centroids, label votes of neighbours, and sums.

As in :mod:`coterie.kernels._numba`, every function works on one block of rows, in one thread.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels import ALONE
from coterie.kernels._compiling import FASTMATH, compiled
from coterie.kernels._vectors import add_rows, add_square_gaps

ROUNDING = 1e-5  # error of float32 products, as a share of squared lengths


@compiled(fastmath=FASTMATH)
def assign(embedding, columns, k, labels, nearest, second):
    """Write each row's nearest centroid to ``labels``, and the squared distances to the two nearest ones.

    ``columns`` are the k centroids as columns, padded with columns of zeros like ``bases`` in ``_numba.project``.
    """
    width = columns.shape[1]
    squares = np.empty(width, dtype=columns.dtype)
    for i in range(embedding.shape[0]):
        squares[:] = 0
        add_square_gaps(embedding[i], columns, squares)
        best, runner_up, label = np.inf, np.inf, 0
        for c in range(k):
            value = squares[c]
            if value < best:
                best, runner_up, label = value, best, c
            elif value < runner_up:
                runner_up = value
        labels[i] = label
        nearest[i] = best
        second[i] = runner_up


@compiled(fastmath=FASTMATH)
def assign_from(products, rows, centroids, norms, labels, nearest, second):
    """Do what :func:`assign` does, given the rows' products with the centroids, and the centroids' squared lengths.

    Products only select the centroids that may be the two nearest ones; the distances to these are then computed
    directly. So a row's result does not depend on the rounding of its products, which are overwritten.
    """
    longest = norms.max()
    for i in range(rows.shape[0]):
        length = 0.0
        for t in range(rows.shape[1]):
            length += rows[i, t] * rows[i, t]
        best, runner_up = np.inf, np.inf
        for c in range(norms.shape[0]):
            products[i, c] = norms[c] - 2 * products[i, c]
            value = products[i, c]
            if value < best:
                best, runner_up = value, best
            elif value < runner_up:
                runner_up = value
        bound = runner_up + ROUNDING * (length + longest)
        best, runner_up, label = np.inf, np.inf, 0
        for c in range(norms.shape[0]):
            if products[i, c] <= bound:
                value = 0.0
                for t in range(rows.shape[1]):
                    gap = rows[i, t] - centroids[c, t]
                    value += gap * gap
                if value < best:
                    best, runner_up, label = value, best, c
                elif value < runner_up:
                    runner_up = value
        labels[i], nearest[i], second[i] = label, best, runner_up


@compiled()
def zero_rows(rows, zero):
    """Write to ``zero`` which rows are zero."""
    for i in range(rows.shape[0]):
        zero[i] = True
        for c in range(rows.shape[1]):
            if rows[i, c] != 0:
                zero[i] = False
                break


@compiled()
def confidence(nearest, second, zero, found):
    """Write 1 - d / d', given the squared distances to the two nearest centroids; 0 for rows of ``zero``."""
    for i in range(found.shape[0]):
        ratio = nearest[i] / second[i] if second[i] > 0 else 0.0
        found[i] = 0.0 if zero[i] else 1 - np.sqrt(ratio)


@compiled()
def nearest_start(products, norms, numbers, least, after):
    """Return the best trial of a greedy k-means++ step: the one that leaves the least sum of squared distances.

    ``products`` (n x trials) are those of all rows with the trial rows ``numbers``, ``norms`` the rows' squared
    lengths, and ``least`` the squared distances to the nearest start so far. These distances with the best trial as one
    more start are written to ``after``.
    """
    zero, two = products.dtype.type(0), products.dtype.type(2)  # Python numbers would promote everything to float64
    totals = np.zeros(len(numbers))
    for i in range(products.shape[0]):
        for t in range(products.shape[1]):
            totals[t] += min(least[i], max(norms[i] + norms[numbers[t]] - two * products[i, t], zero))
    best = totals.argmin()
    for i in range(products.shape[0]):
        after[i] = min(least[i], max(norms[i] + norms[numbers[best]] - two * products[i, best], zero))
    return best


@compiled()
def add_votes(indices, weights, first, last, labels, votes):
    """Add every row's weights, in columns ``first`` to ``last``, to its landmarks' ``votes`` for its label (p x k)."""
    for i in range(indices.shape[0]):
        for s in range(first, last):
            votes[indices[i, s], labels[i]] += weights[i, s]


@compiled(fastmath=FASTMATH)
def other_votes(indices, weights, first, last, labels, at_landmarks, totals, votes):
    """Add to every row's ``votes`` (b x k) the shares of labels among the *other* rows at its landmarks, weighted.

    The row's landmarks are those of columns ``first`` to ``last``. ``at_landmarks`` is padded with columns of zeros
    like ``bases`` in ``_numba.project``.
    """
    width = at_landmarks.shape[1]
    shares, row = np.empty(indices.shape[1]), np.empty(width)
    for i in range(indices.shape[0]):
        itself = 0.0
        for s in range(first, last):
            total, own = totals[indices[i, s]], np.float64(weights[i, s])
            others = total - own
            shares[s] = own / others if others > ALONE * total else 0.0
            itself += shares[s] * own
        row[:] = 0
        add_rows(indices[i], shares, first, last, at_landmarks, row)
        row[labels[i]] -= itself
        for label in range(votes.shape[1]):
            votes[i, label] += row[label]


@compiled()
def add_groups(rows, labels, sums, counts):
    """Add every row to its group's ``sums`` (groups x d) and ``counts``."""
    for i in range(rows.shape[0]):
        counts[labels[i]] += 1
        for c in range(rows.shape[1]):
            sums[labels[i], c] += rows[i, c]


@compiled()
def least_in_group(values, labels, slack, found):
    """Write to ``found`` the first member of each group whose value exceeds the group's least by at most that share."""
    least = np.full(found.shape[0], np.inf)
    for i in range(values.shape[0]):
        least[labels[i]] = min(least[labels[i]], values[i])
    for i in range(values.shape[0]):
        if found[labels[i]] < 0 and values[i] <= least[labels[i]] * (1 + slack):
            found[labels[i]] = i


@compiled(fastmath=FASTMATH)
def distance_to_group(rows, labels, means, distances):
    """Write each row's squared distance to its own group's mean to ``distances``."""
    for i in range(rows.shape[0]):
        total = 0.0
        for c in range(rows.shape[1]):
            gap = rows[i, c] - means[labels[i], c]
            total += gap * gap
        distances[i] = total


# A float as two integers: units of 2^-24, and the remainder in units of 2^-76. Fastmath must stay off here.
UNIT = 2.0**24
REST_BITS = 52
REST = 2.0**REST_BITS
REST_MASK = 2**REST_BITS - 1


@compiled()
def add_floats(values, units, rest):
    """Add an array of floats to exact sums."""
    for i in range(values.shape[0]):
        scaled = values[i] * UNIT
        whole = np.floor(scaled)
        more = rest[i] + np.int64(np.rint((scaled - whole) * REST))
        units[i] += np.int64(whole) + (more >> REST_BITS)
        rest[i] = more & REST_MASK


@compiled()
def add_sums(more_units, more_rest, units, rest):
    """Add exact sums to other exact sums, in place."""
    for i in range(units.shape[0]):
        more = rest[i] + more_rest[i]
        units[i] += more_units[i] + (more >> REST_BITS)
        rest[i] = more & REST_MASK

"""The CPU's kernels except products, in numba. :mod:`coterie.kernels.cpu` allocates the arrays that these write to.

Every function works on one block of rows, in one thread, without the GIL; several blocks are processed in parallel.
A row's result depends on that row alone, never on the other rows of its block. This makes prediction exact, and results
independent of the number of threads.

Neighbours of all graphs are stored side by side: graph g owns the columns ``bounds[g]:bounds[g + 1]`` of a block's
``indices`` and ``weights``. A row that lacks a graph's view has weight zero there.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels import LANES
from coterie.kernels._compiling import FASTMATH, compiled
from coterie.kernels._numba_columns import (  # noqa: F401  all loops are found in this module
    column_ends,
    column_mean_and_std,
    column_tails,
    row_sums,
)
from coterie.kernels._numba_groups import (  # noqa: F401
    add_floats,
    add_groups,
    add_sums,
    add_votes,
    assign,
    assign_from,
    confidence,
    distance_to_group,
    least_in_group,
    nearest_start,
    other_votes,
    zero_rows,
)
from coterie.kernels._numba_spectra import (  # noqa: F401
    add_row_sums,
    count_nonzeros,
    extend_krylov,
    fill_from_nonzeros,
    label_components,
    largest_values,
    multiply,
    normalise,
    normalise_nonzeros,
    search_krylov,
)
from coterie.kernels._vectors import WORD_BITS, add_rows, count_bits, first_bit, within


@compiled(fastmath=FASTMATH)
def level(data, center, scale, rows):
    """Write (x - center) * scale, column by column, of values of any type to ``rows``."""
    for i in range(data.shape[0]):
        for j in range(data.shape[1]):
            rows[i, j] = (data[i, j] - center[j]) * scale[j]


@compiled()
def finish_distances(products, row_norms, landmark_norms):
    """Turn products x.m into squared distances |x|^2 + |m|^2 - 2 x.m, in place, never below zero."""
    for i in range(products.shape[0]):
        finish_row(products[i], row_norms[i], landmark_norms)


@compiled()
def finish_row(products, row_norm, landmark_norms):
    """Do this for one row.

    Computed as (|x|^2 - x.m) + (|m|^2 - x.m): where x is near m both differences are exact, so their small sum is not
    lost to rounding. For the same reason, fastmath is off.
    """
    zero = products.dtype.type(0)  # a Python 0 would promote everything to float64
    for j in range(products.shape[0]):
        product = products[j]
        products[j] = max((row_norm - product) + (landmark_norms[j] - product), zero)


@compiled()
def impute_distances(distances, likeness, total):
    """Write squared distances over all views to ``total`` (b x p).

    ``distances`` (V x b x p) are infinite where a row or landmark lacks a view. Missing distances are imputed from the
    views that both have; ``likeness`` is the table of a :class:`coterie.method.likeness.Likeness`.
    """
    n_views, b, p = distances.shape
    zero, one = distances.dtype.type(0), distances.dtype.type(1)
    for i in range(b):
        for j in range(p):
            seen, evidence, certainty, expected, slope = zero, zero, one, zero, zero
            known = False
            for v in range(n_views):
                distance = distances[v, i, j]
                mean, loading = likeness[v, 0], likeness[v, 1]
                if np.isfinite(distance):
                    known = True
                    seen += distance
                    evidence += (distance - mean) * likeness[v, 2]
                    certainty += likeness[v, 3]
                else:
                    expected += mean
                    slope += loading
            # An imputed distance is never below zero.
            total[i, j] = seen + max(expected + slope * (evidence / certainty), zero) if known else np.inf


SQUARE = 32  # rows and columns of a tile that fits the cache
BISECTIONS = 60  # at most: no bound separates ties
TINY = 1e-30  # where doubling starts if the guess is 0


@compiled(fastmath=FASTMATH)
def count_within(values, bound):
    """Return how many values are at most ``bound``."""
    count = np.int32(0)
    for j in range(values.shape[0]):
        count += np.int32(values[j] <= bound)
    return count


@compiled(fastmath=FASTMATH)
def bound_of_smallest(values, q, guess):
    """Return a bound that at least q values, and not many more, do not exceed: counting is faster than sorting.

    Values are not negative. The search starts at ``guess``, or at the first finite value if that is infinite, doubles
    it while it is too small, and then bisects.
    """
    number = values.dtype.type
    low, high, middle = number(0), number(np.inf), guess if np.isfinite(guess) else first_finite(values)
    for _ in range(BISECTIONS):
        count = count_within(values, middle)
        if count < q:
            low = middle
        else:
            high = middle
            if count <= q + (q + 2 if q < 24 else q // 4):  # each surplus value costs about q steps of ranking
                break
        middle = low + (high - low) * number(0.5) if np.isfinite(high) else max(low, number(TINY)) * number(2)
    return high


@compiled()
def first_finite(values):
    """Return the first finite value; the last value if none is finite."""
    for j in range(values.shape[0]):
        if np.isfinite(values[j]):
            return values[j]
    return values[-1]


FOLDS = 8  # values in a group
# Folding pays where most groups hold none of the nearest landmarks.
GROUPS_PER_NEIGHBOUR = 3


@compiled(fastmath=FASTMATH)
def fold(values, n_groups, least):
    """Write the least value of every group to ``least``, followed by the values that are in no group.

    Members of a group lie ``n_groups`` apart, so that one instruction compares several groups.
    """
    for group in range(n_groups):
        smallest = values[group]
        for member in range(1, FOLDS):
            value = values[member * n_groups + group]
            smallest = value if value < smallest else smallest
        least[group] = smallest
    for j in range(FOLDS * n_groups, values.shape[0]):
        least[j - (FOLDS - 1) * n_groups] = values[j]


# Ranking takes quadratic time: with more candidates than this, the q nearest are selected first.
MOST_CANDIDATES = 8 * LANES
# This many set bits of a word are written without a branch, whether the word has as many or not.
USUAL_BITS = 4


@compiled(fastmath=FASTMATH)
def smallest(distances, row_norms, landmark_norms, scales, indices, values):
    """Write each row's q nearest landmarks, for every q of ``scales``, to ``indices`` and ``values``.

    ``distances`` (V x b x p) are summed over the views. With ``row_norms`` (b) they are the products of a single view,
    which are turned into distances in place: a row at a time, while it is in the cache. The columns of the scales lie
    side by side; within each scale neighbours are sorted by landmark, so that sums over them read memory in order.
    Among equal distances the first landmark wins. NaN distances sort last.

    Mispredicted branches would take most of the time. So an upper bound is found by counting, on the minima of groups;
    the candidates within it are found by comparing 64 values at once, and are ranked by counting again.
    """
    n_views, n, p = distances.shape
    q = scales.max()
    n_groups = p // FOLDS if p >= FOLDS * GROUPS_PER_NEIGHBOUR * q else 0
    least = np.empty(p - (FOLDS - 1) * n_groups, dtype=distances.dtype)
    near = np.empty(p + USUAL_BITS, dtype=np.int32)
    able = np.empty(p + LANES, dtype=distances.dtype)
    ranks = np.empty(p, dtype=np.int32)
    chosen = np.empty(p + 1, dtype=np.int32)
    total = np.empty(p if n_views > 1 else 0, dtype=distances.dtype)
    bound = distances.dtype.type(np.inf)
    for i in range(n):
        row = distances[0, i]
        if len(row_norms):
            finish_row(row, row_norms[i], landmark_norms)
        if n_views > 1:
            add_views(distances, i, total)
            row = total
        fold(row, n_groups, least)
        # The previous row's bound is the guess: a bad one costs time and changes no result.
        bound = bound_of_smallest(least, q, bound)
        n_near = find_within(row, bound, near)
        if n_near > MOST_CANDIDATES:
            n_near = first_candidates(row, near, n_near, q)
        if n_near < q:  # too many distances are NaN; the stage that computed them raises an error later
            near[:q] = np.arange(q)
            n_near = q
        rank_candidates(row, near, n_near, able, ranks)
        start = 0
        for scale in scales:
            n_chosen = 0
            for c in range(n_near):  # without a branch
                chosen[n_chosen] = c
                n_chosen += ranks[c] < scale
            for t in range(scale):
                c = chosen[t]
                indices[i, start + t], values[i, start + t] = near[c], able[c]
            start += scale


@compiled(fastmath=FASTMATH)
def add_views(distances, i, total):
    """Write the sum of row i over two views or more to ``total``."""
    for j in range(total.shape[0]):
        total[j] = distances[0, i, j] + distances[1, i, j]
    for v in range(2, distances.shape[0]):
        for j in range(total.shape[0]):
            total[j] += distances[v, i, j]


@compiled()
def find_within(row, bound, near):
    """Write the indices of the values up to ``bound`` to ``near``, ascending, and return their count."""
    p = row.shape[0]
    whole = p // WORD_BITS * WORD_BITS if p >= WORD_BITS else 0
    found = 0
    for start in range(0, whole, WORD_BITS):
        found = write_bits(within(row, start, bound), start, near, found)
    if 0 < whole < p:  # the last 64 values, less those that were compared before
        rest = within(row, p - WORD_BITS, bound) >> np.uint64(WORD_BITS - (p - whole))
        return write_bits(rest, whole, near, found)
    for j in range(whole, p):
        near[found] = j
        found += row[j] <= bound
    return found


@compiled()
def write_bits(word, start, near, found):
    """Write the positions of a word's set bits, counted from ``start``, to ``near[found:]``; return the new count."""
    left, at = word, found
    for _ in range(USUAL_BITS):  # without a branch: entries beyond the last set bit are overwritten later
        near[at] = start + np.int64(first_bit(left))
        left &= left - np.uint64(1)
        at += 1
    while left:
        near[at] = start + np.int64(first_bit(left))
        left &= left - np.uint64(1)
        at += 1
    return found + np.int64(count_bits(word))


@compiled(fastmath=FASTMATH)
def rank_candidates(row, near, n_near, able, ranks):
    """Write the candidates' distances to ``able``, and their ranks by distance to ``ranks``.

    Among equal distances the first candidate ranks first.
    """
    filled = -(-n_near // LANES) * LANES  # padded, so that the loop over t has no remainder
    for c in range(n_near):
        able[c] = row[near[c]]
    for c in range(n_near, filled):
        able[c] = np.inf
    total = 0
    for c in range(n_near):
        own, rank = able[c], np.int32(0)
        for t in range(filled):
            rank += np.int32(able[t] < own)
        ranks[c] = rank
        total += rank
    if total < n_near * (n_near - 1) // 2:  # there are ties
        for c in range(n_near):
            for t in range(c):
                ranks[c] += np.int32(able[t] == able[c])


@compiled()
def first_candidates(row, near, n_near, q):
    """Keep the q nearest candidates, in their order, and return their number."""
    order = np.empty(q, dtype=np.int32)  # positions in ``near``, ascending by distance
    for c in range(n_near):
        at = min(c, q)
        while at > 0 and row[near[c]] < row[near[order[at - 1]]]:
            if at < q:
                order[at] = order[at - 1]
            at -= 1
        if at < q:
            order[at] = c
    order.sort()
    for t in range(q):
        near[t] = near[order[t]]
    return q


@compiled()
def sort_neighbours(indices, weights):
    """Sort each row's neighbours by landmark, in place: sums over them then run through memory in order."""
    for i in range(indices.shape[0]):
        for s in range(1, indices.shape[1]):
            index, weight, at = indices[i, s], weights[i, s], s
            while at > 0 and indices[i, at - 1] > index:
                indices[i, at], weights[i, at] = indices[i, at - 1], weights[i, at - 1]
                at -= 1
            indices[i, at], weights[i, at] = index, weight


@compiled()
def mark_beyond(squares, columns, limits, beyond):
    """Write to ``beyond`` whether any finite value of each row is beyond the limit of its range of ``columns``."""
    for i in range(squares.shape[0]):
        for v in range(limits.shape[0]):
            for s in range(columns[v, 0], columns[v, 1]):
                if limits[v] < squares[i, s] < np.inf:
                    beyond[i] = True


@compiled()
def gaussian_exponents(squares, bounds, bandwidths):
    """Turn squared distances d^2 into -d^2 / 2 sigma^2 of the paper's Eq. (1), in place.

    ``bandwidths`` are the graphs' sigmas; 0 means the row's own sigma, the mean distance to its neighbours. The nearest
    squared distance is subtracted from all: normalised weights do not change by it, and a row far from every landmark
    does not lose all its weight to underflow. A neighbour at infinite distance gets no weight.
    """
    for i in range(squares.shape[0]):
        for g in range(bounds.shape[0] - 1):
            own = squares[i, bounds[g] : bounds[g + 1]]
            nearest, total_distance, known = np.inf, 0.0, 0
            for t in range(own.shape[0]):
                if np.isfinite(own[t]):
                    nearest = min(nearest, own[t])
                    total_distance += np.sqrt(own[t])
                    known += 1
            sigma = bandwidths[g] if bandwidths[g] > 0 or known == 0 else total_distance / known
            width = 2 * sigma * sigma  # zero also where sigma is too small to square
            slope = -1 / width if width > 0 else -np.inf
            for t in range(own.shape[0]):
                excess = own[t] - nearest
                own[t] = 0.0 if excess == 0 else excess * slope if np.isfinite(own[t]) else -np.inf


@compiled()
def unit_sums(weights, bounds):
    """Make every row's weights sum to one in each graph, in place; rows that lack the view keep their zeros."""
    for i in range(weights.shape[0]):
        for g in range(bounds.shape[0] - 1):
            total = 0.0
            for s in range(bounds[g], bounds[g + 1]):
                total += weights[i, s]
            if total > 0:
                for s in range(bounds[g], bounds[g + 1]):
                    weights[i, s] /= total


@compiled()
def gram(indices, weights, n_landmarks, total):
    """Add sum_i z_i z_i^T of one graph, its neighbours sorted, to ``total``: the lower triangle, row by row.

    Zero weights, of which guided rows have many, are skipped. Two rows of the triangle are updated at once, so that a
    neighbour is read once for both. Stops and returns False before the first row with a neighbour that is not one of
    ``n_landmarks``.
    """
    # Unsigned, so that numba does not check for negative indices, which count from the end.
    numbers, own = np.empty(indices.shape[1], dtype=np.uint32), np.empty(indices.shape[1])
    for i in range(indices.shape[0]):
        count = 0
        for s in range(indices.shape[1]):
            if not 0 <= indices[i, s] < n_landmarks:
                return False
            numbers[count], own[count] = indices[i, s], weights[i, s]
            count += weights[i, s] != 0
        for s in range(0, count - 1, 2):
            row, next_row = triangle_row(total, numbers[s]), triangle_row(total, numbers[s + 1])
            weight, next_weight = own[s], own[s + 1]
            for t in range(s + 1):
                column, other = numbers[t], own[t]
                row[column] += weight * other
                next_row[column] += next_weight * other
            next_row[numbers[s + 1]] += next_weight * next_weight
        if count % 2:
            row, weight = triangle_row(total, numbers[count - 1]), own[count - 1]
            for t in range(count):
                row[numbers[t]] += weight * own[t]
    return True


@compiled()
def triangle_row(triangle, number):
    """Return a lower triangle from the start of a row on."""
    number = np.int64(number)
    return triangle[number * (number + 1) // 2 :]


@compiled()
def fill_symmetric(triangle, whole):
    """Write a lower triangle to both halves of a symmetric matrix, tile by tile for the cache."""
    for top in range(0, len(whole), SQUARE):
        for left in range(0, top + 1, SQUARE):
            for i in range(top, min(top + SQUARE, len(whole))):
                start = i * (i + 1) // 2
                for j in range(left, min(left + SQUARE, i + 1)):
                    whole[i, j] = whole[j, i] = triangle[start + j]


@compiled()
def fill_triangle(whole, triangle):
    """Write a symmetric matrix's lower triangle to ``triangle``, row by row."""
    for i in range(len(whole)):
        start = i * (i + 1) // 2
        triangle[start : start + i + 1] = whole[i, : i + 1]


@compiled()
def select_landmarks(triangle, own, found):
    """Write the rows and columns ``own`` of a lower triangle to a smaller one."""
    for i in range(len(own)):
        start, first = i * (i + 1) // 2, own[i] * (own[i] + 1) // 2
        for j in range(i + 1):
            found[start + j] = triangle[first + own[j]]


@compiled(fastmath=FASTMATH)
def project(indices, weights, bounds, bases, unit, stacked):
    """Write [e^1_i .. e^G_i] to ``stacked`` (block x G r): e^g_i = sum_j z^g_ij W^g[j], of length one if ``unit``.

    ``bases`` (graphs x p x width) have columns of zeros from r on, because several columns are added at once.
    """
    n_graphs, _, width = bases.shape
    r = stacked.shape[1] // n_graphs
    row = np.empty(width, dtype=bases.dtype)
    for i in range(indices.shape[0]):
        for g in range(n_graphs):
            row[:] = 0
            add_rows(indices[i], weights[i], bounds[g], bounds[g + 1], bases[g], row)
            scale = inverse_length(row) if unit else row.dtype.type(1)
            for t in range(r):
                stacked[i, g * r + t] = row[t] * scale


@compiled(fastmath=FASTMATH)
def inverse_length(row):
    """Return one over a row's length; 1 for a row of zeros."""
    square = 0.0
    for t in range(row.shape[0]):
        square += row[t] * row[t]
    return row.dtype.type(1 / np.sqrt(square) if square > 0 else 1.0)


@compiled(fastmath=FASTMATH)
def add_powers(rows, squares, fourths):
    """Add sum_i e_i^2 and sum_i e_i^4 of every column."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            square = float(rows[i, c]) * float(rows[i, c])
            squares[c] += square
            fourths[c] += square * square


@compiled()
def known_graphs(weights, bounds, known):
    """Write 1 to ``known`` (block x G) where a row has neighbours in a graph, and 0 where it lacks the graph's view."""
    for i in range(weights.shape[0]):
        for g in range(bounds.shape[0] - 1):
            known[i, g] = 0
            for s in range(bounds[g], bounds[g + 1]):
                if weights[i, s] > 0:
                    known[i, g] = 1
                    break


@compiled(fastmath=FASTMATH)
def embed(indices, weights, bounds, merged, embedding):
    """Write u*_i = sum_g sum_j z^g_ij B^g[j] to ``embedding`` (block x k); ``merged`` is graphs x p x width."""
    n_graphs, _, width = merged.shape
    row = np.empty(width, dtype=merged.dtype)
    for i in range(indices.shape[0]):
        row[:] = 0
        for g in range(n_graphs):
            add_rows(indices[i], weights[i], bounds[g], bounds[g + 1], merged[g], row)
        for c in range(embedding.shape[1]):
            embedding[i, c] = row[c]


@compiled(fastmath=FASTMATH)
def guide(indices, weights, bounds, embedding, anchors, guided):
    """Write Z <- A* (Hadamard) Z, rows of each graph summing to one again, to ``guided`` (Algorithm 1, step 5).

    A*_ij = u*_i . anchor_j is clamped at zero. A row that would lose all its weight keeps its old weights.
    ``anchors`` (p x width) have columns of zeros from k on, so that no loop has a remainder.
    """
    width = anchors.shape[1]
    own = np.zeros(width, dtype=embedding.dtype)
    zero = own[0]
    for i in range(indices.shape[0]):
        for c in range(embedding.shape[1]):
            own[c] = embedding[i, c]
        for g in range(bounds.shape[0] - 1):
            total = 0.0
            for s in range(bounds[g], bounds[g + 1]):
                anchor, affinity = anchors[indices[i, s]], zero
                for c in range(width):
                    affinity += own[c] * anchor[c]
                guided[i, s] = weights[i, s] * max(affinity, zero)
                total += guided[i, s]
            for s in range(bounds[g], bounds[g + 1]):
                guided[i, s] = guided[i, s] / total if total > 0 else weights[i, s]


@compiled(fastmath=FASTMATH)
def unit_rows(embedding):
    """Divide every row by its length, in place; a row of zeros stays as it is."""
    for i in range(embedding.shape[0]):
        square = 0.0
        for c in range(embedding.shape[1]):
            square += embedding[i, c] * embedding[i, c]
        if square > 0:
            length = np.sqrt(square)
            for c in range(embedding.shape[1]):
                embedding[i, c] /= length

"""What a CPU does that is not a product, in numba. :mod:`coterie.kernels.cpu` makes the arrays that these write to.

Every function works on one block of rows, in one thread, without the interpreter's lock; the rooms above run
several blocks at once. A row's result depends on that row alone, never on its neighbours in the block:
that is what makes prediction exact and answers independent of the number of threads.

Neighbours of all graphs stand side by side: graph g owns the columns ``bounds[g]:bounds[g + 1]`` of a block's
``indices`` and ``weights``. A row that a graph does not know (its view is missing there) has weight zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Sums may be reordered for speed, but NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True, nogil=True, fastmath=FAST)
def level(data, center, scale, rows):
    """Write (x - center) * scale, column by column, of values of any type to ``rows``."""
    for i in range(data.shape[0]):
        for j in range(data.shape[1]):
            rows[i, j] = (data[i, j] - center[j]) * scale[j]


@njit(cache=True, nogil=True)
def finish_distances(products, row_norms, landmark_norms):
    """Turn products x.m into squared distances |x|^2 + |m|^2 - 2 x.m, in place, never below zero.

    Not in that order: where x is near to m both differences are exact, and their small sum shows no rounding. Hence
    nothing is reordered for speed here.
    """
    zero = products.dtype.type(0)  # a plain 0 would make float64 of everything
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            product = products[i, j]
            products[i, j] = max((row_norms[i] - product) + (landmark_norms[j] - product), zero)


@njit(cache=True, nogil=True)
def whole_distances(distances, likeness, total):
    """Write squared distances over all views to ``total`` (b x p): those of ``distances`` (V x b x p) that are finite,
    and what they let expect of the others; see :class:`coterie.likeness.Likeness`, whose table ``likeness`` is.
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
            # What is lacking is no distance below zero.
            total[i, j] = seen + max(expected + slope * (evidence / certainty), zero) if known else np.inf


BISECTIONS = 60
TINY = 1e-30


@njit(cache=True, nogil=True, fastmath=FAST)
def count_within(values, bound):
    """Return how many values are at most ``bound``."""
    count = np.int32(0)
    for j in range(values.shape[0]):
        count += np.int32(values[j] <= bound)
    return count


@njit(cache=True, nogil=True, fastmath=FAST)
def bound_of_smallest(values, q, guess):
    """Return a number that at least q values do not exceed, and not many more: counting is faster than sorting.

    Values are not negative. The search begins at ``guess``, goes up in twos and then halves what is left.
    """
    number = values.dtype.type
    low, high, middle = number(0), number(np.inf), guess
    for _ in range(BISECTIONS):
        count = count_within(values, middle)
        if count < q:
            low = middle
        else:
            high = middle
            if count <= q + (q + 2 if q < 24 else q // 4):  # what is too much must be sorted, at q steps each
                break
        middle = low + (high - low) * number(0.5) if np.isfinite(high) else max(low, number(TINY)) * number(2)
    return high


FOLDS = 8
# Worth it where most groups hold none of the nearest landmarks.
GROUPS_PER_NEIGHBOUR = 3


@njit(cache=True, nogil=True, fastmath=FAST)
def fold(values, n_groups, least):
    """Write the least value of every group to ``least``; what is left of the values stands behind them, unfolded.

    Members of a group lie ``n_groups`` apart, so that as many groups as the processor can hold are compared at once.
    """
    for group in range(n_groups):
        smallest = values[group]
        for member in range(1, FOLDS):
            value = values[member * n_groups + group]
            smallest = value if value < smallest else smallest
        least[group] = smallest
    for j in range(FOLDS * n_groups, values.shape[0]):
        least[j - (FOLDS - 1) * n_groups] = values[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def comes_before(value, number, other, other_number):
    """Return whether a landmark is nearer than another, or as near and has a lower number."""
    return value < other or (value == other and number < other_number)


@njit(cache=True, nogil=True, fastmath=FAST)
def smallest(distances, indices, values):
    """Write each row's nearest landmarks, in ascending order of distance, to ``indices`` and ``values``.

    Among equal distances the first landmark wins. Distances are first folded into groups of eight: only the members of
    few groups need be looked at one by one.
    """
    n, p = distances.shape
    q = indices.shape[1]
    n_groups = p // FOLDS if p >= FOLDS * GROUPS_PER_NEIGHBOUR * q else 0
    least = np.empty(p - (FOLDS - 1) * n_groups, dtype=distances.dtype)
    groups = np.empty(len(least) + 1, dtype=np.int32)
    near = np.empty(p + 1, dtype=np.int32)
    best = np.empty(q, dtype=distances.dtype)
    where = np.empty(q, dtype=np.int32)
    bound = distances[0, 0]  # rows are much like the row before: a wrong guess costs time, and changes nothing
    for i in range(n):
        row = distances[i]
        fold(row, n_groups, least)
        bound = bound_of_smallest(least, q, bound if np.isfinite(bound) else row[0])
        n_able = 0
        for group in range(least.shape[0]):  # without a branch, which could not be foretold
            groups[n_able] = group
            n_able += least[group] <= bound
        n_near = 0
        for able in range(n_able):
            group = groups[able]
            if group >= n_groups:
                near[n_near] = group + (FOLDS - 1) * n_groups
                n_near += 1
                continue
            for member in range(FOLDS):
                near[n_near] = member * n_groups + group
                n_near += row[member * n_groups + group] <= bound
        for found in range(n_near):
            j, at = near[found], min(found, q - 1)
            if found >= q and not comes_before(row[j], j, best[q - 1], where[q - 1]):
                continue
            while at > 0 and comes_before(row[j], j, best[at - 1], where[at - 1]):
                best[at], where[at] = best[at - 1], where[at - 1]
                at -= 1
            best[at], where[at] = row[j], j
        for t in range(q):
            values[i, t], indices[i, t] = best[t], where[t]


@njit(cache=True, nogil=True)
def sort_neighbours(indices, weights):
    """Put each row's neighbours in the order of the landmarks, in place: what they add to then lies side by side."""
    for i in range(indices.shape[0]):
        for s in range(1, indices.shape[1]):
            index, weight, at = indices[i, s], weights[i, s], s
            while at > 0 and indices[i, at - 1] > index:
                indices[i, at], weights[i, at] = indices[i, at - 1], weights[i, at - 1]
                at -= 1
            indices[i, at], weights[i, at] = index, weight


@njit(cache=True, nogil=True)
def gaussian(distances, bandwidth, weights):
    """Write exp(-d^2 / 2 sigma^2), made to sum to one in each row, to ``weights`` (the paper's Eq. (1)).

    ``bandwidth`` is sigma; 0 means the row's own: the mean distance to its neighbours. Distances are squared. They
    are measured from the nearest one, which changes nothing after the rows are made to sum to one, and keeps a row
    far from every landmark from losing all its weight to underflow. A neighbour at infinite distance gets no weight.
    """
    q = distances.shape[1]
    for i in range(distances.shape[0]):
        nearest = np.inf
        total_distance = 0.0
        known = 0
        for t in range(q):
            if np.isfinite(distances[i, t]):
                nearest = min(nearest, distances[i, t])
                total_distance += np.sqrt(distances[i, t])
                known += 1
        if known == 0:  # the row lacks this view
            weights[i, :] = 0
            continue
        sigma = bandwidth if bandwidth > 0 else total_distance / known
        width = 2 * sigma * sigma  # zero also where sigma is too small to square
        total = 0.0
        for t in range(q):
            excess = distances[i, t] - nearest
            if excess == 0:
                weight = 1.0
            elif width == 0:
                weight = 0.0
            else:
                weight = np.exp(-excess / width)
            weights[i, t] = weight
            total += weight
        for t in range(q):
            weights[i, t] /= total


@njit(cache=True, nogil=True)
def gram(indices, weights, total):
    """Add sum_i z_i z_i^T of one graph, its neighbours sorted, to ``total``: the lower triangle, row by row."""
    for i in range(indices.shape[0]):
        for s in range(indices.shape[1]):
            weight = float(weights[i, s])
            if weight == 0:
                continue
            j = np.int64(indices[i, s])
            row = total[j * (j + 1) // 2 :]
            for t in range(s + 1):
                row[indices[i, t]] += weight * weights[i, t]


@njit(cache=True, nogil=True)
def mirror(triangle, whole):
    """Write a lower triangle, row by row, to both halves of a matrix."""
    at = 0
    for i in range(whole.shape[0]):
        for j in range(i + 1):
            whole[i, j] = whole[j, i] = triangle[at]
            at += 1


@njit(cache=True, nogil=True, fastmath=FAST)
def project_graph(indices, weights, i, start, stop, basis, unit, out):
    """Write e_i = sum_j z_ij W[j] of row i in one graph to ``out`` (r,), of length one if ``unit``."""
    out[:] = 0
    fours = start + (stop - start) // 4 * 4
    for s in range(start, fours, 4):  # what is written is read again for every fourth neighbour only
        a, b, c, d = indices[i, s], indices[i, s + 1], indices[i, s + 2], indices[i, s + 3]
        at_a, at_b, at_c, at_d = basis[a], basis[b], basis[c], basis[d]
        of_a, of_b, of_c, of_d = weights[i, s], weights[i, s + 1], weights[i, s + 2], weights[i, s + 3]
        for t in range(out.shape[0]):
            out[t] += of_a * at_a[t] + of_b * at_b[t] + of_c * at_c[t] + of_d * at_d[t]
    for s in range(fours, stop):
        at_a, of_a = basis[indices[i, s]], weights[i, s]
        for t in range(out.shape[0]):
            out[t] += of_a * at_a[t]
    if unit:
        square = 0.0
        for t in range(out.shape[0]):
            square += out[t] * out[t]
        if square > 0:
            length = np.sqrt(square)
            for t in range(out.shape[0]):
                out[t] /= length


@njit(cache=True, nogil=True, fastmath=FAST)
def project(indices, weights, bounds, bases, unit, stacked):
    """Write [e^1_i .. e^G_i] to ``stacked`` (block x G r): every graph's own basis, side by side."""
    r = bases.shape[2]
    for i in range(indices.shape[0]):
        for g in range(bounds.shape[0] - 1):
            out = stacked[i, g * r : (g + 1) * r]
            project_graph(indices, weights, i, bounds[g], bounds[g + 1], bases[g], unit, out)


@njit(cache=True, nogil=True, fastmath=FAST)
def add_powers(rows, squares, fourths):
    """Add sum_i e_i^2 and sum_i e_i^4 of every column."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            square = float(rows[i, c]) * float(rows[i, c])
            squares[c] += square
            fourths[c] += square * square


@njit(cache=True, nogil=True)
def known_graphs(weights, bounds, known):
    """Write 1 to ``known`` (block x G) where a graph knows a row, and 0 where the row lacks its view."""
    for i in range(weights.shape[0]):
        for g in range(bounds.shape[0] - 1):
            known[i, g] = 0
            for s in range(bounds[g], bounds[g + 1]):
                if weights[i, s] > 0:
                    known[i, g] = 1
                    break


@njit(cache=True, nogil=True, fastmath=FAST)
def embed(indices, weights, bounds, merged, embedding):
    """Write u*_i = sum_g sum_j z^g_ij B^g[j] to ``embedding`` (block x k); ``merged`` is graphs x p x k."""
    k = embedding.shape[1]
    for i in range(indices.shape[0]):
        embedding[i, :] = 0
        for g in range(bounds.shape[0] - 1):
            for s in range(bounds[g], bounds[g + 1]):
                j = indices[i, s]
                weight = weights[i, s]
                for c in range(k):
                    embedding[i, c] += weight * merged[g, j, c]


@njit(cache=True, nogil=True, fastmath=FAST)
def guide(indices, weights, bounds, embedding, anchors, guided):
    """Write Z <- A* (Hadamard) Z, rows of each graph summing to one again, to ``guided`` (Algorithm 1, step 5).

    A*_ij = u*_i . anchor_j is clamped at zero. Where nothing would be left, the row keeps its weights.
    """
    k = anchors.shape[1]
    for i in range(indices.shape[0]):
        for g in range(bounds.shape[0] - 1):
            total = 0.0
            for s in range(bounds[g], bounds[g + 1]):
                j = indices[i, s]
                affinity = embedding[i, 0] * anchors[j, 0]
                for c in range(1, k):
                    affinity += embedding[i, c] * anchors[j, c]
                guided[i, s] = weights[i, s] * max(affinity, 0)
                total += guided[i, s]
            for s in range(bounds[g], bounds[g + 1]):
                if total > 0:
                    guided[i, s] /= total
                else:
                    guided[i, s] = weights[i, s]


@njit(cache=True, nogil=True, fastmath=FAST)
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


@njit(cache=True, nogil=True, fastmath=FAST)
def assign(embedding, centroids, labels, nearest, second):
    """Write each row's nearest centroid to ``labels``, and the squared distances to the two nearest ones."""
    for i in range(embedding.shape[0]):
        best, runner_up, label = np.inf, np.inf, 0
        for c in range(centroids.shape[0]):
            value = 0.0
            for t in range(centroids.shape[1]):
                gap = embedding[i, t] - centroids[c, t]
                value += gap * gap
            if value < best:
                best, runner_up, label = value, best, c
            elif value < runner_up:
                runner_up = value
        labels[i] = label
        nearest[i] = best
        second[i] = runner_up


@njit(cache=True, nogil=True)
def add_groups(rows, labels, sums, counts):
    """Add every row to its group's ``sums`` (groups x d) and ``counts``."""
    for i in range(rows.shape[0]):
        counts[labels[i]] += 1
        for c in range(rows.shape[1]):
            sums[labels[i], c] += rows[i, c]


@njit(cache=True, nogil=True, fastmath=FAST)
def distance_to_group(rows, labels, means, distances):
    """Write each row's squared distance to its own group's mean to ``distances``."""
    for i in range(rows.shape[0]):
        total = 0.0
        for c in range(rows.shape[1]):
            gap = rows[i, c] - means[labels[i], c]
            total += gap * gap
        distances[i] = total


# Floats as two whole numbers: units of 2^-24, and what is left in 2^-52 of a unit. Not a step here may be reordered.
UNIT = 2.0**24
REST_BITS = 52
REST = 2.0**REST_BITS
REST_MASK = 2**REST_BITS - 1


@njit(cache=True, nogil=True)
def add_exactly(values, units, rest):
    """Add floats to sums of whole numbers."""
    for i in range(values.shape[0]):
        scaled = values[i] * UNIT
        whole = np.floor(scaled)
        more = rest[i] + np.int64(np.rint((scaled - whole) * REST))
        units[i] += np.int64(whole) + (more >> REST_BITS)
        rest[i] = more & REST_MASK


@njit(cache=True, nogil=True)
def add_whole(more_units, more_rest, units, rest):
    """Add sums of whole numbers to others."""
    for i in range(units.shape[0]):
        more = rest[i] + more_rest[i]
        units[i] += more_units[i] + (more >> REST_BITS)
        rest[i] = more & REST_MASK

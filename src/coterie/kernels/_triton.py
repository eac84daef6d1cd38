"""Fused kernels for a GPU, in Triton. Only :mod:`coterie.kernels.torch` imports this module.

Sums that many threads add to are integers: the order of the additions does not matter, so neither the scheduler nor
the number of multiprocessors can change a result.

Neighbours are stored slot by slot (``stride`` apart), so that threads on adjacent rows read adjacent memory. Strides
are cast to 64 bits: in a block of 100 million rows, the 23rd slot begins beyond 2^31 numbers. Tables that are gathered
from have rows of R or K numbers, multiples of 16, so that four are read at a time; columns from R_OUT or K_OUT on are
zeros.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Sizes are not specialised: a kernel compiled for one number of rows or landmarks serves all of them.

# Sums of weights are integer multiples of 2^-34: exact for up to 2^29 rows of weight one.
FIXED_POINT = 2.0**34


# The key of an empty slot: larger than all others.
NOTHING = tl.constexpr(2**31 - 1)

# A float32 in [WHOLE, 2 WHOLE) is an integer: its bits count up by one from WHOLE_BITS.
WHOLE = tl.constexpr(2.0**23)
WHOLE_BITS = tl.constexpr(0x4B000000)

# Room at either end of [WHOLE, 2 WHOLE): by rounding, distances may be a little below zero or above the largest one.
MARGIN = tl.constexpr(2.0**14)


@triton.jit
def products_with(
    rows,
    landmarks,
    row,
    landmark,
    n,
    p,
    d,
    row_stride,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return the products x.m of a block's rows with some landmarks; BLOCK_D divides d."""
    products = tl.zeros([row.shape[0], landmark.shape[0]], tl.float32)
    for first in range(0, d, BLOCK_D):
        column = first + tl.arange(0, BLOCK_D)
        a = tl.load(
            rows + row[:, None] * row_stride + column[None, :],
            mask=(row < n)[:, None],
            other=0.0,
        )
        b = tl.load(
            landmarks + landmark[None, :] * d + column[:, None],
            mask=(landmark < p)[None, :],
            other=0.0,
        )
        products = tl.dot(a, b, products, input_precision=PRECISION)
    return products


@triton.jit
def merge_fours(a1, a2, a3, a4, b1, b2, b3, b4):
    """Return the four smallest of two ascending fours, ascending."""
    # The smaller ones of opposite slots are a bitonic sequence; two steps sort it.
    c1, c2, c3, c4 = tl.minimum(a1, b4), tl.minimum(a2, b3), tl.minimum(a3, b2), tl.minimum(a4, b1)
    d1, d3 = tl.minimum(c1, c3), tl.maximum(c1, c3)
    d2, d4 = tl.minimum(c2, c4), tl.maximum(c2, c4)
    return tl.minimum(d1, d2), tl.maximum(d1, d2), tl.minimum(d3, d4), tl.maximum(d3, d4)


@triton.jit(do_not_specialize=["n", "p", "q"])
def nearest_kernel(
    rows,  # (n, d)
    row_norms,  # (n,)
    landmarks,  # (p, d)
    landmark_norms,  # (p,)
    reach,  # (1,): the largest finite one of the landmarks' norms
    indices,  # (n, q), out
    squares,  # (n, q), out: |x - m|^2
    unsure,  # (n,), out: rows that may have nearer landmarks than those found, in no order
    n_unsure,  # (1,), out
    n,
    p,
    d,
    row_stride,
    q,
    WIDTH: tl.constexpr,
    BITS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write each row's q nearest landmarks. Product and selection are fused: the n x p distances never reach memory.

    Landmark j belongs to lane j mod WIDTH. Every lane keeps its four smallest distances, without branches and without
    exchange between lanes; the q nearest are then taken from the lanes' smallest. Where all four of a lane are taken, a
    fifth may be missing: such rows, a few in a thousand, are left to ``careful_nearest_kernel``.

    A key is an integer. Its upper bits are the distance in steps of 2^-22 (|x|^2 + max |m|^2), about the precision of
    float32; its lower BITS number the lane's landmarks. So no two keys of a lane are equal, and among equal distances
    the first landmark wins.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = row < n
    own = tl.load(row_norms + row, mask=inside, other=0.0)
    lacking = own == float("inf")
    own = tl.where(lacking, 0.0, own)
    span = 2 * (own + tl.load(reach))  # no landmark is farther away
    steps = (WHOLE - 2 * MARGIN) / tl.where(span > 0, span, 1.0)
    zero = own * steps + (WHOLE + MARGIN)
    k1 = tl.full([BLOCK_N, WIDTH], NOTHING, tl.int32)
    k2, k3, k4 = k1, k1, k1
    for start in range(0, p, BLOCK_P):
        landmark = start + tl.arange(0, BLOCK_P)
        products = products_with(rows, landmarks, row, landmark, n, p, d, row_stride, BLOCK_D, PRECISION)
        norms = tl.load(landmark_norms + landmark, mask=landmark < p, other=float("inf"))
        known = norms < float("inf")
        counted = (tl.where(known, norms, 0.0)[None, :] - 2 * products) * steps[:, None] + zero[:, None]
        keys = ((counted.to(tl.int32, bitcast=True) - WHOLE_BITS) << BITS) + (landmark // WIDTH)[None, :]
        keys = tl.where(known[None, :], keys, NOTHING)
        # Pairs are merged first, then fours: fewer steps than inserting one landmark after the other.
        n1 = tl.reshape(keys, [BLOCK_N, BLOCK_P // WIDTH // 2, 2, WIDTH])
        n2 = tl.full([BLOCK_N, BLOCK_P // WIDTH // 2, 2, WIDTH], NOTHING, tl.int32)
        n1, n2, n3, n4 = tl.reduce((n1, n2, n2, n2), 2, merge_fours)
        n1, n2, n3, n4 = tl.reduce((n1, n2, n3, n4), 1, merge_fours)
        k1, k2, k3, k4 = merge_fours(k1, k2, k3, k4, n1, n2, n3, n4)
    lane = tl.arange(0, WIDTH)
    for slot in range(q):
        least = tl.min(k1, axis=1)
        at = tl.min(tl.where(k1 == least[:, None], lane[None, :], WIDTH), axis=1)
        taken = lane[None, :] == at[:, None]
        k1, k2, k3 = tl.where(taken, k2, k1), tl.where(taken, k3, k2), tl.where(taken, k4, k3)
        k4 = tl.where(taken, -1, k4)
        found = least < NOTHING
        number = (least & ((1 << BITS) - 1)) * WIDTH + at
        square = tl.maximum((least >> BITS).to(tl.float32) - MARGIN, 0.0) / steps
        square = tl.where(found & (lacking == 0), square, float("inf"))
        tl.store(indices + row * q + slot, tl.where(found, number, 0).to(indices.dtype.element_ty), mask=inside)
        tl.store(squares + row * q + slot, square, mask=inside)
    lost = (tl.min(k1, axis=1) < 0) & inside
    place = tl.atomic_add(n_unsure + tl.zeros([BLOCK_N], tl.int32), 1, mask=lost, sem="relaxed")
    tl.store(unsure + place, row.to(tl.int32), mask=lost)


@triton.jit(do_not_specialize=["n", "p", "q"])
def careful_nearest_kernel(
    rows,  # (n, d)
    row_norms,  # (n,)
    landmarks,  # (p, d)
    landmark_norms,  # (p,)
    indices,  # (n, q), out
    squares,  # (n, q), out: |x - m|^2
    asked,  # rows to search, if LISTED
    n_asked,  # (1,), if LISTED
    n,
    p,
    d,
    row_stride,
    q,
    LISTED: tl.constexpr,
    Q: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Write the same for any q and p: take a tile's nearest landmark as long as it is among some row's q nearest."""
    slot = tl.arange(0, Q)
    number = tl.arange(0, BLOCK_P)
    n_rows = tl.load(n_asked) if LISTED else n
    for block in range(tl.program_id(0), tl.cdiv(n_rows, BLOCK_N), tl.num_programs(0)):
        row = tl.cast(block, tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = row < n_rows
        if LISTED:
            row = tl.load(asked + row, mask=inside, other=0).to(tl.int64)
        # Slots from q on hold minus infinity, which no distance is below: they are never filled.
        best = tl.where((slot < q)[None, :], float("inf"), float("-inf")) + tl.zeros([BLOCK_N, Q], tl.float32)
        where = tl.zeros([BLOCK_N, Q], tl.int32)
        for start in range(0, p, BLOCK_P):
            landmark = start + number
            products = products_with(rows, landmarks, row, landmark, n, p, d, row_stride, BLOCK_D, PRECISION)
            norms = tl.load(landmark_norms + landmark, mask=landmark < p, other=float("inf"))
            values = norms[None, :] - 2 * products
            worst = tl.max(best, axis=1)
            offer, at = tl.min(values, axis=1, return_indices=True)  # (BLOCK_N,)
            while tl.max((offer < worst).to(tl.int32), axis=0) > 0:
                _, loser = tl.max(best, axis=1, return_indices=True)
                hit = (offer < worst)[:, None] & (slot[None, :] == loser[:, None])
                best = tl.where(hit, offer[:, None], best)
                where = tl.where(hit, (start + at)[:, None], where)
                worst = tl.max(best, axis=1)
                values = tl.where(number[None, :] == at[:, None], float("inf"), values)
                offer, at = tl.min(values, axis=1, return_indices=True)
        own = tl.load(row_norms + row, mask=inside, other=0.0)
        wanted = inside[:, None] & (slot < q)[None, :]
        target = row[:, None] * q + slot[None, :]
        tl.store(indices + target, where.to(indices.dtype.element_ty), mask=wanted)
        tl.store(squares + target, tl.maximum(best + own[:, None], 0.0), mask=wanted)


@triton.jit(do_not_specialize=["n", "p"])
def gram_kernel(indices, weights, bounds, total, n, p, stride, SCALE: tl.constexpr, BLOCK_N: tl.constexpr):
    """Add sum_i z_i z_i^T of each graph to ``total`` (G x p x p, integers in units of 1 / SCALE), lower triangles only.

    Programs are (blocks of rows, G).
    """
    row, stride = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N), tl.cast(stride, tl.int64)
    inside, graph = row < n, tl.program_id(1)
    start, stop = tl.load(bounds + graph), tl.load(bounds + graph + 1)
    total += graph.to(tl.int64) * p * p
    for s in range(start, stop):
        a = tl.load(indices + row + s * stride, mask=inside, other=0).to(tl.int64)
        one = tl.load(weights + row + s * stride, mask=inside, other=0.0).to(tl.float64) * SCALE
        for t in range(start, s + 1):
            b = tl.load(indices + row + t * stride, mask=inside, other=0).to(tl.int64)
            other = tl.load(weights + row + t * stride, mask=inside, other=0.0).to(tl.float64)
            product = (one * other).to(tl.int64)
            place = tl.maximum(a, b) * p + tl.minimum(a, b)
            tl.atomic_add(total + place, product, mask=inside & (product != 0), sem="relaxed")


@triton.jit(do_not_specialize=["n"])
def gaussian_kernel(squares, bounds, bandwidths, n, stride, row_stride, BLOCK_N: tl.constexpr, TINY: tl.constexpr):
    """Turn squared distances into exp(-d^2 / 2 sigma^2), each graph's summing to one (the paper's Eq. (1)), in place.

    A bandwidth of 0 means the row's own mean distance. Programs are (blocks of rows, G).
    """
    row, stride = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N), tl.cast(stride, tl.int64)
    inside, graph = row < n, tl.program_id(1)
    start, stop = tl.load(bounds + graph), tl.load(bounds + graph + 1)
    squares += row * row_stride
    least = tl.full([BLOCK_N], float("inf"), tl.float32)
    distances, known = tl.zeros([BLOCK_N], tl.float32), tl.zeros([BLOCK_N], tl.float32)
    for s in range(start, stop):
        square = tl.load(squares + s * stride, mask=inside, other=float("inf"))
        least = tl.minimum(least, square)
        distances += tl.where(square < float("inf"), tl.sqrt(square), 0.0)
        known += (square < float("inf")).to(tl.float32)
    sigma = distances / tl.maximum(known, 1.0)
    given = tl.load(bandwidths + graph)
    sigma = tl.where(given > 0, given, sigma)
    spread = tl.maximum(2 * sigma * sigma, TINY)  # not 0: a row at distance 0 from all its landmarks gets equal weights
    total = tl.zeros([BLOCK_N], tl.float32)
    for s in range(start, stop):
        square = tl.load(squares + s * stride, mask=inside, other=float("inf"))
        weight = tl.where(square < float("inf"), tl.exp((least - square) / spread), 0.0)
        total += weight
        tl.store(squares + s * stride, weight, mask=inside)
    for s in range(start, stop):
        weight = tl.load(squares + s * stride, mask=inside, other=0.0)
        tl.store(squares + s * stride, weight / tl.maximum(total, TINY), mask=inside)


@triton.jit
def project_row(indices, weights, row, inside, start, stop, stride, basis, column, R, UNIT: tl.constexpr):
    """Return e_i = sum_j z_ij W[j] of a block's rows in one graph, of length one if UNIT."""
    place = tl.zeros([row.shape[0], column.shape[0]], tl.float32)
    for s in range(start, stop):
        landmark = tl.load(indices + row + s * stride, mask=inside, other=0).to(tl.int64)
        weight = tl.load(weights + row + s * stride, mask=inside, other=0.0)
        at = tl.load(basis + landmark[:, None] * R + column[None, :], mask=(column < R)[None, :], other=0.0)
        place += weight[:, None] * at
    if UNIT:
        square = tl.sum(place * place, axis=1)
        place = place * tl.where(square > 0, 1 / tl.sqrt(tl.where(square > 0, square, 1.0)), 0.0)[:, None]
    return place


@triton.jit(do_not_specialize=["n", "p", "G", "R_OUT"])
def project_kernel(
    indices,
    weights,
    bounds,
    bases,  # (G, p, R)
    stacked,  # (n, G R_OUT), out
    n,
    stride,
    p,
    R,
    R_OUT,
    G,
    UNIT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Write [e^1_i .. e^G_i] to ``stacked``."""
    row, stride = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N), tl.cast(stride, tl.int64)
    inside = row < n
    column = tl.arange(0, BLOCK_R)
    for g in range(G):
        start, stop = tl.load(bounds + g), tl.load(bounds + g + 1)
        place = project_row(indices, weights, row, inside, start, stop, stride, bases + g * p * R, column, R, UNIT)
        tl.store(
            stacked + row[:, None] * (G * R_OUT) + g * R_OUT + column[None, :],
            place,
            mask=inside[:, None] & (column < R_OUT)[None, :],
        )


@triton.jit(do_not_specialize=["n", "p", "G", "K_OUT"])
def embed_kernel(
    indices,
    weights,
    bounds,
    bases,  # (G, p, R): W^g, or B^g = W^g R^g where rows are not made unit in between
    rotation,  # (G, R, K); not read unless UNIT
    anchors,  # (p, K); not read unless GUIDE
    embedding,  # (n, K_OUT), out, unless GUIDE
    guided,  # (n, Q), out, if GUIDE
    n,
    stride,
    p,
    R,
    K,
    K_OUT,
    G,
    UNIT: tl.constexpr,
    GUIDE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Write u*_i, or the weights that it guides (Algorithm 1, step 5)."""
    row, stride = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N), tl.cast(stride, tl.int64)
    inside = row < n
    column = tl.arange(0, BLOCK_K)
    place = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    for g in range(G):
        start, stop = tl.load(bounds + g), tl.load(bounds + g + 1)
        basis = bases + g * p * R
        if UNIT:
            vector = tl.arange(0, BLOCK_R)
            own = project_row(indices, weights, row, inside, start, stop, stride, basis, vector, R, True)
            turn = tl.load(
                rotation + g * R * K + vector[:, None] * K + column[None, :],
                mask=(vector < R)[:, None] & (column < K)[None, :],
                other=0.0,
            )
            place = tl.dot(own, turn, place, input_precision="ieee")
        else:
            place += project_row(indices, weights, row, inside, start, stop, stride, basis, column, R, False)
    if GUIDE:
        for g in range(G):
            start, stop = tl.load(bounds + g), tl.load(bounds + g + 1)
            total = tl.zeros([BLOCK_N], tl.float32)
            for s in range(start, stop):
                landmark = tl.load(indices + row + s * stride, mask=inside, other=0).to(tl.int64)
                weight = tl.load(weights + row + s * stride, mask=inside, other=0.0)
                anchor = tl.load(
                    anchors + landmark[:, None] * K + column[None, :], mask=(column < K)[None, :], other=0.0
                )
                weight = weight * tl.maximum(tl.sum(place * anchor, axis=1), 0.0)
                total += weight
                tl.store(guided + row + s * stride, weight, mask=inside)
            for s in range(start, stop):
                weight = tl.load(guided + row + s * stride, mask=inside, other=0.0)
                before = tl.load(weights + row + s * stride, mask=inside, other=0.0)
                weight = tl.where(total > 0, weight / tl.where(total > 0, total, 1.0), before)
                tl.store(guided + row + s * stride, weight, mask=inside)
    else:
        wanted = inside[:, None] & (column < K_OUT)[None, :]
        tl.store(embedding + row[:, None] * K_OUT + column[None, :], place, mask=wanted)

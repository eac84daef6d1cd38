"""The kernels that a GPU needs fused, in Triton. Only :mod:`coterie.kernels.cuda` imports this module.

Sums over rows that many threads make at once are kept in whole numbers: their order does not matter, so neither the
scheduler nor the number of multiprocessors can change an answer.

Neighbours lie slot by slot (``stride`` apart): threads that work on rows next to each other read numbers next to each
other.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Sums of weights are kept as whole multiples of 2^-34: exact for up to 2^29 rows of weight one.
FIXED_POINT = 2.0**34


@triton.jit
def nearest_kernel(
    rows,  # (n, d)
    landmarks,  # (p, d)
    landmark_norms,  # (p,)
    indices,  # (n, Q), out
    values,  # (n, Q), out: |m|^2 - 2 x.m
    n,
    p,
    d,
    row_stride,
    q,
    Q: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PARTS: tl.constexpr,
    EVEN: tl.constexpr,  # whether BLOCK_D divides d
    PRECISION: tl.constexpr,
):
    """Product and selection in one: the n x p distances never reach memory."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    slot = tl.arange(0, Q)
    # Slots beyond q hold minus infinity: nothing is ever below it, so they are never filled.
    best = tl.where((slot < q)[None, :], float("inf"), float("-inf")) + tl.zeros([BLOCK_N, Q], tl.float32)
    where = tl.zeros([BLOCK_N, Q], tl.int32)
    WIDTH: tl.constexpr = BLOCK_P // PARTS
    part, number = tl.arange(0, PARTS), tl.arange(0, WIDTH)
    for start in range(0, p, BLOCK_P):
        landmark = start + tl.arange(0, BLOCK_P)
        products = tl.zeros([BLOCK_N, BLOCK_P], tl.float32)
        for first in range(0, d, BLOCK_D):
            column = first + tl.arange(0, BLOCK_D)
            a = tl.load(
                rows + row[:, None] * row_stride + column[None, :],
                mask=(row < n)[:, None] if EVEN else (row < n)[:, None] & (column < d)[None, :],
                other=0.0,
            )
            b = tl.load(
                landmarks + landmark[None, :] * d + column[:, None],
                mask=(landmark < p)[None, :] if EVEN else (landmark < p)[None, :] & (column < d)[:, None],
                other=0.0,
            )
            products = tl.dot(a, b, products, input_precision=PRECISION)
        norms = tl.load(landmark_norms + landmark, mask=landmark < p, other=float("inf"))
        # Every part of the tile offers its nearest landmark at once; what is not taken now never will be.
        distances = tl.reshape(norms[None, :] - 2 * products, [BLOCK_N, PARTS, WIDTH])
        worst = tl.max(best, axis=1)
        offers, at = tl.min(distances, axis=2, return_indices=True)  # (BLOCK_N, PARTS)
        while tl.max(tl.max((offers < worst[:, None]).to(tl.int32), axis=1), axis=0) > 0:
            for j in tl.static_range(PARTS):
                offer = tl.sum(tl.where((part == j)[None, :], offers, 0.0), axis=1)
                place = tl.sum(tl.where((part == j)[None, :], at, 0), axis=1)
                _, loser = tl.max(best, axis=1, return_indices=True)
                hit = (offer < worst)[:, None] & (slot[None, :] == loser[:, None])
                best = tl.where(hit, offer[:, None], best)
                where = tl.where(hit, (start + j * WIDTH + place)[:, None], where)
                worst = tl.max(best, axis=1)
            distances = tl.where(number[None, None, :] == at[:, :, None], float("inf"), distances)
            offers, at = tl.min(distances, axis=2, return_indices=True)
    inside = (row < n)[:, None] & (slot < q)[None, :]
    target = row[:, None] * q + slot[None, :]
    tl.store(indices + target, where.to(indices.dtype.element_ty), mask=inside)
    tl.store(values + target, best, mask=inside)


@triton.jit
def gram_kernel(indices, weights, total, n, p, stride, q, SCALE: tl.constexpr, BLOCK_N: tl.constexpr):
    """Add sum_i z_i z_i^T of one graph to ``total`` (p x p, whole multiples of 1 / SCALE), lower triangle only."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = row < n
    for s in range(q):
        a = tl.load(indices + row + s * stride, mask=inside, other=0).to(tl.int64)
        one = tl.load(weights + row + s * stride, mask=inside, other=0.0).to(tl.float64) * SCALE
        for t in range(s + 1):
            b = tl.load(indices + row + t * stride, mask=inside, other=0).to(tl.int64)
            other = tl.load(weights + row + t * stride, mask=inside, other=0.0).to(tl.float64)
            product = (one * other).to(tl.int64)
            place = tl.maximum(a, b) * p + tl.minimum(a, b)
            tl.atomic_add(total + place, product, mask=inside & (product != 0), sem="relaxed")


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


@triton.jit
def project_kernel(
    indices,
    weights,
    bounds,
    bases,
    stacked,
    n,
    stride,
    p,
    R,
    G,
    UNIT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Write [e^1_i .. e^G_i] to ``stacked``."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = row < n
    column = tl.arange(0, BLOCK_R)
    for g in range(G):
        start, stop = tl.load(bounds + g), tl.load(bounds + g + 1)
        place = project_row(indices, weights, row, inside, start, stop, stride, bases + g * p * R, column, R, UNIT)
        tl.store(
            stacked + row[:, None] * (G * R) + g * R + column[None, :],
            place,
            mask=inside[:, None] & (column < R)[None, :],
        )


@triton.jit
def embed_kernel(
    indices,
    weights,
    bounds,
    bases,  # (G, p, R): W^g, or B^g = W^g R^g where rows are not made unit in between
    rotation,  # (G, R, K); not looked at unless UNIT
    anchors,  # (p, K); not looked at unless GUIDE
    embedding,  # (n, K), out, unless GUIDE
    guided,  # (n, Q), out, if GUIDE
    n,
    stride,
    p,
    R,
    K,
    G,
    UNIT: tl.constexpr,
    GUIDE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Write u*_i, or the weights that it guides (Algorithm 1, step 5)."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
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
        tl.store(embedding + row[:, None] * K + column[None, :], place, mask=inside[:, None] & (column < K)[None, :])

"""k-means for a GPU, in Triton: one launch for all starts of a run, and one for each of its passes.

Rows of a run are (n, c), ``run_stride`` numbers apart from those of the next run: 0 where all runs have the same rows.
Sums over blocks of BLOCK_N rows are added up in the order of the blocks, so they do not depend on the GPU.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_rows(rows, row, n, column, c):
    """Return some rows, with zeros beyond the last one and beyond their columns."""
    wanted = (row < n)[:, None] & (column < c)[None, :]
    return tl.load(rows + row[:, None] * c + column[None, :], mask=wanted, other=0.0)


@triton.jit
def load_row(rows, number, column, c):
    """Return one row."""
    return tl.load(rows + number * c + column, mask=column < c, other=0.0)


@triton.jit(do_not_specialize=["n", "c", "run_stride", "count"])
def far_apart_kernel(
    rows,
    draws,  # (runs, count, trials)
    least,  # (runs, n): squared distances to the nearest start so far
    numbers,  # (runs, count), out
    n,
    c,
    run_stride,
    count,
    trials,
    BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """Write the rows at which a run of greedy k-means++ starts."""
    run = tl.program_id(0).to(tl.int64)
    rows, least = rows + run * run_stride, least + run * n
    draws, numbers = draws + run * count * trials, numbers + run * count
    column, trial = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_T)
    number = tl.minimum((tl.load(draws) * n).to(tl.int32), n - 1)
    tl.store(numbers, number.to(tl.int64))
    for step in range(1, count + 1):
        # Squared distances to the nearest start so far; before the first start they are infinite.
        chosen, total = load_row(rows, number, column, c), tl.zeros([], tl.float64)
        for first in range(0, n, BLOCK_N):
            row = first + tl.arange(0, BLOCK_N)
            apart = load_rows(rows, row, n, column, c) - chosen[None, :]
            gap = tl.sum(apart * apart, axis=1)
            before = tl.load(least + row, mask=(row < n) & (step > 1), other=float("inf"))
            gap = tl.where(row < n, tl.minimum(gap, before), 0.0)
            tl.store(least + row, gap, mask=row < n)
            total += tl.sum(gap.to(tl.float64))
        tl.debug_barrier()
        if step < count:
            number = best_trial(rows, draws + step * trials, least, total, n, c, trials, column, trial, BLOCK_N)
            tl.store(numbers + step, number.to(tl.int64))


@triton.jit
def best_trial(rows, draws, least, total, n, c, trials, column, trial, BLOCK_N: tl.constexpr):
    """Return the best of a few rows drawn in proportion to ``least``: the one that leaves the smallest sum of it."""
    wanted = tl.load(draws + trial, mask=trial < trials, other=0.0) * total  # (T,)
    below, seen = tl.zeros(wanted.shape, tl.int32), tl.zeros([], tl.float64)
    for first in range(0, n, BLOCK_N):
        row = first + tl.arange(0, BLOCK_N)
        gap = tl.load(least + row, mask=row < n, other=0.0).to(tl.float64)
        sums = seen + tl.cumsum(gap, axis=0)
        below += tl.sum(((sums[:, None] < wanted[None, :]) & (row < n)[:, None]).to(tl.int32), axis=0)
        seen += tl.sum(gap)
    drawn = tl.minimum(below, n - 1)  # (T,)
    tried = tl.load(
        rows + drawn[:, None] * c + column[None, :], mask=(trial < trials)[:, None] & (column < c)[None, :], other=0.0
    )
    lengths, left = tl.sum(tried * tried, axis=1), tl.zeros(wanted.shape, tl.float64)  # (T,), (T,)
    for first in range(0, n, BLOCK_N):
        row = first + tl.arange(0, BLOCK_N)
        own = load_rows(rows, row, n, column, c)
        products = tl.dot(own, tl.trans(tried), input_precision="tf32x3")  # (N, T)
        gaps = tl.maximum(tl.sum(own * own, axis=1)[:, None] + lengths[None, :] - 2 * products, 0.0)
        before = tl.load(least + row, mask=row < n, other=0.0)
        left += tl.sum(tl.minimum(gaps, before[:, None]).to(tl.float64), axis=0)
    best = tl.argmin(tl.where(trial < trials, left, float("inf")), axis=0)
    return tl.sum(tl.where(trial == best, drawn, 0), axis=0)


@triton.jit(do_not_specialize=["n", "c", "run_stride", "k", "blocks"])
def kmeans_kernel(
    rows,
    starts,  # (runs, k, c)
    centroids,  # (runs, k, c), out: those of this pass
    labels,  # (runs, n): each row's nearest centroid, before this pass and after it
    sums_before,  # (runs, blocks, K, C); this and the next three: of every block in the previous pass
    counts_before,  # (runs, blocks, K)
    farthest_before,  # (runs, blocks): the row farthest from its centroid,
    gaps_before,  # (runs, blocks): and its squared distance
    sums,  # the same, out: in this pass
    counts,
    farthest,
    gaps,
    inertias,  # (runs, blocks), out
    changes,  # (runs, blocks), out: labels that changed
    n,
    c,
    run_stride,
    k,
    blocks,
    FIRST: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Do one pass of k-means: every program computes the centroids from the previous pass's sums, and labels its rows.

    Programs are (blocks of rows, runs). An empty group restarts at the row farthest from its centroid.
    """
    block, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows, labels = rows + run * run_stride, labels + run * n
    column, group = tl.arange(0, BLOCK_C), tl.arange(0, BLOCK_K)
    cells, inside = group[:, None] * c + column[None, :], (group < k)[:, None] & (column < c)[None, :]
    summed = group[:, None] * BLOCK_C + column[None, :]
    if FIRST:
        means = tl.load(starts + run * k * c + cells, mask=inside, other=0.0)  # (K, C)
    else:
        total, members = tl.zeros([BLOCK_K, BLOCK_C], tl.float32), tl.zeros([BLOCK_K], tl.float32)
        far, most = 0, -1.0
        for b in range(blocks):
            own = run * blocks + b
            total += tl.load(sums_before + own * BLOCK_K * BLOCK_C + summed)
            members += tl.load(counts_before + own * BLOCK_K + group)
            gap = tl.load(gaps_before + own)
            far = tl.where(gap > most, tl.load(farthest_before + own), far)
            most = tl.maximum(gap, most)
        spread = tl.load(rows + far * c + column, mask=column < c, other=0.0)
        means = tl.where(members[:, None] > 0, total / tl.maximum(members, 1.0)[:, None], spread[None, :])
    if block == 0:
        tl.store(centroids + run * k * c + cells, means, mask=inside)
    lengths = tl.where(group < k, tl.sum(means * means, axis=1), float("inf"))  # (K,)
    row = block * BLOCK_N + tl.arange(0, BLOCK_N)
    there = row < n
    own_rows = load_rows(rows, row, n, column, c)  # (N, C)
    distances = lengths[None, :] - 2 * tl.dot(own_rows, tl.trans(means), input_precision="tf32x3")  # (N, K)
    least, nearest = tl.min(distances, axis=1, return_indices=True)
    gap = tl.where(there, tl.maximum(least + tl.sum(own_rows * own_rows, axis=1), 0.0), -1.0)
    is_member = ((nearest[:, None] == group[None, :]) & there[:, None]).to(tl.float32)  # (N, K)
    before = tl.load(labels + row, mask=there, other=0)
    own = run * blocks + block
    tl.store(labels + row, nearest, mask=there)
    tl.store(changes + own, tl.sum(((before != nearest) & there).to(tl.int32)))
    tl.store(sums + own * BLOCK_K * BLOCK_C + summed, tl.dot(tl.trans(is_member), own_rows, input_precision="tf32x3"))
    tl.store(counts + own * BLOCK_K + group, tl.sum(is_member, axis=0))
    tl.store(inertias + own, tl.sum(tl.maximum(gap, 0.0).to(tl.float64)))
    largest, at = tl.max(gap, axis=0, return_indices=True)
    tl.store(gaps + own, largest)
    tl.store(farthest + own, block * BLOCK_N + at)

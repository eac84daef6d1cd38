"""k-means on tensors, several runs at once.

Rows are (n, c), the same for all runs, or (runs, n, c). On a GPU, a pass over a sample takes less time than launching
its kernels, so a single Triton kernel does a whole pass. With too many groups or columns for it, a pass is made of as
few torch operations as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.kernels import to_tensor
from coterie.kernels._lapack import singular_vectors
from coterie.kernels._torch_groups import members_of

# Passes between two convergence checks of k-means: on a GPU the check takes longer than a pass.
PASSES_PER_CHECK = 5

# The Triton kernels take up to MOST_FUSED groups, trials and columns. In a pass, a program has PASS_ROWS rows. One
# program finds all starts of a run, in at most MOST_START_ROWS rows, of which it reads START_NUMBERS numbers at a time.
MOST_FUSED = 32
PASS_ROWS = 256
MOST_START_ROWS = 8192
START_NUMBERS = 16384


def kmeans_plus_plus(rows: Any, draws: Any) -> Any:
    """Return the numbers of the rows at which greedy k-means++ starts, given random numbers (runs x count x trials).

    See :func:`coterie.kernels.cpu.add_start`.
    """
    import torch

    if is_fused(rows, draws.shape[2]) and rows.shape[-2] <= MOST_START_ROWS:
        return far_apart_fused(rows, draws)
    last, gaps_to = rows.shape[-2] - 1, squared_gaps_between(rows, len(draws))
    first = (draws[:, 0, :1] * rows.shape[-2]).long().clamp_(max=last)  # (runs, 1)
    least = gaps_to(first)[:, 0].clamp_(min=0)  # (runs, n)
    zero, tried, won = least.new_zeros(()), [], []
    for own in draws.unbind(1)[1:]:  # (runs, trials)
        odds = least.cumsum(dim=1, dtype=torch.float64)  # (runs, n)
        trials = torch.searchsorted(odds, own * odds[:, -1:]).clamp_(max=last)  # (runs, trials)
        after = torch.clamp(gaps_to(trials), min=zero, max=least[:, None])  # (runs, trials, n)
        best = after.sum(dim=2).argmin(dim=1, keepdim=True)  # (runs, 1)
        least = after.gather(1, best[..., None].expand(-1, 1, last + 1))[:, 0]
        tried.append(trials)
        won.append(best)
    if not won:
        return first
    others = torch.stack(tried, dim=1).gather(2, torch.stack(won, dim=1))[..., 0]
    return torch.cat([first, others], dim=1)  # (runs, count)


def is_fused(rows: Any, count: int) -> bool:
    """Return whether rows are float32 on a GPU, with few enough columns and groups (or trials) for the kernels."""
    import torch

    return rows.is_cuda and rows.dtype == torch.float32 and max(count, rows.shape[-1]) <= MOST_FUSED


def laid_out(rows: Any) -> tuple[Any, int, int]:
    """Return rows as the kernels read them, the stride between two runs, and the columns of a program."""
    from coterie.kernels.torch import block_width

    rows = rows.contiguous()
    return rows, rows.stride(0) if rows.ndim == 3 else 0, block_width(rows.shape[-1])


def far_apart_fused(rows: Any, draws: Any) -> Any:
    """Return :func:`kmeans_plus_plus` by one launch."""
    import torch

    from coterie.kernels._triton_kmeans import far_apart_kernel
    from coterie.kernels.torch import block_width

    (runs, count, trials), (n, c) = draws.shape, rows.shape[-2:]
    rows, stride, width = laid_out(rows)
    least = torch.empty((runs, n), dtype=torch.float32, device=rows.device)
    numbers = torch.empty((runs, count), dtype=torch.int64, device=rows.device)
    far_apart_kernel[(runs,)](
        rows, draws.contiguous(), least, numbers, n, c, stride, count, trials,
        BLOCK_N=START_NUMBERS // width, BLOCK_C=width, BLOCK_T=block_width(trials), num_warps=16,
    )  # fmt: skip
    return numbers


def squared_gaps_between(rows: Any, n_runs: int) -> Any:
    """Return a function: numbers of rows (runs x trials) -> their squared distances to all rows (runs, trials, n).

    One product gives them, since |x - y|^2 = (x, |x|^2, 1) . (-2 y, 1, |y|^2). Some are below zero, by rounding.
    """
    import torch

    norms = (rows * rows).sum(dim=-1, keepdim=True)  # (..., n, 1)
    ones = torch.ones_like(norms)
    shape = (n_runs, *rows.shape[-2:-1], rows.shape[-1] + 2)
    to_all = torch.cat([rows, norms, ones], dim=-1).expand(shape).mT  # (runs, c + 2, n)
    chosen = torch.cat([-2 * rows, ones, norms], dim=-1).expand(shape)  # (runs, n, c + 2)
    return lambda numbers: chosen.gather(1, numbers[..., None].expand(-1, -1, shape[2])) @ to_all


def kmeans_runs(rows: Any, starts: Any, most_passes: int) -> tuple[Any, Any]:
    """Return the final centroids of runs of k-means (runs x k x c), and their inertias (runs,).

    Empty groups restart at the row farthest from its centroid.
    """
    import torch

    runs, k, c = starts.shape
    if is_fused(rows, k):
        return kmeans_fused(rows, starts, most_passes)
    norms, counted = (rows * rows).sum(dim=-1), counted_rows(rows, runs)  # (..., n), (runs, n, c + 1)
    rows, centroids = counted[..., :c], starts
    labels, gaps = nearest_centroids(rows, centroids)
    for number in range(1, most_passes + 1):
        centroids = move_centroids(counted, labels, gaps + norms, starts)
        before = labels
        labels, gaps = nearest_centroids(rows, centroids)
        if number % PASSES_PER_CHECK == 0 and torch.equal(labels, before):
            break
    return centroids, (gaps + norms).clamp_(min=0).sum(dim=1)


def kmeans_fused(rows: Any, starts: Any, most_passes: int) -> tuple[Any, Any]:
    """Return :func:`kmeans_runs` by one launch a pass."""
    import torch
    import triton

    from coterie.kernels._triton_kmeans import kmeans_kernel
    from coterie.kernels.torch import block_width

    (runs, k, c), n, device = starts.shape, rows.shape[-2], rows.device
    rows, stride, width = laid_out(rows)
    groups, blocks = block_width(k), triton.cdiv(n, PASS_ROWS)
    starts, centroids = starts.to(rows.dtype).contiguous(), torch.empty(starts.shape, dtype=rows.dtype, device=device)
    labels = torch.full((runs, n), -1, dtype=torch.int32, device=device)

    def empty(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.empty((runs, blocks, *shape), dtype=dtype, device=device)

    # Of this pass and of the previous one: sums, counts, the farthest row and its distance.
    before, now = ((empty(groups, width), empty(groups), empty(dtype=torch.int32), empty()) for _ in range(2))
    inertias, changes = empty(dtype=torch.float64), empty(dtype=torch.int32)
    for number in range(most_passes + 1):
        kmeans_kernel[(blocks, runs)](
            rows, starts, centroids, labels, *before, *now, inertias, changes, n, c, stride, k, blocks,
            FIRST=number == 0, BLOCK_N=PASS_ROWS, BLOCK_C=width, BLOCK_K=groups,
        )  # fmt: skip
        before, now = now, before
        if number and number % PASSES_PER_CHECK == 0 and not changes.any():
            break
    return centroids, inertias.sum(dim=1)


def counted_rows(rows: Any, n_runs: int, one: float = 1.0) -> Any:
    """Return the rows of several runs with an additional constant column, whose sums count rows."""
    import torch

    return torch.nn.functional.pad(rows, (0, 1), value=one).expand(n_runs, -1, -1)  # (runs, n, c + 1)


def nearest_centroids(rows: Any, centroids: Any) -> tuple[Any, Any]:
    """Return each row's nearest centroid (runs x n), and the squared distance to it less the row's squared norm."""
    import torch

    lengths = (centroids * centroids).sum(dim=2)[:, None]  # (runs, 1, k)
    least, labels = torch.baddbmm(lengths, rows, centroids.mT, alpha=-2).min(dim=2)  # (runs, n)
    return labels, least


def move_centroids(counted: Any, labels: Any, farness: Any, like: Any) -> Any:
    """Return the means of as many groups as in ``like``; empty groups restart at the row of the largest ``farness``."""
    import torch

    c = counted.shape[2] - 1
    sums = members_of(labels, like.shape[1]).to(like.dtype).mT @ counted  # (runs, k, c + 1)
    counts, farthest = sums[..., c:], farness.argmax(dim=1)[:, None, None].expand(-1, 1, c)
    return torch.where(counts > 0, sums[..., :c] / counts, counted.gather(1, farthest))  # (runs, k, c)


def qr_centroids(tables: Any, n_groups: int) -> Any:
    """Return the groups' means of the cluster-QR method for several tables (T x n x c).

    See :func:`coterie.method.assignment.qr_centroids`. Tables may be padded with columns of zeros.
    """
    rows = counted_rows(tables, len(tables), n_groups**-0.5)  # (T, n, c + 1)
    corners = pivoted_rows(rows, n_groups).mT  # (T, c + 1, k)
    turns = [left @ right for left, _, right in map(singular_vectors, corners.cpu().numpy())]  # T times (c + 1, k)
    closeness = (rows @ to_tensor(np.stack(turns), rows.device)).abs_()  # (T, n, k)
    most, labels = closeness.max(dim=2)  # (T, n)
    return move_centroids(counted_rows(tables, len(tables)), labels, -most, corners.mT)


def pivoted_rows(rows: Any, count: int) -> Any:
    """Return the rows that a QR decomposition with pivoting selects (T x count x c), in its order."""
    import torch

    left, tiny, chosen = rows.clone(), torch.finfo(rows.dtype).tiny, []
    for _ in range(count):
        length, at = torch.linalg.vector_norm(left, dim=2, keepdim=True).max(dim=1, keepdim=True)  # (T, 1, 1)
        chosen.append(at)
        own = left.gather(1, at.expand(-1, 1, rows.shape[2])).div_(length.clamp_(min=tiny))  # (T, 1, c)
        left.baddbmm_(left @ own.mT, own, alpha=-1)
    return rows.gather(1, torch.cat(chosen, dim=1).expand(-1, -1, rows.shape[2]))


def best_centroids(tables: Any, draws: np.ndarray, most_passes: int) -> Any:
    """Return the centroids of the best run of k-means of every table (T x n x c).

    One run starts from cluster-QR, the others from k-means++ with the random numbers ``draws`` (T, runs, k, trials).
    """
    import torch

    n_tables, n_runs, k, _ = draws.shape
    every = tables.repeat_interleave(n_runs, dim=0)  # (T runs, n, c)
    numbers = kmeans_plus_plus(every, to_tensor(draws, tables.device).flatten(0, 1))  # (T runs, k)
    spread = every.gather(1, numbers[..., None].expand(-1, -1, tables.shape[2])).unflatten(0, (n_tables, n_runs))
    starts = torch.cat([qr_centroids(tables, k)[:, None], spread], dim=1)  # (T, 1 + runs, k, c)
    again = tables.repeat_interleave(n_runs + 1, dim=0)
    ends, inertias = kmeans_runs(again, starts.flatten(0, 1), most_passes)
    best = inertias.unflatten(0, (n_tables, -1)).argmin(dim=1)  # (T,)
    at = best[:, None, None, None].expand(-1, 1, *starts.shape[2:])
    return ends.reshape(starts.shape).gather(1, at)[:, 0]  # (T, k, c)


def cluster_tables(tables: Sequence[Any], some: np.ndarray, draws: np.ndarray, most_passes: int) -> Any:
    """Return the clusters (T x n) of rows in several tables, by k-means on ``some`` of the rows.

    Tables may differ in width. ``some`` (T, m) are row numbers, and ``draws`` those of :func:`best_centroids`.
    """
    import torch

    width = max(table.shape[1] for table in tables)
    rows = torch.stack([torch.nn.functional.pad(table, (0, width - table.shape[1])) for table in tables])  # (T, n, c)
    chosen = to_tensor(some, rows.device)[..., None].expand(-1, -1, width)
    return nearest_centroids(rows, best_centroids(rows.gather(1, chosen), draws, most_passes))[0]

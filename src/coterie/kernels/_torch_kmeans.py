"""k-means on tensors, several runs at once. On a GPU it is nothing but launches, so every step takes as few as it can.

Rows are (n, c), the same for all runs, or (runs, n, c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.kernels._lapack import singular_vectors
from coterie.kernels._torch_groups import members_of

# Passes between two checks whether k-means has settled: on a GPU the check takes longer than a pass.
PASSES_PER_CHECK = 5


def far_apart(rows: Any, draws: Any) -> Any:
    """Return the rows at which runs of greedy k-means++ start, given random numbers (runs x count x trials).

    See :func:`coterie.kernels.cpu.add_start`.
    """
    import torch

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
    """Return the centroids at which runs of k-means end (runs x k x c), and their inertias (runs,).

    Empty groups restart at the row farthest from its centroid.
    """
    import torch

    runs, _, c = starts.shape
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


def counted_rows(rows: Any, n_runs: int, one: float = 1.0) -> Any:
    """Return the rows of several runs with one more, constant column: sums over it count rows."""
    import torch

    return torch.nn.functional.pad(rows, (0, 1), value=one).expand(n_runs, -1, -1)  # (runs, n, c + 1)


def nearest_centroids(rows: Any, centroids: Any) -> tuple[Any, Any]:
    """Return each row's nearest centroid (runs x n), and the squared distance to it less the row's own square."""
    import torch

    lengths = (centroids * centroids).sum(dim=2)[:, None]  # (runs, 1, k)
    least, labels = torch.baddbmm(lengths, rows, centroids.mT, alpha=-2).min(dim=2)  # (runs, n)
    return labels, least


def move_centroids(counted: Any, labels: Any, farness: Any, like: Any) -> Any:
    """Return the groups' means, as many as in ``like``; empty groups restart at the row that is farthest."""
    import torch

    c = counted.shape[2] - 1
    sums = members_of(labels, like.shape[1]).to(like.dtype).mT @ counted  # (runs, k, c + 1)
    counts, farthest = sums[..., c:], farness.argmax(dim=1)[:, None, None].expand(-1, 1, c)
    return torch.where(counts > 0, sums[..., :c] / counts, counted.gather(1, farthest))  # (runs, k, c)


def qr_centroids(tables: Any, n_groups: int) -> Any:
    """Return the groups' means of the cluster-QR method for several tables (T x n x c).

    See :func:`coterie.method.assignment.qr_centroids`. Columns of zeros change nothing.
    """
    import torch

    rows = counted_rows(tables, len(tables), n_groups**-0.5)  # (T, n, c + 1)
    corners = different_rows(rows, n_groups).mT  # (T, c + 1, k)
    turns = [left @ right for left, _, right in map(singular_vectors, corners.cpu().numpy())]  # T times (c + 1, k)
    closeness = (rows @ torch.as_tensor(np.stack(turns), device=rows.device)).abs_()  # (T, n, k)
    most, labels = closeness.max(dim=2)  # (T, n)
    return move_centroids(counted_rows(tables, len(tables)), labels, -most, corners.mT)


def different_rows(rows: Any, count: int) -> Any:
    """Return rows as different as possible (T x count x c): those of a pivoted QR, in its order."""
    import torch

    left, tiny, chosen = rows.clone(), torch.finfo(rows.dtype).tiny, []
    for _ in range(count):
        length, at = torch.linalg.vector_norm(left, dim=2, keepdim=True).max(dim=1, keepdim=True)  # (T, 1, 1)
        chosen.append(at)
        own = left.gather(1, at.expand(-1, 1, rows.shape[2])).div_(length.clamp_(min=tiny))  # (T, 1, c)
        left.baddbmm_(left @ own.mT, own, alpha=-1)
    return rows.gather(1, torch.cat(chosen, dim=1).expand(-1, -1, rows.shape[2]))


def best_centroids(tables: Any, draws: np.ndarray, most_passes: int) -> Any:
    """Return the centroids of the best run of k-means of every table (T x n x c): from cluster-QR, and by ``draws``.

    Those are of (T, runs, k, trials).
    """
    import torch

    n_tables, n_runs, k, _ = draws.shape
    every = tables.repeat_interleave(n_runs, dim=0)  # (T runs, n, c)
    numbers = far_apart(every, torch.as_tensor(draws, device=tables.device).flatten(0, 1))  # (T runs, k)
    spread = every.gather(1, numbers[..., None].expand(-1, -1, tables.shape[2])).unflatten(0, (n_tables, n_runs))
    starts = torch.cat([qr_centroids(tables, k)[:, None], spread], dim=1)  # (T, 1 + runs, k, c)
    again = tables.repeat_interleave(n_runs + 1, dim=0)
    ends, inertias = kmeans_runs(again, starts.flatten(0, 1), most_passes)
    best = inertias.unflatten(0, (n_tables, -1)).argmin(dim=1)  # (T,)
    at = best[:, None, None, None].expand(-1, 1, *starts.shape[2:])
    return ends.reshape(starts.shape).gather(1, at)[:, 0]  # (T, k, c)


def cut_tables(tables: Sequence[Any], some: np.ndarray, draws: np.ndarray, most_passes: int) -> Any:
    """Return the clusters (T x n) of rows in several tables of perhaps unequal width, by k-means on ``some`` of them.

    ``some`` are row numbers of (T, m), and ``draws`` those of :func:`best_centroids`.
    """
    import torch

    width = max(table.shape[1] for table in tables)
    rows = torch.stack([torch.nn.functional.pad(table, (0, width - table.shape[1])) for table in tables])  # (T, n, c)
    chosen = torch.as_tensor(some, device=rows.device)[..., None].expand(-1, -1, width)
    return nearest_centroids(rows, best_centroids(rows.gather(1, chosen), draws, most_passes))[0]

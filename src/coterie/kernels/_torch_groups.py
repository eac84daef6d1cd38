"""The kernels for groups of tensors' rows: k-means and its starts, means, medoids, and labels that neighbours have."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.kernels import ALONE

# Entries of a matrix of memberships, or of weights, that exist at once.
ONE_HOT_ENTRIES = 2**25

# Up to this many groups, comparing every row with every group is faster than threads that wait for each other.
FEW_GROUPS = 32


def assign(embedding: Any, centroids: Any) -> tuple[Any, Any, Any]:
    """Return each row's nearest centroid, and the squared distances to the two nearest ones."""
    import torch

    distances = centroid_distances(embedding, centroids)  # (b, k)
    nearest, labels = distances.min(dim=1)
    second = distances.masked_fill_(members_of(labels, len(centroids)), torch.inf).amin(dim=1)
    return labels.to(torch.int32), nearest, second


def members_of(labels: Any, n_groups: int) -> Any:
    """Return which row is in which group, as one more dimension."""
    import torch

    return labels[..., None] == torch.arange(n_groups, device=labels.device)  # (..., b, k)


def centroid_distances(rows: Any, centroids: Any) -> Any:
    """Return squared distances between rows and centroids, never below zero."""
    norms = (rows * rows).sum(dim=-1, keepdim=True) + (centroids * centroids).sum(dim=-1)[..., None, :]
    return (norms - 2 * rows @ centroids.mT).clamp(min=0)


def nearest_centroids(rows: Any, centroids: Any) -> tuple[Any, Any]:
    """Return each row's nearest centroid and the squared distance to it, for several runs (runs x k x c).

    On a GPU a pass of k-means is nothing but launches, so this takes as few as it can.
    """
    import torch

    lengths = (centroids * centroids).sum(dim=2)[:, None]  # (runs, 1, k)
    gaps = torch.baddbmm(lengths, rows.expand(len(centroids), *rows.shape), centroids.mT, alpha=-2)  # (runs, n, k)
    least, labels = gaps.min(dim=2)  # (runs, n)
    return labels, (least + (rows * rows).sum(dim=1)).clamp_(min=0)


def group_centroids(rows: Any, labels: Any, nearest: Any, n_groups: int) -> Any:
    """Return the groups' means, for several runs; an empty group restarts at the row farthest from its centroid."""
    import torch

    members = members_of(labels, n_groups).to(rows.dtype)  # (runs, n, k)
    counts = members.sum(dim=1)[:, :, None]  # (runs, k, 1)
    means = (members.mT @ rows) / counts.clamp(min=1)
    farthest = rows[nearest.argmax(dim=1)]  # (runs, c)
    return torch.where(counts > 0, means, farthest[:, None])  # (runs, k, c)


def add_start(rows: Any, norms: Any, least: Any | None, draws: Any) -> tuple[Any, Any]:
    """Return one more row for each run of greedy k-means++, and every row's squared distance to the nearest start.

    See :func:`coterie.kernels.cpu.add_start`.
    """
    import torch

    last = len(rows) - 1
    if least is None:
        numbers = (draws[:, 0] * len(rows)).long().clamp(max=last)  # (runs,)
        return numbers, centroid_distances(rows, rows[numbers][:, None])[:, :, 0]  # (runs, n)
    odds = least.double().cumsum(dim=1)
    trials = torch.searchsorted(odds, draws * odds[:, -1:]).clamp(max=last)  # (runs, trials)
    every = rows.expand(len(draws), *rows.shape)  # (runs, n, c)
    gaps = torch.baddbmm(norms[trials][:, None], every, rows[trials].mT, alpha=-2)  # (runs, n, trials)
    after = torch.minimum(least[:, :, None], gaps.add_(norms[:, None]).clamp_(min=0))
    best = after.sum(dim=1).argmin(dim=1)  # (runs,)
    runs = torch.arange(len(draws), device=rows.device)
    return trials[runs, best], after[runs, :, best]


def add_groups(rows: Any, labels: Any, sums: Any, counts: Any) -> None:
    """Add every row to its group's ``sums`` (groups x d) and ``counts``: as a product, whose order is fixed."""
    size = max(1, ONE_HOT_ENTRIES // len(sums))
    for start in range(0, len(rows), size):
        members = members_of(labels[start : start + size], len(sums)).double()  # (b, k)
        sums += members.mT @ rows[start : start + size].double()
        counts += members.sum(dim=0)


def nearest_in_group(rows: Any, labels: Any, means: Any, slack: float) -> Any:
    """Return for every group the member nearest to its mean; see :func:`least_in_group`."""
    gaps = ((rows - means[labels.long()]).double() ** 2).sum(dim=1)  # (n,)
    return least_in_group(gaps, labels, len(means), slack)


def least_in_group(values: Any, labels: Any, n_groups: int, slack: float = 0.0) -> Any:
    """Return for every group the member with the least value, -1 for an empty group.

    It is the first one among those that exceed the least by no more than this share of it.
    """
    import torch

    groups, n = labels.long(), len(labels)
    least = group_minima(values, groups, n_groups, torch.inf)  # (groups,)
    able = values <= least[groups] * (1 + slack)
    first = group_minima(torch.where(able, torch.arange(n, device=labels.device), n), groups, n_groups, n)
    return torch.where(first < n, first, -1)  # (groups,)


def group_minima(values: Any, groups: Any, n_groups: int, largest: float) -> Any:
    """Return the least value of every group, ``largest`` for an empty one."""
    import torch

    if n_groups <= FEW_GROUPS:
        return torch.where(members_of(groups, n_groups), values[:, None], largest).amin(dim=0)  # (groups,)
    found = torch.full((n_groups,), largest, dtype=values.dtype, device=values.device)
    return found.scatter_reduce_(0, groups, values, "amin")


def count_groups(labels: Any, n_groups: int) -> np.ndarray:
    """Return the number of rows in every group, as a NumPy array."""
    import torch

    return torch.bincount(labels, minlength=n_groups).cpu().numpy()  # (groups,)


def label_votes(indices: Any, weights: Any, labels: Any, n_labels: int) -> Any:
    """Return Z D^(-1) Z^T Y of one graph without each row's own part; see :func:`coterie.kernels.cpu.label_votes`."""
    import torch

    members, values, columns = members_of(labels, n_labels).double(), weights.double(), indices.long()  # (n, k)
    p = int(columns.max()) + 1
    size = max(1, ONE_HOT_ENTRIES // p)

    def dense(rows: slice, entries: Any) -> Any:
        own = torch.zeros((len(entries[rows]), p), dtype=torch.float64, device=entries.device)
        return own.scatter_add_(1, columns[rows], entries[rows])  # (b, p)

    parts = [slice(start, start + size) for start in range(0, len(indices), size)]
    at_landmarks = sum(dense(rows, values).mT @ members[rows] for rows in parts)  # (p, k)
    totals = at_landmarks.sum(dim=1)[columns]  # (n, q)
    others = totals - values
    shares = torch.where(others > ALONE * totals, values / others, 0.0)  # (n, q)
    votes = torch.cat([dense(rows, shares) @ at_landmarks for rows in parts])  # (n, k)
    return votes - members * (shares * values).sum(dim=1, keepdim=True)

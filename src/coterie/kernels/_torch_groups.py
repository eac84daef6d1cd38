"""The kernels for groups of rows in tensors: labels, means and medoids."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

# Entries of a one-hot matrix of memberships that exist at once.
ONE_HOT_ENTRIES = 2**25

# Up to this many groups, comparing every row with every group is faster than a scatter, whose threads wait for each
# other.
FEW_GROUPS = 32


def assign(embedding: Any, centroids: Any) -> tuple[Any, Any, Any]:
    """Return each row's nearest centroid, and the squared distances to the two nearest ones."""
    import torch

    distances = centroid_distances(embedding, centroids)  # (b, k)
    nearest, labels = distances.min(dim=1)
    second = distances.masked_fill_(members_of(labels, len(centroids)), torch.inf).amin(dim=1)
    return labels.to(torch.int32), nearest, second


def zero_rows(rows: Any) -> Any:
    """Return which rows are zero."""
    return (rows == 0).all(dim=1)  # (b,)


def confidence(nearest: Any, second: Any, zero: Any) -> Any:
    """Return 1 - d / d', given the squared distances to the two nearest centroids; 0 for rows of ``zero``."""
    import torch

    ratio = torch.where(second > 0, nearest / second, 0.0)
    return (1 - ratio**0.5).masked_fill_(zero, 0.0).float()  # (b,)


def members_of(labels: Any, n_groups: int) -> Any:
    """Return the one-hot membership of rows in groups, as one more dimension."""
    return labels[..., None] == first_numbers(n_groups, labels.device)  # (..., b, k)


@lru_cache(maxsize=32)
def first_numbers(count: int, device: Any) -> Any:
    """Return 0, 1, .. on a device; cached, because nearly every sum over groups needs them."""
    import torch

    return torch.arange(count, device=device)


def centroid_distances(rows: Any, centroids: Any) -> Any:
    """Return squared distances between rows and centroids, never below zero."""
    norms = (rows * rows).sum(dim=-1, keepdim=True) + (centroids * centroids).sum(dim=-1)[..., None, :]
    return norms.sub_(rows @ centroids.mT, alpha=2).clamp_(min=0)


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

    It is the first member whose value exceeds the least by at most the share ``slack`` of it.
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

"""How clusters merge into fewer: a tree over their centroids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import leaves_list


@dataclass(frozen=True)
class Hierarchy:
    """The tree of k clusters.

    Attributes
    ----------
    linkage : ndarray of shape (k - 1, 4)
        The merges in SciPy's form: the two parts (below k a cluster, else k plus the number of an earlier merge), the
        distance at which they merge, and the number of clusters in the merged part.
    order : ndarray of shape (k,)
        The clusters as the leaves of a drawn tree, so that no branches cross.
    """

    linkage: np.ndarray  # (k - 1, 4)
    order: np.ndarray  # (k,)

    def cut(self, n_groups: int) -> np.ndarray:
        """Return the group of every cluster after merging until ``n_groups`` are left, numbered in leaf order.

        Parameters
        ----------
        n_groups : int
            Between 1 and the number of clusters.

        Returns
        -------
        ndarray of shape (k,)
        """
        k = len(self.order)
        if not 1 <= n_groups <= k:
            raise ValueError(f"The 'n_groups' parameter of cut must be between 1 and {k}. Got {n_groups} instead.")
        group = np.arange(k)  # (k,) a group is represented by the number of one member
        parts = [[c] for c in range(k)]
        for left, right in self.linkage[: k - n_groups, :2].astype(int):
            parts.append(parts[left] + parts[right])
            group[parts[-1]] = parts[-1][0]
        first = dict.fromkeys(group[self.order].tolist())
        numbers = {member: number for number, member in enumerate(first)}
        return np.array([numbers[member] for member in group.tolist()])  # (k,)


def cluster_hierarchy(centers: np.ndarray, sizes: np.ndarray) -> Hierarchy:
    """Return how clusters merge, by average linkage weighted by their sizes.

    The distance of two clusters is one minus the cosine of their centroids; that of two groups of clusters is the mean
    over their rows, with every row at its centroid. The lengths of centroids are ignored: the centroid of a loose
    cluster is short, and would be near to all others.

    Parameters
    ----------
    centers : array of shape (k, c)
        The centroids in the embedding.
    sizes : array of shape (k,)
        The clusters' numbers of rows.

    Returns
    -------
    Hierarchy

    Examples
    --------
    >>> import numpy as np
    >>> tree = cluster_hierarchy(np.array([[1, 0], [0, 1], [1, 0.1]]), np.array([5, 5, 5]))
    >>> tree.linkage[0, :2].astype(int).tolist(), tree.cut(2).tolist()
    ([0, 2], [1, 0, 1])
    """
    centers = np.asarray(centers, dtype=np.float64)  # (k, c)
    k = len(centers)
    gaps = centroid_distances(centers)
    weights = np.maximum(np.asarray(sizes, dtype=np.float64), 1e-9)  # merging an empty cluster hardly changes distances
    merges = np.empty((max(k - 1, 0), 4))
    alive = dict.fromkeys(range(k), 1)  # part -> clusters in it
    gaps = np.pad(gaps, ((0, k), (0, k)), constant_values=np.inf)  # room for the merged parts
    weights = np.pad(weights, (0, k))
    for number in range(k - 1):
        left, right = sorted(int(part) for part in np.unravel_index(gaps.argmin(), gaps.shape))
        new, share = k + number, weights[[left, right]] / weights[[left, right]].sum()
        merges[number] = left, right, gaps[left, right], alive.pop(left) + alive.pop(right)
        joined = share[0] * gaps[left] + share[1] * gaps[right]  # inf stays inf
        gaps[[left, right]], gaps[:, [left, right]] = np.inf, np.inf
        for part in alive:
            gaps[new, part] = gaps[part, new] = joined[part]
        alive[new], weights[new] = int(merges[number, 3]), weights[left] + weights[right]
    order = leaves_list(merges) if k > 1 else np.arange(k)
    return Hierarchy(merges, order)


def centroid_distances(centers: np.ndarray) -> np.ndarray:
    """Return one minus the cosine of every two centroids, infinite on the diagonal."""
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    units = centers / np.where(lengths > 0, lengths, 1)
    gaps = np.maximum(1 - units @ units.T, 0)  # (k, k)
    np.fill_diagonal(gaps, np.inf)
    return (gaps + gaps.T) / 2

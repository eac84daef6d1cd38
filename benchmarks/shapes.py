"""Rows with clusters of unequal size, and rows with many noisy columns: the data of the suite "unequal"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.datasets import MultiViewData

# Decay rate of the spectrum of correlated noise. With it, on 50,000 rows of 512 + 256 + 128 columns, k-means finds most
# of 20 clusters if all columns have one scale, and few if every view is scaled to the same total.
DECAY = 2.95


def zipf(
    views: Mapping[str, Any], y: np.ndarray, seed: int, s: float = 1.0, least: int = 15
) -> tuple[dict[str, Any], np.ndarray]:
    """Return a labelled set subsampled to classes of sizes n / rank**s, with random ranks.

    n is the size of the largest class. Every class keeps at least ``least`` rows, or all if it has fewer.

    Examples
    --------
    >>> y = np.repeat([0, 1, 2], 60)
    >>> views, thinned = zipf({"a": np.arange(180)[:, None]}, y, seed=0)
    >>> sorted(np.bincount(thinned).tolist())
    [20, 30, 60]
    """
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(y, return_counts=True)
    ranks = 1 + rng.permutation(len(classes))
    wanted = np.maximum(np.rint(counts.max() / ranks**s).astype(int), least)
    kept = [
        rng.choice(np.flatnonzero(y == one), min(size, count), replace=False)
        for one, size, count in zip(classes, wanted, counts, strict=True)
    ]
    rows = np.sort(np.concatenate(kept))
    return {name: view[rows] for name, view in views.items()}, y[rows]


def make_blobs(
    sizes: Sequence[int],
    n_columns: Sequence[int],
    seed: int,
    *,
    gap: float = 8.0,
    shown: np.ndarray | None = None,
) -> MultiViewData:
    """Return Gaussian clusters of given sizes, in random order.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each cluster.
    n_columns : sequence of int
        Columns of each view.
    seed : int
    gap : float
        Distance between the two nearest centres of a view, in standard deviations of the noise.
    shown : ndarray of bool of shape (V, k), optional
        Which view shows which cluster; in a view that does not show it, a cluster has the first one's centre.

    Examples
    --------
    >>> data = make_blobs((90, 10), (3, 2), seed=0)
    >>> np.bincount(data.target).tolist(), [view.shape for view in data.views.values()]
    ([90, 10], [(100, 3), (100, 2)])
    """
    rng = np.random.default_rng(seed)
    k = len(sizes)
    target = rng.permutation(np.repeat(np.arange(k, dtype=np.int32), sizes))  # (n,)
    views = {}
    for v, width in enumerate(n_columns):
        centers = rng.standard_normal((k, width))
        centers *= gap / nearest_distance(centers)  # (k, d)
        if shown is not None:
            centers[~shown[v]] = centers[0]
        noise = rng.standard_normal((len(target), width))  # (n, d)
        views[f"view{v}"] = (centers[target] + noise).astype(np.float32)
    return MultiViewData(views, target, "blobs")


def nearest_distance(points: np.ndarray) -> float:
    """Return the smallest distance between two of the points.

    Examples
    --------
    >>> nearest_distance(np.array([[0.0], [3.0], [7.0]]))
    3.0
    """
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)  # (k, k)
    return float(gaps[~np.eye(len(points), dtype=bool)].min())


def make_noisy(
    n_rows: int,
    n_clusters: int,
    n_columns: Sequence[int],
    seed: int,
    *,
    correlated: bool = False,
    length: float = 3.0,
) -> MultiViewData:
    """Return clusters of about equal size in many noisy columns.

    Every view has random cluster centres, at distance ``length`` from the origin. White noise has variance 1 in every
    column. Correlated noise has the same total variance, with the spectrum of :func:`noise_spectrum` along random
    directions, so that columns have nearly the same scale.

    Examples
    --------
    >>> data = make_noisy(50, 4, (30, 20), seed=0, correlated=True)
    >>> [view.shape for view in data.views.values()]
    [(50, 30), (50, 20)]
    """
    rng = np.random.default_rng(seed)
    target = rng.integers(n_clusters, size=n_rows, dtype=np.int32)  # (n,)
    views = {}
    for v, width in enumerate(n_columns):
        centers = rng.standard_normal((n_clusters, width))
        centers *= length / np.linalg.norm(centers, axis=1, keepdims=True)  # (k, d)
        rows = rng.standard_normal((n_rows, width), dtype=np.float32)  # (n, d)
        if correlated:
            rows = rows @ mixing_matrix(width, rng)
        rows += centers.astype(np.float32)[target]
        views[f"view{v}"] = rows
    return MultiViewData(views, target, "noisy")


def mixing_matrix(width: int, rng: np.random.Generator) -> np.ndarray:
    """Return the matrix that turns white noise into correlated noise, in float32."""
    directions = np.linalg.qr(rng.standard_normal((width, width)))[0]  # (d, d)
    return (np.sqrt(noise_spectrum(width)) * directions).T.astype(np.float32)  # (d, d)


def noise_spectrum(width: int) -> np.ndarray:
    """Return the variances of correlated noise along its axes, largest first; their mean is 1.

    Examples
    --------
    >>> noise_spectrum(100)[[0, 50, 99]].round(2)
    array([4.46, 0.67, 0.29])
    """
    places = (np.arange(width) + 0.5) / width  # (d,)
    spectrum = np.exp(-DECAY * np.sqrt(places))
    return spectrum / spectrum.mean()


def geometric_sizes(largest: int, smallest: int, count: int) -> tuple[int, ...]:
    """Return sizes in geometric progression.

    Examples
    --------
    >>> geometric_sizes(800, 100, 4)
    (800, 400, 200, 100)
    """
    return tuple(np.rint(np.geomspace(largest, smallest, count)).astype(int).tolist())


def zipf_sizes(largest: int, count: int, least: int = 15) -> tuple[int, ...]:
    """Return the sizes largest / rank, none below ``least``.

    Examples
    --------
    >>> zipf_sizes(60, 5)
    (60, 30, 20, 15, 15)
    """
    return tuple(max(least, round(largest / rank)) for rank in range(1, count + 1))

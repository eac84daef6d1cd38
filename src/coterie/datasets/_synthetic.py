"""Synthetic views of any number of rows, with a known partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.datasets._bundle import MultiViewData

# Rows are drawn in blocks of this size, each from its own seed: the same seed gives the same rows whether they are
# made at once or block by block.
BLOCK_ROWS = 65_536

# A weak view's clusters are this much closer together than a good view's.
WEAKNESS = 0.25


@dataclass(frozen=True)
class ClusterShapes:
    """Positions and shapes of a view's clusters."""

    centers: np.ndarray  # (k, d)
    planes: np.ndarray  # (k, 2, d): the plane that each cluster's ring lies in
    signal: float
    scale: float


def make_views(
    n_rows: int = 1000,
    n_clusters: int = 5,
    *,
    n_columns: int | Sequence[int] = (20, 10, 5),
    shape: str = "blobs",
    separation: float = 3.0,
    n_weak: int = 0,
    n_noise: int = 0,
    badly_scaled: bool = False,
    missing: float = 0.0,
    dtype: str = "float32",
    random_state: int = 0,
) -> MultiViewData:
    """Return rows with a known partition, seen through several views.

    Parameters
    ----------
    n_rows, n_clusters : int
        Size of the problem; clusters are of about equal size.
    n_columns : int or sequence of int
        Number of columns of each view; its length is the number of views. An int makes one view.
    shape : "blobs" or "rings"
        Gaussian clusters, or noisy circles, which have no useful centroids.
    separation : float
        Mean distance between cluster centres. For any number of columns, the noise of a row has a mean squared length
        of 1 for "blobs" and 1/36 for "rings".
    n_weak, n_noise : int
        Number of views that barely separate clusters, and of views of noise alone. Views of noise come last, weak ones
        before them.
    badly_scaled : bool
        Whether every column of every view has its own unit, over six orders of magnitude.
    missing : float
        Share of (row, view) pairs that are missing: NaN throughout. Every row keeps at least one view.
    dtype : str
        Type of the values.
    random_state : int
        Seed.

    Returns
    -------
    MultiViewData
        With ``views`` (a dict of arrays) and ``target`` (the clusters).

    Examples
    --------
    >>> data = make_views(100, 4, n_columns=(3, 2))
    >>> {name: view.shape for name, view in data.views.items()}
    {'view0': (100, 3), 'view1': (100, 2)}
    """
    settings = dict(
        n_columns=n_columns,
        shape=shape,
        separation=separation,
        n_weak=n_weak,
        n_noise=n_noise,
        badly_scaled=badly_scaled,
        missing=missing,
        dtype=dtype,
        random_state=random_state,
    )
    parts = list(iterate_views(n_rows, n_clusters, **settings))  # type: ignore[arg-type]
    views = {name: np.concatenate([part.views[name] for part in parts]) for name in parts[0].views}
    return MultiViewData(views=views, target=np.concatenate([part.target for part in parts]), name="synthetic")


def iterate_views(
    n_rows: int,
    n_clusters: int = 5,
    *,
    n_columns: int | Sequence[int] = (20, 10, 5),
    shape: str = "blobs",
    separation: float = 3.0,
    n_weak: int = 0,
    n_noise: int = 0,
    badly_scaled: bool = False,
    missing: float = 0.0,
    dtype: str = "float32",
    random_state: int = 0,
) -> Iterator[MultiViewData]:
    """Yield the rows of :func:`make_views` block by block, for more rows than fit in memory.

    Examples
    --------
    >>> [len(block.target) for block in iterate_views(100_000, 3, n_columns=2)]
    [65536, 34464]
    """
    widths = [n_columns] if isinstance(n_columns, int) else list(n_columns)
    if shape not in ("blobs", "rings"):
        raise ValueError(f"The 'shape' of make_views must be 'blobs' or 'rings'. Got {shape!r}.")
    if n_weak + n_noise > len(widths):
        raise ValueError(
            f"make_views has {len(widths)} views, too few for n_weak={n_weak} and n_noise={n_noise}. "
            "Add entries to n_columns."
        )
    if not 0 <= missing < 1:
        raise ValueError(f"The 'missing' share of make_views must be in [0, 1). Got {missing}.")
    rng = np.random.default_rng([random_state, 0])
    good = len(widths) - n_weak - n_noise
    signals = [1.0] * good + [WEAKNESS] * n_weak + [0.0] * n_noise
    shapes = [
        _draw_shapes(rng, n_clusters, width, separation * signal, badly_scaled)
        for width, signal in zip(widths, signals, strict=True)
    ]
    for number, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
        block_rng = np.random.default_rng([random_state, 1, number])
        size = min(BLOCK_ROWS, n_rows - start)
        yield _draw_block(block_rng, size, n_clusters, shapes, shape, missing, dtype)


def _draw_shapes(
    rng: np.random.Generator, n_clusters: int, width: int, signal: float, badly_scaled: bool
) -> ClusterShapes:
    centers = rng.standard_normal((n_clusters, width)) / np.sqrt(2 * width)  # mean distance 1
    planes = rng.standard_normal((n_clusters, 2, width))
    planes /= np.linalg.norm(planes, axis=2, keepdims=True)
    scale = 10.0 ** rng.uniform(-3, 3, size=width) if badly_scaled else np.ones(width)
    return ClusterShapes(centers, planes, signal, scale)  # type: ignore[arg-type]


def _draw_block(
    rng: np.random.Generator,
    size: int,
    n_clusters: int,
    shapes: list[ClusterShapes],
    shape: str,
    missing: float,
    dtype: str,
) -> MultiViewData:
    target = rng.integers(n_clusters, size=size, dtype=np.int32)  # (b,)
    views = {}
    for number, view in enumerate(shapes):
        width = view.centers.shape[1]
        rows = rng.standard_normal((size, width))  # (b, d)
        # Unit mean squared length over all columns, so that `separation` means the same for any number of columns.
        rows /= np.sqrt(width) if shape == "blobs" else 6 * np.sqrt(width)
        rows += view.signal * view.centers[target]
        if shape == "rings" and view.signal > 0:
            angle = rng.uniform(0, 2 * np.pi, size=size)
            circle = np.column_stack([np.cos(angle), np.sin(angle)])  # (b, 2)
            rows += np.einsum("bi,bid->bd", circle, view.planes[target])
        views[f"view{number}"] = (rows * view.scale).astype(dtype)
    _remove_views(rng, views, size, missing)
    return MultiViewData(views=views, target=target, name="synthetic")


def _remove_views(rng: np.random.Generator, views: dict[str, np.ndarray], size: int, missing: float) -> None:
    if missing == 0:
        return
    gone = rng.random((size, len(views))) < missing  # (b, V)
    kept = rng.integers(len(views), size=size)
    gone[np.arange(size), kept] &= ~gone.all(axis=1)
    for number, rows in enumerate(views.values()):
        rows[gone[:, number]] = np.nan

"""A two-dimensional map of the embedding: similar rows lie together, clusters apart.

The embedding has k columns, and its first two principal components show two or three clusters at best. From these
components, a force-directed layout starts: each row is attracted by its nearest rows and repelled by all others.
"""

from __future__ import annotations

import numpy as np

NEIGHBOURS = 128  # nearest rows; a row is tied to some of them:
TIES = 16  # to every eighth, since ties to the nearest alone draw clusters as strings
EPOCHS = 120
PUSHERS = 32  # rows that repel all others, drawn anew in every epoch
PUSHES_PER_TIE = 5  # weight of repulsion: the pushes on a row are scaled to this many per tie
LONGEST_STEP = 4.0
TILE = 512


def flat_map(embedding: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return coordinates within the unit square.

    Parameters
    ----------
    embedding : ndarray of shape (n, c)
        Rows of norm one; a few thousand at most, since all pairs are compared.
    seed : int, default=0
        Seed for drawing the rows that repel.

    Returns
    -------
    ndarray of shape (n, 2)

    Examples
    --------
    >>> import numpy as np
    >>> places = flat_map(np.repeat(np.eye(3), 20, axis=0))
    >>> places.shape, bool(places.min() >= 0), bool(places.max() <= 1)
    ((60, 2), True, True)
    """
    rows = np.asarray(embedding, dtype=np.float32)  # (n, c)
    places = widest_directions(rows)
    if len(rows) > 3:
        places = pull_and_push(places, *nearest_ties(rows), np.random.default_rng(seed))
    return fit_square(places)


def widest_directions(rows: np.ndarray) -> np.ndarray:
    """Return the first two principal components of the rows, scaled to at most ten in absolute value."""
    centred = rows - rows.mean(axis=0)
    vectors = np.linalg.eigh((centred.T @ centred).astype(np.float64))[1]  # ascending
    axes = vectors[:, ::-1][:, :2]  # (c, 2)
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)  # fix the signs
    places = np.zeros((len(rows), 2), dtype=np.float32)
    places[:, : axes.shape[1]] = centred @ axes
    return 10 * places / max(float(np.abs(places).max(initial=0)), 1e-9)


def nearest_ties(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's ties, (n, q) row numbers, and their strengths: 1 for the nearest row, less for the others."""
    n, count = len(rows), min(NEIGHBOURS, len(rows) - 1)
    step = max(1, count // TIES)
    neighbours = np.empty((n, len(range(0, count, step))), dtype=np.intp)
    strengths = np.empty(neighbours.shape, dtype=np.float32)
    norms = np.einsum("ij,ij->i", rows, rows)  # (n,)
    for start in range(0, n, TILE):
        tile = np.arange(start, min(start + TILE, n))
        squares = norms[tile, None] + norms - 2 * rows[tile] @ rows.T  # (b, n)
        squares[np.arange(len(tile)), tile] = np.inf
        nearest = np.argpartition(squares, count - 1, axis=1)[:, :count]  # (b, NEIGHBOURS)
        near = np.take_along_axis(squares, nearest, axis=1)
        ranked = np.argsort(near, axis=1, kind="stable")[:, ::step]  # (b, q)
        nearest = np.take_along_axis(nearest, ranked, axis=1)
        gaps = np.sqrt(np.maximum(np.take_along_axis(near, ranked, axis=1), 0))
        gaps -= gaps[:, :1]
        neighbours[tile] = nearest
        strengths[tile] = np.exp(-gaps / np.maximum(2 * gaps[:, [gaps.shape[1] // 4]], 1e-6))
    return neighbours, strengths


def pull_and_push(
    places: np.ndarray, neighbours: np.ndarray, strengths: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the coordinates after EPOCHS steps of attraction along ties and repulsion by drawn rows."""
    n, count = neighbours.shape
    ends = neighbours.ravel()  # (n q,)
    for epoch in range(EPOCHS):
        drawn = rng.integers(n, size=PUSHERS)
        to_tied = [axis[:, None] - axis[neighbours] for axis in places.T]  # (n, q) each, across and up
        to_pusher = [axis[:, None] - axis[drawn] for axis in places.T]  # (n, m)
        square = to_pusher[0] ** 2 + to_pusher[1] ** 2
        pull = strengths / (1 + to_tied[0] ** 2 + to_tied[1] ** 2)
        push = PUSHES_PER_TIE * count / PUSHERS / ((0.01 + square) * (1 + square))
        step = np.empty_like(places)  # (n, 2)
        for axis in (0, 1):
            force = to_tied[axis] * pull
            pulled = np.bincount(ends, force.ravel(), minlength=n) - force.sum(axis=1)  # both ends of a tie move
            step[:, axis] = pulled + (to_pusher[axis] * push).sum(axis=1)
        pace = 0.25 * (1 - epoch / EPOCHS)
        places = places + np.clip(pace * step, -LONGEST_STEP, LONGEST_STEP)
    return places


def fit_square(places: np.ndarray) -> np.ndarray:
    """Return the coordinates rotated to their widest direction from left to right, scaled into the unit square."""
    centred = (places - places.mean(axis=0)).astype(np.float64)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]  # (2, 2)
    places = centred @ (axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1, 1))  # fix the signs
    low, high = places.min(axis=0), places.max(axis=0)
    middle, width = (low + high) / 2, max(float((high - low).max()), 1e-9)
    return np.clip((places - middle) / width + 0.5, 0, 1)  # (n, 2)

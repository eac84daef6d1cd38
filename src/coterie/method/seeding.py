"""The starts of k-means: rows far from each other (greedy k-means++), the same ones on every device."""

from __future__ import annotations

import numpy as np

from coterie.arrays import like, squared_norms
from coterie.kernels import kernels_of


def draw_starts(n_runs: int, count: int, rng: np.random.Generator, n_trials: int | None = None) -> np.ndarray:
    """Return the random numbers for several runs' starts; by default with scikit-learn's number of trials for each."""
    return rng.random((n_runs, count, n_trials or 2 + int(np.log(count))))  # (runs, count, trials)


def kmeans_plus_plus(rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return for every run the numbers of rows far from each other; ``draws`` are those of :func:`draw_starts`.

    Each is the best of a few trials, drawn with probability proportional to the squared distance to the nearest row
    chosen before.

    Examples
    --------
    >>> rows = np.repeat([[0.0], [10.0], [20.0]], 4, axis=0)
    >>> (numbers,) = kmeans_plus_plus(rows, draw_starts(1, 3, np.random.default_rng(0)))
    >>> sorted(rows[numbers, 0].tolist())
    [0.0, 10.0, 20.0]
    """
    kernels = kernels_of(rows)
    if kernels.BATCHED:
        return kernels.kmeans_plus_plus(rows, like(draws, rows, "float64"))
    norms, least, chosen = squared_norms(rows), None, []  # (n,)
    for number in range(draws.shape[1]):
        numbers, least = kernels.add_start(rows, norms, least, draws[:, number])  # (runs,), (runs, n)
        chosen.append(numbers)
    return np.stack(chosen, axis=1)  # (runs, count)

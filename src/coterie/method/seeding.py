"""Where k-means begins: at rows far from each other (greedy k-means++), the same ones on every device."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.arrays import like


def draw_starts(n_runs: int, count: int, rng: np.random.Generator, n_trials: int | None = None) -> np.ndarray:
    """Return the random numbers of several starts, with as many trials for each row as are worth their time."""
    return rng.random((n_runs, count, n_trials or 2 + int(np.log(count))))  # (runs, count, trials)


def far_apart(rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the numbers of rows far from each other, one for each line of ``draws`` (count x trials).

    Each is the best of a few trials that are drawn with odds like their squared distance to the rows before.

    Examples
    --------
    >>> rows = np.repeat([[0.0], [10.0], [20.0]], 4, axis=0)
    >>> numbers = far_apart(rows, draw_starts(1, 3, np.random.default_rng(0))[0])
    >>> sorted(rows[numbers, 0].tolist())
    [0.0, 10.0, 20.0]
    """
    norms = np.einsum("ij,ij->i", rows, rows)  # (n,)
    last = len(rows) - 1
    chosen = [min(int(draws[0, 0] * len(rows)), last)]
    least = squares_to(rows, norms, chosen)[:, 0]  # (n,)
    for trials in draws[1:]:
        odds = np.cumsum(least, dtype=np.float64)
        numbers = np.minimum(np.searchsorted(odds, trials * odds[-1]), last)  # (trials,)
        after = np.minimum(least[:, None], squares_to(rows, norms, numbers))  # (n, trials)
        best = after.sum(axis=0, dtype=np.float64).argmin()
        least = np.ascontiguousarray(after[:, best])
        chosen.append(int(numbers[best]))
    return np.array(chosen)  # (count,)


def squares_to(rows: np.ndarray, norms: np.ndarray, numbers: Any) -> np.ndarray:
    """Return the squared distances of all rows to some of them."""
    with np.errstate(invalid="ignore"):  # of finite numbers: some BLAS look beyond the rows, and leave a flag behind
        products = rows @ rows[numbers].T  # (n, trials)
    return np.maximum(norms[:, None] + norms[numbers] - 2 * products, 0)


def far_apart_at_once(rows: Any, draws: np.ndarray) -> Any:
    """Return the rows themselves for several runs side by side, as a GPU likes it (runs x count x columns)."""
    import torch

    from coterie.kernels.torch import squared_distances

    n_runs, count, _ = draws.shape
    last = len(rows) - 1
    drawn = like(draws, rows, "float64")
    starts = [rows[(drawn[:, 0, 0] * len(rows)).long().clamp(max=last)]]  # (runs, c)
    least = squared_distances(rows, starts[0][:, None])[:, :, 0]  # (runs, n)
    runs = torch.arange(n_runs, device=rows.device)
    for number in range(1, count):
        odds = least.double().cumsum(dim=1)
        numbers = torch.searchsorted(odds, drawn[:, number] * odds[:, -1:]).clamp(max=last)  # (runs, trials)
        after = torch.minimum(least[:, :, None], squared_distances(rows, rows[numbers]))  # (runs, n, trials)
        best = after.sum(dim=1).argmin(dim=1)  # (runs,)
        least = after[runs, :, best]
        starts.append(rows[numbers[runs, best]])
    return torch.stack(starts, dim=1)  # (runs, count, c)

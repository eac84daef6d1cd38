"""The novelty of rows: their distances to their nearest landmarks, compared with those of the fit's own rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.arrays import array_namespace, like, to_host
from coterie.method.graphs import GraphMap, Neighbours, OwnLandmarks
from coterie.threads import in_order
from coterie.views import Views

# The scale is learned from at most SCALE_ROWS rows, and stored as QUANTILES quantiles of their distances.
SCALE_ROWS = 2_000
QUANTILES = 201
SEARCHED_ROWS = 250  # by one thread at once

# Familiarity is 1 up to this many times the largest distance among the rows that the scale was learned from: most rows
# of the fit are not among them.
SLACK = 2.0

# Distances below this share of the longest landmark are rounding errors of squares and products, by bytes of a float.
ROUNDED = {4: 2e-3, 8: 1e-7}

UNSEEN = 1e150  # all quantiles of a view that no row of the scale has: no distance in it is unusual


@dataclass(frozen=True)
class NoveltyScale:
    """Quantiles of the fit's distances in every view, and of its rows' scores over one view, two views, and so on.

    The concatenation is one more view: a row can be near to some landmark in each view, but to none in all of them.
    """

    floors: np.ndarray  # (W,) distances below it are 0; W is V, or V + 1 with all views side by side
    distances: np.ndarray  # (W, t) ascending
    levels: np.ndarray  # (W, t) the share of rows below each distance, half of those at it included
    scores: np.ndarray  # (V, t) row m - 1 is for rows that have m views
    score_levels: np.ndarray  # (V, t)
    present: np.ndarray  # (V,) the share of rows that have each view

    def novelty(self, distances: np.ndarray) -> np.ndarray:
        """Return the novelty of rows (b,), given their distances in every view (b x W), NaN where they lack it.

        It is uniform on [0, 1] for rows of the fit. A row with 1 is farther out than all rows that the scale was
        learned from; a row without any view has 0.
        """
        unusual = self.log_tail(distances)  # (b, W)
        n_views = (~np.isnan(unusual[:, : len(self.scores)])).sum(axis=1)  # (b,)
        scores = np.nansum(unusual, axis=1)
        found = np.zeros(len(scores))
        for m in range(1, len(self.scores) + 1):
            rows = n_views == m
            found[rows] = np.interp(scores[rows], self.scores[m - 1], self.score_levels[m - 1], left=0.0, right=1.0)
        return found.astype(np.float32)  # (b,)

    def log_tail(self, distances: np.ndarray) -> np.ndarray:
        """Return -log of the share of rows that are farther out, by view (b x W): Fisher's method sums it over views.

        The concatenation has the weight of all views together, and is NaN for rows that lack any view.
        """
        unusual = np.column_stack(
            [
                log_tail_in_view(with_floor(own, floor), known, levels)
                for own, floor, known, levels in zip(distances.T, self.floors, self.distances, self.levels, strict=True)
            ]
        )  # (b, W)
        n_views = len(self.scores)
        unusual[np.isnan(unusual[:, :n_views]).any(axis=1), n_views:] = np.nan
        unusual[:, n_views:] *= n_views
        return unusual

    @property
    def limits(self) -> np.ndarray:
        """The distance in every view up to which familiarity is 1."""
        return SLACK * self.distances[: len(self.scores), -1]  # (V,)

    def familiarity(self, distances: np.ndarray) -> np.ndarray:
        """Return 1 for rows as near as those of the fit, and less the farther they are: the mean over their views."""
        n_views = len(self.scores)
        limits, distances = self.limits, distances[:, :n_views]  # (V,), (b, V)
        present = ~np.isnan(distances)
        own = np.where(present, np.where(distances < self.floors[:n_views], 0.0, distances), 0.0)  # (b, V)
        ratio = np.where(own <= limits, 1.0, limits / np.where(own > 0, own, 1.0))
        count = present.sum(axis=1)  # (b,)
        return np.where(count > 0, np.where(present, ratio, 0.0).sum(axis=1) / np.maximum(count, 1), 1.0)  # (b,)


def familiarity_of(found: Neighbours, graph_map: GraphMap, scale: NoveltyScale | None) -> Any:
    """Return how familiar rows are by their neighbours (b,): a factor of confidence, in the fit and for new rows.

    The embedding shows directions only, and a row far from all landmarks has a direction too.
    """
    xp = array_namespace(found.squares)
    known = xp.ones(len(found.squares), dtype=xp.float32, device=found.squares.device)  # (b,)
    if scale is not None:
        far = graph_map.any_beyond(found, scale.limits)
        if len(far):
            known[far] = like(scale.familiarity(graph_map.nearest_distances(found.part(far))), known)
    return known


def learn_novelty(graph_map: GraphMap, sample: Views, own: OwnLandmarks, n_threads: int = 1) -> NoveltyScale | None:
    """Return the scale learned from a sample of the fit's rows; None where no row has a landmark besides itself.

    Parameters
    ----------
    graph_map : GraphMap
    sample : Views
        Some rows of the fit.
    own : OwnLandmarks
        The landmark that each of them is, or is averaged into: new rows have none.
    n_threads : int, default=1
    """

    nearest = graph_map.nearest

    def measure(rows: np.ndarray) -> np.ndarray:
        found = nearest.search(sample.take(rows).read(slice(None)))
        return nearest.nearest_distances(found, own.part(rows))  # (b, W)

    chosen = np.unique(np.linspace(0, sample.n_rows - 1, SCALE_ROWS).astype(np.int64))
    parts = np.array_split(chosen, -(-len(chosen) // SEARCHED_ROWS) if sample.device is None else 1)
    distances = np.concatenate(list(in_order(measure, parts, n_threads)))  # (m, W)
    return scale_of(distances, floors_of(graph_map)[: distances.shape[1]], len(graph_map.names))


def floors_of(graph_map: GraphMap) -> np.ndarray:
    """Return the distance below which differences are rounding errors, in every view and over all of them."""
    longest = [np.where(np.isfinite(own := to_host(view.norms)), own, 0).max(initial=0) for view in graph_map.landmarks]
    return ROUNDED[graph_map.dtype.itemsize] * np.sqrt(np.array([*longest, sum(longest)], dtype=np.float64))  # (V + 1,)


def scale_of(distances: np.ndarray, floors: np.ndarray, n_views: int) -> NoveltyScale | None:
    """Return the scale of measured distances (m x W), NaN where rows lack a view; None where all are NaN."""
    if np.isnan(distances).all():
        return None
    by_view = [quantiles(with_floor(own, floor)) for own, floor in zip(distances.T, floors, strict=True)]
    known, levels = (np.array(part) for part in zip(*by_view, strict=True))  # (W, t)
    present = (~np.isnan(distances[:, :n_views])).mean(axis=0)  # (V,)
    scale = NoveltyScale(floors, known, levels, known[:n_views], levels[:n_views], present)
    unusual = scale.log_tail(distances)  # (m, W)
    # Rows that lack views have a scale of scores for their number of views. It is made from all rows with at least as
    # many, as if they lacked the others.
    parts = [quantiles(scores_over(unusual[:, :n_views], unusual[:, n_views:], m)) for m in range(1, n_views + 1)]
    for m in range(1, n_views):  # where no row has that many views
        parts[m] = parts[m] if parts[m][0][0] < UNSEEN else parts[m - 1]
    scores, score_levels = (np.array(part) for part in zip(*parts, strict=True))
    return NoveltyScale(floors, known, levels, scores, score_levels, present)


def scores_over(unusual: np.ndarray, overall: np.ndarray, m: int) -> np.ndarray:
    """Return the scores that rows would have with only m of their views; which ones rotates from row to row."""
    n_rows, n_views = unusual.shape
    turned = (np.arange(n_rows)[:, None] + np.arange(n_views)) % n_views
    values = np.take_along_axis(unusual, turned, axis=1)  # (m, V)
    present = ~np.isnan(values)
    taken = present & (np.cumsum(present, axis=1) <= m)
    scores = np.where(taken, values, 0.0).sum(axis=1)
    return (scores + np.nansum(overall, axis=1) if m == n_views else scores)[present.sum(axis=1) >= m]


def quantiles(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return QUANTILES quantiles of a sample, ascending, and the share of the sample below each, with half of the ties.

    Examples
    --------
    >>> values, levels = quantiles(np.array([3.0, 1.0, np.nan, 2.0]))
    >>> values[[0, 100, 200]].tolist(), levels[[0, 100, 200]].round(2).tolist()
    ([1.0, 2.0, 3.0], [0.17, 0.5, 0.83])
    """
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return np.full(QUANTILES, UNSEEN), np.full(QUANTILES, 0.5)
    found = values[np.linspace(0, len(values) - 1, QUANTILES).round().astype(np.int64)]  # (t,)
    below, upto = np.searchsorted(values, found, "left"), np.searchsorted(values, found, "right")
    return found, (below + upto) / (2 * len(values))


def with_floor(distances: np.ndarray, floor: float) -> np.ndarray:
    """Return distances with 0 for those below the floor; NaN stays."""
    return np.where(distances < floor, 0.0, distances)


def log_tail_in_view(distances: np.ndarray, known: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return -log of the share of known rows that are farther out; beyond all, the share falls like 1 / distance^2."""
    largest = known[-1]
    share = 1 - np.interp(distances, known, levels)  # (b,)
    beyond = distances > largest
    share = np.where(beyond, (1 - levels[-1]) * (largest / np.where(beyond, distances, 1.0)) ** 2, share)
    return np.where(np.isnan(distances), np.nan, -np.log(np.maximum(share, 1e-300)))

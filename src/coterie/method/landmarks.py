"""The choice of p landmarks that represent all rows: medoids of groups of rows, or the groups' means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, convert, like, precision_of, squared_norms, to_host
from coterie.kernels import kernels_of
from coterie.method.distances import LandmarkRows, squared_distances
from coterie.method.seeding import draw_starts, kmeans_plus_plus
from coterie.rows.torch import upload_if_host
from coterie.threads import in_order
from coterie.validation import refuse
from coterie.views import Preparation, Table, Views, by_rows

LANDMARKS = ("kmedoids", "kmedoids++", "random")

# Landmarks are chosen from ROWS_PER_LANDMARK rows per landmark, and from at least LEAST_ROWS in all. More rows make no
# measurable difference.
ROWS_PER_LANDMARK = 20
LEAST_ROWS = 20_000

# k-medoids++ draws its seeds from this many rows per landmark: drawing is slow, and the seeds are only a start.
SEED_ROWS_PER_LANDMARK = 5

# Above this many multiply-adds a pass, distances are measured on a random projection to this many columns. It
# preserves squared distances to within about 1 / sqrt(columns), which is enough for medoids.
EXACT_WORK = 2_000_000_000
PROJECTED_COLUMNS = 96

# A light clustering makes better landmarks than a thorough one: it keeps more of them where the rows are dense.
MEDOID_PASSES = 5

# Among members whose squared distances to the mean differ by no more than this share, the first is the medoid. The two
# rows of a pair are equally near to their mean, and rounding, which differs between machines, must not decide.
TIE = 1e-4

# From this many rows per landmark on, landmarks are means of groups: they carry less noise than any row. With fewer,
# most groups would be single rows.
ROWS_PER_MEAN = 2

# Rows that one thread finds the nearest medoids of at a time.
PART_ROWS = 1024


@dataclass(frozen=True)
class Groups:
    """Rows that were grouped, and the medoid of each group."""

    members: np.ndarray  # (s,) ascending
    labels: np.ndarray | None  # (s,) the group of each of them; None where only medoids are asked for
    medoids: np.ndarray  # (p,) ascending


@dataclass(frozen=True)
class MemberRows:
    """One view of the rows that are grouped, prepared."""

    rows: Table  # (s, d)
    present: np.ndarray | None  # (s,) which of them have the view; None: all


def sample_size(n_rows: int, n_landmarks: int) -> int:
    """Return how many rows are sampled to choose landmarks and scales."""
    return min(n_rows, max(LEAST_ROWS, ROWS_PER_LANDMARK * n_landmarks))


def landmark_candidates(presence: np.ndarray, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows that may become landmarks, given which row has which view (n x V).

    A landmark that lacks a view is never a neighbour in that view's graphs. So landmarks are complete rows; where those
    are too few, they are the rows with most views, plus some rows that have each view.
    """
    n_views = presence.sum(axis=1)  # (n,)
    complete = np.flatnonzero(n_views == presence.shape[1])
    if len(complete) >= min(n_landmarks, len(presence)):
        return complete
    order = np.lexsort((rng.random(len(presence)), -n_views))  # most views first
    share = n_landmarks // (2 * presence.shape[1])
    with_view = [order[presence[order, v]][:share] for v in range(presence.shape[1])]
    return np.unique(np.concatenate([order[:n_landmarks], *with_view]))


def prepare_members(
    sample: Views, preparations: Sequence[Preparation], members: np.ndarray, n_threads: int
) -> list[MemberRows]:
    """Return some rows of every view, prepared once for both grouping them and computing the groups' means."""
    chosen = sample if len(members) == sample.n_rows else sample.take(members)
    return [
        MemberRows(by_rows(preparation, block.data, n_threads), to_host(block.present))
        for block, preparation in zip(chosen.read(slice(None)), preparations, strict=True)
    ]


def side_by_side(views: Sequence[MemberRows], n_landmarks: int, device: Any, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of all views side by side, randomly projected to fewer columns where that saves work.

    A row that lacks a view gets that view's mean.
    """
    parts: list[Any] = []
    for view in views:
        rows = sketch(view.rows, PROJECTED_COLUMNS, rng) if sparse.issparse(view.rows) else view.rows  # (s, d)
        parts.append(upload_if_host(rows if view.present is None else with_mean(rows, view.present), device))
    n_columns = sum(rows.shape[1] for rows in parts)
    if len(parts[0]) * n_landmarks * n_columns > EXACT_WORK and n_columns > PROJECTED_COLUMNS:
        # Projections of the views add up to one of all of them side by side.
        return sum(project_at_random(rows, PROJECTED_COLUMNS, rng) for rows in parts)  # type: ignore[return-value]
    return array_namespace(parts[0]).concat(parts, axis=1)  # (s, sum of columns)


def with_mean(rows: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return rows with those that are not ``present`` replaced by the mean of the others."""
    known = like(present, rows, bool)  # (s,)
    mean = rows[known].mean(axis=0) if present.any() else 0.0 * rows[0]  # (d,)
    return array_namespace(rows).where(known[:, None], rows, mean)


def sketch(rows: sparse.csr_array, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Return sparse rows as dense ones, randomly projected where they have more than ``n_columns`` columns."""
    if rows.shape[1] <= n_columns:
        return rows.toarray()
    return project_at_random(rows, n_columns, rng)


def project_at_random(rows: Table, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random projection of the rows, which preserves squared distances on average."""
    directions = rng.standard_normal((rows.shape[1], n_columns)) / np.sqrt(n_columns)
    return rows @ like(directions, rows, precision_of(rows))  # (s, c)


def choose_landmarks(
    rows: np.ndarray, n_landmarks: int, how: str, rng: np.random.Generator, n_threads: int
) -> np.ndarray:
    """Return the numbers of the landmarks, ascending; fewer where fewer rows are distinct."""
    if how == "random":
        return distinct_rows(rows, rng.permutation(len(rows)), n_landmarks)
    return kmedoids(rows, n_landmarks, rng, spread_seeds=how == "kmedoids++", n_threads=n_threads)


def group_means(
    views: Sequence[MemberRows], preparations: Sequence[Preparation], groups: Groups
) -> tuple[LandmarkRows, ...]:
    """Return the means of the same groups in every view; a group that lacks a view has none there."""
    assert groups.labels is not None
    found = []
    for view, preparation in zip(views, preparations, strict=True):
        rows, labels = view.rows, groups.labels  # (s, d), (s,)
        if view.present is not None:
            rows, labels = rows[like(view.present, rows, bool)], labels[view.present]
        means, counts = means_of_groups(rows, labels, len(groups.medoids))
        known = like(counts > 0, means, bool)
        found.append(LandmarkRows(means, known & (squared_norms(means) > 0) if preparation.needs_direction else known))
    return tuple(found)


def means_of_groups(rows: Table, labels: np.ndarray, n_groups: int) -> tuple[Table, np.ndarray]:
    """Return the mean of each group, zero for an empty one, and the number of its rows.

    Examples
    --------
    >>> means, counts = means_of_groups(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 2]), 3)
    >>> means.ravel().tolist(), counts.tolist()
    ([2.0, 0.0, 5.0], [2.0, 0.0, 1.0])
    """
    if sparse.issparse(rows):
        counts = np.bincount(labels, minlength=n_groups).astype(np.float64)  # (p,)
        shares = (1 / counts[labels]).astype(rows.dtype)
        return (sparse.csr_array((shares, (labels, np.arange(len(labels)))), (n_groups, len(labels))) @ rows), counts
    means, totals = dense_means(rows, labels, n_groups)
    return means, to_host(totals)  # (p, d), (p,)


def dense_means(rows: np.ndarray, labels: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for dense rows, both where the rows are."""
    kernels = kernels_of(rows)
    sums, totals = kernels.zeros((n_groups, rows.shape[1]), rows), kernels.zeros((n_groups,), rows)
    kernels.add_groups(rows, like(labels, rows, "int64"), sums, totals)
    means = sums / array_namespace(totals).where(totals > 0, totals, 1.0)[:, None]
    return convert(means, precision_of(rows)), totals  # (p, d), (p,)


def check_landmarks(landmarks: Any, n_rows: int, least: int) -> np.ndarray:
    """Return the user's own landmarks as an array of distinct row numbers."""
    owner = "GuidedCoTraining"
    chosen = np.asarray(landmarks)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
        refuse(owner, "landmarks", "a 1-D array of row numbers", landmarks)
    if len(chosen) < least:
        refuse(owner, "landmarks", f"at least n_clusters={least} row numbers", landmarks)
    if chosen.min() < 0 or chosen.max() >= n_rows:
        refuse(owner, "landmarks", f"row numbers from 0 to {n_rows - 1}", landmarks)
    values, counts = np.unique(chosen, return_counts=True)
    if counts.max() > 1:
        refuse(owner, "landmarks", f"distinct row numbers (row {values[counts.argmax()]} is repeated)", landmarks)
    return chosen


def kmedoids(
    rows: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    spread_seeds: bool = False,
    n_threads: int = 1,
) -> np.ndarray:
    """Return the row numbers of the medoids of ``n_landmarks`` groups, ascending; fewer where fewer rows are distinct.

    For squared Euclidean distance the medoid of a group, the member with the least sum of distances to the others, is
    the member nearest to the group's mean. So a pass costs a product with the medoids, and n x n distances are never
    needed. The first medoids are drawn uniformly, or, with ``spread_seeds``, far from each other (k-medoids++).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.repeat([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]], 5, axis=0) + np.arange(15)[:, None] % 5
    >>> kmedoids(rows, 3, np.random.default_rng(0), spread_seeds=True)
    array([ 2,  7, 12])
    """
    seeds = spread_rows(rows, n_landmarks, rng) if spread_seeds else rng.permutation(len(rows))
    medoids = distinct_rows(rows, seeds, n_landmarks)
    for _ in range(MEDOID_PASSES):
        labels = nearest_medoid(rows, medoids, n_threads)
        moved = medoids_of_groups(rows, labels, len(medoids))
        if np.array_equal(moved, medoids):
            break
        medoids = moved
    return np.sort(medoids)


def spread_rows(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows far from each other, as k-means++ draws them."""
    subset = np.arange(len(rows))
    if len(rows) > SEED_ROWS_PER_LANDMARK * count:
        subset = np.sort(rng.choice(len(rows), SEED_ROWS_PER_LANDMARK * count, replace=False))
    return subset[kmeans_plus_plus(to_host(rows[subset]), draw_starts(1, count, rng, n_trials=1))[0]]


def distinct_rows(rows: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """Return the numbers of the first ``count`` distinct rows in the given order, ascending."""
    chosen = order[:count]
    firsts = first_of_equals(rows[chosen])
    if len(firsts) < count < len(order):  # search all of the order
        firsts = first_of_equals(rows[order])
        chosen = order
    return np.sort(chosen[np.sort(firsts)[:count]])


def first_of_equals(rows: np.ndarray) -> np.ndarray:
    """Return the number of the first of every set of equal rows."""
    return np.unique(to_host(rows), axis=0, return_index=True)[1]


def nearest_medoid(rows: np.ndarray, medoids: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the number of each row's nearest medoid."""
    numbers = like(medoids, rows, "int64")  # (p,)
    centers = LandmarkRows(rows[numbers], numbers >= 0)
    part_rows = len(rows) if kernels_of(rows).BATCHED else PART_ROWS

    def nearest(start: int) -> np.ndarray:
        tile = rows[start : start + part_rows]
        distances = squared_distances(tile, squared_norms(tile), centers)  # (b, p)
        return distances.argmin(axis=1)

    parts = list(in_order(nearest, range(0, len(rows), part_rows), n_threads))
    labels = array_namespace(parts[0]).concat(parts)  # (s,)
    # A medoid stays in its own group: no group is ever empty.
    labels[numbers] = like(np.arange(len(medoids)), labels)
    return labels


def medoids_of_groups(rows: np.ndarray, labels: np.ndarray, n_groups: int) -> np.ndarray:
    """Return for every group the member nearest to its mean."""
    means, _ = dense_means(rows, labels, n_groups)
    return to_host(kernels_of(rows).nearest_in_group(rows, labels, means, TIE))

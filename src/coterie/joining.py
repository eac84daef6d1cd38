"""Views -> every row joined to its nearest landmarks: preparation, landmarks and graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from coterie.arrays import to_host
from coterie.method.agreement import has_non_text_view
from coterie.method.distances import LandmarkRows
from coterie.method.graphs import (
    LOCAL,
    Block,
    GraphMap,
    OwnLandmarks,
    build_graphs,
    landmark_rows,
    lay_out_graphs,
    median_distance,
)
from coterie.method.landmarks import (
    ROWS_PER_MEAN,
    Groups,
    check_landmarks,
    choose_landmarks,
    group_means,
    landmark_candidates,
    nearest_medoid,
    prepare_members,
    sample_size,
    side_by_side,
)
from coterie.method.novelty import NoveltyScale, familiarity_of, learn_novelty
from coterie.method.sharing import shared_preparations
from coterie.placement import Placement
from coterie.progress import Progress, Stopwatch
from coterie.rows import Rows
from coterie.rows.sampling import draw_sample
from coterie.settings import Settings
from coterie.threads import in_order
from coterie.validation import warn_caller
from coterie.views import (
    Preparation,
    Views,
    check_any_view,
    check_finite_rows,
    check_overlap,
    prepare,
    within_float_range,
)


@dataclass(frozen=True)
class Graphs:
    """Every row joined to its nearest landmarks: the input of the rounds."""

    rows: Rows  # blocks of neighbours
    landmark_block: Block  # the landmarks' own neighbours
    graph_map: GraphMap
    landmarks: np.ndarray  # (p,) row numbers
    shared: bool  # whether views were reduced to the directions that they share
    novelty_scale: NoveltyScale | None  # quantiles of distances to landmarks
    familiarity: Any  # (n,) factor of the rows' confidence


@dataclass(frozen=True)
class Landmarks:
    """The landmarks that rows are joined to."""

    numbers: np.ndarray  # (p,) of the rows that are landmarks, or the medoids of the groups whose means are
    rows: tuple[LandmarkRows, ...]  # one per view
    own: OwnLandmarks  # of the sample's rows


@dataclass(frozen=True)
class PreparedSample:
    """A sample of raw rows that landmarks are chosen from, and the preparations of all rows' views."""

    numbers: np.ndarray  # (s,) ascending
    views: Views
    preparations: tuple[Preparation, ...]
    shared: bool = False  # whether views are reduced to the directions that they share
    landmarks: Landmarks | None = None  # if they have been chosen already


def prepare_sample(views: Views, settings: Settings, rng: np.random.Generator, progress: Progress) -> PreparedSample:
    """Draw a sample of rows, and learn every view's preparation from it."""
    numbers = draw_sample(views.n_rows, sample_size(views.n_rows, settings.landmarks.wanted), rng)
    sample = views.take(numbers, settings.n_threads if views.device is None else 1)
    check_any_view([view.present for view in sample], numbers)
    check_overlap(sample if views.may_lack else views, settings.least_clusters)
    with progress.stage("preparation"):
        return PreparedSample(numbers, sample, tuple(prepare_views(sample, numbers, settings, rng)))


def share_directions(
    sample: PreparedSample, settings: Settings, rng: np.random.Generator, progress: Progress
) -> PreparedSample | None:
    """Reduce the views to the directions that they share; None if none is beyond chance, or all is text or links.

    In views of words, the rare words that only a few texts have in common are directions that all views share.
    """
    if not has_non_text_view(sample.preparations):
        return None
    with progress.stage("preparation"):
        blocks = sample.views.read(slice(None))
        k, n_threads = settings.most_clusters, settings.n_threads
        found = shared_preparations(blocks, sample.preparations, k, rng, n_threads)
    return None if found is None else replace(sample, preparations=tuple(found), shared=True, landmarks=None)


def join(
    views: Views,
    sample: PreparedSample,
    settings: Settings,
    placement: Placement,
    rng: np.random.Generator,
    progress: Progress,
) -> Graphs:
    """Choose landmarks, and join every row to its nearest ones."""
    with progress.stage("landmarks"):
        landmarks = sample.landmarks or settle_landmarks(views, sample, settings, rng)
        graph_map = lay_out(views.n_rows, sample, landmarks.rows, settings, rng)
    with progress.stage("graphs", f"{views.n_rows} rows, {len(landmarks.numbers)} landmarks"):
        if views.device is not None:
            graph_map = graph_map.on(views.device)
        scale = learn_novelty(graph_map, sample.views, landmarks.own, settings.n_threads)
        rows = join_rows(views, sample, graph_map, scale, settings, placement, progress)
        known = rows.collect(lambda block: block.familiarity)  # (n,)
        joined = graph_map.connect_landmarks(settings.n_threads)
        return Graphs(rows, joined, graph_map, landmarks.numbers, sample.shared, scale, known)


def prepare_views(
    sample: Views, numbers: np.ndarray, settings: Settings, rng: np.random.Generator
) -> list[Preparation]:
    """Return every view's preparation, learned from a sample of rows; ``numbers`` are for error messages."""
    wanted = settings.preparation
    blocks = sample.read(slice(None))
    # On a GPU one view after the other: every thread would initialise the GPU's libraries for itself.
    n_threads = settings.n_threads if sample.device is None else 1
    seeds = [int(rng.integers(2**31)) for _ in blocks]

    def learn(v: int) -> Preparation:
        name, block = sample[v].name, blocks[v]
        check_finite_rows(name, block.data, block.present, numbers, n_threads, sample[v].columns)
        return prepare(
            block.known(),
            scaling=wanted.scalings[v],
            metric=wanted.metrics[v],
            n_clusters=settings.most_clusters,
            dtype=wanted.dtype,
            seed=seeds[v],
            name=name,
            n_threads=n_threads,
        )

    preparations = list(in_order(learn, range(len(blocks)), n_threads))
    return within_float_range(preparations, [scaling == "none" for scaling in wanted.scalings], blocks, n_threads)


def settle_landmarks(views: Views, sample: PreparedSample, settings: Settings, rng: np.random.Generator) -> Landmarks:
    """Return the landmarks for all rows of ``views``."""
    if settings.landmarks.method == "given":
        return given_landmarks(views, sample, settings)
    present = 1.0 if views.complete and sample.views.complete else float(sample.views.presence().mean())
    return find_landmarks(sample, settings.landmarks.count(present), settings, rng)


def given_landmarks(views: Views, sample: PreparedSample, settings: Settings) -> Landmarks:
    """Return the landmarks that the user chose."""
    least = 1 if settings.n_clusters is None else settings.n_clusters
    numbers = check_landmarks(settings.landmarks.given, views.n_rows, least)
    known = {int(row): j for j, row in enumerate(numbers)}
    own = np.array([known.get(int(row), -1) for row in sample.numbers])  # (s,)
    rows = landmark_rows(views.take(numbers), sample.preparations)
    return Landmarks(numbers, rows, OwnLandmarks(own, np.ones_like(own)))


def find_landmarks(sample: PreparedSample, n_landmarks: int, settings: Settings, rng: np.random.Generator) -> Landmarks:
    """Return the means of groups of near rows, or the groups' medoids where groups are small, or as published."""
    able = landmark_candidates(sample.views.presence(), n_landmarks, rng)
    prepared = prepare_members(sample.views, sample.preparations, able, settings.n_threads)
    rows = side_by_side(prepared, n_landmarks, sample.views.device, rng)  # (s, d)
    groups = group_rows(able, rows, n_landmarks, settings, rng)
    own, makers = np.full(sample.views.n_rows, -1), np.ones(sample.views.n_rows, dtype=np.int64)  # (s,), (s,)
    if groups.labels is None:
        own[groups.medoids] = np.arange(len(groups.medoids))
        landmarks = landmark_rows(sample.views.take(groups.medoids), sample.preparations)
    else:
        own[groups.members] = groups.labels
        makers[groups.members] = np.bincount(groups.labels)[groups.labels]
        landmarks = group_means(prepared, sample.preparations, groups)
    return Landmarks(sample.numbers[groups.medoids], landmarks, OwnLandmarks(own, makers))


def group_rows(
    able: np.ndarray, rows: np.ndarray, n_landmarks: int, settings: Settings, rng: np.random.Generator
) -> Groups:
    """Return groups of near rows, one per landmark; ``able`` (s,) are the numbers of the ``rows`` (s x d)."""
    chosen = choose_landmarks(rows, n_landmarks, settings.landmarks.method, rng, settings.n_threads)
    if settings.n_clusters is not None and len(chosen) < settings.n_clusters:
        raise ValueError(
            f"X has {len(chosen)} distinct rows, fewer than n_clusters={settings.n_clusters}. Ask for fewer clusters."
        )
    if len(chosen) < n_landmarks and not settings.landmarks.grows:
        warn_caller(
            f"Only {len(chosen)} rows are distinct, so there are {len(chosen)} landmarks instead of {n_landmarks}."
        )
    if not settings.landmarks.means or len(able) < ROWS_PER_MEAN * len(chosen):
        return Groups(able, None, able[chosen])
    return Groups(able, to_host(nearest_medoid(rows, chosen, settings.n_threads)), able[chosen])


def lay_out(
    n_rows: int,
    sample: PreparedSample,
    landmarks: Sequence[LandmarkRows],
    settings: Settings,
    rng: np.random.Generator,
) -> GraphMap:
    """Return the map from a row's views to its neighbours among the landmarks."""
    wanted = settings.graphs
    scales = wanted.neighbors(settings.owner, len(landmarks[0].present), n_rows)
    bandwidths = [
        find_bandwidth(bandwidth, sample.preparations[v], partial(sample.views.read_view, v, slice(None)), rng)
        for v, bandwidth in enumerate(wanted.bandwidths)
    ]
    return lay_out_graphs(
        sample.views.names,
        landmarks,
        sample.preparations,
        bandwidths,
        scales,
        shared=wanted.shared,
        concatenation=wanted.concatenation,
        precision=wanted.precision,
    )


def find_bandwidth(wanted: Any, preparation: Preparation, read: Callable[[], Any], rng: np.random.Generator) -> float:
    """Return sigma of one view's Gaussian weights, in units of prepared rows."""
    if isinstance(wanted, str):
        return LOCAL if wanted == "local" else median_distance(read().known(), rng, preparation)
    unit = preparation.factor if preparation.kind == "raw" else 1.0
    return max(float(wanted) * unit, np.finfo(float).tiny)  # 0 would be LOCAL


def join_rows(
    views: Views,
    sample: PreparedSample,
    graph_map: GraphMap,
    scale: NoveltyScale | None,
    settings: Settings,
    placement: Placement,
    progress: Progress,
) -> Rows:
    """Return all rows' neighbours and familiarity, by the only pass over the raw rows."""
    watch = Stopwatch()
    n_components = settings.rounds.n_components or settings.most_clusters
    kept_bytes = graph_map.row_bytes + graph_map.dtype.itemsize * n_components
    raw = placement.raw_rows(views, settings.plan, kept_bytes, (sample.numbers, sample.views))
    joined = build_graphs(raw, graph_map, partial(familiarity_of, graph_map=graph_map, scale=scale), watch)
    progress.add("graphs", watch, settings.n_threads)
    return joined

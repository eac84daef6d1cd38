"""The method as a table of contents: views and settings -> a fitted model.

Every stage is a function of what the stages before it returned; nothing is published before all are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coterie.arrays import array_namespace, to_host
from coterie.method.assignment import Census, assign, count_clusters, fit_centroids, merge_censuses
from coterie.method.cotraining import (
    CoTraining,
    CoTrainingSettings,
    Round,
    cotrain,
    graph_agreement,
    pairwise_agreement,
)
from coterie.method.explanation import EXPLAINED_ROWS, cluster_agreement, find_view_centroids
from coterie.method.graphs import (
    LOCAL,
    Block,
    GraphMap,
    build_graphs,
    host_block,
    lay_out_graphs,
    median_distance,
)
from coterie.method.landmarks import (
    check_landmarks,
    choose_landmarks,
    concatenated_sample,
    landmark_candidates,
    sample_size,
)
from coterie.method.novelty import NoveltyScale, learn_novelty
from coterie.method.rowmap import RowMap, follow
from coterie.method.selection import KSuggestion, suggest_from_graphs
from coterie.method.stability import Stability, landmark_stability
from coterie.model import Fitted
from coterie.placement import Placement
from coterie.progress import Progress, Stopwatch
from coterie.rows import Rows
from coterie.rows.sampling import draw_sample, sample_rows
from coterie.settings import Settings
from coterie.threads import in_order
from coterie.validation import must_be_finite, warn_caller
from coterie.views import (
    Preparation,
    Shape,
    Views,
    check_finite_rows,
    check_overlap,
    prepare,
    within_float_range,
)


@dataclass(frozen=True)
class Graphs:
    """Every row joined to its nearest landmarks: what the rounds start from."""

    rows: Rows  # blocks of neighbours
    landmark_block: Block  # the landmarks' own neighbours
    graph_map: GraphMap
    landmarks: np.ndarray  # (p,) row numbers
    novelty_scale: NoveltyScale | None = None  # what distances to landmarks are usual


@dataclass(frozen=True)
class ClusterCount:
    """The number of clusters, and the evidence for it where it was not given."""

    k: int
    suggestion: KSuggestion | None = None


@dataclass(frozen=True)
class UnguidedSample:
    """Some rows, joined to landmarks as each view alone sees them: before any guiding."""

    numbers: np.ndarray  # (s,) ascending
    block: Block


@dataclass(frozen=True)
class Embedding:
    """What the rounds learned, and all rows in the embedding that it gives them."""

    training: CoTraining
    row_map: RowMap
    rows: Rows  # blocks (b, c) of unit rows
    n_learned: int  # rows that the rounds learned from


@dataclass(frozen=True)
class Assignment:
    """Centroids, and the cluster of every row."""

    centroids: np.ndarray  # (k, c)
    rows: Rows  # blocks of labels and distances
    labels: Any  # (n,)
    confidence: Any  # (n,)
    embedding: Any  # (n, c), or None
    census: Census
    n_zero: int  # rows without a direction in the embedding


@dataclass(frozen=True)
class Solution:
    """What one way to merge and guide the graphs leads to."""

    embedding: Embedding
    assignment: Assignment


@dataclass(frozen=True)
class Explanation:
    """The clusters as each view alone sees them."""

    view_centroids: np.ndarray  # (V, k, c)
    agreement: np.ndarray  # (k, V)


def fit_views(
    views: Views, settings: Settings, placement: Placement, rng: np.random.Generator, progress: Progress
) -> Fitted:
    """Cluster the rows of views.

    Parameters
    ----------
    views : Views
        With the device that their rows are worked on.
    settings : Settings
        What :func:`coterie.settings.settle` returned for these views.
    placement : Placement
        Where rows are kept meanwhile.
    rng : numpy.random.Generator
        What everything is drawn from.
    progress : Progress
        Is told of every stage.

    Returns
    -------
    Fitted
    """
    graphs = make_graphs(views, settings, placement, rng, progress)
    with progress.stage("n_clusters"):
        clusters = settle_k(graphs, settings, rng)
    sample = draw_unguided(graphs, rng)
    rounds = settings.rounds.for_graphs([graph.view for graph in graphs.graph_map.graphs], clusters.k)
    solution = solve(graphs, rounds, clusters.k, settings, rng, progress, consume=True)
    warn_of_oddities(solution.assignment)
    with progress.stage("explanation"):
        labels = solution.assignment.rows.take(sample.numbers).labels
        explanation = explain_clusters(sample, labels, solution.embedding.row_map, clusters.k)
    stability = None
    if settings.measure_stability:
        with progress.stage("stability"):
            stability = measure_stability(sample, labels, solution.embedding, rounds, clusters.k, rng)
    return make_fitted(views, graphs, clusters, solution, explanation, stability, progress.finish())


# -- views -> graphs ----------------------------------------------------------------------------------------------


def make_graphs(
    views: Views, settings: Settings, placement: Placement, rng: np.random.Generator, progress: Progress
) -> Graphs:
    """Prepare the views, choose landmarks, and join every row to its nearest ones."""
    numbers = draw_sample(views.n_rows, sample_size(views.n_rows, settings.landmarks.wanted), rng)
    sample = views.take(numbers)
    check_overlap(sample if views.may_lack else views, settings.least_clusters)
    present = 1.0 if views.complete and sample.complete else float(sample.presence().mean())
    with progress.stage("preparation"):
        preparations = prepare_views(sample, numbers, settings, rng)
    with progress.stage("landmarks"):
        if settings.landmarks.method == "given":
            least = 1 if settings.n_clusters is None else settings.n_clusters
            landmarks = check_landmarks(settings.landmarks.given, views.n_rows, least)
            landmark_views = views.take(landmarks)
        else:
            chosen = pick_landmarks(sample, preparations, settings.landmarks.count(present), settings, rng)
            landmarks, landmark_views = numbers[chosen], sample.take(chosen)
        graph_map = lay_out(views.n_rows, preparations, sample, landmark_views, settings, rng)
    with progress.stage("graphs", f"{views.n_rows} rows, {len(landmarks)} landmarks"):
        if views.device is not None:
            graph_map = graph_map.on(views.device)
        rows = join_rows(views, graph_map, settings, placement, progress)
        scale = learn_novelty(graph_map, sample, numbers, landmarks)
        return Graphs(rows, graph_map.connect(landmark_views.read(slice(None))), graph_map, landmarks, scale)


def prepare_views(
    sample: Views, numbers: np.ndarray, settings: Settings, rng: np.random.Generator
) -> list[Preparation]:
    """Return what is done to every view, found from a sample of rows; ``numbers`` are for error messages."""
    wanted = settings.preparation
    blocks = sample.read(slice(None))
    jobs = []
    for view, block, scaling, metric in zip(sample, blocks, wanted.scalings, wanted.metrics, strict=True):
        check_finite_rows(view.name, block.data, block.present, numbers)
        choices: dict[str, Any] = {"scaling": scaling, "metric": metric, "seed": int(rng.integers(2**31))}
        choices["name"] = view.name
        jobs.append(partial(prepare, block.known(), n_clusters=settings.most_clusters, dtype=wanted.dtype, **choices))
    preparations = list(in_order(lambda job: job(), jobs, settings.n_threads))
    return within_float_range(preparations, [scaling == "none" for scaling in wanted.scalings], blocks)


def pick_landmarks(
    sample: Views,
    preparations: Sequence[Preparation],
    n_landmarks: int,
    settings: Settings,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return which rows of the sample are landmarks."""
    able = landmark_candidates(sample.presence(), n_landmarks, rng)
    rows = concatenated_sample(sample.take(able), preparations, n_landmarks, rng, settings.n_threads)  # (s, d)
    chosen = choose_landmarks(rows, n_landmarks, settings.landmarks.method, rng, settings.n_threads)
    if settings.n_clusters is not None and len(chosen) < settings.n_clusters:
        raise ValueError(
            f"X has {len(chosen)} distinct rows, fewer than n_clusters={settings.n_clusters}. Ask for fewer clusters."
        )
    if len(chosen) < n_landmarks and not settings.landmarks.grows:
        warn_caller(
            f"Only {len(chosen)} rows are distinct, so there are {len(chosen)} landmarks instead of {n_landmarks}."
        )
    return able[chosen]


def lay_out(
    n_rows: int,
    preparations: Sequence[Preparation],
    sample: Views,
    landmarks: Views,
    settings: Settings,
    rng: np.random.Generator,
) -> GraphMap:
    """Return the map from a row's views to its neighbours among the landmarks."""
    wanted = settings.graphs
    scales = wanted.neighbors(settings.owner, landmarks.n_rows, n_rows)
    bandwidths = [
        find_bandwidth(bandwidth, preparations[v], partial(sample.read_view, v, slice(None)), rng)
        for v, bandwidth in enumerate(wanted.bandwidths)
    ]
    return lay_out_graphs(
        landmarks,
        preparations,
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


def join_rows(views: Views, graph_map: GraphMap, settings: Settings, placement: Placement, progress: Progress) -> Rows:
    """Return all rows' neighbours: the one pass over the raw rows."""
    watch = Stopwatch()
    n_components = settings.rounds.n_components or settings.most_clusters
    kept_bytes = graph_map.row_bytes + graph_map.dtype.itemsize * n_components
    joined = build_graphs(placement.raw_rows(views, settings.plan, kept_bytes), graph_map, watch)
    progress.add("graphs", watch, settings.n_threads)
    return joined


# -- graphs -> clusters -------------------------------------------------------------------------------------------


def settle_k(graphs: Graphs, settings: Settings, rng: np.random.Generator) -> ClusterCount:
    """Return the number of clusters that was given, or the one with the strongest evidence."""
    if settings.n_clusters is not None:
        return ClusterCount(settings.n_clusters)
    most = min(settings.most_clusters, len(graphs.landmarks) - 1)
    if most < 2:
        raise ValueError(f"X has {len(graphs.landmarks)} distinct rows, too few to choose n_clusters by. Set it.")
    found = suggest_from_graphs(graphs.rows, graphs.graph_map, k_max=most, rng=rng, n_threads=settings.n_threads)
    if not found.is_clear:
        warn_caller(
            f"The data does not speak clearly for any number of clusters; {found.best} was taken. "
            "Look at k_suggestion_, and set n_clusters yourself."
        )
    return ClusterCount(found.best, found)


def draw_unguided(graphs: Graphs, rng: np.random.Generator) -> UnguidedSample:
    """Draw rows whose neighbours are kept as they are before any guiding."""
    numbers = draw_sample(graphs.rows.n_rows, EXPLAINED_ROWS, rng)
    return UnguidedSample(numbers, graphs.rows.take(numbers))


def solve(
    graphs: Graphs,
    rounds: CoTrainingSettings,
    k: int,
    settings: Settings,
    rng: np.random.Generator,
    progress: Progress,
    *,
    learned: Rows | None = None,
    consume: bool = False,
) -> Solution:
    """Merge and guide the graphs, embed all rows, and cut the embedding into k clusters.

    ``learned`` are the rows that the rounds learn from; None draws a sample. Unless ``consume``, they and the graphs'
    rows are left as they are: the same graphs can be solved again, with other settings of the rounds. To solve them for
    some rows alone, replace the graphs' rows by those.
    """
    with progress.stage("rounds"):
        if learned is None:
            learned = learned_rows(graphs, settings, rng)
        training = learn(graphs, learned, rounds, progress, consume=consume)
    with progress.stage("assignment"):
        embedding = embed(graphs, learned, training, consume=consume)
        return Solution(embedding, assign_rows(embedding.rows, k, settings, rng))


def learned_rows(graphs: Graphs, settings: Settings, rng: np.random.Generator) -> Rows:
    """Return the rows that the rounds learn from: a sample, or the graphs' own rows where those are few."""
    size = settings.learned_rows(graphs.rows.n_rows, len(graphs.landmarks))
    return sample_rows(graphs.rows, size, rng, settings.n_threads)


def learn(
    graphs: Graphs, learned: Rows, rounds: CoTrainingSettings, progress: Progress, *, consume: bool = False
) -> CoTraining:
    """Run the rounds. Unless they are consumed, ``learned`` can be used again: by other settings of the rounds."""

    def report(number: int, line: Round) -> None:
        progress.say(round_in_words(number, line))

    return cotrain(learned, graphs.landmark_block, graphs.graph_map.bounds, rounds, report, consume=consume)


def embed(graphs: Graphs, learned: Rows, training: CoTraining, *, consume: bool = False) -> Embedding:
    """Return the embedding of all rows; unless they are consumed, the graphs' rows can be used again."""
    row_map = RowMap(graphs.graph_map, training.guides, training.view.basis)
    own = learned is graphs.rows  # all rows took part in the rounds, and are guided already
    to_embedding = partial(  # without the landmarks, which need not travel to wherever the rows are
        follow, guides=() if own else row_map.guides, basis=row_map.basis, bounds=graphs.graph_map.bounds
    )
    rows = training.rows if own else graphs.rows
    ours = rows is not graphs.rows  # guided rows are nobody else's
    embedded = rows.replace(to_embedding) if consume or ours else rows.map(to_embedding)  # (b, c)
    return Embedding(training, row_map, embedded, learned.n_rows)


def assign_rows(rows: Rows, k: int, settings: Settings, rng: np.random.Generator) -> Assignment:
    """Cut the embedding, which the rows are blocks of, into clusters."""
    centroids = fit_centroids(
        rows, k, method=settings.assign_labels, n_init=settings.n_init, rng=rng, n_threads=settings.n_threads
    )
    found = rows.map(partial(assign, centroids=centroids))
    labels = found.collect(lambda part: part.labels)
    confidence = found.collect(lambda part: part.confidence)
    census = merge_censuses(found.each(partial(count_clusters, n_clusters=k)))
    must_be_finite("assignment", centroids, census.confidence)
    n_zero = int(rows.sum(count_zero_rows, lambda: (np.zeros(1, dtype=np.int64),))[0][0])
    embedding = rows.collect(lambda block: block) if settings.store_embedding else None
    return Assignment(centroids, found, labels, confidence, embedding, census, n_zero)


def warn_of_oddities(found: Assignment) -> None:
    """Warn of rows without a direction, and of empty clusters."""
    if found.n_zero:
        warn_caller(
            f"{found.n_zero} rows have no place in the embedding, so their labels are arbitrary and their confidence "
            "is 0: they are all zero, or in pieces of the graphs that the clusters leave no room for. More clusters "
            "or neighbours may help."
        )
    used, k = int((found.census.sizes > 0).sum()), len(found.census.sizes)
    if used < k:
        warn_caller(f"Only {used} of {k} clusters hold rows: the embedding tells no more apart.")


def count_zero_rows(block: np.ndarray, total: tuple[np.ndarray]) -> None:
    """Add the number of rows without a direction."""
    xp = array_namespace(block)
    total[0][0] += int(xp.sum(xp.astype(xp.all(block == 0, axis=1), xp.int64)))


def explain_clusters(sample: UnguidedSample, labels: Any, row_map: RowMap, k: int) -> Explanation:
    """Return the clusters as each view alone sees them, given the labels of the sample."""
    centroids = find_view_centroids(sample.block, labels, row_map, k)
    return Explanation(centroids, cluster_agreement(sample.block, labels, row_map, centroids))


def measure_stability(
    sample: UnguidedSample,
    labels: Any,
    embedding: Embedding,
    rounds: CoTrainingSettings,
    k: int,
    rng: np.random.Generator,
) -> Stability:
    """Return how far the clusters depend on the draw of landmarks, given the labels of the sample."""
    bounds = embedding.row_map.graph_map.bounds
    block = host_block(sample.block, bounds)
    return landmark_stability(block, to_host(labels), embedding.training.first_view, bounds, rounds, k, rng)


# -- what is published --------------------------------------------------------------------------------------------


def make_fitted(
    views: Views,
    graphs: Graphs,
    clusters: ClusterCount,
    solution: Solution,
    explanation: Explanation,
    stability: Stability | None,
    timings: dict[str, float],
) -> Fitted:
    """Return everything that was found as one model."""
    embedding, assignment = solution.embedding, solution.assignment
    training, graph_map = embedding.training, graphs.graph_map
    last, first = training.view, training.first_view
    return Fitted(
        row_map=to_host(embedding.row_map),
        shapes=tuple(Shape.of(view) for view in views),
        groups=None,
        view_centroids=explanation.view_centroids,
        novelty_scale=graphs.novelty_scale,
        # Before guiding: afterwards even noise agrees with what guided it.
        agreement=graph_map.mean_by_view(graph_agreement(first)),
        cluster_agreement=explanation.agreement,
        cluster_centers=assignment.centroids,
        # As if all rows had been learned from: squares add up over rows.
        consensus_singular_values=last.consensus.singular_values * np.sqrt(views.n_rows / embedding.n_learned),
        graph_agreement=pairwise_agreement(first),
        history=[vars(line) for line in training.history],
        landmark_indices=graphs.landmarks,
        medoid_indices=assignment.census.medoids,
        n_clusters=len(assignment.centroids),
        n_iter=len(training.history),
        preparation={name: own.describe() for name, own in zip(views.names, graph_map.preparations, strict=True)},
        singular_values={
            name: to_host(spectrum.singular_values)
            for name, spectrum in zip(graph_map.graph_names(), last.spectra, strict=True)
        },
        timings=timings,
        view_names=views.names,
        view_weights=graph_map.mean_by_view(last.graphs.weights),
        cluster_sizes=assignment.census.sizes,
        cluster_stability=None if stability is None else stability.clusters,
        k_suggestion=clusters.suggestion,
        stability=None if stability is None else stability.overall,
        n_rows=views.n_rows,
        labels=assignment.labels,
        confidence=assignment.confidence,
        embedding=assignment.embedding,
        row_ids=views.ids,
    )


def round_in_words(number: int, line: Round) -> str:
    """Return one round as a line of progress."""
    change = "" if np.isnan(line.change) else f"change {line.change:.4f}, "
    return f"round {number:<6}{line.seconds:8.2f} s  {change}agreement {line.agreement:.3f}"

"""The method from beginning to end: views and settings -> a fitted model.

Every stage is a function of the results of the stages before it; nothing is published before all are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from coterie.arrays import to_host
from coterie.joining import Graphs, PreparedSample, join, prepare_sample, settle_landmarks, share_directions
from coterie.method import candidates
from coterie.method.agreement import has_non_text_view
from coterie.method.assignment import (
    AssignedRows,
    Census,
    assign_with_confidence,
    count_clusters,
    fit_centroids,
    merge_censuses,
)
from coterie.method.candidates import Candidate
from coterie.method.cotraining import (
    AugmentedView,
    CoTraining,
    CoTrainingSettings,
    Round,
    cotrain,
    graph_agreement,
    pairwise_agreement,
)
from coterie.method.explanation import EXPLAINED_ROWS, Explanation, explain
from coterie.method.graphs import Block, host_block
from coterie.method.rowmap import RowMap, follow, unit_embedding
from coterie.method.selection import KSuggestion, suggest_from_graphs
from coterie.method.stability import Stability, chance_of, landmark_stability
from coterie.model import Fitted
from coterie.placement import Placement
from coterie.progress import Progress
from coterie.rows import Rows
from coterie.rows.sampling import draw_sample, sample_rows
from coterie.settings import PILOTED_FROM, Settings
from coterie.validation import must_be_finite, warn_caller
from coterie.views import Shape, Views

# Where stability is below STEADY and agreement below PREDICTED, a fit in the directions that views share is tried. It
# is taken if its stability is higher by CLEARLY_STEADIER, and its disagreement (1 - agreement) is below
# LESS_DISAGREEMENT times that of the first fit: in fewer columns clusters replicate better in any case.
STEADY = 0.9
PREDICTED = 0.65
CLEARLY_STEADIER = 0.05
LESS_DISAGREEMENT = 0.9

# Up to this many rows, all candidates go through their rounds where the first round is ambiguous. With more rows the
# first round decides: it is as reliable there, and more rounds would take most of the time.
CONTESTED_ROWS = 20_000


@dataclass(frozen=True)
class ClusterCount:
    """The number of clusters, and the evidence for it where it was not given."""

    k: int
    suggestion: KSuggestion | None = None


@dataclass(frozen=True)
class UnguidedSample:
    """Some rows' neighbours and weights in every graph, before any guiding."""

    numbers: np.ndarray  # (s,) ascending
    block: Block


@dataclass(frozen=True)
class Choice:
    """How the graphs are merged and guided."""

    name: str  # of the basis
    rounds: CoTrainingSettings
    candidate: Candidate | None = None  # the candidate that was chosen; None where there was no choice


@dataclass(frozen=True)
class Cut:
    """The result of merging and guiding the graphs by one choice: the row map, the embedding and its centroids."""

    choice: Choice
    training: CoTraining
    row_map: RowMap
    rows: Rows  # blocks (b, c): the embedding of the rows that the rounds learned from
    centroids: np.ndarray  # (k, c)
    agreement: float  # how well each view's neighbours predict the clusters; nan where there was no choice


@dataclass(frozen=True)
class Assignment:
    """The cluster of every row."""

    rows: Rows  # blocks of labels and distances
    labels: Any  # (n,)
    confidence: Any  # (n,)
    embedding: Any  # (n, c), or None
    census: Census


@dataclass(frozen=True)
class Evidence:
    """How reliable clusters are."""

    stability: float  # how far they replicate with other landmarks
    agreement: float  # how well each view's neighbours predict them; nan where there was no choice


@dataclass(frozen=True)
class GraphFit:
    """The graphs of one preparation of the views, and all results from them."""

    graphs: Graphs
    clusters: ClusterCount
    weighed: tuple[Candidate, ...]  # the candidates; empty where there was no choice
    cut: Cut
    assignment: Assignment
    explanation: Explanation
    stability: Stability | None

    @property
    def evidence(self) -> Evidence:
        """How reliable the clusters are; stability counts as 1 where it was not measured."""
        return Evidence(1.0 if self.stability is None else self.stability.overall, self.cut.agreement)


def fit_views(
    views: Views, settings: Settings, placement: Placement, rng: np.random.Generator, progress: Progress
) -> Fitted:
    """Cluster the rows of views.

    Parameters
    ----------
    views : Views
        The views, with the device that processes their rows.
    settings : Settings
        The result of :func:`coterie.settings.settle` for these views.
    placement : Placement
        Where rows are stored during the fit.
    rng : numpy.random.Generator
        The source of all random draws.
    progress : Progress
        Times and reports the stages.

    Returns
    -------
    Fitted
    """
    sample = prepare_sample(views, settings, rng, progress)
    piloted = views.n_rows >= PILOTED_FROM and settings.n_clusters is not None
    if piloted and settings.may_share and settings.measure_stability:
        with progress.stage("pilot"):
            sample = pilot(views, sample, settings, rng)
    tried = [fit_graphs(join(views, sample, settings, placement, rng, progress), settings, rng, progress)]
    if not piloted and settings.may_share and is_doubtful(tried[0].evidence):
        shared = share_directions(sample, settings, rng, progress)
        if shared is not None:
            tried.append(fit_graphs(join(views, shared, settings, placement, rng, progress), settings, rng, progress))
    found = better_fit(tried)
    warn_of_oddities(found.assignment)
    warn_of_chance(found.stability)
    return make_fitted(views, found, candidate_records(tried, found), progress.finish())


def fit_graphs(graphs: Graphs, settings: Settings, rng: np.random.Generator, progress: Progress) -> GraphFit:
    """Cluster the rows of graphs; the graphs' blocks are consumed."""
    with progress.stage("n_clusters"):
        clusters = settle_k(graphs, settings, rng)
    sample = draw_unguided(graphs, rng)
    with progress.stage("candidates"):
        learned = learned_rows(graphs, settings, rng)
        weighed = first_candidates(graphs, learned, sample, settings, clusters.k, rng)
    with progress.stage("rounds"):
        if weighed:
            weighed = guide_candidates(graphs, learned, weighed, sample, settings, clusters.k, rng, progress)
        choice = choose_basis(graphs, weighed, settings, clusters.k)
        training = run_rounds(graphs, learned, choice, progress)
    with progress.stage("centroids"):
        cut = cut_graphs(graphs, learned, choice, training, sample, settings, clusters.k, rng)
    with progress.stage("assignment"):
        assignment = assign_rows(graphs, learned, cut, settings)
    with progress.stage("explanation"):
        labels = assignment.rows.take(sample.numbers).labels
        explanation = explain(sample.block, labels, cut.row_map, clusters.k, settings.n_threads)
    stability = None
    if settings.measure_stability:
        with progress.stage("stability"):
            rounds, first_view = cut.choice.rounds, cut.training.first_view
            stability = measure_stability(sample, labels, graphs, first_view, rounds, clusters.k, rng)
    return GraphFit(graphs, clusters, weighed, cut, assignment, explanation, stability)


def pilot(views: Views, sample: PreparedSample, settings: Settings, rng: np.random.Generator) -> PreparedSample:
    """Return the sample with landmarks, reduced to the directions that views share if those are clearly better.

    With many rows this is decided on the sample beforehand, so that all rows are joined only once, to its landmarks.
    """
    sample = replace(sample, landmarks=settle_landmarks(views, sample, settings, rng))
    own = pilot_evidence(sample, settings, rng, enough=PREDICTED)
    if not is_doubtful(own):
        return sample
    shared = share_directions(sample, settings, rng, Progress(verbose=False))
    if shared is None:
        return sample
    shared = replace(shared, landmarks=settle_landmarks(views, shared, settings, rng))
    return shared if is_clearly_better(pilot_evidence(shared, settings, rng), own) else sample


def pilot_evidence(
    sample: PreparedSample, settings: Settings, rng: np.random.Generator, *, enough: float = np.inf
) -> Evidence:
    """Return the evidence for the clusters of the sample's rows after the first round.

    Stability is not measured, and counts as 1, where the views' agreement is at least ``enough``.
    """
    with ExitStack() as stack:
        placement, progress = Placement(stack), Progress(verbose=False)
        graphs = join(sample.views, sample, settings, placement, rng, progress)
        unguided, k = draw_unguided(graphs, rng), settings.most_clusters
        weighed = first_candidates(graphs, graphs.rows, unguided, settings, k, rng)
        choice = choose_basis(graphs, weighed, settings, k)
        best = choice.candidate
        if best is None or best.agreement >= enough:  # one cluster, or enough agreement
            return Evidence(1.0, 1.0 if best is None else best.agreement)
        stability = measure_stability(unguided, best.labels, graphs, best.view, choice.rounds, k, rng)
        return Evidence(stability.overall, best.agreement)


def is_doubtful(found: Evidence) -> bool:
    """Whether stability and agreement are both so low that the directions that views share are worth a try."""
    return found.stability < STEADY and found.agreement < PREDICTED


def is_clearly_better(found: Evidence, other: Evidence) -> bool:
    """Whether both stability and agreement are better than those of ``other`` by more than chance."""
    fewer = 1 - found.agreement < LESS_DISAGREEMENT * (1 - other.agreement)
    return fewer and found.stability > other.stability + CLEARLY_STEADIER


def better_fit(tried: Sequence[GraphFit]) -> GraphFit:
    """Return the first fit, unless the last is clearly better."""
    return tried[-1] if is_clearly_better(tried[-1].evidence, tried[0].evidence) else tried[0]


# -- graphs -> clusters -------------------------------------------------------------------------------------------


def settle_k(graphs: Graphs, settings: Settings, rng: np.random.Generator) -> ClusterCount:
    """Return the number of clusters that was given, or the one with the strongest evidence."""
    if settings.n_clusters is not None:
        return ClusterCount(settings.n_clusters)
    found = suggest_from_graphs(
        graphs.rows, graphs.graph_map, k_max=settings.most_clusters, rng=rng, n_threads=settings.n_threads
    )
    if not found.is_clear:
        warn_caller(
            f"No number of clusters has clear evidence; {found.best} was taken. "
            "Look at k_suggestion_, and set n_clusters yourself."
        )
    return ClusterCount(found.best, found)


def draw_unguided(graphs: Graphs, rng: np.random.Generator) -> UnguidedSample:
    """Draw a sample of rows, and take their neighbours as they are before any guiding."""
    numbers = draw_sample(graphs.rows.n_rows, EXPLAINED_ROWS, rng)
    return UnguidedSample(numbers, graphs.rows.take(numbers))


def first_candidates(
    graphs: Graphs, learned: Rows, sample: UnguidedSample, settings: Settings, k: int, rng: np.random.Generator
) -> tuple[Candidate, ...]:
    """Return a candidate for every basis after its first round; none where there is no choice to make."""
    graph_views = [graph.view for graph in graphs.graph_map.graphs]
    rounds = settings.rounds.for_graphs(graph_views, k)
    if len(rounds) == 1 or k == 1:
        return ()
    if not has_non_text_view(graphs.graph_map.preparations):  # the other bases split off a few unusual texts
        rounds = {"diffusion": rounds["diffusion"]}
    bounds = graphs.graph_map.bounds
    views = candidates.first_rounds(learned, graphs.landmark_block, bounds, rounds)
    return tuple(candidates.judge(views, sample.block, bounds, graph_views, k, rng, settings.n_threads))


def guide_candidates(
    graphs: Graphs,
    learned: Rows,
    weighed: tuple[Candidate, ...],
    sample: UnguidedSample,
    settings: Settings,
    k: int,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Candidate, ...]:
    """Run the rounds of the best candidate, or of all if the choice is ambiguous; each stops where views agree most."""
    graph_views = [graph.view for graph in graphs.graph_map.graphs]
    rounds = settings.rounds.for_graphs(graph_views, k)
    doubt = candidates.are_ambiguous(weighed)
    all_of_them = doubt and learned.n_rows <= CONTESTED_ROWS
    if doubt and not all_of_them:
        weighed = weigh_stability(graphs, weighed, sample, settings, k, rng)
    best = candidates.choose(weighed)
    found = []
    for own in weighed:
        if all_of_them or own is best:
            numbers, bounds = settings.rounds.checked_rounds(own.name), graphs.graph_map.bounds
            stopping = candidates.EarlyStopping(
                own, numbers, sample.block, bounds, graph_views, k, rng, settings.n_threads
            )
            own = stopping.best(learn(graphs, learned, Choice(own.name, rounds[own.name], own), progress, stopping))
        found.append(own)
    return weigh_stability(graphs, tuple(found), sample, settings, k, rng) if all_of_them else tuple(found)


def weigh_stability(
    graphs: Graphs,
    weighed: tuple[Candidate, ...],
    sample: UnguidedSample,
    settings: Settings,
    k: int,
    rng: np.random.Generator,
) -> tuple[Candidate, ...]:
    """Return the candidates with stability measured for the best one, and for all where the best may be chance.

    It is not measured where several views predict the clusters: that is evidence enough. A single view predicts any
    smooth split.
    """
    best = candidates.choose_by_agreement(weighed)
    if len(best.agreements) > 1 and best.agreement >= PREDICTED:
        return weighed
    rounds = settings.rounds.for_graphs([graph.view for graph in graphs.graph_map.graphs], k)
    (own_rng,) = rng.spawn(1)

    def stability_of(own: Candidate) -> float:
        return measure_stability(sample, own.labels, graphs, own.view, rounds[own.name], k, own_rng).overall

    known = {best.name: stability_of(best)}
    if known[best.name] < candidates.REPLICATED:
        known |= {own.name: stability_of(own) for own in weighed if own is not best}
    return tuple(replace(own, stability=known.get(own.name)) for own in weighed)


def choose_basis(graphs: Graphs, weighed: tuple[Candidate, ...], settings: Settings, k: int) -> Choice:
    """Return the basis that was asked for, or the best candidate, and its rounds."""
    rounds = settings.rounds.for_graphs([graph.view for graph in graphs.graph_map.graphs], k)
    if not weighed:
        name = next(iter(rounds))
        return Choice(name, rounds[name])
    trained = [candidate for candidate in weighed if candidate.training is not None]
    best = candidates.choose(trained or weighed)
    return Choice(best.name, replace(rounds[best.name], max_iter=best.rounds), best)


def cut_graphs(
    graphs: Graphs,
    learned: Rows,
    choice: Choice,
    training: CoTraining,
    sample: UnguidedSample,
    settings: Settings,
    k: int,
    rng: np.random.Generator,
) -> Cut:
    """Find k centroids in the embedding of the rows that the rounds learned from; ``learned`` is not changed."""
    row_map = RowMap(graphs.graph_map, training.guides, training.view.basis)
    to_embedding = partial(unit_embedding, basis=row_map.basis, bounds=graphs.graph_map.bounds)
    ours = training.rows is not learned  # guided rows are not used elsewhere
    rows = training.rows.replace(to_embedding) if ours else training.rows.map(to_embedding)  # (b, c)
    centroids = fit_centroids(
        rows,
        k,
        method=settings.assign_labels,
        n_init=settings.n_init,
        rng=rng,
        n_threads=settings.n_threads,
        all_runs=settings.published,
    )
    if choice.candidate is None:
        return Cut(choice, training, row_map, rows, centroids, float("nan"))
    # If the rounds learned from all rows, the sample's embedding is among theirs.
    known = rows.take(sample.numbers) if learned is graphs.rows else row_map.follow(sample.block)  # (s, c)
    centroids, agreement = candidates.better_centroids(
        centroids, choice.candidate, sample.block, known, graphs.graph_map, settings.n_threads
    )
    return Cut(choice, training, row_map, rows, centroids, agreement)


def learned_rows(graphs: Graphs, settings: Settings, rng: np.random.Generator) -> Rows:
    """Return the rows that the rounds learn from: a sample, or the graphs' own rows where those are few."""
    size = settings.learned_rows(graphs.rows.n_rows, len(graphs.landmarks))
    return sample_rows(graphs.rows, size, rng, settings.n_threads)


def run_rounds(graphs: Graphs, learned: Rows, choice: Choice, progress: Progress) -> CoTraining:
    """Return the rounds of a choice: those that its candidate went through, or new ones, which consume ``learned``."""
    training = None if choice.candidate is None else choice.candidate.training
    if training is None:
        return learn(graphs, learned, choice, progress, consume=True)
    return training.until(choice.rounds.max_iter, learned, graphs.graph_map.bounds)


def learn(
    graphs: Graphs,
    learned: Rows,
    choice: Choice,
    progress: Progress,
    go_on: candidates.EarlyStopping | None = None,
    *,
    consume: bool = False,
) -> CoTraining:
    """Run the rounds. Unless ``consume``, ``learned`` can be used again by rounds with other settings."""

    def report(number: int, line: Round) -> None:
        progress.say(round_in_words(number, line))

    return cotrain(
        learned,
        graphs.landmark_block,
        graphs.graph_map.bounds,
        choice.rounds,
        report,
        first_view=None if choice.candidate is None else choice.candidate.view,
        go_on=go_on or (lambda guides, view: True),
        consume=consume,
    )


def assign_rows(graphs: Graphs, learned: Rows, cut: Cut, settings: Settings) -> Assignment:
    """Return the nearest centroid of every row; the graphs' rows are consumed.

    Confidence is multiplied by ``familiarity``, below 1 for rows far from all landmarks, as for new rows.
    """
    own = partial(assign_with_confidence, centroids=cut.centroids)
    row_map, embedding = cut.row_map, None  # the landmarks are not sent to where the rows are
    guided = partial(follow, guides=row_map.guides, basis=row_map.basis, bounds=graphs.graph_map.bounds)
    known = learned is graphs.rows  # the rounds learned from all rows
    if known or settings.store_embedding:
        rows = cut.rows if known else graphs.rows.replace(guided)  # (b, c)
        found = rows.map(own)
        embedding = rows.collect(lambda block: block) if settings.store_embedding else None
    else:
        found = graphs.rows.replace(partial(follow_and_assign, follow=guided, assign=own))
    labels = found.collect(lambda part: part.labels)
    confidence = found.collect(lambda part: part.confidence) * graphs.familiarity  # (n,)
    census = merge_censuses(found.each(partial(count_clusters, n_clusters=len(cut.centroids))))
    must_be_finite("assignment", cut.centroids, census.confidence)
    return Assignment(found, labels, confidence, embedding, census)


def follow_and_assign(
    block: Block, follow: Callable[[Block], np.ndarray], assign: Callable[[np.ndarray], AssignedRows]
) -> AssignedRows:
    """Return the clusters of a block's rows: in one pass, so that no row's embedding is stored."""
    return assign(follow(block))


def warn_of_oddities(found: Assignment) -> None:
    """Warn of rows that are zero in the embedding, and of empty clusters."""
    n_zero = int(found.census.n_zero)
    if n_zero:
        warn_caller(
            f"{n_zero} rows are zero in the embedding, so their labels are arbitrary and their confidence is 0. "
            "Their values are all zero, or the graphs have more components than there are clusters. More clusters or "
            "neighbours may help."
        )
    used, k = int((found.census.sizes > 0).sum()), len(found.census.sizes)
    if used < k:
        warn_caller(f"Only {used} of {k} clusters hold rows: the embedding does not separate more.")


def warn_of_chance(stability: Stability | None) -> None:
    """Warn of clusters that do not replicate with other landmarks."""
    if stability is not None and stability.overall < chance_of(len(stability.clusters)):
        warn_caller(
            "These clusters do not replicate: two halves of the landmarks agree on them with an adjusted Rand index of "
            f"{stability.overall:.2f} (stability_), as in data without clusters. Try another n_clusters (suggest_k), "
            "fewer or other views, or k-means (coterie.peers.ConcatKMeans), and do not rely on single labels."
        )


def measure_stability(
    sample: UnguidedSample,
    labels: Any,
    graphs: Graphs,
    first_view: AugmentedView,
    rounds: CoTrainingSettings,
    k: int,
    rng: np.random.Generator,
) -> Stability:
    """Return how far the clusters depend on the draw of landmarks, given the labels of the sample."""
    bounds = graphs.graph_map.bounds
    return landmark_stability(host_block(sample.block, bounds), to_host(labels), first_view, bounds, rounds, k, rng)


# -- what is published --------------------------------------------------------------------------------------------


def candidate_records(tried: Sequence[GraphFit], found: GraphFit) -> list[dict[str, Any]] | None:
    """Return all candidates as plain data; None where there was no choice."""
    records = [
        {
            "name": candidate.name,
            "preparation": "shared" if fit.graphs.shared else "own",
            "rounds": candidate.rounds,
            "agreement": candidate.agreement,
            "stability": fit.stability.overall
            if fit.stability and candidate is fit.cut.choice.candidate
            else candidate.stability,
            "chosen": fit is found and candidate is fit.cut.choice.candidate,
        }
        for fit in tried
        for candidate in fit.weighed
    ]
    return records or None


def make_fitted(
    views: Views, found: GraphFit, weighed: list[dict[str, Any]] | None, timings: dict[str, float]
) -> Fitted:
    """Return the model that holds all results."""
    graphs, clusters, explanation, stability = found.graphs, found.clusters, found.explanation, found.stability
    cut, assignment = found.cut, found.assignment
    training, graph_map = cut.training, graphs.graph_map
    last, first, rounds = training.view, training.first_view, cut.choice.rounds
    has_constant = rounds.add_constant or not rounds.drop_first
    return Fitted(
        row_map=to_host(cut.row_map),
        shapes=tuple(Shape.of(view) for view in views),
        groups=None,
        view_centroids=explanation.view_centroids,
        novelty_scale=graphs.novelty_scale,
        # Before guiding: afterwards even a graph of noise agrees with the view that guided it.
        agreement=graph_map.mean_by_view(graph_agreement(first, has_constant=has_constant)),
        cluster_agreement=explanation.agreement,
        cluster_centers=cut.centroids,
        # Scaled to all rows: squared singular values grow in proportion to the number of rows.
        consensus_singular_values=last.consensus.singular_values * np.sqrt(views.n_rows / cut.rows.n_rows),
        graph_agreement=pairwise_agreement(first, has_constant=has_constant),
        history=[vars(line) for line in training.history],
        landmark_indices=graphs.landmarks,
        medoid_indices=assignment.census.medoids,
        n_clusters=len(cut.centroids),
        n_iter=len(training.history),
        preparation={name: own.describe() for name, own in zip(views.names, graph_map.preparations, strict=True)},
        singular_values=to_host(
            {
                name: spectrum.singular_values
                for name, spectrum in zip(graph_map.graph_names(), last.spectra, strict=True)
            }
        ),
        timings=timings,
        view_names=views.names,
        view_weights=graph_map.mean_by_view(last.graphs.weights),
        candidates=weighed,
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

"""Several ways to merge the same graphs, and the choice of the one that the views agree with most.

A split of a large cluster shows in one view but not in the others; a small cluster that is real shows in every view's
neighbourhoods. So each view's graphs, before any guiding, predict every row's cluster from the other rows at its
landmarks. The partition that the views predict best is chosen, unless it does not replicate with other landmarks and
another candidate's does. Class labels are never used.

Candidates share the search for neighbours and, in the first round, the graphs' eigenvectors: one more costs a sum over
rows, a small eigenproblem and k-means on a sample. All are guided further only where their first round is ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coterie.arrays import like, numbers_for, precision_of, stack, to_host
from coterie.kernels import kernels_of
from coterie.method.agreement import (
    neighbour_agreement,
    neighbour_agreements,
    partition_agreement,
    share_of_disagreement,
)
from coterie.method.assignment import RUN_PASSES, assign, best_centroids, fewer_runs, lloyd
from coterie.method.cotraining import AugmentedView, CoTraining, CoTrainingSettings, merge, solve_graphs, stack_bases
from coterie.method.graphs import Block, GraphMap
from coterie.method.landmarks import means_of_groups
from coterie.method.rowmap import Basis, Guide, unit_embedding
from coterie.method.seeding import draw_starts
from coterie.rows import Rows
from coterie.threads import in_order

# A later candidate replaces the best one before it only if the views' disagreement (1 - agreement) falls below this
# share of that with the other, both by view and for the mean of all: a draw of other landmarks changes it as much. Next
# to a view of noise, a small gain of the other views is a large share by view, but a small one of the mean.
CLEARLY_LESS = 0.95

# A candidate with less than half the effective number of clusters (exp of their entropy) of the best one before it has
# mostly split off a few outliers, which every view agrees on. Its agreement must be higher by FAR_LEAD.
SPLINTERED = np.log(2)
FAR_LEAD = 0.3

# Clusters with a stability (adjusted Rand index of two halves of the landmarks) below REPLICATED may be chance. Another
# candidate is taken if its stability is higher by STEADIER, and if it is above REPLICATED or its agreement is higher.
REPLICATED = 0.5
STEADIER = 0.15

# Clusters with an agreement above this hardly touch.
SEPARATE = 0.99

# If all candidates' clusters after the first round are this similar (adjusted Rand index), it decides between them.
ALIKE = 0.8

# If clusters are more similar than this to those of the check before (adjusted Rand index), more rounds would change
# them only by chance.
SETTLED = 0.98

# Rows that k-means runs on, and its starts besides the one from cluster-QR.
CUT_ROWS = 5000
CUT_STARTS = 3

EMBEDDED_ROWS = 1024  # by one thread at once


@dataclass(frozen=True)
class Candidate:
    """One way to merge and guide the graphs, after some rounds.

    Attributes
    ----------
    name : str
        The basis.
    rounds : int
        Number of rounds.
    agreements : ndarray of shape (V,)
        How well each view's neighbours predict the clusters: adjusted Rand index.
    labels : ndarray of shape (s,)
        The clusters of the sample's rows.
    view : AugmentedView
        The augmented view of the first round.
    training : CoTraining, default=None
        All rounds, perhaps more than ``rounds``; None where only the first was run.
    stability : float, default=None
        How far the clusters replicate with other landmarks; None where that was not measured.
    """

    name: str
    rounds: int
    agreements: np.ndarray
    labels: np.ndarray
    view: AugmentedView
    training: CoTraining | None = None
    stability: float | None = None

    @property
    def agreement(self) -> float:
        """The mean over the views."""
        return float(np.mean(self.agreements))

    @property
    def entropy(self) -> float:
        """The entropy of the clusters' shares of the rows, in nats."""
        shares = np.bincount(self.labels) / len(self.labels)
        return float(-np.sum(shares * np.log(np.where(shares > 0, shares, 1.0))))

    def disagreement_ratio(self, other: Candidate) -> float:
        """Return the views' disagreement (1 - agreement), relative to that with another candidate.

        It is the larger of two ratios: that of the mean over the views; and the geometric mean of the views' ratios,
        each per effective cluster (exp of the entropy), because merged clusters, or clusters of a row or two, leave
        less to disagree on.
        """
        by_view = share_of_disagreement(self.agreements, other.agreements) * np.exp(other.entropy - self.entropy)
        together = share_of_disagreement(np.array([self.agreement]), np.array([other.agreement]))
        return float(max(by_view, together))

    def is_splintered(self, other: Candidate) -> bool:
        """Whether the effective number of clusters is less than half that of another candidate."""
        return self.entropy < other.entropy - SPLINTERED

    def is_clearly_better(self, other: Candidate) -> bool:
        """Whether the views agree so much better that this candidate replaces the ``other``, which comes before it."""
        if self.is_splintered(other):
            return self.agreement > other.agreement + FAR_LEAD
        return self.disagreement_ratio(other) < CLEARLY_LESS


def first_rounds(
    rows: Rows,
    landmarks: Block,
    bounds: np.ndarray,
    settings: Mapping[str, CoTrainingSettings],
) -> dict[str, AugmentedView]:
    """Return the first round of every candidate, from one solution of the graphs' eigenproblems."""
    common = next(iter(settings.values()))
    spectra = solve_graphs(rows, len(landmarks.indices), bounds, common, landmarks.weights)
    precision = precision_of(landmarks.weights)
    stacked = {name: stack_bases(rows, spectra, bounds, own, precision) for name, own in settings.items()}
    views = in_order(lambda name: merge(stacked[name], settings[name]), list(stacked), common.n_threads)
    return dict(zip(stacked, views, strict=True))


def judge(
    views: Mapping[str, AugmentedView],
    sample: Block,
    bounds: np.ndarray,
    graph_views: Sequence[int],
    n_clusters: int,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> list[Candidate]:
    """Return the candidates with their agreement; ``sample`` holds some rows' neighbours before any guiding."""
    plans = [plan_cut(len(sample.indices), n_clusters, rng) for _ in views]
    if kernels_of(sample.weights).BATCHED:
        return judge_at_once(views, plans, sample, bounds, graph_views)
    found: list[Candidate] = []
    for (name, view), plan in zip(views.items(), plans, strict=True):  # they are few, so each uses all threads
        labels = cut(sample, view.basis, bounds, *plan, n_threads)
        agreements = known_agreements(labels, found)
        if agreements is None:
            agreements = neighbour_agreement(sample, bounds, graph_views, labels, n_threads)
        found.append(Candidate(name, 1, agreements, labels, view))
    return found


def known_agreements(labels: np.ndarray, found: Sequence[Candidate]) -> np.ndarray | None:
    """Return the agreements of an earlier candidate with the same clusters; None where there is none.

    All candidates find clusters that hardly touch, and computing the agreements takes as long as finding the clusters.
    """
    return next((own.agreements for own in found if partition_agreement(own.labels, labels) == 1), None)  # (V,)


def judge_at_once(
    views: Mapping[str, AugmentedView],
    plans: Sequence[tuple[np.ndarray, np.ndarray]],
    sample: Block,
    bounds: np.ndarray,
    graph_views: Sequence[int],
) -> list[Candidate]:
    """Return the same as :func:`judge` by one batch of k-means: on a GPU three views take no longer than one."""
    some, draws = zip(*plans, strict=True)
    embeddings = [unit_embedding(sample, view.basis, bounds) for view in views.values()]  # T times (s, c)
    found = kernels_of(sample.weights).cluster_tables(embeddings, np.stack(some), np.stack(draws), RUN_PASSES)  # (T, s)
    agreements, labels = neighbour_agreements(sample, bounds, graph_views, found), to_host(found)
    return [Candidate(name, 1, agreements[t], labels[t], view) for t, (name, view) in enumerate(views.items())]


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that the views agree with most, unless another one's clusters replicate far better.

    A split of one cloud of rows along a view's neighbourhoods is predicted by that view, and a single view predicts any
    smooth split; but such a split does not replicate with other landmarks.
    """
    best = choose_by_agreement(candidates)
    if best.stability is None or best.stability >= REPLICATED:
        return best
    # Splitting off a few outliers replicates better than anything else: such candidates are left out.
    whole = [own for own in candidates if own is best or not own.is_splintered(best)]
    measured = {number: own.stability for number, own in enumerate(whole) if own.stability is not None}
    steadiest = whole[max(measured, key=measured.__getitem__)]
    lead = max(measured.values()) - best.stability
    believed = max(measured.values()) > REPLICATED or steadiest.agreement > best.agreement
    return steadiest if believed and lead > STEADIER else best


def choose_by_agreement(candidates: Sequence[Candidate]) -> Candidate:
    """Return the first candidate, unless a later one agrees clearly better with the views.

    Where the agreement of every candidate is nearly perfect, clusters are separate, and the second candidate
    ("commute") is made for such clusters.
    """
    best = candidates[0]
    separate = min(candidate.agreement for candidate in candidates) > SEPARATE
    if separate and len(candidates) > 1 and not candidates[1].is_splintered(best):
        best = candidates[1]
    for other in candidates[1:]:
        best = other if other.is_clearly_better(best) else best
    return best


def are_ambiguous(candidates: Sequence[Candidate]) -> bool:
    """Return whether the choice is ambiguous after the first round, so that all candidates should be guided.

    It is where some candidate's clusters differ from the first one's, and where "islands" is the best: views agree with
    its clusters before the others have been guided. It never is where the best one's clusters hardly touch.
    """
    best, first = choose(candidates), candidates[0].labels
    differ = any(partition_agreement(first, other.labels) < ALIKE for other in candidates[1:])
    return best.agreement <= SEPARATE and (differ or best.name == "islands")


class EarlyStopping:
    """Stops a candidate's rounds where the views agree best with its clusters; ``cotrain`` calls it after each round.

    Parameters
    ----------
    first : Candidate
        The candidate after its first round.
    numbers : sequence of int
        The rounds after which clusters are checked.
    sample : Block
        The neighbours of some rows, before any guiding.
    bounds, graph_views
        The columns of every graph, and the view of every graph.
    n_clusters : int
    rng : numpy.random.Generator
    n_threads : int, default=1
    """

    def __init__(
        self,
        first: Candidate,
        numbers: Sequence[int],
        sample: Block,
        bounds: np.ndarray,
        graph_views: Sequence[int],
        n_clusters: int,
        rng: np.random.Generator,
        n_threads: int = 1,
    ) -> None:
        self.first, self.numbers, self.unguided, self.guided = first, numbers, sample, sample
        self.bounds, self.graph_views, self.n_clusters, self.rng = bounds, graph_views, n_clusters, rng
        self.n_threads = n_threads
        self.checked = [first] if 1 in numbers else []

    def __call__(self, guides: Sequence[Guide], view: AugmentedView) -> bool:
        """Check the clusters after the rounds in ``numbers``, and return whether another round is worth its time."""
        number = len(guides) + 1
        if number > 1:
            self.guided = guides[-1](self.guided, self.bounds)
        if number not in self.numbers:
            return True
        if number > 1:
            self.check(number, view)
        return should_continue(self.first.name, [own.agreement for own in self.checked]) and not self.has_converged()

    def has_converged(self) -> bool:
        """Whether clusters are nearly those of the check before, and views do not agree clearly better with them.

        It is never so for "islands": small clusters among large ones appear late.
        """
        if self.first.name == "islands" or len(self.checked) < 2:
            return False
        before, now = self.checked[-2:]
        return partition_agreement(before.labels, now.labels) > SETTLED and not now.is_clearly_better(before)

    def check(self, number: int, view: AugmentedView) -> None:
        """Cluster the sample, and record how well the views agree with the clusters."""
        plan = plan_cut(len(self.guided.indices), self.n_clusters, self.rng)
        labels = cut(self.guided, view.basis, self.bounds, *plan, self.n_threads)
        agreements = neighbour_agreement(self.unguided, self.bounds, self.graph_views, labels, self.n_threads)
        self.checked.append(replace(self.first, rounds=number, agreements=agreements, labels=to_host(labels)))

    def best(self, training: CoTraining) -> Candidate:
        """Return the candidate after the round that the views agree with most, of those that were checked."""
        last = len(training.history)
        if last not in [own.rounds for own in self.checked]:  # the rounds converged between two checks
            self.check(last, training.view)
        return replace(max(self.checked, key=lambda own: own.agreement), training=training)


def should_continue(name: str, agreements: Sequence[float]) -> bool:
    """Return whether the rounds of a basis go on, given how well the views agreed at every check so far.

    Guiding helps until clusters are clear. So rounds end where clusters hardly touch, or where views agree no better
    than at the check before. The latter does not end those of "islands": small clusters among large ones appear late.

    Examples
    --------
    >>> should_continue("diffusion", [0.8, 0.81]), should_continue("diffusion", [0.8, 0.79])
    (True, False)
    """
    improves = name == "islands" or len(agreements) < 2 or agreements[-1] > agreements[-2]
    return improves and agreements[-1] <= SEPARATE


def better_centroids(
    centroids: np.ndarray,
    candidate: Candidate,
    sample: Block,
    embedding: np.ndarray,
    graph_map: GraphMap,
    n_threads: int = 1,
) -> tuple[np.ndarray, float]:
    """Return the given centroids, or those of k-means started from the candidate's clusters; and their agreement.

    The k-means solution of least inertia may split a large cluster instead of keeping a small one. Started from the
    right clusters, k-means keeps them, and the views' agreement decides which solution is better. ``sample`` holds some
    rows' neighbours before any guiding, and ``embedding`` (s x c) is that of the same rows after it.
    """
    bounds, graph_views = graph_map.bounds, [graph.view for graph in graph_map.graphs]
    means = label_centroids(embedding, candidate.labels, centroids)
    others = to_host(lloyd(embedding, means)[0])  # (k, c)
    labels = stack([assign(embedding, ends).labels for ends in (centroids, others)])  # (2, s)
    found = to_host(labels)
    if partition_agreement(*found) == 1:
        agreements = known_agreements(found[0], [candidate])
        if agreements is None:
            agreements = neighbour_agreement(sample, bounds, graph_views, labels[0], n_threads)
        return centroids, float(np.mean(agreements))
    before, after = neighbour_agreements(sample, bounds, graph_views, labels, n_threads)
    better = share_of_disagreement(after, before) < CLEARLY_LESS
    return (others, float(np.mean(after))) if better else (centroids, float(np.mean(before)))


def label_centroids(embedding: np.ndarray, labels: np.ndarray, default: np.ndarray) -> np.ndarray:
    """Return the mean of the rows of each label; for a label without rows, its ``default`` centroid."""
    means, counts = means_of_groups(embedding, labels, len(default))
    return like(np.where(counts[:, None] > 0, to_host(means), default), embedding)  # (k, c)


def plan_cut(n_rows: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that :func:`cut` runs k-means on, and the random numbers of its starts."""
    return np.sort(rng.permutation(n_rows)[:CUT_ROWS]), draw_starts(fewer_runs(CUT_STARTS, k), k, rng)


def cut(
    block: Block, basis: Basis, bounds: np.ndarray, some: np.ndarray, draws: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return the clusters of rows in an augmented view, by k-means on ``some`` of them, its starts from ``draws``."""
    embedding = embed_sample(block, basis, bounds, n_threads)  # (s, c)
    return assign(embedding, best_centroids(embedding[numbers_for(embedding, some)], draws, n_threads)).labels  # (s,)


def embed_sample(block: Block, basis: Basis, bounds: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the embedding of rows in an augmented view, as unit rows; on a CPU by several threads."""
    if kernels_of(block.weights).BATCHED:
        return unit_embedding(block, basis, bounds)  # (s, c)
    starts = range(0, len(block.weights), EMBEDDED_ROWS)
    cuts = [slice(start, start + EMBEDDED_ROWS) for start in starts]
    parts = [Block(block.indices[some], block.weights[some]) for some in cuts]
    return np.concatenate(list(in_order(lambda part: unit_embedding(part, basis, bounds), parts, n_threads)))  # (s, c)

"""Several ways to merge the same graphs, and the one that the views agree with most.

A cut through a large cluster is seen by one view and not by the others; a small cluster that all views see is in every
view's neighbourhoods. So each view's graphs, before any guiding, are asked to predict every row's cluster from the
other rows at its landmarks. The partition that all views predict best is taken, unless other landmarks would not have
led to it and do lead to another one. Labels never take part.

Candidates share the search for neighbours and, in the first round, the graphs' eigenvectors: one more costs a sum over
rows, a small eigenproblem and a k-means on a sample. Only where they leave doubt do all go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coterie.arrays import like, precision_of, stack, to_host
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

# A later candidate is taken only if the views disagree with it on no more than this share of what they disagree on with
# the best one before, a view at a time and all together: other landmarks change it as much. Beside a view of noise,
# small gains of the rest are large as shares of a view, and small as shares of all.
CLEARLY_LESS = 0.95

# A candidate with less than half as many clusters in effect (exp of their entropy) as the best one before it has mostly
# split a few odd rows off, which every view agrees on. Its agreement must exceed by this.
SPLINTERED = np.log(2)
FAR_LEAD = 0.3

# Clusters that two halves of the landmarks agree on less than REPLICATED (adjusted Rand index) may be chance. They are
# not taken if another candidate's replicate better by STEADIER, and either beyond chance or with better agreement.
REPLICATED = 0.5
STEADIER = 0.15

# Agreement beyond which clusters hardly touch.
SEPARATE = 0.99

# First rounds whose clusters are this much alike (adjusted Rand index) leave no doubt.
ALIKE = 0.8

# Clusters this much like those of the check before (adjusted Rand index) would be changed no further than by chance.
SETTLED = 0.98

# Rows that k-means runs on, and its starts besides that of cluster-QR.
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
        How many there were.
    agreements : ndarray of shape (V,)
        How well each view's neighbours predict the clusters: adjusted Rand index.
    labels : ndarray of shape (s,)
        The clusters of some rows.
    view : AugmentedView
        Of the first round.
    training : CoTraining, default=None
        All rounds, perhaps more than ``rounds``; None where only the first was run.
    stability : float, default=None
        How far clusters replicate with other landmarks; None where that was not in question.
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
        """Averaged over the views."""
        return float(np.mean(self.agreements))

    @property
    def entropy(self) -> float:
        """Of the clusters' shares of the rows, in nats."""
        shares = np.bincount(self.labels) / len(self.labels)
        return float(-np.sum(shares * np.log(np.where(shares > 0, shares, 1.0))))

    def share_left(self, other: Candidate) -> float:
        """Return which share of what views disagree on with another candidate's clusters is left.

        It is the larger of two: the share of all disagreement; and a view's on average, a cluster in effect. Clusters
        that are merged, or hold a row or two, leave less to disagree on, so that is set against their number, exp of
        their entropy.
        """
        by_view = share_of_disagreement(self.agreements, other.agreements) * np.exp(other.entropy - self.entropy)
        together = share_of_disagreement(np.array([self.agreement]), np.array([other.agreement]))
        return float(max(by_view, together))

    def is_splintered(self, other: Candidate) -> bool:
        """Whether nearly all rows are in far fewer clusters than another candidate's."""
        return self.entropy < other.entropy - SPLINTERED

    def is_clearly_better(self, other: Candidate) -> bool:
        """Whether the views agree so much better that the other candidate, which comes before, is not taken."""
        if self.is_splintered(other):
            return self.agreement > other.agreement + FAR_LEAD
        return self.share_left(other) < CLEARLY_LESS


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
    for (name, view), plan in zip(views.items(), plans, strict=True):  # each on all threads: they are few
        labels = cut(sample, view.basis, bounds, *plan, n_threads)
        agreements = known_agreements(labels, found)
        if agreements is None:
            agreements = neighbour_agreement(sample, bounds, graph_views, labels, n_threads)
        found.append(Candidate(name, 1, agreements, labels, view))
    return found


def known_agreements(labels: np.ndarray, found: Sequence[Candidate]) -> np.ndarray | None:
    """Return the agreements of a candidate that led to the same clusters; None where there is none.

    Clusters that hardly touch are found by all, and to ask the views takes as long as to find them.
    """
    return next((own.agreements for own in found if partition_agreement(own.labels, labels) == 1), None)  # (V,)


def judge_at_once(
    views: Mapping[str, AugmentedView],
    plans: Sequence[tuple[np.ndarray, np.ndarray]],
    sample: Block,
    bounds: np.ndarray,
    graph_views: Sequence[int],
) -> list[Candidate]:
    """Return the same from one cut of all augmented views: on a GPU three take no longer than one."""
    some, draws = zip(*plans, strict=True)
    embeddings = [unit_embedding(sample, view.basis, bounds) for view in views.values()]  # T times (s, c)
    found = kernels_of(sample.weights).cut_tables(embeddings, np.stack(some), np.stack(draws), RUN_PASSES)  # (T, s)
    agreements, labels = neighbour_agreements(sample, bounds, graph_views, found), to_host(found)
    return [Candidate(name, 1, agreements[t], labels[t], view) for t, (name, view) in enumerate(views.items())]


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that the views agree with most, unless another one's clusters replicate far better.

    A cut through a cloud of rows along one view's neighbourhoods is predicted by that view, and a single view predicts
    any smooth cut; but other landmarks would not have led to it.
    """
    best = choose_by_agreement(candidates)
    if best.stability is None or best.stability >= REPLICATED:
        return best
    # A few odd rows, split off, replicate as nothing else does.
    whole = [own for own in candidates if own is best or not own.is_splintered(best)]
    measured = {number: own.stability for number, own in enumerate(whole) if own.stability is not None}
    steadiest = whole[max(measured, key=measured.__getitem__)]
    lead = max(measured.values()) - best.stability
    believed = max(measured.values()) > REPLICATED or steadiest.agreement > best.agreement
    return steadiest if believed and lead > STEADIER else best


def choose_by_agreement(candidates: Sequence[Candidate]) -> Candidate:
    """Return the first candidate, unless a later one agrees clearly better with the views.

    Where all of them agree nearly perfectly, clusters are separate, and the second one is made for those.
    """
    best = candidates[0]
    separate = min(candidate.agreement for candidate in candidates) > SEPARATE
    if separate and len(candidates) > 1 and not candidates[1].is_splintered(best):
        best = candidates[1]
    for other in candidates[1:]:
        best = other if other.is_clearly_better(best) else best
    return best


def leave_doubt(candidates: Sequence[Candidate]) -> bool:
    """Whether all candidates should go on, unless one leads to clusters that hardly touch.

    So they should where some lead to clusters that differ from the first one's, and where "islands" would be taken:
    views agree with those before the others have been guided.
    """
    best, first = choose(candidates), candidates[0].labels
    differ = any(partition_agreement(first, other.labels) < ALIKE for other in candidates[1:])
    return best.agreement <= SEPARATE and (differ or best.name == "islands")


class EarlyStopping:
    """Stops the rounds of a candidate where the views agree with its clusters best; ``cotrain`` calls it after each.

    Parameters
    ----------
    first : Candidate
        After its first round.
    numbers : sequence of int
        After how many rounds clusters are checked.
    sample : Block
        The neighbours of some rows, before any guiding.
    bounds, graph_views
        Which columns are which graph's, and which graphs are which view's.
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
        """Check the clusters, if it is time to, and return whether another round is worth its time."""
        number = len(guides) + 1
        if number > 1:
            self.guided = guides[-1](self.guided, self.bounds)
        if number not in self.numbers:
            return True
        if number > 1:
            self.check(number, view)
        return are_worth_more(self.first.name, [own.agreement for own in self.checked]) and not self.have_settled()

    def have_settled(self) -> bool:
        """Whether clusters are those of the check before, and views agree with them hardly better.

        Small ones among large ones ("islands") show late.
        """
        if self.first.name == "islands" or len(self.checked) < 2:
            return False
        before, now = self.checked[-2:]
        return partition_agreement(before.labels, now.labels) > SETTLED and not now.is_clearly_better(before)

    def check(self, number: int, view: AugmentedView) -> None:
        """Cut the sample into clusters and ask the views."""
        plan = plan_cut(len(self.guided.indices), self.n_clusters, self.rng)
        labels = cut(self.guided, view.basis, self.bounds, *plan, self.n_threads)
        agreements = neighbour_agreement(self.unguided, self.bounds, self.graph_views, labels, self.n_threads)
        self.checked.append(replace(self.first, rounds=number, agreements=agreements, labels=to_host(labels)))

    def best(self, training: CoTraining) -> Candidate:
        """Return the candidate after as many of its rounds as the views agree with most."""
        last = len(training.history)
        if last not in [own.rounds for own in self.checked]:  # nothing changed any more, between two checks
            self.check(last, training.view)
        return replace(max(self.checked, key=lambda own: own.agreement), training=training)


def are_worth_more(name: str, agreements: Sequence[float]) -> bool:
    """Return whether the rounds of a basis go on, given how well the views agreed at every check so far.

    Guiding helps until clusters are clear. So rounds end where clusters hardly touch, or at a check where views agree
    no better than at the one before; small clusters among large ones show late, so those of "islands" go on.

    Examples
    --------
    >>> are_worth_more("diffusion", [0.8, 0.81]), are_worth_more("diffusion", [0.8, 0.79])
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
    """Return the given centroids, or those that k-means ends at from the candidate's clusters; and their agreement.

    k-means with the least inertia may cut a large cluster rather than keep a small one. From clusters that are right it
    stays with them, and the views tell which is better. ``sample`` are some rows' neighbours
    before any guiding, and ``embedding`` (s x c) is that of the same rows after it.
    """
    bounds, graph_views = graph_map.bounds, [graph.view for graph in graph_map.graphs]
    means = label_centroids(embedding, candidate.labels, centroids)
    others = to_host(lloyd(embedding, means)[0])  # (k, c)
    labels = stack([assign(embedding, ends).labels for ends in (centroids, others)])  # (2, s)
    if partition_agreement(*to_host(labels)) == 1:
        agreements = known_agreements(to_host(labels[0]), [candidate])
        if agreements is None:
            agreements = neighbour_agreement(sample, bounds, graph_views, labels[0], n_threads)
        return centroids, float(np.mean(agreements))
    before, after = neighbour_agreements(sample, bounds, graph_views, labels, n_threads)
    better = share_of_disagreement(after, before) < CLEARLY_LESS
    return (others, float(np.mean(after))) if better else (centroids, float(np.mean(before)))


def label_centroids(embedding: np.ndarray, labels: np.ndarray, default: np.ndarray) -> np.ndarray:
    """Return the mean of the rows of each label; where there are none, the given centroid."""
    means, counts = means_of_groups(embedding, labels, len(default))
    return like(np.where(counts[:, None] > 0, to_host(means), default), embedding)  # (k, c)


def plan_cut(n_rows: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that :func:`cut` runs k-means on, and the draws of its starts."""
    return np.sort(rng.permutation(n_rows)[:CUT_ROWS]), draw_starts(fewer_runs(CUT_STARTS, k), k, rng)


def cut(
    block: Block, basis: Basis, bounds: np.ndarray, some: np.ndarray, draws: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return the clusters of rows in an augmented view, by k-means on ``some`` of them, its starts from ``draws``."""
    embedding = embed_sample(block, basis, bounds, n_threads)  # (s, c)
    return assign(embedding, best_centroids(embedding[some], draws, n_threads)).labels  # (s,)


def embed_sample(block: Block, basis: Basis, bounds: np.ndarray, n_threads: int) -> np.ndarray:
    """Return rows in an augmented view, as unit rows; on a CPU some of them on each thread."""
    if kernels_of(block.weights).BATCHED:
        return unit_embedding(block, basis, bounds)  # (s, c)
    starts = range(0, len(block.weights), EMBEDDED_ROWS)
    cuts = [slice(start, start + EMBEDDED_ROWS) for start in starts]
    parts = [Block(block.indices[some], block.weights[some]) for some in cuts]
    return np.concatenate(list(in_order(lambda part: unit_embedding(part, basis, bounds), parts, n_threads)))  # (s, c)

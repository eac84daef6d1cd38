"""Rounds of guided co-training: graphs -> the guides and the basis that embed any row (Algorithm 1, steps 3 to 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coterie.arrays import beside, convert, lies_on_gpu, like, precision_of, stack, to_host
from coterie.kernels import kernels_of
from coterie.method.graphs import Block
from coterie.method.rowmap import Basis, Guide, guide_all
from coterie.method.spectra import (
    Consensus,
    Spectrum,
    consensus,
    grams_at_once,
    graph_spectrum,
    joined_spectrum,
    sum_grams,
    together,
    weighted_basis,
    with_constant,
)
from coterie.rows import Rows
from coterie.threads import in_order
from coterie.validation import must_be_finite

# Unless vectors have equal weights, directions of U* are weighted by their share of the largest eigenvalue to this
# power.
CONSENSUS_POWER = 0.25

# At most this many more vectors of a graph are used than there are clusters.
MORE_VECTORS = 20

# The least trust of a graph: the consensus separates noise from structure better than one graph's vectors can.
LEAST_TRUST = 0.05


@dataclass(frozen=True)
class CoTrainingSettings:
    """How graphs are merged and guided."""

    n_components: int  # k, columns of U*
    n_vectors: int  # r, singular vectors of every graph that are used
    drop_first: bool  # whether a graph's first vector, which is constant, is left out of its eigenproblem
    weighting: str  # of a graph's vectors: one of spectra.WEIGHTINGS
    unit: bool  # whether each graph's rows are made unit before they are merged
    cosine: bool  # guide by the cosine of u*_i and u*_j instead of their inner product
    max_iter: int
    tol: float
    consensus_power: float  # directions of U* are weighted by their share of the largest eigenvalue to this power
    graph_weights: np.ndarray  # (G,)
    trust: bool  # whether graphs whose vectors are localised are weighted down
    n_threads: int = 1  # for the small eigenproblems
    add_constant: bool = False  # whether the constant vector is put in front of those of the eigenproblem


@dataclass(frozen=True)
class Round:
    """One line of the history."""

    change: float  # relative change of A* at the landmarks since the round before; nan in the first round
    agreement: float  # share of all bases that the consensus holds, in [0, 1]
    seconds: float


@dataclass(frozen=True)
class GraphWeights:
    """The weight of each graph, and the number of rows that every two graphs share."""

    weights: np.ndarray  # (G,)
    common: np.ndarray  # (G, G) number of rows with neighbours in both graphs


@dataclass(frozen=True)
class AugmentedView:
    """U* of one round as a basis, with the spectra, consensus and weights that it was computed from."""

    basis: Basis
    spectra: tuple[Spectrum, ...]
    consensus: Consensus
    outer: np.ndarray  # (G r, G r): H
    graphs: GraphWeights


@dataclass(frozen=True)
class CoTraining:
    """The result of all rounds."""

    rows: Rows  # the last round's blocks
    guides: tuple[Guide, ...]
    views: tuple[AugmentedView, ...]  # of every round
    history: tuple[Round, ...]

    @property
    def first_view(self) -> AugmentedView:
        """The view before any guiding."""
        return self.views[0]

    @property
    def view(self) -> AugmentedView:
        """The view of the last round."""
        return self.views[-1]

    def until(self, n_rounds: int, rows: Rows, bounds: np.ndarray) -> CoTraining:
        """Return only the first ``n_rounds`` rounds, given the ``rows`` before any guiding."""
        if n_rounds >= len(self.history):
            return self
        guides = self.guides[: n_rounds - 1]
        guided = rows.map(partial(guide_all, guides=guides, bounds=bounds)) if guides else rows
        return CoTraining(guided, guides, self.views[:n_rounds], self.history[:n_rounds])


def cotrain(
    rows: Rows,
    landmarks: Block,
    bounds: np.ndarray,
    settings: CoTrainingSettings,
    report: Callable[[int, Round], None] = lambda number, line: None,
    *,
    first_view: AugmentedView | None = None,
    go_on: Callable[[Sequence[Guide], AugmentedView], bool] = lambda guides, view: True,
    consume: bool = False,
) -> CoTraining:
    """Alternate between computing the augmented view and guiding the graphs by it, until A* converges.

    ``landmarks`` holds the landmarks' own neighbours. They are guided here as well, so that U* at the landmarks is
    available wherever the rows are stored. ``first_view`` is the first round's view, if it has been computed. ``go_on``
    is called after every round, and returns whether another may follow. With ``consume``, the blocks of ``rows`` are
    freed as soon as they are guided, so they cannot be used afterwards if there is more than one round.
    """
    guides: list[Guide] = []
    history: list[Round] = []
    views = [] if first_view is None else [first_view]
    before = None
    while True:
        started = time.perf_counter()
        if guides or not views:
            views.append(next_view(rows, landmarks, bounds, settings, views[-1] if views else None))
        view = views[-1]
        anchors = to_host(view.basis(landmarks, bounds)).astype(np.float64)  # (p, k)
        must_be_finite("guide", anchors)
        change = relative_change(before, anchors)
        history.append(Round(change, view.consensus.held, time.perf_counter() - started))
        report(len(history), history[-1])
        more = go_on(guides, view)
        if not more or len(history) == settings.max_iter or change <= settings.tol:
            return CoTraining(rows, tuple(guides), tuple(views), tuple(history))
        guide = Guide(view.basis, like(guide_anchors(anchors, settings.cosine), landmarks.weights))
        guided = partial(guide, bounds=bounds)
        rows = rows.replace(guided) if consume or guides else rows.map(guided)  # only this loop uses guided rows
        landmarks = guide(landmarks, bounds)
        guides.append(guide)
        before = anchors


def next_view(
    rows: Rows, landmarks: Block, bounds: np.ndarray, settings: CoTrainingSettings, before: AugmentedView | None
) -> AugmentedView:
    """Return the augmented view of the graphs in their current state.

    The round ``before`` gives the eigenproblems their starts, and the graphs their weights: guided graphs agree with
    the view that guided them, so weights are computed in the first round only.
    """
    p, precision = len(landmarks.indices), precision_of(landmarks.weights)
    starts = None if before is None else [spectrum.start for spectrum in before.spectra]
    spectra = solve_graphs(rows, p, bounds, settings, landmarks.weights, starts)
    return first_round(rows, spectra, bounds, settings, precision, None if before is None else before.graphs)


def first_round(
    rows: Rows,
    spectra: Sequence[Spectrum],
    bounds: np.ndarray,
    settings: CoTrainingSettings,
    precision: str,
    graphs: GraphWeights | None = None,
) -> AugmentedView:
    """Solve Eq. (6) without any guiding: the k directions that are closest to the bases of all graphs.

    Parameters
    ----------
    rows : Rows
        Blocks of neighbours.
    spectra : sequence of Spectrum
        Every graph's singular vectors.
    bounds : ndarray of shape (G + 1,)
        The columns of every graph in a block.
    settings : CoTrainingSettings
    precision : str
        Of the rows' weights.
    graphs : GraphWeights, default=None
        The graphs' weights if they are known. None: they are computed from these rows.
    """
    return merge(stack_bases(rows, spectra, bounds, settings, precision, graphs), settings)


@dataclass(frozen=True)
class StackedBases:
    """The graphs' weighted bases, and the sums over all rows that the consensus needs."""

    spectra: tuple[Spectrum, ...]
    bases: np.ndarray  # (G, p, r), weighted
    outer: np.ndarray  # (G r, G r): H
    graphs: GraphWeights


def stack_bases(
    rows: Rows,
    spectra: Sequence[Spectrum],
    bounds: np.ndarray,
    settings: CoTrainingSettings,
    precision: str,
    graphs: GraphWeights | None = None,
) -> StackedBases:
    """Return the weighted bases and the sums over rows that :func:`first_round` needs."""
    used = with_constant(together(spectra)) if settings.add_constant else together(spectra)
    own = convert(weighted_basis(used, settings.weighting), precision)  # (G, p, r)
    if graphs is None:
        sums = first_sums(rows, own, bounds, settings.unit)
        outer, graphs = sums.outer, weigh_graphs(sums, settings)
    else:
        outer = sum_outer(rows, own, bounds, settings.unit)
    return StackedBases(tuple(spectra), own, as_if_complete(outer, graphs.common), graphs)


def merge(stacked: StackedBases, settings: CoTrainingSettings) -> AugmentedView:
    """Return the k directions that are closest to the bases of all graphs."""
    outer, graphs, bases = stacked.outer, stacked.graphs, stacked.bases
    shared = consensus(outer, graphs.weights, settings.n_components, power=settings.consensus_power)
    basis = Basis(bases, like(shared.rotation, bases), settings.unit)
    return AugmentedView(basis, stacked.spectra, shared, outer, graphs)


def solve_graphs(
    rows: Rows,
    n_landmarks: int,
    bounds: np.ndarray,
    settings: CoTrainingSettings,
    kind: Any,
    starts: Sequence[Any] | None = None,
) -> tuple[Spectrum, ...]:
    """Return every graph's spectrum: as one batch on a GPU, otherwise one graph per thread.

    ``kind`` is any array of the rows' library, device and precision; ``starts`` are those of similar spectra.
    """
    solve = partial(
        graph_spectrum, n_components=settings.n_vectors, drop_first=settings.drop_first, goal=precision_of(kind)
    )
    if starts is None:
        starts = [None] * (len(bounds) - 1)
    if lies_on_gpu(kind):
        return solve_at_once(grams_at_once(rows, n_landmarks, bounds, kind), starts, solve)
    # Rows in host memory are always solved in NumPy: there, filters in one batch take far longer than Lanczos' method.
    jobs = zip(map(to_host, sum_grams(rows, n_landmarks, bounds, kind)), to_host(starts), strict=True)
    solve = partial(solve, precision=precision_of(kind))
    found = in_order(lambda job: joined_spectrum(*job, solve), jobs, settings.n_threads)
    return tuple(beside(spectrum, kind) for spectrum in found)


def solve_at_once(grams: Any, starts: Sequence[Any], solve: Callable[..., Spectrum]) -> tuple[Spectrum, ...]:
    """Return every graph's spectrum from all matrices (G x p x p), in float64: a GPU spends its time on launches."""
    found = solve(grams, start=None if starts[0] is None else stack(starts), precision="float64")
    blocks = [None] * len(starts) if found.start is None else found.start
    return tuple(map(Spectrum, found.basis, found.singular_values, found.constant, blocks))


def count_vectors(k: int) -> int:
    """Return the number of singular vectors of every graph for k clusters, unless ``basis="subspace"``.

    It is 3k/2, but at most k + MORE_VECTORS: time grows with the cube of their number.

    Examples
    --------
    >>> [count_vectors(k) for k in (3, 10, 100)]
    [5, 15, 120]
    """
    return k + min(-(-k // 2), MORE_VECTORS)


def concatenation_weight(n_views: int) -> float:
    """Return the weight of all views side by side, relative to one view: it grows with the number of views."""
    return float(np.sqrt(max(1.0, n_views / 2)))


@dataclass(frozen=True)
class FirstSums:
    """Sums over all rows that the first round needs, from one pass."""

    outer: np.ndarray  # (G r, G r): H
    common: np.ndarray  # (G, G) number of rows with neighbours in both graphs
    squares: np.ndarray  # (G, r): sum_i e_i^2 of every vector of every graph,
    fourths: np.ndarray  # (G, r): and sum_i e_i^4


def first_sums(rows: Rows, bases: np.ndarray, bounds: np.ndarray, unit: bool) -> FirstSums:
    """Return sums over the rows in the graphs' bases."""
    n_graphs, _, r = bases.shape
    kernels = kernels_of(bases)

    def add(block: Block, total: tuple[np.ndarray, ...]) -> None:
        outer, common, squares, fourths = total
        kernels.add_outer(kernels.known_graphs(block.weights, bounds), common)
        stacked = kernels.project(block.indices, block.weights, bounds, bases, False)  # (b, G r)
        kernels.add_powers(stacked, squares, fourths)
        if unit:
            stacked = kernels.unit_rows(stacked.reshape(-1, r)).reshape(stacked.shape)
        kernels.add_outer(stacked, outer)

    shapes = ((n_graphs * r, n_graphs * r), (n_graphs, n_graphs), (n_graphs * r,), (n_graphs * r,))
    totals = rows.sum(add, lambda: tuple(kernels.zeros(shape, bases) for shape in shapes), dense=True)
    outer, common, *powers = to_host(totals)
    return FirstSums(outer, common, *(power.reshape(n_graphs, r) for power in powers))


def weigh_graphs(sums: FirstSums, settings: CoTrainingSettings) -> GraphWeights:
    """Return the graphs' weights: those of the settings, times their trust where ``settings.trust``."""
    trust = graph_trust(sums, settings.n_components) if settings.trust else 1.0
    return GraphWeights(settings.graph_weights * trust, sums.common)


def graph_trust(sums: FirstSums, k: int) -> np.ndarray:
    """Return a factor of each graph's weight: about 1, and less where its singular vectors are localised on few rows.

    A vector that separates one of k clusters of equal size from the rest is supported on 1 / k of the rows. Vectors
    with a far smaller support show near-duplicates, or a few rows that are only weakly connected to the others. Support
    is measured by the participation ratio.
    """
    squares, fourths = sums.squares[:, :k], sums.fourths[:, :k]  # (G, k)
    counts = sums.common.diagonal()[:, None]  # (G, 1)
    support = squares**2 / np.maximum(fourths * counts, np.finfo(float).tiny)  # (G, k), share of the rows
    return np.sqrt(np.clip(k * np.median(support, axis=1), 0, 1)) + LEAST_TRUST  # (G,)


def sum_outer(rows: Rows, bases: np.ndarray, bounds: np.ndarray, unit: bool) -> np.ndarray:
    """Return H = sum_i e_i e_i^T, where e_i = [e^1_i .. e^G_i]."""
    n_graphs, _, r = bases.shape
    kernels = kernels_of(bases)

    def add(block: Block, total: tuple[np.ndarray]) -> None:
        stacked = kernels.project(block.indices, block.weights, bounds, bases, unit)  # (b, G r)
        kernels.add_outer(stacked, total[0])

    (outer,) = to_host(rows.sum(add, lambda: (kernels.zeros((n_graphs * r, n_graphs * r), bases),), dense=True))
    return outer


def as_if_complete(outer: np.ndarray, common: np.ndarray) -> np.ndarray:
    """Return H rescaled as if all rows had all views.

    Rows that lack a view add nothing to its graphs' blocks of H, so two graphs with few rows in ``common`` would seem
    to agree less than they do. The block of every two graphs is therefore divided by the share of rows in both.
    """
    n_graphs = len(common)
    scale = common.max() / np.maximum(common, 1)  # (G, G)
    blocks = outer.reshape(n_graphs, -1, n_graphs, outer.shape[0] // n_graphs)
    return (blocks * scale[:, None, :, None]).reshape(outer.shape)


def guide_anchors(anchors: np.ndarray, cosine: bool) -> np.ndarray:
    """Return U* at the landmarks, whose inner product with a row's u* is the guide; as unit rows for the cosine.

    The cosine also divides by the length of the row's u*, but that cancels when the row's weights are normalised to sum
    to one.
    """
    if not cosine:
        return anchors
    lengths = np.linalg.norm(anchors, axis=1, keepdims=True)  # (p, 1)
    return anchors / np.where(lengths > 0, lengths, 1)


def relative_change(before: np.ndarray | None, now: np.ndarray) -> float:
    """Return ||A*_now - A*_before|| / ||A*_before|| over the landmarks, from k x k products alone."""
    if before is None:
        return float("nan")
    old = np.sum((before.T @ before) ** 2)
    square = old + np.sum((now.T @ now) ** 2) - 2 * np.sum((before.T @ now) ** 2)
    return float(np.sqrt(max(square, 0) / old)) if old > 0 else 0.0


def graph_agreement(view: AugmentedView, *, has_constant: bool = False) -> np.ndarray:
    """Return how much of every graph's basis the consensus holds, relative to the most that it could hold.

    A direction that few graphs agree on is short in U*, so it has little weight in both quantities. With
    ``has_constant``, the first vector of every graph is constant. It is left out: even graphs of noise share it.
    """
    n_graphs, r, k = view.consensus.rotation.shape
    first = int(has_constant and k > 1)
    rotation = view.consensus.rotation.reshape(-1, k)
    overlap = view.outer @ rotation  # (G r, k): E^gT U*
    lengths = np.sum(rotation * overlap, axis=0).clip(0)  # (k,) squared, of U*'s columns, descending
    held = (overlap.reshape(n_graphs, r, k)[:, first:] ** 2).sum(axis=(1, 2))  # (G,)
    own = np.einsum("gagb->gab", view.outer.reshape(n_graphs, r, n_graphs, r))[:, first:, first:]  # E^gT E^g
    values = np.linalg.eigvalsh(own)[:, ::-1].clip(0)  # (G, r) descending
    m = min(k - first, values.shape[1])
    most = values[:, :m] @ lengths[first : first + m]  # (G,) if U*'s columns were the graph's own directions
    return np.minimum(held / np.where(most > 0, most, 1), 1)  # (G,) above 1 only by chance, where rows lack views


def pairwise_agreement(view: AugmentedView, *, has_constant: bool = False) -> np.ndarray:
    """Return ||E^gT E^h||^2 over the geometric mean of ||E^gT E^g||^2 and ||E^hT E^h||^2, for every pair of graphs.

    It is 1 where two graphs have the same basis, and the mean squared cosine of the angles between orthonormal bases.
    ``has_constant`` is that of :func:`graph_agreement`.
    """
    n_graphs = len(view.spectra)
    r = view.outer.shape[0] // n_graphs
    first = int(has_constant and r > 1)
    blocks = view.outer.reshape(n_graphs, r, n_graphs, r)[:, first:, :, first:]
    squares = np.einsum("gahb,gahb->gh", blocks, blocks)  # (G, G)
    own = np.sqrt(squares.diagonal())
    own = np.where(own > 0, own, 1)
    return np.minimum(squares / own / own[:, None], 1)

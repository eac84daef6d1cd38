"""What "auto" means: the parameters of an estimator and the shape of its views -> frozen settings. No row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.arrays import unmasked
from coterie.method.cotraining import (
    CONSENSUS_POWER,
    CoTrainingSettings,
    concatenation_weight,
    count_vectors,
)
from coterie.method.landmarks import LANDMARKS
from coterie.method.selection import settle_k_max
from coterie.placement import BlockPlan
from coterie.threads import count_threads
from coterie.validation import check_choice, check_int, check_real, in_python, per_view, refuse
from coterie.views import METRICS, SCALINGS, Views


@dataclass(frozen=True)
class Scale:
    """The defaults for the numbers of landmarks and neighbours, up to a number of rows."""

    most_rows: float
    n_landmarks: int
    n_neighbors: tuple[int, ...]


# Near neighbours follow the shape of clusters. With few rows, a wide scale averages noise out; with many, more
# landmarks make the labels depend less on the seed; and with very many, one scale and fewer landmarks must suffice,
# because memory grows with a row's neighbours, and time with its distances to the landmarks.
SCALES = (
    Scale(20_000, 1000, (5, 10, 80)),
    Scale(200_000, 1500, (5, 10)),
    Scale(np.inf, 1000, (10,)),
)
PUBLISHED = Scale(np.inf, 600, (8,))

# With fewer rows than a scale is made for, there is one landmark per FEWEST_ROWS rows, but at least LEAST_LANDMARKS and
# LANDMARKS_PER_CLUSTER per cluster: eigenvectors cost the cube of the number of landmarks.
FEWEST_ROWS = 3
LEAST_LANDMARKS = 600
LANDMARKS_PER_CLUSTER = 10

MOST_WEIGHT = 1e10  # largest sum of sample_weight

# The bases that basis="auto" chooses from, and the rounds after which the clusters of each are checked: guiding helps
# until clusters are clear, and then only sharpens the clusters it has found. No data gained from more than these.
CHECKED_ROUNDS = {"diffusion": (1, 2, 5), "commute": (1, 2, 5, 10), "islands": (1, 2, 5, 10)}
CANDIDATES = tuple(CHECKED_ROUNDS)

# Rounds where one basis is asked for; the paper takes about ten.
ROUNDS = {"diffusion": 2, "commute": 5, "islands": 10, "subspace": 10}

# The rounds learn from LEARNED_ROWS rows, or from LEARNED_PER_LANDMARK per landmark where that is more; the guides that
# they find are then applied to all rows. On MNIST, learning from 23 rows per landmark instead of all (47) gives labels
# with an ARI of .993 to those from all rows; between seeds the ARI is .933.
LEARNED_ROWS = 100_000
LEARNED_PER_LANDMARK = 100

# A scale is left out where a row's neighbours span more than SPANNED clusters of mean size: such a graph shows nothing
# about single clusters, and with 50 clusters and more it would take most of the time.
SPANNED = 4

# From this many rows on, the directions that views share are tried on a sample, before all rows are joined.
PILOTED_FROM = 100_000

# Where rows lack views, there are at most MOST_GROWTH times as many landmarks.
MOST_GROWTH = 2


@dataclass(frozen=True)
class LandmarkSettings:
    """Which rows become landmarks, and how many."""

    method: str  # one of LANDMARKS, or "given"
    means: bool  # whether landmarks are means of groups of rows, instead of the groups' medoids
    given: Any  # the user's own row numbers; None otherwise
    wanted: int  # p where every row has every view
    grows: bool  # whether p was "auto", and may be larger where rows lack views
    n_rows: int
    least: int  # the largest number of clusters that is tried

    def count(self, present: float) -> int:
        """Return the number of landmarks, given the share of (row, view) pairs that are present."""
        if not self.grows or present == 1:
            return self.wanted
        # A landmark that lacks a view is never a neighbour in it, so more are needed. But not all rows become
        # landmarks: complete rows are preferred, and the eigenvectors cost the cube of the number of landmarks.
        return min(int(self.wanted * min(1 / present, MOST_GROWTH)), max(7 * self.n_rows // 10, 2 * self.least))


@dataclass(frozen=True)
class PreparationSettings:
    """How every view is prepared before distances are measured."""

    scalings: tuple[str, ...]  # one per view
    metrics: tuple[str, ...]
    dtype: Any


@dataclass(frozen=True)
class GraphSettings:
    """How rows are joined to landmarks."""

    scales: tuple[int, ...]  # numbers of neighbours
    fitted_to_landmarks: bool  # whether scales were "auto", and shrink where landmarks are few or clusters many
    n_clusters: int  # or the largest number that is tried
    given: Any  # n_neighbors as the user gave it, for error messages
    bandwidths: tuple[Any, ...]  # one per view: "local", "median" or sigma
    shared: bool  # whether all views share the neighbours that are nearest over all views
    concatenation: bool
    precision: str  # of products on a GPU

    def neighbors(self, owner: str, n_landmarks: int, n_rows: int) -> list[int]:
        """Return the numbers of neighbours, given how many landmarks there are."""
        if self.fitted_to_landmarks:
            least, most = min(self.scales), SPANNED * n_landmarks // self.n_clusters
            return sorted({min(q, max(1, n_landmarks // 2)) for q in self.scales if q <= max(least, most)})
        if max(self.scales) >= max(2, n_landmarks):
            refuse(
                owner, "n_neighbors", f"below the number of landmarks, {n_landmarks} (n_samples={n_rows})", self.given
            )
        return list(self.scales)


@dataclass(frozen=True)
class RoundSettings:
    """How the views' graphs are merged and guided; what depends on the graphs and on k is settled later."""

    bases: tuple[str, ...]  # the basis that was asked for, or the candidates
    drop_first: bool | None  # None follows the basis
    cosine: bool
    max_iter: int | None  # None follows the basis
    tol: float
    n_components: int | None  # None: k
    view_weights: np.ndarray  # (V + 1,) the last one is the concatenation's
    trust: bool  # whether weights are learned from the graphs
    n_threads: int

    def for_graphs(self, graph_views: Sequence[int], n_clusters: int) -> dict[str, CoTrainingSettings]:
        """Return the settings of every basis for k clusters, given the view that every graph belongs to."""
        return {basis: self._settle(basis, graph_views, self.n_components or n_clusters) for basis in self.bases}

    def checked_rounds(self, basis: str) -> tuple[int, ...]:
        """Return the rounds after which the clusters of a basis are checked, ascending: it may stop at any of them."""
        if self.max_iter is not None:
            return (self.max_iter,)
        return CHECKED_ROUNDS[basis] if len(self.bases) > 1 else (ROUNDS[basis],)

    def _settle(self, basis: str, graph_views: Sequence[int], k: int) -> CoTrainingSettings:
        published, islands = basis == "subspace", basis == "islands"
        return CoTrainingSettings(
            n_components=k,
            n_vectors=k if published else count_vectors(k),
            drop_first=not published if self.drop_first is None else self.drop_first,
            weighting={"subspace": "equal", "islands": "commute"}.get(basis, basis),
            unit=not (published or islands),
            cosine=self.cosine,
            max_iter=self.checked_rounds(basis)[-1],
            tol=self.tol,
            consensus_power=0.0 if published else CONSENSUS_POWER,
            graph_weights=self.view_weights[list(graph_views)],  # CONCATENATION is -1, the last one
            trust=self.trust and not published,
            n_threads=self.n_threads,
            add_constant=islands and self.drop_first is None,
        )


@dataclass(frozen=True)
class Settings:
    """Everything that a fit must know besides the rows."""

    owner: str  # whose parameters they are, for error messages
    n_clusters: int | None  # None: chosen from the graphs
    most_clusters: int  # n_clusters, or the largest number that is tried
    landmarks: LandmarkSettings
    preparation: PreparationSettings
    graphs: GraphSettings
    rounds: RoundSettings
    published: bool  # whether the rounds learn from all rows and all runs of k-means are made, as published
    assign_labels: str
    n_init: int
    store_embedding: bool
    measure_stability: bool
    may_share: bool  # whether views may be reduced to the directions that they share
    plan: BlockPlan

    @property
    def least_clusters(self) -> int:
        """The number of clusters that every view must have rows for."""
        return 2 if self.n_clusters is None else self.n_clusters

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return self.plan.n_threads

    def learned_rows(self, n_rows: int, n_landmarks: int) -> int:
        """Return the number of rows that the rounds learn from."""
        if self.published:
            return n_rows
        return min(n_rows, max(LEARNED_ROWS, LEARNED_PER_LANDMARK * n_landmarks))


def settle(owner: str, parameters: Mapping[str, Any], views: Views) -> Settings:
    """Return the settings of a fit.

    Parameters
    ----------
    owner : str
        Whose parameters they are, for error messages.
    parameters : dict
        Those of :class:`coterie.GuidedCoTraining`, checked by :func:`check_parameters`.
    views : Views
        Only their names, their number of rows and their device are used.

    Returns
    -------
    Settings

    Examples
    --------
    >>> from coterie import GuidedCoTraining
    >>> from coterie.views import as_views
    >>> settings = settle("GuidedCoTraining", GuidedCoTraining(3).get_params(), as_views(np.zeros((50_000, 2))))
    >>> settings.landmarks.wanted, settings.graphs.scales
    (1500, (5, 10))
    """
    given = {name: in_python(value) for name, value in parameters.items()}
    stability = given["measure_stability"]
    most = most_clusters(owner, given["n_clusters"], views.n_rows)
    scale = auto_scale(given["basis"], views.n_rows)
    plan = BlockPlan(given["block_size"], count_threads(given["n_jobs"]))
    return Settings(
        owner=owner,
        n_clusters=None if is_auto(given["n_clusters"]) else most,
        most_clusters=most,
        landmarks=settle_landmarks(owner, given, scale, views.n_rows, most),
        preparation=settle_preparation(owner, given, views.names),
        graphs=settle_graphs(owner, given, scale, views.names, most),
        rounds=settle_rounds(owner, given, views.names, plan.n_threads),
        published=given["basis"] == "subspace",
        assign_labels=given["assign_labels"],
        n_init=given["n_init"],
        store_embedding=given["store_embedding"],
        measure_stability=views.device is None if is_auto(stability) else stability,
        may_share=is_auto(given["basis"]) and is_auto(given["scaling"]) and len(views.names) > 1,
        plan=plan,
    )


def is_auto(value: Any) -> bool:
    """Whether a parameter is "auto"; arrays are never compared with text."""
    return isinstance(value, str) and value == "auto"


def most_clusters(owner: str, n_clusters: Any, n_rows: int) -> int:
    """Return the number of clusters, or the largest one that "auto" tries."""
    if is_auto(n_clusters):
        return settle_k_max(owner, None, n_rows)
    if n_rows < n_clusters:
        raise ValueError(
            f"n_samples={n_rows} should be >= n_clusters={n_clusters}. Ask for fewer clusters or pass more rows."
        )
    return n_clusters


def auto_scale(basis: str, n_rows: int) -> Scale:
    """Return the numbers of landmarks and neighbours that "auto" means."""
    return PUBLISHED if basis == "subspace" else next(scale for scale in SCALES if n_rows <= scale.most_rows)


def settle_landmarks(owner: str, given: Mapping[str, Any], scale: Scale, n_rows: int, k: int) -> LandmarkSettings:
    """Return which rows become landmarks."""
    method, count = given["landmarks"], given["n_landmarks"]
    if not isinstance(method, str):
        return LandmarkSettings("given", False, method, len(method), False, n_rows, k)
    means = given["basis"] != "subspace" and method != "random"
    if is_auto(count):
        wanted = scale.n_landmarks if scale is PUBLISHED else enough_landmarks(scale, n_rows, k)
        return LandmarkSettings(method, means, None, min(n_rows, max(wanted, 2 * k)), True, n_rows, k)
    if count > n_rows:
        refuse(owner, "n_landmarks", f"at most the number of rows, {n_rows}", count)
    if count < k and not is_auto(given["n_clusters"]):
        refuse(owner, "n_landmarks", f"at least n_clusters={k}", count)
    return LandmarkSettings(method, means, None, count, False, n_rows, k)


def enough_landmarks(scale: Scale, n_rows: int, k: int) -> int:
    """Return the scale's number of landmarks, or fewer where rows are few.

    Examples
    --------
    >>> [enough_landmarks(SCALES[0], n_rows, 10) for n_rows in (500, 2000, 10_000)]
    [600, 666, 1000]
    """
    enough = max(LEAST_LANDMARKS, n_rows // FEWEST_ROWS, LANDMARKS_PER_CLUSTER * k)
    return min(scale.n_landmarks, enough)


def settle_preparation(owner: str, given: Mapping[str, Any], view_names: Sequence[str]) -> PreparationSettings:
    """Return how every view is prepared."""
    scalings = per_view(owner, "scaling", given["scaling"], view_names, "auto")
    metrics = per_view(owner, "metric", given["metric"], view_names, "auto")
    for scaling, metric in zip(scalings, metrics, strict=True):
        check_choice(owner, "scaling", scaling, SCALINGS)
        check_choice(owner, "metric", metric, METRICS)
    dtype = "float32" if is_tf32(given["dtype"]) else given["dtype"]
    return PreparationSettings(tuple(scalings), tuple(metrics), dtype)


def settle_graphs(
    owner: str, given: Mapping[str, Any], scale: Scale, view_names: Sequence[str], n_clusters: int
) -> GraphSettings:
    """Return how rows are joined to landmarks."""
    auto = is_auto(given["n_neighbors"])
    bandwidths = per_view(owner, "bandwidth", given["bandwidth"], view_names, "local")
    for bandwidth in bandwidths:
        if not isinstance(bandwidth, str) or bandwidth not in ("local", "median"):
            check_real(owner, "bandwidth", bandwidth, low=0, above=True)
    return GraphSettings(
        scales=scale.n_neighbors if auto else tuple(as_scales(given["n_neighbors"])),
        fitted_to_landmarks=auto,
        n_clusters=n_clusters,
        given=given["n_neighbors"],
        bandwidths=tuple(bandwidths),
        shared=given["neighbors"] == "shared",
        concatenation=given["concatenation"],
        precision="tf32" if is_tf32(given["dtype"]) else "float32",
    )


def settle_rounds(owner: str, given: Mapping[str, Any], view_names: Sequence[str], n_threads: int) -> RoundSettings:
    """Return how graphs are merged and guided."""
    return RoundSettings(
        bases=CANDIDATES if is_auto(given["basis"]) else (given["basis"],),
        drop_first=given["drop_first"],
        cosine=given["guide"] == "cosine",
        max_iter=None if is_auto(given["max_iter"]) else given["max_iter"],
        tol=given["tol"],
        n_components=given["n_components"],
        view_weights=weigh_views(owner, given["view_weights"], view_names),
        trust=is_auto(given["view_weights"]),
        n_threads=n_threads,
    )


def weigh_views(owner: str, given: Any, view_names: Sequence[str]) -> np.ndarray:
    """Return the initial weight of every view, and that of the concatenation last."""
    weights = per_view(owner, "view_weights", 1.0 if is_auto(given) else given, view_names, 1.0)
    for weight in weights:
        check_real(owner, "view_weights", weight, low=0)
    if not any(weights):
        refuse(owner, "view_weights", "above 0 for at least one view", given)
    largest = max(weights)
    mean = largest * np.mean(np.array(weights) / largest)  # the sum of weights may overflow
    return np.array([*weights, mean * concatenation_weight(len(view_names))])  # (V + 1,)


def is_tf32(dtype: Any) -> bool:
    """Whether products on a GPU are rounded to 10 bits."""
    return isinstance(dtype, str) and dtype == "tf32"


def as_scales(n_neighbors: Any) -> list[Any]:
    """Return the numbers of neighbours as a list.

    Examples
    --------
    >>> as_scales(8), as_scales((5, 10))
    ([8], [5, 10])
    """
    return list(n_neighbors) if isinstance(n_neighbors, list | tuple | np.ndarray) else [n_neighbors]


def check_parameters(owner: str, parameters: Mapping[str, Any]) -> None:
    """Refuse values that are wrong whatever the data."""
    given = parameters
    for name in ("n_clusters", "n_landmarks", "max_iter"):
        if not is_auto(given[name]):
            check_int(owner, name, given[name], low=1, otherwise=" or 'auto'")
    check_neighbors(owner, given["n_neighbors"])
    check_int(owner, "n_init", given["n_init"], low=1)
    check_real(owner, "tol", given["tol"], low=0)
    for name in ("n_components", "block_size"):
        if given[name] is not None:
            check_int(owner, name, given[name], low=1)
    for name, choices in CHOICES.items():
        check_choice(owner, name, given[name], choices)
    check_choice(owner, "dtype", str(getattr(given["dtype"], "__name__", given["dtype"])), DTYPES)
    if given["n_jobs"] is not None:
        check_int(owner, "n_jobs", given["n_jobs"], low=-(10**6))
        if given["n_jobs"] == 0:
            refuse(owner, "n_jobs", "-1 for all cores, or a number of threads", given["n_jobs"])
    if isinstance(given["view_weights"], str):
        check_choice(owner, "view_weights", given["view_weights"], ("auto",))
    if isinstance(given["landmarks"], str) or np.ndim(given["landmarks"]) != 1:
        check_choice(owner, "landmarks", given["landmarks"], LANDMARKS)


def check_weights(owner: str, weights: Any, n_rows: int) -> np.ndarray | None:
    """Return how often each row is repeated; None without weights."""
    if weights is None:
        return None
    found = np.asarray(unmasked(weights))
    if found.dtype.kind == "O":  # perhaps integers of another library's type
        with suppress(TypeError, ValueError):
            found = found.astype(np.float64)
    if found.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {found.shape}, but there are {n_rows} rows. Pass one whole number for each row."
        )
    if found.dtype.kind not in "biuf" or not np.isfinite(found).all() or (found < 1).any() or (found % 1).any():
        raise ValueError(
            f"The 'sample_weight' of {owner}.fit must be whole numbers of at least 1: how many rows each row stands "
            "for. Leave out rows of weight zero; scale and round weights that are fractions."
        )
    if (total := found.sum(dtype=np.float64)) > MOST_WEIGHT:
        raise ValueError(
            f"The 'sample_weight' of {owner}.fit stands for {total:.1e} rows, and a fit takes as long as for that "
            "many. Divide it by a common factor, and round."
        )
    return found.astype(np.int64)  # (n,)


def check_neighbors(owner: str, n_neighbors: Any) -> None:
    """Refuse numbers of neighbours that are not distinct integers of at least 1."""
    if is_auto(n_neighbors):
        return
    scales = as_scales(n_neighbors)
    for q in scales:
        check_int(owner, "n_neighbors", q, low=1, otherwise=", a list of different ones, or 'auto'")
    if len(set(scales)) < max(len(scales), 1):
        refuse(owner, "n_neighbors", "one number, or several different ones", n_neighbors)


DTYPES = ("float32", "float64", "tf32")
CHOICES: dict[str, tuple[Any, ...]] = {
    "neighbors": ("view", "shared"),
    "basis": ("auto", *ROUNDS),
    "guide": ("cosine", "inner"),
    "assign_labels": ("kmeans", "cluster_qr"),
    "drop_first": (None, True, False),
    "measure_stability": ("auto", True, False),
    "concatenation": (True, False),
    "store_embedding": (True, False),
}

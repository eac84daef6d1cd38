"""GuidedCoTraining: the parameters, ``fit`` as a table of contents, and what a fit leaves behind."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie import __version__
from coterie.arrays import array_namespace, to_host
from coterie.method.assignment import Census, Prediction, assign, count_clusters, fit_centroids, merge_censuses
from coterie.method.cotraining import (
    CONSENSUS_POWER,
    DIFFUSION,
    CoTraining,
    CoTrainingSettings,
    Round,
    concatenation_weight,
    cotrain,
    count_vectors,
    graph_agreement,
    pairwise_agreement,
)
from coterie.method.explanation import SAMPLE_ROWS as ASKED_ROWS
from coterie.method.explanation import ask_views, cluster_agreement, view_places
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
    LANDMARKS,
    check_landmarks,
    choose_landmarks,
    concatenated_sample,
    landmark_candidates,
    sample_size,
)
from coterie.method.rowmap import RowMap, embed_rows
from coterie.method.selection import KSuggestion, settle_k_max, suggest_from_graphs
from coterie.method.stability import landmark_stability
from coterie.placement import (
    RESERVED_BYTES,
    Workplace,
    as_given,
    describe_job,
    explain_memory,
    place_views,
    rows_of,
    workplace,
)
from coterie.progress import Progress, Stopwatch
from coterie.rows import Rows
from coterie.rows.sampling import draw_sample, sample_rows
from coterie.threads import count_threads, in_order, one_thread_per_block
from coterie.validation import check_bytes, check_choice, check_int, check_real, must_be_finite, per_view, refuse
from coterie.views import (
    METRICS,
    SCALINGS,
    Preparation,
    RawRows,
    RowRange,
    Shape,
    Views,
    as_views,
    check_columns,
    check_finite_rows,
    check_overlap,
    match_views,
    prepare,
    within_float_range,
)

# What a fit does not always leave behind, and must not be mistaken for its own where an earlier one did.
LEFT_OVER = ("n_features_in_", "feature_names_in_", "embedding_", "k_suggestion_", "stability_", "cluster_stability_")


# What may differ when a fit is taken up again: the labels do not depend on it.
FREE_TO_CHANGE = ("n_jobs", "verbose", "memory_limit", "work_dir")


@dataclass(frozen=True)
class Scale:
    """Landmarks and neighbours that suit a number of rows."""

    most_rows: float
    n_landmarks: int
    n_neighbors: tuple[int, ...]


# Near neighbours follow the shape of clusters. Where rows are few, a wide scale sees past noise; where they are many,
# more landmarks keep the answer the same from seed to seed; and for very many, one scale and fewer landmarks must do,
# since what is kept of a row is its neighbours, and what it costs is its distances to the landmarks.
SCALES = (
    Scale(20_000, 1000, (5, 10, 80)),
    Scale(200_000, 1500, (5, 10)),
    Scale(np.inf, 1000, (10,)),
)
PUBLISHED = Scale(np.inf, 600, (8,))

# The rounds learn from so many rows, or so many for each landmark; the others only follow. On MNIST, 23 rows a landmark
# instead of all (47) lead to labels with an ARI of .993 to those of all, where it is .933 between seeds.
LEARNED_ROWS = 100_000
LEARNED_PER_LANDMARK = 100

# Where rows lack views, there are at most so many times as many landmarks.
MOST_GROWTH = 2


@dataclass(frozen=True)
class Graphs:
    """Every row joined to its nearest landmarks: what the rounds start from."""

    rows: Rows  # blocks of neighbours
    landmark_block: Block  # the landmarks' own neighbours
    graph_map: GraphMap
    landmarks: np.ndarray  # (p,) row numbers


class GuidedCoTraining(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Cluster rows that are seen through several views, and assign new rows exactly.

    Every row is joined to its nearest *landmarks* in every view; the views' spectral bases are merged into one
    augmented view, which guides the views' graphs towards each other, round by round (Liu, "Guided Co-training for
    Large-Scale Multi-View Spectral Clustering"). Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters, k. "auto" takes the number that the graphs speak for most; ``k_suggestion_`` shows why.
    views : dict or list of column selections, default=None
        Splits the columns of a single table into views: slices, lists of column numbers or lists of column names.
    n_landmarks : int or "auto", default="auto"
        Number of landmarks, p. "auto" is 1,000 (1,500 from 20,000 to 200,000 rows; 600 with ``basis="subspace"``), at
        least twice the clusters, and at most all rows. Where rows lack views it is up to twice as many, so that every
        view knows enough of them, and at most seven tenths of the rows. Ignored where ``landmarks`` are given.
    n_neighbors : int, list of int or "auto", default="auto"
        Landmarks that a row is joined to in each graph, q. Several numbers make graphs at several scales, which cost
        one search. "auto" is 5, 10 and 80; 5 and 10 above 20,000 rows, 10 above 200,000; 8 with ``basis="subspace"``.
    landmarks : "kmedoids", "kmedoids++", "random" or array of row numbers, default="kmedoids"
        How landmarks are chosen: medoids of a light clustering that starts from rows drawn evenly, or from rows far
        apart; rows drawn evenly; or the landmarks themselves.
    neighbors : "view" or "shared", default="view"
        Whether each view chooses neighbours by its own distances, or all by those over all views.
    concatenation : bool, default=True
        Whether all views side by side take part as one more view.
    bandwidth : "local", "median" or number, default="local"
        Width of the Gaussian weights: each row's mean distance to its neighbours; the median distance between rows, as
        published; or sigma itself, in units of prepared rows (which have unit mean squared distance from their mean,
        except with ``scaling="none"``). A dict or list gives one per view.
    scaling : "auto", "block", "half", "standard" or "none", default="auto"
        What is done to a view before distances are measured. "auto" looks at the values: words are log-scaled, weighted
        and reduced; links of a graph are diffused; skewed columns are log-scaled, heavy tails clipped, and columns of
        unlike units standardised. "block" centres and gives the view unit mean squared norm; "half" and "standard"
        first divide each column by the root of its standard deviation, or by all of it; "none" leaves the values as
        they are. A dict or list gives one per view.
    metric : "auto", "euclidean" or "cosine", default="auto"
        Distance between rows; "auto" follows ``scaling``, and words and graphs are compared by their cosine whatever is
        said here. A dict or list gives one per view.
    view_weights : "auto", number, dict or list of numbers, default="auto"
        How much each view counts in the augmented view. "auto" trusts a view's graphs less where their singular vectors
        live on a few rows only, as those of near-duplicates and sparse text do; 1 treats all alike.
    basis : "diffusion" or "subspace", default="diffusion"
        What every graph brings to the augmented view: its k first singular vectors, as published ("subspace"); or 3k/2
        vectors behind the first, each weighted by its squared singular value, as rows of length one.
    guide : "cosine" or "inner", default="cosine"
        How alike a row and a landmark are in the augmented view; "inner" is as published.
    max_iter : int, default=2
        Rounds at most. One round is no guiding at all; the paper takes about ten. They learn from 100,000 rows at most,
        or 100 for each landmark, which the others then follow; with ``basis="subspace"`` from all.
    tol : float, default=1e-3
        The rounds end when the augmented view's affinities change by less than this, relatively.
    n_components : int, default=None
        Columns of the embedding; None is ``n_clusters``.
    drop_first : bool, default=None
        Whether to leave out each graph's first singular vector, which is constant on a connected graph. None follows
        ``basis``: kept as published, left out for "diffusion".
    assign_labels : "kmeans" or "cluster_qr", default="kmeans"
        How the embedding is cut into clusters.
    n_init : int, default=10
        Restarts of k-means.
    store_embedding : bool, default=False
        Whether to keep ``embedding_`` (rows x n_components).
    measure_stability : bool or "auto", default="auto"
        Whether to find out how far the clusters depend on the draw of landmarks, at about a tenth of the cost of a fit.
        "auto" does so except on a GPU, where it would take longer than the fit.
    dtype : "float32", "float64" or "tf32", default="float32"
        Precision of row work; sums and small matrices are always float64. "tf32" is float32 with products of 10 bits on
        a GPU: they take a third of the time, and one neighbour in 400 is another.
    device : "auto", "cpu", "cuda" or a torch device, default="auto"
        Where the work is done. "auto" is the GPU on which the views lie as tensors, else this machine's cores. With
        "cuda", views in host memory are brought to the GPU block by block. "torch" runs the GPU's code on the cores.
    memory_limit : int or str, default=None
        How much memory this process may take, such as "4GB", at least 1 GB. Where what a fit keeps of all rows would
        take more, it is kept in files. None: everything is kept in memory.
    work_dir : str or Path, default=None
        Folder in which the fit keeps what it has done, so that it can be stopped or killed and taken up again by the
        same call: the labels are the same to the last bit. It is empty again when the fit is done. None: a fit that is
        stopped is lost, and files that ``memory_limit`` asks for are where the system has its temporary files.
    block_size : int, default=None
        Rows per block of work. None chooses by the number of rows.
    n_jobs : int, default=-1
        Threads; -1 uses all cores. The labels do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn.
    verbose : int, default=0
        1 writes a line per stage and round to standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of every row. It, ``confidence_`` and ``embedding_`` are tensors or Dask arrays where the views are.
    n_clusters_ : int
        Number of clusters.
    k_suggestion_ : KSuggestion
        The evidence for numbers of clusters; only with ``n_clusters="auto"``.
    embedding_ : ndarray of shape (n, n_components)
        Rows of the augmented view, each of length one; only with ``store_embedding``.
    confidence_ : ndarray of shape (n,)
        How much nearer each row is to its own centroid than to the next: 0 on the border, 1 at the centroid.
    medoid_indices_ : ndarray of shape (n_clusters,)
        The row nearest to each centroid; -1 for a cluster that is empty.
    preparation_ : dict of str
        What was done to each view before distances were measured.
    view_weights_ : dict of float
        How much each view counted.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        Centroids in the embedding.
    view_names_ : tuple of str
        The views, in order.
    landmark_indices_ : ndarray of shape (p,)
        Rows that are landmarks.
    singular_values_ : dict of ndarray
        Top singular values of every graph, by view and scale, one more than is used, after the last round.
    consensus_singular_values_ : ndarray
        Singular values of all bases side by side; those past n_components were left out of the consensus.
    agreement_ : dict of float
        How much of what each view's graphs bring is in the consensus, between 0 and 1, before any guiding. Near 0 for a
        view of noise.
    cluster_agreement_ : ndarray of shape (n_clusters, n_views)
        Share of each cluster's rows that each view alone puts there too.
    stability_ : float
        How alike the partitions are that two halves of the landmarks lead to (adjusted Rand index, before guiding): 1
        where the draw of landmarks does not matter. On the low side, because half the landmarks are fewer. Only with
        ``measure_stability``.
    cluster_stability_ : ndarray of shape (n_clusters,)
        The same for the rows of each cluster: the mean Jaccard index of the groups that two halves put a row in.
    graph_agreement_ : ndarray of shape (graphs, graphs)
        How alike every two graphs are (1: they say the same), in the order of ``singular_values_``.
    row_ids_ : ndarray of shape (n,) or None
        The rows' names in the order of ``labels_``, where the input had an index.
    history_ : list of dict
        Per round: change of A*, agreement and seconds.
    n_iter_ : int
        Number of rounds.
    timings_ : dict of float
        Seconds per stage.

    Examples
    --------
    >>> from coterie import GuidedCoTraining
    >>> from coterie.datasets import make_views
    >>> data = make_views(300, n_clusters=3, random_state=0)
    >>> model = GuidedCoTraining(3, random_state=0).fit(data.views)
    >>> bool((model.predict(data.views) == model.labels_).all())
    True
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        views=None,
        n_landmarks="auto",
        n_neighbors="auto",
        landmarks="kmedoids",
        neighbors="view",
        concatenation=True,
        bandwidth="local",
        scaling="auto",
        metric="auto",
        view_weights="auto",
        basis="diffusion",
        guide="cosine",
        max_iter=2,
        tol=1e-3,
        n_components=None,
        drop_first=None,
        assign_labels="kmeans",
        n_init=10,
        store_embedding=False,
        measure_stability="auto",
        dtype="float32",
        device="auto",
        memory_limit=None,
        work_dir=None,
        block_size=None,
        n_jobs=-1,
        random_state=None,
        verbose=0,
    ):
        self.n_clusters = n_clusters
        self.views = views
        self.n_landmarks = n_landmarks
        self.n_neighbors = n_neighbors
        self.landmarks = landmarks
        self.neighbors = neighbors
        self.concatenation = concatenation
        self.bandwidth = bandwidth
        self.scaling = scaling
        self.metric = metric
        self.view_weights = view_weights
        self.basis = basis
        self.guide = guide
        self.max_iter = max_iter
        self.tol = tol
        self.n_components = n_components
        self.drop_first = drop_first
        self.assign_labels = assign_labels
        self.n_init = n_init
        self.store_embedding = store_embedding
        self.measure_stability = measure_stability
        self.dtype = dtype
        self.device = device
        self.memory_limit = memory_limit
        self.work_dir = work_dir
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, n_clusters: int = 8, **overrides: Any) -> GuidedCoTraining:
        """Return an estimator with every setting as in the paper, except those given.

        Raw features, 600 landmarks by k-medoids (all rows where they are fewer), 8 neighbours per view, the median
        distance as bandwidth, inner products as guide, k components with the first kept.

        Examples
        --------
        >>> GuidedCoTraining.as_published(10).guide
        'inner'
        """
        published = {
            "n_landmarks": "auto",
            "n_neighbors": "auto",
            "landmarks": "kmedoids",
            "neighbors": "view",
            "concatenation": False,
            "bandwidth": "median",
            "scaling": "none",
            "metric": "euclidean",
            "view_weights": 1.0,
            "basis": "subspace",
            "guide": "inner",
            "max_iter": 10,
            "n_components": None,
            "drop_first": False,
            "assign_labels": "kmeans",
        }
        return cls(n_clusters, **{**published, **overrides})

    def fit(self, X: Any, y: Any = None) -> GuidedCoTraining:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array, frame, or a list, tuple or dict of them
            Tables with the same rows, one per view: NumPy arrays, SciPy sparse matrices, pandas or polars frames, Dask
            arrays or dataframes. A single table is one view, or several with ``views=``. A row that is NaN throughout
            a view lacks it; frames with different indexes are matched by index, Dask's by position.
        y : ignored

        Returns
        -------
        self
        """
        progress = Progress(self.verbose)
        self._check_parameters()
        views = self._read_views(X)
        with one_thread_per_block(), explain_memory(views), self._workplace(views) as (place, rng):
            weights = self._weigh(views)
            most = self._most_clusters(views.n_rows)
            graphs = self._connect(views, most, place, rng, progress)
            with progress.stage("n_clusters"):
                k = self._settle_k(graphs, most, rng)
            asked = draw_sample(views.n_rows, ASKED_ROWS, rng)
            asked_block = graphs.rows.take(asked)  # as the views see them, before any guiding
            settings = self._settle_rounds(graphs.graph_map, weights, k)
            with progress.stage("rounds"):
                learned = self._learned_rows(graphs, rng)
                training = cotrain(
                    learned,
                    graphs.landmark_block,
                    graphs.graph_map.bounds,
                    settings,
                    lambda number, line: progress.say(describe(number, line)),
                )
            row_map = RowMap(graphs.graph_map, training.guides, training.view.basis)
            with progress.stage("assignment"):
                guided = training.rows if learned is graphs.rows else None
                asked_labels = self._assign(embed_rows(graphs.rows, row_map, guided), k, asked, rng)
            with progress.stage("explanation"):
                self._view_places = view_places(asked_block, asked_labels, row_map, k)
                self.cluster_agreement_ = cluster_agreement(asked_block, asked_labels, row_map, self._view_places)
            if self.measure_stability is True or (self.measure_stability == "auto" and views.device is None):
                with progress.stage("stability"):
                    self._measure_stability(graphs.graph_map.bounds, asked_block, asked_labels, training, settings, rng)
        self._row_map = to_host(row_map)
        for name in ("labels_", "confidence_", "embedding_"):
            if hasattr(self, name):
                setattr(self, name, as_given(getattr(self, name), X))
        self._describe_fit(views, graphs.landmarks, training, learned.n_rows)
        self.timings_ = progress.finish()
        return self

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Cluster the rows of X and return their labels."""
        return self.fit(X).labels_

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old; the rows of the fit get the labels of the fit.

        Parameters
        ----------
        X : like in ``fit``
            The same views with the same columns. A dict may leave out views that the rows lack.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        centroids = self.cluster_centers_  # and not self, which may be large, to wherever the rows are
        return self._map_rows(X, lambda rows: assign(rows, centroids).labels)

    def confidence(self, X: Any) -> np.ndarray:
        """Return how much nearer each row is to its own cluster than to the next: 0 on the border, 1 at the centre.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        centroids = self.cluster_centers_  # and not self, which may be large, to wherever the rows are
        return self._map_rows(X, lambda rows: assign(rows, centroids).confidence)

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows' embedding: their place in the augmented view, each of length one.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        return self._map_rows(X, lambda rows: rows)

    def stream(self, X: Any) -> Iterator[Prediction]:
        """Yield labels, confidence and embedding block by block, in the order of the rows, in one pass over them.

        For more rows than memory has room for results: what is yielded can be written, and forgotten.

        Parameters
        ----------
        X : like in ``predict``

        Yields
        ------
        Prediction

        Examples
        --------
        >>> from coterie import GuidedCoTraining
        >>> from coterie.datasets import make_views
        >>> data = make_views(300, n_clusters=3, random_state=0)
        >>> model = GuidedCoTraining(3, random_state=0, block_size=100).fit(data.views)
        >>> [(part.first_row, len(part.labels)) for part in model.stream(data.views)]
        [(0, 100), (100, 100), (200, 100)]
        """
        check_is_fitted(self)
        centroids = self.cluster_centers_

        def label(row_map: RowMap, block: RawRows) -> Prediction:
            embedding = row_map(block.views, block.first_row)  # (b, c)
            part = assign(embedding, centroids)
            return Prediction(block.first_row, part.labels, part.confidence, embedding)

        with self._new_rows(X) as (rows, row_map):
            for part in rows.stream(partial(label, row_map), load=RowRange.read):
                yield Prediction(part.first_row, *(as_given(array, X) for array in part.arrays()))

    def view_labels(self, X: Any) -> np.ndarray:
        """Return the cluster that each view alone speaks for, -1 where a row lacks the view.

        Each view is asked before any guiding: which cluster's rows does it see this row among? Rows on which the views
        disagree are those where a line holds several numbers.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n, n_views)
        """
        check_is_fitted(self)
        places = self._view_places

        def ask(row_map: RowMap, block: RawRows) -> np.ndarray:
            return ask_views(row_map.graph_map.connect(block.views, block.first_row), row_map, places)

        return self._collect(X, ask)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Cluster the rows of X and return their embedding."""
        return self.fit(X).transform(X)

    def report(self, path: Any, X: Any = None, **settings: Any) -> Path:
        """Write what was found as one HTML file that needs nothing else.

        Parameters
        ----------
        path : str or Path
            The file.
        X : like in ``predict``, default=None
            The rows of the fit. Without them, what needs rows is left out.
        **settings
            Like in :func:`coterie.report.write_report`: known labels, ids, images, words, a title.

        Returns
        -------
        Path
        """
        from coterie.report import write_report

        return write_report(self, path, X, **settings)

    def _html_repr(self) -> str:
        if not hasattr(self, "timings_"):
            return super()._html_repr()
        from coterie.report import html_summary

        return html_summary(self)

    @property
    def _n_features_out(self) -> int:
        return self._row_map.basis.rotation.shape[2]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    # -- the steps of fit ---------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        if self.n_clusters != "auto":
            check_int(owner, "n_clusters", self.n_clusters, low=1)
        if self.n_landmarks != "auto":
            check_int(owner, "n_landmarks", self.n_landmarks, low=1)
        if not isinstance(self.n_neighbors, str) or self.n_neighbors != "auto":
            found = scales(self.n_neighbors)
            for q in found:
                check_int(owner, "n_neighbors", q, low=1)
            if len(set(found)) < max(len(found), 1):
                refuse(owner, "n_neighbors", "one number, or several different ones", self.n_neighbors)
        for name in ("max_iter", "n_init"):
            check_int(owner, name, getattr(self, name), low=1)
        check_real(owner, "tol", self.tol, low=0)
        for name in ("n_components", "block_size"):
            if getattr(self, name) is not None:
                check_int(owner, name, getattr(self, name), low=1)
        check_choice(owner, "neighbors", self.neighbors, ("view", "shared"))
        check_choice(owner, "basis", self.basis, ("diffusion", "subspace"))
        check_choice(owner, "guide", self.guide, ("cosine", "inner"))
        check_choice(owner, "assign_labels", self.assign_labels, ("kmeans", "cluster_qr"))
        check_choice(owner, "dtype", str(getattr(self.dtype, "__name__", self.dtype)), ("float32", "float64", "tf32"))
        check_choice(owner, "drop_first", self.drop_first, (None, True, False))
        check_choice(owner, "measure_stability", self.measure_stability, ("auto", True, False))
        for name in ("concatenation", "store_embedding"):
            check_choice(owner, name, getattr(self, name), (True, False))
        if self.n_jobs is not None:
            check_int(owner, "n_jobs", self.n_jobs, low=-(10**6))
            if self.n_jobs == 0:
                refuse(owner, "n_jobs", "-1 for all cores, or a number of threads", self.n_jobs)
        if self._learns_weights():
            check_choice(owner, "view_weights", self.view_weights, ("auto",))
        if isinstance(self.landmarks, str) or np.ndim(self.landmarks) != 1:
            check_choice(owner, "landmarks", self.landmarks, LANDMARKS)

    def _read_views(self, X: Any) -> Views:
        views = place_views(as_views(X, self.views), self.device)
        for name in LEFT_OVER:
            if hasattr(self, name):  # left by an earlier fit
                delattr(self, name)
        if len(views) == 1 or self.views is not None:
            # scikit-learn's n_features_in_ and feature_names_in_ make sense for one table alone.
            validate_data(self, X if hasattr(X, "shape") else views[0].data, skip_check_array=True)
        return views

    @contextmanager
    def _workplace(self, views: Views) -> Iterator[tuple[Workplace, np.random.Generator]]:
        """Lend the place where the rows are kept, and what everything is drawn from."""
        owner = type(self).__name__
        limit = self.memory_limit
        if limit is not None:
            limit = check_bytes(owner, "memory_limit", limit, low=RESERVED_BYTES)
        if limit is not None or self.work_dir is not None:
            name = "memory_limit" if limit is not None else "work_dir"
            if views.on_dask:
                refuse(owner, name, "None with Dask collections: a cluster has limits of its own", getattr(self, name))
            if views.device is not None:
                allowed = f'None with device={self.device!r}: files are for device="cpu"'
                refuse(owner, name, allowed, getattr(self, name))
        seed = int(check_random_state(self.random_state).randint(2**31))
        with workplace(self.work_dir, limit, partial(self._describe_job, views), seed) as (place, seed):
            yield place, np.random.default_rng(seed)

    def _describe_job(self, views: Views) -> dict[str, Any]:
        """Return what must be the same for a fit to be taken up again."""
        settings = {name: value for name, value in self.get_params().items() if name not in FREE_TO_CHANGE}
        if not isinstance(self.random_state, Integral):
            del settings["random_state"]  # what was drawn is written down
        return describe_job(views, {"coterie": __version__, **settings})

    def _most_clusters(self, n_rows: int) -> int:
        """Return the number of clusters, or the largest one that "auto" considers."""
        if self.n_clusters == "auto":
            return settle_k_max(type(self).__name__, None, n_rows)
        if n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={n_rows} should be >= n_clusters={self.n_clusters}. "
                "Ask for fewer clusters or pass more rows."
            )
        return self.n_clusters

    def _connect(self, views: Views, k: int, place: Workplace, rng: np.random.Generator, progress: Progress) -> Graphs:
        """Prepare the views, choose landmarks, and join every row to its nearest ones."""
        numbers = draw_sample(views.n_rows, sample_size(views.n_rows, self._most_landmarks(views.n_rows, k)), rng)
        sample = views.take(numbers)
        check_overlap(sample if views.may_lack else views, 2 if self.n_clusters == "auto" else k)
        present = 1.0 if views.complete and sample.complete else float(sample.presence().mean())
        p = self._count_landmarks(views.n_rows, k, present)
        with progress.stage("preparation"):
            preparations = self._prepare(sample, numbers, k, rng)
        with progress.stage("landmarks"):
            if isinstance(self.landmarks, str):
                chosen = self._choose_landmarks(sample, preparations, p, k, rng)
                landmarks, rows = numbers[chosen], sample.take(chosen)
            else:
                landmarks = check_landmarks(self.landmarks, views.n_rows, 1 if self.n_clusters == "auto" else k)
                rows = views.take(landmarks)
            graph_map = self._lay_out_graphs(views.n_rows, preparations, sample, rows, rng)
        with progress.stage("graphs", f"{views.n_rows} rows, {len(landmarks)} landmarks"):
            watch = Stopwatch()
            if views.device is not None:
                graph_map = graph_map.on(views.device)
            n_threads = count_threads(self.n_jobs)
            kept = graph_map.row_bytes + graph_map.dtype.itemsize * (self.n_components or k)
            joined = build_graphs(place.rows(views, self.block_size, n_threads, kept), graph_map, watch)
            progress.add("graphs", watch, n_threads)
            return Graphs(joined, graph_map.connect(rows.read(slice(None))), graph_map, landmarks)

    def _settle_k(self, graphs: Graphs, most: int, rng: np.random.Generator) -> int:
        if self.n_clusters != "auto":
            return most
        most = min(most, len(graphs.landmarks) - 1)
        if most < 2:
            raise ValueError(f"X has {len(graphs.landmarks)} distinct rows, too few to choose n_clusters by. Set it.")
        self.k_suggestion_ = suggest_from_graphs(
            graphs.rows, graphs.graph_map, k_max=most, rng=rng, n_threads=count_threads(self.n_jobs)
        )
        if not self.k_suggestion_.is_clear:
            warnings.warn(
                f"The data does not speak clearly for any number of clusters; {self.k_suggestion_.best} was taken. "
                "Look at k_suggestion_, and set n_clusters yourself.",
                stacklevel=3,
            )
        return self.k_suggestion_.best

    def _most_landmarks(self, n_rows: int, k: int) -> int:
        """Return the number of landmarks that there are where every row has every view."""
        if not isinstance(self.landmarks, str):
            return len(self.landmarks)
        if self.n_landmarks == "auto":
            return min(n_rows, max(self._scale(n_rows).n_landmarks, 2 * k))
        return self.n_landmarks

    def _count_landmarks(self, n_rows: int, k: int, present: float) -> int:
        """Return the number of landmarks, given the share of (row, view) pairs that are there."""
        owner, most = type(self).__name__, self._most_landmarks(n_rows, k)
        if not isinstance(self.landmarks, str):
            return most
        if self.n_landmarks == "auto":
            if present == 1:
                return most
            # A view knows only the landmarks that have it. There are more of them, then, but not all rows: landmarks
            # are those that lack fewest views, and their number's cube is what their eigenvectors cost.
            return min(int(most * min(1 / present, MOST_GROWTH)), max(7 * n_rows // 10, 2 * k))
        if self.n_landmarks > n_rows:
            refuse(owner, "n_landmarks", f"at most the number of rows, {n_rows}", self.n_landmarks)
        if self.n_landmarks < k and self.n_clusters != "auto":
            refuse(owner, "n_landmarks", f"at least n_clusters={k}", self.n_landmarks)
        return self.n_landmarks

    def _scale(self, n_rows: int) -> Scale:
        """Return the landmarks and neighbours that "auto" stands for."""
        if self.basis == "subspace":
            return PUBLISHED
        return next(scale for scale in SCALES if n_rows <= scale.most_rows)

    def _prepare(self, sample: Views, numbers: np.ndarray, k: int, rng: np.random.Generator) -> list[Preparation]:
        owner, dtype = type(self).__name__, "float32" if self.dtype == "tf32" else self.dtype
        scalings = per_view(owner, "scaling", self.scaling, sample.names, "auto")
        metrics = per_view(owner, "metric", self.metric, sample.names, "auto")
        blocks = sample.read(slice(None))
        jobs = []
        for view, block, scaling, metric in zip(sample, blocks, scalings, metrics, strict=True):
            check_choice(owner, "scaling", scaling, SCALINGS)
            check_choice(owner, "metric", metric, METRICS)
            check_finite_rows(view.name, block.data, block.present, numbers)
            settings = {"scaling": scaling, "metric": metric, "seed": int(rng.integers(2**31))}
            jobs.append(partial(prepare, block.known(), n_clusters=k, dtype=dtype, **settings))
        preparations = list(in_order(lambda job: job(), jobs, count_threads(self.n_jobs)))
        return within_float_range(preparations, [scaling == "none" for scaling in scalings], blocks)

    def _choose_landmarks(
        self,
        sample: Views,
        preparations: list[Preparation],
        n_landmarks: int,
        k: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return which rows of the sample are landmarks."""
        able = landmark_candidates(sample.presence(), n_landmarks, rng)
        n_threads = count_threads(self.n_jobs)
        rows = concatenated_sample(sample.take(able), preparations, n_landmarks, rng, n_threads)  # (s, d)
        chosen = choose_landmarks(rows, n_landmarks, self.landmarks, rng, n_threads)
        if len(chosen) < k and self.n_clusters != "auto":
            raise ValueError(f"X has {len(chosen)} distinct rows, fewer than n_clusters={k}. Ask for fewer clusters.")
        if len(chosen) < n_landmarks and self.n_landmarks != "auto":
            warnings.warn(
                f"Only {len(chosen)} rows are distinct, so there are {len(chosen)} landmarks instead of {n_landmarks}.",
                stacklevel=3,
            )
        return able[chosen]

    def _lay_out_graphs(
        self,
        n_rows: int,
        preparations: list[Preparation],
        sample: Views,
        landmarks: Views,
        rng: np.random.Generator,
    ) -> GraphMap:
        owner = type(self).__name__
        if isinstance(self.n_neighbors, str):
            # Few rows have few neighbours: no scale may reach half of the landmarks.
            wanted = self._scale(n_rows).n_neighbors
            neighbors = sorted({min(q, max(1, landmarks.n_rows // 2)) for q in wanted})
        else:
            neighbors = scales(self.n_neighbors)
            if max(neighbors) >= max(2, landmarks.n_rows):
                allowed = f"below the number of landmarks, {landmarks.n_rows} (n_samples={n_rows})"
                refuse(owner, "n_neighbors", allowed, self.n_neighbors)
        bandwidths = []
        for v, bandwidth in enumerate(per_view(owner, "bandwidth", self.bandwidth, sample.names, "local")):
            if bandwidth == "local":
                bandwidths.append(LOCAL)
            elif bandwidth == "median":
                known = sample.read_view(v, slice(None)).known()
                bandwidths.append(median_distance(known, rng, preparations[v]))
            else:
                check_real(owner, "bandwidth", bandwidth, low=0, above=True)
                unit = preparations[v].factor if preparations[v].kind == "raw" else 1.0
                bandwidths.append(max(float(bandwidth) * unit, np.finfo(float).tiny))  # 0 would be LOCAL
        return lay_out_graphs(
            landmarks,
            preparations,
            bandwidths,
            neighbors,
            shared=self.neighbors == "shared",
            concatenation=self.concatenation,
            precision="tf32" if self.dtype == "tf32" else "float32",
        )

    def _weigh(self, views: Views) -> np.ndarray:
        """Return the weight that every view starts with, and behind them that of the concatenation."""
        owner = type(self).__name__
        given = 1.0 if self._learns_weights() else self.view_weights
        weights = per_view(owner, "view_weights", given, views.names, 1.0)
        for weight in weights:
            check_real(owner, "view_weights", weight, low=0)
        if not any(weights):
            refuse(owner, "view_weights", "above 0 for at least one view", self.view_weights)
        largest = max(weights)
        mean = largest * np.mean(np.array(weights) / largest)  # their sum may be beyond the largest float
        return np.array([*weights, mean * concatenation_weight(len(views))])  # (V + 1,)

    def _learns_weights(self) -> bool:
        return isinstance(self.view_weights, str)

    def _settle_rounds(self, graph_map: GraphMap, weights: np.ndarray, n_clusters: int) -> CoTrainingSettings:
        k = self.n_components or n_clusters
        diffusion = self.basis == "diffusion"
        return CoTrainingSettings(
            n_components=k,
            n_vectors=count_vectors(k) if diffusion else k,
            drop_first=diffusion if self.drop_first is None else self.drop_first,
            diffusion=DIFFUSION if diffusion else 0,
            unit=diffusion,
            cosine=self.guide == "cosine",
            max_iter=self.max_iter,
            tol=self.tol,
            consensus_power=CONSENSUS_POWER if diffusion else 0.0,
            graph_weights=weights[[graph.view for graph in graph_map.graphs]],  # CONCATENATION is -1, the last one
            trust=self._learns_weights() and diffusion,
            n_threads=count_threads(self.n_jobs),
        )

    def _learned_rows(self, graphs: Graphs, rng: np.random.Generator) -> Rows:
        """Return the rows that the rounds learn from: as published, all of them."""
        if self.basis == "subspace":
            return graphs.rows
        size = max(LEARNED_ROWS, LEARNED_PER_LANDMARK * len(graphs.landmarks))
        return sample_rows(graphs.rows, size, rng, count_threads(self.n_jobs))

    def _assign(self, rows: Rows, k: int, asked: np.ndarray, rng: np.random.Generator) -> Any:
        """Cut the embedding, which the rows are blocks of, into clusters; return the labels of some rows."""
        restarts = {"n_init": self.n_init, "rng": rng, "n_threads": count_threads(self.n_jobs)}
        self.cluster_centers_ = fit_centroids(rows, k, method=self.assign_labels, **restarts)
        found = rows.map(partial(assign, centroids=self.cluster_centers_))
        self.labels_ = found.collect(lambda part: part.labels)
        self.confidence_ = found.collect(lambda part: part.confidence)
        census = merge_censuses(found.each(partial(count_clusters, n_clusters=k)))
        must_be_finite("assignment", self.cluster_centers_, census.confidence)
        self.medoid_indices_ = census.medoids
        self._warn_of_oddities(rows, census)
        if self.store_embedding:
            self.embedding_ = rows.collect(lambda block: block)
        return found.take(asked).labels

    def _measure_stability(
        self,
        bounds: np.ndarray,
        block: Block,
        labels: Any,
        training: CoTraining,
        settings: CoTrainingSettings,
        rng: np.random.Generator,
    ) -> None:
        known = host_block(block, bounds), to_host(labels)
        found = landmark_stability(*known, training.first_view, bounds, settings, len(self.cluster_centers_), rng)
        self.stability_, self.cluster_stability_ = found.overall, found.clusters

    def _warn_of_oddities(self, rows: Rows, census: Census) -> None:
        nowhere = int(rows.sum(count_zero_rows, lambda: (np.zeros(1, dtype=np.int64),))[0][0])
        if nowhere:
            warnings.warn(
                f"{nowhere} rows have no place in the embedding, so their labels are arbitrary and their confidence is "
                "0: they are all zero, or in pieces of the graphs that the clusters leave no room for. More clusters "
                "or neighbours may help.",
                stacklevel=4,
            )
        used, k = int((census.sizes > 0).sum()), len(census.sizes)
        if used < k:
            warnings.warn(f"Only {used} of {k} clusters hold rows: the embedding tells no more apart.", stacklevel=4)

    def _describe_fit(self, views: Views, landmarks: np.ndarray, training: CoTraining, n_learned: int) -> None:
        graph_map = self._row_map.graph_map
        names = graph_map.graph_names()
        self.view_names_ = views.names
        self.preparation_ = {
            name: preparation.describe() for name, preparation in zip(views.names, graph_map.preparations, strict=True)
        }
        self.row_ids_ = views.ids
        self._shapes = tuple(Shape.of(view) for view in views)
        self._groups = self.views
        self.landmark_indices_ = landmarks
        self.view_weights_ = graph_map.mean_by_view(training.view.weights)
        self.singular_values_ = {
            name: to_host(spectrum.singular_values) for name, spectrum in zip(names, training.view.spectra, strict=True)
        }
        # Those of all rows: squares add up over rows.
        self.consensus_singular_values_ = training.view.consensus.singular_values * np.sqrt(views.n_rows / n_learned)
        # Before guiding: afterwards even noise agrees with what guided it.
        self.graph_agreement_ = pairwise_agreement(training.first_view)
        self.agreement_ = graph_map.mean_by_view(graph_agreement(training.first_view))
        self.n_clusters_ = len(self.cluster_centers_)
        self.history_ = [vars(line) for line in training.history]
        self.n_iter_ = len(training.history)

    # -- new rows -----------------------------------------------------------------------------------------------

    def _map_rows(self, X: Any, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return self._collect(X, lambda row_map, block: function(row_map(block.views, block.first_row)))

    def _collect(self, X: Any, function: Callable[[RowMap, RawRows], np.ndarray]) -> np.ndarray:
        with self._new_rows(X) as (rows, row_map):
            return as_given(rows.collect(partial(function, row_map), load=RowRange.read), X)

    @contextmanager
    def _new_rows(self, X: Any) -> Iterator[tuple[Rows, RowMap]]:
        """Lend raw rows like those of the fit, and the map that they go through, where they lie."""
        check_is_fitted(self)
        views = place_views(match_views(X, self._groups, self.view_names_), self.device)
        if hasattr(self, "n_features_in_") and hasattr(X, "shape"):
            validate_data(self, X, reset=False, skip_check_array=True)
        check_columns(views, self._shapes)
        row_map = self._row_map if views.device is None else self._row_map.on(views.device)
        with one_thread_per_block(), explain_memory(views):
            yield rows_of(views, self.block_size, count_threads(self.n_jobs)), row_map


def suggest_k(
    X: Any,
    *,
    k_max: int | None = None,
    views: Any = None,
    n_jobs: int | None = -1,
    random_state: Any = None,
    **settings: Any,
) -> KSuggestion:
    """Suggest how many clusters the rows of X fall into.

    Parameters
    ----------
    X : array, frame, or a list, tuple or dict of them
        Like in :meth:`coterie.GuidedCoTraining.fit`.
    k_max : int, default=None
        The largest number of clusters that is tried. None is 40, or a tenth of the rows where that is less.
    views : dict or list of column selections, default=None
        Splits the columns of a single table into views.
    n_jobs : int, default=-1
        Threads; -1 uses all cores. The answer does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn.
    **settings
        Other parameters of :class:`coterie.GuidedCoTraining` that say how graphs are built.

    Returns
    -------
    KSuggestion

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> data = make_views(400, n_clusters=4, separation=7, random_state=0)
    >>> suggestion = suggest_k(data.views, k_max=8, random_state=0)
    >>> suggestion.best, suggestion.is_clear
    (4, True)
    """
    data = as_views(X, views)
    k_max = settle_k_max("suggest_k", k_max, data.n_rows)
    model = GuidedCoTraining(k_max, views=views, n_jobs=n_jobs, random_state=random_state, **settings)
    model._check_parameters()
    with one_thread_per_block(), model._workplace(data) as (place, rng):
        graphs = model._connect(data, k_max, place, rng, Progress(verbose=False))
        return suggest_from_graphs(graphs.rows, graphs.graph_map, k_max=k_max, rng=rng, n_threads=count_threads(n_jobs))


def count_zero_rows(block: np.ndarray, total: tuple[np.ndarray]) -> None:
    """Add the number of rows without a direction."""
    xp = array_namespace(block)
    total[0][0] += int(xp.sum(xp.astype(xp.all(block == 0, axis=1), xp.int64)))


def scales(n_neighbors: Any) -> list[Any]:
    """Return the numbers of neighbours as a list."""
    return list(n_neighbors) if isinstance(n_neighbors, list | tuple | np.ndarray) else [n_neighbors]


def describe(number: int, line: Round) -> str:
    """Return one round in words."""
    change = "" if np.isnan(line.change) else f"change {line.change:.4f}, "
    return f"round {number:<6}{line.seconds:8.2f} s  {change}agreement {line.agreement:.3f}"

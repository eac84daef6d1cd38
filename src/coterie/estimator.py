"""GuidedCoTraining: the parameters, ``fit`` as a table of contents, and what a fit leaves behind."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
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

from coterie.assignment import SAMPLE_ROWS, assign, fit_centroids
from coterie.cotraining import (
    CoTraining,
    CoTrainingSettings,
    Round,
    cotrain,
    graph_agreement,
    pairwise_agreement,
)
from coterie.graphs import build_graphs, landmark_rows, median_distance, take_landmarks
from coterie.landmarks import concatenated_sample, distinct_rows, kmedoids, sample_size
from coterie.preparation import METRICS, SCALINGS, Preparation, prepare
from coterie.progress import Progress
from coterie.rowmap import CONCATENATION, Graph, GraphMap, RowMap, check_table, unit_embedding
from coterie.rows.memory import MemoryRows
from coterie.threads import count_threads, one_thread_per_block
from coterie.validation import check_choice, check_int, check_real, per_view, refuse
from coterie.views import ViewBlock, Views, as_views, check_widths, match_views

DEFAULT_LANDMARKS = 600
LANDMARKS = ("kmedoids", "kmedoids++", "random")
BLOCK_ROWS = 8192


@dataclass(frozen=True)
class RowRange:
    """A block of raw rows that is read when it is needed."""

    views: Views
    first_row: int
    stop: int

    def read(self) -> list[ViewBlock]:
        """Return the rows of every view."""
        return self.views.read(slice(self.first_row, self.stop))


class GuidedCoTraining(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Cluster rows that are seen through several views, and assign new rows exactly.

    Every row is joined to its nearest *landmarks* in every view; the views' spectral bases are merged into one
    augmented view, which guides the views' graphs towards each other, round by round (Liu, "Guided Co-training for
    Large-Scale Multi-View Spectral Clustering"). Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, k.
    views : dict or list of column selections, default=None
        Splits the columns of a single table into views: slices, lists of column numbers or lists of column names.
    n_landmarks : int or "auto", default="auto"
        Number of landmarks, p. "auto" is 600, or all rows where they are fewer.
    n_neighbors : int, default=8
        Landmarks that a row is joined to in each graph, q.
    landmarks : "kmedoids", "kmedoids++", "random" or array of row numbers, default="kmedoids"
        How landmarks are chosen: medoids of a light clustering that starts from rows drawn evenly, or from rows far
        apart; rows drawn evenly; or the landmarks themselves.
    neighbors : "view" or "shared", default="view"
        Whether each view chooses neighbours by its own distances, or all by those over all views.
    concatenation : bool, default=True
        Whether all views side by side take part as one more view.
    bandwidth : "local", "median" or number, default="local"
        Width of the Gaussian weights: each row's mean distance to its neighbours; the median distance between rows, as
        published; or sigma itself. A dict or list gives one per view.
    scaling : "half", "block", "standard" or "none", default="half"
        What is done to a view's columns: divide each by the root of its standard deviation, nothing, or divide by the
        standard deviation, all followed by centring and unit mean squared norm per view; "none" leaves the values as
        they are. A dict or list gives one per view.
    metric : "euclidean" or "cosine", default="euclidean"
        Distance between rows. A dict or list gives one per view.
    guide : "cosine" or "inner", default="cosine"
        How alike a row and a landmark are in the augmented view; "inner" is as published.
    max_iter : int, default=10
        Rounds at most. One round is no guiding at all.
    tol : float, default=1e-3
        The rounds end when the augmented view's affinities change by less than this, relatively.
    n_components : int, default=None
        Columns of the embedding; None is ``n_clusters``.
    drop_first : bool, default=False
        Whether to leave out each graph's first singular vector, which is constant on a connected graph.
    assign_labels : "kmeans" or "cluster_qr", default="kmeans"
        How the embedding is cut into clusters.
    n_init : int, default=10
        Restarts of k-means.
    store_embedding : bool, default=False
        Whether to keep ``embedding_`` (rows x n_components).
    dtype : "float32" or "float64", default="float32"
        Precision of row work; sums and small matrices are always float64.
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
        Cluster of every row.
    embedding_ : ndarray of shape (n, n_components)
        Rows of the augmented view, each of length one; only with ``store_embedding``.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        Centroids in the embedding.
    view_names_ : tuple of str
        The views, in order.
    landmark_indices_ : ndarray of shape (p,)
        Rows that are landmarks.
    singular_values_ : dict of ndarray
        Top singular values of every view's graph, one more than is used, after the last round.
    consensus_singular_values_ : ndarray
        Singular values of all bases side by side; those past n_components were left out of the consensus.
    agreement_ : dict of float
        Share of the consensus that each view's basis holds (1: all of it), after the last round.
    view_agreement_ : ndarray of shape (graphs, graphs)
        The same between views, in the order of ``agreement_``.
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
        n_neighbors=8,
        landmarks="kmedoids",
        neighbors="view",
        concatenation=True,
        bandwidth="local",
        scaling="half",
        metric="euclidean",
        guide="cosine",
        max_iter=10,
        tol=1e-3,
        n_components=None,
        drop_first=False,
        assign_labels="kmeans",
        n_init=10,
        store_embedding=False,
        dtype="float32",
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
        self.guide = guide
        self.max_iter = max_iter
        self.tol = tol
        self.n_components = n_components
        self.drop_first = drop_first
        self.assign_labels = assign_labels
        self.n_init = n_init
        self.store_embedding = store_embedding
        self.dtype = dtype
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
            "n_neighbors": 8,
            "landmarks": "kmedoids",
            "neighbors": "view",
            "concatenation": False,
            "bandwidth": "median",
            "scaling": "none",
            "metric": "euclidean",
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
            Tables with the same rows, one per view: NumPy arrays, SciPy sparse matrices, pandas or polars frames. A
            single table is one view, or several with ``views=``. A row that is NaN throughout a view lacks it; frames
            with different indexes are matched by index.
        y : ignored

        Returns
        -------
        self
        """
        progress = Progress(self.verbose)
        self._check_parameters()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        with one_thread_per_block():
            views = self._read_views(X)
            p = self._count_landmarks(views.n_rows)
            sample = draw_sample(views.n_rows, sample_size(views.n_rows, p), rng)
            with progress.stage("preparation"):
                preparations = self._prepare(views, sample)
            with progress.stage("landmarks"):
                landmarks = self._choose_landmarks(views, preparations, sample, p, rng)
                graph_map = self._lay_out_graphs(views, preparations, sample, landmarks, rng)
            with progress.stage("graphs", f"{views.n_rows} rows, {len(landmarks)} landmarks"):
                rows = build_graphs(self._rows(views), graph_map)
                landmark_block = take_landmarks(views, graph_map, landmarks)
            with progress.stage("rounds"):
                training = cotrain(
                    rows,
                    landmark_block,
                    graph_map.bounds,
                    self._rounds(graph_map),
                    lambda number, line: progress.say(describe(number, line)),
                )
            self._row_map = make_row_map(graph_map, training)
            with progress.stage("assignment"):
                self._assign(training, rng)
        self._describe_fit(views, landmarks, training)
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
        return self._map_rows(X, lambda embedding: assign(embedding, self.cluster_centers_).labels)

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows' embedding: their place in the augmented view, each of length one.

        Parameters
        ----------
        X : like in ``fit``

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        return self._map_rows(X, lambda embedding: embedding)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Cluster the rows of X and return their embedding."""
        return self.fit(X).transform(X)

    @property
    def _n_features_out(self) -> int:
        return self._row_map.basis.rotation.shape[2]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    # -- the steps of fit -------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        check_int(owner, "n_clusters", self.n_clusters, low=1)
        if self.n_landmarks != "auto":
            check_int(owner, "n_landmarks", self.n_landmarks, low=1)
        check_int(owner, "n_neighbors", self.n_neighbors, low=1)
        check_int(owner, "max_iter", self.max_iter, low=1)
        check_int(owner, "n_init", self.n_init, low=1)
        check_real(owner, "tol", self.tol, low=0)
        for name in ("n_components", "block_size"):
            if getattr(self, name) is not None:
                check_int(owner, name, getattr(self, name), low=1)
        check_choice(owner, "neighbors", self.neighbors, ("view", "shared"))
        check_choice(owner, "guide", self.guide, ("cosine", "inner"))
        check_choice(owner, "assign_labels", self.assign_labels, ("kmeans", "cluster_qr"))
        check_choice(owner, "dtype", np.dtype(self.dtype).name, ("float32", "float64"))
        if isinstance(self.landmarks, str):
            check_choice(owner, "landmarks", self.landmarks, LANDMARKS)

    def _read_views(self, X: Any) -> Views:
        views = as_views(X, self.views)
        if len(views) == 1 or self.views is not None:
            # scikit-learn's n_features_in_ and feature_names_in_ make sense for one table alone.
            validate_data(self, X if hasattr(X, "shape") else views[0].data, skip_check_array=True)
        if views.n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={views.n_rows} should be >= n_clusters={self.n_clusters}. "
                "Ask for fewer clusters or pass more rows."
            )
        return views

    def _count_landmarks(self, n_rows: int) -> int:
        owner = type(self).__name__
        if not isinstance(self.landmarks, str):
            return len(self.landmarks)
        if self.n_landmarks == "auto":
            return min(n_rows, max(DEFAULT_LANDMARKS, self.n_clusters))
        if self.n_landmarks > n_rows:
            refuse(owner, "n_landmarks", f"at most the number of rows, {n_rows}", self.n_landmarks)
        if self.n_landmarks < self.n_clusters:
            refuse(owner, "n_landmarks", f"at least n_clusters={self.n_clusters}", self.n_landmarks)
        return self.n_landmarks

    def _prepare(self, views: Views, sample: np.ndarray) -> list[Preparation]:
        owner = type(self).__name__
        scalings = per_view(owner, "scaling", self.scaling, views.names, "half")
        metrics = per_view(owner, "metric", self.metric, views.names, "euclidean")
        preparations = []
        for view, scaling, metric in zip(views, scalings, metrics, strict=True):
            check_choice(owner, "scaling", scaling, SCALINGS)
            check_choice(owner, "metric", metric, METRICS)
            block = view.read(sample)
            check_table(view.name, block, sample)
            data = block.data if block.present is None else block.data[block.present]
            preparations.append(prepare(data, scaling=scaling, metric=metric, dtype=self.dtype))
        return preparations

    def _choose_landmarks(
        self,
        views: Views,
        preparations: list[Preparation],
        sample: np.ndarray,
        n_landmarks: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        if not isinstance(self.landmarks, str):
            return check_landmarks(self.landmarks, views.n_rows)
        rows = concatenated_sample(views, preparations, sample, n_landmarks, rng)  # (s, d)
        if self.landmarks == "random":
            chosen = distinct_rows(rows, rng.permutation(len(rows)), n_landmarks)
        else:
            chosen = kmedoids(
                rows,
                n_landmarks,
                rng,
                spread_seeds=self.landmarks == "kmedoids++",
                n_threads=count_threads(self.n_jobs),
            )
        if len(chosen) < self.n_clusters:
            raise ValueError(
                f"X has {len(chosen)} distinct rows, fewer than n_clusters={self.n_clusters}. Ask for fewer clusters."
            )
        if len(chosen) < n_landmarks and self.n_landmarks != "auto":
            warnings.warn(
                f"Only {len(chosen)} rows are distinct, so there are {len(chosen)} landmarks instead of {n_landmarks}.",
                stacklevel=3,
            )
        return sample[chosen]

    def _lay_out_graphs(
        self,
        views: Views,
        preparations: list[Preparation],
        sample: np.ndarray,
        landmarks: np.ndarray,
        rng: np.random.Generator,
    ) -> GraphMap:
        owner = type(self).__name__
        q = self.n_neighbors
        if q >= len(landmarks):
            if len(landmarks) <= 2:
                q = 1
            elif len(landmarks) < DEFAULT_LANDMARKS and self.n_landmarks == "auto":
                q = max(1, len(landmarks) // 2)
            else:
                refuse(owner, "n_neighbors", f"below the number of landmarks, {len(landmarks)}", q)
        bandwidths = per_view(owner, "bandwidth", self.bandwidth, views.names, "local")
        graphs = []
        for v, bandwidth in enumerate(bandwidths):
            if bandwidth == "local":
                sigma = 0.0
            elif bandwidth == "median":
                block = views[v].read(sample)
                rows = block.data if block.present is None else block.data[block.present]
                sigma = median_distance(preparations[v](rows), rng)
            else:
                check_real(owner, "bandwidth", bandwidth, low=0, above=True)
                sigma = float(bandwidth)
            graphs.append(Graph(v, q, sigma, shared=self.neighbors == "shared"))
        if self.concatenation and len(views) > 1:
            graphs.append(Graph(CONCATENATION, q, 0.0))
        return GraphMap(
            views.names,
            tuple(preparations),
            landmark_rows(views, preparations, landmarks),
            tuple(graphs),
        )

    def _rows(self, views: Views) -> MemoryRows:
        size = self.block_size or block_size(views.n_rows)
        ranges = [RowRange(views, start, min(start + size, views.n_rows)) for start in range(0, views.n_rows, size)]
        return MemoryRows(ranges, n_rows=views.n_rows, n_threads=count_threads(self.n_jobs))

    def _rounds(self, graph_map: GraphMap) -> CoTrainingSettings:
        return CoTrainingSettings(
            n_components=self.n_components or self.n_clusters,
            n_vectors=self.n_components or self.n_clusters,
            drop_first=self.drop_first,
            diffuse=False,
            unit=False,
            cosine=self.guide == "cosine",
            max_iter=self.max_iter,
            tol=self.tol,
            graph_weights=np.ones(len(graph_map.graphs)),
        )

    def _assign(self, training: CoTraining, rng: np.random.Generator) -> None:
        bounds = self._row_map.graph_map.bounds
        rows = training.rows.map(lambda block: unit_embedding(block, self._row_map.basis, bounds))  # blocks of (b, k)
        sample = rows.take(draw_sample(rows.n_rows, SAMPLE_ROWS, rng))
        self.cluster_centers_ = fit_centroids(
            rows,
            sample,
            self.n_clusters,
            method=self.assign_labels,
            n_init=self.n_init,
            seed=int(rng.integers(2**31)),
        )
        self.labels_ = rows.collect(lambda block: assign(block, self.cluster_centers_).labels)
        if self.store_embedding:
            self.embedding_ = rows.collect(lambda block: block)

    def _describe_fit(self, views: Views, landmarks: np.ndarray, training: CoTraining) -> None:
        names = graph_names(self._row_map.graph_map)
        self.view_names_ = views.names
        self._widths = tuple(view.n_columns for view in views)
        self.landmark_indices_ = landmarks
        self.singular_values_ = {
            name: spectrum.singular_values for name, spectrum in zip(names, training.view.spectra, strict=True)
        }
        self.consensus_singular_values_ = training.view.consensus.singular_values
        self.view_agreement_ = pairwise_agreement(training.view)
        self.agreement_ = dict(zip(names, graph_agreement(training.view).tolist(), strict=True))
        self.history_ = [vars(line) for line in training.history]
        self.n_iter_ = len(training.history)

    # -- new rows ---------------------------------------------------------------------------------------------------

    def _map_rows(self, X: Any, function: Any) -> np.ndarray:
        check_is_fitted(self)
        views = match_views(X, self.views, self.view_names_)
        if hasattr(self, "n_features_in_") and not isinstance(X, dict):
            validate_data(self, X, reset=False, skip_check_array=True)
        check_widths(views, self._widths)
        with one_thread_per_block():
            return self._rows(views).collect(lambda block: function(self._row_map(block.read(), block.first_row)))


def draw_sample(n_rows: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return row numbers, ascending: all of them where they are few."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))


def block_size(n_rows: int) -> int:
    """Return rows per block: enough blocks to share among cores, large enough to be worth a call."""
    return int(np.clip(-(-n_rows // 8), 256, BLOCK_ROWS))


def check_landmarks(landmarks: Any, n_rows: int) -> np.ndarray:
    """Return the user's own landmarks as an array of distinct row numbers."""
    chosen = np.asarray(landmarks)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
        refuse("GuidedCoTraining", "landmarks", "a 1-D array of row numbers", landmarks)
    if chosen.min() < 0 or chosen.max() >= n_rows:
        refuse("GuidedCoTraining", "landmarks", f"row numbers from 0 to {n_rows - 1}", landmarks)
    values, counts = np.unique(chosen, return_counts=True)
    if counts.max() > 1:
        refuse(
            "GuidedCoTraining",
            "landmarks",
            f"distinct row numbers (row {values[counts.argmax()]} is repeated)",
            landmarks,
        )
    return chosen


def make_row_map(graph_map: GraphMap, training: CoTraining) -> RowMap:
    """Return what a row, new or old, goes through."""
    return RowMap(graph_map, training.guides, training.view.basis)


def graph_names(graph_map: GraphMap) -> list[str]:
    """Return a name for every graph: its view's."""
    return [
        "concatenation" if graph.view == CONCATENATION else graph_map.names[graph.view] for graph in graph_map.graphs
    ]


def describe(number: int, line: Round) -> str:
    """Return one round in words."""
    change = "" if np.isnan(line.change) else f"change {line.change:.4f}, "
    return f"round {number:<6}{line.seconds:8.2f} s  {change}agreement {line.agreement:.3f}"

"""GuidedCoTraining: parameters, documentation and checks. The work is in :mod:`coterie.fitting`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.arrays import to_host
from coterie.fitting import fit_views
from coterie.forecast import Forecast, forecast, look_ahead
from coterie.kernels import _numba  # noqa: F401  a fit needs it, and no stage's time should include its import
from coterie.method.assignment import Prediction
from coterie.model import PER_ROW, Fitted, attributes_of_a_fit, table_columns
from coterie.new_rows import NewRowsMixin
from coterie.placement import BlockPlan, as_given, explain_memory, place_views, placement_of
from coterie.progress import Progress
from coterie.settings import check_parameters, check_weights, settle
from coterie.threads import count_threads, one_thread_per_block
from coterie.validation import refuse
from coterie.views import Views, as_views, in_row_order, settled_groups
from coterie.views.columns import names_of
from coterie.views.frames import for_sklearn

if TYPE_CHECKING:
    from coterie.method.hierarchy import Hierarchy


class GuidedCoTraining(NewRowsMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Cluster rows that are seen through several views, and assign new rows exactly.

    Every row is joined to its nearest *landmarks* in every view; the views' spectral bases are merged into one
    augmented view, which guides the views' graphs towards each other, round by round (Liu, "Guided Co-training for
    Large-Scale Multi-View Spectral Clustering"). Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters, k. "auto" takes the number with the strongest evidence in the graphs, ``k_suggestion_``.
    views : dict or list of column selections, default=None
        Splits the columns of a single table into views: slices, column numbers, column names or patterns of them
        ("t*"), or callables that take the table and return one of these. For AnnData and MuData it selects what to use:
        see :func:`coterie.tl.views_of`.
    id_column : str or int, default=None
        The column of frames and files that holds the rows' ids: rows are matched by it, and it is not used as a value.
    n_landmarks : int or "auto", default="auto"
        Number of landmarks, p. "auto" is 1,000 (1,500 from 20,000 to 200,000 rows); a third of the rows where these
        are fewer than 3,000, but at least 600 and ten for each cluster; 600 with ``basis="subspace"``; at least twice
        the clusters, and at most all rows. Where rows lack views it is up to twice as many, so that enough landmarks
        have every view, and at most seven tenths of the rows. Ignored where ``landmarks`` are given.
    n_neighbors : int, list of int or "auto", default="auto"
        Landmarks that a row is joined to in each graph, q. Several numbers make graphs at several scales, by a single
        search. "auto" is 5, 10 and 80; 5 and 10 above 20,000 rows, 10 above 200,000; 8 with ``basis="subspace"``.
    landmarks : "kmedoids", "kmedoids++", "random" or array of row numbers, default="kmedoids"
        How landmarks are chosen: by a few passes of k-medoids that start from rows drawn uniformly ("kmedoids") or from
        rows far apart ("kmedoids++"); as rows drawn uniformly ("random"); or the given rows. The groups of k-medoids,
        which are the same in every view, are represented by their means where there are two rows or more per group, and
        by their medoids otherwise and with ``basis="subspace"``, as published.
    neighbors : "view" or "shared", default="view"
        Whether each view chooses neighbours by its own distances, or all views share those nearest over all views.
    concatenation : bool, default=True
        Whether all views side by side take part as one more view.
    bandwidth : "local", "median" or number, default="local"
        Width of the Gaussian weights: each row's mean distance to its neighbours; the median distance between rows, as
        published; or sigma itself, in units of prepared rows (which have unit mean squared distance from their mean,
        except with ``scaling="none"``). A dict or list gives one per view.
    scaling : "auto", "block", "half", "standard" or "none", default="auto"
        How a view is prepared before distances are measured. "auto" depends on the values: words are log-scaled,
        weighted and reduced; links of a graph are diffused; skewed columns are log-scaled, heavy tails clipped, and
        columns of unlike units standardised. "block" centres and gives the view unit mean squared norm; "half" and
        "standard" first divide each column by the square root of its standard deviation, or by the standard deviation;
        "none" leaves the values as they are. A dict or list gives one per view.
    metric : "auto", "euclidean" or "cosine", default="auto"
        Distance between rows; "auto" follows ``scaling``, and words and graphs are always compared by their cosine. A
        dict or list gives one per view.
    view_weights : "auto", number, dict or list of numbers, default="auto"
        Weight of each view in the augmented view. "auto" weighs a view's graphs down where their singular vectors are
        localised on a few rows, as those of near-duplicates and sparse text are; 1 treats all alike.
    basis : "auto", "diffusion", "commute", "islands" or "subspace", default="auto"
        The singular vectors of every graph that the augmented view is made from. "subspace": the first k, as published.
        "diffusion": the 3k/2 after the first, weighted by their squared singular values, as rows of length one.
        "commute": the same, weighted by commute times as well, so that small clusters stand out. "islands": those of
        "commute" and the first one, which is constant, with rows of any length, so that clusters that hardly touch stay
        apart however small they are. "auto" tries the latter three ("diffusion" alone where all views are words or
        links), and takes the one whose clusters the views' own neighbourhoods predict best, or one whose clusters
        replicate where those of the best do not: see ``candidates_``. Where ``stability_`` is measured and low, it also
        tries the directions that the views share.
    guide : "cosine" or "inner", default="cosine"
        The similarity of a row and a landmark in the augmented view; "inner", the inner product, is as published.
    max_iter : int or "auto", default="auto"
        Rounds at most; one round means no guiding. "auto" follows ``basis``: 2 for "diffusion", 5 for "commute", 10 for
        "islands" and for "subspace", about as many as the paper takes; with ``basis="auto"`` 1, 2, 5 or 10, whichever
        the views agree with most. The rounds learn from at most 100,000 rows, or 100 per landmark where that is more,
        and are then applied to all; with ``basis="subspace"`` they learn from all.
    tol : float, default=1e-3
        The rounds end when the augmented view's affinities change by less than this, relatively.
    n_components : int, default=None
        Columns of the embedding; None is ``n_clusters``.
    drop_first : bool, default=None
        Whether to leave out each graph's first singular vector, which is constant on a connected graph. None follows
        ``basis``: kept for "subspace", as published, and for "islands", and left out otherwise.
    assign_labels : "kmeans" or "cluster_qr", default="kmeans"
        How the embedding is cut into clusters.
    n_init : int, default=10
        Restarts of k-means. Above 32 clusters they are fewer, in proportion, unless ``basis="subspace"``.
    store_embedding : bool, default=False
        Whether to keep ``embedding_`` (rows x n_components).
    measure_stability : bool or "auto", default="auto"
        Whether to measure how far the clusters depend on the draw of landmarks, at about a tenth of the cost of a fit.
        "auto" does so except on a GPU, where it would take longer than the fit. Without it, the directions that views
        share are not tried, so labels of noisy data may differ.
    dtype : "float32", "float64" or "tf32", default="float32"
        Precision of row work; sums and small matrices are always float64. "tf32" is float32 with products of 10 bits on
        a GPU: they take a third of the time, and one neighbour in 400 differs.
    device : "auto", "cpu", "cuda" or a torch device, default="auto"
        Where the work is done. "auto" is the GPU of views that are tensors on one, otherwise the CPU. With "cuda",
        views in host memory are copied to the GPU block by block. "torch" runs the GPU's code on the CPU.
    memory_limit : int or str, default=None
        The most memory that this process may take, such as "4GB", at least 1 GB. Where the data that a fit keeps of all
        rows would take more, they are kept in files. None: everything is kept in memory.
    work_dir : str or Path, default=None
        Folder in which the fit saves its progress, so that it can be stopped or killed and resumed by the same call:
        the labels are bitwise the same. Its files are in ``coterie-job`` there, which is removed when the fit is done;
        other files are left alone. None: a fit that is stopped is lost, and files that ``memory_limit`` needs are among
        the system's temporary files.
    block_size : int, default=None
        Rows per block. None chooses by the number of rows.
    n_jobs : int, default=-1
        Threads; -1 uses all cores. The labels do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of all random draws.
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
        How much nearer each row is to its own centroid than to the next: 0 on the border, 1 at the centroid; less for
        rows far from all landmarks, as in ``confidence``.
    medoid_indices_ : ndarray of shape (n_clusters,)
        The row nearest to each centroid; -1 for a cluster that is empty.
    preparation_ : dict of str
        What was done to each view before distances were measured.
    view_weights_ : dict of float
        Weight of each view.
    cluster_sizes_ : ndarray of shape (n_clusters,)
        Number of rows in each cluster.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        Centroids in the embedding.
    view_names_ : tuple of str
        The views, in order.
    landmark_indices_ : ndarray of shape (p,)
        Rows that are landmarks, or the medoids of the groups whose means are.
    singular_values_ : dict of ndarray
        Top singular values of every graph after the last round, by view and scale: one more than is used.
    consensus_singular_values_ : ndarray
        Singular values of all bases side by side: those of the consensus, and the ten largest that were left out.
    agreement_ : dict of float
        How much of the basis of each view's graphs the consensus holds before any guiding, relative to the most that it
        could hold: near 1 for a view that shows the clusters, near 0 for one of noise.
    cluster_agreement_ : ndarray of shape (n_clusters, n_views)
        Share of each cluster's rows that each view alone assigns to it too.
    stability_ : float
        Adjusted Rand index of the partitions by two halves of the landmarks, before guiding: 1 where the draw of
        landmarks does not matter. It is underestimated, because a half has fewer landmarks than the fit. Only with
        ``measure_stability``.
    candidates_ : list of dict
        The ways to merge the graphs that ``basis="auto"`` tried: name, preparation ("own" or "shared" directions),
        rounds, agreement (how well each view's neighbours predict the clusters after them: adjusted Rand index, mean
        over the views), stability where it was measured, and whether it was chosen.
    cluster_stability_ : ndarray of shape (n_clusters,)
        The stability of each cluster: the Jaccard index of the two halves' clusters that hold a row, averaged over the
        cluster's rows. Only with ``measure_stability``.
    hierarchy_ : Hierarchy
        How the clusters merge into fewer: ``linkage`` in SciPy's form, the ``order`` of the leaves, and
        ``cut(n_groups)``. Computed from centroids and sizes on demand; a model that was loaded without rows lacks it.
    graph_agreement_ : ndarray of shape (graphs, graphs)
        How alike the bases of every two graphs are (1: the same), in the order of ``singular_values_``.
    row_ids_ : ndarray of shape (n,) or None
        The rows' ids in the order of ``labels_``, where the input had an index.
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
        id_column=None,
        n_landmarks="auto",
        n_neighbors="auto",
        landmarks="kmedoids",
        neighbors="view",
        concatenation=True,
        bandwidth="local",
        scaling="auto",
        metric="auto",
        view_weights="auto",
        basis="auto",
        guide="cosine",
        max_iter="auto",
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
        self.id_column = id_column
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GuidedCoTraining:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array, frame, or a list, tuple or dict of them
            Tables with the same rows, one per view: NumPy arrays, SciPy sparse matrices, pandas or polars frames, Dask
            arrays or dataframes. A single table is one view, or several with ``views=``. A row that is NaN throughout
            a view lacks it; frames with different indexes are matched by index, Dask's by position.
        y : ignored
        sample_weight : array-like of shape (n,), default=None
            How often each row is repeated, as whole numbers of at least 1; a pandas Series is matched by its index
            where rows have ids. Results and time are those of X with its rows repeated, but the table is not copied.
            ``cluster_sizes_`` includes repeats, while ``labels_`` and the like have one entry for each row of X.

        Returns
        -------
        self
        """
        progress, owner, parameters = Progress(self.verbose), type(self).__name__, self.get_params(deep=False)
        check_parameters(owner, parameters)
        views = place_views(as_views(X, self.views, id_column=self.id_column), self.device)
        columns = table_columns(X, views, self.views)
        weights = in_row_order("sample_weight", sample_weight, views.ids)
        repeats = check_weights(owner, weights, views.n_rows)
        if repeats is not None:
            if views.on_dask:
                allowed = "None with Dask collections, whose rows cannot be repeated one by one: repeat them in X"
                refuse(f"{owner}.fit", "sample_weight", allowed, sample_weight)
            views = views.pick(np.repeat(np.arange(views.n_rows), repeats))
        settings = settle(owner, parameters, views)
        look_ahead(views, settings, parameters, progress)
        with (
            one_thread_per_block(),
            explain_memory(views),
            placement_of(owner, parameters, views) as (placement, rng),
        ):
            fitted = fit_views(views, settings, placement, rng, progress)
        if repeats is not None:
            fitted = fitted.once(repeats)
        self._publish(replace(fitted.in_kind_of(X), groups=settled_groups(X, self.views, self.id_column), **columns))
        return self

    def estimate(self, X: Any) -> Forecast:
        """Return what a fit of X will take: memory, disk and, within a factor of about two, seconds.

        The machine's speed is measured briefly, once a day. Of views in files only a few rows are read.

        Parameters
        ----------
        X : like in ``fit``

        Returns
        -------
        Forecast

        Examples
        --------
        >>> found = GuidedCoTraining(10).estimate([np.zeros((50_000, 64)), np.zeros((50_000, 8))])
        >>> found.columns, found.n_graphs, found.disk
        (72, 6, 0)
        """
        owner, parameters = type(self).__name__, self.get_params(deep=False)
        check_parameters(owner, parameters)
        views = place_views(as_views(X, self.views, id_column=self.id_column), self.device)
        return forecast(views, settle(owner, parameters, views), parameters)

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Cluster the rows of X and return their labels, like `predict`."""
        return self._in_container(self.fit(X).labels_, self.row_ids_)

    def predict(self, X: Any) -> Any:
        """Return the clusters of rows, new or old; the rows of the fit get the labels of the fit.

        Parameters
        ----------
        X : like in ``fit``
            The same views. A dict may leave out views that the rows lack. Named columns may be in any order, and
            additional ones are ignored.

        Returns
        -------
        ndarray of shape (n,)
            -1 for rows that lack every view. After ``set_output(transform="pandas")`` a Series whose index is the rows'
            ids; after ``set_output(transform="polars")`` a Series, or a frame of ids and labels where there are ids.
        """
        fitted, views, plan = self._read(X)
        return self._in_container(as_given(fitted.predict(views, plan), X), views.ids)

    def confidence(self, X: Any) -> np.ndarray:
        """Return how much nearer each row is to its own cluster than to the next: 0 on the border, 1 at the centre.

        It is less for a row far from all landmarks: in each view, the limit is twice the largest distance to near
        landmarks in a sample of the fit's rows. Beyond it, confidence is multiplied by limit / distance, averaged over
        the row's views.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._apply(Fitted.confidence_of, X)

    def novelty(self, X: Any) -> np.ndarray:
        """Return the novelty of each row: the share of the fit's rows that are less unusual.

        It is based on the row's distances to its nearest landmarks in every view. Rows like those of the fit have
        values spread evenly between 0 and 1; a row with 1 is farther out than all sampled rows of the fit.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n,)

        Examples
        --------
        >>> from coterie import GuidedCoTraining
        >>> from coterie.datasets import make_views
        >>> data = make_views(300, n_clusters=3, random_state=0)
        >>> model = GuidedCoTraining(3, random_state=0).fit(data.views)
        >>> model.novelty({name: 1000 + view[:2] for name, view in data.views.items()}).tolist()
        [1.0, 1.0]
        """
        return self._apply(Fitted.novelty_of, X)

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows' embedding: rows of the augmented view, each of length one.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n, n_components)
            After ``set_output(transform="pandas")`` a frame whose index is the rows' ids.
        """
        fitted, views, plan = self._read(X)
        found = as_given(fitted.transform(views, plan), X)
        return self._with_index(found, views.ids)

    def stream(self, X: Any) -> Iterator[Prediction]:
        """Yield labels, confidence, embedding and novelty block by block, in the rows' order, in one pass over them.

        For results that do not fit in memory: each part can be written to a file and dropped.

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
        for part in Fitted.stream(*self._read(X)):
            found = {name: as_given(array, X) for name, array in part.arrays().items()}
            yield Prediction(part.first_row, **found)

    def view_labels(self, X: Any) -> np.ndarray:
        """Return the cluster that each view alone assigns each row to, -1 where a row lacks the view.

        Each view's graphs are used as they are before any guiding. Where a row's labels differ, the views disagree.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n, n_views)
        """
        return self._apply(Fitted.view_labels, X)

    def view_support(self, X: Any) -> np.ndarray:
        """Return how far each view alone supports each row's cluster: 1 - d1 / d2, like `confidence`.

        d1 is the row's distance to its cluster in the view's own embedding before any guiding, and d2 that to the next
        cluster. It is 0 where the view alone would assign the row to another one, and NaN where a row lacks the view.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n, n_views)
        """
        return self._apply(Fitted.view_support, X)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Cluster the rows of X and return their embedding."""
        return self.fit(X).transform(X)

    def report(self, path: Any, X: Any = None, **settings: Any) -> Path:
        """Write the results as one self-contained HTML file.

        Parameters
        ----------
        path : str or Path
            The file.
        X : like in ``predict``, default=None
            The rows of the fit. Without them, the parts that need rows are left out.
        **settings
            Like in :func:`coterie.report.write_report`: known labels, ids, images, words, a title.

        Returns
        -------
        Path
        """
        from coterie.report import write_report

        return write_report(self, path, X, **settings)

    def _html_repr(self) -> str:
        if "_fitted" not in vars(self):
            return super()._html_repr()
        from coterie.report import html_summary

        return html_summary(self)

    @property
    def hierarchy_(self) -> Hierarchy:
        """How the clusters merge into fewer, by average linkage of their centroids."""
        from coterie.method.hierarchy import cluster_hierarchy

        sizes = np.bincount(to_host(self.labels_), minlength=self.n_clusters_)  # (k,)
        return cluster_hierarchy(self.cluster_centers_, sizes)

    @property
    def _n_features_out(self) -> int:
        return self._fitted.cluster_centers.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    # -- what a fit publishes -----------------------------------------------------------------------------------

    def _publish(self, fitted: Fitted) -> None:
        # One statement: whatever interrupts a fit, the model is either the old one or the new one. Fitted attributes
        # that a user has set by hand belong to the old one, and are removed.
        self.__dict__ = {
            **{name: value for name, value in vars(self).items() if name not in attributes_of_a_fit()},
            "_fitted": fitted,
        }

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute; Python calls this where the instance and its class have none of that name."""
        known = attributes_of_a_fit().get(name)
        fitted = vars(self).get("_fitted")
        if known is not None and fitted is not None and not name.startswith("_") and fitted.has(name):
            return getattr(fitted, known.field)
        why = "" if known is None else why_lacking(name, known.kind, is_fitted=fitted is not None)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}")

    def __dir__(self) -> list[str]:
        fitted = vars(self).get("_fitted")
        return sorted({*super().__dir__(), *(fitted.published() if fitted is not None else ())})

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def _apply(self, function: Callable[[Fitted, Views, BlockPlan], Any], X: Any) -> Any:
        return as_given(function(*self._read(X)), X)

    def _read(self, X: Any) -> tuple[Fitted, Views, BlockPlan]:
        """Return the model, new rows as views like those of the fit, and the plan of their blocks."""
        check_is_fitted(self)
        fitted = self._fitted
        by_name = fitted.groups is not None and names_of(X) is not None  # columns are found by name, in any order
        if fitted.n_features_in is not None and getattr(X, "ndim", 0) == 2 and not by_name:
            validate_data(self, for_sklearn(X), reset=False, skip_check_array=True)
        views = fitted.read(X, self.device, self.id_column)
        return fitted, views, BlockPlan(self.block_size, count_threads(self.n_jobs))


def why_lacking(name: str, kind: str, *, is_fitted: bool) -> str:
    """Return the end of a message: why a model lacks an attribute that fits have, and what to do.

    Examples
    --------
    >>> why_lacking("labels_", PER_ROW, is_fitted=False)
    ": call 'fit' first"
    """
    if not is_fitted:
        return ": call 'fit' first"
    if name == "embedding_":
        return ": fit with store_embedding=True, or call 'transform'"
    if kind == PER_ROW:
        return ": a file has what the fit said of its rows only if saved with rows=True; ask 'predict'"
    return ""

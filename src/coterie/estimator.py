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
from coterie.kernels import _numba  # noqa: F401  a fit needs it, and no stage's seconds shall hold its import
from coterie.method.assignment import Prediction
from coterie.model import PER_ROW, Fitted, attributes_of_a_fit, table_columns
from coterie.new_rows import NewRowsMixin
from coterie.placement import BlockPlan, as_given, explain_memory, place_views, placement_of
from coterie.progress import Progress
from coterie.settings import check_parameters, check_weights, settle
from coterie.threads import count_threads, one_thread_per_block
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
        ("t*"), or callables that take the table and return one of these. Of AnnData and MuData, what to take: see
        :func:`coterie.tl.views_of`.
    id_column : str or int, default=None
        The column of frames and files that holds the rows' ids: it is no value, and rows are matched by it.
    n_landmarks : int or "auto", default="auto"
        Number of landmarks, p. "auto" is 1,000 (1,500 from 20,000 to 200,000 rows); a third of the rows where these
        are fewer than 3,000, but at least 600 and ten for each cluster; 600 with ``basis="subspace"``; at least twice
        the clusters, and at most all rows. Where rows lack views it is up to twice as many, so that every view knows
        enough of them, and at most seven tenths of the rows. Ignored where ``landmarks`` are given.
    n_neighbors : int, list of int or "auto", default="auto"
        Landmarks that a row is joined to in each graph, q. Several numbers make graphs at several scales, which cost
        one search. "auto" is 5, 10 and 80; 5 and 10 above 20,000 rows, 10 above 200,000; 8 with ``basis="subspace"``.
    landmarks : "kmedoids", "kmedoids++", "random" or array of row numbers, default="kmedoids"
        How landmarks are chosen: a light clustering that starts from rows drawn evenly, or from rows far apart; rows
        drawn evenly; or the landmarks themselves. Of a clustering, the groups' means are taken where there are two rows
        or more for each: the same groups in every view. With ``basis="subspace"``, as published, it is their medoids.
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
        Weight of each view in the augmented view. "auto" weighs a view's graphs down where their singular vectors are
        localised on a few rows, as those of near-duplicates and sparse text are; 1 treats all alike.
    basis : "auto", "diffusion", "commute", "islands" or "subspace", default="auto"
        What the augmented view is made from: every graph's k first singular vectors, as published ("subspace"); or 3k/2
        vectors behind the first, as rows of length one, each weighted by its squared singular value ("diffusion") or by
        that and commute times, so that small clusters stand out ("commute"); or those and the first one, which is
        constant, with rows of any length, so that clusters that hardly touch stay apart however small they are
        ("islands"). "auto" makes the latter three and takes the one whose clusters the views' own neighbourhoods
        predict best, or one whose clusters replicate where those do not; but "diffusion" alone where all views are
        words or links: ``candidates_`` shows them. Where ``stability_`` is measured and low, it also tries the
        directions that the views share.
    guide : "cosine" or "inner", default="cosine"
        How alike a row and a landmark are in the augmented view; "inner" is as published.
    max_iter : int or "auto", default="auto"
        Rounds at most. One round is no guiding at all. "auto" follows ``basis``: 2 for "diffusion", 5 for "commute", 10
        for "islands" and for "subspace", about as many as the paper takes; with ``basis="auto"`` 1, 2, 5 or 10,
        whichever the views agree with most. They learn from 100,000 rows at most, or 100 for each landmark, which the
        others then follow; with ``basis="subspace"`` from all.
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
        Restarts of k-means. Beyond 32 clusters fewer, in proportion, unless ``basis="subspace"``.
    store_embedding : bool, default=False
        Whether to keep ``embedding_`` (rows x n_components).
    measure_stability : bool or "auto", default="auto"
        Whether to find out how far the clusters depend on the draw of landmarks, at about a tenth of the cost of a fit.
        "auto" does so except on a GPU, where it would take longer than the fit. Without it, the directions that views
        share are not tried: labels of noisy rows may be others.
    dtype : "float32", "float64" or "tf32", default="float32"
        Precision of row work; sums and small matrices are always float64. "tf32" is float32 with products of 10 bits on
        a GPU: they take a third of the time, and one neighbour in 400 is another.
    device : "auto", "cpu", "cuda" or a torch device, default="auto"
        Where the work is done. "auto" is the GPU of views that are tensors on one, else this machine's cores. With
        "cuda", views in host memory are copied to the GPU block by block. "torch" runs the GPU's code on the cores.
    memory_limit : int or str, default=None
        How much memory this process may take, such as "4GB", at least 1 GB. Where what a fit keeps of all rows would
        take more, it is kept in files. None: everything is kept in memory.
    work_dir : str or Path, default=None
        Folder in which the fit keeps what it has done, so that it can be stopped or killed and resumed by the same
        call: the labels are the same to the last bit. Its files are in ``coterie-job`` there, which is removed when
        the fit is done; other files are left alone. None: a fit that is stopped is lost, and files that
        ``memory_limit`` needs are among the system's temporary files.
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
        Top singular values of every graph, by view and scale, one more than is used, after the last round.
    consensus_singular_values_ : ndarray
        Singular values of all bases side by side: those of the consensus, and the ten largest that were left out.
    agreement_ : dict of float
        How much of the basis of each view's graphs the consensus holds before any guiding, as a share of the most that
        it could hold: near 1 for a view that shows the clusters, near 0 for one of noise.
    cluster_agreement_ : ndarray of shape (n_clusters, n_views)
        Share of each cluster's rows that each view alone assigns to it too.
    stability_ : float
        How alike the partitions are that two halves of the landmarks lead to (adjusted Rand index, before guiding): 1
        where the draw of landmarks does not matter. On the low side, because half the landmarks are fewer. Only with
        ``measure_stability``.
    candidates_ : list of dict
        The ways to merge the graphs that ``basis="auto"`` weighed: name, preparation ("own" or "shared" directions),
        rounds, agreement (how well each view's neighbours predict the clusters after them: adjusted Rand index, mean
        over the views), stability where it was measured, and whether it was chosen.
    cluster_stability_ : ndarray of shape (n_clusters,)
        The same for the rows of each cluster: the mean Jaccard index of the two halves' groups that hold a row.
    hierarchy_ : Hierarchy
        How the clusters merge into fewer: ``linkage`` in SciPy's form, the ``order`` of the leaves, and
        ``cut(n_groups)``. Computed from centroids and sizes on demand; a model that was loaded without rows lacks it.
    graph_agreement_ : ndarray of shape (graphs, graphs)
        How alike the bases of every two graphs are (1: the same), in the order of ``singular_values_``.
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
            How many rows each row stands for, as whole numbers of at least 1; a pandas Series is matched by its index
            where rows have ids. It is as if every row was there so many times, in time too; the table is not copied.
            ``cluster_sizes_`` counts all of them, while ``labels_`` and the like have one entry for each row of X.

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

        The machine's speed is measured in a moment, once a day. Of views in files a few rows are read.

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
            The same views. A dict may leave out views that the rows lack. Columns with names may be in any order, and
            others beside them are left out.

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

        A row more than twice as far from its nearest landmarks as the rows of the fit are from theirs has less: its
        confidence is multiplied by how many times less far those are, on average over its views.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._apply(Fitted.confidence_of, X)

    def novelty(self, X: Any) -> np.ndarray:
        """Return how unlike all rows of the fit each row is: the share of them that are less so.

        From the row's distances to its nearest landmarks, in every view. Rows like those of the fit have values spread
        evenly between 0 and 1; a row with 1 is farther out than all that were seen.

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

        Each view's graphs are used as they are before any guiding. The views disagree on a row whose labels differ.

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

        d1 is the row's distance to its cluster, as the view alone sees it before any guiding, and d2 that to the next
        one. It is 0 where the view alone would assign the row to another cluster, and NaN where a row lacks the view.

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
        # One statement: whatever interrupts a fit, the model is the old one or the new one. Attributes that a user has
        # set by hand belong to the fit before.
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
        """Return the model, new rows as views like those of the fit, and how they are worked on."""
        check_is_fitted(self)
        fitted = self._fitted
        by_name = fitted.groups is not None and names_of(X) is not None  # columns are found wherever they are
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

"""Other libraries' clusterings, each called as its users would call it, behind one ``fit_predict`` of views."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from coterie.peers.registry import Method, make_estimator

Arrays = Mapping[str, np.ndarray]

# mvlearn requires a matplotlib of 2021 but runs with current ones, so it must be installed without dependencies.
REMEDIES = {"mvlearn": "pip install coterie[bench-peers], then pip install --no-deps mvlearn"}
REMEDY = "pip install coterie[bench-peers]"


@dataclass(frozen=True)
class Arranged:
    """Another library's estimator, with the function that converts views to its input."""

    estimator: Any
    arrange: Callable[[Arrays], Any]

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        with quietly():
            return self.estimator.fit_predict(self.arrange(views))


@dataclass(frozen=True)
class FaissKMeans:
    """FAISS' k-means on the concatenated views."""

    n_clusters: int
    seed: int
    n_runs: int = 1
    n_passes: int = 25
    all_rows: bool = True  # by default, FAISS samples 256 rows per cluster

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        import faiss

        table = side_by_side(views)  # (n, d)
        sample = {"max_points_per_centroid": len(table)} if self.all_rows else {}
        kmeans = faiss.Kmeans(
            table.shape[1], self.n_clusters, niter=self.n_passes, nredo=self.n_runs, seed=self.seed, **sample
        )
        kmeans.train(table)
        return kmeans.index.search(table, 1)[1].ravel()


@dataclass(frozen=True)
class Snf:
    """Similarity network fusion (snfpy), followed by scikit-learn's spectral clustering of the fused network."""

    n_clusters: int
    seed: int
    n_neighbors: int = 20
    mu: float = 0.5

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        from sklearn.cluster import spectral_clustering

        with quietly():
            import snf

            snf.compute.check_array = renamed_check_array
            affinities = snf.make_affinity(as_tables(views), K=self.n_neighbors, mu=self.mu, metric="euclidean")
            fused = snf.snf(affinities, K=self.n_neighbors)  # (n, n)
            return spectral_clustering(fused, n_clusters=self.n_clusters, random_state=self.seed)


@dataclass(frozen=True)
class WnnLeiden:
    """Weighted nearest neighbours (muon), followed by Leiden with the resolution that gives nearest to k clusters."""

    n_clusters: int
    seed: int
    n_components: int = 30
    n_neighbors: int = 20
    searches: int = 12

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        with quietly():
            graph = self.neighbours(views)
            return nearest_resolution(lambda gamma: self.leiden(graph, gamma), self.n_clusters, self.searches)

    def neighbours(self, views: Arrays) -> Any:
        """Return muon's data with the joint graph of all views."""
        import muon
        import scanpy
        from anndata import AnnData
        from mudata import MuData

        tables = {name: AnnData(table) for name, table in zip(views, as_tables(views), strict=True)}
        for table in tables.values():
            components = min(self.n_components, min(table.shape) - 1)
            scanpy.pp.pca(table, n_comps=components, random_state=self.seed)
            scanpy.pp.neighbors(table, n_neighbors=self.n_neighbors, random_state=self.seed)
        data = MuData(tables)
        muon.pp.neighbors(data, n_multineighbors=min(200, data.n_obs - 1), random_state=self.seed)
        return data

    def leiden(self, data: Any, resolution: float) -> np.ndarray:
        """Return Leiden's clusters."""
        import scanpy

        scanpy.tl.leiden(
            data, resolution=resolution, random_state=self.seed, flavor="igraph", n_iterations=2, directed=False
        )
        return data.obs["leiden"].astype(int).to_numpy()


# Methods that need an adapter; classes with a fit_predict are imported by their dotted names.
ADAPTERS: dict[str, Callable[..., Any]] = {
    "faiss.Kmeans": FaissKMeans,
    "snf.snf": Snf,
    "muon.pp.neighbors": WnnLeiden,
}

# Methods of other libraries in the tables; those that cannot be imported are left out.
LIBRARIES = (
    Method("k-means (FAISS)", "faiss.Kmeans", {"n_runs": 10}),
    Method("SNF (snfpy)", "snf.snf", cost="cubic"),
    Method("WNN + Leiden (muon)", "muon.pp.neighbors", cost="quadratic"),
    Method("Co-training (mvlearn)", "mvlearn.cluster.MultiviewSpectralClustering", cost="cubic"),
    Method("Co-regularised (mvlearn)", "mvlearn.cluster.MultiviewCoRegSpectralClustering", cost="cubic"),
)


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings, as those of other libraries do not concern our users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def side_by_side(views: Arrays) -> np.ndarray:
    """Return the concatenation of the views as one float32 table.

    Examples
    --------
    >>> side_by_side({"a": np.ones((2, 3), np.uint8), "b": np.zeros((2, 1))}).dtype
    dtype('float32')
    """
    return np.concatenate([dense(view) for view in views.values()], axis=1, dtype=np.float32, casting="unsafe")


def as_tables(views: Arrays) -> list[np.ndarray]:
    """Return the views as float64 arrays."""
    return [np.asarray(dense(view), dtype=np.float64) for view in views.values()]


def dense(view: Any) -> np.ndarray:
    """Return a view as a dense array."""
    return view.toarray() if hasattr(view, "toarray") else view


def renamed_check_array(array: Any, force_all_finite: bool = True, **more: Any) -> np.ndarray:
    """Check an array for snfpy, which still passes ``force_all_finite``, scikit-learn's name before 1.6."""
    from sklearn.utils import check_array

    return check_array(array, ensure_all_finite=force_all_finite, **more)


def nearest_resolution(cluster: Callable[[float], np.ndarray], n_clusters: int, searches: int) -> np.ndarray:
    """Return the labels whose number is nearest to ``n_clusters``, by bisection of the logarithm of the resolution."""
    low, high, best = 1e-2, 10.0, None
    for _ in range(searches):
        middle = float(np.sqrt(low * high))
        labels = cluster(middle)
        count = len(np.unique(labels))
        if best is None or abs(count - n_clusters) < abs(len(np.unique(best)) - n_clusters):
            best = labels
        if count == n_clusters:
            break
        low, high = (middle, high) if count < n_clusters else (low, middle)
    assert best is not None
    return best


def is_library(method: Method) -> bool:
    """Return whether the method is another library's, which is so if its estimator has a dotted name."""
    return "." in method.estimator


def why_not(method: Method) -> str | None:
    """Return why a method cannot be measured here, None if it can.

    Examples
    --------
    >>> why_not(Method("other", "no_such_package.Clustering"))
    "no_such_package cannot be imported (No module named 'no_such_package'). pip install coterie[bench-peers]"
    """
    if not is_library(method):
        return None
    package, _, _ = method.estimator.partition(".")
    try:
        with quietly():
            import_module(package)
    except Exception as error:  # an old package can fail in any way with new ones
        return f"{package} cannot be imported ({error}). {REMEDIES.get(package, REMEDY)}"
    return None


def make_clustering(method: Method, n_clusters: int, seed: int) -> Any:
    """Return an estimator for the method, ours or another library's, with ``fit_predict(views)``."""
    if not is_library(method):
        return make_estimator(method, n_clusters, seed)
    if method.estimator in ADAPTERS:
        return ADAPTERS[method.estimator](n_clusters, seed, **method.params)
    module, _, name = method.estimator.rpartition(".")
    estimator = getattr(import_module(module), name)(n_clusters=n_clusters, random_state=seed, **method.params)
    return Arranged(estimator, as_tables if module.startswith("mvlearn") else side_by_side)


def library_version(method: Method) -> dict[str, str]:
    """Return the version of the method's package, if it is not one of ours."""
    if not is_library(method):
        return {}
    package, _, _ = method.estimator.partition(".")
    with quietly():
        return {"scikit-learn" if package == "sklearn" else package: str(import_module(package).__version__)}

"""Multi-view clusterings of other packages as rows of the tables: SNF, WNN with Leiden, and mvlearn's.

Each has ``fit_predict(views)`` and is called as its users would. None is a dependency: where a package cannot be
imported, :func:`missing` says why, and the row is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Snf:
    """Similarity network fusion (snfpy), and scikit-learn's spectral clustering of the fused network."""

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
    """Weighted nearest neighbours (muon), and Leiden with the resolution that comes nearest to k clusters."""

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

    def neighbours(self, views: Arrays):
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

    def leiden(self, data, resolution: float) -> np.ndarray:
        """Return Leiden's clusters."""
        import scanpy

        scanpy.tl.leiden(
            data, resolution=resolution, random_state=self.seed, flavor="igraph", n_iterations=2, directed=False
        )
        return data.obs["leiden"].astype(int).to_numpy()


@dataclass(frozen=True)
class Mvlearn:
    """A spectral clustering of mvlearn's, which takes a list of views."""

    n_clusters: int
    seed: int
    name: str = "MultiviewSpectralClustering"

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        with quietly():
            estimator = getattr(import_module("mvlearn.cluster"), self.name)
            return estimator(n_clusters=self.n_clusters, random_state=self.seed).fit_predict(as_tables(views))


# Name in tables, the packages that it needs, and how it is made from (n_clusters, seed).
LIBRARIES: dict[str, tuple[tuple[str, ...], Callable[[int, int], Snf | WnnLeiden | Mvlearn]]] = {
    "SNF (snfpy)": (("snf",), Snf),
    "WNN + Leiden (muon)": (("muon", "scanpy", "igraph"), WnnLeiden),
    "Co-training (mvlearn)": (("mvlearn.cluster",), Mvlearn),
    "Co-regularised (mvlearn)": (
        ("mvlearn.cluster",),
        lambda n_clusters, seed: Mvlearn(n_clusters, seed, "MultiviewCoRegSpectralClustering"),
    ),
}


def missing(name: str) -> str | None:
    """Return why a row cannot be measured here, None if it can."""
    for package in LIBRARIES[name][0]:
        try:
            with quietly():
                import_module(package)
        except Exception as error:  # an old package can fail in any way with new ones
            return f"{package} cannot be imported ({error})"
    return None


def make_library(name: str, n_clusters: int, seed: int) -> Snf | WnnLeiden | Mvlearn:
    """Return the row's clustering, ready for ``fit_predict(views)``."""
    return LIBRARIES[name][1](n_clusters, seed)


def as_tables(views: Arrays) -> list[np.ndarray]:
    """Return the views as float64 arrays."""
    return [np.asarray(view, dtype=np.float64) for view in views.values()]


def renamed_check_array(array, force_all_finite=True, **more):
    """Check an array for snfpy, which calls a parameter by the name that scikit-learn had for it before 1.6."""
    from sklearn.utils import check_array

    return check_array(array, ensure_all_finite=force_all_finite, **more)


def nearest_resolution(cluster: Callable[[float], np.ndarray], n_clusters: int, searches: int) -> np.ndarray:
    """Return the labels whose number comes nearest to ``n_clusters``, by halving the logarithm of the resolution."""
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


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings: what another package has to say to its users is not for ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

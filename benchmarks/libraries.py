"""Other libraries' clusterings, each called as its users would call it, behind one ``fit_predict`` of views."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from coterie.peers.registry import Method, make_estimator

Arrays = Mapping[str, np.ndarray]

# mvlearn runs with today's matplotlib, but asks for one of 2021: it must be installed without what it asks for.
REMEDIES = {"mvlearn": "pip install coterie[bench-peers], then pip install --no-deps mvlearn"}
REMEDY = "pip install coterie[bench-peers]"


@dataclass(frozen=True)
class OneTable:
    """A clustering of scikit-learn's, on all views side by side."""

    estimator: Any

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        with quietly():
            return self.estimator.fit_predict(side_by_side(views))


@dataclass(frozen=True)
class ListOfTables:
    """A clustering of mvlearn's, which takes a list of views."""

    estimator: Any

    def fit_predict(self, views: Arrays) -> np.ndarray:
        """Return the cluster of every row."""
        with quietly():
            return self.estimator.fit_predict([np.asarray(view, dtype=np.float64) for view in views.values()])


@dataclass(frozen=True)
class FaissKMeans:
    """FAISS' k-means, on all views side by side."""

    n_clusters: int
    seed: int
    n_runs: int = 1
    n_passes: int = 25
    all_rows: bool = True  # FAISS by itself takes 256 rows per cluster

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


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings: what another library has to say to its users is not for ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def side_by_side(views: Arrays) -> np.ndarray:
    """Return the views as one float32 table.

    Examples
    --------
    >>> side_by_side({"a": np.ones((2, 3), np.uint8), "b": np.zeros((2, 1))}).dtype
    dtype('float32')
    """
    return np.concatenate(list(views.values()), axis=1, dtype=np.float32, casting="unsafe")


def is_library(method: Method) -> bool:
    """Return whether the method is another library's: its estimator then has a dotted name."""
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
    """Return the method, ours or another library's, ready for ``fit_predict(views)``."""
    if not is_library(method):
        return make_estimator(method, n_clusters, seed)
    if method.estimator == "faiss.Kmeans":
        return FaissKMeans(n_clusters, seed, **method.params)
    module, _, name = method.estimator.rpartition(".")
    estimator = getattr(import_module(module), name)(n_clusters=n_clusters, random_state=seed, **method.params)
    return ListOfTables(estimator) if module.startswith("mvlearn") else OneTable(estimator)


def library_version(method: Method) -> dict[str, str]:
    """Return the version of the method's package, if it is not one of ours."""
    if not is_library(method):
        return {}
    package, _, _ = method.estimator.partition(".")
    return {"scikit-learn" if package == "sklearn" else package: str(import_module(package).__version__)}

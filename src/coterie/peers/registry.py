"""The methods by name, one line each: what ``coterie compare`` runs and what the benchmarks measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

# By the growth of time with rows: the largest number of rows on which a method is run by default.
MOST_ROWS = {"linear": None, "quadratic": 20_000, "cubic": 3_000}


@dataclass(frozen=True)
class Method:
    """A method's name in tables, its estimator and the estimator's parameters.

    Attributes
    ----------
    name : str
    estimator : str
        A class of :mod:`coterie.peers`, "GuidedCoTraining", or "as_published".
    params : dict
        Its parameters besides the number of clusters and the seed.
    cost : "linear", "quadratic" or "cubic"
        How its time grows with the number of rows.
    one_view : bool
        Whether it clusters one table: the view named by its parameter ``view``, or all views side by side.
    by_default : bool
        Whether ``coterie compare`` runs it when no method is named.
    """

    name: str
    estimator: str
    params: dict[str, Any] = field(default_factory=dict)
    cost: str = "linear"
    one_view: bool = False
    by_default: bool = True

    def is_feasible_for(self, n_rows: int) -> bool:
        """Whether it can be run on this number of rows in reasonable time."""
        most = MOST_ROWS[self.cost]
        return most is None or n_rows <= most

    def on(self, view: str | int, name: str) -> Method:
        """Return the method applied to one of the views, under a new name."""
        return replace(self, name=name, params={**self.params, "view": view})

    def given(self, **params: Any) -> Method:
        """Return the method with further parameters."""
        return replace(self, params={**self.params, **params})


COTERIE = Method("Coterie", "GuidedCoTraining")
PUBLISHED = Method("Guided co-training", "as_published")
CONCAT_LSC = Method("ConcatLSC", "ConcatLSC")
MVSCB = Method("MVSC-B", "MVSCB")
LSC = Method("LSC", "LSC", one_view=True)
SC = Method("SC", "SC", cost="cubic", one_view=True, by_default=False)
EXACT = Method("Exact 2016", "ExactGuidedCoTraining", cost="cubic", by_default=False)

METHODS = {
    method.name: method
    for method in (
        COTERIE,
        PUBLISHED,
        Method("k-means, none", "ConcatKMeans", {"scaling": "none"}),
        Method("k-means, block", "ConcatKMeans", {"scaling": "block"}),
        Method("k-means, half", "ConcatKMeans", {"scaling": "half"}, by_default=False),
        Method("k-means, standard", "ConcatKMeans", {"scaling": "standard"}),
        Method("k-means, auto", "ConcatKMeans", {"scaling": "auto"}, by_default=False),
        CONCAT_LSC,
        MVSCB,
        LSC,
        SC,
        EXACT,
        Method("Co-training", "CoTraining", cost="cubic", by_default=False),
        Method("Co-regularised, pairwise", "CoRegularised", cost="cubic", by_default=False),
        Method("Co-regularised, centroid", "CoRegularised", {"kind": "centroid"}, cost="cubic", by_default=False),
        Method("AASC", "AASC", cost="cubic", by_default=False),
        Method("MKL", "MultipleKernelLaplacian", cost="cubic", by_default=False),
        Method("RMSC", "RMSC", cost="cubic", by_default=False),
        Method("MMSC", "MMSC", cost="cubic", by_default=False),
        Method("MSCMO", "MSCMO", cost="cubic", by_default=False),
        Method("MultiNMF", "MultiNMF", by_default=False),
        Method("LT-MSC", "LTMSC", cost="cubic", by_default=False),
        Method("DiMSC", "DiMSC", cost="cubic", by_default=False),
        Method("FastMICE", "FastMICE", by_default=False),
        Method("AIMC", "AIMC", by_default=False),
        Method("LMVSC", "LMVSC", by_default=False),
        Method("SMVSC", "SMVSC", by_default=False),
        Method("FPMVS-CAG", "FPMVSCAG", by_default=False),
        Method("SFMC", "SFMC", by_default=False),
        Method("U-SPEC", "USPEC", one_view=True, by_default=False),
        Method("U-SENC", "USENC", one_view=True, by_default=False),
        Method("Nystroem", "Nystroem", one_view=True, by_default=False),
        Method("KASP", "KASP", one_view=True, by_default=False),
        Method("Shinnou and Sasaki", "ShinnouSasaki", one_view=True, by_default=False),
        Method("PIC", "PIC", one_view=True, by_default=False),
        Method("Sequential", "Sequential", one_view=True, by_default=False),
        Method("Commute times", "CommuteTime", one_view=True, by_default=False),
        Method("Sparse auto-encoder", "SparseAutoencoder", cost="quadratic", one_view=True, by_default=False),
    )
}


def make_estimator(method: Method, n_clusters: int, seed: int) -> Any:
    """Return the method's estimator, ready to fit.

    Examples
    --------
    >>> make_estimator(METHODS["k-means, block"], n_clusters=3, seed=0)
    ConcatKMeans(n_clusters=3, random_state=0, scaling='block')
    """
    import coterie
    from coterie import peers

    make: Callable[..., Any]
    if method.estimator == "as_published":
        make = coterie.GuidedCoTraining.as_published
    elif method.estimator == "GuidedCoTraining":
        make = coterie.GuidedCoTraining
    else:
        make = getattr(peers, method.estimator)
    return make(n_clusters, random_state=seed, **method.params)


@cache
def warm_up(estimator: str) -> None:
    """Fit once on a few rows, so that measured times do not include the loading of compiled kernels."""
    from coterie.datasets import make_views

    data = make_views(120, 3, n_columns=(4, 3), random_state=0)
    make_estimator(Method("warm-up", estimator), 3, 0).fit(data.views)

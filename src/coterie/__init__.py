"""Clustering of rows that are seen through several views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

__version__ = "0.1.0"

__all__ = [
    "GuidedCoTraining",
    "ModelFileError",
    "__version__",
    "align",
    "datasets",
    "describe_file",
    "drift",
    "features",
    "formats",
    "load",
    "metrics",
    "peers",
    "pl",
    "plot",
    "report",
    "save",
    "serving",
    "suggest_k",
    "tl",
    "view_rows",
]

if TYPE_CHECKING:
    from coterie import datasets, drift, features, formats, metrics, peers, pl, plot, report, serving, tl
    from coterie.alignment import align
    from coterie.estimator import GuidedCoTraining
    from coterie.saving import ModelFileError, describe_file, load, save
    from coterie.suggesting import suggest_k
    from coterie.views import view_rows

__getattr__ = names_of(
    __name__,
    {
        "GuidedCoTraining": "estimator",
        "ModelFileError": "saving",
        "align": "alignment",
        "describe_file": "saving",
        "load": "saving",
        "save": "saving",
        "suggest_k": "suggesting",
        "view_rows": "views",
    },
    rooms=("datasets", "drift", "features", "formats", "metrics", "peers", "pl", "plot", "report", "serving", "tl"),
)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Clustering of rows that are seen through several views."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names are looked up when they are first used: importing the package is quick and loads no heavy library.
_HOMES = {
    "GuidedCoTraining": "coterie.estimator",
    "ModelFileError": "coterie.saving",
    "describe_file": "coterie.saving",
    "load": "coterie.saving",
    "save": "coterie.saving",
    "suggest_k": "coterie.estimator",
}
_ROOMS = ("datasets", "features", "formats", "metrics", "peers", "plot", "report", "tl")

__all__ = [
    "GuidedCoTraining",
    "ModelFileError",
    "__version__",
    "datasets",
    "describe_file",
    "features",
    "formats",
    "load",
    "metrics",
    "peers",
    "plot",
    "report",
    "save",
    "suggest_k",
    "tl",
]

if TYPE_CHECKING:
    from coterie import datasets, features, formats, metrics, peers, plot, report, tl
    from coterie.estimator import GuidedCoTraining, suggest_k
    from coterie.saving import ModelFileError, describe_file, load, save


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"coterie.{name}")
    raise AttributeError(f"module 'coterie' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

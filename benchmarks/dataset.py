"""Data sets before they are loaded: title, number of views and loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie import datasets
from coterie.datasets import MultiViewData


class MissingDataError(Exception):
    """Raised, with the reason, if a data set is not available on this machine."""


@dataclass(frozen=True)
class DataSet:
    """A data set's title, number of views and loader."""

    title: str
    n_views: int
    load: Callable[[Any], MultiViewData]  # from the data folder
    paper: str | None = None  # its column in the paper's tables


def bundle(name: str) -> Callable[[Any], MultiViewData]:
    """Return a loader of a file of the data folder."""
    return lambda home: datasets.load_views(name, data_home=home)

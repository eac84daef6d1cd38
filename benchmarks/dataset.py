"""What is known of a data set before it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie import datasets
from coterie.datasets import MultiViewData


class MissingDataError(Exception):
    """A data set that is not to be had here, and why."""


@dataclass(frozen=True)
class DataSet:
    """How a data set is called, read, and how many views it has."""

    title: str
    n_views: int
    load: Callable[[Any], MultiViewData]  # from the data folder
    paper: str | None = None  # its column in the paper's tables


def bundle(name: str) -> Callable[[Any], MultiViewData]:
    """Return a loader of a file of the data folder."""
    return lambda home: datasets.load_views(name, data_home=home)

"""The suites of benchmarks: methods with their settings, on data sets, over seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.data import DATA, UNEQUAL
from benchmarks.libraries import LIBRARIES, is_library
from benchmarks.unequal import is_small
from coterie.peers.registry import (
    CONCAT_LSC,
    COTERIE,
    EXACT,
    LSC,
    METHODS,
    MVSCB,
    PUBLISHED,
    SC,
    Method,
    make_estimator,
)

# How the columns of k-means are scaled; "auto" prepares them as Coterie does.
SCALINGS = ("none", "block", "half", "standard")

# Parameters that do not change the labels, or are stored in the record apart from its settings.
NO_SETTINGS = ("n_clusters", "n_jobs", "device", "random_state", "verbose", "store_embedding", "block_size")


SHUFFLED, FILE_ORDER = "shuffled", "file"  # order of the rows: drawn by the seed, or as stored


@dataclass(frozen=True)
class Run:
    """One method on one data set with one seed."""

    method: Method
    data: str
    seed: int
    rows: int | None = None  # size of a sample of its rows; None: all
    order: str = SHUFFLED

    def settings(self) -> dict[str, Any]:
        """Return the parameters of the estimator and the order of rows: a change of either is another measurement."""
        own = {"estimator": self.method.estimator, "rows": self.rows, **self.parameters()}
        return own if self.order == FILE_ORDER else {**own, "order": self.order}

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator; of another library's, only those that we set."""
        if is_library(self.method):
            return self.method.params
        params = make_estimator(self.method, n_clusters=2, seed=self.seed).get_params()
        return {name: value for name, value in params.items() if name not in NO_SETTINGS}

    def key(self) -> tuple[str, str, int, str]:
        """Return the key that identifies this run."""
        return (self.method.name, self.data, self.seed, settings_hash(self.settings()))


def settings_hash(settings: dict[str, Any]) -> str:
    """Return the first twelve hexadecimal digits of a hash of the settings.

    Examples
    --------
    >>> settings_hash({"a": 1, "b": None}) == settings_hash({"b": None, "a": 1})
    True
    """
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def single_views(data: str, landmarks: str) -> list[Method]:
    """Return LSC on each view: the paper's SC(1), SC(2), ..."""
    return [LSC.given(landmarks=landmarks).on(v, f"SC({v + 1})") for v in range(DATA[data].n_views)]


def further_methods() -> list[Method]:
    """Return the other registered methods that take several views and whose time is linear in the rows."""
    return [method for method in other_peers() if method.cost == "linear" and not method.one_view]


def other_peers() -> list[Method]:
    """Return the registered methods that are neither the paper's nor k-means; one-table methods take all columns."""
    listed = {COTERIE.name, PUBLISHED.name, CONCAT_LSC.name, MVSCB.name, LSC.name, SC.name, EXACT.name}
    return [method for method in METHODS.values() if method.name not in listed and method.estimator != "ConcatKMeans"]


def paper_methods(data: str) -> list[Method]:
    """Return the rows of the paper's tables, Coterie's defaults, the method of 2016, and all other peers."""
    # "We sample 800 landmark points": at random, with which figures are nearer to the paper's than with k-means.
    own = [*single_views(data, "random"), CONCAT_LSC.given(landmarks="random"), MVSCB, PUBLISHED, COTERIE, EXACT]
    return [*own, SC, *other_peers(), *LIBRARIES]


def leaderboard_methods(data: str) -> list[Method]:
    """Return all methods that a user could choose."""
    kmeans = [METHODS[f"k-means, {scaling}"] for scaling in SCALINGS]
    ours = [COTERIE, PUBLISHED, *kmeans, CONCAT_LSC, MVSCB, EXACT, SC]
    return [*ours, *other_peers(), *LIBRARIES, *single_views(data, "kmeans")]


def robustness_methods(data: str) -> list[Method]:
    """Return the methods that are tested for robustness against noise views and missing views."""
    return [COTERIE, PUBLISHED, METHODS["k-means, standard"], MVSCB]


def unequal_methods(data: str) -> list[Method]:
    """Return the methods that are tested on clusters of unequal size; k-means has fewer restarts on large sets."""
    starts = {} if is_small(data) else {"n_init": 3}
    kmeans = [METHODS[f"k-means, {scaling}"].given(**starts) for scaling in (*SCALINGS, "auto")]
    return [COTERIE, PUBLISHED, *kmeans, CONCAT_LSC, MVSCB, *further_methods()]


def landmark_methods(data: str) -> list[Method]:
    """Return the methods of the paper's figure with 100 to 1,000 landmarks."""
    return [
        method.given(n_landmarks=p) for method in (COTERIE, PUBLISHED, MVSCB, CONCAT_LSC) for p in range(100, 1001, 100)
    ]


# Endings of the names of data sets -> headings of their columns.
TROUBLES = {
    "_noise1": "1 view of noise",
    "_noise2": "2 views of noise",
    "_noise3": "3 views of noise",
    "_missing30": "30 % missing",
    "_missing50": "50 % missing",
}


@dataclass(frozen=True)
class Suite:
    """Data sets, and the methods for each."""

    data: tuple[str, ...]
    methods: Callable[[str], list[Method]]


SUITES = {
    "paper": Suite(
        (
            "uci",
            "usps",
            "mnist",
            "nus_like",
            "reuters_1200",
            "reuters_1200_lsa",
            "reuters_600",
            "reuters_600_lsa",
        ),
        paper_methods,
    ),
    "leaderboard": Suite(
        (
            "uci",
            "usps",
            "mnist",
            "digits",
            "scene15",
            "100leaves",
            "bbcsport",
            "citeseer",
            "reuters_1200",
            "reuters_600",
            "nus_like",
            "weak",
            "scaled",
            "duplicated",
            "missing",
            "noise",
        ),
        leaderboard_methods,
    ),
    "robustness": Suite(
        tuple(f"{name}{trouble}" for name in ("uci", "digits", "scene15") for trouble in ("", *TROUBLES)),
        robustness_methods,
    ),
    "unequal": Suite(tuple(UNEQUAL), unequal_methods),
    "landmarks": Suite(("uci", "usps", "mnist"), landmark_methods),
}


def plan(
    suite: str,
    seeds: Iterable[int],
    *,
    only_data: Sequence[str] = (),
    only_method: Sequence[str] = (),
    rows: int | None = None,
) -> list[Run]:
    """Return the runs of a suite, data set by data set.

    Raises
    ------
    ValueError
        If the suite has no data set or method that ``only_data`` or ``only_method`` names.

    Examples
    --------
    >>> [run.method.name for run in plan("paper", [0], only_data=["usps"])][:7]
    ['SC(1)', 'SC(2)', 'SC(3)', 'ConcatLSC', 'MVSC-B', 'Guided co-training', 'Coterie']
    """
    chosen = SUITES[suite]
    methods = {data: chosen.methods(data) for data in chosen.data}
    names = list(dict.fromkeys(m.name for found in methods.values() for m in found))
    check_names("data set", only_data, chosen.data, suite)
    check_names("method", only_method, names, suite)
    return [
        Run(method, data, seed, rows)
        for data in chosen.data
        if not only_data or data in only_data
        for seed in seeds
        for method in methods[data]
        if not only_method or method.name in only_method
    ]


def check_names(kind: str, asked: Sequence[str], known: Sequence[str], suite: str) -> None:
    """Refuse a name that the suite does not have."""
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(f"The suite {suite!r} has no {kind} {unknown[0]!r}. It has: {', '.join(known)}.")

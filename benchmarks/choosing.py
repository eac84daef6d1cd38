"""Benchmark of n_clusters="auto": how often it finds the number of clusters, and at what cost."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import DATA, UNEQUAL, MissingDataError, load_data, shuffled
from benchmarks.measure import machine, source_hash, versions
from benchmarks.records import Record, append_record, last_of, read_records
from benchmarks.states import earlier_note
from benchmarks.suites import SHUFFLED
from benchmarks.tables import Table
from benchmarks.unequal import CELLS, DRAWS, is_small
from coterie.datasets import MultiViewData, make_views
from coterie.peers.registry import warm_up

REAL = ("digits", "uci", "usps", "mnist", "bbcsport", "citeseer", "reuters_1200", "reuters_600", "scene15")
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "blobs": ("Blobs in three views", {}),
    "one_view": ("Blobs in one view", {"n_columns": 14}),
    "noisy": ("Blobs, and a view of noise", {"n_columns": (12, 12, 12), "n_noise": 1}),
    "gappy": ("Blobs, 20 % of (row, view) pairs missing", {"n_columns": (12, 12, 12), "missing": 0.2}),
    "rings": ("Rings in three views", {"shape": "rings", "separation": 8.0}),
}
COUNTS = {"blobs": range(2, 31), "one_view": range(2, 31, 4), "noisy": range(2, 31, 4), "gappy": range(2, 31, 4)}
RINGS = (2, 3, 4, 6)
ROWS = 1200


@dataclass(frozen=True)
class Question:
    """A data set whose number of clusters is to be found."""

    data: str
    load: Callable[[Any], MultiViewData]  # from the data folder


def questions(names: Sequence[str] = ()) -> list[Question]:
    """Return the data sets: synthetic ones with 2 to 30 separated clusters, real ones, and ones of unequal clusters.

    Examples
    --------
    >>> [question.data for question in questions(["rings"])]
    ['rings_2', 'rings_3', 'rings_4', 'rings_6']
    """
    made = [
        Question(f"{kind}_{k}", partial(synthetic, k, settings))
        for kind, (_, settings) in KINDS.items()
        for k in COUNTS.get(kind, RINGS)
    ]
    unequal = [name for name in UNEQUAL if is_small(name) or name in CELLS]
    found = [*made, *(Question(name, partial(load_data, name)) for name in (*REAL, *unequal))]
    return [question for question in found if not names or kind_of(question.data) in names]


def synthetic(k: int, settings: dict[str, Any], home: Any = None) -> MultiViewData:
    """Return well separated synthetic clusters; ``home`` is not used."""
    return make_views(ROWS, k, random_state=k, **{"separation": 7.0, **settings})


def kind_of(data: str) -> str:
    """Return the row of the table that a data set belongs to.

    Examples
    --------
    >>> kind_of("blobs_12"), kind_of("reuters_1200"), kind_of("zipf_uci_2"), kind_of("citeseq_5")
    ('blobs', 'reuters_1200', 'zipf_uci', 'citeseq_5')
    """
    kind, _, draw = data.rpartition("_")
    return kind if data not in DATA or (draw.isdigit() and f"{kind}_{DRAWS - 1}" in UNEQUAL) else data


def title_of(kind: str) -> str:
    """Return the title of a row of the table."""
    if kind in KINDS:
        return KINDS[kind][0]
    return DATA[kind if kind in DATA else f"{kind}_0"].title


def choose_all(
    results: str | os.PathLike[str], seeds: Iterable[int], *, names: Sequence[str] = (), data_home: Any = None
) -> int:
    """Measure every data set with every seed that is not in the results; return the number of measurements."""
    results = Path(results)
    known = {(record["data"], record["seed"]) for record in read_records(results)}
    asked = 0
    for question in questions(names):
        todo = [seed for seed in seeds if (question.data, seed) not in known]
        if not todo:
            continue
        try:
            data = question.load(data_home)
        except MissingDataError:
            continue
        for seed in todo:
            append_record(results, choose(question.data, data, seed))
            asked += 1
    return asked


def choose(name: str, data: MultiViewData, seed: int) -> Record:
    """Return the record of a fit with n_clusters="auto": the number it chose, and the time that the choice took."""
    from coterie import GuidedCoTraining

    warm_up("GuidedCoTraining")
    data = shuffled(data, seed)
    assert data.target is not None
    model = GuidedCoTraining("auto", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether the evidence is clear is in the record
        model.fit(data.views)
    found, timings = model.k_suggestion_, model.timings_
    return {
        "method": "Coterie",
        "data": name,
        "seed": seed,
        "k": len(np.unique(data.target)),
        "top": list(found.top(3)),
        "clear": found.is_clear,
        "strength": round(found.strength, 3),
        "seconds": round(timings["n_clusters"], 3),
        "fit_seconds": round(timings["total"] - timings["n_clusters"], 3),
        "settings": {"n_clusters": "auto", "order": SHUFFLED},
        "versions": versions(),
        "machine": machine(),
        "code": {"source": source_hash()},
    }


def choosing_table(records: Sequence[Record]) -> Table:
    """Return for every kind of data how often the number was found, and its cost in units of a fit."""
    rows, records = [], last_of(records, "data", "seed")
    for kind in dict.fromkeys(kind_of(record["data"]) for record in records):
        own = [record for record in records if kind_of(record["data"]) == kind]
        counts = sorted({record["k"] for record in own})
        first = sum(record["top"][0] == record["k"] for record in own)
        among = sum(record["k"] in record["top"] for record in own)
        cost = np.median([record["seconds"] / record["fit_seconds"] for record in own])
        clusters = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        rows.append((title_of(kind), clusters, str(len(own)), str(first), str(among), f"{cost:.1f}"))
    header = ("data", "clusters", "runs", "first suggestion right", "among the first three", "cost in fits")
    return Table("How often the number of clusters is found", header, tuple(rows), earlier_note(records))

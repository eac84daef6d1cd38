"""Benchmark of ``stability_``: does it predict how far fits with different seeds agree?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import DATA, MissingDataError, load_data, shuffled
from benchmarks.measure import machine, source_hash, versions
from benchmarks.records import Record, append_record, last_of, read_records
from benchmarks.states import earlier_note
from benchmarks.suites import SHUFFLED
from benchmarks.tables import Table
from coterie import metrics
from coterie.peers.registry import warm_up

SETS = (
    *("digits", "uci", "scene15", "bbcsport", "citeseer", "reuters_1200", "reuters_600", "100leaves", "missing"),
    *("noise", "usps", "nus_like", "mnist"),
)
ROWS = 10_000  # larger sets are sampled to this size


def compare_all(
    results: str | os.PathLike[str], n_seeds: int, *, names: Sequence[str] = (), data_home: Any = None
) -> int:
    """Compare fits on every data set that is not in the results yet; return the number of new sets."""
    results = Path(results)
    known = {record["data"] for record in read_records(results)}
    new = 0
    for name in names or SETS:
        if name in known:
            continue
        try:
            append_record(results, compare(name, n_seeds, data_home))
        except MissingDataError:
            continue
        new += 1
    return new


def compare(name: str, n_seeds: int, data_home: Any = None) -> Record:
    """Fit with several seeds; return the agreement of the labels, and the ``stability_`` of each fit."""
    from coterie import GuidedCoTraining

    warm_up("GuidedCoTraining")
    data = shuffled(load_data(name, data_home, ROWS), seed=0)
    assert data.target is not None
    k = len(np.unique(data.target))
    models = [GuidedCoTraining(k, random_state=seed).fit(data.views) for seed in range(n_seeds)]
    pairs = combinations([model.labels_ for model in models], 2)
    return {
        "method": "Coterie",
        "data": name,
        "seed": n_seeds,
        "n_rows": len(data.target),
        "agreement": float(np.mean([metrics.ari(*pair) for pair in pairs])),
        "stability": [round(model.stability_, 4) for model in models],
        "cost": round(float(np.median([cost(model.timings_) for model in models])), 4),
        "settings": {"rows": ROWS, "order": SHUFFLED},
        "versions": versions(),
        "machine": machine(),
        "code": {"source": source_hash()},
    }


def cost(timings: dict[str, float]) -> float:
    """Return the time of the stability stage as a share of the rest of the fit."""
    return timings["stability"] / (timings["total"] - timings["stability"])


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation, for numbers without ties.

    Examples
    --------
    >>> rank_correlation([1, 2, 3], [10, 30, 20])
    0.5
    """
    ranks = np.argsort(np.argsort([first, second], axis=1), axis=1)  # (2, m)
    gaps, m = ranks[0] - ranks[1], len(first)
    return round(1 - 6 * float(gaps @ gaps) / (m * (m**2 - 1)), 12)


def steadiness_table(records: Sequence[Record]) -> Table:
    """Return the agreement of fits beside their mean ``stability_``, sets with the highest agreement first."""
    ordered = sorted(last_of(records, "data"), key=lambda record: -record["agreement"])
    rows = [
        (
            DATA[record["data"]].title,
            f"{record['agreement']:.3f}",
            f"{np.mean(record['stability']):.3f} ± {np.std(record['stability'], ddof=1):.3f}",
            f"{100 * record['cost']:.0f} %",
        )
        for record in ordered
    ]
    told = [float(np.mean(record["stability"])) for record in ordered]
    order = rank_correlation([record["agreement"] for record in ordered], told)
    rows.append(("rank correlation", "", f"{order:.2f}", ""))
    header = ("data", "fits with different seeds", "`stability_`", "share of the fit's time")
    return Table("Adjusted Rand index between fits, and stability_", header, tuple(rows), earlier_note(ordered))

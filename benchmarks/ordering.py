"""Which run comes first: those that are expected to end soon."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor, log

from benchmarks.records import Record, failed
from benchmarks.suites import Run

GROWTH = {"linear": 1, "quadratic": 2, "cubic": 3}  # of time with rows, as a power
USUAL_ROWS, USUAL_SECONDS = 2000, 20.0  # of what nobody has measured yet
STEP = 4.0  # runs whose times differ by less than this factor keep to their sets, which are then read once

Urgency = Callable[[Run], tuple[int, int, int]]


def by_urgency(records: Iterable[Record]) -> Urgency:
    """Return what runs are sorted by: seeds first, then the time that earlier records let expect, then rows."""
    rows, times = known_sizes(records)

    def urgency(run: Run) -> tuple[int, int, int]:
        n_rows = rows.get(run.data, USUAL_ROWS)
        seconds = expected_seconds(n_rows, GROWTH[run.method.cost], times.get(run.method.name, []))
        return run.seed, floor(log(seconds, STEP)), n_rows

    return urgency


def known_sizes(records: Iterable[Record]) -> tuple[dict[str, int], dict[str, list[tuple[int, float]]]]:
    """Return the rows of every set, and the (rows, seconds) that every method was measured with."""
    rows: dict[str, int] = {}
    times: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        if not failed(record):
            rows[record["data"]] = record["n_rows"]
            taken = record["cpu_seconds"] if "cpu_seconds" in record else record["seconds"]
            times.setdefault(record["method"], []).append((record["n_rows"], float(taken)))
    return rows, times


def expected_seconds(n_rows: int, power: int, known: Iterable[tuple[int, float]]) -> float:
    """Return the time of the set that is nearest in size, grown with a power of the rows.

    Examples
    --------
    >>> expected_seconds(4000, 3, [(1000, 2.0), (2000, 10.0)])
    80.0
    """
    nearest, seconds = min(
        known, key=lambda one: abs(log(one[0] / n_rows)), default=(USUAL_ROWS, USUAL_SECONDS)
    )  # in ratios of rows
    return max(seconds, 0.01) * (n_rows / nearest) ** power

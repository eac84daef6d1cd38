"""The order of runs: those that are expected to finish soonest come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor, log

from benchmarks.records import Record, failed
from benchmarks.suites import Run

GROWTH = {"linear": 1, "quadratic": 2, "cubic": 3}  # exponent of time in the number of rows
USUAL_ROWS, USUAL_SECONDS = 2000, 20.0  # assumed where nothing has been measured yet
STEP = 4.0  # expected times are binned by powers of this; within a bin, runs on a set stay together, read once

Urgency = Callable[[Run], tuple[int, int, int]]


def by_urgency(records: Iterable[Record]) -> Urgency:
    """Return the sort key of runs: the seed, then the time expected from earlier records, then the number of rows."""
    rows, times = known_sizes(records)

    def urgency(run: Run) -> tuple[int, int, int]:
        n_rows = rows.get(run.data, USUAL_ROWS)
        seconds = expected_seconds(n_rows, GROWTH[run.method.cost], times.get(run.method.name, []))
        return run.seed, floor(log(seconds, STEP)), n_rows

    return urgency


def known_sizes(records: Iterable[Record]) -> tuple[dict[str, int], dict[str, list[tuple[int, float]]]]:
    """Return the number of rows of every set, and the measured (rows, seconds) of every method."""
    rows: dict[str, int] = {}
    times: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        if not failed(record):
            rows[record["data"]] = record["n_rows"]
            taken = record["cpu_seconds"] if "cpu_seconds" in record else record["seconds"]
            times.setdefault(record["method"], []).append((record["n_rows"], float(taken)))
    return rows, times


def expected_seconds(n_rows: int, power: int, known: Iterable[tuple[int, float]]) -> float:
    """Return the time of the known set nearest in size, scaled by a power of the ratio of rows.

    Examples
    --------
    >>> expected_seconds(4000, 3, [(1000, 2.0), (2000, 10.0)])
    80.0
    """
    nearest, seconds = min(
        known, key=lambda one: abs(log(one[0] / n_rows)), default=(USUAL_ROWS, USUAL_SECONDS)
    )  # nearest by ratio
    return max(seconds, 0.01) * (n_rows / nearest) ** power

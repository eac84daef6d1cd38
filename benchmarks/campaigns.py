"""What campaigns (``benchmarks/scripts``) share: numbered cases, results in batches, going on where one stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, source_hash
from benchmarks.records import append_record, read_lines
from coterie import __version__

RESULTS = Path(__file__).parent / "results"


def code() -> dict[str, str]:
    """Return what tells one version of the code from another."""
    return {"version": __version__, "source": source_hash()}


def batches_left(path: Path, first: int, cases: int, batch: int, **same: Any) -> Iterator[range]:
    """Yield runs of numbers that have no result of this code yet, none longer than a batch.

    Parameters
    ----------
    path : Path
        The results, each with its ``first`` number and the number of its ``cases``.
    first, cases : int
        Which numbers are wanted.
    batch : int
        The most numbers of a run.
    **same
        What a line must say to be one of this campaign's.
    """
    done: set[int] = set()
    for line in read_lines(path):
        if line.get("code") == code() and all(line.get(name) == value for name, value in same.items()):
            done.update(range(line["first"], line["first"] + line["cases"]))
    start = first
    for number in range(first, first + cases + 1):
        ends = number == first + cases or number in done
        if number - start == batch or (ends and number > start):
            yield range(start, number)
            start = number
        if ends:
            start = number + 1


def write_line(path: Path, line: dict[str, Any]) -> None:
    """Add a batch's result, with the code and the machine that it comes from."""
    append_record(path, {**line, "code": code(), "machine": machine()})

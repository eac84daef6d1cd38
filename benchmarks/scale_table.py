"""What 10^9 and 10^10 rows would take: a model of cost with measured rates in it, held against what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cluster_table import PARTITION_ROWS, PARTITION_TASKS, WORKER_TASKS
from benchmarks.tables import Table

# What the model takes for granted of a cluster that was not there to be measured.
NETWORK = 1e9  # bytes a second between a worker and the client: 10 Gb/s Ethernet, less what is lost
STORAGE = 1e9  # bytes a second that a worker reads
MEMORY = 128e9  # bytes of a worker, or of its GPU
CORES = 16  # of a worker

LEARNED_ROWS = 100_000  # that the rounds learn from, at the client
NEIGHBOURS, GRAPHS, CLUSTERS = 10, 4, 10  # of the fits that were measured
KEPT = NEIGHBOURS * GRAPHS * 6 + 4 * CLUSTERS + 28  # bytes that a worker keeps of a row (docs/scale)

FAR = ((10**9, 10), (10**9, 100), (10**10, 10), (10**10, 100))  # rows and workers


@dataclass(frozen=True)
class WorkerCosts:
    """Seconds of processors that a fit takes, told apart; from fits on a single worker."""

    client: float  # of the client whatever the rows are: preparation, landmarks, rounds, k-means
    task: float  # of the client and its scheduler for a task
    worker: float  # of a worker whatever the rows are
    row: float  # of a worker for a row
    waiting: float  # of a process for a second that it is there: messages that say so
    columns: int  # of the rows that were measured

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], task: float) -> WorkerCosts:
        """Return the costs, by least squares over fits on one worker; that of a task was measured by itself."""
        alone = [line for line in records if line["workers"] == 1]
        known, seconds = [], []
        for line in alone:
            known += [[1, 0, 0, line["seconds"]], [0, 1, line["rows"], line["seconds"]]]
            tasks = PARTITION_TASKS * line["partitions"] + WORKER_TASKS
            seconds += [line["client_processor_seconds"] - task * tasks, line["worker_processor_seconds"]]
        scale = np.max(known, axis=0)  # (4,) rows are many
        client, worker, row, waiting = np.linalg.lstsq(np.array(known) / scale, np.array(seconds))[0] / scale
        return cls(float(client), task, float(worker), float(row), float(waiting), sum(alone[0]["columns"]))

    def processors(self, rows: int, partitions: int, workers: int, seconds: float) -> float:
        """Return the seconds of all processors together, for a fit that takes so many by the clock."""
        tasks = PARTITION_TASKS * partitions + WORKER_TASKS * workers
        busy = self.client + self.task * tasks + self.worker * workers + self.row * rows
        return busy + self.waiting * (1 + workers) * seconds

    def parts(self, rows: int, workers: int, row: float) -> dict[str, float]:
        """Return the seconds of a fit by the clock, by what they are spent on; ``row`` is a worker's for a row."""
        sample = (LEARNED_ROWS * NEIGHBOURS * GRAPHS * 6 + 20_000 * 4 * self.columns) / NETWORK
        return {
            "client": self.client + sample,
            "scheduler": self.task * (PARTITION_TASKS * max(rows / PARTITION_ROWS, workers) + WORKER_TASKS * workers),
            "rows": self.worker + row * rows / workers,
            "storage": 4 * self.columns * rows / workers / STORAGE,
        }


def task_seconds(records: Iterable[Mapping[str, Any]]) -> float:
    """Return what a task costs the scheduler."""
    return float(np.median([line["seconds_a_task"] for line in records if line["part"] == "tasks"]))


def scaling_check_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return measured seconds of processors beside the model's, whose rates are those of one worker alone."""
    lines = [line for line in records if line["part"] == "scaling"]
    costs = WorkerCosts.of(lines, task_seconds(records))
    rows = []
    for line in sorted(lines, key=lambda line: (line["workers"], line["rows"])):
        measured = line["client_processor_seconds"] + line["worker_processor_seconds"]
        model = costs.processors(line["rows"], line["partitions"], line["workers"], line["seconds"])
        rows.append(
            (
                f"{line['rows']:,}",
                str(line["workers"]),
                f"{line['seconds']:.0f} s",
                f"{measured:.1f} s",
                f"{model:.1f} s",
                f"{100 * (model / measured - 1):+.0f}%",
            )
        )
    header = ("rows", "workers", "by the clock", "of processors", "model", "off by")
    return Table("Seconds of processors, measured and modelled", header, tuple(rows))


def scaling_table(records: Sequence[Mapping[str, Any]], cards: Iterable[Mapping[str, Any]]) -> Table:
    """Return what very many rows would take, on workers with cores and with a GPU each."""
    costs = WorkerCosts.of([line for line in records if line["part"] == "scaling"], task_seconds(records))
    kinds = {f"{CORES} cores": costs.row / CORES}
    fits = [line for line in cards if line["shape"] == "hundred" and line["method"] == "Coterie, default"]
    if fits:
        kinds["an H200"] = fits[-1]["seconds"] / fits[-1]["rows"] * costs.columns / sum(fits[-1]["columns"])
    rows = [say_far(costs, kind, row, *far) for far in FAR for kind, row in kinds.items()]
    header = ("rows", "workers", "time of a fit", "spent on", "a worker keeps", "what breaks first")
    return Table("Very many rows, modelled", header, tuple(rows))


def say_far(costs: WorkerCosts, kind: str, row: float, n_rows: int, workers: int) -> tuple[str, ...]:
    """Return what the model says of one size."""
    parts = costs.parts(n_rows, workers, row)
    # Rows are read while others are worked on: the slower of the two is waited for.
    slow = max(("rows", "storage"), key=parts.__getitem__)
    total = parts["client"] + parts["scheduler"] + parts[slow]
    spent = {"the client": parts["client"], "the scheduler": parts["scheduler"], WAITS[slow]: parts[slow]}
    kept = KEPT * n_rows / workers
    words = ", ".join(f"{name} {in_time(seconds)}" for name, seconds in spent.items())
    first = "memory" if kept > MEMORY else max(spent, key=spent.__getitem__)
    return f"{n_rows:,}", f"{workers} with {kind}", in_time(total), words, f"{kept / 1e9:.1f} GB", first


WAITS = {"rows": "the rows' work", "storage": "reading"}


def in_time(seconds: float) -> str:
    """Return seconds in words.

    Examples
    --------
    >>> in_time(42.4), in_time(900), in_time(14_000)
    ('42 s', '15 min', '3.9 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

"""Fits of 10^9 and 10^10 rows: a cost model with measured rates, and its check against measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tables import Table

# Assumptions of the model about large clusters, which were not measured.
NETWORK = 1e9  # bytes a second between a worker and the client: 10 Gb/s Ethernet, less overhead
STORAGE = 1e9  # bytes a second that a worker reads
MEMORY = 128e9  # bytes of a worker, or of its GPU
CORES = 16  # of a worker
PARTITION_ROWS = 2_500_000  # about 1 GB of 112 columns
PARTITION_TASKS = 6  # for every partition in a fit of two rounds of four graphs, and
WORKER_TASKS = 21  # for every thread of a worker

LEARNED_ROWS = 100_000  # rows at the client that the rounds learn from
NEIGHBOURS, GRAPHS, CLUSTERS = 10, 4, 10  # of the fits that were measured
KEPT = NEIGHBOURS * GRAPHS * 6 + 4 * CLUSTERS + 28  # bytes that a worker keeps per row (docs/scale)

FAR = ((10**9, 10), (10**9, 100), (10**10, 10), (10**10, 100))  # rows and workers


@dataclass(frozen=True)
class WorkerCosts:
    """The parts of a fit's processor time, in seconds, estimated from fits on a single worker."""

    client: float  # of the client, for any number of rows: preparation, landmarks, rounds, k-means
    task: float  # of the client and its scheduler, per task
    worker: float  # of a worker, for any number of rows
    row: float  # of a worker, per row
    waiting: float  # of a process, per second of its life: heartbeats
    columns: int  # of the rows that were measured

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], task: float) -> WorkerCosts:
        """Return the costs by least squares over fits on one worker, given the separately measured cost of a task."""
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
        """Return the processor seconds of all processes, for a fit that takes ``seconds`` of wall-clock time."""
        tasks = PARTITION_TASKS * partitions + WORKER_TASKS * workers
        busy = self.client + self.task * tasks + self.worker * workers + self.row * rows
        return busy + self.waiting * (1 + workers) * seconds

    def parts(self, rows: int, workers: int, row: float) -> dict[str, float]:
        """Return the wall-clock seconds of the parts of a fit; ``row`` is the seconds of a worker per row."""
        sample = (LEARNED_ROWS * NEIGHBOURS * GRAPHS * 6 + 20_000 * 4 * self.columns) / NETWORK
        return {
            "client": self.client + sample,
            "scheduler": self.task * (PARTITION_TASKS * max(rows / PARTITION_ROWS, workers) + WORKER_TASKS * workers),
            "rows": self.worker + row * rows / workers,
            "storage": 4 * self.columns * rows / workers / STORAGE,
        }


def task_seconds(records: Iterable[Mapping[str, Any]]) -> float:
    """Return the scheduler's seconds per task."""
    return float(np.median([line["seconds_a_task"] for line in records if line["part"] == "tasks"]))


def scaling_check_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return measured processor seconds beside those of the model, whose rates come from fits on one worker."""
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
    """Return modelled fits of very many rows, on workers with cores and on workers with a GPU each."""
    costs = WorkerCosts.of([line for line in records if line["part"] == "scaling"], task_seconds(records))
    kinds = {f"{CORES} cores": costs.row / CORES}
    fits = [line for line in cards if line["shape"] == "hundred" and line["method"] == "Coterie, default"]
    if fits:
        kinds["an H200"] = fits[-1]["seconds"] / fits[-1]["rows"] * costs.columns / sum(fits[-1]["columns"])
    rows = [say_far(costs, kind, row, *far) for far in FAR for kind, row in kinds.items()]
    header = ("rows", "workers", "time of a fit", "spent on", "a worker keeps", "what breaks first")
    return Table("Very many rows, modelled", header, tuple(rows))


def say_far(costs: WorkerCosts, kind: str, row: float, n_rows: int, workers: int) -> tuple[str, ...]:
    """Return the row of a modelled fit."""
    parts = costs.parts(n_rows, workers, row)
    # Reading overlaps with computing, so the slower of the two counts.
    slow = max(("rows", "storage"), key=parts.__getitem__)
    total = parts["client"] + parts["scheduler"] + parts[slow]
    spent = {"the client": parts["client"], "the scheduler": parts["scheduler"], WAITS[slow]: parts[slow]}
    kept = KEPT * n_rows / workers
    words = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items())
    first = "memory" if kept > MEMORY else max(spent, key=spent.__getitem__)
    return f"{n_rows:,}", f"{workers} with {kind}", format_seconds(total), words, f"{kept / 1e9:.1f} GB", first


WAITS = {"rows": "the rows' work", "storage": "reading"}


def format_seconds(seconds: float) -> str:
    """Return seconds in words.

    Examples
    --------
    >>> format_seconds(42.4), format_seconds(900), format_seconds(14_000)
    ('42 s', '15 min', '3.9 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

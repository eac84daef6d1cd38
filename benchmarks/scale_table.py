"""What 10^9 and 10^10 rows would take: a model of cost with measured rates in it, held against what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.tables import Table

# What the model takes for granted of a cluster that was not there to be measured.
NETWORK = 1e9  # bytes a second between a worker and the client: 10 Gb/s Ethernet, less what is lost
STORAGE = 1e9  # bytes a second that a worker reads
MEMORY = 64e9  # bytes of a worker
CORES = 16  # of a worker
PARTITION_ROWS = 2_500_000  # about 1 GB of 112 columns

LEARNED_ROWS = 100_000  # that the rounds learn from, at the client
NEIGHBOURS, GRAPHS, CLUSTERS = 10, 4, 10  # of the fits that were measured
KEPT = NEIGHBOURS * GRAPHS * 6 + 4 * CLUSTERS + 28  # bytes that a worker keeps of a row (docs/scale)

FAR = ((10**9, 10), (10**9, 100), (10**10, 10), (10**10, 100))  # rows and workers


@dataclass(frozen=True)
class WorkerCosts:
    """Seconds of processors that a fit takes, told apart; from fits on a single worker."""

    client: float  # of the client whatever the rows are: preparation, landmarks, rounds, k-means
    partition: float  # of the client and its scheduler for a partition
    worker: float  # of a worker whatever the rows are
    row: float  # of a worker for a row
    columns: int  # of the rows that were measured

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> WorkerCosts:
        """Return the costs: lines through fits of several sizes on one worker."""
        alone = [line for line in medians(records) if line["workers"] == 1]
        partitions, rows = ([line[name] for line in alone] for name in ("partitions", "rows"))
        client, partition = line_through(partitions, [line["client_processor_seconds"] for line in alone])
        worker, row = line_through(rows, [line["worker_processor_seconds"] for line in alone])
        return cls(client, partition, worker, row, sum(alone[0]["columns"]))

    def processors(self, rows: int, partitions: int, workers: int) -> float:
        """Return the seconds of all processors together."""
        return self.client + self.partition * partitions + self.worker * workers + self.row * rows

    def parts(self, rows: int, workers: int, row: float) -> dict[str, float]:
        """Return the seconds of a fit by the clock, by what they are spent on; ``row`` is a worker's for a row."""
        sample = (LEARNED_ROWS * NEIGHBOURS * GRAPHS * 6 + 20_000 * 4 * self.columns) / NETWORK
        return {
            "client": self.client + sample,
            "scheduler": self.partition * max(rows / PARTITION_ROWS, workers),
            "rows": self.worker + row * rows / workers,
            "storage": 4 * self.columns * rows / workers / STORAGE,
        }


def medians(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one line for every number of workers and of rows, with the medians of its repeats."""
    groups: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for line in records:
        groups.setdefault((line["workers"], line["rows"]), []).append(line)
    measured = ("client_processor_seconds", "worker_processor_seconds")
    return [
        {**lines[0], **{name: float(np.median([line[name] for line in lines])) for name in measured}}
        for _, lines in sorted(groups.items())
    ]


def line_through(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Return what is spent whatever the size is, and for one more of it; neither is below zero.

    Examples
    --------
    >>> line_through([1, 3], [5.0, 9.0])
    (3.0, 2.0)
    """
    slope, constant = np.polyfit(sizes, seconds, 1)
    return round(max(float(constant), 0.0), 12), round(max(float(slope), 0.0), 12)


def scaling_check_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return measured seconds of processors beside the model's, which has seen those of one worker alone."""
    records = medians(records)
    costs = WorkerCosts.of(records)
    rows = []
    for line in records:
        measured = line["client_processor_seconds"] + line["worker_processor_seconds"]
        model = costs.processors(line["rows"], line["partitions"], line["workers"])
        rows.append(
            (
                f"{line['rows']:,}",
                str(line["workers"]),
                f"{line['client_processor_seconds']:.1f} s",
                f"{line['worker_processor_seconds']:.1f} s",
                f"{model:.1f} s",
                f"{100 * (model / measured - 1):+.0f}%",
            )
        )
    header = ("rows", "workers", "client", "workers together", "model, all together", "off by")
    return Table("Seconds of processors, measured and modelled", header, tuple(rows))


def scaling_table(records: Iterable[Mapping[str, Any]], cards: Iterable[Mapping[str, Any]]) -> Table:
    """Return what very many rows would take, on workers with cores and with a GPU each."""
    costs = WorkerCosts.of(records)
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
    first = f"memory: {MEMORY / 1e9:.0f} GB do not do" if kept > MEMORY else max(spent, key=spent.__getitem__)
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

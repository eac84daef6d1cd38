"""Time and traffic on a cluster (``benchmarks/scripts/cluster.py``), measured and modelled, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from benchmarks.tables import Table

Result = TypeVar("Result")

# Assumptions of the model about large clusters, which were not measured.
NETWORK = 1e9  # bytes a second between two workers: 10 Gb/s Ethernet, less overhead
TOGETHER = 4  # totals that one worker adds up at once (coterie.rows.dask)
PARTITION_ROWS = 2_500_000  # about 1 GB of 112 columns
PARTITION_TASKS = 6  # for every partition in a fit of two rounds of four graphs, and
WORKER_TASKS = 21  # for every thread of a worker
FAR = ((10**8, 16), (10**9, 100), (10**10, 1000))  # rows and workers


@dataclass(frozen=True)
class Costs:
    """The cost model of a fit: seconds = fixed + rows * row / cores + tasks * task + the time to transfer sums."""

    fixed: float  # seconds of the client alone
    row: float  # seconds of one core for a row
    task: float  # seconds of the scheduler for a task
    sums: float  # bytes of one worker's exact sums in a round
    home: float  # bytes of a round that cross with any number of workers

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Costs:
        """Return the costs estimated from measurements: least-squares lines for seconds and bytes."""
        times = [line for line in records if line["part"] == "time"]
        spread = np.array([[1.0, line["rows"] / min(line["workers"], line["cores"])] for line in times])
        fixed, row = np.linalg.lstsq(spread, np.array([line["seconds"] for line in times]), rcond=None)[0]
        moved = [line for line in records if line["part"] == "bytes"]
        others = np.array([[1.0, line["workers"] - 1] for line in moved])
        home, sums = np.linalg.lstsq(
            others, np.array([line["round_bytes"] for line in moved], dtype=float), rcond=None
        )[0]
        task = float(np.median([line["seconds_a_task"] for line in records if line["part"] == "tasks"]))
        return cls(max(float(fixed), 0.0), float(row), task, float(sums), float(home))

    def round_bytes(self, workers: int) -> float:
        """Return the bytes that cross between processes in a round; they do not depend on the number of rows."""
        return self.home + self.sums * (workers - 1)

    def seconds(self, rows: int, workers: int) -> float:
        """Return the seconds of a fit of two rounds, on workers of one core each."""
        tasks = PARTITION_TASKS * max(rows // PARTITION_ROWS, workers) + WORKER_TASKS * workers
        levels = np.ceil(np.log(workers) / np.log(TOGETHER)) * (TOGETHER - 1)
        travel = 2 * (self.sums * levels + self.home) / NETWORK
        return self.fixed + self.row * rows / workers + tasks * self.task + travel


def cluster_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return time and bytes by rows and workers, first measured, then modelled."""
    records = list(records)
    rows = [*map(say_time, (line for line in records if line["part"] == "time"))]
    rows += [*map(say_bytes, (line for line in records if line["part"] == "bytes"))]
    if {line["part"] for line in records} >= {"time", "bytes", "tasks"}:
        costs = Costs.of(records)
        rows += [say_model(costs, n_rows, workers) for n_rows, workers in FAR]
    return Table("On a cluster", ("rows", "workers", "time of a fit", "bytes a round", ""), tuple(rows))


def say_time(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of a measured fit, beside one in memory."""
    memory = f"{line['ratio']:.2f} times the fit in memory ({line['memory_seconds']:.1f} s)"
    beside = f"measured on {line['cores']} cores: {memory}"
    return f"{line['rows']:,}", str(line["workers"]), f"{line['seconds']:.1f} s", "", beside


def say_bytes(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of the measured bytes that crossed between processes."""
    beside = f"measured, {line['partitions']} partitions of {megabytes(line['raw_bytes'])} in all"
    return f"{line['rows']:,}", str(line["workers"]), "", megabytes(line["round_bytes"]), beside


def say_model(costs: Costs, n_rows: int, workers: int) -> tuple[str, ...]:
    """Return the row of a modelled fit."""
    seconds, moved = costs.seconds(n_rows, workers), costs.round_bytes(workers)
    words = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
    return f"{n_rows:,}", f"{workers:,}", f"*{words}*", f"*{megabytes(moved)}*", "*modelled*"


def megabytes(count: float) -> str:
    """Return bytes in words.

    Examples
    --------
    >>> megabytes(132_000_000), megabytes(6.4e10)
    ('132 MB', '64 GB')
    """
    return f"{count / 1e6:,.0f} MB" if count < 1e10 else f"{count / 1e9:,.0f} GB"


# -- traffic between workers --------------------------------------------------------------------------------------


def received_in(client: Any, work: Callable[[], Result]) -> tuple[Counter[str], Result]:
    """Return the bytes that workers receive from each other during some work, by kind of task, and its result."""
    before, result, after = client.run(received), work(), client.run(received)
    return sum(after.values(), Counter()) - sum(before.values(), Counter()), result


def received(dask_worker: Any) -> Counter[str]:
    """Return the bytes that a worker has received from others so far, by kind of task."""
    from distributed.utils import key_split

    found: Counter[str] = Counter()
    for transfer in dask_worker.transfer_incoming_log:
        for key, size in transfer["keys"].items():
            found[key_split(key)] += size
    return found

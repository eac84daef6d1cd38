"""Time and traffic on a cluster (``benchmarks/scripts/cluster.py``), as a table, and bytes between workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from benchmarks.tables import Table

Result = TypeVar("Result")


def cluster_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the time of fits, then the bytes that they send, by settings, rows and workers."""
    records = list(records)
    rows = [*map(say_time, (line for line in records if line["part"] == "time"))]
    rows += [*map(say_bytes, (line for line in records if line["part"] == "bytes"))]
    header = ("settings", "rows", "workers", "time of a fit", "bytes of a fit", "of one more round", "beside it")
    return Table("On a cluster", header, tuple(rows))


def say_time(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of a measured fit, beside one in memory."""
    beside = f"{line['ratio']:.2f} times the fit in memory ({line['memory_seconds']:.1f} s) on {line['cores']} cores"
    return "default", f"{line['rows']:,}", str(line["workers"]), f"{line['seconds']:.1f} s", "", "", beside


def say_bytes(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of the bytes that all processes sent."""
    beside = f"{megabytes(line['raw_bytes'])} of rows in {line['partitions']} partitions"
    sent = megabytes(line["fit_bytes"]), megabytes(line["round_bytes"])
    return line["settings"], f"{line['rows']:,}", str(line["workers"]), "", *sent, beside


def megabytes(count: float) -> str:
    """Return bytes in words.

    Examples
    --------
    >>> megabytes(132_000_000), megabytes(459_547)
    ('132 MB', '0.5 MB')
    """
    return f"{count / 1e6:,.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"


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

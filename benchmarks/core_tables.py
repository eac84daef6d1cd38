"""Results -> tables of fits by number of threads, and of fits beside k-means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.records import last_of
from benchmarks.states import earlier_note
from benchmarks.tables import Table

TITLES = {
    "million": "1,000,000 x (256 + 128 + 64)",
    "images": "70,000 x (784 + 512 + 81)",
    "few": "2,000 rows, 6 views",
}
SETS = {"uci": "UCI", "100leaves": "100 leaves", "thousand": "blobs, 1,000 clusters"}


def threads_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the seconds of fits, and of the product of rows and landmarks, by the number of threads."""
    found = last_of(list(records), "data", "method", "threads")
    counts = sorted({record["threads"] for record in found})
    rows = []
    for data, method in dict.fromkeys((record["data"], record["method"]) for record in found):
        own = {record["threads"]: record for record in found if (record["data"], record["method"]) == (data, method)}
        cells = [seconds_and_product(own[n]) if n in own else "-" for n in counts]
        rows.append((TITLES[data], method, *cells))
    header = ("rows", "fit", *(f"{n} threads" if n > 1 else "1 thread" for n in counts))
    machine = found[0]["machine"]
    return Table(
        f"Seconds of a fit (of one product); {machine['cores']} cores", header, tuple(rows), earlier_note(found)
    )


def seconds_and_product(record: Mapping[str, Any]) -> str:
    """Return the seconds of a fit and, in brackets, of the product that was timed with it."""
    return f"{record['seconds']:.1f} ({record['product_seconds']:.1f})"


def kmeans_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return fits of few rows or many clusters beside alternating fits of k-means with ten restarts."""
    found = last_of(list(records), "data")
    rows = []
    for record in found:
        name = SETS.get(record["data"], record["data"])
        beside = bool(record.get("kmeans_seconds"))
        others = (f"{np.median(record['kmeans_seconds']):.1f}", f"{record['ratio']:.1f}") if beside else ("-", "-")
        quality = f"{np.mean(record['NMI']):.3f}" + (f" ({np.mean(record['kmeans_NMI']):.3f})" if beside else "")
        shape = (f"{record['n_rows']:,}", str(record["n_clusters"]), f"{np.median(record['seconds']):.1f}")
        rows.append((name, *shape, *others, quality, f"{record['peak_mb']:,.0f}"))
    header = (
        "data",
        "rows",
        "clusters",
        "seconds",
        "k-means, seconds",
        "ratio",
        "NMI (k-means)",
        "MB beyond the input",
    )
    return Table("Beside k-means with ten restarts", header, tuple(rows), earlier_note(found))

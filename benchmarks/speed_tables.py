"""Records of ``python -m benchmarks speed`` -> tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.records import Record
from benchmarks.states import earlier_note
from benchmarks.tables import Table
from coterie.peers.registry import COTERIE

# Memory that a fit may take beyond its input.
BYTES_PER_ROW = 300
EXTRA_MEGABYTES = 300

STAGES = ("preparation", "landmarks", "graphs", "n_clusters", "rounds", "assignment", "explanation")  # others follow


def speed_tables(records: Sequence[Record]) -> dict[str, Table]:
    """Return all tables for which there are records, by name."""
    makers = {
        "speed_mnist": ("mnist", mnist_table),
        "speed_stages": ("mnist", stages_table),
        "speed_rows": ("rows", rows_table),
        "speed_predict": ("predict", predict_table),
        "speed_million": ("million", million_table),
        "speed_summary": ("summary", methods_table),
        "speed_start": ("start", start_table),
        "speed_report": ("report", report_table),
    }
    by_part = latest(records)
    tables = {name: make(by_part[part]) for name, (part, make) in makers.items() if part in by_part}
    for name, (part, _) in makers.items():
        if name in tables:
            tables[name] = replace(tables[name], notes=earlier_note(own_lines(by_part[part])))
    return {**tables, **peer_tables(by_part.get("peers", []))}


def own_lines(records: Iterable[Record]) -> list[Record]:
    """Return the records of GuidedCoTraining; the published method and process starts hardly change with the code."""
    return [record for record in records if record["settings"].get("estimator") == COTERIE.estimator]


def latest(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the last record of every measurement, by part."""
    last: dict[tuple, Record] = {}
    for record in records:
        rows = record["settings"].get("rows")
        last[record["part"], record["data"], rows, record["method"], record.get("when")] = record
    by_part: dict[str, list[Record]] = {}
    for (part, *_), record in last.items():
        by_part.setdefault(part, []).append(record)
    return by_part


def mnist_table(records: Sequence[Record]) -> Table:
    """Return whole fits in seconds, in bare products, and beside k-means."""
    measured = [record for record in records if record.get("when") != "before"]
    kmeans = next((r["ratio"] for r in measured if r["settings"]["estimator"].endswith("KMeans")), None)
    rows = tuple(
        (
            record["method"],
            f"{record['seconds']:.2f}",
            f"{record['ratio']:.1f}",
            "" if kmeans is None else f"{kmeans / record['ratio']:.0f}",
            f"{record['ACC']:.3f}",
            f"{record['NMI']:.3f}",
        )
        for record in measured
    )
    header = ("method", "seconds", "bare products", "times as fast as k-means", "ACC", "NMI")
    return Table("A whole fit", header, rows)


def stages_table(records: Sequence[Record]) -> Table:
    """Return the time of the stages of a fit, in bare products; records marked "before" come first."""
    columns = [record for record in records if record.get("stages")]
    columns.sort(key=lambda record: record.get("when") != "before")
    found = {stage for record in columns for stage in record["stages"]}
    stages = sorted(found, key=stage_order)
    rows = tuple(
        (stage, *(f"{r['stages'][stage]:.2f}" if stage in r["stages"] else "" for r in columns)) for stage in stages
    )
    names = (f"{r['method']}, before" if r.get("when") == "before" else r["method"] for r in columns)
    return Table("Stages of a fit, in bare products", ("stage", *names), rows)


def stage_order(stage: str) -> tuple[bool, int, str]:
    """Return the sort key of a stage: stages in the order of a fit, each before its parts, the total last.

    Examples
    --------
    >>> sorted(["total", "rounds", "graphs: product", "graphs", "new"], key=stage_order)
    ['graphs', 'graphs: product', 'rounds', 'new', 'total']
    """
    whole, _, _ = stage.partition(":")
    return stage == "total", STAGES.index(whole) if whole in STAGES else len(STAGES), stage


def rows_table(records: Sequence[Record]) -> Table:
    """Return time and memory by the number of rows, with the growth exponent of time in the last line."""
    ordered = sorted(records, key=lambda record: record["n_rows"])
    first = ordered[0]
    rows = [
        (
            f"{record['n_rows']:,}",
            f"{record['seconds']:.2f}",
            f"{1e6 * record['seconds'] / record['n_rows']:.2f}",
            f"{record['ratio']:.2f}",
            f"{record['ratio'] / first['ratio'] - 1:+.0%}",
            f"{record['peak_mb']:.0f}",
            f"{EXTRA_MEGABYTES + BYTES_PER_ROW * record['n_rows'] / 1e6:.0f}",
        )
        for record in ordered
    ]
    if len(ordered) > 1:
        sizes = [record["n_rows"] for record in ordered]
        seconds = growth_exponent(sizes, [record["seconds"] for record in ordered])
        products = growth_exponent(sizes, [record["ratio"] * record["n_rows"] for record in ordered])
        rows.append(("growth: rows to the power of", f"{seconds:.3f}", "", f"{products:.3f}", "", "", ""))
    header = ("rows", "seconds", "µs a row", "bare products", "change", "peak MB", "allowed MB")
    return Table("More and more rows", header, tuple(rows))


def growth_exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of log values against log sizes: 1 is linear.

    Examples
    --------
    >>> round(growth_exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def predict_table(records: Sequence[Record]) -> Table:
    """Return rows per second of predict and of the bare product."""
    rows = tuple(
        (
            record["method"],
            f"{record['product']['landmarks']:,}",
            f"{record['n_rows'] / record['seconds']:,.0f}",
            f"{record['n_rows'] / record['product_seconds']:,.0f}",
            f"{1 / record['ratio']:.0%}",
        )
        for record in records
    )
    header = ("method", "landmarks", "rows a second", "bare product's rows a second", "share of its speed")
    return Table("Prediction", header, rows)


def peer_tables(records: Sequence[Record]) -> dict[str, Table]:
    """Return, for each data set, a table of the time in bare products and the accuracy of methods by number of rows."""
    tables = {}
    for data in dict.fromkeys(record["data"] for record in records):
        cells = {(r["method"], r["n_rows"]): peer_cell(r) for r in records if r["data"] == data}
        sizes = sorted({size for _, size in cells})
        rows = tuple(
            (method, *(cells.get((method, size), "") for size in sizes))
            for method in dict.fromkeys(method for method, _ in cells)
        )
        name = "synthetic" if data.startswith("synthetic") else "images"
        header = ("method", *(f"{size:,}" for size in sizes))
        notes = earlier_note(own_lines(record for record in records if record["data"] == data))
        tables[f"speed_peers_{name}"] = Table(f"{data}: bare products (ACC) by number of rows", header, rows, notes)
    return tables


def peer_cell(record: Mapping) -> str:
    """Return "bare products (ACC)"."""
    return f"{record['ratio']:.1f} ({record['ACC']:.3f})"


def million_table(records: Sequence[Record]) -> Table:
    """Return the share of a fit's time that is spent in products, and in graphs."""
    rows = []
    for record in records:
        stages = record["stages"]
        product, graphs = stages.get("graphs: product", 0.0), stages.get("graphs", 0.0)
        rows.append(
            (
                record["method"],
                f"{record['n_rows']:,}",
                f"{record['seconds']:.1f}",
                f"{record['ratio']:.2f}",
                f"{product / stages['total']:.0%}",
                f"{graphs / stages['total']:.0%}",
                f"{record['peak_mb']:.0f}",
                f"{record['ACC']:.3f}",
            )
        )
    header = ("method", "rows", "seconds", "bare products", "in products", "in graphs", "peak MB", "ACC")
    return Table("A million rows", header, tuple(rows))


def methods_table(records: Sequence[Record]) -> Table:
    """Return whole fits of a few methods on the same rows."""
    rows = tuple(
        (
            "MNIST" if record["data"] == "mnist" else record["data"],
            f"{record['n_rows']:,}",
            record["method"],
            f"{record['seconds']:.1f}",
            f"{record['ratio']:.1f}",
            f"{record['peak_mb']:.0f}",
            f"{record['ACC']:.3f}",
        )
        for record in records
        if "seconds" in record  # a fit that was ended has none
    )
    return Table("Five methods", ("data", "rows", "method", "seconds", "bare products", "peak MB", "ACC"), rows)


def start_table(records: Sequence[Record]) -> Table:
    """Return the duration of new processes."""
    rows = tuple((record["method"], f"{record['seconds']:.2f}") for record in records)
    return Table("A new process", ("from its start to the end of", "seconds"), rows)


def report_table(records: Sequence[Record]) -> Table:
    """Return the time and size of a report by the number of rows."""
    ordered = sorted(records, key=lambda record: record["n_rows"])
    rows = tuple((f"{r['n_rows']:,}", f"{r['seconds']:.2f}", f"{r['bytes'] / 1000:.0f}") for r in ordered)
    return Table("A report", ("rows", "seconds", "kB"), rows)

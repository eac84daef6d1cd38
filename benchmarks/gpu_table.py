"""Measurements on a GPU (``benchmarks/scripts/gpu.py`` and ``card.py``) -> tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.records import last_of
from benchmarks.states import earlier_note
from benchmarks.tables import Table


def gpu_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return one line per measurement: what was measured, its time or rate, and the bound beside it."""
    said = [(record, SAYINGS[record["part"]](record)) for record in records if record["part"] in SAYINGS]
    last = {row[0]: (record, row) for record, row in said}
    rows, notes = tuple(row for _, row in last.values()), earlier_note(record for record, _ in last.values())
    return Table("Measured on a GPU", ("what", "measured", "beside it"), rows, notes)


def say_fit(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a fit's time and its floor."""
    columns = " + ".join(map(str, record.get("columns", (512, 256, 128))))
    beside = f"ARI to the truth {record['ari_to_truth']:.3f}"
    if "floor_s" in record:
        beside = f"floor {1000 * record['floor_s']:.0f} ms; {beside}"
    if "peak_GB" in record:
        beside += f"; {record['peak_GB']:.0f} GB at most, {record['data_GB']:.0f} of them data"
    return f"fit, {record['rows']:,} x ({columns}), {record['settings']}", f"{record['seconds']:.2f} s", beside


def say_predict(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the rate at which new rows are assigned."""
    columns = " + ".join(map(str, record["columns"]))
    return f"predict, ({columns}) columns, {record['settings']}", f"{record['rows_per_s'] / 1e6:.0f} M rows/s", ""


def say_nearest(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the time of the fused product and selection, beside the product alone."""
    what = f"nearest, {record['rows']:,} x {record['columns']}, {record['landmarks']} landmarks"
    figures = [
        f"{precision}: {1000 * record[f'fused_{precision}_s']:.1f} ms" for precision in ("float32", "tf32")
    ]  # product and selection
    beside = [
        f"{precision}: product alone {1000 * record[f'product_{precision}_s']:.1f} ms, same neighbours "
        f"{record[f'same_neighbours_{precision}']:.4f}"
        for precision in ("float32", "tf32")
    ]
    return what, "; ".join(figures), "; ".join([*beside, f"topk alone {1000 * record['topk_alone_s']:.0f} ms"])


def say_agreement(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the agreement of a GPU's labels with a CPU's."""
    return (
        f"{record['data']}, {record['rows']:,} rows, {record['settings']}",
        f"{record['float32_s']:.2f} s",
        f"ARI to a CPU's labels: float32 {record['float32_ari_to_cpu']:.4f}, tf32 {record['tf32_ari_to_cpu']:.4f}; "
        f"ACC {record['float32_acc']:.3f} (CPU {record['cpu_acc']:.3f})",
    )


def say_streaming(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the rate at which rows are streamed from host memory while graphs are built."""
    columns = " + ".join(map(str, record["columns"]))
    what = f"rows from {record['memory']} host memory, {record['rows']:,} x ({columns}), {record['dtype']}"
    return what, f"{record['GB_s']:.0f} GB/s", f"{100 * record['share_of_bus']:.0f}% of the bus"


def say_ceilings(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the card's own rates."""
    return (
        f"{record['gpu']}: its own rates",
        f"copy {record['copy_TB_s']:.1f} TB/s, bus {record['bus_GB_s']:.0f} GB/s",
        f"product {record['product_float32_TF_s']:.0f} TF/s in float32, {record['product_tf32_TF_s']:.0f} in tf32",
    )


SAYINGS = {
    "million": say_fit,
    "hundred": say_fit,
    "predict": say_predict,
    "nearest": say_nearest,
    "agreement": say_agreement,
    "streaming": say_streaming,
    "ceilings": say_ceilings,
}


def card_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return fits by stage beside k-means on the same rows, measured by ``benchmarks/scripts/card.py``."""
    rows, lines = [], last_of(records, "rows", "columns", "k", "method")
    for line in lines:
        columns = " + ".join(map(str, line["columns"]))
        stages = sorted(line.get("stages", {}).items(), key=lambda stage: -stage[1])[:3]
        agreement = f"{line['ari_to_cpu']:.4f}" if "ari_to_cpu" in line else ""
        rows.append(
            (
                f"{line['rows']:,} x ({columns}), k = {line['k']}",
                line["method"] + (", 25 passes" if "means" in line["method"] else ""),
                f"{line['seconds']:.2f} s",
                ", ".join(f"{name} {seconds:.3f}" for name, seconds in stages),
                f"{line['first_fit_s']:.1f} s" if "first_fit_s" in line else "",
                agreement,
            )
        )
    header = ("rows", "method", "time", "longest stages (s)", "first fit of its kind", "ARI to a CPU's labels")
    notes = earlier_note(line for line in lines if line["method"].startswith("Coterie, default"))
    return Table("Fits on a GPU by stage", header, tuple(rows), notes)

"""Time and memory of fits from files (``benchmarks/scripts/out_of_core.py``) -> a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.states import earlier_note
from benchmarks.tables import Table


def out_of_core_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return the last measurement of each kind, a line for every fit."""
    last = {record["measured"]: record for record in records}
    rows: list[tuple[str, ...]] = []
    if "limit" in last:
        found = last["limit"]
        rows.append(fit_row("in memory", found["in_memory"], ""))
        rows.append(fit_row('files, limit "1GB"', found["part_in_files"], f"ARI {found['ari_of_part']:.4f} to it"))
        rate = f"{found['rate_ratio']:.2f} times its rows a second, ARI {found['ari_of_all_on_part']:.4f} on its rows"
        rows.append(fit_row(f'files, limit "{found["limit"]}"', found["all_in_files"], rate))
    if "kills" in last:
        found = last["kills"]
        same = sum(line["same"] for line in found["kills"])
        what = f"{found['rows']:,} rows, killed at {len(found['kills'])} random moments"
        rows.append((what, "", "", f"{same} of {len(found['kills'])} times identical labels"))
    return Table(
        "Fits from files",
        ("fit", "rows a second", "resident memory at most", "beside the first"),
        tuple(rows),
        earlier_note(last.values()),
    )


def fit_row(how: str, fit: Mapping[str, Any], beside: str) -> tuple[str, ...]:
    """Return the line of one fit."""
    return f"{fit['rows']:,} rows, {how}", f"{fit['rows_a_second']:,.0f}", f"{fit['peak_megabytes']:,.0f} MB", beside

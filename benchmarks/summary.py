"""Summaries: the table of five methods in README, and the sets on which Coterie loses in the guide to trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import filterfalse

import numpy as np

from benchmarks.data import DATA
from benchmarks.records import Record, failed, last_of, record_key
from benchmarks.speed import FULL, SUMMARY, Sizes, summary_part
from benchmarks.suites import FILE_ORDER
from benchmarks.tables import SYNTHETIC, Cell, Table, summarise, unequal_lines, with_single_views
from coterie.peers.registry import COTERIE

BENCHMARKS = "docs/background/benchmarks.md"  # from README
LOST_BY = 0.03  # of ARI; smaller differences are within the variation between seeds


def summary_table(leaderboard: Sequence[Record], speed: Sequence[Record], sizes: Sizes = FULL) -> Table:
    """Return five methods' mean NMI over real sets, the number of sets on which each is best, and their seconds.

    Sets on which one of them was not measured are left out. Seconds measured with other than the current settings are
    replaced by a dash.
    """
    kept = [r for r in leaderboard if r["method"] in SUMMARY and r["data"] not in SYNTHETIC]
    real = shared_means(summarise(kept, "NMI"))
    seconds = summary_seconds(speed, sizes)
    rows = []
    for method, title in SUMMARY.items():
        mean = float(np.mean([line[method] for line in real]))
        wins = sum(max(line, key=line.__getitem__) == method for line in real)
        rows.append((title, f"{mean:.3f}", f"{wins} of {len(real)}", *seconds[method]))
    header = (
        "method",
        f"[mean NMI, {len(real)} real sets]({BENCHMARKS}#leaderboard)",
        f"[best of these five]({BENCHMARKS}#leaderboard)",
        f"[seconds, MNIST]({BENCHMARKS}#five-methods)",
        f"[seconds, a million rows]({BENCHMARKS}#five-methods)",
    )
    dashes = ("A dash: not measured with these settings.",) if any("-" in row for row in rows) else ()
    return Table("a few methods", header, tuple(rows), (*order_note(kept), *dashes))


def order_note(records: Sequence[Record]) -> tuple[str, ...]:
    """Return no note, or one with the methods that were measured on rows in file order."""
    orders: dict[str, set[str]] = {}
    for record in last_of(filterfalse(failed, records), "method", "data", "seed"):
        orders.setdefault(record["method"], set()).add(record["settings"].get("order", FILE_ORDER))
    stored = [title for method, title in SUMMARY.items() if FILE_ORDER in orders.get(method, ())]
    return (f"Rows were shuffled, except for {'; '.join(stored)}: there they are in file order.",) if stored else ()


def summary_seconds(speed: Sequence[Record], sizes: Sizes) -> dict[str, list[str]]:
    """Return each method's seconds on the images and on the million rows; a dash if the current settings have none."""
    measured = {record_key(record): record for record in speed}
    found: dict[str, list[str]] = {method: [] for method in SUMMARY}
    for run in (run for group in summary_part(sizes) for run in group):
        record = measured.get(run.key())
        seconds = None if record is None else record.get("seconds")  # a fit that was ended has none
        found[run.method.name].append("-" if seconds is None else f"{seconds:.1f}")
    return found


def shared_means(cells: Mapping[tuple[str, str], Cell]) -> list[dict[str, float]]:
    """Return the means of all methods on each data set that all of them ran on."""
    found = []
    for data in dict.fromkeys(data for _, data in cells):
        line = {method: cells[method, data].mean for method in SUMMARY if (method, data) in cells}
        if len(line) == len(SUMMARY):
            found.append(line)
    return found


def lost_sentence(leaderboard: Sequence[Record]) -> str:
    """Return the sets of the leaderboard on which another method's NMI is higher."""
    parts = []
    cells = with_single_views(summarise(leaderboard, "NMI"))
    for data in dict.fromkeys(data for method, data in cells if method == COTERIE.name):
        found = {method: cell.mean for (method, name), cell in cells.items() if name == data}
        best = max(found, key=found.__getitem__)
        if round(found[best], 3) > round(found[COTERIE.name], 3):
            parts.append(f"{DATA[data].title} ({best} {found[best]:.3f}, Coterie {found[COTERIE.name]:.3f})")
    if not parts:
        return "No method has a higher NMI than Coterie on any set of the leaderboard."
    return f"Sets of the leaderboard on which another method has the higher NMI: {'; '.join(parts)}."


def lost_table(unequal: Sequence[Record]) -> Table | str:
    """Return the kinds of data on which another method's ARI is higher by more than LOST_BY; a sentence if none."""
    rows = []
    for title, line in unequal_lines(summarise(unequal, "ARI"))[1].items():
        own = line.pop(COTERIE.name, None)
        others = {method: cell.mean for method, cell in line.items() if cell is not None}
        if own is None or not others:
            continue
        best = max(others, key=others.__getitem__)
        if others[best] > own.mean + LOST_BY:
            rows.append((title, f"{own.mean:.3f}", f"{others[best]:.3f}", best))
    if not rows:
        return "None of those that were measured."
    return Table("where another method is better", ("data", "Coterie", "best other", "which is"), tuple(rows))

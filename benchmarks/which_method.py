"""Rewrite the tables of docs/background/which_method.md from what was measured.

python benchmarks/which_method.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "background" / "which_method.md"
RESULTS = ROOT / "benchmarks" / "results" / "peers.jsonl"
SUITES = tuple(ROOT / "benchmarks" / "results" / f"{suite}.jsonl" for suite in ("leaderboard", "paper"))
SINGLE_START = "one start of k-means from random rows a seed"
RECUT = "embedding made once, k-means seeded"
USUAL = ("", RECUT, "busy machine")  # notes of figures with defaults on shuffled rows

AT_THE_MEAN = "at the mean"


@dataclass(frozen=True)
class Facts:
    """What is known of a method without measuring it."""

    cost: str  # in n
    good_at: str
    missing: str = AT_THE_MEAN


LINEAR, CUBIC = "n", "n³, memory n²"
FACTS = {
    "GuidedCoTraining": Facts(LINEAR, "several views, any number of rows, new rows", "yes"),
    # Several views.
    "MVSCB": Facts(LINEAR, "several views of one quality, fast"),
    "MultiNMF": Facts(LINEAR, "counts and other non-negative tables; factors that can be read"),
    "AIMC": Facts(LINEAR, "round clusters, nothing to set; new rows"),
    "FastMICE": Facts(LINEAR, "many views, nothing to set"),
    "LMVSC": Facts(LINEAR, "clusters that are subspaces, in many rows"),
    "SMVSC": Facts(LINEAR, "clusters that are subspaces, in many rows"),
    "FPMVSCAG": Facts(LINEAR, "as SMVSC, with nothing to set"),
    "SFMC": Facts(LINEAR, "labels without k-means"),
    "CoTraining": Facts(CUBIC, "two or more good views that err independently"),
    "CoRegularised": Facts(CUBIC, "views that should agree, with an objective to watch"),
    "MSCMO": Facts(CUBIC, "no view may be left behind"),
    "AASC": Facts(CUBIC, "weights of views; views that may be useless"),
    "MultipleKernelLaplacian": Facts(CUBIC, "a plain sum of graphs; weights hardly differ"),
    "RMSC": Facts(CUBIC, "graphs with wrong edges: errors are sparse and explicit"),
    "MMSC": Facts(CUBIC, "soft memberships without negative entries"),
    "LTMSC": Facts(CUBIC, "clusters that are subspaces, rows that are outliers"),
    "DiMSC": Facts(CUBIC, "views that complement each other"),
    "ExactGuidedCoTraining": Facts(CUBIC, "what GuidedCoTraining scales up, as a reference"),
    # One view, or all side by side.
    "ConcatKMeans": Facts(LINEAR, "round clusters; the first thing to try"),
    "ConcatLSC": Facts(LINEAR, "one table, clusters of any shape"),
    "LSC": Facts(LINEAR, "one table, clusters of any shape"),
    "USPEC": Facts(LINEAR, "one table, clusters of any shape"),
    "USENC": Facts(LINEAR, "as USPEC, steadier and slower"),
    "Nystroem": Facts(LINEAR, "one table; new rows"),
    "KASP": Facts(LINEAR, "one table; new rows"),
    "Sequential": Facts(LINEAR, "one table that does not fit in memory; new rows"),
    "PIC": Facts(LINEAR, "one table with few clusters; tiny memory"),
    "ShinnouSasaki": Facts("n, cubic in what remains", "dense clusters with rows between them"),
    "CommuteTime": Facts("n log n beside the neighbours' n²", "one table, clusters of any shape"),
    "SparseAutoencoder": Facts("n²", "a comparison with networks"),
    "SC": Facts(CUBIC, "one small table, as a reference"),
}

# Classes with a line for each kind or scaling.
SEVERAL_KINDS = ("CoRegularised", "ConcatKMeans")

# What Lee and Liu (ICIP 2016) report for UCI's digits: ACC, NMI.
REPORTED = {
    "CoTraining": (0.779, 0.745),
    "CoRegularised, pairwise": (0.769, 0.728),
    "CoRegularised, centroid": (0.770, 0.713),
    "AASC": (0.683, 0.649),
    "MSCMO": (0.800, 0.755),
}


def main() -> None:
    """Rewrite the page."""
    records = read(RESULTS)
    measured = [record for path in SUITES for record in read(path)]
    tables = {"which_method": overview(records, measured), "as_reported": reported(records)}
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def overview(records: Sequence[Mapping[str, Any]], suites: Sequence[Mapping[str, Any]]) -> str:
    """Return one line a method that this version has: what it costs and can, and what was measured."""
    from coterie import GuidedCoTraining, peers

    lines = ["| method | time in n | `predict` | missing views | good at | ACC | NMI | s |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, facts in FACTS.items():
        cls = GuidedCoTraining if name == "GuidedCoTraining" else getattr(peers, name)
        known = "yes" if hasattr(cls, "predict") else "no"
        own, more = own_runs(name, records), suite_runs(name, suites)
        runs = {label: max(own.get(label, []), more.get(label, []), key=len) for label in {**own, **more}}
        figures = {label: means(found) for label, found in runs.items()}
        for label, measured in (figures or {name: ("", "", "")}).items():
            cells = [f"`{label}`" if label == name else f"`{name}`, {label}", facts.cost, known, facts.missing]
            lines.append("| " + " | ".join([*cells, facts.good_at, *measured]) + " |")
    return "\n".join(lines)


def own_runs(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the runs of a method, or of each of its kinds, as they are written "Class, kind"."""
    kept = [r for r in records if r["data"] == "uci" and r["note"] in USUAL and not r.get("params")]
    found = {}
    for method in dict.fromkeys(r["method"] for r in kept):
        owner, _, kind = method.partition(", ")
        if owner == name:
            found[kind or name] = [r for r in kept if r["method"] == method]
    return found


def suite_runs(name: str, suites: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the same from the suites of the benchmarks: all views, all rows, in shuffled order."""
    kept: dict[str, list[Mapping[str, Any]]] = {}
    for record in suites:
        settings = record["settings"]
        whole = settings.get("rows") is None and settings.get("view") is None and "failed" not in record
        if record["data"] == "uci" and whole and settings["estimator"] == name and settings.get("order") == "shuffled":
            label = settings.get("kind") or settings.get("scaling", name) if name in SEVERAL_KINDS else name
            kept.setdefault(label, []).append({"acc": record["ACC"], "nmi": record["NMI"], **record})
    return kept


def means(records: Sequence[Mapping[str, Any]]) -> tuple[str, str, str]:
    """Return the means over seeds as text; seconds of the processor where they were taken."""
    seconds = fmean(r.get("cpu_seconds", r["seconds"]) for r in records)
    return f"{fmean(r['acc'] for r in records):.3f}", f"{fmean(r['nmi'] for r in records):.3f}", f"{seconds:.1f}"


def reported(records: Sequence[Mapping[str, Any]]) -> str:
    """Return what was published beside the mean over single starts and over the best of ten."""
    lines = ["| method | reported ACC/NMI | one start, mean of 20 | best of ten starts |", "| --- | --- | --- | --- |"]
    for method, (acc, nmi) in REPORTED.items():
        own = [r for r in records if r["method"] == method]
        single = [r for r in own if r["note"] == SINGLE_START]
        best = [r for r in own if r["note"] in ("", RECUT)]
        pairs = ("/".join(means(kept)[:2]) if kept else "" for kept in (single, best))
        lines.append(f"| {method} | {acc:.3f}/{nmi:.3f} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def fill(text: str, tables: Mapping[str, str]) -> str:
    """Return the text with the tables between their markers."""
    for name, table in tables.items():
        pattern = rf"(<!-- table:{name} -->\n).*?(<!-- /table:{name} -->)"
        filled = table.replace("\\", r"\\")
        text = re.sub(pattern, rf"\g<1>{filled}\n\g<2>", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    main()

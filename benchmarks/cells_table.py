"""Cells as RNA and protein (``benchmarks/scripts/cells.py``) -> a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.records import last_of
from benchmarks.states import earlier_note
from benchmarks.tables import Table

KNOWN = ("types", "finer types")


def cells_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a line per method, with means over seeds."""
    methods: dict[str, list[Mapping[str, Any]]] = {}
    for record in last_of(records, "method", "seed"):
        methods.setdefault(record["method"], []).append(record)
    header = ("method", "clusters", *(f"ARI, {name}" for name in KNOWN), *(f"NMI, {name}" for name in KNOWN))
    rows = []
    for name, own in methods.items():
        clusters = "/".join(str(number) for number in sorted({record["clusters"] for record in own}))
        scores = [np.mean([record[known][what] for record in own]) for what in ("ari", "nmi") for known in KNOWN]
        cpu = np.mean([record["cpu"] for record in own])
        rows.append((name, clusters, *(f"{score:.3f}" for score in scores), f"{cpu:.0f}"))
    notes = earlier_note(record for name, own in methods.items() if name.startswith("Coterie") for record in own)
    return Table("Cells as RNA and protein", (*header, "core seconds"), tuple(rows), notes)

"""Results of ``scripts/mixed_tables.py`` -> the table of the page on preparation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.tables import Table

FAMILIES = {"numbers": "measured columns show the clusters", "answers": "yes/no columns show them"}


def mixed_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Return the mean ARI on tables with columns of two values, by the largest gap between the two values.

    Examples
    --------
    >>> lines = [{"family": "numbers", "code": "a", "ari": {"inf": 0.5, "1.0": 0.75, "k-means": 0.625}}]
    >>> mixed_table(lines).rows
    (('measured columns show the clusters', '1', '.500', '.750', '.625'),)
    """
    own = [line for line in lines if line["code"] == lines[-1]["code"]]
    names = list(own[0]["ari"])
    rows = []
    for family, title in FAMILIES.items():
        group = [line["ari"] for line in own if line["family"] == family]
        if group:
            means = [f"{np.mean([found[name] for found in group]):.3f}".removeprefix("0") for name in names]
            rows.append((title, str(len(group)), *means))
    titles = {"inf": "no limit", "1.0": "**1.0**"}
    return Table("Mixed tables", ("in", "tables", *(titles.get(name, name) for name in names)), tuple(rows))

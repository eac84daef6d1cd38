"""Results of ``scripts/replication.py`` -> the tables of the page on the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.tables import Table

Line = Mapping[str, Any]

NAMES = {
    "diffusion": 'always "diffusion"',
    "commute": 'always "commute"',
    "islands": 'always "islands"',
    "by agreement": "by agreement of the views alone",
    "default": "**by agreement, unless only others replicate**",
    "published": "as published",
    "k-means": "k-means, columns of one scale",
}


def touching_table(lines: Sequence[Line]) -> Table:
    """Return the mean ARI on clusters that touch, by basis, rule for choosing it, or other method."""
    own = last_code([line for line in lines if line["kind"] == "touching"])
    groups = {
        "one view": [line for line in own if line["n_views"] == 1],
        "several views": [line for line in own if line["n_views"] > 1],
    }
    rows = tuple(
        (title, *(f"{np.mean([line['ari'][name] for line in group]):.3f}" for group in groups.values()))
        for name, title in NAMES.items()
    )
    header = ("chosen", *(f"{name} ({shapes(group)} shapes)" for name, group in groups.items()))
    return Table("Clusters that touch", header, rows, (f"Mean ARI over {draws(own)} draws of every shape.",))


def without_table(lines: Sequence[Line]) -> Table:
    """Return the stability of fits to data without clusters, by the number of clusters asked for."""
    own = last_code([line for line in lines if line["kind"] == "without"])
    rows = []
    for title, few in (("2", (2,)), ("3 or 4", (3, 4)), ("5 to 20", tuple(range(5, 21)))):
        group = [line for line in own if line["n_clusters"] in few]
        figures = [line["stability"] for line in group]
        warned = sum(line["warned"] for line in group)
        rows.append((title, str(len(group)), f"{np.median(figures):.2f}", f"{max(figures):.2f}", str(warned)))
    header = ("clusters asked for", "fits", "`stability_`, median", "largest", "warned")
    return Table("Data without clusters", header, tuple(rows))


def last_code(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the code version that was measured last."""
    return [line for line in lines if line["code"] == lines[-1]["code"]]


def shapes(lines: Sequence[Line]) -> int:
    """Return the number of shapes."""
    return len({line["shape"] for line in lines})


def draws(lines: Sequence[Line]) -> int:
    """Return the number of draws of every shape."""
    return len({line["seed"] for line in lines})

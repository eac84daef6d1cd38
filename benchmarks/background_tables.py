"""Results -> tables of the background pages: the reasons for the defaults, and the cost of checks and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.records import last_of
from benchmarks.tables import Table

Lines = Sequence[Mapping[str, Any]]
BASES = ("diffusion", "commute")  # the candidates that the rules choose between
LEAD = 0.005  # "commute" is chosen if its figure is larger by more than this


def trial_tables(lines: Lines) -> dict[str, Table]:
    """Return the tables of trials, as recorded when rules and thresholds were chosen."""
    return {
        line["table"]: Table(line["about"], tuple(line["header"]), tuple(map(tuple, line["rows"]))) for line in lines
    }


def candidates_table(lines: Lines) -> Table:
    """Return the mean ARI of rules for choosing a basis, over sets with clusters of unequal and nearly equal sizes."""
    rules: dict[str, Callable[[Mapping[str, Any]], float]] = {
        'always "diffusion"': always("diffusion"),
        'always "commute"': always("commute"),
        'always "subspace", ten rounds': always("subspace"),
        "always k-means on the prepared columns": always("k-means, prepared columns"),
        "stability between halves of the landmarks": best_by("stability"),
        "fits on halves of the rows agree": best_by("row_halves_agreement"),
        "each view alone labels rows as all do (`view_labels`)": best_by("view_label_agreement"),
        "**neighbours predict the clusters of the first round**": best_by("first_round_agreement"),
        f'the same, where "commute" leads by {LEAD}': best_by("first_round_agreement", LEAD),
        "the same after the last round": best_by("final_agreement"),
        "the better of the two, by labels": best_by("ari"),
    }
    rows = tuple(
        (name, *(f"{mean_over_sets(lines, rule, kind):.3f}" for kind in (True, False))) for name, rule in rules.items()
    )
    return Table("mean ARI", ("chosen by", "unequal", "equal"), rows)


def always(basis: str) -> Callable[[Mapping[str, Any]], float]:
    """Return the rule that always takes one basis."""
    return lambda line: line["ari"][basis]


def best_by(figure: str, lead: float = 0.0) -> Callable[[Mapping[str, Any]], float]:
    """Return the rule that takes the basis with the higher figure; the second must exceed the first by ``lead``."""

    def rule(line: Mapping[str, Any]) -> float:
        first, second = (line[figure][basis] for basis in BASES)
        return line["ari"][BASES[second > first + lead]]

    return rule


def mean_over_sets(lines: Lines, rule: Callable[[Mapping[str, Any]], float], unequal: bool) -> float:
    """Return the mean over sets of the mean over seeds.

    Examples
    --------
    >>> line = {"data": "a", "unequal": True, "ari": {"diffusion": 0.5}}
    >>> more = [{**line, "ari": {"diffusion": 0.7}}, {**line, "data": "b", "ari": {"diffusion": 0.8}}]
    >>> round(mean_over_sets([line, *more], always("diffusion"), True), 2)
    0.7
    """
    sets: dict[str, list[float]] = {}
    for line in lines:
        if line["unequal"] is unequal:
            sets.setdefault(line["data"], []).append(rule(line))
    return float(np.mean([np.mean(values) for values in sets.values()]))


def checks_table(lines: Lines) -> Table:
    """Return the cost of checks for non-finite numbers, as shares of a fit's processor time."""
    rows = tuple(
        (f"{line['rows']:,}", line["fit"], f"{line['share']['stages']:.2%}", f"{line['share']['input']:.2%}")
        for line in lines
    )
    return Table("checks of numbers", ("rows", "settings", "checks between stages", "checks of the input"), rows)


def opened_table(lines: Lines) -> Table:
    """Return the cost of a report from frames, from files and in a browser, by the last record of each size."""
    rows = []
    for line in last_of(lines, "rows"):
        frames, files = (line["seconds"][way] for way in ("frames", "files"))
        cells = (f"{line['rows']:,}", f"{frames:.1f}", f"{files:.1f}", f"{files / frames:.1f}")
        seen = [line.get(kind) for kind in ("screen", "phone")]
        paints, rates = (
            " / ".join("-" if found is None else f"{found[name]:.0f}" for found in seen)
            for name in ("first_paint_ms", "frames_a_second")
        )
        rows.append((*cells, paints, rates))
    header = ("rows", "seconds from frames", "from files", "times", "first paint, ms", "frames a second")
    return Table("A report from files, and in a browser", header, tuple(rows))

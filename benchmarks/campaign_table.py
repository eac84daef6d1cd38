"""What came of damaged files, odd fits and killed jobs (``benchmarks/scripts``) -> a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.tables import Table

Lines = Sequence[Mapping[str, Any]]
JOBS = {"kills": "fits on disk, killed at a random moment", "checkpoints": "unfinished jobs with damaged files"}


def campaign_table(files: Lines, fits: Lines, jobs: Lines) -> Table:
    """Return a line for every campaign, each as it was run on the last code that it was run on."""
    rows = []
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for line in files:
        by_kind.setdefault(line["target"], []).append(line)
    last = {kind: of_last_code(lines) for kind, lines in by_kind.items()}
    models = last.pop("model", ())
    if last:
        rows.append(row(f"damaged files of {len(last)} kinds", [line for lines in last.values() for line in lines]))
    if models:
        rows.append(row("damaged models", models))
    if fits:
        rows.append(row("odd fits", of_last_code(fits)))
    for target, words in JOBS.items():
        own = [line for line in jobs if line["target"] == target]
        if own:
            rows.append(row(words, of_last_code(own)))
    header = ("campaign", "cases", "outcomes", "crashes, hangs and other errors")
    return Table("Campaigns", header, tuple(rows))


def of_last_code(lines: Lines) -> Lines:
    """Return the lines that were measured with the same code as the last one."""
    return [line for line in lines if line["code"] == lines[-1]["code"]]


def row(words: str, lines: Lines) -> tuple[str, ...]:
    """Return one campaign, added up over its lines.

    Examples
    --------
    >>> row("odd fits", [{"cases": 3, "outcomes": {"fitted": 2, "refused in fit": 1}, "failures": []}])
    ('odd fits', '3', '2 fitted; 1 refused', '0')
    """
    outcomes: Counter[str] = Counter()
    for line in lines:
        for name, count in line["outcomes"].items():
            outcomes["refused" if name.startswith("refused") else name] += count
    bad = sum(len(line.get("findings", line.get("failures", ()))) for line in lines)
    counts = "; ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
    return words, f"{sum(line['cases'] for line in lines):,}", counts, f"{bad:,}"

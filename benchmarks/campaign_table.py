"""Results of campaigns (``benchmarks/scripts``) -> tables: damage, odd fits, long runs, many callers, old code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.tables import Table

Lines = Sequence[Mapping[str, Any]]
JOBS = {"kills": "fits on disk, killed at a random moment", "checkpoints": "unfinished jobs with damaged files"}


def campaign_table(files: Lines, fits: Lines, jobs: Lines) -> Table:
    """Return a line for every campaign, from the results of the last version of the code that it ran on."""
    rows = []
    last = {kind: of_last_code(lines) for kind, lines in grouped(files, "target").items()}
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


def long_run_table(lines: Lines) -> Table:
    """Return the last long run: its length, the growth of memory, and the resources that leaked."""
    last = lines[-1]
    growth, left = last["growth_mb_an_hour"], last.get("left", {})
    header = ("minutes", "fits", "resident memory, MB an hour", "memory in use, MB an hour", "left behind")
    more = "; ".join(f"{count} {name.replace('_', ' ')}" for name, count in left.items() if count) or "nothing"
    row = (
        f"{last['minutes']:.0f}",
        f"{last['fits']:,}",
        f"{growth['resident_mb']:+.2f}",
        f"{growth['in_use_mb']:+.3f}",
        more if left else "not counted",
    )
    return Table("A long run", header, (row,))


def sharing_table(lines: Lines) -> Table:
    """Return the time of many callers of one model beside that of one, the last measurement of each kind."""
    last = {line["target"]: line for line in lines}
    rows = [
        (
            f"{line['callers']} {kind}",
            f"{line['seconds_alone']:.2f}",
            f"{line['seconds']:.2f}",
            f"{line['times_alone']:.1f}",
            f"{len(line['findings'])}",
        )
        for kind, line in last.items()
    ]
    header = ("callers", "one alone, s", "all together, s", "times as long", "with other labels")
    return Table("One model, many callers", header, tuple(rows))


def same_labels_table(lines: Lines) -> Table:
    """Return for every data set how many fits have labels and embeddings bitwise equal to an earlier version's."""
    rows = []
    for name, own in grouped(of_last_code(lines), "data").items():
        places = ", ".join(sorted({line["place"] for line in own}))
        counts = [sum(line.get(key) is True for line in own) for key in ("labels", "embedding", "old_model")]
        rows.append((name, places, *(f"{count} of {len(own)}" for count in counts)))
    header = ("data", "rows in", "the same labels", "the same embedding", "old models that predict the same")
    return Table("An earlier version", header, tuple(rows))


def grouped(lines: Lines, key: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return lines grouped by their value of a key."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        found.setdefault(line[key], []).append(line)
    return found

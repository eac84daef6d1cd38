"""Records -> tables in Markdown and LaTeX, our figures beside the paper's in every cell."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path

import numpy as np

from benchmarks.data import DATA
from benchmarks.records import Record, failed, last_of
from benchmarks.states import earlier_note
from benchmarks.suites import FILE_ORDER, SUITES, TROUBLES, settings_hash
from coterie.files import write_text
from coterie.peers.registry import COTERIE

PAPER_METHODS = (
    *(f"SC({v})" for v in range(1, 7)),
    "ConcatLSC",
    "MVSC-B",
    "Guided co-training",
    "Coterie",
    "Exact 2016",
)
SYNTHETIC = ("weak", "scaled", "duplicated", "missing", "noise")
SMALL_ROWS = 5_000  # sets up to this size have a mean of their own: methods that compare all pairs ran on no others
SINGLE_VIEW = re.compile(r"SC\(\d+\)")


@dataclass(frozen=True)
class Cell:
    """A measure's mean and standard deviation over seeds."""

    mean: float
    sd: float
    n_seeds: int


@dataclass(frozen=True)
class Table:
    """Text in rows and columns; the first column names the rows."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()  # paragraphs below it


def paper_targets() -> dict[tuple[str, str, str], float]:
    """Return the paper's figures by measure, method and data set.

    Examples
    --------
    >>> paper_targets()["NMI", "MVSC-B", "UCI"]
    0.893
    """
    text = Path(__file__).with_name("paper_targets.csv").read_text()
    return {
        (line["metric"], line["method"], column): float(value)
        for line in csv.DictReader(text.splitlines())
        for column, value in line.items()
        if column not in ("metric", "method") and value
    }


def summarise(records: Iterable[Record], measure: str) -> dict[tuple[str, str], Cell]:
    """Return mean and deviation over seeds, by method and data set.

    Of a method that was measured with several settings, because its defaults changed, only the last settings are used.
    """
    groups: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for record in filterfalse(failed, records):
        settings = groups.setdefault((record["method"], record["data"]), {})
        key = settings_hash(record["settings"])
        seeds = settings.pop(key, {})
        settings[key] = {**seeds, record["seed"]: figure(record, measure)}  # last in order
    return {names: as_cell(list(list(settings.values())[-1].values())) for names, settings in groups.items()}


def figure(record: Record, measure: str) -> float:
    """Return a figure of a record; "seconds" is processor time if the fit waited for the processor most of the time.

    Examples
    --------
    >>> figure({"seconds": 60.0, "cpu_seconds": 8.0}, "seconds"), figure({"seconds": 60.0}, "seconds")
    (8.0, 60.0)
    """
    if measure == "seconds" and waited(record):
        return float(record["cpu_seconds"])
    return float(record[measure])


def waited(record: Record) -> bool:
    """Return whether a fit had less than half a core, because other processes used the machine."""
    return "cpu_seconds" in record and record["seconds"] > 2 * record["cpu_seconds"]


def as_cell(values: Sequence[float]) -> Cell:
    """Return mean and sample deviation.

    Examples
    --------
    >>> as_cell([0.5, 0.7])
    Cell(mean=0.6, sd=0.1414..., n_seeds=2)
    """
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Cell(float(np.mean(values)), sd, len(values))


def show_cell(cell: Cell | None, target: float | None = None, digits: int = 3) -> str:
    """Return "mean ± sd (paper)".

    Examples
    --------
    >>> show_cell(Cell(0.9614, 0.0012, 10), 0.967)
    '0.961 ± 0.001 (0.967)'
    >>> show_cell(None, 0.967)
    '- (0.967)'
    """
    text = "-"
    if cell is not None:
        text = f"{cell.mean:.{digits}f}"
        if cell.n_seeds > 1:
            text += f" ± {cell.sd:.{digits}f}"
    elif target is None:
        return ""
    return text if target is None else f"{text} ({target:.{digits}f})"


def paper_table(records: Sequence[Record], measure: str) -> Table:
    """Return our figures for the paper's Table 2 (NMI) or 3 (ACC), beside the paper's where the data are the same."""
    cells = summarise(records, measure)
    whole = all(record["settings"].get("rows") is None for record in records)
    targets = paper_targets() if whole else {}  # a sample of the rows is not the paper's data set
    columns = [name for name in SUITES["paper"].data if any(data == name for _, data in cells)]
    refused = refusals(records, cells)
    others = dict.fromkeys(method for method, _ in (*cells, *refused) if method not in PAPER_METHODS)
    rows = []
    for method in (*PAPER_METHODS, *others):
        shown = [
            show_cell(
                cells.get((method, data)),
                targets.get((measure, method, DATA[data].paper or "")),
                3 if measure != "seconds" else 2,
            )
            or ("-" if (method, data) in refused else "")
            for data in columns
        ]
        if any(shown):
            rows.append((method, *shown))
    header = ("method", *(DATA[data].title for data in columns))
    note = "" if measure == "seconds" or not whole else ", the paper's figure in brackets"
    caption = f"{measure}: mean ± deviation over seeds{note}"
    return Table(caption, header, tuple(rows), (*notes_of(records, cells, measure), *empty_note(rows, len(columns))))


def leaderboard_table(records: Sequence[Record], measure: str) -> Table:
    """Return a table of methods by data sets, sorted by the mean over small sets, best first.

    Means are over all real sets, and over those of up to 5,000 rows; over the synthetic sets if there are no real ones.
    A method that was not measured on all of these sets has no mean.
    """
    cells = with_single_views(summarise(records, measure))
    refused = refusals(records, cells)
    columns = [data for data in SUITES["leaderboard"].data if any(d == data for _, d in cells)]
    real = [data for data in columns if data not in SYNTHETIC] or columns
    n_rows = {record["data"]: record["n_rows"] for record in records if "n_rows" in record}
    small = [data for data in real if n_rows.get(data, 0) <= SMALL_ROWS]
    means = {"mean": real} if small in ([], real) else {f"mean, up to {SMALL_ROWS:,} rows": small, "mean": real}
    falling, digits = (-1, 3) if measure != "seconds" else (1, 2)

    def rank(method: str) -> list[float]:
        found = (mean_over(cells, method, names) for names in means.values())
        return [float("inf") if mean is None else falling * mean for mean in found]

    rows = []
    for method in sorted(dict.fromkeys(method for method, _ in (*cells, *refused)), key=rank):
        shown = [
            show_cell(cells.get((method, data)), digits=digits) or ("-" if (method, data) in refused else "")
            for data in columns
        ]
        found = [mean_over(cells, method, names) for names in means.values()]
        rows.append((method, *shown, *("" if mean is None else f"{mean:.{digits}f}" for mean in found)))
    header = ("method", *(DATA[data].title for data in columns), *means)
    notes = (*notes_of(records, cells, measure), *empty_note(rows, len(columns)))
    return Table(f"{measure}: mean ± deviation over seeds", header, tuple(rows), notes)


def empty_note(rows: Iterable[Sequence[str]], n_sets: int) -> tuple[str, ...]:
    """Return no note, or one that explains empty cells.

    Examples
    --------
    >>> empty_note([("a", "0.5", "-", "")], 2), empty_note([("a", "0.5", "", "")], 2)
    ((), ('An empty cell: not measured yet, or a set without that view.',))
    """
    empty = any("" in row[1 : n_sets + 1] for row in rows)
    return ("An empty cell: not measured yet, or a set without that view.",) if empty else ()


def mean_over(cells: Mapping[tuple[str, str], Cell], method: str, names: Sequence[str]) -> float | None:
    """Return a method's mean over data sets; None unless it was measured on all of them."""
    if not all((method, name) in cells for name in names):
        return None
    return float(np.mean([cells[method, name].mean for name in names]))


def refusals(records: Iterable[Record], cells: Mapping[tuple[str, str], Cell]) -> dict[tuple[str, str], str]:
    """Return the reasons for missing figures, by method and data set."""
    found = {(record["method"], record["data"]): record["failed"] for record in filter(failed, records)}
    return {names: reason for names, reason in found.items() if names not in cells}


def notes_of(records: Sequence[Record], cells: Mapping[tuple[str, str], Cell], measure: str) -> tuple[str, ...]:
    """Return the notes below a table: seeds, reasons for dashes, rows in file order, processor seconds, code states."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for (method, data), reason in refusals(records, cells).items():
        reasons.setdefault(reason, {}).setdefault(DATA[data].title, []).append(method)
    dashes = []
    for reason, found in reasons.items():
        sets = [f"{title} ({', '.join(methods)})" for title, methods in found.items()]
        dashes.append(f"A dash, {reason}: {'; '.join(sets)}.")
    sorted_rows = in_file_order(records)
    busy = dict.fromkeys(r["method"] for r in filterfalse(failed, records) if measure == "seconds" and waited(r))
    return (
        *seeds_note(records, measure),
        *dashes,
        *([f"Rows in file order, not shuffled: {sorted_rows}."] if sorted_rows else []),
        *([f"Seconds of the processor, on a machine that others used: {'; '.join(busy)}."] if busy else []),
        *state_notes(records),
    )


def seeds_note(records: Sequence[Record], measure: str) -> tuple[str, ...]:
    """Return a note with the number of seeds of each method; no note if all have one.

    Examples
    --------
    >>> seed = {"method": "a", "data": "uci", "seed": 0, "settings": {}, "NMI": 0.5}
    >>> seeds_note([seed, {**seed, "seed": 1}, {**seed, "method": "b"}, {**seed, "method": "c"}], "NMI")
    ('Seeds: 2 for a; 1 for the others.',)
    """
    found: dict[str, set[int]] = {}
    for (method, _), cell in summarise(records, measure).items():
        found.setdefault(method, set()).add(cell.n_seeds)
    groups: dict[tuple[int, int], list[str]] = {}
    for method, counts in found.items():
        groups.setdefault((min(counts), max(counts)), []).append(method)
    if set(groups) <= {(1, 1)}:
        return ()
    most = max(groups, key=lambda counts: len(groups[counts]))
    parts = [
        (f"{low}" if low == high else f"{low} to {high}")
        + (f" for {', '.join(methods)}" if (low, high) != most else " for the others" if len(groups) > 1 else "")
        for (low, high), methods in sorted(groups.items(), key=lambda group: (group[0] == most, group[0]))
    ]
    return (f"Seeds: {'; '.join(parts)}.",)


def state_notes(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the notes on the states of the code with which Coterie was measured."""
    own = (r for r in records if r["method"] == COTERIE.name and not failed(r) and "code" in r)
    shown = last_of(own, "data", "seed")
    states = {record["code"]["source"] for record in shown}
    several = (f"Coterie was measured in {len(states)} states of its code.",) if len(states) > 1 else ()
    return (*earlier_note(shown, {name: data.title for name, data in DATA.items()}), *several)


def in_file_order(records: Iterable[Record]) -> str:
    """Return the methods whose last figures are of rows in file order, with the data sets unless all of them are."""
    orders: dict[str, dict[str, str]] = {}
    for record in filterfalse(failed, records):
        orders.setdefault(record["method"], {})[record["data"]] = record["settings"].get("order", FILE_ORDER)
    named = []
    for method, found in orders.items():
        stored = [DATA[data].title for data, order in found.items() if order == FILE_ORDER]
        if stored:
            named.append(method if len(stored) == len(found) else f"{method} ({', '.join(dict.fromkeys(stored))})")
    return "; ".join(named)


def robustness_table(records: Sequence[Record], measure: str) -> Table:
    """Return a table of data sets and methods by the noise or gaps that were added to the data set."""
    cells = summarise(records, measure)
    digits = 3 if measure != "seconds" else 2
    rows = []
    for data in SUITES["robustness"].data[:: 1 + len(TROUBLES)]:
        for method in dict.fromkeys(method for method, found in cells if found == data):
            shown = [show_cell(cells.get((method, data + ending)), digits=digits) for ending in ("", *TROUBLES)]
            rows.append((f"{DATA[data].title}, {method}", *shown))
    header = ("data and method", "as it is", *TROUBLES.values())
    return Table(f"{measure}: mean ± deviation over seeds", header, tuple(rows), notes_of(records, cells, measure))


def unequal_table(records: Sequence[Record], measure: str) -> Table:
    """Return a table of data sets by methods, one line for all draws of a kind, with the means below."""
    cells = summarise(records, measure)
    methods, lines = unequal_lines(cells)
    digits = 3 if measure != "seconds" else 2
    rows = [(title, *(show_cell(line[m], digits=digits) for m in methods)) for title, line in lines.items()]
    whole = [line for line in lines.values() if all(cell is not None for cell in line.values())]
    if whole:
        means = (float(np.mean([line[m].mean for line in whole])) for m in methods)  # type: ignore[union-attr]
        rows.append(("mean", *(f"{mean:.{digits}f}" for mean in means)))
    return Table(
        f"{measure}: mean over draws and seeds",
        ("data", *methods),
        tuple(rows),
        notes_of(records, summarise(records, measure), measure),
    )


def unequal_lines(cells: Mapping[tuple[str, str], Cell]) -> tuple[list[str], dict[str, dict[str, Cell | None]]]:
    """Return the methods of the suite of unequal clusters, and their means for each kind of data."""
    methods = list(dict.fromkeys(method for method, _ in cells))
    groups: dict[str, list[str]] = {}
    for name in SUITES["unequal"].data:
        if any((method, name) in cells for method in methods):
            groups.setdefault(DATA[name].title, []).append(name)
    return methods, {title: {m: mean_of(cells, m, names) for m in methods} for title, names in groups.items()}


def mean_of(cells: Mapping[tuple[str, str], Cell], method: str, names: Sequence[str]) -> Cell | None:
    """Return a method's mean over the draws of a data set; None unless it was measured on all of them."""
    found = [cells[method, name] for name in names if (method, name) in cells]
    if len(found) < len(names):
        return None
    return Cell(float(np.mean([cell.mean for cell in found])), 0.0, 1)


def with_single_views(cells: Mapping[tuple[str, str], Cell]) -> dict[tuple[str, str], Cell]:
    """Return the cells with SC(1), SC(2), ... replaced by the best view, known from labels alone, and the mean view."""
    merged = {names: cell for names, cell in cells.items() if not SINGLE_VIEW.fullmatch(names[0])}
    singles: dict[str, list[Cell]] = {}
    for (method, data), cell in cells.items():
        if SINGLE_VIEW.fullmatch(method):
            singles.setdefault(data, []).append(cell)
    for data, found in singles.items():
        merged["LSC, best view", data] = max(found, key=lambda cell: cell.mean)
        merged["LSC, mean view", data] = Cell(float(np.mean([cell.mean for cell in found])), 0.0, 1)
    return merged


def markdown(table: Table) -> str:
    """Return the table in Markdown, followed by its notes.

    Examples
    --------
    >>> print(markdown(Table("", ("method", "UCI"), (("a", "0.5"),))))
    | method | UCI |
    | --- | --- |
    | a | 0.5 |
    """
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    kept = body.replace(" ± ", "\u00a0±\u00a0")  # non-breaking
    return "\n\n".join([kept, *table.notes])


def latex(table: Table) -> str:
    r"""Return the table in LaTeX, for the booktabs package.

    Examples
    --------
    >>> print(latex(Table("NMI", ("method", "UCI"), (("a_b", "0.5 ± 0.1"),))))
    \begin{table}
    \caption{NMI}
    \begin{tabular}{lr}
    \toprule
    method & UCI \\
    \midrule
    a\_b & 0.5 $\pm$ 0.1 \\
    \bottomrule
    \end{tabular}
    \end{table}
    """

    def line(cells: Sequence[str]) -> str:
        return " & ".join(escape(cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{escape(table.caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
            r"\toprule",
            line(table.header),
            r"\midrule",
            *map(line, table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def escape(text: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("±", r"$\pm$")


def tables_of(results: Mapping[str, Sequence[Record]]) -> dict[str, Table]:
    """Return all tables for which the suites have records, by name."""
    makers = {
        "paper": paper_table,
        "leaderboard": leaderboard_table,
        "robustness": robustness_table,
        "unequal": unequal_table,
    }
    return {
        f"{suite}_{measure.lower()}": make(results[suite], measure)
        for suite, make in makers.items()
        if results.get(suite)
        for measure in (("ARI", "NMI", "seconds") if suite == "unequal" else ("NMI", "ACC", "seconds"))
    }


def rewrite_tables(paths: Iterable[Path], tables: Mapping[str, Table | str]) -> list[Path]:
    """Write tables, and sentences with figures, between their markers; return the files that changed.

    The markers are ``<!-- table:NAME -->`` and ``<!-- /table:NAME -->``.

    Raises
    ------
    ValueError
        If a marker is not closed.
    """
    changed = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        fresh = replace_tables(text, tables, path.name)
        if fresh != text:
            write_text(path, fresh)
            changed.append(path)
    return changed


def replace_tables(text: str, tables: Mapping[str, Table | str], owner: str = "text") -> str:
    """Return the text with the tables inserted between their markers; other markers are unchanged."""
    for name in re.findall(r"<!-- table:([\w-]+) -->", text):
        if f"<!-- /table:{name} -->" not in text:
            raise ValueError(
                f"{owner}: the marker <!-- table:{name} --> is not closed. Add <!-- /table:{name} --> behind the table."
            )
    for name, table in tables.items():
        start, end = f"<!-- table:{name} -->", f"<!-- /table:{name} -->"
        between = re.compile(f"({re.escape(start)}).*?({re.escape(end)})", re.DOTALL)
        body = table if isinstance(table, str) else markdown(table)
        text = between.sub(lambda found, body=body: f"{found[1]}\n{body}\n{found[2]}", text)  # type: ignore[misc]
    return text

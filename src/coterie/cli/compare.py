"""``coterie compare``: other methods on the same rows, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.fit import LabelsFile, show_rest
from coterie.cli.session import EXPECTED, Voice, cell, complain, in_one_line
from coterie.cli.tables import check_outputs, open_files, read_target, scores, write_rows

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from coterie.peers.registry import Method

MEASURES = ("ACC", "NMI", "ARI")
SORTS = ("seconds", *MEASURES, "agreement")
# The registry's names of k-means by scaling -> the names shown here.
NAMES = {
    "k-means, none": "k-means, raw",
    "k-means, block": "k-means, scaled",
    "k-means, standard": "k-means, standardised",
}
ALL = "all"
MOST_COLUMNS = 9  # more methods than this get one column of mean agreement instead of one per pair

OnlyMethod = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME|all",
        help="Only this method (repeat); all: every method that can take this number of rows. Default: a few.",
        rich_help_panel=opt.METHOD,
    ),
]
Limit = Annotated[
    float | None,
    typer.Option(
        "--limit", min=0.1, metavar="SECONDS", help="End a method after this time.", rich_help_panel=opt.METHOD
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="|".join(SORTS),
        help="Best first by this; those with labels need --target. Default: as listed.",
        rich_help_panel=opt.METHOD,
    ),
]
K = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-k",
        metavar="K|auto",
        help="Number of clusters for all; auto: the number that Coterie finds.",
        rich_help_panel=opt.METHOD,
    ),
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", min=2, help="The number of rows to compare on, drawn evenly.", rich_help_panel=opt.METHOD),
]


def compare(
    ctx: typer.Context,
    views: opt.ViewFiles,
    clusters: K = "auto",
    method: OnlyMethod = None,
    limit: Limit = None,
    sort: Sort = None,
    rows: Rows = None,
    labels: LabelsFile = None,
    overwrite: opt.Overwrite = False,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    numeric_only: opt.NumericOnly = False,
    config: opt.Config = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Run other methods on your files beside Coterie, and show how far they agree.

    The methods are Coterie with its defaults and as published, k-means on all views side by side (raw, views scaled,
    and columns standardised), LSC on them and on each view, and MVSC-B; `--method` takes any other of `coterie.peers`
    too, on all views or, if it takes one table, on a view ("KASP, pixels alone"). All tables are read into memory
    first, and each method runs in a process of its own, which `--limit` ends. Agreement is the adjusted Rand index: 1
    is the same clusters, 0 is chance.

    Examples:

    * `coterie compare pixels.npy hog.parquet -k 10 --target y.npy --sort NMI`

    * `coterie compare pixels.npy hog.parquet -k 10 -m Coterie -m AIMC -m "KASP, hog alone" --limit 60 --sort seconds`

    * `coterie compare pixels.npy hog.parquet -k 10 --method Coterie --method "k-means, scaled" --rows 200 --json`
    """
    voice = Voice.of(ctx)
    order = check_sort(sort, target is not None)
    k = opt.parse_clusters(clusters)
    opened = open_files(views, id_column, header, numeric_only)
    check_outputs([labels], [], [*opened.sources, config, target], overwrite=overwrite)
    known = read_target(target, id_column, opened, header)
    chosen = choose_methods(list(opened.files), min(opened.n_rows, rows or opened.n_rows), method or [])
    drawn = draw(opened.n_rows, rows, seed)
    tables = {name: table[drawn] for name, table in opened.matched.items()}
    ids = None if opened.ids is None else opened.ids[drawn]
    with voice.steps("comparing", len(chosen)) as step:
        if k == "auto":
            step(0, "looking for the number of clusters")
            k = find_k(tables, seed)
        outcomes = run_methods(chosen, tables, k, seed, limit, step)
    found_labels = {name: outcome.labels for name, outcome in outcomes.items() if outcome.labels is not None}
    if not found_labels:
        raise ValueError(f"No method could be run: {next(iter(outcomes.values())).failure}")
    agreeing = agreement(found_labels)
    truth = None if known is None else known[drawn]
    described = {name: outcome.describe(truth, mean_agreement(agreeing, name)) for name, outcome in outcomes.items()}
    found: dict[str, Any] = {
        "command": "compare",
        "rows": len(next(iter(found_labels.values()))),
        "clusters": k,
        "methods": ranked(described, order),
        "agreement": agreeing,
        "views": opened.facts(),
        "files": {},
        "config": opt.recorded(ctx),
    }
    if labels is not None:
        write_rows(labels, found_labels, ids, opened.id_name)
        found["files"]["labels"] = str(labels)
    voice.result(found, lambda console: show(console, found))


@dataclass(frozen=True)
class MethodRun:
    """The result of one method."""

    seconds: float
    labels: np.ndarray | None  # (n,); None where it failed
    failure: str | None = None

    def describe(self, known: np.ndarray | None, agreement: float | None) -> dict[str, Any]:
        """Return the outcome as plain data."""
        if self.labels is None:
            return {"failed": self.failure}
        return {
            "seconds": self.seconds,
            "scores": None if known is None else scores(known, self.labels),
            "agreement": agreement,
        }


def check_sort(asked: str | None, has_target: bool) -> str | None:
    """Return the column to sort by; None keeps the order in which the methods were run."""
    if asked is None:
        return None
    names = {name.lower(): name for name in SORTS}
    if asked.lower() not in names:
        raise ValueError(f"--sort takes one of {', '.join(SORTS)}. Got {asked!r}.")
    found = names[asked.lower()]
    if found in MEASURES and not has_target:
        raise ValueError(f"--sort {found} needs known labels. Pass --target, or sort by seconds or agreement.")
    return found


def ranked(described: dict[str, dict[str, Any]], order: str | None) -> dict[str, dict[str, Any]]:
    """Return the methods, best first; those that failed are last."""

    def rank(name: str) -> tuple[bool, float]:
        line = described[name]
        if "failed" in line or order is None:
            return "failed" in line, 0.0
        if order in MEASURES:
            return False, -line["scores"][order]
        return False, line["seconds"] if order == "seconds" else -(line["agreement"] or 0.0)

    return {name: described[name] for name in sorted(described, key=rank)}


def find_k(tables: dict[str, Any], seed: int) -> int:
    """Return the number of clusters that Coterie suggests."""
    from coterie import suggest_k

    return suggest_k(tables, random_state=seed).best


def run_methods(
    methods: list[Method],
    tables: dict[str, Any],
    k: int,
    seed: int,
    limit: float | None,
    step: Callable[[int, str], None],
) -> dict[str, MethodRun]:
    """Run the methods one after the other in a child process; one that fails does not stop the others."""
    from coterie.children import Child

    outcomes = {}
    with Child(tables) as child:
        for number, method in enumerate(methods):
            step(number, method.name)
            started = time.perf_counter()
            try:
                child.call(load_kernels, method.estimator)
                labels, seconds = child.call(fit_method, method, k, seed, limit=limit)
                outcomes[method.name] = MethodRun(seconds, labels)
            except EXPECTED as error:
                outcomes[method.name] = MethodRun(time.perf_counter() - started, None, in_one_line(error))
    return outcomes


def load_kernels(tables: dict[str, Any], estimator: str) -> None:
    """Fit a few rows in the child, so that compiled kernels are loaded before a method is timed."""
    from coterie.peers.registry import warm_up

    warm_up(estimator)


def fit_method(tables: dict[str, Any], method: Method, k: int, seed: int) -> tuple[np.ndarray, float]:
    """Return a method's labels and the seconds of its fit, in the child."""
    from coterie.peers.registry import make_estimator

    started = time.perf_counter()
    labels = make_estimator(method, k, seed).fit_predict(tables)
    return labels, time.perf_counter() - started


def all_methods(views: list[str]) -> list[Method]:
    """Return all methods; those that take one table, once for the concatenated views and once for each view."""
    from coterie.peers.registry import METHODS

    found = []
    for method in METHODS.values():
        whole = replace(method, name=NAMES.get(method.name, method.name))
        found.append(replace(whole, by_default=False) if method.one_view else whole)
        if method.one_view and len(views) > 1:
            found += [method.on(view, f"{method.name}, {view} alone") for view in views]
    return found


def choose_methods(views: list[str], n_rows: int, asked: list[str]) -> list[Method]:
    """Return the methods that --method names; without it, or for "all", those that can take the number of rows."""
    methods = all_methods(views)
    if asked and asked != [ALL]:
        return [find_method(name, methods) for name in asked]
    tried = [method for method in methods if (method.by_default if not asked else "view" not in method.params)]
    slow = [method.name for method in tried if not method.is_feasible_for(n_rows)]
    if slow:
        complain(
            "warning", f"Left out, because they would take long on {n_rows:,} rows: {', '.join(slow)}. See --rows."
        )
    return [method for method in tried if method.is_feasible_for(n_rows)]


def find_method(asked: str, methods: list[Method]) -> Method:
    """Return the method with this name or this estimator class; case, spaces and punctuation are ignored."""
    known = {bare(method.estimator): method for method in reversed(methods)}
    known |= {bare(method.name): method for method in methods}
    if bare(asked) not in known:
        raise ValueError(f"There is no method {asked!r}. There are: {'; '.join(method.name for method in methods)}.")
    return known[bare(asked)]


def bare(name: str) -> str:
    """Return the letters and digits of a name, in lower case.

    Examples
    --------
    >>> bare("Co-regularised, pairwise")
    'coregularisedpairwise'
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def draw(n_rows: int, wanted: int | None, seed: int) -> Any:
    """Return the sorted numbers of ``wanted`` rows drawn at random, or a slice of all rows."""
    import numpy as np

    if wanted is None or wanted >= n_rows:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n_rows, wanted, replace=False))


def agreement(labels: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the adjusted Rand index between the labels of every pair of methods."""
    from coterie.metrics import ari

    return {one: {other: ari(labels[one], labels[other]) for other in labels} for one in labels}


def mean_agreement(agreeing: dict[str, dict[str, float]], name: str) -> float | None:
    """Return a method's mean agreement with the others; None if it failed or there is no other."""
    others = [value for other, value in agreeing.get(name, {}).items() if other != name]
    return sum(others) / len(others) if others else None


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the methods and their agreement."""
    from rich.table import Table

    console.print(f"[bold]{found['rows']:,} rows, {found['clusters']} clusters[/bold]")
    lines = found["methods"]
    names = [name for name, line in lines.items() if "failed" not in line]
    scored = any(line.get("scores") for line in lines.values())
    # One column for every other method where they fit beside each other, else the mean over the others.
    pairs = len(names) == len(lines) <= MOST_COLUMNS
    agreeing = [str(number) for number in range(1, len(names) + 1)] if pairs else ["agreement"]
    table = Table("", "method")
    for heading in ("seconds", *(MEASURES if scored else ()), *agreeing):
        table.add_column(heading, justify="right")
    if len(names) < len(lines):
        table.add_column("why not")
    for number, (name, line) in enumerate(lines.items(), start=1):
        if "failed" in line:
            blank = [""] * (len(table.columns) - 3)
            table.add_row("-", cell(name), *blank, cell(first_sentence(line["failed"])))
            continue
        measured = [f"{line['scores'][measure]:.3f}" for measure in MEASURES] if scored else []
        shown = [found["agreement"][name][other] for other in names] if pairs else [line["agreement"]]
        figures = [f"{line['seconds']:.2f}", *measured, *("" if value is None else f"{value:.2f}" for value in shown)]
        table.add_row(str(number), cell(name), *figures, style="bold green" if name == "Coterie" else None)
    console.print(table)
    show_rest(console, found)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop.

    Examples
    --------
    >>> first_sentence("It needs 9.6 GB. Use another.")
    'It needs 9.6 GB'
    """
    return text.partition(". ")[0].rstrip(".")

"""``coterie compare``: what other methods make of the same rows."""

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
# What k-means' scalings are called here.
NAMES = {"k-means, none": "k-means, raw", "k-means, block": "k-means, scaled"}

OnlyMethod = Annotated[
    list[str] | None,
    typer.Option("--method", "-m", help="Only this method (repeat). Default: all.", rich_help_panel=opt.METHOD),
]
K = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-k",
        metavar="K|auto",
        help="Number of clusters for all; auto: as Coterie finds.",
        rich_help_panel=opt.METHOD,
    ),
]
Rows = Annotated[
    int | None, typer.Option("--rows", min=2, help="Compare on so many rows, drawn evenly.", rich_help_panel=opt.METHOD)
]


def compare(
    ctx: typer.Context,
    views: opt.ViewFiles,
    clusters: K = "auto",
    method: OnlyMethod = None,
    rows: Rows = None,
    labels: LabelsFile = None,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    config: opt.Config = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Run other methods on your files beside Coterie, and show how far they agree.

    The methods are Coterie with its defaults and as published, k-means on all views side by side (raw, and scaled),
    LSC on them and on each view, and MVSC-B; `--method` takes others too. All tables are read into memory first.
    Agreement is the adjusted Rand index: 1 is the same clusters, 0 is chance.

    Examples:

    * `coterie compare pixels.npy hog.parquet -k 10 --target y.npy`

    * `coterie compare pixels.npy hog.parquet -k 10 --method Coterie --method "k-means, scaled" --rows 200 --json`
    """
    voice = Voice.of(ctx)
    opened = open_files(views, id_column, header)
    check_outputs([labels], [], opened.files.values())
    known = read_target(target, id_column, opened, header)
    chosen = choose_methods(list(opened.files), min(opened.n_rows, rows or opened.n_rows), method or [])
    drawn = draw(opened.n_rows, rows, seed)
    tables = {name: table[drawn] for name, table in opened.matched.items()}
    ids = None if opened.ids is None else opened.ids[drawn]
    with voice.steps("comparing", len(chosen)) as step:
        k = opt.parse_value(clusters)
        if k == "auto":
            step(0, "looking for the number of clusters")
            k = find_k(tables, seed)
        outcomes = run_methods(chosen, tables, k, seed, step)
    found_labels = {name: outcome.labels for name, outcome in outcomes.items() if outcome.labels is not None}
    if not found_labels:
        raise ValueError(f"No method could be run: {next(iter(outcomes.values())).failure}")
    found: dict[str, Any] = {
        "command": "compare",
        "rows": len(next(iter(found_labels.values()))),
        "clusters": k,
        "methods": {
            name: outcome.describe(None if known is None else known[drawn]) for name, outcome in outcomes.items()
        },
        "agreement": agreement(found_labels),
        "views": opened.facts(),
        "files": {},
        "config": opt.recorded(ctx),
    }
    if labels is not None:
        write_rows(labels, found_labels, ids)
        found["files"]["labels"] = str(labels)
    voice.result(found, lambda console: show(console, found))


@dataclass(frozen=True)
class Outcome:
    """What a method came to."""

    seconds: float
    labels: np.ndarray | None  # (n,); None where it failed
    failure: str | None = None

    def describe(self, known: np.ndarray | None) -> dict[str, Any]:
        """Return the outcome as plain data."""
        if self.labels is None:
            return {"failed": self.failure}
        return {"seconds": self.seconds, "scores": None if known is None else scores(known, self.labels)}


def find_k(tables: dict[str, Any], seed: int) -> int:
    """Return the number of clusters that Coterie suggests."""
    from coterie import suggest_k

    return suggest_k(tables, random_state=seed).best


def run_methods(
    methods: list[Method], tables: dict[str, Any], k: int, seed: int, step: Callable[[int, str], None]
) -> dict[str, Outcome]:
    """Run methods one after the other; what one cannot do, others may."""
    from coterie.peers.registry import make_estimator, warm_up

    outcomes = {}
    for number, method in enumerate(methods):
        step(number, method.name)
        warm_up(method.estimator)
        started = time.perf_counter()
        try:
            labels, failure = make_estimator(method, k, seed).fit_predict(tables), None
        except EXPECTED as error:
            labels, failure = None, in_one_line(error)
            complain("warning", f"{method.name} failed: {failure}")
        outcomes[method.name] = Outcome(time.perf_counter() - started, labels, failure)
    return outcomes


def all_methods(views: list[str]) -> list[Method]:
    """Return the methods under their names here, those that take one view on each of several."""
    from coterie.peers.registry import METHODS

    found = []
    for method in METHODS.values():
        if not method.one_view:
            found.append(replace(method, name=NAMES.get(method.name, method.name)))
        elif len(views) > 1:
            found += [method.on(view, f"{method.name}, {view} alone") for view in views]
    return found


def choose_methods(views: list[str], n_rows: int, asked: list[str]) -> list[Method]:
    """Return the methods that were asked for; where none was, those that bear so many rows."""
    methods = {method.name: method for method in all_methods(views)}
    unknown = [name for name in asked if name not in methods]
    if unknown:
        raise ValueError(f"There is no method {unknown[0]!r}. There are: {'; '.join(methods)}.")
    if asked:
        return [methods[name] for name in asked]
    usual = [method for method in methods.values() if method.unasked]
    slow = [method.name for method in usual if not method.bears(n_rows)]
    if slow:
        complain("warning", f"Left out, because {n_rows:,} rows would take them long: {', '.join(slow)}. See --rows.")
    return [method for method in usual if method.bears(n_rows)]


def draw(n_rows: int, wanted: int | None, seed: int) -> Any:
    """Return the numbers of some rows, ascending, or all of them as a slice."""
    import numpy as np

    if wanted is None or wanted >= n_rows:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n_rows, wanted, replace=False))


def agreement(labels: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the adjusted Rand index between every two methods' labels."""
    from coterie.metrics import ari

    return {one: {other: ari(labels[one], labels[other]) for other in labels} for one in labels}


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the methods, and how far they agree."""
    from rich.table import Table

    console.print(f"[bold]{found['rows']:,} rows, {found['clusters']} clusters[/bold]")
    names = list(found["agreement"])
    scored = any(line.get("scores") for line in found["methods"].values())
    table = Table("", "method", "seconds", *(MEASURES if scored else ()))
    for heading in range(1, len(names) + 1):
        table.add_column(str(heading), justify="right")
    for name, line in found["methods"].items():
        if "failed" in line:
            table.add_row("-", cell(name), "failed")
            continue
        measured = [f"{line['scores'][measure]:.3f}" for measure in MEASURES] if scored else []
        agreeing = [f"{found['agreement'][name][other]:.2f}" for other in names]
        style = "bold green" if name == "Coterie" else None
        table.add_row(
            str(names.index(name) + 1), cell(name), f"{line['seconds']:.2f}", *measured, *agreeing, style=style
        )
    console.print(table)
    show_rest(console, found)

"""``coterie suggest-k``: how many clusters there are, and the evidence."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.session import Voice
from coterie.cli.start import import_estimator, quick_imports
from coterie.cli.tables import open_files

if TYPE_CHECKING:
    from rich.console import Console

    from coterie.method.selection import KSuggestion

SHOWN = ("scores", "agreement", "stability", "separation", "shared", "gap", "islands")
EVIDENCE = (*SHOWN, "consensus_gap")

KMax = Annotated[
    int | None,
    typer.Option(
        "--max", min=2, help="The largest number that is tried.", show_default="40", rich_help_panel=opt.METHOD
    ),
]
Top = Annotated[int, typer.Option(min=1, help="How many candidates to show.", rich_help_panel=opt.SHOWN)]


def suggest(
    ctx: typer.Context,
    views: opt.ViewFiles,
    k_max: KMax = None,
    top: Top = 10,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    numeric_only: opt.NumericOnly = False,
    config: opt.Config = None,
    seed: opt.Seed = 0,
    landmarks: opt.Landmarks = None,
    neighbors: opt.Neighbors = None,
    scaling: opt.Scaling = None,
    metric: opt.Metric = None,
    setting: opt.Setting = None,
    jobs: opt.Jobs = None,
    memory_limit: opt.MemoryLimit = None,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Suggest how many clusters the rows fall into, best first.

    No labels are used: a number is scored by how far the views agree, by how far halves of the rows agree, and by the
    gaps between the graphs' singular values.

    Examples:

    * `coterie suggest-k pixels.npy hog.parquet`

    * `coterie suggest-k pixels.npy hog.parquet --max 20 --json`
    """
    voice = Voice.of(ctx)
    with quick_imports():
        opened = open_files(views, id_column, header, numeric_only)
        import_estimator()
        from coterie import suggest_k
    settings = opt.estimator_settings(ctx.params)
    started = time.perf_counter()
    with voice.bar(f"looking at {opened.n_rows:,} rows"):
        suggestion = suggest_k(opened.tables, k_max=k_max, **settings)
    found = {
        "command": "suggest-k",
        "rows": opened.n_rows,
        "best": suggestion.best,
        "is_clear": suggestion.is_clear,
        "strength": suggestion.strength,
        "candidates": candidates(suggestion),
        "views": opened.facts(),
        "seconds": time.perf_counter() - started,
        "config": opt.recorded(ctx),
    }
    voice.result(found, lambda console: show(console, found, top))


def candidates(suggestion: KSuggestion) -> list[dict[str, Any]]:
    """Return the evidence for every number of clusters that was tried, best score first."""
    columns = {"k": suggestion.k, **{name: getattr(suggestion, name) for name in EVIDENCE}}
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
    return sorted(lines, key=lambda line: -line["scores"])


def show(console: Console, found: dict[str, Any], top: int) -> None:
    """Print the candidates."""
    from rich.table import Table

    clear = "" if found["is_clear"] else "; the evidence is weak, and there may be no clusters"
    console.print(f"[bold]{found['best']} clusters[/bold] (strength {found['strength']:.2f}{clear})")
    table = Table("k", "score", "agreement", "stability", "separation", "shared", "gap", "islands")
    for line in found["candidates"][:top]:
        values = (line[name] for name in SHOWN)
        table.add_row(str(line["k"]), *("-" if value != value else f"{value:.3f}" for value in values))
    console.print(table)

"""The commands of ``python -m benchmarks``: measure methods on data sets, and make tables of the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.choosing import choose_all, choosing_table
from benchmarks.collecting import all_tables
from benchmarks.data import UNEQUAL
from benchmarks.figure import landmarks_figure
from benchmarks.ordering import by_urgency
from benchmarks.records import read_records
from benchmarks.runner import Summary, run_all, run_many
from benchmarks.speed import FULL, PARTS, QUICK, run_speed
from benchmarks.speed_tables import speed_tables
from benchmarks.steadiness import compare_all, steadiness_table
from benchmarks.suites import SUITES, plan
from benchmarks.tables import Table, rewrite_tables, tables_of
from benchmarks.tables import latex as as_latex
from benchmarks.unequal import is_small
from coterie.files import write_text

app = typer.Typer(
    name="benchmarks",
    help="Measure methods on data sets; stop at any time, and start again to go on.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

QUICK_ROWS = 500
QUICK_SEEDS = 2

DataHome = Annotated[
    Path | None,
    typer.Option(help="Folder of the data sets. Default: the environment variable COTERIE_DATA, else the cache."),
]
Seeds = Annotated[int, typer.Option(min=1, help="Runs per method and data set: seeds 0, 1, ...")]
OnlyData = Annotated[list[str] | None, typer.Option(help="Only this data set; may be given several times.")]
OnlyMethod = Annotated[list[str] | None, typer.Option(help="Only this method; may be given several times.")]
Results = Annotated[Path, typer.Option(help="Folder of the results, a file of JSON lines per suite.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at a time. More than 1 disturbs the times.")]
Changed = Annotated[bool, typer.Option(help="Measure anew what the results hold from other code.")]
Limit = Annotated[float, typer.Option(min=1, help="Seconds after which a fit is ended, and recorded as such.")]
StopAfter = Annotated[
    float | None, typer.Option(min=1, help="Seconds after which all is ended; the same command goes on later.")
]
Quick = Annotated[
    bool,
    typer.Option(help=f"{QUICK_ROWS} rows and {QUICK_SEEDS} seeds, in a file of their own: a rehearsal."),
]

RESULTS = Path("benchmarks/results")
LIMIT = 300.0  # seconds


def add_suite(name: str, seeds: int, words: str, rehearsed_rows: int = QUICK_ROWS) -> None:
    """Add the command that runs a suite, or a small version of it, and shows its tables; ``words`` is its help."""
    default_seeds = seeds

    def command(
        data_home: DataHome = None,
        seeds: Seeds = default_seeds,
        only_data: OnlyData = None,
        only_method: OnlyMethod = None,
        results: Results = RESULTS,
        jobs: Jobs = 1,
        limit: Limit = LIMIT,
        quick: Quick = False,
    ) -> None:
        file = results / (f"{name}-quick.jsonl" if quick else f"{name}.jsonl")
        numbers = range(min(seeds, QUICK_SEEDS) if quick else seeds)
        rows = rehearsed_rows if quick else None
        measure_suite(name, file, numbers, data_home, only_data, only_method, jobs, rows=rows, limit=limit)

    app.command(name, help=cleandoc(words))(command)


add_suite(
    "paper",
    10,
    """Run every method of the paper's Tables 2 and 3, and show ours beside the paper's.

    Examples:

    * `python -m benchmarks paper --quick` rehearses in minutes.

    * `python -m benchmarks paper --only-data uci --seeds 3` runs one data set.

    * `python -m benchmarks paper --only-method Coterie --only-method MVSC-B` compares two methods.
    """,
)
add_suite(
    "leaderboard",
    10,
    """Compare what one could choose today, also on views that are weak, noisy, missing or badly scaled.

    Examples:

    * `python -m benchmarks leaderboard --only-data weak --only-data noise` needs no files.

    * `python -m benchmarks leaderboard --data-home ~/data --jobs 2` is quicker; its times are not to be
    trusted.
    """,
)
add_suite(
    "robustness",
    10,
    """Add one to three views of pure noise to real data, or take 30 % and 50 % of the (row, view) pairs away.

    Examples:

    * `python -m benchmarks robustness --only-data digits --only-data digits_noise3` needs no files.
    """,
)
add_suite(
    "landmarks",
    3,
    """Measure with 100 to 1,000 landmarks, and draw ACC and NMI against them.

    Examples:

    * `python -m benchmarks landmarks --only-data uci --seeds 1` takes about a minute.
    """,
    rehearsed_rows=1000,  # landmarks are rows, so that 1,000 landmarks need at least 1,000 rows
)


@app.command()
def missing(
    suite: Annotated[
        list[str] | None, typer.Option(help="Only this suite; may be given several times. Default: paper, leaderboard.")
    ] = None,
    data_home: DataHome = None,
    seeds: Seeds = 1,
    only_data: OnlyData = None,
    only_method: OnlyMethod = None,
    results: Results = RESULTS,
    jobs: Jobs = 1,
    limit: Limit = LIMIT,
    stop_after: StopAfter = None,
) -> None:
    """Measure the missing runs of several suites in one pool, seed by seed, the shortest expected runs first.

    Each process has its share of the cores. Features are made and kernels compiled once, before the pool starts. A run
    that belongs to two suites is measured once.

    Examples:

    * `python -m benchmarks missing --jobs 16 --limit 120 --stop-after 540` does what it can in nine minutes.

    * `python -m benchmarks missing --suite unequal --seeds 3` completes one suite.
    """
    suites = suite or ["paper", "leaderboard"]
    unknown = [name for name in suites if name not in SUITES]
    if unknown:
        raise typer.BadParameter(f"There is no suite {unknown[0]!r}. There are: {', '.join(SUITES)}.")
    asked = [(results / f"{name}.jsonl", run) for name in suites for run in plan(name, range(seeds))]
    chosen = [
        (file, run)
        for file, run in asked
        if (not only_data or run.data in only_data) and (not only_method or run.method.name in only_method)
    ]
    urgency = by_urgency([record for name in suites for record in read_records(results / f"{name}.jsonl")])
    ordered = sorted(chosen, key=lambda found: urgency(found[1]))
    with stoppable(results):
        summary = run_many(ordered, data_home=data_home, jobs=jobs, limit=limit, stop_after=stop_after)
    report(summary, results)


@app.command()
def unequal(
    data_home: DataHome = None,
    seeds: Seeds = 3,
    only_data: OnlyData = None,
    only_method: OnlyMethod = None,
    results: Results = RESULTS,
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option(help="One seed, and the small sets, in a file of their own.")] = False,
    changed: Changed = False,
) -> None:
    """Compare methods where clusters are of unequal size, or columns are many and noisy.

    Examples:

    * `python -m benchmarks unequal --quick --only-method Coterie` takes minutes.

    * `python -m benchmarks unequal --only-data white_896 --only-data correlated_896` needs no files.

    * `python -m benchmarks unequal --changed` measures anew what was measured with other code.
    """
    if quick:
        seeds, only_data = 1, only_data or [name for name in UNEQUAL if is_small(name)]
    file = results / ("unequal-quick.jsonl" if quick else "unequal.jsonl")
    measure_suite("unequal", file, range(seeds), data_home, only_data, only_method, jobs, changed=changed)


@app.command("choosing-k")
def choosing_k(
    data_home: DataHome = None,
    seeds: Seeds = 5,
    only_data: OnlyData = None,
    results: Results = RESULTS,
) -> None:
    """Let fits choose the number of clusters, and show how often it is right and the time it takes.

    Examples:

    * `python -m benchmarks choosing-k --only-data rings --seeds 1` needs no files.
    """
    file = results / "choosing_k.jsonl"
    asked = choose_all(file, range(seeds), names=only_data or (), data_home=data_home)
    records = read_records(file)
    must_hold(records)
    show(choosing_table(records))
    typer.echo(f"{asked} measured: {file}")


@app.command()
def steadiness(
    data_home: DataHome = None,
    seeds: Annotated[int, typer.Option(min=2, help="Fits per data set: seeds 0, 1, ...")] = 4,
    only_data: OnlyData = None,
    results: Results = RESULTS,
) -> None:
    """Compare the agreement of fits with different seeds with the ``stability_`` that each of them estimates.

    Examples:

    * `python -m benchmarks steadiness --only-data digits --seeds 2` needs no files.
    """
    file = results / "steadiness.jsonl"
    new = compare_all(file, seeds, names=only_data or (), data_home=data_home)
    records = read_records(file)
    must_hold(records)
    show(steadiness_table(records))
    typer.echo(f"{new} data sets measured: {file}")


@app.command()
def speed(
    part: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this part: {', '.join(PARTS)}; may be given several times."),
    ] = None,
    data_home: DataHome = None,
    results: Results = RESULTS,
    again: Annotated[
        bool, typer.Option(help="Measure what the results hold too; tables show what was measured last.")
    ] = False,
    quick: Annotated[bool, typer.Option(help="Few rows, in a file of their own: a rehearsal without files.")] = False,
) -> None:
    """Time fits, predictions and new processes, in units of the product of rows and landmarks that every fit needs.

    Examples:

    * `python -m benchmarks speed --quick` rehearses in a minute or two.

    * `python -m benchmarks speed --part mnist --part predict` needs MNIST alone.

    * `python -m benchmarks speed --part rows --again` measures anew, after a change of the code.
    """
    file = results / ("speed-quick.jsonl" if quick else "speed.jsonl")
    with stoppable(file):
        try:
            sizes = QUICK if quick else FULL
            summary = run_speed(part or list(PARTS), file, data_home=data_home, sizes=sizes, again=again)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    for table in speed_tables(read_records(file)).values():
        show(table)
    report(summary, file)


@app.command()
def tables(
    results: Results = RESULTS,
    write: Annotated[
        list[Path] | None,
        typer.Option(help="Files whose tables to rewrite. Default: README.md, SECURITY.md and the pages of docs."),
    ] = None,
    latex: Annotated[
        Path | None,
        typer.Option(help="Also write the tables in LaTeX, one file each, to this folder."),
    ] = None,
) -> None:
    """Rewrite the tables of README and docs from the results, and draw the figure.

    A table stands between `<!-- table:NAME -->` and `<!-- /table:NAME -->`.

    Examples:

    * `python -m benchmarks tables` rewrites README.md, SECURITY.md and the pages of docs.

    * `python -m benchmarks tables --latex paper/` adds files for LaTeX.
    """
    found = all_tables(results)
    if not found:
        typer.echo(f"No results in {results}. Run `python -m benchmarks paper` first.", err=True)
        raise typer.Exit(1)
    targets = write or [
        path for path in [Path("README.md"), Path("SECURITY.md"), *sorted(Path("docs").rglob("*.md"))] if path.exists()
    ]
    changed = rewrite_tables(targets, found)
    for name, table in found.items():
        if latex is not None and isinstance(table, Table):
            write_text(latex / f"{name}.tex", as_latex(table) + "\n")
    curves = read_records(results / "landmarks.jsonl")
    if curves:
        for ending in ("png", "svg"):
            landmarks_figure(curves, results / f"landmarks.{ending}")
    typer.echo(f"{len(found)} tables: {', '.join(found)}.")
    typer.echo(f"Changed: {', '.join(map(str, changed)) or 'nothing'}.")


def measure_suite(
    suite: str,
    file: Path,
    seeds: range,
    data_home: Path | None,
    only_data: list[str] | None,
    only_method: list[str] | None,
    jobs: int,
    *,
    rows: int | None = None,
    changed: bool = False,
    limit: float = LIMIT,
) -> None:
    """Measure the runs that are not in the file, then show the suite's tables and the runs that were left out."""
    try:
        runs = plan(suite, seeds, only_data=only_data or (), only_method=only_method or (), rows=rows)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with stoppable(file):
        summary = run_all(runs, file, data_home=data_home, jobs=jobs, changed=changed, limit=limit)
    records = read_records(file)
    for table in tables_of({suite: records}).values():
        show(table)
    if suite == "landmarks" and records:
        typer.echo(f"Figure: {landmarks_figure(records, file.with_suffix('.png'))}")
    report(summary, file)


@contextmanager
def stoppable(file: Path) -> Iterator[None]:
    """Print how to continue if the user stops the measurement."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What was measured is in {file}; the same command goes on.", err=True)
        raise typer.Exit(130) from None


def report(summary: Summary, file: Path) -> None:
    """Print how many runs were measured, and which were left out or failed."""
    typer.echo(f"{summary.measured} measured, {summary.known} known before: {file}")
    if summary.left:
        typer.echo(f"{summary.left} left when the time was up; the same command goes on.", err=True)
    for reason in summary.missing.values():
        typer.echo(f"Left out, {reason}", err=True)
    for reason in summary.refused:
        typer.echo(f"No figure: {reason}", err=True)
    for reason in summary.failed:
        typer.echo(f"Failed: {reason}", err=True)
    if summary.failed:
        raise typer.Exit(1)
    must_hold(range(summary.measured + summary.known + len(summary.refused) + summary.left))


def must_hold(found: Sequence[object]) -> None:
    """Exit with an error if there was nothing to measure."""
    if not found:
        typer.echo("There was nothing to measure: the data sets are not here. See --data-home.", err=True)
        raise typer.Exit(1)


def show(table) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(title=table.caption, title_justify="left")
    for number, heading in enumerate(table.header):
        shown.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
    for row in table.rows:
        shown.add_row(*row)
    Console().print(shown)
    for note in table.notes:
        typer.echo(note)

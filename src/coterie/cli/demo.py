"""``coterie demo``: Coterie beside k-means on real data that needs no download."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.fit import check_report, report_writer
from coterie.cli.report import address_of, show_in_browser
from coterie.cli.session import Voice, cell
from coterie.cli.tables import check_outputs

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Line:
    """One method's result."""

    method: str
    accuracy: float
    nmi: float
    seconds: float


def demo(
    ctx: typer.Context,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    report: Annotated[Path, typer.Option("--report", help="Where to write the report.")] = Path("coterie-demo.html"),
    overwrite: opt.Overwrite = False,
    open_page: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Cluster scikit-learn's handwritten digits, seen through four views.

    Prints a table: each view alone, k-means on all views side by side, and Coterie. Writes a report of Coterie's fit.
    """
    check_report(report)
    check_outputs([], [report], [], overwrite=overwrite)
    voice = Voice.of(ctx)
    with voice.bar("demo"):
        write_demo_report(seed, report)  # before the timed runs: it compiles the kernels, once per machine
        lines = run_demo(seed)
    if json:
        import json as text
        from dataclasses import asdict

        typer.echo(text.dumps([asdict(line) for line in lines]))
    else:
        show(lines, report)
    if open_page:
        show_in_browser(report, voice)


def write_demo_report(seed: int, path: Path) -> None:
    """Write a report of the demo's fit, with the digits as pictures and their known labels."""
    from coterie import GuidedCoTraining
    from coterie.datasets import load_digit_views

    data = load_digit_views()
    model = GuidedCoTraining(10, random_state=seed).fit(data.views)
    pictures = {"pixels": (8, 8)}
    report_writer(path)(model, path, data.views, target=data.target, images=pictures, title="Handwritten digits")


def run_demo(seed: int = 0) -> list[Line]:
    """Return the demo's table as plain data."""
    import numpy as np
    from sklearn.cluster import KMeans

    from coterie import GuidedCoTraining
    from coterie.datasets import load_digit_views

    data = load_digit_views()
    side_by_side = np.hstack([view / view.std() for view in data.views.values()])  # (n, 221)

    def ours(views: Any) -> np.ndarray:
        return GuidedCoTraining(10, random_state=seed).fit_predict(views)

    def kmeans() -> np.ndarray:
        return KMeans(10, n_init=10, random_state=seed).fit_predict(side_by_side)

    methods: dict[str, Callable[[], np.ndarray]] = {
        **{f"{name} alone": partial(ours, view) for name, view in data.views.items()},
        "k-means, all views side by side": kmeans,
        "Coterie": partial(ours, data.views),
    }
    return [measure(name, run, data.target) for name, run in methods.items()]


def measure(name: str, run: Callable[[], np.ndarray], target: Any) -> Line:
    """Time one method and compare its labels with the classes."""
    from coterie.metrics import clustering_accuracy, nmi

    started = time.perf_counter()
    labels = run()
    seconds = time.perf_counter() - started
    return Line(name, clustering_accuracy(target, labels), nmi(target, labels), seconds)


def show(lines: list[Line], report: Path) -> None:
    """Print the table, the report's address, and code for one's own data."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="1,797 handwritten digits, 10 clusters, no labels used", title_justify="left")
    table.add_column("method")
    for heading in ("ACC", "NMI", "seconds"):
        table.add_column(heading, justify="right")
    for line in lines:
        style = "bold green" if line.method == "Coterie" else None
        table.add_row(
            line.method,
            f"{line.accuracy:.3f}",
            f"{line.nmi:.3f}",
            f"{line.seconds:.2f}",
            style=style,
        )
    console = Console()
    console.print(table)
    console.print(f"\nThe report: {cell(str(report))}. Open it in a browser, or run coterie demo --open:")
    console.print(f"    {cell(address_of(report))}", soft_wrap=True)
    console.print(
        "\nYour own data, in Python:\n\n"
        "    from coterie import GuidedCoTraining\n\n"
        '    model = GuidedCoTraining(n_clusters=10).fit({"text": text, "image": image})\n'
        "    model.labels_               # a cluster for every row\n"
        '    model.predict({"text": new_text, "image": new_image})   # and for new ones\n',
        highlight=False,
    )

"""``coterie demo``: real data that needs no download, and what there is to gain."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

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
    seed: int = typer.Option(0, help="Seed of everything that is drawn."),
    json: bool = typer.Option(False, "--json", help="Print the table as JSON."),
) -> None:
    """Cluster scikit-learn's handwritten digits, seen through four views.

    Prints a table: each view alone, k-means on all views side by side, and Coterie.
    """
    lines = run_demo(seed)
    if json:
        import json as text
        from dataclasses import asdict

        typer.echo(text.dumps([asdict(line) for line in lines]))
    else:
        show(lines)


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
    ours(data.views)  # compiles the kernels, once per machine
    return [measure(name, run, data.target) for name, run in methods.items()]


def measure(name: str, run: Callable[[], np.ndarray], target: Any) -> Line:
    """Time one method and compare its labels with the classes."""
    from coterie.metrics import clustering_accuracy, nmi

    started = time.perf_counter()
    labels = run()
    seconds = time.perf_counter() - started
    return Line(name, clustering_accuracy(target, labels), nmi(target, labels), seconds)


def show(lines: list[Line]) -> None:
    """Print the table and what to do next."""
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
    console.print(
        "\nYour own data, in Python:\n\n"
        "    from coterie import GuidedCoTraining\n\n"
        '    model = GuidedCoTraining(n_clusters=10).fit({"text": text, "image": image})\n'
        "    model.labels_               # a cluster for every row\n"
        '    model.predict({"text": new_text, "image": new_image})   # and for new ones\n',
        highlight=False,
    )

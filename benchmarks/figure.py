"""The paper's figure: ACC and NMI against the number of landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path

from benchmarks.data import DATA
from benchmarks.records import Record, failed
from benchmarks.suites import SUITES
from benchmarks.tables import as_cell
from coterie.files import written_whole


@dataclass(frozen=True)
class Curve:
    """One method on one data set: a measure against the number of landmarks."""

    landmarks: tuple[int, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def landmark_curves(records: Sequence[Record], measure: str) -> dict[tuple[str, str], Curve]:
    """Return the curves by data set and method, from the last record of each seed."""
    values: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for record in filterfalse(failed, records):
        curve = values.setdefault((record["data"], record["method"]), {})
        seeds = curve.setdefault(int(record["settings"]["n_landmarks"]), {})
        seeds[record["seed"]] = float(record[measure])
    curves = {}
    for names, curve in values.items():
        cells = [as_cell(list(curve[p].values())) for p in sorted(curve)]
        means, deviations = (tuple(c.mean for c in cells), tuple(c.sd for c in cells))
        curves[names] = Curve(tuple(sorted(curve)), means, deviations)
    return curves


def landmarks_figure(records: Sequence[Record], path: str | Path) -> Path:
    """Draw ACC above NMI, one column per data set; the file's extension selects PNG or SVG.

    Raises
    ------
    ValueError
        If there are no records.
    """
    if not records:
        raise ValueError("There are no records to draw. Run the suite 'landmarks' first.")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    path = Path(path)
    present = {record["data"] for record in records}
    columns = [data for data in SUITES["landmarks"].data if data in present]
    figure = Figure(figsize=(1 + 3.2 * len(columns), 5.6), layout="constrained")
    axes = figure.subplots(2, len(columns), sharex=True, squeeze=False)
    for row, measure in enumerate(("ACC", "NMI")):
        for (data, method), curve in landmark_curves(records, measure).items():
            axis = axes[row, columns.index(data)]
            axis.errorbar(curve.landmarks, curve.means, curve.deviations, label=method, marker="o", ms=3)
            axis.set_title(DATA[data].title if row == 0 else "")
            axis.set_xlabel("landmarks" if row == 1 else "")
            axis.grid(alpha=0.3)
        axes[row, 0].set_ylabel(measure)
    axes[0, 0].legend(fontsize="small")
    is_svg = path.suffix == ".svg"
    with written_whole(path) as file, rc_context({"svg.hashsalt": "coterie"}):  # reproducible bytes
        figure.savefig(file, format=path.suffix[1:], dpi=150, metadata={"Date": None} if is_svg else None)
    return path

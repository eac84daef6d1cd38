"""Time of labelling new rows (``benchmarks/scripts/serving.py``) -> tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.states import earlier_note
from benchmarks.tables import Table


def serving_tables(records: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    """Return tables of the last measurement: the start of a process, and batches of several sizes."""
    last = records[-1]
    start, fast, load = last["start"], last["start_predictor"], last["load"][0]
    what = {
        "import of scikit-learn and numba": (start["import_sklearn_numba"], None),
        "import of coterie, and load": (start["import_and_load"], fast["import_and_load"]),
        "the first row": (start["first_row"], fast["first_row"]),
    }
    starting = tuple(
        (name, *("" if seconds is None else f"{seconds:.2f}" for seconds in both)) for name, both in what.items()
    )
    batches = tuple(
        (
            f"{line['batch']:,}",
            f"{1000 * line['median']:,.1f}",
            f"{1000 * line['p99']:,.1f}",
            f"{line['rows_a_second']:,.0f}",
            f"{line['batch'] / line['core_seconds']:,.0f}",
        )
        for line in last["batches"]
    )
    header = ("rows a call", "median, ms", "99th percentile, ms", "rows a second", "rows a core's second")
    note = f"{last['views']} views, {last['columns']} columns, {last['machine']['cores']} cores, load {load}"
    below = earlier_note([last])
    return {
        "serving_start": Table(
            "A process that labels", ("seconds of the cores", "coterie.load", "Predictor"), starting, below
        ),
        "serving_batches": Table(f"Calls of predict: {note}", header, batches, below),
    }

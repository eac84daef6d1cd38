"""Measuring methods on data sets, seed by seed: runs, records, tables and the paper's figure."""

from __future__ import annotations

from coterie.bench.figure import landmarks_figure
from coterie.bench.records import append_record, read_records
from coterie.bench.runner import Summary, run_all
from coterie.bench.speed import run_speed
from coterie.bench.speed_tables import speed_tables
from coterie.bench.suites import SUITES, Run, plan
from coterie.bench.tables import rewrite_tables, tables_of

__all__ = [
    "SUITES",
    "Run",
    "Summary",
    "append_record",
    "landmarks_figure",
    "plan",
    "read_records",
    "rewrite_tables",
    "run_all",
    "run_speed",
    "speed_tables",
    "tables_of",
]

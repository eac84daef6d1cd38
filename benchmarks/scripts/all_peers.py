"""Time of all methods of coterie.peers on UCI's digits in one run: a line of ``benchmarks/results/all_peers.jsonl``.

``python -m benchmarks.scripts.all_peers`` fits every registered method once with its defaults, one method per core at a
time; ``--quick`` fits 300 rows and writes nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.measure import machine, source_hash
from benchmarks.ordering import by_urgency
from benchmarks.records import append_record, failed, read_records
from benchmarks.runner import Summary, run_all
from benchmarks.suites import Run
from coterie.peers.registry import COTERIE, METHODS, PUBLISHED

RESULTS = Path(__file__).parents[1] / "results"
QUICK_ROWS = 300


def peer_runs(rows: int | None) -> list[Run]:
    """Return one run for every registered method except Coterie's own, slowest first by earlier records."""
    methods = (method for method in METHODS.values() if method.name not in (COTERIE.name, PUBLISHED.name))
    runs = [Run(method, "uci", 0, rows) for method in methods]
    return sorted(runs, key=by_urgency(read_records(RESULTS / "paper.jsonl")), reverse=True)


def fit_all(runs: list[Run], file: Path, **options: Any) -> dict[str, Any]:
    """Measure all runs, append their records to the file, and return the total times."""
    cores = machine()["cores"]
    start = perf_counter()
    summary = run_all(runs, file, jobs=cores, **options)
    seconds = perf_counter() - start
    check_whole(summary, len(runs))
    records = [record for record in read_records(file) if not failed(record)]
    taken = {record["method"]: record["cpu_seconds"] for record in records}
    return {
        "data": "uci",
        "methods": len(records),
        "cores": cores,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(taken.values()), 1),
        "slowest": dict(sorted(taken.items(), key=lambda one: -one[1])[:5]),
        "machine": machine(),
        "code": {"source": source_hash()},
    }


def check_whole(summary: Summary, expected: int) -> None:
    """Exit with an error unless all methods were measured."""
    if summary.measured != expected:
        reasons = [*summary.missing.values(), *summary.refused, *summary.failed]
        raise SystemExit(f"{summary.measured} of {expected} methods were measured. {'; '.join(reasons)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        line = fit_all(peer_runs(QUICK_ROWS if quick else None), Path(folder) / "fits.jsonl")
    print(line)
    if not quick:
        append_record(RESULTS / "all_peers.jsonl", line)


if __name__ == "__main__":
    main()

"""Cost of the checks that all numbers are finite, as a share of a fit's processor time.

    python -m benchmarks.scripts.checks

The data are synthetic, of MNIST's size. The seconds spent in ``must_be_finite``, which checks between stages, and in
``check_finite_rows`` and ``check_finite``, which check the input, are summed during the fit. All times are processor
time, so that shares do not depend on other work on the machine. The result is one line of
benchmarks/results/checks.jsonl for the defaults and one for the published settings.
"""

import argparse
import sys
import time
from pathlib import Path

from benchmarks.measure import machine, source_hash
from benchmarks.records import append_record
from coterie import GuidedCoTraining, __version__
from coterie.datasets import make_views

HERE = Path(__file__).resolve().parents[1]
COLUMNS = (784, 512, 81)
CHECKS = {"must_be_finite": "stages", "check_finite_rows": "input", "check_finite": "input"}
spent: dict[str, list[float]] = {"stages": [], "input": []}


def watch_checks():
    """Wrap the checks in every module of the package, so that they record their seconds."""
    rooms = [module for name, module in list(sys.modules.items()) if name.startswith("coterie.")]
    rooms.remove(sys.modules["coterie.validation"])  # defines them: calls within it would be counted twice
    for room in rooms:
        for name, kind in CHECKS.items():
            if name in vars(room):
                setattr(room, name, timed(getattr(room, name), spent[kind]))


def timed(check, seconds):
    def measured(*args):
        started = time.thread_time()
        check(*args)
        seconds.append(time.thread_time() - started)

    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=70_000)
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    watch_checks()
    views = make_views(args.rows, 10, n_columns=COLUMNS, random_state=0).views
    GuidedCoTraining(10, random_state=0).fit({name: view[:2000] for name, view in views.items()})  # compiles
    for name, model in (
        ("defaults", GuidedCoTraining(10, random_state=0)),
        ("as published", GuidedCoTraining.as_published(10, random_state=0)),
    ):
        for seconds in spent.values():
            seconds.clear()
        started = time.process_time()
        model.fit(views)
        fit_s = time.process_time() - started
        record = {
            "fit": name,
            "rows": args.rows,
            "fit_s": round(fit_s, 2),
            "checks": {kind: len(seconds) for kind, seconds in spent.items()},
            "seconds": {kind: round(sum(seconds), 5) for kind, seconds in spent.items()},
            "share": {kind: round(sum(seconds) / fit_s, 6) for kind, seconds in spent.items()},
            "code": {"version": __version__, "source": source_hash()},
            "machine": machine(),
        }
        print(record, flush=True)
        if not args.dry:
            append_record(HERE / "results" / "checks.jsonl", record)


if __name__ == "__main__":
    main()

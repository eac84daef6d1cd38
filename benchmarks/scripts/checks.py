"""What it costs to look between stages whether all numbers are finite, as a share of a fit's time.

    python -m benchmarks.scripts.checks

Data of MNIST's size, made up. The seconds inside ``must_be_finite``, which looks between stages, and inside
``check_finite_rows`` and ``check_finite``, which look at the input, are added up while the fit runs, and so are the
fit's own, all as processor time: shares do not depend on what else the machine does. The result is one line of
benchmarks/results/checks.jsonl for each way to fit.
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
    """Let every check of every room write down its seconds."""
    rooms = [module for name, module in list(sys.modules.items()) if name.startswith("coterie.")]
    rooms.remove(sys.modules["coterie.validation"])  # where they are defined: a call within would be counted twice
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

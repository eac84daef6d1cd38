"""What it costs to look between stages whether all numbers are finite, as a share of a fit's time.

    python benchmarks/checks.py

Data of MNIST's size, made up. The seconds inside ``must_be_finite`` are added up while the fit runs, and so are the
fit's own, both as processor time: the share does not depend on what else the machine does. The result is one line of
benchmarks/results/checks.jsonl.
"""

import argparse
import time
from pathlib import Path

from coterie import GuidedCoTraining, __version__, assignment, cotraining, estimator, spectra
from coterie.bench.measure import machine, source_hash
from coterie.bench.records import append_record
from coterie.datasets import make_views
from coterie.validation import must_be_finite

HERE = Path(__file__).resolve().parent
COLUMNS = (784, 512, 81)
spent = []


def timed(stage, *arrays):
    started = time.thread_time()
    must_be_finite(stage, *arrays)
    spent.append(time.thread_time() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=70_000)
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    for room in (assignment, cotraining, estimator, spectra):
        room.must_be_finite = timed
    views = make_views(args.rows, 10, n_columns=COLUMNS, random_state=0).views
    GuidedCoTraining(10, random_state=0).fit({name: view[:2000] for name, view in views.items()})  # compiles
    for name, model in (
        ("defaults", GuidedCoTraining(10, random_state=0)),
        ("as published", GuidedCoTraining.as_published(10, random_state=0)),
    ):
        spent.clear()
        started = time.process_time()
        model.fit(views)
        seconds = time.process_time() - started
        record = {
            "fit": name,
            "rows": args.rows,
            "checks": len(spent),
            "checks_s": round(sum(spent), 5),
            "fit_s": round(seconds, 2),
            "share": round(sum(spent) / seconds, 6),
            "code": {"version": __version__, "source": source_hash()},
            "machine": machine(),
        }
        print(record, flush=True)
        if not args.dry:
            append_record(HERE / "results" / "checks.jsonl", record)


if __name__ == "__main__":
    main()

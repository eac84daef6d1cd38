"""Odd fits by the thousand: each must succeed with finite, complete results, or be refused by an error of ours.

    python -m benchmarks.scripts.campaign_fits --cases 20000 --processes 16

Case number i is always the same fit (tests/odd_fits.py), and ``python tests/odd_fits.py i`` repeats it; one in ten has
up to 5,000 rows. It needs NumPy, SciPy, scikit-learn, numba, pandas, polars and torch. The results are lines of
benchmarks/results/campaign_fits.jsonl, one for every ``--batch`` cases, with counts of what came of them and every
failure. Cases that have a result of this code are left out, so a campaign that was stopped goes on.
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from benchmarks.campaigns import RESULTS, batches_left, write_line

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from odd_fits import numbered_fit, outcome

FILE = RESULTS / "campaign_fits.jsonl"
CHUNK = 20


def run_cases(numbers):
    """Return counts of outcomes, the slowest case's processor seconds and number, and what failed."""
    counts, slowest, failures = Counter(), (0.0, -1), []
    for number in numbers:
        started = time.process_time()  # of all threads: how long a case takes depends on what else the machine does
        case = numbered_fit(number)
        try:
            found = outcome(case)
        except Exception as error:
            found = "failed"
            failures.append({"case": number, "error": f"{type(error).__name__}: {error}"[:300], "fit": repr(case)})
        counts[found] += 1
        slowest = max(slowest, (time.process_time() - started, number))
    return counts, slowest, failures


def run_alone(number):
    """Return what came of one case in a process of its own, which may die."""
    try:
        with ProcessPoolExecutor(1) as pool:
            return pool.submit(run_cases, [number]).result()
    except BrokenProcessPool:
        return Counter(crashed=1), (0.0, number), [{"case": number, "error": "the process died", "fit": ""}]


def run_batch(numbers, n_processes):
    """Yield what came of the cases; those that a dying process took with it are tried again, one by one."""
    chunks = [numbers[at : at + CHUNK] for at in range(0, len(numbers), CHUNK)]
    with ProcessPoolExecutor(n_processes) as pool:
        waiting = [(chunk, pool.submit(run_cases, chunk)) for chunk in chunks]
        for chunk, future in waiting:
            try:
                yield future.result()
            except BrokenProcessPool:
                yield from map(run_alone, chunk)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--batch", type=int, default=1000, help="cases of a line of results")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no batch after this long")
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    begun, bad = time.perf_counter(), 0
    for numbers in batches_left(FILE, args.first, args.cases, args.batch):
        started = time.perf_counter()
        if started - begun > args.seconds:
            break
        counts, slowest, failures = Counter(), (0.0, -1), []
        for found in run_batch(numbers, args.processes):
            counts += found[0]
            slowest = max(slowest, found[1])
            failures += found[2]
        line = {
            "cases": len(numbers),
            "first": numbers[0],
            "outcomes": dict(counts.most_common()),
            "failures": failures,
            "slowest_cpu_s": round(slowest[0], 2),
            "slowest_case": slowest[1],
            "seconds": round(time.perf_counter() - started, 1),
        }
        print(line, flush=True)
        bad += len(failures)
        if not args.dry:
            write_line(FILE, line)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

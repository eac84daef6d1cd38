"""Odd fits by the thousand: each must succeed with finite, complete results, or be refused by an error of ours.

    python -m benchmarks.scripts.campaign_fits --cases 20000

Case number i is always the same fit (tests/odd_fits.py), and ``python tests/odd_fits.py i`` repeats it. The result is
one line of benchmarks/results/campaign_fits.jsonl, with counts of what came of the cases and every failure.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.measure import machine, source_hash
from benchmarks.records import append_record
from coterie import __version__

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE.parent / "tests"))

from odd_fits import numbered_fit, outcome  # noqa: E402

CHUNK = 100


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    started = time.perf_counter()
    stop = args.first + args.cases
    chunks = [range(at, min(at + CHUNK, stop)) for at in range(args.first, stop, CHUNK)]
    counts, slowest, failures = Counter(), (0.0, -1), []
    with ProcessPoolExecutor(args.processes) as pool:
        for found in pool.map(run_cases, chunks):
            counts += found[0]
            slowest = max(slowest, found[1])
            failures += found[2]
            print(f"{counts.total()} of {args.cases} cases", flush=True)
            for failure in found[2]:
                print(*failure.values(), sep="\n    ", flush=True)
    record = {
        "cases": args.cases,
        "first": args.first,
        "outcomes": dict(counts.most_common()),
        "failures": failures,
        "slowest_cpu_s": round(slowest[0], 2),
        "slowest_case": slowest[1],
        "seconds": round(time.perf_counter() - started, 1),
        "code": {"version": __version__, "source": source_hash()},
        "machine": machine(),
    }
    print({**record, "failures": len(failures)})
    if not args.dry:
        append_record(HERE / "results" / "campaign_fits.jsonl", record)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

"""Thousands of odd fits: each must succeed with finite, complete results, or be refused by an error of ours.

    python -m benchmarks.scripts.campaign_fits --cases 20000 --jobs 16 --stop-after 500

Case number i is always the same fit (tests/odd_fits.py), and ``python tests/odd_fits.py i`` repeats it; one in ten has
up to 5,000 rows. It needs NumPy, SciPy, scikit-learn, numba, pandas, polars and torch. The results are lines of
benchmarks/results/campaign_fits.jsonl, one for every ``--batch`` cases, with counts of the outcomes and every failure.
Cases that have a result of the current code are skipped, so that a stopped campaign continues.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path

from benchmarks.campaigns import Case, Limits, add_options, run_campaign

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from odd_fits import numbered_fit, outcome

REHEARSED = 30  # after this many fits, most kernels are compiled


def look(target, number):
    """Return the outcome of a fit."""
    started = time.process_time()  # unlike wall-clock time, independent of other work on the machine
    fit = numbered_fit(number)
    try:
        found, details = outcome(fit), ""
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        found, said = "error", f"{type(error).__name__}: {error}"[:150]
        details = f"{said} ({Path(place.filename).name}, line {place.lineno}) {fit!r}"
    return Case(found, details=details, seconds=time.process_time() - started)


def begin():
    """Compile the kernels and return ``look``; runs in every worker, in the first one before the others start."""
    for number in range(REHEARSED):
        look("fits", number)
    return look


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, cases=20_000, batch=5000)
    args = parser.parse_args()
    if args.only is not None:
        print(numbered_fit(args.only), look("fits", args.only))
        return
    limits = Limits(case=600, campaign=args.stop_after)
    sys.exit(bool(run_campaign("campaign_fits.jsonl", ["fits"], begin, args, limits)))


if __name__ == "__main__":
    main()

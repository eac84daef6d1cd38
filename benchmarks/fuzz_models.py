"""Mutated model files by the thousand: each must be refused in one clear line, or load to a model that is of use.

    python benchmarks/fuzz_models.py --cases 20000 --processes 2

Case number i of a seed is always the same file. A failure is any other error, labels that cannot be, a load that takes
more than ten seconds, or a process that dies; its number is printed, and ``--only NUMBER`` repeats it. The result is
one line of benchmarks/results/fuzz.jsonl.
"""

import argparse
import signal
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from coterie import GuidedCoTraining, __version__
from coterie.bench.measure import machine, source_hash
from coterie.bench.records import append_record
from coterie.datasets import make_views
from coterie.formats.container import ModelFileError
from coterie.saving import load, save

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
sys.path.insert(0, str(TESTS))

from mutate_models import mutant, outcome  # noqa: E402

GOOD = TESTS / "data" / "model_v1"
CHUNK = 200
LIMIT = 10  # seconds


def good_models():
    """Return two files that hold every kind of part between them, each with rows for its model."""
    with np.load(GOOD.with_suffix(".npz")) as stored:
        views = {name: stored[name][:7] for name in ("numbers", "words", "links")}
    views = {name: view if name == "numbers" else sparse.csr_array(view) for name, view in views.items()}
    table = np.hstack(list(make_views(150, 3, n_columns=(6, 4), separation=6, random_state=0).views.values()))
    frame = pd.DataFrame(table, columns=list("abcdefghij"))
    groups = {"left": slice(0, 6), "right": list("ghij")}
    settings = dict(views=groups, n_landmarks=40, n_neighbors=[4, 8], store_embedding=True, random_state=0)
    model = GuidedCoTraining("auto", **settings).fit(frame)
    with tempfile.TemporaryDirectory() as folder:
        second = save(model, Path(folder) / "second", rows=True).read_bytes()
    return [(GOOD.with_suffix(".coterie").read_bytes(), views), (second, frame[:7])]


def make_case(models, seed, number):
    """Return the kind of damage, the damaged file, and rows to try it on."""
    good, rows = models[number % len(models)]
    return *mutant(good, np.random.default_rng([seed, number])), rows


def too_long(signum, frame):
    raise TimeoutError(f"more than {LIMIT} s")


def peak_of_load(path):
    """Return the most memory that loading a file took, whatever came of it."""
    tracemalloc.start()
    try:
        load(path)
    except ModelFileError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def run_cases(models, seed, numbers):
    """Return counts of outcomes, the slowest case, the largest share of memory, and failures."""
    size = max(len(good) for good, _ in models)
    counts, slowest, memory, failures = Counter(), 0.0, 0.0, []
    signal.signal(signal.SIGALRM, too_long)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.coterie"
        for number in numbers:
            kind, data, rows = make_case(models, seed, number)
            path.write_bytes(data)
            started = time.perf_counter()
            signal.alarm(LIMIT)
            try:
                found = outcome(path, rows)
                memory = max(memory, peak_of_load(path) / size)
            except Exception as error:
                found = f"failed: {type(error).__name__}: {error}"
            signal.alarm(0)
            slowest = max(slowest, time.perf_counter() - started)
            counts[kind, found if found in ("refused", "loaded", "loaded, for other rows") else "failed"] += 1
            if found.startswith(("failed", "unclear")):
                failures.append((number, kind, found))
    return counts, slowest, memory, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, help="repeat one case, and let its error out")
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    models = good_models()
    if args.only is not None:
        kind, data, rows = make_case(models, args.seed, args.only)
        path = Path(tempfile.mkdtemp()) / "mutant.coterie"
        path.write_bytes(data)
        print(kind, outcome(path, rows))
        return
    started = time.perf_counter()
    chunks = [range(at, min(at + CHUNK, args.cases)) for at in range(0, args.cases, CHUNK)]
    counts, slowest, memory, failures = Counter(), 0.0, 0.0, []
    with ProcessPoolExecutor(args.processes) as pool:
        for found in pool.map(partial(run_cases, models, args.seed), chunks):
            counts += found[0]
            slowest, memory = max(slowest, found[1]), max(memory, found[2])
            failures += found[3]
            for failure in found[3]:
                print(*failure, flush=True)
    by_kind = {}
    for (kind, found), count in sorted(counts.items()):
        by_kind.setdefault(kind, {})[found] = count
    record = {
        "target": "model files",
        "cases": args.cases,
        "seed": args.seed,
        "outcomes": by_kind,
        "failures": len(failures),
        "slowest_s": round(slowest, 3),
        "peak_memory_in_file_sizes": round(memory, 2),
        "seconds": round(time.perf_counter() - started, 1),
        "code": {"version": __version__, "source": source_hash()},
        "machine": machine(),
    }
    print(record)
    if not args.dry:
        append_record(HERE / "results" / "fuzz.jsonl", record)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

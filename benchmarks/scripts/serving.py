"""Time of labelling new rows: the start of a process, single rows, and batches.

    python -m benchmarks.scripts.serving [--rows 50000] [--results FILE]

A model of digits (four views, 1,797 rows) is saved; every figure is of a process that loads that file. The start is
measured in processor seconds, which other work on the machine disturbs less, of the fastest of three processes.
Latencies are medians and 99th percentiles of single calls; ``core_seconds`` is the processor time of a call, over all
cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import machine, source_hash, versions

START = """
import json, sys, time
import numpy as np

rows = dict(np.load(sys.argv[1] + "/rows.npz"))
one = {name: view[:1] for name, view in rows.items()}
now = time.process_time
times, started = {}, now()
import sklearn.base, numba
times["import_sklearn_numba"] = now() - started
started = now()
import coterie
model = coterie.load(sys.argv[1] + "/model.coterie")
times["import_and_load"] = now() - started
started = now()
model.predict(one)
times["first_row"] = now() - started
from coterie.kernels import _numba
compiled = [f for f in vars(_numba).values() if hasattr(f, "stats") and sum(f.stats.cache_misses.values())]
times["compiled"] = len(compiled)
print(json.dumps(times))
"""

PREDICTOR = """
import json, sys, time
import numpy as np

one = {name: view[:1] for name, view in dict(np.load(sys.argv[1] + "/rows.npz")).items()}
now = time.process_time
times, started = {}, now()
from coterie.serving import Predictor
model = Predictor(sys.argv[1] + "/model.coterie")
times["import_and_load"] = now() - started
started = now()
model.predict(one)
times["first_row"] = now() - started
print(json.dumps(times))
"""

BATCHES = """
import json, sys, time
import numpy as np
import coterie

rows = dict(np.load(sys.argv[1] + "/rows.npz"))
n = int(sys.argv[2])
model = coterie.load(sys.argv[1] + "/model.coterie")
whole = {name: np.tile(view, (-(-n // len(view)), 1))[:n] for name, view in rows.items()}
model.predict({name: view[:2000] for name, view in whole.items()})
found = []
for size in (1, 10, 100, 1000, 10000, n):
    part = {name: view[:size] for name, view in whole.items()}
    calls = max(3, min(300, 20000 // size))
    seconds, used = [], time.process_time()
    for _ in range(calls):
        started = time.perf_counter()
        model.predict(part)
        seconds.append(time.perf_counter() - started)
    used = time.process_time() - used
    found.append({"batch": size, "calls": calls, "median": float(np.median(seconds)),
                  "p99": float(np.quantile(seconds, 0.99)), "rows_a_second": size / float(np.median(seconds)),
                  "core_seconds": used / calls})
print(json.dumps(found))
"""


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/serving.jsonl"))
    given = parser.parse_args()
    import numpy as np

    import coterie
    from coterie.datasets import load_digit_views

    views = load_digit_views().views
    with tempfile.TemporaryDirectory() as folder:
        model = coterie.GuidedCoTraining(10, random_state=0).fit(views)
        size = coterie.save(model, Path(folder) / "model.coterie").stat().st_size
        np.savez(Path(folder) / "rows.npz", **views)
        run(START, folder)  # fills the cache of compiled code
        starts = [run(START, folder) for _ in range(3)]
        predictors = [run(PREDICTOR, folder) for _ in range(3)]
        batches = run(BATCHES, folder, given.rows)
    record = {
        "data": "digits",
        "views": len(views),
        "columns": sum(view.shape[1] for view in views.values()),
        "megabytes": size / 1e6,
        "start": min(starts, key=lambda times: sum(times.values())),
        "start_predictor": min(predictors, key=lambda times: sum(times.values())),
        "batches": batches,
        "load": [round(load, 1) for load in os.getloadavg()],
        "machine": machine(),
        "versions": versions(),
        "code": {"source": source_hash()},
    }
    with open(given.results, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()

"""Cost of the command line: fit and predict from parquet files, beside the Python API on arrays read from them.

    python -m benchmarks.scripts.cli [--rows 1000000] [--columns 16 8] [--rounds 2] [--results FILE]

Both alternate in processes of their own, and the best of the rounds is used. The command line's time is that of two
whole processes, from start to end. The API reads the files to arrays, fits and predicts in one process: ``ratio``
counts these steps without the start of Python, imports and writing, ``ratio_of_processes`` the whole process. Both read
the files once for the fit and once for predict. ``cpu`` is processor time (of the API's whole process), which other
work on the machine disturbs less.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import machine, source_hash, versions
from coterie.datasets import iterate_views

K = 10
AGAIN = ("--json", "--overwrite")  # the rounds write the same files
OURS = ("fit", "predict")
THEIRS = ("read", "fit", "read_again", "predict")

API = """
import json, sys, time
import numpy as np
import pyarrow.parquet as pq
from coterie import GuidedCoTraining

names, k = ("a", "b"), int(sys.argv[1])

def read():
    return {name: np.column_stack([column.to_numpy() for column in pq.read_table(f"{name}.parquet").columns])
            for name in names}

times = {}
started = time.perf_counter()
views = read()
times["read"] = time.perf_counter() - started
started = time.perf_counter()
model = GuidedCoTraining(k, random_state=0).fit(views)
times["fit"] = time.perf_counter() - started
del views
started = time.perf_counter()
views = read()
times["read_again"] = time.perf_counter() - started
started = time.perf_counter()
labels = model.predict(views)
times["predict"] = time.perf_counter() - started
np.save("api.npy", labels)
print(json.dumps(times))
"""


def write_files(folder, n_rows, n_columns):
    """Write two views to parquet, as float32, in row groups of 100,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = list(iterate_views(n_rows, K, n_columns=tuple(n_columns), separation=5, random_state=0))
    for name, view in zip("ab", parts[0].views, strict=True):
        values = np.concatenate([part.views[view] for part in parts])  # (n, d)
        columns = {f"{name}{i}": np.ascontiguousarray(values[:, i]) for i in range(values.shape[1])}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=100_000)


def run(command, folder):
    """Return the wall-clock and processor seconds of a process, and the JSON that it printed."""
    before, started = core_seconds(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - started, core_seconds() - before, json.loads(done.stdout)


def core_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command_line(folder):
    coterie = [sys.executable, "-m", "coterie"]
    files = ["a.parquet", "b.parquet"]
    fit = [*coterie, "fit", *files, "-k", str(K), "--labels", "fit.parquet", "--model", "m.coterie"]
    predict = [*coterie, "predict", "m.coterie", *files, "--labels", "new.npy"]
    fit_seconds, fit_cpu, fit_said = run([*fit, *AGAIN], folder)
    predict_seconds, predict_cpu, predict_said = run([*predict, *AGAIN], folder)
    return {
        "fit": fit_seconds,
        "predict": predict_seconds,
        "inside_fit": fit_said["seconds"],
        "inside_predict": predict_said["seconds"],
        "cpu": fit_cpu + predict_cpu,
    }


def api(folder):
    seconds, cpu, said = run([sys.executable, "-c", API, str(K)], folder)
    return {**said, "process": seconds, "cpu": cpu}


def total(found, parts):
    return sum(found[part] for part in parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, nargs=2, default=[16, 8])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/cli.jsonl"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, asked.rows, asked.columns)
        ours, theirs = [], []
        for _ in range(asked.rounds):
            ours.append(command_line(folder))
            theirs.append(api(folder))
        same = float(np.mean(np.load(folder / "new.npy") == np.load(folder / "api.npy")))
        size = sum(file.stat().st_size for file in folder.glob("[ab].parquet"))
    line = min(ours, key=lambda found: total(found, OURS))
    arrays = min(theirs, key=lambda found: total(found, THEIRS))
    record = {
        "rows": asked.rows,
        "columns": asked.columns,
        "clusters": K,
        "megabytes": round(size / 1e6, 1),
        "command_line": {part: round(value, 3) for part, value in line.items()},
        "api": {part: round(value, 3) for part, value in arrays.items()},
        "ratio": round(total(line, OURS) / total(arrays, THEIRS), 3),
        "ratio_of_processes": round(total(line, OURS) / arrays["process"], 3),
        "same_labels": same,
        "ratio_of_cpu": round(min(run["cpu"] for run in ours) / min(run["cpu"] for run in theirs), 3),
        "ratio_by_round": [round(total(a, OURS) / total(b, THEIRS), 3) for a, b in zip(ours, theirs, strict=True)],
        "load": [round(value, 1) for value in os.getloadavg()],
        "code": {"source": source_hash()},
        "machine": machine(),
        "versions": versions(),
    }
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    with open(asked.results, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()

"""One model used by many at once: the same labels as alone, and no slower than one after the other.

    python -m benchmarks.scripts.sharing

Forty threads predict with one loaded model, then eight processes load one model file and predict, each all parts of the
rows. Their seconds are compared with those of one caller that does the work of one of them: all together may take no
longer than if they came one after the other, so eight processes no longer than eight times one. All start together,
when each has loaded the model and predicted once. The results are lines of benchmarks/results/sharing.jsonl.
"""

import argparse
import sys
import tempfile
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import coterie
from benchmarks.campaigns import RESULTS, write_line
from coterie import GuidedCoTraining
from coterie.datasets import make_views

THREADS, PROCESSES = 40, 8
ROWS, PARTS, REPEATS = 20_000, 10, 3
processes = get_context("spawn")


def parts_of(n_rows):
    """Return the rows in parts, by view."""
    views = make_views(n_rows, 6, n_columns=(40, 20), random_state=0).views
    size = n_rows // PARTS
    return [{name: view[at : at + size] for name, view in views.items()} for at in range(0, n_rows, size)]


def predict_all(model, parts, first=0):
    """Return the labels of all parts; callers begin with different ones."""
    order = [(first + i) % len(parts) for i in range(len(parts))]
    found = {number: np.asarray(model.predict(parts[number])) for number in order}
    return np.concatenate([found[number] for number in range(len(parts))])


def seconds_alone(model, parts):
    """Return the least seconds of one caller, which has the machine to itself."""
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        predict_all(model, parts)
        taken.append(time.perf_counter() - started)
    return min(taken)


def in_threads(model, parts, expected):
    """Return the seconds that forty threads take together, and how many found other labels or failed."""
    barrier, wrong = threading.Barrier(THREADS + 1), []

    def call(number):
        barrier.wait()
        try:
            if not np.array_equal(predict_all(model, parts, number), expected):
                wrong.append("other labels")
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}"[:200])

    threads = [threading.Thread(target=call, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started, wrong


def serve(path, n_rows, number, barrier, results):
    """Load the model, predict when all are ready, and send the labels; runs in a process of its own."""
    parts = parts_of(n_rows)
    model = coterie.load(path)
    predict_all(model, parts)
    barrier.wait()
    labels = predict_all(model, parts, number)
    results.put((number, time.perf_counter(), labels.tobytes()))


def in_processes(path, n_rows, expected):
    """Return the seconds that eight processes take together, and how many found other labels or failed."""
    barrier, results = processes.Barrier(PROCESSES + 1), processes.Queue()
    callers = [
        processes.Process(target=serve, args=(path, n_rows, number, barrier, results)) for number in range(PROCESSES)
    ]
    for caller in callers:
        caller.start()
    barrier.wait(600)
    started = time.perf_counter()  # the same clock in all processes
    found = [results.get(timeout=600) for _ in callers]
    for caller in callers:
        caller.join(60)
    wrong = ["other labels" for *_, labels in found if labels != expected.tobytes()]
    wrong += [f"exit code {caller.exitcode}" for caller in callers if caller.exitcode]
    return max(ended for _, ended, _ in found) - started, wrong


def record(kind, callers, seconds, alone, wrong):
    return {
        "target": kind,
        "callers": callers,
        "rows": ROWS,
        "seconds": round(seconds, 3),
        "seconds_alone": round(alone, 3),
        "times_alone": round(seconds / alone, 2),
        "findings": wrong,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    parts = parts_of(ROWS)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    model = GuidedCoTraining(6, random_state=0, n_init=2).fit(whole)
    with tempfile.TemporaryDirectory() as folder:
        path = coterie.save(model, Path(folder) / "model.coterie")
        loaded = coterie.load(path)
        expected = predict_all(loaded, parts)
        if not np.array_equal(expected, model.labels_):
            raise AssertionError("A loaded model predicts other labels than the fit found.")
        alone = seconds_alone(loaded, parts)
        seconds, wrong = in_threads(loaded, parts, expected)
        lines = [record("threads", THREADS, seconds, alone, wrong)]
        seconds, wrong = in_processes(path, ROWS, expected)
        lines.append(record("processes", PROCESSES, seconds, alone, wrong))
    for line in lines:
        print(line)
        if not args.dry:
            write_line(RESULTS / "sharing.jsonl", line)
    sys.exit(any(line["findings"] or line["times_alone"] > line["callers"] for line in lines))


if __name__ == "__main__":
    main()

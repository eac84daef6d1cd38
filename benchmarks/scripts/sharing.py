"""One model used by many callers at once: the same labels as alone, and no slower than one after the other.

    python -m benchmarks.scripts.sharing

Forty threads predict with one loaded model, then eight processes that have each loaded the same model file; every
caller predicts all parts of the rows. In every repeat, one caller works while the others wait, and then all work:
directly one after the other, so that other work on the machine slows both. All callers together may take no longer than
in sequence, so eight processes at most eight times as long as one. The median over the repeats must satisfy this; every
ratio is recorded, and so is the processor time per caller relative to one alone, which other work on the machine hardly
disturbs. The results are lines of benchmarks/results/sharing.jsonl.
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
ROWS, PARTS, REPEATS = 20_000, 10, 5
PASSES = {"threads": 1, "processes": 5}  # over all parts per turn: more for eight callers, which would finish sooner
LIMIT_SECONDS = 1200
processes = get_context("spawn")


def parts_of(n_rows):
    """Return the rows in PARTS parts, each a dict of views."""
    views = make_views(n_rows, 6, n_columns=(40, 20), random_state=0).views
    size = n_rows // PARTS
    return [{name: view[at : at + size] for name, view in views.items()} for at in range(0, n_rows, size)]


def predict_all(model, parts, first=0):
    """Return the labels of all parts, predicted from part ``first`` on, so that callers begin with different parts."""
    order = [(first + i) % len(parts) for i in range(len(parts))]
    found = {number: np.asarray(model.predict(parts[number])) for number in order}
    return np.concatenate([found[number] for number in range(len(parts))])


def take_turns(call, number, barrier, clock):
    """Return (start, end, processor seconds) of the turns, alternately of the first caller alone and of all callers."""
    found = []
    for _ in range(REPEATS):
        for works in (number == 0, True):
            barrier.wait(LIMIT_SECONDS)
            started, cpu = time.perf_counter(), clock()
            if works:
                call()
            found.append((started, time.perf_counter(), clock() - cpu))
    return found


def checked_call(model, parts, number, expected, wrong, passes):
    """Return a function that predicts all parts and appends wrong labels and errors to ``wrong``."""

    def call():
        try:
            if not all(np.array_equal(predict_all(model, parts, number), expected) for _ in range(passes)):
                wrong.append("other labels")
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}"[:200])

    return call


def in_threads(model, parts, expected):
    """Return the turns of every thread, and all wrong labels and errors."""
    barrier, wrong, turns = threading.Barrier(THREADS), [], {}

    def work(number):
        call = checked_call(model, parts, number, expected, wrong, PASSES["threads"])
        turns[number] = take_turns(call, number, barrier, time.process_time)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [turns[number] for number in range(THREADS)], wrong


def serve(path, expected, number, barrier, results):
    """Load the model and take turns; runs in a process of its own."""
    wrong, parts = [], parts_of(ROWS)
    call = checked_call(coterie.load(path), parts, number, expected, wrong, PASSES["processes"])
    call()  # compiles and loads everything before the first turn
    results.put((number, take_turns(call, number, barrier, time.process_time), wrong))


def in_processes(path, expected):
    """Return the turns of every process, and all wrong labels and errors."""
    barrier, results = processes.Barrier(PROCESSES), processes.Queue()
    arguments = [(path, expected, number, barrier, results) for number in range(PROCESSES)]
    callers = [processes.Process(target=serve, args=own) for own in arguments]
    for caller in callers:
        caller.start()
    found = sorted(results.get(timeout=LIMIT_SECONDS) for _ in callers)
    for caller in callers:
        caller.join(60)
    wrong = [one for *_, own in found for one in own]
    wrong += [f"exit code {caller.exitcode}" for caller in callers if caller.exitcode]
    return [turns for _, turns, _ in found], wrong


def record(kind, turns, wrong, shared_clock):
    """Return a line of results; a ``shared_clock`` (of threads) measures the processor time of all callers."""
    alone = [turns[0][2 * i] for i in range(REPEATS)]
    together = [[own[2 * i + 1] for own in turns] for i in range(REPEATS)]
    lasted = [max(end for _, end, _ in every) - min(start for start, _, _ in every) for every in together]
    cpu = [max(c for *_, c in every) if shared_clock else sum(c for *_, c in every) for every in together]
    ratios = [all_s / (end - start) for all_s, (start, end, _) in zip(lasted, alone, strict=True)]
    work = [all_cpu / (len(turns) * one) for all_cpu, (*_, one) in zip(cpu, alone, strict=True)]
    return {
        "target": kind,
        "callers": len(turns),
        "rows": ROWS * PASSES[kind],
        "seconds": round(float(np.median(lasted)), 3),
        "seconds_alone": round(float(np.median([end - start for start, end, _ in alone])), 3),
        "times_alone": round(float(np.median(ratios)), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "work_per_caller": round(float(np.median(work)), 2),
        "findings": wrong,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
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
        lines = [
            record("threads", *in_threads(loaded, parts, expected), shared_clock=True),
            record("processes", *in_processes(path, expected), shared_clock=False),
        ]
    for line in lines:
        print(line)
        if not args.dry:
            write_line(args.results / "sharing.jsonl", line)
    sys.exit(any(line["findings"] or line["times_alone"] > line["callers"] for line in lines))


if __name__ == "__main__":
    main()

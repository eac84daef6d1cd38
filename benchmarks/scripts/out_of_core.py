"""More rows than fit in memory: a fit from files under a memory limit, beside one in memory, and killed jobs.

    python -m benchmarks.scripts.out_of_core FOLDER [--rows 20000000] [--part 2000000] [--kills 10] [--parts ...]

Two .npy files (64 + 32 columns of float32) and the files of the fits are written to FOLDER, which is not removed.
``limit`` compares a fit of all rows with memory_limit="2GB" to fits of the first rows, in memory and from files: rows
per second of wall-clock time and of processor time, peak resident memory, and the agreement of labels. ``kills`` ends a
smaller job with SIGKILL at random moments, resumes it each time, and compares its labels to those of an undisturbed
run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import machine, source_hash, versions
from coterie.datasets import iterate_views

K = 10
COLUMNS = {"a": 64, "b": 32}


def write_files(folder, n_rows):
    """Write the views block by block, unless the files exist."""
    paths = [folder / f"{name}.npy" for name in COLUMNS]
    if all(path.exists() and np.load(path, mmap_mode="r").shape[0] == n_rows for path in paths):
        return
    shapes = [(n_rows, width) for width in COLUMNS.values()]
    files = [np.lib.format.open_memmap(p, "w+", np.float32, s) for p, s in zip(paths, shapes, strict=True)]
    at = 0
    for block in iterate_views(n_rows, K, n_columns=tuple(COLUMNS.values()), separation=5, random_state=0):
        for file, values in zip(files, block.views.values(), strict=True):
            file[at : at + len(values)] = values
        at += len(block.target)


def fit_here(folder, how, n_rows, limit, work_dir, out):
    """Fit in this process and print its time and memory as JSON for the parent."""
    from coterie import GuidedCoTraining

    maps = [np.load(folder / f"{name}.npy", mmap_mode="r")[:n_rows] for name in COLUMNS]
    views = [np.array(view) for view in maps] if how == "memory" else maps
    model = GuidedCoTraining(K, random_state=0, memory_limit=limit, work_dir=work_dir)
    wall, cores = time.perf_counter(), time.process_time()
    model.fit(views)
    found = {"seconds": time.perf_counter() - wall, "core_seconds": time.process_time() - cores}
    np.save(out, model.labels_)
    found["peak_megabytes"] = peak_megabytes()
    found["stages"] = {name: round(seconds, 2) for name, seconds in model.timings_.items()}
    print(json.dumps(found))


def peak_megabytes():
    """Return the peak resident memory; that of getrusage may include the parent's, from before exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def command(folder, how, n_rows, limit=None, work_dir=None, out="labels.npy"):
    words = {"how": how, "n_rows": n_rows, "limit": limit, "work_dir": work_dir and str(work_dir), "out": str(out)}
    return [sys.executable, "-m", "benchmarks.scripts.out_of_core", str(folder), "--job", json.dumps(words)]


def fit(folder, how, n_rows, **settings):
    """Fit in a process of its own."""
    done = subprocess.run(command(folder, how, n_rows, **settings), stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    rates = {"rows_a_second": n_rows / found["seconds"], "rows_a_core_second": n_rows / found["core_seconds"]}
    return {"rows": n_rows, **{name: round(value, 1) for name, value in {**found, **rates}.items() if name != "stages"},
            "stages": found["stages"]}  # fmt: skip


def measure_limit(folder, n_rows, n_part, limit):
    from coterie.metrics import ari

    outs = {name: folder / f"{name}.labels.npy" for name in ("memory", "files", "all")}
    in_memory = fit(folder, "memory", n_part, out=outs["memory"])
    os.environ["TMPDIR"] = str(folder)
    part = fit(folder, "files", n_part, limit="1GB", out=outs["files"])
    everything = fit(folder, "files", n_rows, limit=limit, out=outs["all"])
    labels = {name: np.load(path) for name, path in outs.items()}
    return {
        "measured": "limit",
        "limit": limit,
        "gigabytes": sum(COLUMNS.values()) * 4 * n_rows / 1e9,
        "in_memory": in_memory,
        "part_in_files": part,
        "all_in_files": everything,
        "ari_of_part": ari(labels["memory"], labels["files"]),
        "ari_of_all_on_part": ari(labels["memory"], labels["all"][:n_part]),
        "rate_ratio": round(everything["rows_a_second"] / in_memory["rows_a_second"], 3),
        "core_rate_ratio": round(everything["rows_a_core_second"] / in_memory["rows_a_core_second"], 3),
    }


def measure_kills(folder, n_rows, n_kills):
    """Kill a job at random moments of its expected time, resume it, and compare its labels."""
    rng = np.random.default_rng()
    quiet = fit(folder, "memory", n_rows, out=folder / "quiet.labels.npy")
    expected = np.load(folder / "quiet.labels.npy")
    undisturbed = time.perf_counter()
    fit(folder, "files", n_rows, work_dir=folder / "work", out=folder / "killed.labels.npy")
    undisturbed = time.perf_counter() - undisturbed
    lines, kills = [], 0
    while kills < n_kills:
        job = command(folder, "files", n_rows, work_dir=folder / "work", out=folder / "killed.labels.npy")
        (folder / "killed.labels.npy").unlink(missing_ok=True)
        process = subprocess.Popen(job, stdout=subprocess.DEVNULL)
        wait = rng.uniform(0.2, 1.0) * undisturbed
        try:
            process.wait(wait)
            continue  # it finished before the kill
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
        steps = sorted(path.name for path in (folder / "work").glob("*/step_*"))
        taken_up = fit(folder, "files", n_rows, work_dir=folder / "work", out=folder / "killed.labels.npy")
        same = bool((np.load(folder / "killed.labels.npy") == expected).all())
        lines.append({"after": round(wait, 2), "steps": len(steps), "left": taken_up["seconds"], "same": same})
    return {"measured": "kills", "rows": n_rows, "seconds": undisturbed, "in_memory": quiet["seconds"], "kills": lines}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--part", type=int, default=2_000_000)
    parser.add_argument("--limit", default="2GB")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--kill-rows", type=int, default=1_000_000)
    parser.add_argument("--parts", nargs="+", default=["limit", "kills"])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/out_of_core.jsonl"))
    parser.add_argument("--job", type=json.loads)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.job:
        return fit_here(asked.folder, **asked.job)
    write_files(asked.folder, asked.rows)
    for part in asked.parts:
        if part == "limit":
            record = measure_limit(asked.folder, asked.rows, asked.part, asked.limit)
        else:
            record = measure_kills(asked.folder, asked.kill_rows, asked.kills)
        record |= {"load": [round(value, 1) for value in os.getloadavg()], "machine": machine(), "versions": versions()}
        record |= {"code": {"source": source_hash()}}
        asked.results.parent.mkdir(parents=True, exist_ok=True)
        with open(asked.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record, indent=1))
    return None


if __name__ == "__main__":
    main()

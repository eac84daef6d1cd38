"""Jobs on disk that are killed and damaged: each must give the undisturbed result, or be refused by a clear error.

    python -m benchmarks.scripts.damage kills --cases 50 --jobs 16
    python -m benchmarks.scripts.damage checkpoints --cases 5000 --jobs 16 --stop-after 500

``kills``: a fit in a process of its own is killed (SIGKILL) at a random moment; after every second kill, one byte of
one finished file is changed. Then the fit is resumed. ``checkpoints``: a fit is stopped between two stages; one or
several of its files are damaged (flipped bits, zeros, truncation, files of other steps), and it is resumed in a
supervised process that runs many cases. Case number i of a seed is always the same damage, and ``--only`` repeats it.
Cases that have a result are skipped, so that a stopped campaign continues; the results are lines of
benchmarks/results/damage.jsonl, one for every ``--batch`` cases.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.campaigns import Case, Limits, add_options, run_campaign
from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.progress import listening

CASE_SECONDS = 300
forked = get_context("fork")


def data(n_rows):
    """Return two views of four clusters."""
    return list(make_views(n_rows, n_clusters=4, separation=3, random_state=0).views.values())[:2]


def model(folder, **settings):
    small = {"n_landmarks": 60, "n_neighbors": 5, "max_iter": 4, "tol": 0, "n_init": 2, "block_size": 100, "n_jobs": 1}
    return GuidedCoTraining(4, random_state=5, work_dir=folder, **{**small, **settings})


def stored_files(folder):
    """Return the non-empty files of a job."""
    return sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size)


# -- kills ----------------------------------------------------------------------------------------------------------

KILLED = {"n_landmarks": 200, "max_iter": 12, "block_size": 50}
KILLED_ROWS = 3000


def fit_alone(folder):
    """Fit, and write the labels and the warnings or the error; runs in a process of its own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            labels = model(folder / "work", **KILLED).fit(data(KILLED_ROWS)).labels_
        except Exception as error:
            (folder / "said").write_text(f"{type(error).__name__}: {error}")
            raise
    (folder / "said").write_text("\n".join(str(one.message) for one in caught))
    np.save(folder / "labels.npy", labels)


def started(folder):
    """Start a fit in a process, and return the process once the job's folder exists."""
    process = forked.Process(target=fit_alone, args=(folder,))
    process.start()
    while process.is_alive() and not (folder / "work").exists():
        time.sleep(0.0005)
    return process


def undisturbed(folder):
    """Return the labels of an undisturbed job, and the seconds from its first file to its end."""
    model(None, **KILLED).fit(data(KILLED_ROWS))  # imports and compiles before the first fork
    process = started(folder)
    began = time.perf_counter()
    process.join()
    return np.load(folder / "labels.npy"), time.perf_counter() - began


def kill_case(rng, folder, expected, seconds, change):
    """Return the outcome of a job that is killed at a random moment and resumed, and its messages."""
    process = started(folder)
    process.join(0.9 * rng.random() * seconds)
    process.kill()
    process.join()
    files = stored_files(folder / "work")
    if change and files:
        change_byte(rng, files[rng.integers(len(files))])
    again = forked.Process(target=fit_alone, args=(folder,))
    again.start()
    again.join(CASE_SECONDS)
    again.kill()
    again.join()
    said = (folder / "said").read_text() if (folder / "said").exists() else ""
    return judged(again.exitcode, said, folder / "labels.npy", expected), f"{len(files)} files; {said}"


def change_byte(rng, path):
    whole = bytearray(path.read_bytes())
    whole[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
    path.write_bytes(whole)


def judged(code, said, out, expected):
    """Return the outcome of a process that resumed a job, by its exit code, messages and labels."""
    if code == 0:
        if not np.array_equal(np.load(out), expected):
            return "other labels"
        return "same, damage named" if "was damaged" in said else "same"
    return "refused" if code == 1 and is_clear(said) else "error" if code == 1 else "crash"


def is_clear(said):
    """Whether an error names the folder and the remedy."""
    return said.startswith("ValueError: ") and "work_dir" in said


def begin_kills(seed):
    """Return the function that runs a case of ``kills``; runs in every worker of the campaign."""
    with tempfile.TemporaryDirectory() as name:
        expected, seconds = undisturbed(Path(name))

    def look(target, number):
        started, change = time.perf_counter(), number % 2 == 1
        with tempfile.TemporaryDirectory() as name:
            rng = np.random.default_rng([seed, number])
            found, details = kill_case(rng, Path(name), expected, seconds, change)
        return Case(found, "one byte" if change else "none", details, time.perf_counter() - started)

    return look


# -- checkpoints ----------------------------------------------------------------------------------------------------

STAGES = ("rounds", "assignment", "explanation")
ROWS = 300


class Stopped(Exception):
    pass


def stopped_job(folder, stage):
    """Fit, and stop when a stage begins."""

    def stop(now):
        if now == stage:
            raise Stopped

    try:
        with listening(stop):
            model(folder, block_size=60).fit(data(ROWS))
    except Stopped:
        return
    raise RuntimeError(f"no stage is called {stage}")


def flip_bits(rng, path, files):
    for _ in range(rng.integers(1, 4)):
        change_byte(rng, path)


def zero_all(rng, path, files):
    path.write_bytes(bytes(path.stat().st_size))


def zero_some(rng, path, files):
    whole = bytearray(path.read_bytes())
    start = int(rng.integers(len(whole)))
    stop = min(len(whole), start + int(rng.integers(1, 4096)))
    whole[start:stop] = bytes(stop - start)
    path.write_bytes(whole)


def empty(rng, path, files):
    path.write_bytes(b"")


def cut_short(rng, path, files):
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def prolong(rng, path, files):
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 100))))


def put_other(rng, path, files):
    path.write_bytes(files[rng.integers(len(files))].read_bytes())


def put_noise(rng, path, files):
    path.write_bytes(rng.bytes(int(rng.integers(1, 2000))))


def remove(rng, path, files):
    path.unlink()


DAMAGE = (flip_bits, zero_all, zero_some, empty, cut_short, prolong, put_other, put_noise, remove)


def harm(rng, folder):
    """Damage one file of a job, or several in one way each; return the kind of damage."""
    files = stored_files(folder)
    some = rng.permutation(len(files))[: 1 if rng.random() < 0.6 else int(rng.integers(2, len(files) + 1))]
    done = []
    for at in some:
        if files[at].exists() and files[at].stat().st_size:
            how = DAMAGE[rng.integers(len(DAMAGE))]
            how(rng, files[at], [file for file in files if file.exists()])
            done.append(how.__name__)
    return done[0] if len(done) == 1 else "several"


def resumed(folder, expected):
    """Return the outcome of resuming a damaged job in this process, and its messages."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            labels = model(folder, block_size=60).fit(data(ROWS)).labels_
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            return ("refused" if is_clear(said) else "error"), said
    said = "; ".join(str(one.message) for one in caught)
    if not np.array_equal(labels, expected):
        return "other labels", said
    return ("same, damage named" if "was damaged" in said else "same"), said


def begin_checkpoints(seed):
    """Return the function that runs a case of ``checkpoints``; runs in every worker of the campaign."""
    expected = model(None, block_size=60).fit(data(ROWS)).labels_
    home = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    jobs = [Path(home.name) / stage for stage in STAGES]
    for folder, stage in zip(jobs, STAGES, strict=True):
        stopped_job(folder, stage)

    def look(target, number):
        started, rng = time.process_time(), np.random.default_rng([seed, number])
        folder = Path(home.name) / "case"
        shutil.copytree(jobs[number % len(jobs)], folder)
        done = harm(rng, folder)
        found, details = resumed(folder, expected)
        shutil.rmtree(folder)
        return Case(found, done, details, time.process_time() - started)

    return look


# -- the campaign ---------------------------------------------------------------------------------------------------

TARGETS = {"kills": begin_kills, "checkpoints": begin_checkpoints}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    add_options(parser, cases=50, batch=1000)
    args = parser.parse_args()

    def begin():
        return TARGETS[args.target](args.seed)

    if args.only is not None:
        print(begin()(args.target, args.only))
        return
    limits = Limits(case=3 * CASE_SECONDS, campaign=args.stop_after)
    sys.exit(bool(run_campaign("damage.jsonl", [args.target], begin, args, limits)))


if __name__ == "__main__":
    main()

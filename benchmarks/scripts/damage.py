"""Jobs on disk that are killed and damaged: each must end as the undisturbed one, or be refused by a clear error.

    python -m benchmarks.scripts.damage kills --cases 50
    python -m benchmarks.scripts.damage checkpoints --cases 5000

``kills``: a fit in a process of its own is killed (SIGKILL) at a random moment; after every second kill, one byte of
one finished file is changed. Then it is resumed. ``checkpoints``: a fit was stopped between two stages; one or several
of its files are damaged (bits, zeros, cuts, files of other steps), and it is resumed in a process that lives on from
case to case and is watched from outside. Case number i of a seed is always the same damage, and ``--only`` repeats
it. Cases that have a result already are left out, so a campaign that was stopped goes on; the results are lines of
benchmarks/results/damage.jsonl, one for every ``--batch`` cases.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.campaigns import RESULTS, batches_left, write_line
from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.progress import listening

FILE = RESULTS / "damage.jsonl"
GOOD = ("same", "same, damage named", "refused")
CASE_SECONDS = 300
SHOWN = ("target", "first", "cases", "outcomes", "findings", "seconds")
processes, forked = get_context("spawn"), get_context("fork")


def data(n_rows):
    """Return views in which there are four groups."""
    return list(make_views(n_rows, n_clusters=4, separation=3, random_state=0).views.values())[:2]


def model(folder, **settings):
    small = {"n_landmarks": 60, "n_neighbors": 5, "max_iter": 4, "tol": 0, "n_init": 2, "block_size": 100, "n_jobs": 1}
    return GuidedCoTraining(4, random_state=5, work_dir=folder, **{**small, **settings})


def stored_files(folder):
    """Return the files of a job that hold something."""
    return sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size)


# -- kills ----------------------------------------------------------------------------------------------------------

KILLED = {"n_landmarks": 200, "max_iter": 12, "block_size": 50}
KILLED_ROWS = 3000


def fit_alone(folder):
    """Fit, and write the labels and what was said; runs in a process of its own."""
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
    """Return a process that has begun to write its job's files."""
    process = forked.Process(target=fit_alone, args=(folder,))
    process.start()
    while process.is_alive() and not (folder / "work").exists():
        time.sleep(0.0005)
    return process


def undisturbed(folder):
    """Return the labels of a job that nobody disturbs, and the seconds from its first file to its end."""
    model(None, **KILLED).fit(data(KILLED_ROWS))  # everything is imported and compiled when the first one begins
    process = started(folder)
    began = time.perf_counter()
    process.join()
    return np.load(folder / "labels.npy"), time.perf_counter() - began


def kill_case(rng, folder, expected, seconds, change):
    """Return what came of a job that was killed at a random moment, and how many files it had."""
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
    return judged(again.exitcode, said, folder / "labels.npy", expected), len(files)


def change_byte(rng, path):
    whole = bytearray(path.read_bytes())
    whole[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
    path.write_bytes(whole)


def judged(code, said, out, expected):
    """Return the outcome of a process that resumed a job."""
    if code == 0:
        if not np.array_equal(np.load(out), expected):
            return "other labels"
        return "same, damage named" if "was damaged" in said else "same"
    return "refused" if code == 1 and is_clear(said) else f"crash {code}: {said[:200]}"


def is_clear(said):
    """Whether an error names the folder and the remedy."""
    return said.startswith("ValueError: ") and "work_dir" in said


def run_kills(numbers, seed):
    with tempfile.TemporaryDirectory() as name:
        expected, seconds = undisturbed(Path(name))
    for number in numbers:
        with tempfile.TemporaryDirectory() as name:
            rng = np.random.default_rng([seed, number])
            found, n_files = kill_case(rng, Path(name), expected, seconds, change=number % 2 == 1)
        yield number, ("one byte" if number % 2 else "none"), found, n_files


# -- checkpoints ----------------------------------------------------------------------------------------------------

STAGES = ("rounds", "assignment", "explanation")
ROWS = 300


class Stopped(Exception):
    pass


def stopped_job(folder, stage):
    """Fit until a stage begins."""

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
    """Damage one file of a job, or several in one way each; return what was done."""
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
    """Return the outcome of a damaged job that is resumed in this process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            labels = model(folder, block_size=60).fit(data(ROWS)).labels_
        except ValueError as error:
            return "refused" if is_clear(f"ValueError: {error}") else f"error: {error}"[:300]
        except Exception as error:
            return f"error: {type(error).__name__}: {error}"[:300]
    if not np.array_equal(labels, expected):
        return "other labels"
    return "same, damage named" if any("was damaged" in str(one.message) for one in caught) else "same"


def work(numbers, seed, pipe):
    """Damage and resume jobs, one after the other; runs in a process of its own."""
    expected = model(None, block_size=60).fit(data(ROWS)).labels_
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        jobs = [Path(name) / stage for stage in STAGES]
        for folder, stage in zip(jobs, STAGES, strict=True):
            stopped_job(folder, stage)
        for number in numbers:
            rng = np.random.default_rng([seed, number])
            pipe.send((number, None))
            shutil.copytree(jobs[number % len(jobs)], Path(name) / "case")
            done = harm(rng, Path(name) / "case")
            pipe.send((number, (done, resumed(Path(name) / "case", expected))))
            shutil.rmtree(Path(name) / "case")


def run_checkpoints(numbers, seed):
    """Yield outcomes of cases; a process that dies or hangs is one, and another takes over."""
    numbers = list(numbers)
    while numbers:
        pipe, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=work, args=(numbers, seed, theirs))
        process.start()
        theirs.close()
        at = numbers[0]
        try:
            while pipe.poll(CASE_SECONDS):
                at, found = pipe.recv()
                if found is not None:
                    yield at, *found, 0
                    numbers.remove(at)
        except EOFError:
            pass
        finally:
            process.kill()
            process.join()
        if numbers and at in numbers:
            yield at, "?", f"crash or hang, exit code {process.exitcode}", 0
            numbers.remove(at)


# -- the campaign ---------------------------------------------------------------------------------------------------

TARGETS = {"kills": run_kills, "checkpoints": run_checkpoints}


def record(target, seed, cases, seconds):
    outcomes = Counter(found for _, _, found, _ in cases)
    return {
        "target": target,
        "seed": seed,
        "cases": len(cases),
        "first": min(number for number, *_ in cases),
        "damage": dict(sorted(Counter(done for _, done, _, _ in cases).items())),
        "outcomes": dict(sorted((found, count) for found, count in outcomes.items() if found in GOOD)),
        "findings": [[number, found] for number, _, found, _ in cases if found not in GOOD],
        "seconds": round(seconds, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--batch", type=int, default=250, help="cases of a line of results")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no batch after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, without writing its result")
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    if args.only is not None:
        print(*next(TARGETS[args.target]([args.only], args.seed)))
        return
    begun, bad = time.perf_counter(), 0
    for numbers in batches_left(FILE, 0, args.cases, args.batch, target=args.target, seed=args.seed):
        started = time.perf_counter()
        if started - begun > args.seconds:
            break
        cases = list(TARGETS[args.target](numbers, args.seed))
        line = record(args.target, args.seed, cases, time.perf_counter() - started)
        bad += len(line["findings"])
        print(
            {name: line[name] for name in ("target", "first", "cases", "outcomes", "findings", "seconds")}, flush=True
        )
        if not args.dry:
            write_line(FILE, line)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

"""Damaged files of every format by the thousand: each must be read, or refused in one clear line.

    python -m benchmarks.scripts.fuzz --cases 11000 --processes 16
    python -m benchmarks.scripts.fuzz --kinds mat5 --only 4711

Case number i of a kind and a seed is always the same file. Files are read in processes that live on from file to file
and are watched from outside. A finding is any other error, a process that dies, one that takes more than twenty seconds
of processor time (or ten minutes in all) over a file, and memory that grows by more than 256 MiB: all files are small.
Its number is printed, and ``--only NUMBER`` repeats it. The results are lines of benchmarks/results/fuzz.jsonl, one for
every ``--batch`` cases of a kind; cases that have a result of this code are left out, so a campaign that was stopped
goes on. Besides the packages of ``coterie[files]`` it needs anndata, mudata and psutil.

    python -m benchmarks.scripts.fuzz --kinds parquet hdf5 zarr --cases 5000 --checks none
    python -m benchmarks.scripts.fuzz --kinds parquet hdf5 zarr --cases 5000 --checks probe
    python -m benchmarks.scripts.fuzz --kinds parquet hdf5 zarr --cases 5000 --checks whole

show what our own look at parquet's pages, HDF5's heaps and zarr's chunks is good for: without it, and with a probe in
its place, a child process that opens the file before this one does and reads names and first rows, or all there is.
"""

import argparse
import gc
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from importlib import import_module
from itertools import pairwise
from multiprocessing import connection, get_context
from pathlib import Path

import numpy as np
import psutil

from benchmarks.campaigns import RESULTS, batches_left, write_line

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from mutate_files import KINDS, make_case, place_file, try_file

from coterie.formats import isolated, open_views
from coterie.formats.isolated import run_child

CPU_LIMIT, WALL_LIMIT = 20, 600  # seconds for one file
PROBE_LIMIT = 5
GROWTH_LIMIT = 256 << 20
ADDRESS_SPACE = 4 << 30  # more than a process has when it begins
GOOD = ("read", "refused")
CHECKS = ("ours", "none", "probe", "whole")
SHOWN = ("target", "first", "cases", "outcomes", "slowest_s", "peak_growth_mib", "seconds")
processes = get_context("fork")


def case(kind, seeds, seed, number):
    """Return what was done to a file, and the file."""
    return make_case(kind, seeds, np.random.default_rng([seed, list(KINDS).index(kind), number]))


def memory(entry):
    """Return the memory of this process as the system has it: VmRSS now, VmHWM at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) << 10
    return 0


def look_at(kind, seeds, seed, number, folder, checks):
    """Return what became of a case: damage, outcome, details, seconds and growth of memory."""
    done, file = case(kind, seeds, seed, number)
    inside = folder / str(number)  # a new name each time: HDF5 knows files by theirs
    inside.mkdir()
    path = place_file(file, inside)
    Path("/proc/self/clear_refs").write_text("5")  # what VmHWM is counted from
    before, started = memory("VmRSS"), time.perf_counter()
    try:
        found, details = try_file(kind, path) if survives_probe(kind, path, checks) else "refused", ""
    except Exception as error:
        found = "memory" if isinstance(error, MemoryError) else "error"
        details = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    seconds, growth = time.perf_counter() - started, memory("VmHWM") - before
    shutil.rmtree(inside)
    if growth > GROWTH_LIMIT:
        found, details = "memory", f"{growth >> 20} MiB"
    return done, found, details, seconds, growth


def run_forked(module, path, limits, content, said):
    """Return the exit code of a fork in the place of a new child process, whose imports would take most of the time."""
    child = os.fork()
    if not child:
        os.dup2(content.fileno(), 1)
        os.dup2(said.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
        try:
            room = psutil.Process().memory_info().vms  # what a new process would not have
            run_child(import_module(module).write_variables, [str(path), str(room + (1 << 30))])
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leave_out_checks():
    """Let the libraries read parquet, HDF5 and zarr without our own look at the file first."""
    from coterie.formats import arrow_files, hdf5_text, tree_files

    def with_gaps(self, names):
        """Ask Arrow which columns lack values."""
        metadata = self._metadata()
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups if names else 0)]
        chunks = [group.column(j) for group in groups for j in range(group.num_columns)]
        known = {chunk.path_in_schema for chunk in chunks}
        lacking = {chunk.path_in_schema for chunk in chunks if not chunk.statistics or chunk.statistics.null_count}
        return {name for name in names if name in lacking or name not in known}

    arrow_files.ParquetFile.with_gaps = with_gaps
    arrow_files.ParquetFile._footer = lambda self: [None] * self._metadata().num_row_groups
    arrow_files.check_pages = lambda *_: None
    tree_files.check_chunks = lambda *_: None
    hdf5_text.check_heaps = hdf5_text.check_text = hdf5_text.check_attribute = lambda *_: None


def survives_probe(kind, path, checks):
    """Whether a child process reads a file, its first rows or all, within the limits, and does not refuse it."""
    if checks not in ("probe", "whole"):
        return True
    child = os.fork()
    if not child:
        limit = psutil.Process().memory_info().vms + GROWTH_LIMIT
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (PROBE_LIMIT, PROBE_LIMIT))
        code = 0
        try:
            if checks == "whole":
                try_file(kind, path)
            for table in open_views([path]).values():
                table[: 1 if checks == "probe" else len(table)], table.ids, table.columns
        except Exception:
            code = 1  # final: a library that lacks memory may call the file damaged, and would take it here
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status == 0


def work(kind, seeds, seed, numbers, pipe, checks):
    """Look at cases, one after the other; runs in a process of its own."""
    isolated.run_module = run_forked
    if checks != "ours":
        leave_out_checks()
    limit = psutil.Process().memory_info().vms + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries complain of what they meet
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        os.chdir(name)  # a mutant may name files to write
        for i, good in enumerate(seeds):  # what is imported and compiled meanwhile is no file's fault
            try_file(kind, place_file(good, Path(name) / f"good{i}"))
        pipe.send(None)
        for number in numbers:
            pipe.send((number, look_at(kind, seeds, seed, number, Path(name), checks)))
            if number % 100 == 0:
                gc.collect()


class Worker:
    """A process that reads files, and what is known of it from outside."""

    def __init__(self, kind, seeds, seed, numbers, checks):
        self.numbers = numbers
        self.at = numbers[0]  # the case that it is at
        self.is_ready = False
        self.pipe, theirs = processes.Pipe(duplex=False)
        self.process = processes.Process(target=work, args=(kind, seeds, seed, numbers, theirs, checks))
        self.process.start()
        theirs.close()
        self._mark()

    def _mark(self):
        self.since, self.cpu = time.monotonic(), self._processor_time()

    def _processor_time(self):
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return self.cpu
        return times.user + times.system

    def receive(self):
        """Return a case that is done, None where the process is no more, and nothing where it is ready to begin."""
        try:
            result = self.pipe.recv()
        except EOFError:
            return None
        self._mark()
        if result is None:
            self.is_ready = True
            return ()
        self.at = result[0] + 1
        return result

    def hangs(self):
        """Whether a case takes too long."""
        too_long = time.monotonic() - self.since > WALL_LIMIT or self._processor_time() - self.cpu > CPU_LIMIT
        return self.is_ready and too_long

    def end(self):
        """Stop the process and return its exit code."""
        if self.process.is_alive() and self.hangs():
            self.process.kill()
        self.process.join()
        self.pipe.close()
        return self.process.exitcode


def campaign(kind, seed, numbers, n_processes, keep, checks):
    """Look at cases of a kind; return their outcomes."""
    seeds = KINDS[kind].seeds()
    tally = Tally(kind, seeds, seed, keep)
    bounds = np.linspace(numbers.start, numbers.stop, n_processes + 1).astype(int)
    workers = [Worker(kind, seeds, seed, range(a, b), checks) for a, b in pairwise(bounds.tolist()) if a < b]
    while workers:
        ready = connection.wait([worker.pipe for worker in workers], timeout=1)
        for worker in list(workers):
            over = None
            if worker.pipe in ready:
                result = worker.receive()
                if result is not None:
                    if result:
                        tally.add(*result)
                    continue
                over = "crash"
            elif worker.hangs():
                over = "hang"
            if over is None:
                continue
            code = worker.end()
            workers.remove(worker)
            if worker.at in worker.numbers:  # it did not come to its end
                tally.add(worker.at, ("?", over, f"exit code {code}", 0.0, 0))
                rest = range(worker.at + 1, worker.numbers.stop)
                if rest:
                    workers.append(Worker(kind, seeds, seed, rest, checks))
    return tally


class Tally:
    """What was found of a kind."""

    def __init__(self, kind, seeds, seed, keep):
        self.kind, self.seeds, self.seed, self.keep = kind, seeds, seed, keep
        self.outcomes, self.damage = Counter(), Counter()
        self.slowest = self.growth = 0
        self.findings = []

    def add(self, number, result):
        done, found, details, seconds, growth = result
        self.outcomes[found] += 1
        self.damage[done] += 1
        self.slowest, self.growth = max(self.slowest, seconds), max(self.growth, growth)
        if found not in GOOD:
            self.findings.append([number, found, details.splitlines()[0][:200] if details else ""])
            print(self.kind, number, found, details[:3000], flush=True)
            if self.keep is not None:
                place_file(case(self.kind, self.seeds, self.seed, number)[1], self.keep / self.kind / str(number))

    def record(self, numbers, seconds):
        return {
            "target": self.kind,
            "first": numbers.start,
            "cases": len(numbers),
            "seed": self.seed,
            "outcomes": dict(sorted(self.outcomes.items())),
            "damage": dict(sorted(self.damage.items())),
            "findings": self.findings,
            "slowest_s": round(self.slowest, 2),
            "peak_growth_mib": round(self.growth / (1 << 20), 1),
            "seconds": round(seconds, 1),
        }


def repeat(kind, seed, number):
    """Look at one case in this process, and let its error out."""
    done, file = case(kind, KINDS[kind].seeds(), seed, number)
    path = place_file(file, Path(tempfile.mkdtemp()))
    print(done, path, flush=True)
    print(try_file(kind, path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--cases", type=int, default=11_000, help="files of each kind")
    parser.add_argument("--batch", type=int, default=2000, help="cases of a line of results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no batch after this long")
    parser.add_argument("--keep", type=Path, help="a folder for files that are findings")
    parser.add_argument("--only", type=int, help="repeat one case of one kind, and let its error out")
    parser.add_argument("--checks", choices=CHECKS, default="ours", help="what looks at files first")
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    if args.only is not None:
        repeat(args.kinds[0], args.seed, args.only)
        return
    results = RESULTS / ("fuzz.jsonl" if args.checks == "ours" else "fuzz_checks.jsonl")
    begun, bad = time.perf_counter(), 0
    for kind in args.kinds:
        same = {"target": kind, "seed": args.seed, "checks": args.checks}
        for numbers in batches_left(results, 0, args.cases, args.batch, **same):
            started = time.perf_counter()
            if started - begun > args.seconds:
                break
            tally = campaign(kind, args.seed, numbers, args.processes, args.keep, args.checks)
            bad += len(tally.findings)
            record = tally.record(numbers, time.perf_counter() - started)
            print({name: record[name] for name in SHOWN}, flush=True)
            if not args.dry:
                write_line(results, {**record, "checks": args.checks})
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

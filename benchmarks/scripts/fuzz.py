"""Thousands of damaged files of every format: each must be read, or refused in one clear line.

    python -m benchmarks.scripts.fuzz --cases 11000 --jobs 16 --stop-after 500
    python -m benchmarks.scripts.fuzz --kinds mat5 --only 4711

Case number i of a kind and a seed is always the same file. Files are read in supervised processes, each of which reads
many. A finding is any other error, a process that dies, one that takes more than twenty seconds of processor time (or
ten minutes of wall-clock time) for a file, and growth of memory by more than 256 MiB: all files are small. Its number
is printed, and ``--only NUMBER`` repeats it. The results are lines of benchmarks/results/fuzz.jsonl, one for every
``--batch`` cases of a kind; cases that have a result of the current code are skipped, so that a stopped campaign
continues. It needs the packages of ``coterie[files]``, pandas, anndata, mudata and psutil; ``config`` also needs typer.

    python -m benchmarks.scripts.fuzz --kinds parquet hdf5 zarr --cases 5000 --checks none
    python -m benchmarks.scripts.fuzz --kinds parquet hdf5 zarr --cases 5000 --checks probe
    python -m benchmarks.scripts.fuzz --kinds parquet hdf5 zarr --cases 5000 --checks whole

show the use of our own checks of parquet's pages, HDF5's heaps and zarr's chunks: they run without these checks, or
with a probe instead, a child process that opens the file first and reads names and first rows, or the whole file.
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
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil

from benchmarks.campaigns import Case, Limits, add_options, run_campaign

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from mutate_files import KINDS, make_case, place_file, try_file

from coterie.formats import isolated, open_views
from coterie.formats.isolated import run_child

CPU_LIMIT, WALL_LIMIT = 20, 600  # seconds for one file
PROBE_LIMIT = 5
GROWTH_LIMIT = 256 << 20
ADDRESS_SPACE = 4 << 30  # bytes that a process may allocate after its start
COLLECTED = 100  # garbage is collected after this many files
CHECKS = ("ours", "none", "probe", "whole")


def case(kind, seeds, seed, number):
    """Return the kind of damage of a case, and the damaged file."""
    return make_case(kind, seeds, np.random.default_rng([seed, list(KINDS).index(kind), number]))


def memory(entry):
    """Return the resident bytes of this process from the kernel: VmRSS is the current value, VmHWM the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) << 10
    return 0


def look_at(kind, file, folder, checks):
    """Read a damaged file; return the outcome, details, seconds and growth of memory."""
    path = place_file(file, folder)
    with suppress(OSError):  # not on all systems: the peak is then that of all files so far
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    before, started = memory("VmRSS"), time.perf_counter()
    try:
        found, details = try_file(kind, path) if survives_probe(kind, path, checks) else "refused", ""
    except Exception as error:
        found = "memory" if isinstance(error, MemoryError) else "error"
        details = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    seconds, growth = time.perf_counter() - started, max(memory("VmRSS"), memory("VmHWM")) - before
    if growth > GROWTH_LIMIT:
        found, details = "memory", f"{growth >> 20} MiB"
    return found, details, seconds, growth


def run_forked(module, path, limits, content, said):
    """Return the exit code of a fork, used instead of a new process, which would spend most of its time on imports."""
    child = os.fork()
    if not child:
        os.dup2(content.fileno(), 1)
        os.dup2(said.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
        try:
            room = psutil.Process().memory_info().vms  # inherited by the fork, absent in a new process
            run_child(import_module(module).write_variables, [str(path), str(room + (1 << 30))])
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leave_out_checks():
    """Disable our own checks of parquet, HDF5 and zarr files before the libraries read them."""
    from coterie.formats import arrow_files, hdf5_text, tree_files

    def with_gaps(self, names):
        """Return the columns with missing values, by Arrow's metadata."""
        metadata = self._metadata()
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups if names else 0)]
        chunks = [group.column(j) for group in groups for j in range(group.num_columns)]
        known = {chunk.path_in_schema for chunk in chunks}
        lacking = {chunk.path_in_schema for chunk in chunks if not chunk.statistics or chunk.statistics.null_count}
        return {name for name in names if name in lacking or name not in known}

    arrow_files.ParquetFile.with_gaps = with_gaps
    arrow_files.read_footer = lambda path: [None] * arrow_files.read_metadata(path).num_row_groups
    arrow_files.check_pages = lambda *_: None
    tree_files.check_chunks = lambda *_: None
    hdf5_text.check_heaps = hdf5_text.check_text = hdf5_text.check_attribute = lambda *_: None


def survives_probe(kind, path, checks):
    """Whether a child process can read the file, its first rows or all, within the limits and without an error."""
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
            code = 1  # refused: out of memory, a library may call a file damaged that the parent could read
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status == 0


def begin(kinds, seed, checks):
    """Return the function that runs a case; runs in every worker of the campaign."""
    isolated.run_module = run_forked
    if checks != "ours":
        leave_out_checks()
    import_module("coterie.formats.matlab_child")  # once, not in every fork
    seeds = {kind: KINDS[kind].seeds() for kind in kinds}
    home = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    os.chdir(home.name)  # a mutant may name files to write
    for kind in kinds:  # imports and compiles, so that no file is charged for it
        for i, good in enumerate(seeds[kind]):
            try_file(kind, place_file(good, Path(home.name) / f"good {kind} {i}"))
    limit = psutil.Process().memory_info().vms + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries print complaints about damaged files

    def look(kind, number):
        done, file = case(kind, seeds[kind], seed, number)
        folder = Path(home.name) / f"{kind} {number}"  # a new name each time: HDF5 knows files by theirs
        folder.mkdir()
        found, details, seconds, growth = look_at(kind, file, folder, checks)
        shutil.rmtree(folder)
        if number % COLLECTED == 0:
            gc.collect()
        return Case(found, done, details, seconds, growth)

    return look


def repeat(kind, seed, number):
    """Run one case in this process, without catching its error."""
    done, file = case(kind, KINDS[kind].seeds(), seed, number)
    path = place_file(file, Path(tempfile.mkdtemp()))
    print(done, path, flush=True)
    print(try_file(kind, path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--checks", choices=CHECKS, default="ours", help="what looks at files first")
    add_options(parser, cases=11_000, batch=11_000)
    args = parser.parse_args()
    if args.only is not None:
        repeat(args.kinds[0], args.seed, args.only)
        return
    file = "fuzz.jsonl" if args.checks == "ours" else "fuzz_checks.jsonl"
    limits = Limits(WALL_LIMIT, CPU_LIMIT, args.stop_after)
    started = partial(begin, args.kinds, args.seed, args.checks)
    sys.exit(bool(run_campaign(file, args.kinds, started, args, limits, checks=args.checks)))


if __name__ == "__main__":
    main()

"""The common part of campaigns (``benchmarks/scripts``): numbered cases in supervised processes, results in batches.

Case number i of a target and a seed is always the same one. Each worker process has one thread and takes the next case;
one that dies, or exceeds the time limit of a case, is a finding and is replaced. Outcomes are written in batches, one
line each. Cases that have a result of the current code are skipped, so that a stopped campaign continues.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, source_hash
from benchmarks.records import append_record, read_lines
from coterie import __version__

RESULTS = Path(__file__).parent / "results"
BAD = ("crash", "hang", "error", "memory", "other labels")
GRACE = 30  # seconds for the last cases of a campaign that is to stop
START_SECONDS = 600  # time limit for the start of a process
LOOK_SECONDS = 5  # interval at which a waiting process checks that its parent is alive
forked = get_context("fork")  # forks inherit what this process has imported

Task = tuple[str, int]  # a target and a number


@dataclass(frozen=True)
class Case:
    """The outcome of a case."""

    found: str  # one of BAD, or the campaign's name of a permitted outcome
    done: str = ""  # the kind of damage to a file, for example
    details: str = ""
    seconds: float = 0.0
    growth: int = 0  # bytes of memory


Look = Callable[[str, int], Case]


@dataclass(frozen=True)
class Limits:
    """Time limits in seconds: of a case (wall-clock and processor time), and after which no case is begun."""

    case: float = 600
    cpu: float = float("inf")
    campaign: float = float("inf")


@dataclass(frozen=True)
class Batch:
    """The numbers of a target's cases that share a line of results, and the outcomes so far."""

    target: str
    numbers: range
    cases: dict[int, Case] = field(default_factory=dict)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield a line of results for every run of consecutive numbers that are done."""
        for numbers in runs(sorted(self.cases)):
            yield {"target": self.target, **summed({number: self.cases[number] for number in numbers})}


def code() -> dict[str, str]:
    """Return the version and the source hash of the code."""
    return {"version": __version__, "source": source_hash()}


# -- numbers --------------------------------------------------------------------------------------------------------


def batches_left(path: Path, first: int, cases: int, batch: int, **same: Any) -> Iterator[range]:
    """Yield ranges of numbers without a result of the current code, each at most a batch long.

    Parameters
    ----------
    path : Path
        The results, each with its ``first`` number and the number of its ``cases``.
    first, cases : int
        The first of the wanted numbers, and how many they are.
    batch : int
        The largest length of a range.
    **same
        Entries that identify the lines of this campaign.
    """
    done: set[int] = set()
    for line in read_lines(path):
        if line.get("code") == code() and all(line.get(name) == value for name, value in same.items()):
            done.update(range(line["first"], line["first"] + line["cases"]))
    left = [number for number in range(first, first + cases) if number not in done]
    for run in runs(left):
        yield from (run[at : at + batch] for at in range(0, len(run), batch))


def runs(numbers: Sequence[int]) -> Iterator[range]:
    """Yield the ranges of consecutive numbers that ascending numbers consist of.

    Examples
    --------
    >>> list(runs([0, 1, 2, 5, 6, 9]))
    [range(0, 3), range(5, 7), range(9, 10)]
    """
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] > numbers[at - 1] + 1:
            yield range(numbers[start], numbers[at - 1] + 1)
            start = at


def summed(cases: Mapping[int, Case]) -> dict[str, Any]:
    """Return a summary of cases: counts of outcomes, every finding with its number, and the slowest case."""
    slowest = max(cases, key=lambda number: cases[number].seconds)
    bad = {number: case for number, case in cases.items() if case.found in BAD}
    return {
        "first": min(cases),
        "cases": len(cases),
        "outcomes": dict(sorted(Counter(case.found for case in cases.values()).items())),
        "damage": dict(sorted(Counter(case.done for case in cases.values() if case.done).items())),
        "findings": [[number, case.found, case.details[:300]] for number, case in bad.items()],
        "seconds": round(sum(case.seconds for case in cases.values()), 1),  # of all processes
        "slowest_s": round(cases[slowest].seconds, 2),
        "slowest_case": slowest,
        "peak_growth_mib": round(max(case.growth for case in cases.values()) / (1 << 20), 1),
    }


def write_line(path: Path, line: dict[str, Any]) -> None:
    """Append a batch's results, with the code and the machine."""
    append_record(path, {**line, "code": code(), "machine": machine()})


# -- processes ------------------------------------------------------------------------------------------------------


def work(begin: Callable[[], Look], pipe: connection.Connection, core: int) -> None:
    """Run the cases that the parent sends, until it sends None or ends; the main function of a worker process."""
    os.sched_setaffinity(0, {core})  # libraries that ask for the number of cores get one
    parent = os.getppid()
    look = begin()
    pipe.send(None)
    while True:
        while not pipe.poll(LOOK_SECONDS):
            if os.getppid() != parent:
                return
        task = pipe.recv()
        if task is None:
            return
        pipe.send(look(*task))


class Worker:
    """A worker process, and its state as its parent knows it."""

    def __init__(self, begin: Callable[[], Look], core: int) -> None:
        self.core = core
        self.task: Task | None = None  # the case that is running
        self.pipe, theirs = forked.Pipe()
        self.process = forked.Process(target=work, args=(begin, theirs, core))
        self.process.start()
        theirs.close()
        self.is_ready = False
        self._mark()

    def _mark(self) -> None:
        self.since, self.cpu = time.monotonic(), self._cpu_seconds()

    def _cpu_seconds(self) -> float:
        try:
            entries = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            return 0.0
        return (int(entries[11]) + int(entries[12])) / os.sysconf("SC_CLK_TCK")

    def take(self, task: Task | None) -> None:
        """Send a case to run, or None to end the process."""
        self.task = task
        self._mark()
        self.pipe.send(task)

    def receive(self) -> Case | None:
        """Return the outcome of a case; None if the process reports that it is ready for its first."""
        found: Case | None = self.pipe.recv()
        self.is_ready = True
        return found

    def hangs(self, limits: Limits) -> bool:
        """Whether the process exceeds the time limit of its start or its case."""
        if not self.is_ready:
            return time.monotonic() - self.since > START_SECONDS
        return time.monotonic() - self.since > limits.case or self._cpu_seconds() - self.cpu > limits.cpu

    def end(self) -> int | None:
        """End the process, by force if it is busy, and return its exit code; None if it was ended before."""
        if self.pipe.closed:
            return None
        self.pipe.close()
        self.process.join(0 if self.task else LOOK_SECONDS)
        self.process.kill()
        self.process.join()
        return self.process.exitcode


def run_tasks(
    tasks: Iterable[Task], begin: Callable[[], Look], jobs: int, limits: Limits
) -> Iterator[tuple[Task, Case]]:
    """Yield tasks and their outcomes as they finish; after the campaign's limit, running tasks have GRACE to finish."""
    left, stop = iter(tasks), time.monotonic() + limits.campaign
    cores = list(islice(cycle(sorted(os.sched_getaffinity(0))), jobs))
    workers = [Worker(begin, cores.pop())]
    try:
        while workers and time.monotonic() < stop + GRACE:
            ready = connection.wait([worker.pipe for worker in workers], timeout=1)
            for number, worker in reversed(list(enumerate(workers))):
                if worker.pipe not in ready and not worker.hangs(limits):
                    continue
                task, case = worker.task, look_after(worker, worker.pipe in ready)
                if task is not None and case is not None:
                    yield task, case
                if worker.pipe.closed:
                    workers[number] = Worker(begin, worker.core)
                    continue
                while cores:  # the first worker is ready: the others find its compiled kernels in the cache
                    workers.append(Worker(begin, cores.pop()))
                task = next(left, None) if time.monotonic() < stop else None
                worker.take(task)
                if task is None:
                    workers.pop(number).end()
    finally:
        for worker in workers:
            worker.end()


def look_after(worker: Worker, has_spoken: bool) -> Case | None:
    """Return the outcome of a worker's case, or None for its start; a worker that died or hangs is ended."""
    try:
        if has_spoken:
            return worker.receive()
    except (EOFError, ConnectionResetError):
        pass
    kind, code = ("crash" if has_spoken else "hang"), worker.end()
    if not worker.is_ready:
        raise RuntimeError(f"A process of the campaign did not start: {kind}, exit code {code}.")
    return Case(kind, details=f"exit code {code}")


# -- a campaign -----------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser, cases: int, batch: int) -> None:
    """Add the options that all campaigns share."""
    parser.add_argument("--cases", type=int, default=cases, help="of each target")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--batch", type=int, default=batch, help="cases of a line of results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes, one thread each")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; the same command goes on later"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--only", type=int, help="repeat one case, and leave the results as they are")
    parser.add_argument("--dry", action="store_true", help="leave the results as they are")


def run_campaign(
    file: str,
    targets: Sequence[str],
    begin: Callable[[], Look],
    args: argparse.Namespace,
    limits: Limits,
    **same: Any,
) -> int:
    """Run all cases without a result, write their outcomes, and return the number of findings."""
    path, started = args.results / file, time.monotonic()
    same = {"seed": args.seed, **same}
    batches = [
        Batch(target, numbers)
        for target in targets
        for numbers in batches_left(path, args.first, args.cases, args.batch, target=target, **same)
    ]
    owner = {(batch.target, number): batch for batch in batches for number in batch.numbers}
    tasks = sorted(owner, key=lambda task: task[1])  # by number, so that all targets progress equally
    n_bad = 0

    def write(batch: Batch) -> None:
        for line in batch.lines():
            report = {key: line[key] for key in ("target", "first", "cases", "outcomes", "findings")}
            print(round(time.monotonic() - started), "s:", report, flush=True)
            if not args.dry:
                write_line(path, {**line, **same})

    for task, case in run_tasks(tasks, begin, args.jobs, limits):
        batch = owner[task]
        batch.cases[task[1]] = case
        if case.found in BAD:
            n_bad += 1
            print(*task, case.found, case.done, case.details[:3000], flush=True)
        if len(batch.cases) == len(batch.numbers):
            write(batch)
    for batch in batches:
        if len(batch.cases) < len(batch.numbers):
            write(batch)
    return n_bad

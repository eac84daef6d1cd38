"""What campaigns (``benchmarks/scripts``) share: numbered cases in processes that are watched, and results in batches.

Case number i of a target and a seed is always the same one. Processes of one thread take the next case each; one that
dies, or takes too long over a case, is a finding, and another takes its place. What came of cases is written in
batches, each one line; cases that have a result of this code are left out: a campaign that was stopped goes on.
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
START_SECONDS = 600  # within which a process is ready
LOOK_SECONDS = 5  # how often a process that waits looks whether there is anybody to wait for
forked = get_context("fork")  # what this process has imported, the others need not

Task = tuple[str, int]  # a target and a number


@dataclass(frozen=True)
class Case:
    """What came of a case."""

    found: str  # one of BAD, or how the campaign calls what may be
    done: str = ""  # to the file, say
    details: str = ""
    seconds: float = 0.0
    growth: int = 0  # bytes of memory


Look = Callable[[str, int], Case]


@dataclass(frozen=True)
class Limits:
    """How long a process may take over a case, in seconds, and how long a campaign may begin cases."""

    case: float = 600
    cpu: float = float("inf")
    campaign: float = float("inf")


@dataclass(frozen=True)
class Batch:
    """Numbers of a target whose results are one line, and what came of those that are done."""

    target: str
    numbers: range
    cases: dict[int, Case] = field(default_factory=dict)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what came of every run of numbers without a gap."""
        for numbers in runs(sorted(self.cases)):
            yield {"target": self.target, **summed({number: self.cases[number] for number in numbers})}


def code() -> dict[str, str]:
    """Return what tells one version of the code from another."""
    return {"version": __version__, "source": source_hash()}


# -- numbers --------------------------------------------------------------------------------------------------------


def batches_left(path: Path, first: int, cases: int, batch: int, **same: Any) -> Iterator[range]:
    """Yield runs of numbers that have no result of this code yet, none longer than a batch.

    Parameters
    ----------
    path : Path
        The results, each with its ``first`` number and the number of its ``cases``.
    first, cases : int
        Which numbers are wanted.
    batch : int
        The most numbers of a run.
    **same
        What a line must say to be one of this campaign's.
    """
    done: set[int] = set()
    for line in read_lines(path):
        if line.get("code") == code() and all(line.get(name) == value for name, value in same.items()):
            done.update(range(line["first"], line["first"] + line["cases"]))
    left = [number for number in range(first, first + cases) if number not in done]
    for run in runs(left):
        yield from (run[at : at + batch] for at in range(0, len(run), batch))


def runs(numbers: Sequence[int]) -> Iterator[range]:
    """Yield what ascending numbers consist of.

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
    """Return what came of cases: counts, every finding with its number, and the slowest."""
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
    """Add a batch's result, with the code and the machine that it comes from."""
    append_record(path, {**line, "code": code(), "machine": machine()})


# -- processes ------------------------------------------------------------------------------------------------------


def work(begin: Callable[[], Look], pipe: connection.Connection, core: int) -> None:
    """Look at the cases that are asked for, until there are no more; runs in a process of its own."""
    os.sched_setaffinity(0, {core})  # whoever asks how many threads there may be is told: one
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
    """A process that looks at cases, and what is known of it from outside."""

    def __init__(self, begin: Callable[[], Look], core: int) -> None:
        self.core = core
        self.task: Task | None = None  # what it is at
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
        except OSError:  # it is no more
            return 0.0
        return (int(entries[11]) + int(entries[12])) / os.sysconf("SC_CLK_TCK")

    def take(self, task: Task | None) -> None:
        """Ask for a case; None lets the process end."""
        self.task = task
        self._mark()
        self.pipe.send(task)

    def receive(self) -> Case | None:
        """Return a case that is done, or None where the process is ready for its first."""
        found: Case | None = self.pipe.recv()
        self.is_ready = True
        return found

    def hangs(self, limits: Limits) -> bool:
        """Whether it takes too long over what it is at."""
        if not self.is_ready:
            return time.monotonic() - self.since > START_SECONDS
        return time.monotonic() - self.since > limits.case or self._cpu_seconds() - self.cpu > limits.cpu

    def end(self) -> int | None:
        """End the process, whatever it does, and return its exit code."""
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
    """Yield what came of tasks, in the order in which they end; all that were begun within the time are done."""
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
                while cores:  # the first one is ready: what it has compiled, the others find
                    workers.append(Worker(begin, cores.pop()))
                task = next(left, None) if time.monotonic() < stop else None
                worker.take(task)
                if task is None:
                    workers.pop(number).end()
    finally:
        for worker in workers:
            worker.end()


def look_after(worker: Worker, has_spoken: bool) -> Case | None:
    """Return what came of a process's case, None of a start; one that died, or hangs, is ended."""
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
    """Look at all cases that have no result yet, write what came of them, and return the number of findings."""
    path, started = args.results / file, time.monotonic()
    same = {"seed": args.seed, **same}
    batches = [
        Batch(target, numbers)
        for target in targets
        for numbers in batches_left(path, args.first, args.cases, args.batch, target=target, **same)
    ]
    owner = {(batch.target, number): batch for batch in batches for number in batch.numbers}
    tasks = sorted(owner, key=lambda task: task[1])  # all targets come equally far
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

"""Runs -> records: each missing run is measured in a child process with a time limit."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import cpu_count

from benchmarks.data import MissingDataError
from benchmarks.measure import NotForThisDataError, about, cached_data, measure, prepare, source_hash
from benchmarks.records import Record, append_record, read_records, record_key, settled
from benchmarks.suites import Run
from coterie.children import Child
from coterie.peers.registry import warm_up

Measure = Callable[[Any, str | None], Record]  # a run and the data folder -> its record


@dataclass
class Summary:
    """The outcome of all runs."""

    measured: int = 0
    known: int = 0  # in the file already
    missing: dict[str, str] = field(default_factory=dict)  # data sets and methods that are not available, and why
    refused: list[str] = field(default_factory=list)  # too slow, or not for such data: recorded with the reason
    failed: list[str] = field(default_factory=list)  # ended with an error
    left: int = 0  # not begun, or not finished, when the time was up


@dataclass(frozen=True)
class Task:
    """A run, and the files for its record: one for each suite that it belongs to."""

    run: Run
    results: tuple[Path, ...]

    def keep(self, record: Record) -> None:
        """Add the record to every file."""
        for path in self.results:
            append_record(path, record)


@dataclass
class Work:
    """The state that threads share: the remaining tasks, and the summary of the others."""

    tasks: deque[Task]
    summary: Summary
    advance: Callable[[Run], None]
    home: str | None
    jobs: int
    limit: float | None
    ends: float | None  # time.monotonic() at which to stop
    measure: Measure
    children: list[Child] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def time_left(self) -> float | None:
        """Return the seconds that are left, None without a time limit."""
        return None if self.ends is None else max(self.ends - time.monotonic(), 0.0)

    def next_task(self) -> Task | None:
        """Return the next task whose data and method are available; None if no task or no time is left."""
        with self.lock:
            while self.tasks:
                if self.time_left() == 0:
                    self.summary.left += sum(len(task.results) for task in self.tasks)
                    self.tasks.clear()
                    return None
                task = self.tasks.popleft()
                if not {task.run.data, task.run.method.name} & set(self.summary.missing):
                    return task
                for _ in task.results:
                    self.advance(task.run)
        return None

    def do_all(self, number: int) -> None:
        """Run tasks in a child process, on this thread's share of the cores, until none is left."""
        pin_thread(number, self.jobs)
        with Child(self.home) as child:
            self.children.append(child)
            while task := self.next_task():
                self.do(child, task)

    def do(self, child: Child, task: Task) -> None:
        """Measure one run, and record its outcome."""
        run, name = task.run, f"{task.run.method.name} on {task.run.data}, seed {task.run.seed}"
        try:
            record = self.measured(child, run)
        except MissingDataError as error:
            self.summary.missing[run.data] = str(error)
        except ImportError as error:
            self.summary.missing[run.method.name] = f"{run.method.name}: {error}"
        except (TimeoutError, NotForThisDataError) as error:
            if self.time_left() == 0:
                with self.lock:
                    self.summary.left += len(task.results)
                return
            limit = self.limit if isinstance(error, TimeoutError) else None
            task.keep({**about(run), "failed": str(error), "limit": limit, "jobs": self.jobs})
            self.summary.refused.append(f"{name}: {error}")
        except Exception as error:  # a failing method must not stop the other runs
            self.summary.failed.append(f"{name}: {type(error).__name__}: {error}")
            if self.limit is not None:  # a suite, whose tables show a dash for it
                again = {"limit": self.limit} if isinstance(error, ChildProcessError) else {"error": True}
                task.keep({**about(run), "failed": first_sentence(error), **again, "jobs": self.jobs})
        else:
            task.keep({**record, "jobs": self.jobs})
            with self.lock:
                self.summary.measured += len(task.results)
        for _ in task.results:
            self.advance(run)

    def measured(self, child: Child, run: Run) -> Record:
        """Return the record of a run; loading counts towards ``stop_after``, but not towards the run's limit."""
        if self.limit is not None:
            child.call(prepare_run, run, limit=self.time_left())
        left = [seconds for seconds in (self.limit, self.time_left()) if seconds is not None]
        return child.call(measure_run, self.measure, run, limit=min(left, default=None))

    def stop(self) -> None:
        """Drop the remaining tasks and end the child processes."""
        self.tasks.clear()
        for child in self.children:
            child.end()


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error's message, without the remedy that follows.

    Examples
    --------
    >>> first_sentence(ValueError("It takes at most 10,000 rows. Use fewer."))
    'It takes at most 10,000 rows'
    """
    return str(error).partition(". ")[0].removesuffix(".") or type(error).__name__


def measure_run(home: str | None, measure: Measure, run: Run) -> Record:
    """Return the record of a run, in the child."""
    return measure(run, home)


def prepare_run(home: str | None, run: Run) -> None:
    """Load a run's data and kernels, in the child."""
    prepare(run, home)


def load_set(home: str | None, name: str, rows: int | None) -> None:
    """Read a data set, in the child, so that its features are computed once and stored."""
    cached_data(name, home, rows)


def compile_kernels(home: str | None) -> None:
    """Compile the kernels that most methods need, in the child; they are cached on disk."""
    warm_up("GuidedCoTraining")


def run_all(runs: Sequence[Run], results: str | os.PathLike[str], **options: Any) -> Summary:
    """Measure the runs that are not in the results yet; the options are those of `run_many`."""
    return run_many([(Path(results), run) for run in runs], **options)


def run_many(
    plans: Sequence[tuple[Path, Run]],
    *,
    data_home: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    limit: float | None = None,
    stop_after: float | None = None,
    measure: Measure = measure,
    again: bool = False,
    changed: bool = False,
    progress: bool = True,
) -> Summary:
    """Measure the runs that are not in the results yet, and append each as soon as it is done.

    Parameters
    ----------
    plans : sequence of (Path, Run)
        Runs in order, each with the file of JSON lines for its record, which is created if it does not exist. A run
        that several files ask for is measured once; one that is in another of these files is copied.
    data_home : path, optional
        Folder of the data sets; None is as in :func:`coterie.datasets.load_views`.
    jobs : int
        Number of simultaneous runs, each on its share of the cores. More than one disturbs the times.
    limit : float, optional
        Seconds after which a fit is ended, and recorded as too slow.
    stop_after : float, optional
        Seconds after which no run is begun and running ones are ended.
    measure : function
        Returns the record of a run, in the child process.
    again : bool
        Whether to measure again the runs that are in the results.
    changed : bool
        Whether to measure again the runs whose results are from other code.
    progress : bool
        Whether to show a bar on standard error.
    """
    tasks = [Task(run, (path,)) for path, run in plans] if again else what_is_left(plans, limit, changed)
    summary = Summary(known=len(plans) - sum(len(task.results) for task in tasks))
    home = None if data_home is None else str(data_home)
    ends = None if stop_after is None else time.monotonic() + stop_after
    with bar(len(plans), summary.known, progress) as advance:
        work = Work(deque(tasks), summary, advance, home, jobs, limit, ends, measure)
        if jobs > 1 and tasks:
            load_once(tasks, home)
        run_threads(work)
    return summary


def what_is_left(plans: Sequence[tuple[Path, Run]], limit: float | None, changed: bool) -> list[Task]:
    """Return a task for each run that is in none of the files; copy those in one file to the others that ask."""
    held = {path: known_records(path, limit, changed) for path in dict.fromkeys(path for path, _ in plans)}
    found = {key: record for records in held.values() for key, record in records.items()}
    asked: dict[tuple[str, str, int, str], tuple[Run, list[Path]]] = {}
    for path, run in plans:
        if run.key() not in held[path]:
            asked.setdefault(run.key(), (run, []))[1].append(path)
    tasks = {key: Task(run, tuple(paths)) for key, (run, paths) in asked.items()}
    for key in tasks.keys() & found.keys():
        tasks[key].keep(found[key])
    return [task for key, task in tasks.items() if key not in found]


def known_records(path: Path, limit: float | None, changed: bool) -> dict[tuple[str, str, int, str], Record]:
    """Return the last record of every run in a file; with ``changed``, only records of the current code."""
    records = [record for record in read_records(path) if settled(record, limit)]
    return {record_key(record): record for record in records if not changed or is_of_today(record)}


def is_of_today(record: Record) -> bool:
    """Return whether a record was measured with the current code."""
    return bool(record["code"]["source"] == source_hash())


def load_once(tasks: Sequence[Task], home: str | None) -> None:
    """Compile kernels and compute features once, before several processes would each do so."""
    with Child(home) as child:
        child.call(compile_kernels)
        for name, rows in dict.fromkeys((task.run.data, task.run.rows) for task in tasks):
            try:
                child.call(load_set, name, rows)
            except MissingDataError:
                continue  # reported when its runs come


def run_threads(work: Work) -> None:
    """Do the work with one thread and one child process per job; end all of them on Ctrl-C."""
    threads = [threading.Thread(target=work.do_all, args=(number,)) for number in range(work.jobs)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        work.stop()
        raise


def pin_thread(number: int, jobs: int) -> None:
    """Pin this thread, and the processes that it starts, to one of ``jobs`` shares of the cores.

    A container may see more cores than its quota of processor time allows: shares are computed from the quota.
    """
    if jobs == 1 or not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, cpu_count() // jobs)
    os.sched_setaffinity(0, cores[number % len(cores) :: jobs][:share])


@contextmanager
def bar(total: int, done: int, enabled: bool) -> Iterator[Any]:
    """Show a progress bar of the runs on standard error; yield a function that advances it by one."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), disable=not enabled) as shown:
        task = shown.add_task("measuring", total=total, completed=done)

        def advance(run: Run) -> None:
            shown.update(task, advance=1, description=f"{run.data}: {run.method.name}")

        yield advance

"""Runs -> records: only those that are not there yet, each in a child process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.data import MissingDataError
from benchmarks.measure import die_with_parent, measure, source_hash
from benchmarks.records import Record, append_record, read_records, record_key
from benchmarks.suites import Run

Measure = Callable[[Any, str | None], Record]  # a run and the data folder -> its record


@dataclass
class Summary:
    """What became of the runs."""

    measured: int = 0
    known: int = 0  # were in the file already
    missing: dict[str, str] = field(default_factory=dict)  # data sets that are not here, and why
    failed: list[str] = field(default_factory=list)  # runs that ended with an error


def run_all(
    runs: Sequence[Run],
    results: str | os.PathLike[str],
    *,
    data_home: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    measure: Measure = measure,
    again: bool = False,
    changed: bool = False,
    progress: bool = True,
) -> Summary:
    """Measure the runs that the results do not hold yet, and add each as soon as it is done.

    Parameters
    ----------
    runs : sequence of Run
    results : path
        A file of JSON lines; made where there is none.
    data_home : path, optional
        Where data sets lie; None is as in :func:`coterie.datasets.load_views`.
    jobs : int
        Runs at a time. More than one disturbs the times.
    measure : function
        Makes a record of a run, in the child process.
    again : bool
        Whether to measure those too that the results hold.
    changed : bool
        Whether to measure those too that the results hold from other code.
    progress : bool
        Whether to show a bar on standard error.
    """
    results = Path(results)
    records = [] if again else read_records(results)
    known = {record_key(record) for record in records if not changed or record["code"]["source"] == source_hash()}
    todo = [run for run in runs if run.key() not in known]
    summary = Summary(known=len(runs) - len(todo))
    home = None if data_home is None else str(data_home)
    with bar(len(runs), summary.known, progress) as advance:
        while todo:
            todo = run_until_break(todo, results, home, jobs, measure, summary, advance)
    return summary


def run_until_break(
    todo: list[Run],
    results: Path,
    home: str | None,
    jobs: int,
    measure: Measure,
    summary: Summary,
    advance: Any,
) -> list[Run]:
    """Measure runs until none is left, or a worker dies; return those that were not begun."""
    waiting = list(todo)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=die_with_parent)
    under_way: dict[Future, Run] = {}
    broken = False
    try:
        while under_way or (waiting and not broken):
            while waiting and len(under_way) < jobs and not broken:
                run = waiting.pop(0)
                if run.data in summary.missing:
                    advance(run)
                    continue
                try:
                    under_way[pool.submit(measure, run, home)] = run
                except BrokenProcessPool:
                    waiting.insert(0, run)
                    broken = True
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                run = under_way.pop(future)
                broken |= settle(future, run, results, jobs, summary)
                advance(run)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return waiting


def settle(future: Future, run: Run, results: Path, jobs: int, summary: Summary) -> bool:
    """Keep what a run came to; return whether its worker died."""
    name = f"{run.method.name} on {run.data}, seed {run.seed}"
    try:
        record = future.result()
    except MissingDataError as error:
        summary.missing[run.data] = str(error)
    except BrokenProcessPool:
        summary.failed.append(f"{name}: the process was killed (out of memory?)")
        return True
    except Exception as error:  # one method's failure must not end the others' runs
        summary.failed.append(f"{name}: {type(error).__name__}: {error}")
    else:
        append_record(results, {**record, "jobs": jobs})
        summary.measured += 1
    return False


@contextmanager
def bar(total: int, done: int, enabled: bool) -> Iterator[Any]:
    """Show how far the runs are, on standard error; yields a function that advances by one."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), disable=not enabled) as shown:
        task = shown.add_task("measuring", total=total, completed=done)

        def advance(run: Run) -> None:
            shown.update(task, advance=1, description=f"{run.data}: {run.method.name}")

        yield advance

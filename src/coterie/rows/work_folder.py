"""A folder with the results of a job so far, so that it can be killed and resumed.

A job is a sequence of steps, numbered in the order in which its code asks for them. A step's result is a file that is
complete or absent; a step over blocks is a folder with a file for every finished block. A resumed job runs the same
code from the start: results that have a file are read, the others are computed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.files import LOCKS, lock
from coterie.rows.blocks import read_value, write_value

JOB = "job.json"
LOCK = "lock"
UNFINISHED = ".unfinished"


class WorkFolder:
    """The steps of one job; made by :func:`open_work_folder`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._n_steps = 0

    def next_step(self) -> Path:
        """Return the name of the next step."""
        self._n_steps += 1
        return self.path / f"step_{self._n_steps:04d}"

    def remember(self, make: Callable[[], Any]) -> Any:
        """Return the next step's result: read from its file, or computed now and written."""
        step = self.next_step()
        if step.exists():
            return read_result(step)
        result = make()
        write_result(step, result)
        return result


def read_result(path: Path) -> Any:
    """Return what a file of the folder holds."""
    with open(path, "rb") as file:
        return read_value(file)


def write_result(path: Path, value: Any) -> None:
    """Write a file of the folder, complete or not at all. What a killed process left is overwritten."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with open(unfinished, "wb") as file:
        write_value(file, value)
    os.replace(unfinished, path)


@contextmanager
def open_work_folder(path: Path, job: Mapping[str, Any], drawn: int) -> Iterator[tuple[WorkFolder, int]]:
    """Open the folder of a job: an empty one, or one that the same job left unfinished.

    ``job`` describes the job as plain data, and ``drawn`` is the seed of its random numbers. Yields the folder, and the
    seed that the job was started with. When the job is finished, the folder is empty.
    """
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        known = path / JOB
        if known.exists():
            before = json.loads(known.read_text())
            check_same_job(path, before["job"], job)
            drawn = before["drawn"]
        else:
            refuse_other_files(path)
            clear(path)  # of what a job left that was killed while it cleared the folder
            unfinished = known.with_name(JOB + UNFINISHED)
            unfinished.write_text(json.dumps({"job": job, "drawn": drawn}, indent=1))
            os.replace(unfinished, known)
        yield WorkFolder(path), drawn
        clear(path)


def check_same_job(path: Path, before: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Refuse to resume a job other than the one that was started."""
    now = json.loads(json.dumps(job))  # as it would be read from the file
    for name in {**before, **now}:
        if now.get(name) != before.get(name):
            raise ValueError(
                f"work_dir={str(path)!r} holds another job, unfinished: there {name} is {before.get(name)}, here it is "
                f"{now.get(name)}. Go on with that job, give this one a folder of its own, or remove the folder."
            )


def refuse_other_files(path: Path) -> None:
    """Refuse a folder that holds other files: it is emptied in the end."""
    for entry in path.iterdir():
        if entry.name != LOCK and not entry.name.startswith((JOB, "step_")):
            raise ValueError(f"work_dir={str(path)!r} holds other files, {entry.name!r} among them. Name an empty one.")


def clear(path: Path) -> None:
    """Remove what the job wrote, its description first: a folder that is half cleared is started anew."""
    (path / JOB).unlink(missing_ok=True)
    for entry in path.glob("step_*"):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a folder while the block runs."""
    if not LOCKS:  # nothing stops a job that is started twice
        yield
        return
    with open(path / LOCK, "w") as file:
        if not lock(file):
            raise ValueError(
                f"work_dir={str(path)!r} is in use by another process. Wait for it, or name another folder."
            )
        yield
        (path / LOCK).unlink(missing_ok=True)

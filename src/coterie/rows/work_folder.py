"""A folder with what a job has done so far, so that it can be killed and taken up again.

A job is a sequence of steps, numbered in the order in which its code asks for them. A step's result is a file that is
there whole or not at all; a step over blocks is a folder with a file for every block that is done. A job that is taken
up runs the same code from the start: what has a file is read, and what has none is done.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
        """Return the next step's result: as it was written, or made now, and written."""
        step = self.next_step()
        if step.exists():
            return load(step)
        result = make()
        save(step, result)
        return result


def load(path: Path) -> Any:
    """Return what a file of the folder holds."""
    with open(path, "rb") as file:
        return read_value(file)


def save(path: Path, value: Any) -> None:
    """Write a file of the folder, whole or not at all. What a killed process leaves is written over."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with open(unfinished, "wb") as file:
        write_value(file, value)
    os.replace(unfinished, path)


@contextmanager
def open_work_folder(path: Path, job: Mapping[str, Any], drawn: int) -> Iterator[tuple[WorkFolder, int]]:
    """Lend the folder of a job: an empty one, or that of the same job where it was left.

    ``job`` says what the job is, as plain data, and ``drawn`` is a number that it draws its randomness from. Yields the
    folder, and the number that the job was begun with. When the job is done, the folder is empty.
    """
    path.mkdir(parents=True, exist_ok=True)
    with locked(path):
        known = path / JOB
        if known.exists():
            before = json.loads(known.read_text())
            check_same_job(path, before["job"], job)
            drawn = before["drawn"]
        else:
            refuse_strangers(path)
            clear(path)  # what a job left that was ended while it cleared its folder
            unfinished = known.with_name(JOB + UNFINISHED)
            unfinished.write_text(json.dumps({"job": job, "drawn": drawn}, indent=1))
            os.replace(unfinished, known)
        yield WorkFolder(path), drawn
        clear(path)


def check_same_job(path: Path, before: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Refuse to go on with another job than was begun."""
    now = json.loads(json.dumps(job))  # as it reads when it comes from a file
    for name in {**before, **now}:
        if now.get(name) != before.get(name):
            raise ValueError(
                f"work_dir={str(path)!r} holds another job, unfinished: there {name} is {before.get(name)}, here it is "
                f"{now.get(name)}. Go on with that job, give this one a folder of its own, or remove the folder."
            )


def refuse_strangers(path: Path) -> None:
    """Refuse a folder that holds anything but what we write: it is emptied in the end."""
    for entry in path.iterdir():
        if entry.name != LOCK and not entry.name.startswith((JOB, "step_")):
            raise ValueError(f"work_dir={str(path)!r} holds other files, {entry.name!r} among them. Name an empty one.")


def clear(path: Path) -> None:
    """Remove what the job wrote, its name last: a folder that is half cleared is begun anew."""
    (path / JOB).unlink(missing_ok=True)
    for entry in path.glob("step_*"):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out; the lock of a process that was killed is gone with it."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has another way; whoever starts a job twice there must know
        yield
        return
    with open(path / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"work_dir={str(path)!r} is in use by another process. Wait for it, or name another folder."
            ) from error
        yield
        (path / LOCK).unlink(missing_ok=True)

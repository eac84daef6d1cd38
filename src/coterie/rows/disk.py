"""Blocks of rows in files: more rows than memory, and a job that can be killed and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.progress import counted
from coterie.rows.blocks import take_from
from coterie.rows.memory import MemoryRows, composed, sum_runs
from coterie.rows.work_folder import WorkFolder, read_result, write_result
from coterie.threads import in_order


@dataclass(frozen=True)
class StoredBlock:
    """A block in a file."""

    path: Path


def read_block(block: Any) -> Any:
    """Return a block, from its file if it is in one."""
    return read_result(block.path) if isinstance(block, StoredBlock) else block


class DiskRows:
    """Blocks held in the files of a work folder; see :class:`coterie.rows.Rows` for the verbs.

    Blocks and sums are those of :class:`coterie.rows.memory.MemoryRows`, so the results are the same to the last bit.
    What a verb returns is written too: when a job is resumed, verbs that had finished return at once.
    """

    def __init__(self, blocks: Sequence[Any], *, n_rows: int, n_threads: int, folder: WorkFolder) -> None:
        self.blocks = blocks
        self.n_rows = n_rows
        self.n_threads = n_threads
        self.folder = folder

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> DiskRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        return self._written(composed(load, function), delete_old=False)

    def replace(self, function: Callable[[Any], Any]) -> DiskRows:
        """Like ``map``, but every old block is freed as soon as the new one exists: these rows are consumed."""
        return self._written(function, delete_old=True)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any]) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block."""

        def add(block: Any, total: Any) -> None:
            function(read_block(block), total)

        return self.folder.remember(
            lambda: sum_runs(self.blocks, add, zeros, n_rows=self.n_rows, n_threads=self.n_threads)
        )

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for every block, in the order of the rows."""
        return self.folder.remember(lambda: self._in_memory().each(composed(read_block, function)))

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows, a few of them computed ahead."""
        return self._in_memory().stream(composed(read_block, composed(load, function)))

    def collect(self, function: Callable[[Any], np.ndarray], load: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Return the rows of ``function(block)`` as one array, in the order of the rows."""
        return self.folder.remember(lambda: self._in_memory().collect(composed(read_block, composed(load, function))))

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""
        return self.folder.remember(lambda: take_from(in_order(read_block, self.blocks, self.n_threads), rows))

    def _in_memory(self) -> MemoryRows:
        return MemoryRows(self.blocks, n_rows=self.n_rows, n_threads=self.n_threads)

    def _written(self, function: Callable[[Any], Any], *, delete_old: bool) -> DiskRows:
        """Write ``function(block)`` of every block that is not written yet."""
        step = self.folder.next_step()
        blocks = [StoredBlock(step / f"{number:06d}") for number in range(len(self.blocks))]
        finished = step / "whole"  # once it exists, the blocks of the step before may be deleted

        def write(job: tuple[Any, StoredBlock]) -> None:
            old, new = job
            if not new.path.exists():
                write_result(new.path, function(read_block(old)))
            if delete_old and isinstance(old, StoredBlock):
                old.path.unlink(missing_ok=True)

        if not finished.exists():
            step.mkdir(exist_ok=True)
            jobs = zip(self.blocks, blocks, strict=True)
            for _ in counted(in_order(write, jobs, self.n_threads), len(blocks), self.n_rows):
                pass
            finished.touch()
        return DiskRows(blocks, n_rows=self.n_rows, n_threads=self.n_threads, folder=self.folder)

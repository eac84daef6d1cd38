"""Blocks of rows in files: more rows than memory, and a job that can be killed and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.progress import counted
from coterie.rows.block_files import DamagedFileError
from coterie.rows.blocks import take_from
from coterie.rows.memory import MemoryRows, composed
from coterie.rows.work_folder import WorkFolder
from coterie.threads import in_order


@dataclass(frozen=True)
class Step:
    """One pass over blocks whose results are in files, with its function and source to compute them again.

    A damaged block is computed again from the previous step, or, if that was consumed, from the one before it, and so
    on back to the raw rows.
    """

    folder: WorkFolder
    path: Path
    function: Callable[[Any], Any]
    source: Step | Sequence[Any]  # the previous step, or the blocks that the first step is given

    def path_of(self, number: int) -> Path:
        """Return the file of a block."""
        return self.path / f"{number:06d}"

    def read(self, number: int) -> Any:
        """Return a block from its file; one that is damaged or missing is computed again, and written."""
        path = self.path_of(number)
        try:
            return self.folder.read(path)
        except FileNotFoundError:
            if self.is_consumed:  # removed as no longer needed; now a later block is damaged
                return self.compute(number)
            self.folder.report_damage(path, "it is missing")
        except DamagedFileError as damage:
            self.folder.report_damage(path, str(damage))
        block = self.compute(number)
        self.folder.write(path, block)
        return block

    def compute(self, number: int) -> Any:
        """Return a block computed from the nearest earlier step that still has it."""
        functions, source = [self.function], self.source
        while isinstance(source, Step):
            try:
                block = source.folder.read(source.path_of(number))
                break
            except (DamagedFileError, FileNotFoundError):
                functions.append(source.function)
                source = source.source
        else:
            block = source[number]
        for function in reversed(functions):
            block = function(block)
        return block

    @property
    def is_consumed(self) -> bool:
        """Return whether blocks were removed because others replaced them."""
        return (self.path / "consumed").exists()


@dataclass(frozen=True)
class StoredBlock:
    """A block in a file."""

    step: Step
    number: int


def read_block(block: Any) -> Any:
    """Return a block, from its file if it is in one."""
    return block.step.read(block.number) if isinstance(block, StoredBlock) else block


class DiskRows:
    """Blocks held in the files of a work folder; see :class:`coterie.rows.Rows` for the verbs.

    Blocks and sums are those of :class:`coterie.rows.memory.MemoryRows`, so the results are bitwise the same. The
    results of all verbs but ``stream`` are written to files: in a resumed job, verbs that had finished return at once.
    """

    def __init__(
        self, blocks: Sequence[Any], *, n_rows: int, n_threads: int, folder: WorkFolder, step: Step | None = None
    ) -> None:
        self.blocks = blocks
        self.n_rows = n_rows
        self.n_threads = n_threads
        self.folder = folder
        self.step = step  # whose results the blocks are; None: they are not in files yet

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> DiskRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        return self._written(composed(load, function), delete_old=False)

    def replace(self, function: Callable[[Any], Any]) -> DiskRows:
        """Like ``map``, but every old block is freed as soon as the new one exists: these rows are consumed."""
        return self._written(function, delete_old=True)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any], *, dense: bool = False) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block."""

        def add(block: Any, total: Any) -> None:
            function(read_block(block), total)

        return self.folder.remember(lambda: self._in_memory().sum(add, zeros, dense=dense))

    def sums(self, functions: Sequence[Callable[[Any, Any], None]], zeros: Callable[[], Any]) -> Iterator[Any]:
        """Yield the sum by each function in turn."""
        return (self.sum(function, zeros) for function in functions)

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
        step = Step(self.folder, self.folder.next_step(), function, self.step or self.blocks)
        if not (step.path / "whole").exists():  # once it does, the previous step's blocks may be deleted
            self._write(step, self.step if delete_old else None)
        blocks = [StoredBlock(step, number) for number in range(len(self.blocks))]
        return DiskRows(blocks, n_rows=self.n_rows, n_threads=self.n_threads, folder=self.folder, step=step)

    def _write(self, step: Step, consumed: Step | None) -> None:
        n_blocks = len(self.blocks)

        def write(number: int) -> None:
            path = step.path_of(number)
            if not self.folder.is_intact(path):
                left = 1 if consumed else n_blocks - number  # each replaced block makes room for the next
                self.folder.write(path, step.function(read_block(self.blocks[number])), left)
            if consumed:
                consumed.path_of(number).unlink(missing_ok=True)

        step.path.mkdir(exist_ok=True)
        if consumed:
            (consumed.path / "consumed").touch()
        for _ in counted(in_order(write, range(n_blocks), self.n_threads), n_blocks, self.n_rows):
            pass
        self.folder.finish(step.path)

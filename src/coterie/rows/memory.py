"""Blocks of rows in this machine's memory, worked on by its cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coterie.threads import in_order

# Partial sums are made over runs of consecutive blocks, and then added up in order. How many there are depends on the
# rows and not on the threads, so neither does the rounding; they are few, because every run has its own p x p.
ROWS_PER_RUN = 32_768
MOST_RUNS = 16


class MemoryRows:
    """Blocks held as a list; see :class:`coterie.rows.Rows` for the verbs.

    Examples
    --------
    >>> import numpy as np
    >>> rows = MemoryRows([np.ones((2, 3)), np.ones((1, 3))], n_rows=3, n_threads=1)
    >>> rows.map(lambda block: 2 * block).collect(lambda block: block.sum(axis=1))
    array([6., 6., 6.])
    """

    def __init__(self, blocks: Sequence[Any], *, n_rows: int, n_threads: int) -> None:
        self.blocks = blocks
        self.n_rows = n_rows
        self.n_threads = n_threads

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> MemoryRows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block."""
        blocks = list(in_order(after(load, function), self.blocks, self.n_threads))
        return MemoryRows(blocks, n_rows=self.n_rows, n_threads=self.n_threads)

    def replace(self, function: Callable[[Any], Any]) -> MemoryRows:
        """Like ``map``, but every old block is given up as soon as the new one is there: these rows are spent."""
        waiting, self.blocks = deque(self.blocks), ()
        given = (waiting.popleft() for _ in range(len(waiting)))
        blocks = list(in_order(function, given, self.n_threads))
        return MemoryRows(blocks, n_rows=self.n_rows, n_threads=self.n_threads)

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any]) -> Any:
        """Start from ``zeros()`` and let ``function(block, total)`` add every block to it."""

        def sum_run(run: np.ndarray) -> Any:
            total = zeros()
            for number in run:
                function(self.blocks[number], total)
            return total

        n_runs = int(np.clip(self.n_rows // ROWS_PER_RUN, 1, min(MOST_RUNS, len(self.blocks))))
        runs = np.array_split(np.arange(len(self.blocks)), n_runs)
        totals = in_order(sum_run, runs, self.n_threads)
        result = next(totals)
        for total in totals:
            for into, part in zip(result, total, strict=True):
                into += part
        return result

    def collect(self, function: Callable[[Any], np.ndarray], load: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Put the rows of ``function(block)`` together, in the order of the rows."""
        parts = in_order(after(load, function), self.blocks, self.n_threads)
        first = next(parts)
        out = np.empty((self.n_rows, *first.shape[1:]), dtype=first.dtype)
        out[: len(first)] = first
        at = len(first)
        for part in parts:
            out[at : at + len(part)] = part
            at += len(part)
        return out

    def take(self, rows: np.ndarray, function: Callable[[Any], np.ndarray]) -> np.ndarray:
        """Return the given rows, ascending, of ``function(block)``."""
        parts, first = [], 0
        for found in in_order(function, self.blocks, self.n_threads):
            here = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(found))]
            parts.append(found[here - first])
            first += len(found)
        return np.concatenate(parts)


def after(load: Callable[[Any], Any] | None, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``function`` of what ``load`` fetches: both on the same thread, which has the block in its cache then."""
    return function if load is None else lambda block: function(load(block))

"""Blocks of rows in this machine's memory, worked on by its cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from coterie.progress import counted
from coterie.rows.blocks import fill, take_from
from coterie.threads import in_order

# Partial sums are made over runs of consecutive blocks, and then added up in order. The number of runs depends on the
# rows only, so that rounding does not depend on the threads; runs are few, because each has its own p x p matrices.
ROWS_PER_RUN = 32_768
DENSE_ROWS_PER_RUN = 800
MOST_RUNS = 16
MOST_RUN_BYTES = 2 << 30  # of all partial sums together: with many clusters or landmarks they are large


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
        return self._with(list(self._run(composed(load, function), self.blocks)))

    def replace(self, function: Callable[[Any], Any]) -> MemoryRows:
        """Like ``map``, but every old block is freed as soon as the new one exists: these rows are consumed."""
        waiting, self.blocks = deque(self.blocks), ()
        given = (waiting.popleft() for _ in range(len(waiting)))
        return self._with(list(self._run(function, given, len(waiting))))

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any], *, dense: bool = False) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block."""
        (total,) = self._sums([function], zeros, dense=dense)
        return total

    def sums(self, functions: Sequence[Callable[[Any, Any], None]], zeros: Callable[[], Any]) -> Iterator[Any]:
        """Yield the sum by each function in turn; idle threads begin the next ones."""
        return self._sums(functions, zeros)

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for every block, in the order of the rows."""
        return list(self._run(function, self.blocks))

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows, a few of them computed ahead."""
        return self._run(composed(load, function), self.blocks)

    def collect(self, function: Callable[[Any], np.ndarray], load: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Return the rows of ``function(block)`` as one array, in the order of the rows."""
        parts = self.stream(function, load)
        first = next(parts)
        return fill(np.empty((self.n_rows, *first.shape[1:]), dtype=first.dtype), first, parts)

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""
        return take_from(self.blocks, rows)

    def _sums(
        self, functions: Sequence[Callable[[Any, Any], None]], zeros: Callable[[], Any], *, dense: bool = False
    ) -> Iterator[Any]:
        return sum_runs(self.blocks, functions, zeros, n_rows=self.n_rows, n_threads=self.n_threads, dense=dense)

    def _with(self, blocks: Sequence[Any]) -> MemoryRows:
        return MemoryRows(blocks, n_rows=self.n_rows, n_threads=self.n_threads)

    def _run(self, function: Callable[[Any], Any], blocks: Iterable[Any], n_blocks: int | None = None) -> Iterator[Any]:
        n_blocks = len(self.blocks) if n_blocks is None else n_blocks
        return counted(in_order(function, blocks, self.n_threads), n_blocks, self.n_rows)


def sum_runs(
    blocks: Sequence[Any],
    functions: Sequence[Callable[[Any, Any], None]],
    zeros: Callable[[], Any],
    *,
    n_rows: int,
    n_threads: int,
    dense: bool = False,
) -> Iterator[Any]:
    """Yield the sum over blocks by each function in turn, from partial sums over runs of blocks."""

    def sum_run(job: tuple[Callable[[Any, Any], None], np.ndarray]) -> Any:
        function, run = job
        total = zeros()
        for number in run:
            function(blocks[number], total)
        return total

    n_runs = count_runs(n_rows, sum(part.nbytes for part in zeros()), dense=dense)
    runs = np.array_split(np.arange(len(blocks)), min(n_runs, len(blocks)))
    jobs = list(product(functions, runs))
    totals = counted(in_order(sum_run, jobs, n_threads), len(jobs), n_rows)
    for _ in functions:
        result = next(totals)
        for total in islice(totals, len(runs) - 1):
            add_in_place(result, total)
        yield result


def count_runs(n_rows: int, n_bytes: int, *, dense: bool) -> int:
    """Return the number of partial sums, of ``n_bytes`` each, for a sum over rows with at least as many blocks.

    Examples
    --------
    >>> [count_runs(10**6, n_bytes, dense=True) for n_bytes in (10**6, 10**9, 10**10)]
    [16, 2, 1]
    """
    wanted = n_rows // (DENSE_ROWS_PER_RUN if dense else ROWS_PER_RUN)
    return int(np.clip(min(wanted, MOST_RUN_BYTES // max(n_bytes, 1)), 1, MOST_RUNS))


def add_in_place(total: Any, part: Any) -> None:
    """Add one total's arrays to another's, in place."""
    for into, more in zip(total, part, strict=True):
        into += more


def composed(load: Callable[[Any], Any] | None, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``function`` after ``load``: both on the same thread, which then has the block in its cache."""
    return function if load is None else lambda block: function(load(block))

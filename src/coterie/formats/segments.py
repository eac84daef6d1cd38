"""Formats that are read forward, in segments: parquet's row groups, Arrow's batches, parts of a text file."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from coterie.formats.stores import Lazy, Store

KEEP_BYTES = 32 << 20  # of each open segment, so that threads may read a little out of order
DECODED_BYTES = 8 << 20  # that are decoded at a time
OPEN_BYTES = 256 << 20  # of segments that are open at a time

# A segment's number -> its rows, block by block.
Segments = Callable[[int], Iterator[np.ndarray]]


class Cursor:
    """A reader of one segment that goes forward and keeps the last blocks; for earlier rows it starts again."""

    def __init__(self, segments: Segments, number: int, n_rows: int) -> None:
        self._open = lambda: segments(number)
        self._n_rows = n_rows
        self._lock = threading.Lock()
        self._restart()

    def _restart(self) -> None:
        self._blocks = self._open()
        self._kept: deque[np.ndarray] = deque()
        self._first = self._end = 0  # the rows that are kept

    def read_into(self, out: np.ndarray, start: int) -> None:
        """Fill ``out`` with the segment's rows from start on."""
        with self._lock:
            if start < self._first:
                self._restart()
            position = self._first
            for block in list(self._kept):
                copy_overlap(block, position, out, start)
                position += len(block)
            while self._end < start + len(out):
                block = self._next()
                copy_overlap(block, self._end, out, start)
                self._keep(block)

    def _next(self) -> np.ndarray:
        try:
            return next(self._blocks)
        except StopIteration:
            raise EOFError(f"a part of it ends after {self._end} rows") from None
        except Exception:
            self._restart()  # so that the next attempt raises the same error
            raise

    def _keep(self, block: np.ndarray) -> None:
        self._kept.append(block)
        self._end += len(block)
        if self._end == self._n_rows:
            self._blocks = iter(())  # drops the reader, which holds much of what it has decoded
            release_memory()
        while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept) > KEEP_BYTES:
            self._first += len(self._kept.popleft())


def copy_overlap(block: np.ndarray, position: int, out: np.ndarray, start: int) -> None:
    """Copy the rows that a block, from row ``position`` on, shares with ``out``, which begins at row ``start``."""
    first, last = max(position, start), min(position + len(block), start + len(out))
    if first < last:
        out[first - start : last - start] = block[first - position : last - position]


class Cursors:
    """The open segments, by number.

    At most four more than there are cores are open, fewer if segments are large, and never fewer than the last two.
    """

    def __init__(self, segments: Segments, starts: np.ndarray, row_bytes: int) -> None:
        self._segments = segments
        self._lengths = np.diff(starts)  # (s,)
        segment_bytes = int(self._lengths.max(initial=1)) * row_bytes
        self._lock = threading.Lock()
        self._open: OrderedDict[int, Cursor] = OrderedDict()
        self._most = int(np.clip(OPEN_BYTES // max(segment_bytes, 1), 2, 4 + (os.cpu_count() or 1)))

    def __getitem__(self, number: int) -> Cursor:
        with self._lock:
            cursor = self._open.pop(number, None) or Cursor(self._segments, number, int(self._lengths[number]))
            self._open[number] = cursor  # the last used is last
            if len(self._open) > self._most:
                self._open.popitem(last=False)
            return cursor


def release_memory() -> None:
    """Release the unused memory of pyarrow's pool, if pyarrow is imported."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()


@dataclass(frozen=True, kw_only=True)
class SegmentStore(Store):
    """A table that is read in segments."""

    starts: np.ndarray  # (s + 1,) the first row of each segment, and the number of rows
    cursors: Lazy[Cursors]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start to stop."""
        out = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        done = 0
        while done < len(out):
            number = int(np.searchsorted(self.starts, start + done, side="right")) - 1
            end = min(stop, int(self.starts[number + 1]))
            self.cursors()[number].read_into(out[done : end - start], start + done - int(self.starts[number]))
            done = end - start
        return out


def rows_per_block(width: int, dtype: np.dtype) -> int:
    """Return how many rows are decoded at a time."""
    return int(np.clip(DECODED_BYTES // (width * dtype.itemsize), 256, 65_536))

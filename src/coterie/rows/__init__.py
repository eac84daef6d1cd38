"""Where blocks of rows live: in memory, in files, on a torch device, on the workers of a Dask cluster.

The four kinds (``memory``, ``disk``, ``torch``, ``dask``) have the same few verbs, and the method is written against
those:

- ``map`` a function over the blocks, ``replace`` the blocks by it, ``sum`` it over them, ``take`` rows by number;
  ``sums`` computes several sums, in parallel where that is faster;
- and, for results that do not stay with the rows: ``each`` (something small for every block), ``stream`` (blocks, one
  after the other) and ``collect`` (all rows as one array).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np


class Rows(Protocol):
    """The verbs of blocks of rows, wherever they live.

    Functions that are passed in are pure: the same block gives the same result, wherever and however often it is
    computed. Blocks are arrays, or dataclasses of arrays that have one row for each row
    (:func:`coterie.rows.blocks.storable_block`).
    """

    n_rows: int

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Rows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block.

        ``load`` does the slow reading, ahead of time where that helps.
        """

    def replace(self, function: Callable[[Any], Any]) -> Rows:
        """Like ``map``, but every old block is freed as soon as the new one exists: these rows are consumed."""

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any], *, dense: bool = False) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block.

        ``dense`` says that a block adds to every entry of the total. Adding up several totals then takes little time in
        comparison, so that more threads can have a total of their own.
        """

    def sums(self, functions: Sequence[Callable[[Any, Any], None]], zeros: Callable[[], Any]) -> Iterator[Any]:
        """Yield the sum by each function in turn; they may be computed in parallel."""

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for consecutive blocks that together hold all rows."""

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows, a few of them computed ahead."""

    def collect(self, function: Callable[[Any], np.ndarray], load: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Return the rows of ``function(block)`` as one array, in the order of the rows."""

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""

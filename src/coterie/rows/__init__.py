"""Where blocks of rows live. Every place knows the same few verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np


class Rows(Protocol):
    """Blocks of rows, somewhere.

    The functions that are passed in are pure: the same block gives the same result, wherever and however often
    it is computed. Blocks are arrays, or dataclasses of arrays that have one row for each row
    (:func:`coterie.rows.blocks.storable`).
    """

    n_rows: int

    def map(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Rows:
        """Return the rows with ``function(block)``, or ``function(load(block))``, for every block.

        What is slow to fetch is fetched by ``load``: ahead of time, where that helps.
        """

    def replace(self, function: Callable[[Any], Any]) -> Rows:
        """Like ``map``, but every old block is given up as soon as the new one is there: these rows are spent."""

    def sum(self, function: Callable[[Any, Any], None], zeros: Callable[[], Any]) -> Any:
        """Start from ``zeros()``, a tuple or list of arrays, and let ``function(block, total)`` add every block."""

    def each(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return ``function(block)``, something small, for some blocks that are all rows, in the order of the rows."""

    def stream(self, function: Callable[[Any], Any], load: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """Yield ``function(block)`` in the order of the rows, a few of them computed ahead."""

    def collect(self, function: Callable[[Any], np.ndarray], load: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Put the rows of ``function(block)`` together, in the order of the rows."""

    def take(self, rows: np.ndarray) -> Any:
        """Return the given rows, ascending, as one block."""

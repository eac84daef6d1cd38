"""Exact sums of floats, bitwise the same for any order of the parts and on any number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.kernels.cpu import compiled_loops


@dataclass(frozen=True)
class ExactSum:
    """A sum of arrays of floats, as two integers for each entry.

    Sums over rows are below 2^38. Bits below 2^-76 are lost, which is negligible beside the rounding of the parts.

    Examples
    --------
    >>> parts = [np.array([0.1]), np.array([1e9]), np.array([-1e9])]
    >>> [float(ExactSum.of(order).value()[0]) for order in (parts, parts[::-1])]
    [0.1, 0.1]
    """

    units: np.ndarray  # int64, of 2^-24
    rest: np.ndarray  # int64, of 2^-76, less than one unit

    @classmethod
    def of(cls, parts: Sequence[np.ndarray | ExactSum]) -> ExactSum:
        """Return the sum of some arrays, or sums, of one shape."""
        total = cls(np.zeros(parts[0].shape, np.int64), np.zeros(parts[0].shape, np.int64))
        for part in parts:
            total.add(part)
        return total

    def __sizeof__(self) -> int:
        return self.units.nbytes + self.rest.nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        """The arrays' shape."""
        return self.units.shape

    def add(self, part: np.ndarray | ExactSum) -> None:
        """Add an array of floats, or another sum."""
        into = self.units.ravel(), self.rest.ravel()  # both contiguous: no copies
        if isinstance(part, ExactSum):
            compiled_loops().add_sums(part.units.ravel(), part.rest.ravel(), *into)
        else:
            compiled_loops().add_floats(np.ascontiguousarray(part, dtype=np.float64).ravel(), *into)

    def value(self) -> np.ndarray:
        """Return the sum as floats."""
        return (self.units + self.rest * 2.0**-52) * 2.0**-24


def add_to_totals(total: list[Any], parts: Sequence[Any]) -> None:
    """Add arrays, or exact sums of them, to a list of totals, which starts empty.

    Sums of integers are exact anyway, and stay arrays.
    """
    if not total:
        total += [ExactSum.of([part]) if is_rounded(part) else part for part in parts]
        return
    for number, part in enumerate(parts):
        if isinstance(total[number], ExactSum):
            total[number].add(part)
        else:
            total[number] = total[number] + part


def is_rounded(part: Any) -> bool:
    """Return whether adding parts like this one would round: floats, and exact sums of floats."""
    return isinstance(part, ExactSum) or part.dtype.kind == "f"

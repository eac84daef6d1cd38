"""Squared distances between prepared rows and landmarks; imputed where rows lack views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, like, squared_norms
from coterie.kernels import kernels_of
from coterie.method.likeness import Likeness
from coterie.views import Table


@dataclass(frozen=True)
class LandmarkRows:
    """The landmarks in one view, prepared."""

    rows: Table  # (p, d)
    present: np.ndarray  # (p,) bool

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "present": self.present}  # the rest is derived from these

    @cached_property
    def norms(self) -> np.ndarray:
        """Squared lengths, infinite for landmarks that lack the view: they are never neighbours."""
        norms = squared_norms(self.rows)  # (p,)
        return array_namespace(norms).where(self.present, norms, np.inf)

    @cached_property
    def complete(self) -> bool:
        """Whether all landmarks have the view; asked once, because the answer waits for the device."""
        return bool(self.present.all())

    @cached_property
    def columns(self) -> Table:
        """The same rows as columns, in the layout that products are fastest with."""
        return kernels_of(self.rows).as_columns(self.rows)  # (d, p)


@dataclass(frozen=True)
class PreparedRows:
    """Some rows in one view, prepared."""

    rows: Table  # (b, d)
    norms: np.ndarray  # (b,) squared lengths, infinite for rows that lack the view
    gaps: bool  # whether some row or landmark may lack the view

    def part(self, rows: slice) -> PreparedRows:
        """Return some of the rows."""
        return PreparedRows(self.rows[rows], self.norms[rows], self.gaps)


def absent_rows(n_rows: int, landmarks: LandmarkRows) -> PreparedRows:
    """Return rows that all lack a view: infinitely far from every landmark."""
    xp = array_namespace(landmarks.norms)
    device = landmarks.norms.device
    rows = xp.zeros((n_rows, landmarks.rows.shape[1]), dtype=landmarks.norms.dtype, device=device)
    return PreparedRows(rows, xp.full((n_rows,), np.inf, dtype=rows.dtype, device=device), gaps=True)


def blank(rows: Table, present: Any) -> Table:
    """Return prepared rows with zeros where the view is missing: preparation may have put anything there."""
    if present is None or sparse.issparse(rows):
        return rows
    return array_namespace(rows).where(present[:, None], rows, 0.0)


class Scratch:
    """A work array that is reused for every tile: allocating one takes a good part of the time of a product."""

    def __init__(self) -> None:
        self._array: Any = None

    def __call__(self, shape: tuple[int, ...], like: Any) -> Any:
        """Return an uninitialised array on the device and in the precision of ``like``."""
        if self._array is None or self._array.shape != shape:
            self._array = array_namespace(like).empty(shape, dtype=like.dtype, device=like.device)
        return self._array


def squared_distances(rows: Table, norms: np.ndarray, landmarks: LandmarkRows, out: Any = None) -> np.ndarray:
    """Return squared distances between rows and landmarks, in ``out``; infinite where either lacks the view."""
    kernels = kernels_of(rows)
    products = kernels.products(rows, landmarks.columns, out)  # (b, p)
    return kernels.finish_distances(products, norms, landmarks.norms)  # (b, p)


def impute_distances(distances: np.ndarray, likeness: Likeness) -> np.ndarray:
    """Return squared distances over all views side by side, where rows or landmarks lack some views.

    Missing distances are imputed from the views that both have.
    """
    return kernels_of(distances).impute_distances(distances, like(likeness.table(), distances))  # (b, p)

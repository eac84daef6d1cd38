"""Rows written as combinations of rows: shared by the subspace clustering methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.linalg import svd

from coterie.peers._common import stored_table, unit_rows
from coterie.views import View

# Singular values below this share of the largest are rounding.
RANK_TOLERANCE = 1e-8


def row_coordinates(view: View) -> np.ndarray:
    """Return a view's rows, each of length one, in an orthonormal basis of the space that they span (n x rank).

    Inner products and lengths do not change, so that subspace methods give the same result, and a view never has more
    columns than rows.
    """
    table = stored_table(view)  # (n, d)
    rows = unit_rows(table.toarray() if sparse.issparse(table) else table)
    left, values, _ = svd(rows, full_matrices=False, check_finite=False)  # (n, m), (m,)
    rank = int((values > RANK_TOLERANCE * values[0]).sum()) if values[0] > 0 else 1
    return left[:, :rank] * values[:rank]  # (n, r)


def shared_affinity(representations: Sequence[np.ndarray]) -> np.ndarray:
    """Return sum_v |Z^v| + |Z^vT|, with a zero diagonal: how much rows contribute to each other."""
    total = np.zeros_like(representations[0])
    for representation in representations:
        total += np.abs(representation)
    total += total.T.copy()
    np.fill_diagonal(total, 0)
    return total  # (n, n)

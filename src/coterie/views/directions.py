"""The directions in which the rows of a view vary most."""

from __future__ import annotations

import numpy as np

from coterie.kernels import kernels_of
from coterie.kernels.cpu import singular_vectors
from coterie.threads import in_order
from coterie.views.parts import is_one_part, row_parts
from coterie.views.steps import Table

# Settings of the randomised singular value decomposition: the same as for tensors and CSR arrays.
OVERSAMPLES = 10
POWERS = 4

# Eigenvalues below this share of the largest are rounding errors of products in float32.
RANK_TOLERANCE = 1e-10


def principal_directions(rows: Table, rank: int, seed: int, n_threads: int = 1) -> np.ndarray:
    """Return the rows' top right singular vectors; of arrays by several threads."""
    if is_one_part(rows):
        return kernels_of(rows).principal_directions(rows, rank, seed)  # (d, r)
    return directions_in_parts(rows, rank, seed, n_threads)  # (d, r)


def directions_in_parts(rows: np.ndarray, rank: int, seed: int, n_threads: int = 1) -> np.ndarray:
    """Return the top right singular vectors of an array X.

    They are those of scikit-learn's ``randomized_svd`` for the same random start. But a power iteration is one pass
    over parts of the rows, and only a few columns as long as a row are orthonormalised: those as long as X would take
    one thread as long as the products.
    """
    n, d = rows.shape
    block = np.random.RandomState(seed).normal(size=(min(n, d), rank + OVERSAMPLES))
    if n < d:
        block = np.linalg.qr(rows.T @ block.astype(rows.dtype))[0].astype(np.float64)  # (d, w)
    for _ in range(POWERS):
        block = np.linalg.qr(gram_product(rows, block, n_threads))[0]  # (d, w): Q
    image = gram_product(rows, block, n_threads)  # (d, w): X^T X Q
    values, vectors = np.linalg.eigh(block.T @ image)
    if n < d:
        return block @ vectors[:, ::-1][:, :rank]  # (d, r)
    # (Q^T X^T X Q)^(-1/2) makes the columns of X Q orthonormal; what X^T makes of those has the directions of X.
    real = values > RANK_TOLERANCE * values[-1]
    halved = image @ (vectors[:, real] * values[real] ** -0.5)  # (d, w)
    return singular_vectors(halved)[0][:, :rank]  # (d, r)


def gram_product(rows: np.ndarray, block: np.ndarray, n_threads: int) -> np.ndarray:
    """Return X^T X B in float64, of products in the rows' own precision."""
    own = block.astype(rows.dtype)

    def product(part: slice) -> np.ndarray:
        return (rows[part] @ own).T @ rows[part]  # (w, d)

    total = np.zeros(block.shape[::-1])
    for found in in_order(product, row_parts(rows.shape), n_threads):
        total += found
    return total.T  # (d, w)

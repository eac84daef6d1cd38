"""The kernels for columns of tensors: their statistics, principal directions and small decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.kernels import to_tensor

# Settings of the randomised singular value decomposition: the same as for NumPy arrays.
OVERSAMPLES = 10
POWERS = 4
RANK_TOLERANCE = 1e-12  # eigenvalues below this share of the largest are taken as zero

# Of the QR by Cholesky factors: the first factor's shift, and the largest error that is accepted.
SHIFT, ORTHONORMAL = 1e-13, 1e-10

MOST_BATCHED = 32  # columns of matrices that cuSOLVER solves in one launch


def column_mean_and_std(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns' means and standard deviations in float64, as NumPy arrays."""
    data = data.double()
    return data.mean(dim=0).cpu().numpy(), data.std(dim=0, correction=0).cpu().numpy()  # (d,), (d,)


def median(values: Any) -> float:
    """Return the median; of an even number of values, the lower one of the two in the middle."""
    return float(values.median())


def column_quantiles(data: Any, share: float) -> np.ndarray:
    """Return a quantile of every column as a NumPy array, interpolated like NumPy's."""
    ordered = data.sort(dim=0).values
    at = share * (len(data) - 1)
    below, part = int(at), at - int(at)
    above = min(below + 1, len(data) - 1)
    return (ordered[below] + part * (ordered[above] - ordered[below])).cpu().numpy()  # (d,)


def principal_directions(rows: Any, rank: int, seed: int) -> np.ndarray:
    """Return the rows' top right singular vectors as a NumPy array.

    They are those of scikit-learn's ``randomized_svd`` with ten oversamples and four power iterations, for the same
    random start. But powers are taken of the smaller one of X^T X and X X^T, so that only two products have the length
    of the longer side of X: on a GPU, every step of a decomposition is a launch.
    """
    import torch

    rows = rows.double()
    n, d = rows.shape
    square = rows.mT @ rows if n >= d else rows @ rows.mT  # (m, m): C
    start = np.random.RandomState(seed).normal(size=(len(square), rank + OVERSAMPLES))
    block = to_tensor(start, rows.device)
    for _ in range(POWERS):
        block, _ = torch.linalg.qr(square @ block)  # (m, w): Y
    # With M = X or X^T and M^T M = C, orthonormal columns of M Y are M Y T, for T = (Y^T C Y)^(-1/2).
    image = square @ block
    halved = image @ inverse_root(block.mT @ image)  # (m, w): M^T M Y T
    values, turn = small_eigenpairs(halved.mT @ halved)
    turn, values = turn.flip(-1)[:, :rank], values.flip(-1)[:rank]
    if n < d:
        return (rows.mT @ (block @ (inverse_root(block.mT @ image) @ turn))).cpu().numpy()  # (d, r)
    lengths = torch.where(values > 0, values, torch.inf) ** -0.5
    return (halved @ turn * lengths).cpu().numpy()  # (d, r)


def inverse_root(matrix: Any) -> Any:
    """Return T with T^T M T = I for a positive semidefinite matrix M; columns for its null space are zeros."""
    import torch

    values, vectors = small_eigenpairs(matrix)
    real = values > RANK_TOLERANCE * values[-1].clamp(min=torch.finfo(values.dtype).tiny)
    return vectors * torch.where(real, torch.where(real, values, 1.0) ** -0.5, 0.0)


def small_eigenpairs(matrices: Any) -> tuple[Any, Any]:
    """Return all eigenvalues of small symmetric matrices (... x m x m), ascending, and their vectors.

    A GPU solves all matrices of up to MOST_BATCHED columns in one launch. Larger ones would take thousands of launches,
    and are solved faster on the host.
    """
    if not matrices.is_cuda or matrices.shape[-1] <= MOST_BATCHED:
        return symmetric_eigenpairs(matrices)
    return host_eigenpairs(matrices)


def orthonormal(block: Any) -> Any:
    """Return orthonormal columns (... x n x m) that span those of a block."""
    import torch

    if block.is_cuda and block.dtype == torch.float64:
        found, gap = orthonormal_by_cholesky(block)
        if gap < ORTHONORMAL:  # and not NaN
            return found
    return torch.linalg.qr(block)[0]


def orthonormal_by_cholesky(block: Any) -> tuple[Any, float]:
    """Return the same by three Cholesky factors of m x m, and the columns' largest deviation from orthonormal.

    On a GPU that takes a third of the time of Householder's reflections, which need a launch for every column. The
    first factor is that of a shifted matrix, so columns may be linearly dependent to within 1e-14, but no more (Fukaya
    et al. 2020).
    """
    import torch

    tiny = torch.finfo(block.dtype).tiny
    found = block / torch.linalg.vector_norm(block, dim=-2, keepdim=True).clamp_(min=tiny)
    for shift in (SHIFT * block.shape[-1], 0.0, 0.0):
        gram = plus_diagonal(found.mT @ found, shift) if shift else found.mT @ found  # (m, m)
        factor, _ = torch.linalg.cholesky_ex(gram)
        found = torch.linalg.solve_triangular(factor.mT, found, upper=True, left=False)
    return found, float(plus_diagonal(found.mT @ found, -1).abs_().amax())


def plus_diagonal(matrix: Any, number: float) -> Any:
    """Return matrices (... x m x m) with a number added to their diagonals, in place."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(number)
    return matrix


def symmetric_eigenpairs(matrices: Any) -> tuple[Any, Any]:
    """Return all eigenvalues of symmetric matrices (... x m x m), ascending, and their vectors.

    A GPU's solver gives up on some matrices with many equal eigenvalues; LAPACK does not.
    """
    import torch

    try:
        return torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:
        return host_eigenpairs(matrices)


def host_eigenpairs(matrices: Any) -> tuple[Any, Any]:
    """Return eigenvalues and vectors as LAPACK finds them, on the matrices' device."""
    values, vectors = np.linalg.eigh(matrices.cpu().numpy())
    return to_tensor(values, matrices.device), to_tensor(vectors, matrices.device)

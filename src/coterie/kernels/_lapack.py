"""The largest eigenpairs of a symmetric matrix by LAPACK, called without the GIL.

SciPy's functions hold the GIL while LAPACK runs, so the eigenproblems of several graphs would be solved one after the
other on any number of threads. Checking their arguments also takes longer than solving a small problem. A call through
ctypes releases the GIL.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

PREFIXES = {"f": "s", "d": "d"}  # of a routine's name, by precision
BLOCK = 64  # columns that are reduced at once: LAPACK asks for a workspace of at most BLOCK * n numbers

# Eigenvectors of eigenvalues at least this far apart (in a matrix of order 1) are computed one by one, and come out
# orthogonal. Those of closer ones are left to LAPACK, which orthogonalises them and takes several times as long.
APART = 1e-4


def top_eigenpairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric matrix, ascending, and their vectors; fewer where LAPACK fails.

    The matrix must be finite. It is reduced to tridiagonal form, as in LAPACK's own driver for a subset of eigenpairs.
    But that driver takes as long again for bisection, and in float32 its eigenvectors of close eigenvalues are hardly
    orthogonal.
    """
    n, kind = len(matrix), matrix.dtype.char
    reflectors = np.array(matrix, order="C")  # LAPACK overwrites it; a symmetric matrix is its own transpose
    diagonal, off_diagonal, scales = np.empty((3, n), matrix.dtype)
    room = np.empty(BLOCK * n, matrix.dtype)
    run(kind, "sytrd", b"U", n, reflectors, n, diagonal, off_diagonal, scales, room, len(room))
    values, turned = tridiagonal_eigenpairs(diagonal, off_diagonal[: n - 1], count)
    vectors, m = turned.T.astype(matrix.dtype, order="C"), len(values)  # (m, n): LAPACK's columns
    run(kind, "ormtr", b"L", b"U", b"N", n, m, reflectors, n, scales, vectors, n, room, len(room))
    return values, vectors.T  # (m,), (n, m)


def singular_vectors(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the singular value decomposition U, s, V^T; by gesvd where the faster gesdd does not converge.

    In float32, gesdd may not converge where many singular values are nearly equal.
    """
    from scipy.linalg import LinAlgError, svd

    try:
        return svd(matrix, full_matrices=False)
    except LinAlgError:
        return svd(matrix, full_matrices=False, lapack_driver="gesvd")


def tridiagonal_eigenpairs(diagonal: np.ndarray, off_diagonal: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric tridiagonal matrix, ascending, and their vectors, in float64.

    No eigenpairs are returned for a matrix of zeros, or where LAPACK fails.
    """
    diagonal, off_diagonal = diagonal.astype(np.float64), off_diagonal.astype(np.float64)
    bound = largest_size(diagonal, off_diagonal)
    if bound == 0:
        return np.empty(0), np.empty((len(diagonal), 0))
    unit = 2.0 ** np.floor(np.log2(bound))  # the square of 1e200 would overflow
    diagonal, off_diagonal = diagonal / unit, off_diagonal / unit
    values = tridiagonal_values(diagonal, off_diagonal, count)
    vectors = tridiagonal_vectors(diagonal, off_diagonal, values)
    return values[: vectors.shape[1]] * unit, vectors  # (m,), (n, m)


def tridiagonal_values(diagonal: np.ndarray, off_diagonal: np.ndarray, count: int) -> np.ndarray:
    """Return the largest eigenvalues, ascending, of a symmetric tridiagonal float64 matrix of order 1."""
    from coterie.kernels._numba_spectra import largest_values  # numba takes a while to import

    values, bound = np.empty(count), largest_size(diagonal, off_diagonal)
    largest_values(diagonal, off_diagonal**2, -bound, bound, values)
    return values  # (m,)


def tridiagonal_vectors(diagonal: np.ndarray, off_diagonal: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the eigenvectors of given eigenvalues of a symmetric tridiagonal matrix; none where LAPACK fails.

    The matrix is float64 with entries of order 1, and the eigenvalues ascend.
    """
    from coterie.kernels._numba_spectra import write_vectors

    vectors = np.empty((len(values), len(diagonal)))
    write_vectors(diagonal, off_diagonal, values, vectors)
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > APART)  # of clusters of close eigenvalues
    for start, stop in zip(starts, [*starts[1:], len(values)], strict=True):
        if stop - start > 1:
            near = orthogonal_vectors(diagonal, off_diagonal, values[start:stop])
            if not len(near):
                return np.empty((len(diagonal), 0))
            vectors[start:stop] = near
    return vectors.T  # (n, m)


def orthogonal_vectors(diagonal: np.ndarray, off_diagonal: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the eigenvectors as rows, by LAPACK: those of close eigenvalues are orthogonal, too."""
    n, count = len(diagonal), len(values)
    vectors, failures = np.empty((count, n)), np.empty(count, np.intc)
    one_block, ends = np.ones(n, np.intc), np.full(n, n, np.intc)
    room, integers = np.empty(5 * n), np.empty(n, np.intc)
    given = (n, diagonal, off_diagonal, count, values, one_block, ends)
    failed = run("d", "stein", *given, vectors, n, room, integers, failures)
    return vectors[: 0 if failed else count]  # (m, n)


def largest_size(diagonal: np.ndarray, off_diagonal: np.ndarray) -> float:
    """Return an upper bound of the eigenvalues' absolute values."""
    return float(np.abs(diagonal).max() + 2 * np.abs(off_diagonal).max(initial=0))


def run(kind: str, name: str, *arguments: Any) -> int:
    """Call a LAPACK routine, its arguments passed by reference, and return its ``info``: 0 on success."""
    info = ctypes.c_int(0)
    held = [as_reference(argument) for argument in (*arguments, info)]  # alive until the routine returns
    routine(PREFIXES[kind] + name, len(held))(*map(address, held))
    return info.value


@cache
def routine(name: str, n_arguments: int) -> Any:
    """Return one of LAPACK's routines, as SciPy was built with it."""
    from numba.extending import get_cython_function_address

    pointer = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(pointer)


def as_reference(argument: Any) -> Any:
    """Return an argument as an object with an address."""
    return ctypes.c_int(argument) if isinstance(argument, int) else argument


def address(argument: Any) -> Any:
    """Return an argument's address, which is what a routine takes."""
    if isinstance(argument, np.ndarray):
        return argument.__array_interface__["data"][0]  # several times as fast as ``argument.ctypes.data``
    return argument if isinstance(argument, bytes) else ctypes.addressof(argument)

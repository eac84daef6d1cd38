"""LAPACK's search for some eigenpairs, called without the interpreter's lock.

SciPy's ``eigh`` holds the lock while LAPACK runs, so eigenproblems of several graphs would be solved one after the
other however many threads there are. A call through ctypes releases it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

NAMES = {"f": "ssyevr", "d": "dsyevr"}
N_ARGUMENTS = 21


@cache
def routine(kind: str) -> Any:
    """Return LAPACK's symmetric eigensolver for float32 ("f") or float64 ("d"), as SciPy was built with it."""
    from numba.extending import get_cython_function_address

    address = get_cython_function_address("scipy.linalg.cython_lapack", NAMES[kind])
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * N_ARGUMENTS)(address)


def top_eigenpairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric matrix, ascending, and their vectors; fewer where LAPACK fails.

    The matrix must be finite.
    """
    n, kind = len(matrix), matrix.dtype.char
    work, integers = np.empty(1, matrix.dtype), np.empty(1, np.intc)
    call(kind, matrix, count, work, integers, query=True)
    copy = np.array(matrix, order="C")  # LAPACK overwrites it; a symmetric matrix is its own transpose
    work, integers = np.empty(int(work[0]), matrix.dtype), np.empty(max(int(integers[0]), 10 * n), np.intc)
    return call(kind, copy, count, work, integers)


def call(
    kind: str, matrix: np.ndarray, count: int, work: np.ndarray, integers: np.ndarray, *, query: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Run the solver, or ask how much room it needs, which it writes to ``work`` and ``integers``."""
    n = len(matrix)
    values, vectors = np.empty(n, matrix.dtype), np.empty((count, n), matrix.dtype)  # vectors are its columns
    bound, support = np.zeros(1, matrix.dtype), np.empty(2 * count, np.intc)
    size, first, found, info = (ctypes.c_int(number) for number in (n, n - count + 1, 0, 0))
    room, integer_room = (ctypes.c_int(-1 if query else len(array)) for array in (work, integers))
    given = (b"V", b"I", b"L", size, matrix, size, bound, bound, first, size, bound, found, values, vectors, size)
    routine(kind)(*map(address, (*given, support, work, room, integers, integer_room, info)))
    kept = found.value if info.value == 0 else 0
    return values[:kept], vectors[:kept].T  # (m,), (n, m)


def address(argument: Any) -> Any:
    """Return what the solver takes for an argument: a pointer."""
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    return ctypes.addressof(argument) if isinstance(argument, ctypes.c_int) else argument

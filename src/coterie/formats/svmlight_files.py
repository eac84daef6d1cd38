"""svmlight and libsvm files: sparse rows as text, each with a label; read whole, by scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from coterie.formats.checks import check_shape
from coterie.formats.labels import Target
from coterie.formats.registry import Request
from coterie.formats.stores import CSRStore, Lazy, Store, csr_parts_of


def read_rows(path: Path) -> tuple[sparse.csr_array, np.ndarray]:
    """Return rows and labels."""
    from sklearn.datasets import load_svmlight_file

    rows, known = load_svmlight_file(str(path))
    return sparse.csr_array(rows), known


def csr_parts(found: Lazy[tuple[sparse.csr_array, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of the rows."""
    return csr_parts_of(found()[0])


# -- the reader -------------------------------------------------------------------------------------------------


def open_store(path: Path, request: Request) -> Store:
    """Return the table of a file, which is read into memory."""
    found = Lazy(read_rows, path)
    rows = found()[0]
    shape = check_shape(rows.shape, str(path))
    return CSRStore(where=str(path), shape=shape, dtype=rows.dtype, parts=Lazy(csr_parts, found))


def read_labels(path: Path, request: Request) -> Target:
    """Return known labels."""
    return Target(read_rows(path)[1])

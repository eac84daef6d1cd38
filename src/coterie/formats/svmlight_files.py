"""svmlight and libsvm files: sparse rows as text, each with a label; read whole, by scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from coterie.formats.errors import FormatError
from coterie.formats.tables import CSRStore, Lazy, Store, Target, check_shape, csr_parts_of


def load(path: Path) -> tuple[sparse.csr_array, np.ndarray]:
    """Return rows and labels."""
    from sklearn.datasets import load_svmlight_file

    rows, known = load_svmlight_file(str(path))
    return sparse.csr_array(rows), known


def csr_parts(loaded: Lazy[tuple[sparse.csr_array, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of the rows."""
    return csr_parts_of(loaded()[0])


def tables(path: Path) -> tuple[str, ...]:
    """Return no keys: the file is one table."""
    return ()


def open_store(path: Path, key: str | None) -> Store:
    """Return the table of a file, which is in memory from now on."""
    if key is not None:
        raise FormatError(f"{path} is a single table and has no key {key!r}. Leave the key out.")
    loaded = Lazy(load, path)
    rows = loaded()[0]
    shape = check_shape(rows.shape, str(path))
    return CSRStore(where=str(path), shape=shape, dtype=rows.dtype, parts=Lazy(csr_parts, loaded))


def labels(path: Path, key: str | None) -> Target:
    """Return known labels."""
    return Target(load(path)[1])

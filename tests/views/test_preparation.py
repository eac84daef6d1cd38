"""Prepared rows have the spread and the lengths that they promise."""

import numpy as np
import pytest
from scipy import sparse

from coterie.views import prepare


@pytest.mark.parametrize("scaling", ["block", "half", "standard"])
@pytest.mark.parametrize("unit", [1e-25, 1.0, 1e25])
def test_prepared_rows_have_unit_spread(rng, scaling, unit):
    X = unit * (rng.standard_normal((200, 5)) * [1, 2, 3, 4, 100] + 50)
    prepared = prepare(X, scaling=scaling, metric="euclidean", dtype="float64")(X)
    np.testing.assert_allclose(prepared.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose((prepared**2).sum(axis=1).mean(), 1)
    ratio = prepared.std(axis=0)[4] / prepared.std(axis=0)[0]
    before = X.std(axis=0)[4] / X.std(axis=0)[0]
    exponent = {"block": 1, "half": 0.5, "standard": 0}[scaling]
    np.testing.assert_allclose(ratio, before**exponent)


def test_cosine_rows_have_unit_length(rng):
    X = rng.random((30, 4))
    X[3] = 0
    for data in (X, sparse.csr_array(X)):
        prepared = prepare(data, scaling="none", metric="cosine", dtype="float64")(data)
        rows = prepared.toarray() if sparse.issparse(prepared) else prepared
        lengths = np.linalg.norm(rows, axis=1)
        np.testing.assert_allclose(np.delete(lengths, 3), 1)
        assert lengths[3] == 0

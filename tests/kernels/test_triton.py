"""Triton's kernels without a GPU: its interpreter runs them on CPU tensors, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

FAR = 2**30  # numbers between two slots: the third begins at 2^31
BOUNDS = np.array([0, 1, 3])


def test_kernels_are_right_in_the_interpreter():
    pytest.importorskip("torch")
    pytest.importorskip("triton", minversion="3.7")  # older interpreters fail with NumPy 2.4
    interpreted = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, __file__], env=interpreted, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_nearest(kernels, torch):
    """Odd shapes are searched as by brute force."""
    rng = np.random.default_rng(0)
    for n, d, p, q in [(10, 33, 40, 12), (6, 1, 40, 18), (1, 5, 2, 17)]:
        rows, landmarks = (torch.as_tensor(rng.standard_normal((m, d)), dtype=torch.float32) for m in (n, p))
        norms = [kernels.squared_norms(table) for table in (rows, landmarks)]
        norms[1][1::3] = torch.inf
        indices, squares = kernels.nearest_fused(rows, norms[0], landmarks, norms[1], q, "float32")
        exact = (rows[:, None].double() - landmarks.double()).square().sum(dim=2)  # (n, p)
        exact[:, 1::3] = torch.inf
        known, count = squares < torch.inf, min(q, int((norms[1] < torch.inf).sum()))
        assert (known.sum(dim=1) == count).all()
        torch.testing.assert_close(squares[known].double(), exact.gather(1, indices.long())[known], rtol=0, atol=1e-4)
        found, expected = (table.sort(dim=1).values[:, :count] for table in (squares.double(), exact))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def check_runs(kernels, torch):
    """Passes of k-means, and their starts, are those of plain torch."""
    rng = np.random.default_rng(0)
    for n, c, k in [(1, 1, 1), (300, 2, 1), (257, 32, 32), (40, 17, 17)]:
        rows = torch.as_tensor(rng.standard_normal((2, n, c)), dtype=torch.float32)
        starts = torch.as_tensor(rng.standard_normal((2, k, c)), dtype=torch.float32)
        draws = torch.as_tensor(rng.random((2, min(n, k, 9), 3)))
        assert (kernels.kmeans_plus_plus(rows, draws) == kernels.kmeans_plus_plus(rows.double(), draws)).all()
        for found, plain in zip(
            kernels.kmeans_runs(rows, starts, 1), kernels.kmeans_runs(rows.double(), starts.double(), 1), strict=True
        ):
            torch.testing.assert_close(found.double(), plain, rtol=1e-4, atol=1e-4)


def check_far(kernels, torch):
    """Slots of many rows are found although their numbers need more than 32 bits."""
    rng = np.random.default_rng(0)
    n, p, q = 5, 7, BOUNDS[-1]
    indices = torch.as_tensor(np.argsort(rng.random((n, p)), axis=1)[:, :q].astype(np.int16))
    weights = torch.as_tensor(rng.random((n, q)), dtype=torch.float32)
    bases = torch.as_tensor(rng.standard_normal((2, p, 3)), dtype=torch.float32)

    def results(indices, weights):
        total = torch.zeros((2, p, p), dtype=torch.int64)
        kernels.grams(indices, weights, BOUNDS, total)
        stacked = kernels.project(indices, weights, BOUNDS, bases, True)
        embedding = kernels.embed(indices, weights, BOUNDS, bases, None)
        return total, stacked, embedding, kernels.gaussian(weights, BOUNDS, [0.0, 0.5])  # in place

    with TemporaryDirectory() as folder:
        far = [far_apart(table, Path(folder) / str(table.dtype), torch) for table in (indices, weights)]
        for found, expected in zip(results(*far), results(*kernels.lay_out(indices, weights)), strict=True):
            torch.testing.assert_close(found, expected)


def far_apart(table, path, torch):
    """The same numbers with FAR numbers between two slots, in a sparse file."""
    n, q = table.shape
    whole = np.memmap(path, table.numpy().dtype, "w+", shape=(q - 1) * FAR + n)
    return torch.as_tensor(whole).as_strided((n, q), (1, FAR)).copy_(table)


if __name__ == "__main__":
    import torch

    from coterie.kernels import torch as kernels

    torch.Tensor.is_cuda = property(lambda tensor: True)
    for check in (check_nearest, check_runs, check_far):
        check(kernels, torch)

"""A few hundred damaged files of every format; benchmarks/scripts/fuzz.py looks at as many thousands."""

from collections import Counter

import numpy as np
import pytest
from mutate_files import KINDS, make_case, place_file, try_file

# Each .mat file takes a child process, about as long as fifty other files.
CASES = {"mat4": 14, "mat5": 14, "config": 40, "zarr": 100, "anndata zarr": 40, "h5ad": 80, "h5mu": 60}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "model"])  # those are in test_saving.py
def test_damaged_files_are_read_or_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seeds = KINDS[kind].seeds()
    for i, seed in enumerate(seeds):
        (tmp_path / f"good{i}").mkdir()
        assert try_file(kind, place_file(seed, tmp_path / f"good{i}")) == "read"
    found = Counter()
    for number in range(CASES.get(kind, 200)):
        _, file = make_case(kind, seeds, np.random.default_rng([2027, list(KINDS).index(kind), number]))
        folder = tmp_path / str(number)
        folder.mkdir()
        found[try_file(kind, place_file(file, folder))] += 1
    assert set(found) == {"read", "refused"}

"""Compiled functions where nothing can be kept of them: a read-only package, no home, a full or failing disk."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.kernels import cpu

USE = """
import numpy as np
from coterie.kernels import _numba
rows = np.empty((2, 3))
_numba.level(np.ones((2, 3)), np.ones(3), np.ones(3), rows)
assert not rows.any()
"""


def run(folder, **environment):
    """Compile one function in a process of its own."""
    known = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    known |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", USE], env=known, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package in whose kernels' folder nothing can be kept, not even by root."""
    folder = tmp_path_factory.mktemp("package")
    source = Path(coterie.__file__).parent
    shutil.copytree(source, folder / "coterie", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "coterie" / "kernels" / "__pycache__").write_text("not a folder")
    return folder


def test_without_any_cache_functions_are_compiled_all_the_same(package, tmp_path):
    (tmp_path / "file").write_text("")
    said = run(package, XDG_CACHE_HOME=str(tmp_path / "file"), HOME=str(tmp_path / "file"))
    assert said.count("RuntimeWarning") == 1
    assert "Compiled functions cannot be kept in any folder" in said
    assert "Set NUMBA_CACHE_DIR" in said


def test_a_damaged_cache_is_made_anew(package, tmp_path):
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path)) == ""
    (index,) = tmp_path.rglob("*level*.nbi")
    index.write_bytes(b"\0" * 100)
    assert "could not be read from" in run(package, NUMBA_CACHE_DIR=str(tmp_path))
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path)) == ""


def test_neighbours_beyond_the_landmarks_are_refused():
    """Whatever damaged them: a compiled loop would write beyond its array."""
    weights, bounds, bases = np.ones((1, 2), np.float32), np.array([0, 2]), np.ones((1, 3, 4), np.float32)
    for indices in (np.array([[0, 3]], np.uint16), np.array([[-1, 2]], np.int32)):
        for work in (
            lambda: cpu.gram(indices, weights, cpu.new_gram(3, weights)),  # noqa: B023
            lambda: cpu.project(indices, weights, bounds, bases, True),  # noqa: B023
            lambda: cpu.embed(indices, weights, bounds, bases, None),  # noqa: B023
            lambda: cpu.guide(indices, weights, bounds, bases, None, bases[0]),  # noqa: B023
        ):
            with pytest.raises(IndexError, match="Neighbours must be landmarks 0 to 2"):
                work()

"""What a job is: other data, other code and other parameters are another job."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import coterie
from coterie.formats import open_table
from coterie.jobs import CHECKED_BYTES, as_text, fingerprint, identify_job, source_digest
from coterie.views import as_views


def print_of(table, n_threads=1, positions=None):
    return fingerprint(replace(as_views(table)[0], positions=positions), n_threads)


@pytest.fixture
def table(rng):
    return rng.standard_normal((5000, 4))


def swapped(table, one, other):
    table = table.copy()
    table[[one, other]] = table[[other, one]]
    return table


@pytest.mark.parametrize("kind", ["array", "fortran", "sparse", "npy", "csv"])
def test_all_rows_take_part(table, tmp_path, kind):
    """Any two rows that change places, and any value that differs, make other data; a copy is the same."""

    def made(rows):
        if kind == "fortran":
            return np.asfortranarray(rows)
        if kind == "sparse":
            return sparse.csr_array(rows)
        if kind == "array":
            return rows.copy()
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.{kind}"
        np.save(path, rows) if kind == "npy" else np.savetxt(path, rows, delimiter=",")
        return path

    expected = print_of(made(table))
    assert print_of(made(table)) == print_of(made(table), 3) == expected
    for one, other in ((0, 1), (2501, 2502), (7, 4998)):
        assert print_of(made(swapped(table, one, other))) != expected
    changed = table.copy()
    changed[3333, 2] += 1e-9
    assert print_of(made(changed)) != expected


def test_large_tables_are_checked_in_parts(rng, tmp_path):
    data = rng.integers(0, 256, (CHECKED_BYTES // 1024 + 10, 2048), dtype=np.uint8)
    np.save(tmp_path / "a.npy", data)
    found = [print_of(data), print_of(tmp_path / "a.npy")]
    data[-1, -1] ^= 1
    np.save(tmp_path / "a.npy", data)
    assert print_of(data) != found[0]
    assert print_of(tmp_path / "a.npy") != found[1]


def test_which_rows_and_columns_count(table, tmp_path):
    np.save(tmp_path / "a.npy", table)
    whole = open_table(tmp_path / "a.npy")
    some = [whole, open_table(tmp_path / "a.npy", columns=[0, 1]), open_table(tmp_path / "a.npy", columns=[0, 2])]
    found = [print_of(one) for one in some]
    found += [print_of(whole, positions=rows) for rows in (np.arange(5000)[::-1].copy(), np.arange(5000))]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("kind", ["csv", "parquet", "no header"])
def test_which_columns_of_a_file_with_columns_count(rng, tmp_path, kind):
    """Columns with and without names, in their order, and without those that are ids."""
    frame = pd.DataFrame(rng.random((50, 4)), columns=list("abcd"))
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.csv")
    frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False, header=kind == "csv")
    choices = ([0, 1], [2, 3], [0, 2]) if kind == "no header" else (["a", "b"], ["c", "d"], ["b", "a"], [0, 1, 3])
    some = [open_table(path), *(open_table(path, columns=chosen) for chosen in choices)]
    some += [open_table(path, id_column=name) for name in ((0, 3) if kind == "no header" else ("a", "d"))]
    found = [print_of(one) for one in some] + [print_of(one, positions=np.arange(50)) for one in some[1:3]]
    assert len(set(found)) == len(found)


def test_the_order_of_views_is_part_of_the_job(table):
    """Blocks have them side by side."""
    parameters = {"random_state": 0}
    one, other = (identify_job(parameters, as_views({name: table for name in names})) for names in ("ab", "ba"))
    assert one != other


def test_parameters_differ_where_values_do():
    third = np.full(3, 1 / 3)
    assert as_text(third) != as_text(third + 1e-12)  # which NumPy prints alike
    long = np.arange(10**6 + 5)
    assert as_text({"a": long}) != as_text({"a": np.where(long == 500_000, 0, long)})
    assert as_text([third]) == as_text([third.copy()])


def test_numbers_of_numpy_are_the_same_parameters():
    assert as_text([np.int64(3), np.float64(0.5)]) == as_text([3, 0.5])
    assert as_text(np.float32(0.1)) != as_text(0.1)  # another number


def test_other_code_is_another_job(tmp_path):
    """The digest of a copy is the same, until a line of it changes."""
    copied = tmp_path / "coterie"
    shutil.copytree(Path(coterie.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))

    def digest_there():
        code = "from coterie.jobs import source_digest; print(source_digest())"
        done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    assert digest_there() == source_digest()
    with open(copied / "method" / "graphs.py", "a") as file:
        file.write("# another line\n")
    assert digest_there() != source_digest()

"""Tables that the libraries of the formats wrote, read back exactly: whole, by blocks, by rows, in any process."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from written_files import N, dense, names, opened, same

from coterie.formats import (
    open_table,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_every_format_reads_exactly_what_was_written(case, rng):
    table = opened(case)
    values = case.values if sparse.issparse(case.values) else np.ascontiguousarray(case.values)
    assert table.shape == values.shape
    assert len(table) == N
    assert table.ndim == 2
    assert table.dtype == values.dtype
    assert table.columns == case.columns
    assert (None if table.ids is None else table.ids.tolist()) == case.ids
    assert str(N) in repr(table)
    same(table[:], values)
    for start in range(0, N, 70):
        same(table[start : start + 70], values[start : start + 70])
    rows = np.sort(rng.choice(N, 60, replace=False))
    same(table[rows], values[rows])
    same(table[400:410], values[400:410])
    same(table[3:5], values[3:5])  # back to the beginning
    same(table[rows[::-1]], values[rows[::-1]])
    same(table[[5, 2, 5, -1]], values[[5, 2, 5, N - 1]])
    same(table[np.arange(N) % 2 == 0], values[::2])
    same(table[::50], values[::50])
    same(table[[]], values[:0])
    same(table[10:10], values[:0])
    np.testing.assert_array_equal(np.asarray(table), values.toarray() if sparse.issparse(values) else values)


def test_tables_are_read_by_several_threads_and_after_pickling(case):
    table = opened(case)
    again = pickle.loads(pickle.dumps(table))
    assert (again.name, again.shape, again.columns) == (table.name, table.shape, table.columns)
    starts = [0, 300, 40, 450, 80, 120, 10, 499] * 3
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda start: again[start : start + 40], starts))
    for start, block in zip(starts, blocks, strict=True):
        same(block, case.values[start : start + 40])
    assert len(pickle.dumps(again)) < 20_000  # not the data


def test_a_table_is_read_in_another_process(tmp_path, rng):
    values = dense(rng, np.float32)
    pd.DataFrame(values, columns=names()).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "table").write_bytes(pickle.dumps(open_table(tmp_path / "x.parquet")))
    code = "import pickle, sys; print(repr(float(pickle.load(open(sys.argv[1], 'rb'))[250:251].sum())))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "table"], capture_output=True, text=True, check=True)
    assert float(done.stdout) == float(values[250:251].sum())


def test_rows_outside_of_the_table(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    table = open_table(tmp_path / "x.npy")
    with pytest.raises(IndexError, match=r"x.npy has 3 rows. Asked for 1 to 3"):
        table[[1, 3]]
    with pytest.raises(TypeError, match="by a slice or a list of row numbers"):
        table[0.5]

"""Columns by name, number and range, as they stand in the file."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from written_files import N, refused

from coterie.formats import (
    open_table,
)
from coterie.formats.text_files import DELIMITERS, plain_suffix


def test_columns_are_chosen_by_name_number_and_range(case):
    # Numbers count columns as they stand in the file, where the ids of a text come first.
    first = int(case.ids is not None and plain_suffix(case.path) in DELIMITERS)
    columns = [*case.columns[2:3], first, f"{3 + first}:{5 + first}"] if case.columns else [2 + first, first]
    columns = columns if case.columns else [*columns, slice(3 + first, 5 + first)]
    if case.values.shape[1] < 5 or (case.columns and "e[0]" in case.columns):
        pytest.skip("too few columns, or lists")
    table = open_table(case.path, key=case.key, columns=columns, **(case.options or {}))
    expected = case.values[:, [2, 0, 3, 4]]
    assert table.columns == (case.columns and tuple(case.columns[i] for i in (2, 0, 3, 4)))
    assert table.shape == (N, 4)
    block = table[20:90]
    expected_block = expected[20:90]
    if sparse.issparse(block):
        block, expected_block = block.toarray(), expected_block.toarray()
    np.testing.assert_array_equal(block, expected_block)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ranges_count_columns_as_they_stand_in_the_file(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    frame = pd.DataFrame({"id": [7, 8], "a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]})
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    for id_column in (None, "id", 0):
        table = open_table(path, columns="1:3", id_column=id_column)
        assert table.columns == ("a", "b")
        assert table[:].tolist() == [[1, 3], [2, 4]]
    assert open_table(path, columns="0:3", id_column="id").columns == ("a", "b")
    assert open_table(path, columns=["-1", slice(-3, None)], id_column="id").columns == ("c", "a", "b", "c")
    assert open_table(path, columns=[0, 3], id_column="b").columns == ("id", "c")
    refused(path, "x.*: 'id' holds the row ids and no values", columns=["a", "id"], id_column="id")
    refused(path, "x.*: 0 holds the row ids and no values", columns=[0], id_column="id")


def test_the_index_of_pandas_counts_as_a_column_where_it_stands(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["p", "q"])
    frame.to_csv(tmp_path / "x.csv")
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_table(tmp_path / "x.csv", columns="1:").columns == ("a", "b")
    assert open_table(tmp_path / "x.parquet", columns="0:2").columns == ("a", "b")


@pytest.mark.parametrize("written", ["1:385", "4:", "-5:2", "3:3", slice(0, 9), slice(2, 1)])
def test_ranges_beyond_the_columns_are_refused(tmp_path, written):
    pd.DataFrame(np.eye(3), columns=list("abc")).to_csv(tmp_path / "x.csv", index=False)
    np.save(tmp_path / "x.npy", np.eye(3))
    for path in (tmp_path / "x.csv", tmp_path / "x.npy"):
        refused(path, "has 3 columns, counted from 0, and .* is no range of them", columns=written)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_whole_numbers_that_are_rounded_are_warned_of(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    write = {"csv": lambda frame: frame.to_csv(path, index=False), "parquet": lambda frame: frame.to_parquet(path)}
    write["arrow"] = lambda frame: frame.to_feather(path)
    beside = {"part": [0.5, 1.5, 2.5], "small": [1, 2, 3]}
    for numbers in ([1, 2**53 + 1, 3], [2**62 + 1, None, -(2**53) - 1]):
        write[suffix](pd.DataFrame({"big": pd.array(numbers, "Int64"), **beside}))
        with pytest.warns(UserWarning, match=r"x\.\w+: column 'big' holds whole numbers above 2.*id_column") as told:
            found = open_table(path)[:]
        assert len({str(one.message) for one in told}) == 1
        np.testing.assert_array_equal(found[:, 0], np.array(numbers, dtype=np.float64))
    write[suffix](pd.DataFrame({"big": pd.array([2**60, None, -(2**53)], "Int64"), **beside, "float": 1e300}))
    assert open_table(path)[:][0, 0] == 2**60  # float64 holds these, so nothing is said
    write[suffix](pd.DataFrame({"big": [2**53 + 1, 1, 2], **beside}))
    assert open_table(path, id_column="big").ids.tolist() == [2**53 + 1, 1, 2]


def test_whole_decimals_that_are_rounded_are_warned_of(tmp_path):
    """Databases write keys so."""
    path = tmp_path / "x.parquet"
    for numbers, is_said in (["9007199254740993", None, "1"], True), (["9007199254740992", "0.1", None], False):
        decimals = [None if number is None else Decimal(number) for number in numbers]
        pd.DataFrame({"big": decimals, "part": [0.5, 1.5, 2.5]}).to_parquet(path)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = open_table(path)[:]
        assert len(told) == is_said
        assert all("column 'big' holds whole numbers above 2**53" in str(one.message) for one in told)
        np.testing.assert_array_equal(found[:, 0], np.array(numbers, dtype=np.float64))

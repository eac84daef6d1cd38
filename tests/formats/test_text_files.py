"""Tables as text: what is a number, and which line is wrong."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from written_files import refused

from coterie.formats import (
    FormatError,
    open_table,
    open_target,
    open_views,
    text_files,
)


def test_text_among_the_numbers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3,4\n5,six\n")
    refused(path, "column 'b' holds 'six' in line 4, which is not a number")
    assert open_table(path, columns="a")[:].tolist() == [[1], [3], [5]]
    path.write_text("a,b\n1,2\n3\n")
    refused(path, "line 3 has 1 fields where the first line has 2")
    path.write_text("cell1,0.5,2\ncell2,0.1,3\n")
    refused(path, "the first line is neither names nor numbers \\('cell1' beside '0.5'\\)")
    path.write_text("a,a\n1,2\n")
    refused(path, "two columns 'a'")
    path.write_text("a,b\n")
    refused(path, "has no rows")
    pl.DataFrame({"a": [1.0], "b": ["x"]}).write_parquet(tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "column 'b' holds .*string.*, not numbers, from row 0 on")
    assert open_table(tmp_path / "x.parquet", id_column="b").ids.tolist() == ["x"]
    pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}).to_parquet(tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "column 'd' holds dates or times")


@pytest.mark.parametrize("written", ["1,5", "-1.234.567", "1'234", "1 234,5", "1_234"])
def test_numbers_as_other_countries_write_them_are_refused_with_the_remedy(tmp_path, written):
    (tmp_path / "x.csv").write_text(f"a;b\n{written};2\n")
    refused(tmp_path / "x.csv", "in line 2, which is not a number. Write numbers with a decimal point, and without")


def test_empty_lines_are_no_rows(tmp_path):
    path = tmp_path / "x.csv"
    for text in ("\n\na,b\n1,2\n\n3,4\n\n", "\ufeff\r\na,b\r\n1,2\r\n\r\n3,4\r\n"):
        path.write_bytes(text.encode())
        table = open_table(path)
        assert (table.columns, table[:].tolist()) == (("a", "b"), [[1, 2], [3, 4]])
    path.write_text("\n\n1,2\n3,4\n")
    assert open_table(path, header=False)[:].tolist() == [[1, 2], [3, 4]]
    path.write_text("a,b\n1,2\n  \n3,4\n")
    refused(path, "line 3 has 1 fields where the first line has 2")
    path.write_text("\n\n")
    refused(path, "holds empty lines alone")
    path.write_bytes(b"a,b\r1,2\r3,4\r")
    refused(path, "lines that end in a carriage return alone")


def test_line_breaks_in_quoted_text_are_refused_with_the_remedy(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,a\n"one",1\n"two\nlines",2\nthree,3\n')
    with pytest.raises(FormatError, match=r"x.csv: 4 lines hold 3 rows. .* convert the file to parquet\.$"):
        open_table(path, id_column="id")[:]


def test_ids_in_another_encoding_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("id,a\nMeier,1\nMüller,2\n".encode("latin-1"))
    with pytest.raises(FormatError, match=r"x.csv: line 3 is not UTF-8 \(b'M\\xfcller,2'\). Write the file in"):
        len(open_table(path, id_column="id").ids)
    assert open_table(path, columns="a")[:].tolist() == [[1], [2]]
    path.write_bytes("Größe,1\n2,3\n".encode("latin-1"))
    refused(path, "line 1 is not UTF-8", header=False)
    path.write_bytes("id,a\nMeier,1\nMüller,2\n".encode())
    assert open_table(path, id_column="id").ids.tolist() == ["Meier", "Müller"]


def test_text_in_the_middle_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "SEGMENT_BYTES", 1000)
    lines = ["a,b", *(f"{i},{i}" for i in range(2000))]
    lines[1501] = "1500,n.a."
    (tmp_path / "x.csv").write_text("\n".join(lines))
    table = open_table(tmp_path / "x.csv")
    assert table[:1300].shape == (1300, 2)
    for _ in range(2):  # what failed once fails again
        with pytest.raises(FormatError, match=r"x.csv: column 'b' holds 'n.a.' in line 1502"):
            table[1400:1600]
    assert table[1800:].shape == (200, 2)


YEARS = "2019,2020,2021\n0.5,1.5,2.5\n3.5,4.5,5.5\n"


def test_a_first_line_of_years_is_read_as_values_with_a_warning(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(YEARS)
    with pytest.warns(UserWarning, match=r"x.csv: the first line \(2019, 2020, 2021, ...\) may be names.*--header"):
        table = open_table(path)
    assert (table.shape, table.columns) == ((3, 3), None)


@pytest.mark.parametrize("text", ["ann,5,6\nbob,3,9\n", "ann,0\nbob,1\n", "id,0,1,2\nbob,3,9,7\n"])
def test_a_first_line_of_text_beside_numbers_that_may_be_values_raises_a_warning(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.warns(
        UserWarning, match=r"x.csv: the first line \(\w+, .*\) may be values; it is read as names.*--no-h"
    ):
        assert open_table(path, id_column=0).ids.tolist() == ["bob"]
    assert open_table(path, id_column=0, header=False).shape[0] == 2
    path.write_text(text.replace("bob,", "bob,0."))  # names over fractions
    assert open_table(path, id_column=0).shape[0] == 1
    path.write_text("id,1,2,3,4\nann,5,6,7,8\n")
    assert open_table(path, id_column="id").shape == (1, 4)


def test_header_says_whether_the_first_line_holds_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(YEARS)
    named = open_table(path, header=True)
    assert named.columns == ("2019", "2020", "2021")
    assert named[:].tolist() == [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]
    assert open_table(path, header=True, columns=["2020"])[:].tolist() == [[1.5], [4.5]]
    assert open_table(path, header=False)[:1].tolist() == [[2019, 2020, 2021]]
    assert open_views([path], header=True)["x"].shape == (2, 3)
    path.write_text("0,1,2,3\n9,9,9,9\n")  # which pandas would mean as names
    assert open_table(path).shape == (1, 4)
    assert open_table(path, header=False).shape == (2, 4)
    path.write_text("cell1,0.5,2\ncell2,0.1,3\n")
    table = open_table(path, header=False, id_column=0)
    assert (table.shape, table.ids.tolist()) == ((2, 2), ["cell1", "cell2"])
    (tmp_path / "y.csv").write_text("2019\n0\n1\n")
    assert open_target(tmp_path / "y.csv", header=True).labels.tolist() == [0, 1]
    assert open_target(tmp_path / "y.csv", header=False).labels.tolist() == [2019, 0, 1]


@pytest.mark.parametrize("text", ["5.1,3.5\n4.9,3.0\n", "3,1,2\n1,1,4\n", "1,1\n0.5,0.5\n", "1,2\n3,4\n", "7\n3\n"])
def test_values_that_do_not_look_like_names_raise_no_warning(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert open_table(path).shape[0] == 2


def test_headers_in_other_encodings_are_refused_with_the_one_to_write(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("größe,gewicht\n1,2\n3,4\n".encode("latin-1"))
    with pytest.raises(
        FormatError, match=r"x.csv: line 1 is not UTF-8 \(b'gr\\xf6\\xdfe,gewicht'\). Write .* in UTF-8"
    ):
        open_table(path)
    for encoding in ("utf-16", "utf-16-be"):
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        path.write_bytes(f"{mark}größe,gewicht\n1,2\n3,4\n".encode(encoding))
        with pytest.raises(FormatError, match=r"x.csv is text in UTF-16. Write it in UTF-8"):
            open_table(path)
    path.write_text("größe,gewicht\n1,2\n3,4\n", encoding="utf-8-sig")
    assert open_table(path).columns == ("größe", "gewicht")


def test_true_and_false_are_one_and_zero(tmp_path, monkeypatch):
    """As pandas writes 0/1 columns of get_dummies."""
    frame = pd.DataFrame({"age": [30.5, 41, 29], "red": [True, False, True], "blue": [False, True, None]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    expected = [[30.5, 1, 0], [41, 0, 1], [29, 1, float("nan")]]
    for size in (text_files.SEGMENT_BYTES, 20):  # in one segment, and in several
        monkeypatch.setattr(text_files, "SEGMENT_BYTES", size)
        np.testing.assert_array_equal(open_table(tmp_path / "x.csv")[:], expected)
    np.testing.assert_array_equal(open_table(tmp_path / "x.csv", columns="blue")[:].ravel(), [0, 1, float("nan")])
    (tmp_path / "r.csv").write_text("a,b\nTRUE,false\nFALSE,NA\n")
    np.testing.assert_array_equal(open_table(tmp_path / "r.csv")[:], [[1, 0], [0, float("nan")]])


def test_true_among_other_values_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,True\n2,maybe\n")
    refused(tmp_path / "x.csv", "column 'b' holds 'True' in line 2, which is not a number")
    (tmp_path / "x.csv").write_text("a,b\nTrue,1\nFalse,six\n")
    refused(tmp_path / "x.csv", "column 'b' holds 'six' in line 3, which is not a number")
    (tmp_path / "x.csv").write_text("False,True\nTrue,False\n")
    refused(tmp_path / "x.csv", "the first line \\(False, True\\) may be names or values. Say which: --header")
    assert open_table(tmp_path / "x.csv", header=False)[:].tolist() == [[0, 1], [1, 0]]
    assert open_table(tmp_path / "x.csv", header=True)[:].tolist() == [[1, 0]]
    (tmp_path / "x.csv").write_text("ann,True,False\nbob,False,True\ncy,True,True\n")  # the ids are no names either
    refused(tmp_path / "x.csv", "the first line \\(ann, True, False\\) may be names or values. Say which: --header")
    (tmp_path / "x.csv").write_text("age,False,True\n30,True,False\n40,False,True\n")  # a name over a number
    assert open_table(tmp_path / "x.csv")[:].tolist() == [[30, 1, 0], [40, 0, 1]]


@pytest.mark.filterwarnings("default:.*left out because they hold no numbers")
def test_columns_of_true_and_false_stay_where_only_numbers_are_wanted(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c,d\n1,True,x,1\n2,,y,True\n3,false,z,2\n")
    with pytest.warns(UserWarning, match="left out because they hold no numbers: c, d"):
        table = open_table(tmp_path / "x.csv", numeric_only=True)
    np.testing.assert_array_equal(table[:], [[1, 1], [2, float("nan")], [3, 0]])

"""Which row of one table is which row of another."""

import mudata
import numpy as np
import pandas as pd
import pytest
from pandas_text import plain_text
from written_files import D, N, annotated, dense, row_names

from coterie.formats import (
    FormatError,
    match_rows,
    open_table,
    open_target,
    open_views,
    write_table,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def frames(folder, **ids):
    """Open a csv file for each list of ids; its values are the ids' places in it."""
    for name, rows in ids.items():
        pd.DataFrame({"x": np.arange(float(len(rows)))}, index=pd.Index(rows, name="id")).to_csv(folder / f"{name}.csv")
    return list(open_views([folder / f"{name}.csv" for name in ids], id_column="id").values())


def test_rows_are_matched_by_id(tmp_path):
    ids, positions = match_rows(frames(tmp_path, a=["p", "q", "r"], b=["r", "s", "p"], c=["p", "q", "r", "s"]))
    assert ids.tolist() == ["p", "q", "r", "s"]
    assert positions[0].tolist() == [0, 1, 2, -1]
    assert positions[1].tolist() == [2, -1, 0, 1]
    assert positions[2] is None


def test_matched_rows_fit_a_view(tmp_path):
    from coterie.views import View

    tables = frames(tmp_path, a=["p", "q", "r"], b=["r", "s", "p"])
    _, positions = match_rows(tables)
    views = [View(table.name, table, table.columns, rows) for table, rows in zip(tables, positions, strict=True)]
    blocks = [view.read(slice(0, 4)) for view in views]
    assert blocks[0].data.ravel().tolist() == [0, 1, 2, 0]
    assert blocks[1].data.ravel().tolist() == [2, 0, 0, 1]
    assert blocks[1].present.tolist() == [True, False, True, True]


@plain_text()
def test_modalities_with_other_cells_are_matched(tmp_path, rng):
    cells = annotated(dense(rng))
    rna, adt = cells[:400].copy(), cells[100:][::-1].copy()
    adt.var_names = [f"p{i}" for i in range(D)]
    mudata.MuData({"rna": rna, "adt": adt}).write(tmp_path / "x.h5mu")
    views = open_views([tmp_path / "x.h5mu"])
    ids, (in_rna, in_adt) = match_rows(list(views.values()))
    assert ids.tolist() == row_names()[:400] + row_names()[:399:-1]
    assert (in_rna >= 0).sum() == 400
    assert in_adt[100] == N - 101
    assert (in_adt[:100] == -1).all()


def test_equal_ids_leave_rows_in_place(tmp_path):
    ids, positions = match_rows(frames(tmp_path, a=[7, 3, 5], b=[7, 3, 5]))
    assert ids.tolist() == [7, 3, 5]
    assert positions == [None, None]


def test_whole_numbers_match_the_same_numbers_as_text(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=["7", "3"]).to_parquet(tmp_path / "b.parquet")
    tables = [*frames(tmp_path, a=[3, 7]), open_table(tmp_path / "b.parquet")]
    ids, positions = match_rows(tables)
    assert ids.tolist() == ["3", "7"]
    assert positions[1].tolist() == [1, 0]


def test_rows_are_matched_by_place_where_there_are_no_ids(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "z.npy", np.eye(4))
    x, z = open_table(tmp_path / "x.npy"), open_table(tmp_path / "z.npy")
    assert match_rows([x, x]) == (None, [None, None])
    with pytest.raises(FormatError, match=r"z.npy has 4 rows, but .*x.npy has 3."):
        match_rows([x, z])
    (numbered,) = frames(tmp_path, a=[0, 1, 2])  # what pandas writes for rows without names
    assert match_rows([x, numbered])[1] == [None, None]


def test_rows_that_cannot_be_matched_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(FormatError, match=r"a.csv has row ids but .*x.npy has none"):
        match_rows([open_table(tmp_path / "x.npy"), *frames(tmp_path, a=["p", "q", "r"])])
    with pytest.raises(FormatError, match=r"b.csv has the row id 'q' more than once"):
        match_rows(frames(tmp_path, a=["p", "q"], b=["q", "p", "q"]))
    with pytest.raises(FormatError, match=r"a.csv has the row id 'q' more than once"):
        match_rows(frames(tmp_path, a=["q", "q"], b=["q", "q"]))


def test_rows_without_an_id_are_refused(tmp_path):
    """Two of them need not be the same row."""
    with pytest.raises(FormatError, match=r"b.csv has no id in row 2\. Every row needs one"):
        match_rows(frames(tmp_path, a=["p", "q", "r"], b=["q", "p", None]))
    with pytest.raises(FormatError, match=r"a.csv has no id in row 1"):
        match_rows(frames(tmp_path, a=["p", ""], b=["p", ""]))


def test_ids_that_have_nothing_in_common_are_refused_with_one_of_each(tmp_path):
    message = r"a.csv has no row id in common with .*b.csv: its first is 'p', and there it is 'P'"
    with pytest.raises(FormatError, match=message):
        match_rows(frames(tmp_path, a=["p", "q"], b=["P", "Q"]))
    with pytest.raises(FormatError, match=r"c.csv has no row id in common with .*a.csv: its first is '7', .* 'p'"):
        match_rows(frames(tmp_path, a=["p", "q"], b=["q", "p"], c=[7, 8]))
    write_table(tmp_path / "y.csv", {"label": [0, 1]}, ids=["u", "v"])
    target = open_target(tmp_path / "y.csv", id_column="id")
    with pytest.raises(FormatError, match=r"The data has no row id in common with .*y.csv: its first is 'p', .* 'u'"):
        target.for_rows(np.array(["p", "q"]), 2)


def test_the_same_tables_are_matched_once(tmp_path):
    a, b = frames(tmp_path, a=["p", "q", "r"], b=["r", "s", "p"])
    ids, positions = match_rows([a, b])
    assert match_rows([a, b])[0] is ids
    assert all(mine is theirs for mine, theirs in zip(match_rows([a, b])[1], positions, strict=True))
    assert match_rows([b, a])[0].tolist() == ["r", "s", "p", "q"]
    assert match_rows([a])[0].tolist() == ["p", "q", "r"]
    assert match_rows([a, b])[0].tolist() == ids.tolist()


def test_a_fit_takes_over_how_a_command_matched_the_rows(tmp_path):
    from coterie.cli.tables import match_files
    from coterie.views import as_views

    opened = match_files({table.name: table for table in frames(tmp_path, a=["p", "q", "r"], b=["r", "s", "p"])})
    views = as_views(opened.tables)
    assert [view.positions is opened.positions[view.name] for view in views] == [True, True]


@pytest.mark.parametrize(("here", "there"), [("007", "7"), ("7", "7.0"), (" 7", "7"), ("7", "+7")])
def test_ids_that_differ_in_their_writing_alone_are_said_and_not_matched(tmp_path, here, there):
    said = f"a.csv and .*b.csv have 1 row ids that differ .* such as {here!r} and {there!r}".replace("+", r"\+")
    with pytest.warns(UserWarning, match=said):
        ids, positions = match_rows(written(tmp_path, a=["p", here], b=["p", there]))
    assert ids.tolist() == ["p", here, there]
    assert positions[1].tolist() == [0, -1, 1]
    with pytest.raises(FormatError, match=rf"in common with .*b.csv: its first is 'q'.* such as '{here}' and"):
        match_rows(written(tmp_path, a=["q", here], b=["r", there]))


def test_labels_whose_ids_are_written_otherwise_are_refused_with_one_of_each(tmp_path):
    write_table(tmp_path / "y.csv", {"label": [0, 1]}, ids=["7", "8"])
    target = open_target(tmp_path / "y.csv", id_column="id")
    with pytest.raises(FormatError, match=r"The data and .*y.csv have 2 row ids that differ .* '007' and '7'"):
        target.for_rows(np.array(["007", "008"]), 2)


def test_ids_that_one_table_tells_apart_are_not_taken_for_others(tmp_path):
    """Whoever has 007 beside 7 means two rows."""
    _, positions = match_rows(written(tmp_path, a=["p", "007", "07"], b=["p", "7"]))
    assert positions[1].tolist() == [0, -1, -1, 1]


def written(folder, **ids):
    """Files whose ids are text, as it is given."""
    for name, own in ids.items():
        lines = "".join(f'"{row}",{number}\n' for number, row in enumerate(own))
        (folder / f"{name}.csv").write_text(f"id,x\n{lines}")
    return [open_table(folder / f"{name}.csv", id_column="id") for name in ids]

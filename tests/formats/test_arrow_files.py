"""Parquet and Arrow: what a footer says, what pandas noted, and checksums."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from coterie.formats import FormatError, match_rows, open_table, open_target, open_views
from coterie.formats.parquet_footer import null_counts, read_footer


def test_missing_values_are_counted_as_arrow_does(tmp_path):
    path = tmp_path / "x.parquet"
    gaps = {f"c{i}": [None if j % 7 < i % 3 else j for j in range(50)] for i in range(40)}
    table = pa.table({**gaps, "text": ["a", None] * 25, "lists": [[1, None], None] * 25, "größe": list(range(50))})
    for options in ({"row_group_size": 7}, {"use_dictionary": False}, {"version": "1.0"}):
        pa.parquet.write_table(table, path, **options)
        found = null_counts(read_footer(path))
        about = pa.parquet.read_metadata(path)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        for i, column in enumerate(found):
            assert about.schema.column(i).path == column
            assert found[column] == sum(group.column(i).statistics.null_count for group in groups)
    pa.parquet.write_table(table, path, write_statistics=False)
    assert set(null_counts(read_footer(path)).values()) == {None}


@pytest.fixture
def frame():
    return pd.DataFrame({"x": np.arange(6.0), "y": np.arange(6.0) ** 2})


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_rows_of_frames_that_were_cut_or_turned_keep_their_numbers(frame, ending, tmp_path):
    """pandas keeps the numbers of a cut or turned frame as a range: rows at the same place are not the same rows."""

    def written(name, part):
        getattr(part, f"to_{ending}")(tmp_path / f"{name}.{ending}")
        return open_table(tmp_path / f"{name}.{ending}")

    whole, first, last = written("whole", frame), written("first", frame[:4]), written("last", frame[2:])
    assert whole.ids is None
    assert first.ids is None
    if ending == "parquet":  # feather takes no index that was turned
        turned = written("turned", frame[::-1])
        with pytest.raises(FormatError, match=r"turned.parquet has row ids but .*whole.parquet has none"):
            match_rows([whole, turned])
    with pytest.raises(
        FormatError, match=r"last.* has row ids but .*first.* has none, so their rows cannot be matched"
    ):
        match_rows([first, last])
    if ending == "parquet":
        ids, (here, there) = match_rows([written("middle", frame[1:5]), last])
        assert ids.tolist() == [1, 2, 3, 4, 5]
        assert (here.tolist(), there.tolist()) == ([0, 1, 2, 3, -1], [-1, 0, 1, 2, 3])


def test_numbers_of_rows_that_are_in_several_files(frame, tmp_path):
    for name, parts in {
        "cut": (frame[:4], frame[4:]),
        "afresh": (frame[:4], frame[:2]),
        "late": (frame[4:], frame[:4]),
    }.items():
        (tmp_path / name).mkdir()
        for number, part in enumerate(parts):
            part.to_parquet(tmp_path / name / f"{number}.parquet")
    found = {name: open_table(tmp_path / name).ids for name in ("cut", "afresh", "late")}
    assert found["cut"] is None
    assert found["afresh"] is None  # each file counts from 0
    assert found["late"].tolist() == [4, 5, 0, 1, 2, 3]


def test_numbers_that_are_not_of_these_rows_are_no_ids(frame, tmp_path):
    table = pa.Table.from_pandas(frame[2:])
    pa.parquet.write_table(table.slice(0, 3), tmp_path / "x.parquet")
    assert open_table(tmp_path / "x.parquet").ids is None
    pa.parquet.write_table(
        table.replace_schema_metadata({"pandas": b'{"index_columns": [{"kind": "range"}]}'}), tmp_path / "x.parquet"
    )
    assert open_table(tmp_path / "x.parquet").ids is None


def test_known_labels_of_a_turned_frame_keep_their_rows(frame, tmp_path):
    frame[::-1][["x"]].to_parquet(tmp_path / "y.parquet")
    target = open_target(tmp_path / "y.parquet")
    assert target.ids.tolist() == [5, 4, 3, 2, 1, 0]
    assert target.for_rows(np.arange(6), 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_pages_whose_checksum_is_wrong_are_refused(frame, tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.Table.from_pandas(frame)
    pa.parquet.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    at = content.index(np.float64(16).tobytes())
    content[at : at + 8] = np.float64(17).tobytes()
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"x.parquet, rows 0 to 5, cannot be read: .*(checksum|CRC)"):
        next(iter(open_views([path]).values()))[:]

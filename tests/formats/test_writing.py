"""Results written in one go or in blocks: whole, or not at all."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from written_files import D, N, dense, same

from coterie.formats import (
    FormatError,
    open_table,
    open_writer,
    write_table,
    write_views,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


LABELS = np.array([2, 0, 1, 0])


SURE = np.array([0.5, np.nan, 1.0, 0.25], dtype=np.float32)


IDS = ["p", 'q "and", so on', "r", "\u00e4"]


def read_back(path):
    """Read with the library that people will use."""
    suffix = path.name.partition(".")[2]
    if suffix.startswith(("csv", "tsv")):
        return pd.read_csv(path, sep="\t" if suffix.startswith("tsv") else ",")
    if suffix in ("parquet", "feather"):
        return pl.read_parquet(path).to_pandas() if suffix == "parquet" else pd.read_feather(path)
    if suffix == "json":
        return pd.DataFrame(json.loads(path.read_text()))
    if suffix == "jsonl":
        return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    with np.load(path) as arrays:
        return pd.DataFrame(dict(arrays))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "feather", "npy", "npz", "h5"])
def test_yes_and_no_are_read_again(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    answers = np.array([[True, False], [False, True], [True, True]])
    write_views(path, {"answers": answers})
    table = open_table(path)
    assert np.array_equal(np.asarray(table[0:3], dtype=float), answers)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "tsv.gz", "parquet", "feather", "json", "jsonl", "npz"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_results_are_written_in_one_go_or_in_blocks(tmp_path, suffix, blocks):
    path = tmp_path / f"out.{suffix}"
    with open_writer(path) as writer:
        for rows in np.array_split(np.arange(4), blocks):
            columns = {"label": LABELS[rows], "sure": SURE[rows]}
            writer.write(columns, ids=[IDS[row] for row in rows])
        assert not path.exists()
    frame = read_back(path)
    assert list(frame.columns) == ["id", "label", "sure"]
    assert frame["id"].tolist() == IDS
    assert frame["label"].tolist() == LABELS.tolist()
    np.testing.assert_array_equal(frame["sure"].to_numpy(dtype=np.float32), SURE)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_an_array_is_written_block_by_block(tmp_path, rng):
    values = dense(rng, np.float32)
    with open_writer(tmp_path / "x.npy") as writer:
        for start in range(0, N, 100):
            writer.write({"embedding": values[start : start + 100]})
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)
    same(open_table(tmp_path / "x.npy")[:], values)
    write_table(tmp_path / "x.csv", {"embedding": values[:3].astype(float)})
    assert open_table(tmp_path / "x.csv").columns == tuple(f"embedding_{i}" for i in range(D))
    np.testing.assert_array_equal(open_table(tmp_path / "x.csv")[:], values[:3])


def test_gzipped_results_do_not_depend_on_the_time(tmp_path):
    for name in ("a", "b"):
        write_table(tmp_path / f"{name}.csv.gz", {"label": LABELS})
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "json", "jsonl", "npy", "npz"])
def test_nothing_half_written_is_left(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    write_table(path, {"label": LABELS})
    before = path.read_bytes()

    def interrupted():
        with open_writer(path) as writer:
            writer.write({"label": LABELS + 1})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"out.xls cannot be written: .xls is none of .csv, .csv.gz"):
        write_table(tmp_path / "out.xls", {"label": LABELS})
    with pytest.raises(FormatError, match=r"holds one column, without ids. Got id, label"):
        write_table(tmp_path / "out.npy", {"label": LABELS}, ids=IDS)
    with pytest.raises(FormatError, match=r"one length. Got {'label': 4, 'sure': 3}"):
        write_table(tmp_path / "out.csv", {"label": LABELS, "sure": SURE[:3]})
    with pytest.raises(FormatError, match="two columns are called 'id'"):
        write_table(tmp_path / "out.csv", {"id": LABELS}, ids=IDS)
    with pytest.raises(FormatError, match="was given no rows"), open_writer(tmp_path / "out.csv"):
        pass
    with open_writer(tmp_path / "out.parquet") as writer:
        writer.write({"label": LABELS})
        with pytest.raises(FormatError, match=r"a block has label \(f\), but the first one had label \(i\)"):
            writer.write({"label": SURE})
    (tmp_path / "out.parquet").unlink()
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FormatError, match="it is a folder"):
        write_table(tmp_path / "folder.csv", {"label": LABELS})
    assert [file.name for file in tmp_path.iterdir()] == ["folder.csv"]

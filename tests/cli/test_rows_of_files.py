"""Files of every format, and rows in other orders: the same labels as from Python."""

import json
import warnings
from contextlib import chdir

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
import zarr
from command_runs import (
    QUICK,
    K,
    N,
    expected,
    frame_of,
    labels_of,
    refused,
    run,
    run_json,
    run_several,
    run_shown,
)
from pandas_text import plain_text
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from coterie import GuidedCoTraining, suggest_k
from coterie.formats import open_views
from coterie.metrics import ari


def write_h5(values, path):
    with h5py.File(path, "w") as file:
        file["x"] = values


def write_mat73(values, path):
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = values.T
        file["x"].attrs["MATLAB_class"] = np.bytes_("double")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))


def write_zarr(values, path):
    zarr.save_array(path, values)


def write_cells(values, path):
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = values[:, :4], values[:, 4:]
    scipy.io.savemat(path, {"X": cells, "gt": np.zeros((len(values), 1))})


@plain_text()
def write_h5ad(values, path):
    anndata.AnnData(np.zeros((len(values), 1)), obsm={"X_pca": values}).write(path)


@plain_text()
def write_h5mu(values, path):
    halves = {"rna": anndata.AnnData(values[:, :4].copy()), "protein": anndata.AnnData(values[:, 4:].copy())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mudata's own business
        mudata.MuData(halves).write(path)


FORMATS = {
    "x.npy": lambda values, path: np.save(path, values),
    "x.npz": lambda values, path: np.savez_compressed(path, values),
    "x.csv": lambda values, path: frame_of(values).to_csv(path, index=False),
    "x.tsv.gz": lambda values, path: frame_of(values).to_csv(path, index=False, sep="\t"),
    "x.parquet": lambda values, path: frame_of(values).to_parquet(path),
    "x.feather": lambda values, path: pl.DataFrame(frame_of(values)).write_ipc(path),
    "x.mat": lambda values, path: scipy.io.savemat(path, {"x": values}),
    "v73.mat": write_mat73,
    "cells.mat": write_cells,
    "x.h5": write_h5,
    "x.zarr": write_zarr,
    "x.h5ad::obsm/X_pca": write_h5ad,
    "cells.h5mu": write_h5mu,
    "x.svmlight": lambda values, path: dump_svmlight_file(values, np.zeros(len(values)), path),
}


@pytest.fixture(scope="module")
def every_format(arrays, tmp_path_factory):
    """A folder for every format: the file that the library wrote that owns it, and what a real process made of it."""
    home, commands = tmp_path_factory.mktemp("formats"), []
    for number, (name, write) in enumerate(FORMATS.items()):
        here, view = home / str(number), f"{number}/{name}"
        here.mkdir()
        write(rounded(arrays), str(here / name.partition("::")[0]))
        outputs = ["--labels", f"{number}/out.csv", "--model", f"{number}/m.coterie", "--quiet"]
        commands.append(["fit", view, "-k", K, *QUICK, *outputs])
        commands.append(["predict", f"{number}/m.coterie", view, "--labels", f"{number}/again.npy", "--quiet"])
    done = run_several(commands, home)
    assert done.stderr.splitlines() == ["exit 0"] * len(commands)
    return home


def rounded(arrays):
    return np.round(arrays["pixels"].astype(np.float64), 3)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name, every_format, arrays, data):
    with chdir(every_format / str(list(FORMATS).index(name))):
        views = open_views([name])
        model = expected({key: table[:] for key, table in views.items()})
        if not name.startswith("cells") and not name.endswith("svmlight"):
            assert len(views) == 1
            assert (next(iter(views.values()))[:] == rounded(arrays)).all()
        assert (labels_of("out.csv") == model.labels_).all()
        assert (np.load("again.npy") == model.labels_).all()
        assert ari(data.target, model.labels_) > 0.8


@pytest.mark.parametrize("name", ["o.csv", "o.tsv.gz", "o.parquet", "o.feather", "o.npy", "o.npz", "o.json", "o.jsonl"])
def test_every_format_of_labels(name, library, arrays, tmp_path):
    with chdir(library):
        run("fit", "pixels.npy", "-k", K, *QUICK, "--labels", tmp_path / name, "-q")
    found = tmp_path / name
    if name.endswith("json"):
        labels = [line["label"] for line in json.loads(found.read_text())]
    elif name.endswith("jsonl"):
        labels = [json.loads(line)["label"] for line in found.read_text().splitlines()]
    else:
        labels = labels_of(found)
    assert (np.asarray(labels) == expected(arrays["pixels"]).labels_).all()


# -- rows in other orders --------------------------------------------------------------------------------------


@pytest.fixture
def shuffled(arrays, data, tmp_path):
    """Two files whose rows are in different orders, the second without some; and known labels in a third order."""
    rng = np.random.default_rng(1)
    ids = pd.Index([f"r{i:03}" for i in range(N)], name="id")
    frames = {"pixels": pd.DataFrame(rounded(arrays), index=ids), "hog": pd.DataFrame(arrays["hog"], index=ids)}
    for name, frame in frames.items():
        frame.columns = [f"{name}{i}" for i in range(frame.shape[1])]
    frames["hog"] = frames["hog"].iloc[rng.permutation(N)]
    with chdir(tmp_path):
        frames["pixels"].to_csv("pixels.csv")
        frames["hog"].to_parquet("hog.parquet")  # brings its index along
        frames["hog"].iloc[9:].to_parquet("less.parquet")
        known = pd.DataFrame({"id": ids, "label": data.target}).iloc[rng.permutation(N)]
        known.to_csv("known.csv", index=False)
        yield frames


def test_every_command_matches_rows_by_id(shuffled, arrays, data):
    """The fit as a process of its own. What they write has the right labels and values beside every id."""
    pixels, hog = shuffled.values()
    with_ids = ["--id-column", "id"]
    target = ["--target", "known.csv::label"]

    files = ["pixels.csv", "hog.parquet", *with_ids]
    model = expected({"pixels": pixels, "hog": hog})
    right = pd.Series(model.labels_, index=model.row_ids_)
    truth = ari(data.target, right.loc[pixels.index])
    assert truth > 0.8

    found = run_shown("fit", *files, "-k", K, *QUICK, *target, "--labels", "fit.csv", "--model", "m.coterie")
    assert found["scores"]["ARI"] == truth
    labels = pd.read_csv("fit.csv", index_col="id")["label"]
    assert labels.index.tolist() == pixels.index.tolist() == right.index.tolist()
    assert (labels == right).all()

    for order in (files, ["hog.parquet", "pixels.csv", *with_ids]):
        found = run_json(
            "predict", "m.coterie", *order, *target, "--labels", "new.csv", "--embedding", "new.npz", "--overwrite"
        )
        assert found["scores"]["ARI"] == truth
        labels = pd.read_csv("new.csv", index_col="id")["label"]
        assert (labels == right.loc[labels.index]).all()
        assert labels.index.tolist() == (pixels if order is files else hog).index.tolist()
        with np.load("new.npz") as stored:
            assert stored["id"].tolist() == labels.index.tolist()

    methods = ["-m", "Coterie", "-m", "k-means, scaled"]
    found = run_json("compare", *files, "-k", K, *methods, *target, "--labels", "all.csv")
    assert {line["scores"]["ARI"] > 0.8 for line in found["methods"].values()} == {True}
    table = pd.read_csv("all.csv", index_col="id")
    ours = GuidedCoTraining(K, random_state=0).fit_predict([pixels.to_numpy(), hog.loc[pixels.index].to_numpy()])
    assert ari(table["Coterie"].loc[pixels.index], ours) == 1

    run_json("convert", *files, "both.h5", *target)
    with h5py.File("both.h5") as stored:
        index = stored["id"].asstr()[:]
        assert (stored["pixels"][:] == pixels.loc[index].to_numpy()).all()
        assert (stored["hog"][:] == hog.loc[index].to_numpy()).all()
        assert (stored["y"][:] == data.target[pixels.index.get_indexer(index)]).all()

    settings = ["--max", "14", "--landmarks", "50", "--neighbors", "5"]
    best = suggest_k({"pixels": pixels, "hog": hog}, k_max=14, n_landmarks=50, n_neighbors=5, random_state=0)
    assert run_json("suggest-k", *files, *settings)["candidates"][0]["scores"] == best.scores.max()


def test_rows_that_a_file_lacks(shuffled, arrays):
    pixels, hog = shuffled.values()
    files = ["pixels.csv", "less.parquet", "--id-column", "id"]
    run("convert", *files, "less.h5", "-q")
    with h5py.File("less.h5") as stored:
        index = stored["id"].asstr()[:]
        assert sorted(index) == pixels.index.tolist()
        np.testing.assert_array_equal(stored["less"][:], hog.iloc[9:].reindex(index).to_numpy())
    found = run_json("compare", *files, "-k", K, "-m", "Coterie")
    assert found["rows"] == N
    sparse.save_npz("text.npz", arrays["text"])
    for path, order in (("a.h5ad", pixels.index), ("b.h5ad", hog.index[9:])):
        with plain_text():
            anndata.AnnData(arrays["text"][: len(order)], obs=pd.DataFrame(index=list(order))).write(path)
    assert "Pass --dense" in refused("convert", "a.h5ad", "b.h5ad", "both.h5")
    run("convert", "a.h5ad", "b.h5ad", "both.h5", "--dense", "-q")
    with h5py.File("both.h5") as stored:
        index = stored["id"].asstr()[:]
        lacking = ~np.isin(index, hog.index[9:])
        assert lacking.sum() == 9
        assert (np.isnan(stored["b"][:]).all(axis=1) == lacking).all()
        places = hog.index[9:].get_indexer(index[~lacking])
        assert (stored["b"][:][~lacking] == arrays["text"].toarray()[places]).all()


def test_known_labels_without_ids_are_not_guessed_at(shuffled):
    np.save("y.npy", np.zeros(N, dtype=int))
    both = ["pixels.csv", "hog.parquet", "--id-column", "id"]
    assert "y.npy has no row ids, but the views' rows are matched by id (hog.parquet" in refused(
        "fit", *both, "-k", K, "--target", "y.npy"
    )
    assert run_json("fit", *both[:1], *both[2:], "-k", K, *QUICK, "--target", "y.npy")["scores"]["ARI"] == 0

"""The command line on real files: the same labels as from Python, and one line for whatever is wrong.

Commands run in this process, with the runner of typer, except where a real one is needed: exit codes as a shell sees
them, Ctrl-C, pipes, terminals and completion.
"""

import glob
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from contextlib import chdir
from pathlib import Path

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
import zarr
from pandas_text import plain_text
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import coterie
from coterie import GuidedCoTraining, suggest_k
from coterie.cli import app
from coterie.cli.options import as_toml, complete_files, parse_value
from coterie.cli.predict import view_names
from coterie.cli.session import judge
from coterie.datasets import make_views, save_views
from coterie.formats import open_table, open_target, open_views
from coterie.metrics import ari

N, K = 240, 10
COTERIE = [sys.executable, "-m", "coterie"]
QUICK = ["--landmarks", "50", "--neighbors", "5", "--set", "n_init=2"]
SAME = dict(n_landmarks=50, n_neighbors=5, n_init=2, random_state=0)


@pytest.fixture(scope="session")
def data():
    return make_views(N, K, separation=9, n_columns=(9, 6, 5), random_state=0)


@pytest.fixture(scope="session")
def arrays(data):
    """The views of the manual's examples: two dense ones and counts."""
    pixels, hog, _ = data.views.values()
    rng = np.random.default_rng(0)
    counts = rng.poisson(3 * (np.arange(30) % K == data.target[:, None]) + 0.2)  # (n, 30)
    return {"pixels": pixels, "hog": hog, "text": sparse.csr_array(counts.astype(np.float32))}


@pytest.fixture(scope="session")
def library(data, arrays, tmp_path_factory):
    """A folder with every file that the manual and the help name."""
    folder = tmp_path_factory.mktemp("library")
    pixels, hog, text = arrays.values()
    np.save(folder / "pixels.npy", pixels)
    pd.DataFrame(hog, columns=[f"h{i}" for i in range(6)]).to_parquet(folder / "hog.parquet")
    sparse.save_npz(folder / "text.npz", text)
    np.save(folder / "y.npy", data.target)
    np.save(folder / "new_pixels.npy", pixels[::3])
    np.save(folder / "new_hog.npy", hog[::3])
    pd.DataFrame(hog[::3], columns=[f"h{i}" for i in range(6)]).to_parquet(folder / "new_hog.parquet")
    sparse.save_npz(folder / "new_text.npz", text[::3])
    np.save(folder / "more.npy", pixels[::2])
    save_views(folder / "digits.npz", {"pixels": pixels, "hog": hog}, data.target)
    ids = np.array([f"p{i}" for i in range(N)])
    people = pd.DataFrame({"person": ids, "age": hog[:, 0], "income": hog[:, 1], "name": "x"})
    people.to_csv(folder / "people.csv", index=False)
    visits = pd.DataFrame(pixels[:, :5], columns=list("abcde"))
    visits.insert(0, "person", ids)
    visits.iloc[::-1].iloc[10:].to_csv(folder / "visits.csv", index=False)
    with plain_text():
        parts = {
            "rna": anndata.AnnData(pixels, obs=pd.DataFrame(index=list(ids))),
            "prot": anndata.AnnData(hog, obs=pd.DataFrame(index=list(ids))),
        }
        parts["prot"].var_names = [f"p{i}" for i in range(6)]
        mudata.MuData(parts).write(folder / "cells.h5mu")
    (folder / "run.toml").write_text(re.search(r"```toml\n(.*?)```", manual(), re.DOTALL)[1])
    return folder


@pytest.fixture
def folder(library, tmp_path):
    """A copy of the library, to write to."""
    shutil.copytree(library, tmp_path / "here")
    with chdir(tmp_path / "here"):
        yield tmp_path / "here"


def manual():
    """Return the pages of the manual that show commands; the first of them writes the model that others read."""
    docs = Path(__file__).parents[2] / "docs"
    names = ("reference/command_line.md", "start/first_fit.md", "start/first_report.md", "guides/report.md")
    return "\n".join((docs / name).read_text() for name in names)


def run(*args, code=0):
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def run_process(*args):
    """Run a command as a process of its own."""
    done = subprocess.run([*COTERIE, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run_json(*args):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(run(*args, "--json").stdout, parse_constant=refuse)


def refused(*args):
    """Return the one line that a command says of bad input."""
    result = run(*args, code=2)
    assert not result.stdout
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def labels_of(path):
    return open_target(f"{path}::label" if Path(path).suffix != ".npy" else path).labels


def expected(views, k=K, **settings):
    return GuidedCoTraining(k, **{**SAME, **settings}).fit(views)


# -- fit and predict -------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_a_fit_would_take_and_does_nothing(folder):
    before = sorted(os.listdir())
    found = run_json("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--labels", "dry.csv", "--dry-run")
    assert (found["rows"], found["n_landmarks"], found["n_graphs"], found["disk"]) == (N, 50, 3, 0)
    assert found["seconds"] > 0
    assert found["memory"] > 0
    assert f"{N} rows x " in run("fit", "pixels.npy", "hog.parquet", "-k", K, "--dry-run").output
    assert sorted(os.listdir()) == before


def test_fit_writes_what_the_library_finds(folder, arrays, data):
    options = ["--labels", "out.parquet", "--model", "m.coterie", "--report", "r.html", "--embedding", "e.npy"]
    views = ["pixels.npy", "hog.parquet", "text.npz"]
    found = run_json("fit", *views, "-k", K, *QUICK, *options, "--confidence", "--target", "y.npy")
    model = expected(arrays, store_embedding=True)
    frame = pd.read_parquet("out.parquet")
    assert list(frame) == ["row", "label", "confidence"]
    assert (frame["row"] == np.arange(N)).all()
    assert (frame["label"] == model.labels_).all()
    assert (frame["confidence"] == model.confidence_).all()
    assert (np.load("e.npy") == model.embedding_).all()
    assert found["rows"] == N
    assert found["sizes"] == np.bincount(model.labels_).tolist()
    assert list(found["views"]) == ["pixels", "hog", "text"]
    assert found["views"]["text"]["sparse"]
    assert found["files"] == {"labels": "out.parquet", "embedding": "e.npy", "model": "m.coterie", "report": "r.html"}
    assert found["scores"]["ARI"] == ari(data.target, model.labels_)
    assert found["warnings"] == []
    page = Path("r.html").read_text()
    assert "hog.parquet" in page
    assert "Known labels" in page
    assert (coterie.load("m.coterie").predict(arrays) == model.labels_).all()

    new = run_json("predict", "m.coterie", "new_pixels.npy", "new_hog.npy", "--labels", "new.csv")
    rows = {"pixels": arrays["pixels"][::3], "hog": arrays["hog"][::3]}
    assert (pd.read_csv("new.csv")["label"] == model.predict(rows)).all()
    assert new["left_out"] == ["text"]

    outputs = ["--labels", "all.npz", "--embedding", "all.parquet", "--confidence"]
    run("predict", "m.coterie", *views, *outputs, "--jobs", 1, "--quiet")
    with np.load("all.npz") as stored:
        assert (stored["label"] == model.labels_).all()
        assert np.allclose(stored["confidence"], model.confidence_, atol=1e-6)
    assert np.allclose(open_table("all.parquet", columns="1:")[:], model.embedding_, atol=1e-6)


def test_what_a_model_says_of_itself_repeats_the_fit(folder):
    run("fit", "a=pixels.npy", "hog.parquet[1:]", "-k", K, *QUICK, "--scaling", "a=block", "--model", "m.coterie", "-q")
    found = run_json("describe", "m.coterie")
    config = found["notes"]["config"]
    assert (found["n_clusters"], found["n_rows"], found["n_landmarks"]) == (K, N, 50)
    assert [(view["name"], view["n_columns"]) for view in found["views"]] == [("a", 9), ("hog", 5)]
    assert config["scaling"] == ["a=block"]
    assert tomllib.loads(as_toml(config)) == config

    Path("again.toml").write_text(run("describe", "m.coterie", "--toml").stdout)
    before = coterie.load("m.coterie")
    run("fit", "--config", "again.toml", "--model", "n.coterie", "-q")
    after = coterie.load("n.coterie")
    assert (after.cluster_centers_ == before.cluster_centers_).all()
    assert (after.landmark_indices_ == before.landmark_indices_).all()

    coterie.save(before, "bare.coterie")
    assert "does not say how it was made" in refused("describe", "bare.coterie", "--toml")
    assert "9 columns" not in run("describe", "bare.coterie").stdout


def test_a_config_gives_options_and_the_command_line_wins(folder, arrays):
    Path("c.toml").write_text(
        'labels = "out.csv"\nclusters = 10\nlandmarks = 50\nseed = 5\nmax_iter = 3\npublished = true\n'
        'set = ["n_init=2"]\nneighbors = 7\n[views]\na = "pixels.npy"\nb = "hog.parquet"\n'
        "[weights]\na = 2\n[fit]\nconfidence = true\n"
    )
    with open("c.toml", "a") as file:
        file.write('[predict]\nmodel = "m.coterie"\n')
    found = run_json("fit", "--config", "c.toml", "--seed", "1", "--neighbors", "5")
    views = {"a": arrays["pixels"], "b": arrays["hog"]}
    model = GuidedCoTraining.as_published(
        K, n_landmarks=50, n_neighbors=5, n_init=2, random_state=1, max_iter=3, view_weights={"a": 2}
    )
    frame = pd.read_csv("out.csv")
    assert (frame["label"] == model.fit(views).labels_).all()
    assert list(frame) == ["row", "label", "confidence"]
    assert found["config"]["views"] == ["a=pixels.npy", "b=hog.parquet"]
    assert found["config"]["seed"] == 1
    run("fit", "pixels.npy", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    Path("new.toml").write_text('labels = "n.csv"\nmodel = "m.coterie"\nviews = "new_pixels.npy"\n')
    assert run_json("predict", "--config", "new.toml")["files"] == {"labels": "n.csv"}
    Path("bad.toml").write_text("landmark = 5\n")
    assert "bad.toml: fit has no option 'landmark'. Did you mean 'landmarks'?" in refused("fit", "--config", "bad.toml")
    Path("bad.toml").write_text("landmarks = \n")
    assert "bad.toml is not TOML" in refused("fit", "--config", "bad.toml")
    assert "none.toml: No such file" in refused("fit", "--config", "none.toml")


def test_number_of_clusters(folder, arrays):
    views = {"pixels": arrays["pixels"], "hog": arrays["hog"]}
    found = run_json("suggest-k", "pixels.npy", "hog.parquet", "--max", "14", "--landmarks", "50", "--neighbors", "5")
    wanted = suggest_k(views, k_max=14, n_landmarks=50, n_neighbors=5, random_state=0)
    assert found["best"] == wanted.best == found["candidates"][0]["k"]
    assert sorted(line["k"] for line in found["candidates"]) == wanted.k.tolist()
    shown = run("suggest-k", "pixels.npy", "hog.parquet", "--max", "14", "--landmarks", "50", "--neighbors", "5").stdout
    assert shown.startswith(f"{wanted.best} clusters")
    found = run_json("fit", "pixels.npy", "hog.parquet", *QUICK)
    assert found["clusters"] == expected(views, "auto").n_clusters_


def test_rows_are_matched_by_id(folder, arrays):
    run(
        "fit", "people.csv[age,income]", "visits.csv[2:]", "--id-column", "person", "-k", 4, *QUICK, "--labels", "o.csv"
    )
    people = pd.read_csv("people.csv", index_col="person")[["age", "income"]]
    visits = pd.read_csv("visits.csv", index_col="person").iloc[:, 1:]  # the ids are a column of the file, too
    model = expected({"people": people, "visits": visits}, 4)
    found = pd.read_csv("o.csv", index_col="person")
    assert found.index.tolist() == model.row_ids_.tolist()
    assert (found["label"] == model.labels_).all()

    run("fit", "people.csv[age,income]", "--id-column", "person", "-k", 4, *QUICK, "--model", "m.coterie", "-q")
    one = ["predict", "m.coterie", "people.csv[age,income]", "--id-column", "person"]
    run(*one, "--labels", "p.parquet", "--confidence")
    assert pd.read_parquet("p.parquet")["person"].tolist() == people.index.tolist()
    target = found.reset_index()
    target.iloc[::-1].to_csv("t.csv", index=False)
    scores = run_json(*one, "--target", "t.csv::label")["scores"]
    labels = found["label"].reindex(people.index)
    assert scores["ARI"] == pytest.approx(ari(labels, pd.read_parquet("p.parquet")["label"]))
    assert "has no label for" in refused(*one, "--target", half(target))


def test_rows_that_are_nan_throughout_lack_the_view(folder, arrays):
    pixels, hog = arrays["pixels"], arrays["hog"].copy()
    hog[5:40] = np.nan
    np.save("gaps.npy", hog)
    frame_of(hog).to_parquet("gaps.parquet")
    model = expected({"pixels": pixels, "gaps": hog})
    for name in ("gaps.npy", "gaps.parquet"):
        views = ["pixels.npy", name]
        run("fit", *views, "-k", K, *QUICK, "--labels", "out.csv", "--model", "m.coterie", "--report", "r.json", "-q")
        assert (labels_of("out.csv") == model.labels_).all()
        run("predict", "m.coterie", *views, "--labels", "again.csv", "--overwrite", "-q")
        assert (labels_of("again.csv") == model.labels_).all()
    hog[3, 2] = np.nan
    np.save("hole.npy", hog)
    assert "view 'hole', row 3. " in refused("fit", "pixels.npy", "hole.npy", "-k", K, *QUICK)


def half(frame):
    frame.iloc[:9].to_csv("half.csv", index=False)
    return "half.csv::label"


def test_a_file_is_the_view_that_its_name_holds():
    assert view_names(["b", "a"], ["a", "b"]) == {"b": "b", "a": "a"}
    assert view_names(["new_a.b", "old-pix"], ["a.b", "pix", "b"]) == {"new_a.b": "a.b", "old-pix": "pix"}
    for given, known in ((["spixels"], ["pixels"]), (["a_b"], ["a", "b"]), (["x_a", "y_a"], ["a", "b"])):
        with pytest.raises(ValueError, match="=PATH"):
            view_names(given, known)


# -- formats ---------------------------------------------------------------------------------------------------


def frame_of(values):
    return pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])


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


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name, arrays, data, tmp_path):
    """Fit and predict as real processes, on files that the libraries wrote that own the formats."""
    values = np.round(arrays["pixels"].astype(np.float64), 3)
    with chdir(tmp_path):
        FORMATS[name](values, name.partition("::")[0])
        run_process("fit", name, "-k", K, *QUICK, "--labels", "out.csv", "--model", "m.coterie", "--quiet")
        run_process("predict", "m.coterie", name, "--labels", "again.npy", "--quiet")
        views = open_views([name])
        model = expected({key: table[:] for key, table in views.items()})
        if not name.startswith("cells") and not name.endswith("svmlight"):
            assert len(views) == 1
            assert (next(iter(views.values()))[:] == values).all()
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


def test_convert(folder, arrays, data):
    dense, hog, text = arrays.values()
    for out in ("o.npy", "o.npz", "o.csv", "o.tsv.gz", "o.parquet", "o.feather", "o.h5"):
        run("convert", "hog.parquet", out)
        table = open_table(out)
        assert table[:] == pytest.approx(hog, rel=1e-6)
        if out not in ("o.npy", "o.npz", "o.h5"):
            assert table.columns == tuple(f"h{i}" for i in range(6))
    assert json.loads(run("convert", "hog.parquet[0]", "o.json", "--json").stdout)["rows"] == N
    for out in ("all.npz", "all.h5"):
        run("convert", "pixels.npy", "hog.parquet", "text.npz", out, "--target", "y.npy")
        views = open_views(out)
        assert list(views) == ["pixels", "hog", "text"]
        assert views["text"].is_sparse
        assert (views["text"][:] != text).nnz == 0
        assert (views["pixels"][:] == dense).all()
        assert (open_target(out).labels == data.target).all()
    run("convert", "text.npz", "lone.npz")
    assert (sparse.load_npz("lone.npz") != text).nnz == 0
    run("convert", "text.npz", "t.npy", "--dense")
    assert (np.load("t.npy") == text.toarray()).all()
    run("convert", "cells.h5mu::rna[0:2]", "rna.csv")
    assert pd.read_csv("rna.csv")["id"].tolist() == [f"p{i}" for i in range(N)]
    note = run("convert", "cells.h5mu::rna", "rna.npy").stderr
    assert "no place for row ids" in note
    assert "--dense" in refused("convert", "text.npz", "t.csv")
    assert "holds one table" in refused("convert", "pixels.npy", "hog.parquet", "o.csv")
    assert "none of .csv" in refused("convert", "pixels.npy", "o.xyz")
    assert not glob.glob("*.xyz")


def test_compare(folder, arrays, data):
    found = run_json("compare", "digits.npz", "-k", K, "--target", "digits.npz::y", "--labels", "all.parquet")
    names = ["Coterie", "Guided co-training", "k-means, raw", "k-means, scaled", "ConcatLSC", "MVSC-B"]
    names += ["LSC, pixels alone", "LSC, hog alone"]
    frame = pd.read_parquet("all.parquet")
    assert list(found["methods"]) == names == list(frame)[1:]
    views = {"pixels": arrays["pixels"], "hog": arrays["hog"]}
    labels = GuidedCoTraining(K, random_state=0).fit_predict(views)
    assert (frame["Coterie"] == labels).all()
    assert found["methods"]["Coterie"]["scores"]["ARI"] == ari(data.target, labels)
    assert found["agreement"]["Coterie"]["Coterie"] == 1
    assert found["agreement"]["MVSC-B"]["ConcatLSC"] == ari(frame["MVSC-B"], frame["ConcatLSC"])
    shown = run(
        "compare", "digits.npz", "--rows", 100, "-m", "Coterie", "-m", "k-means, raw", "--target", "y.npy"
    ).stdout
    assert shown.startswith("100 rows, ")
    assert "NMI" in shown
    assert "There is no method 'kmeans'" in refused("compare", "digits.npz", "-m", "kmeans")


# -- what is wrong ---------------------------------------------------------------------------------------------


def cut(source, out, size):
    Path(out).write_bytes(Path(source).read_bytes()[:size])


def bad_files():
    """Make what is wrong in the folder; return commands with what must be said of them."""
    for name in ("empty.npy", "empty.csv", "empty.parquet", "empty.h5mu", "empty.coterie"):
        Path(name).touch()
    cut("pixels.npy", "cut.npy", 2000)
    cut("hog.parquet", "cut.parquet", 900)
    cut("cells.h5mu", "cut.h5mu", 3000)
    cut("digits.npz", "cut.npz", 3000)
    cut("m.coterie", "cut.coterie", 3000)
    shutil.copy("pixels.npy", "really_npy.csv")
    shutil.copy("pixels.npy", "pixels.xyz")
    np.save("short.npy", np.zeros((5, 2)))
    np.save("objects.npy", np.array([[{}]]), allow_pickle=True)
    Path("mixed.csv").write_text("a,b\n1,2\n3,four\n")
    Path("ragged.csv").write_text("a,b\n1,2\n3\n")
    pd.DataFrame({"id": ["u", "u", "v"], "x": [1.0, 2, 3]}).to_csv("twice.csv", index=False)
    pd.DataFrame({"id": ["u", "v", "w"], "x": [1.0, 2, 3]}).to_csv("once.csv", index=False)
    pd.DataFrame({"id": ["U", "V", "W"], "x": [1.0, 2, 3]}).to_csv("other.csv", index=False)
    Path("bare").mkdir()
    Path("noise.coterie").write_bytes(bytes(range(256)) * 9)
    fit = ("fit", "-k", "3")
    return {
        (*fit, "none.npy"): "no file none.npy",
        (*fit, "pixel.npy"): "did you mean pixels.npy?",
        (*fit, "nowhere/a.npy"): "no folder nowhere",
        (*fit, "bare"): "folder without data files",
        **{(*fit, f"empty.{kind}"): f"empty.{kind} is empty" for kind in ("npy", "csv", "parquet", "h5mu")},
        **{(*fit, f"cut.{kind}"): f"cut.{kind}" for kind in ("npy", "parquet", "h5mu", "npz")},
        (*fit, "really_npy.csv"): "looks like .npy. Rename it",
        (*fit, "pixels.xyz"): "unknown extension. It looks like .npy",
        (*fit, "pixels.npy", "short.npy"): "short.npy has 5 rows, but pixels.npy has 240",
        (*fit, "objects.npy"): "never unpickles",
        (*fit, "mixed.csv"): "mixed.csv",
        (*fit, "ragged.csv"): "ragged.csv",
        (*fit, "once.csv", "twice.csv", "--id-column", "id"): "row id 'u' more than once",
        (*fit, "once.csv", "pixels.npy", "--id-column", "id"): "has row ids but pixels.npy has none",
        (*fit, "once.csv", "--id-column", "key"): "key",
        (*fit, "pixels.npy", "pixels.npy"): "Two views are called 'pixels'",
        (*fit, "digits.npz::nope"): "has no view 'nope'",
        (*fit, "hog.parquet[h9]"): "no column 'h9'",
        (*fit, "short.npy[0]", "-k", "9"): "n_clusters=9",
        (*fit, "pixels.npy", "-k", "many"): "--clusters (-k) must be a whole number above 1, or auto. Got 'many'",
        (*fit, "pixels.npy", "-k", "1.5"): "--clusters (-k) must be a whole number above 1, or auto. Got '1.5'",
        (*fit, "~tilde.npy"): "There is no file ~tilde.npy",
        (*fit, "pixels.npy", "--labels", "-"): "- cannot be written: results go to files, not to standard output",
        (*fit, "once.csv", "other.csv", "--id-column", "id"): "its first is 'u', and there it is 'U'",
        (*fit, "pixels.npy[1:385]"): "pixels.npy has 9 columns, counted from 0, and '1:385' is no range of them",
        (*fit, "pixels.npy", "--scaling", "hog=block"): "'scaling' parameter",
        (*fit, "pixels.npy", "--scaling", "a=block", "--scaling", "none"): "--scaling takes one value",
        (*fit, "pixels.npy", "--set", "n_jobs=3"): "--set takes name=value",
        (*fit, "pixels.npy", "--target", "short.npy"): "short.npy",
        (*fit, "pixels.npy", "--target", "digits.npz::pixels"): "digits.npz has no 'pixels' to read labels from",
        (*fit, "pixels.npy", "--target", "pixels.npy"): "not one label per row",
        (*fit, "pixels.npy", "--labels", "out.xyz"): "out.xyz cannot be written",
        (*fit, "pixels.npy", "--labels", "bare"): "bare cannot be written: it is a folder",
        (*fit, "pixels.npy", "--labels", "pixels.npy"): "is read by this command",
        (*fit, "pixels.npy", "--labels", "a.npz", "--embedding", "a.npz"): "would be written twice",
        (*fit, "pixels.npy", "--labels", "a.npy", "--confidence"): "no room for --confidence",
        (*fit, "pixels.npy", "--model", "pixels.npy/m.coterie"): "m.coterie cannot be written",
        (*fit, "pixels.npy", "--image", "pixels=3"): "--image takes",
        (*fit, "pixels.npy", "--device", "cuda:99"): "cuda:99",
        (*fit, "pixels.npy", "--nonsense"): "No such option: --nonsense",
        ("fit",): "Missing argument 'VIEW'",
        ("fitt",): "No such command 'fitt'",
        ("predict", "none.coterie", "pixels.npy"): "none.coterie",
        ("predict", "pixels.npy", "pixels.npy"): "pixels.npy",
        ("predict", "m.coterie", "short.npy"): "'short' is none of the model's views (pixels, hog)",
        ("predict", "m.coterie", "pixels=short.npy"): "has 2 columns, but it had 9 in the fit",
        ("predict", "m.coterie", "pixels.npy", "hog=short.npy"): "short.npy has 5 rows",
        **{("describe", f"{kind}.coterie"): f"{kind}.coterie" for kind in ("empty", "cut", "noise", "none")},
        ("describe", "hog.parquet"): "hog.parquet",
        ("suggest-k", "pixels.npy", "--max", "1"): "--max",
        ("suggest-k", "pixels.npy", "--max", "200"): "at most half",
        ("compare", "pixels.npy", "-k", "1000"): "No method could be run",
    }


def test_the_basis_that_was_chosen_is_said(folder):
    fit = ("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie")
    found = run_json(*fit)
    model = coterie.load("m.coterie")
    chosen = [line["name"] for line in model.candidates_ if line["chosen"]]
    assert [found["basis"]] == chosen
    assert found["stability"] == model.stability_
    described = run_json("describe", "m.coterie")
    for part in ("basis", "stability", "candidates"):
        assert described[part] == found[part]
    for shown in run(*fit).stdout, run("describe", "m.coterie").stdout:
        assert f"basis: {chosen[0]} (views' agreement: diffusion " in shown
        assert f"stability {model.stability_:.2f}" in shown
    assert run_json(*fit, "--published")["candidates"] is None
    assert "basis: subspace" in run("describe", "m.coterie").stdout


@pytest.mark.filterwarnings("default:These clusters do not replicate")
def test_clusters_that_do_not_replicate_are_warned_of(folder):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(f"{name}.npy", rng.standard_normal((600, 10)))
    result = run("fit", "a.npy", "b.npy", "-k", 5)
    assert "warning: These clusters do not replicate" in result.stderr


@pytest.mark.filterwarnings("default:.*may be names")
def test_a_first_line_of_years_is_names_where_that_is_said(folder):
    rows = pd.DataFrame(np.random.default_rng(0).random((40, 3)), columns=["2019", "2020", "2021"])
    rows.to_csv("years.csv", index=False)
    for options, expected in ([], 41), (["--header"], 40), (["--no-header"], 41):
        result = run("convert", "years.csv", "years.npy", *options, "--json")
        found = json.loads(result.stdout)
        assert found["rows"] == expected
        assert ["may be names" in warning for warning in found["warnings"]] == [True] * (not options)


def test_ids_are_written_as_they_are(folder):
    """Also those that a spreadsheet would take for formulas: they are what rows are matched by."""
    ids = ["=cmd|' /C calc'!A0", "+1", "-1", "@x", *(f"r{i}" for i in range(36))]
    pd.DataFrame({"id": ids, "x": np.arange(40.0)}).to_csv("rows.csv", index=False)
    run("convert", "rows.csv", "out.csv", "--id-column", "id")
    assert pd.read_csv("out.csv")["id"].tolist() == ids


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_wrong_is_said_in_one_line(folder):
    run("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    commands = bad_files()
    before = sorted(os.listdir())
    wrong = []
    for command, said in commands.items():
        result = CliRunner().invoke(app, list(command))
        *rest, last = result.stderr.splitlines() or [""]
        fine = result.exit_code == 2 and last.startswith("error: ") and said in last and not result.stdout
        if not fine or any(not line.startswith("warning: ") for line in rest):
            wrong.append((command, said, result.exit_code, result.stderr, result.exception))
    assert not wrong
    assert sorted(os.listdir()) == before
    debug = run("fit", "none.npy", "--debug", code=2).stderr
    assert debug.startswith("Traceback")
    assert debug.splitlines()[-1].startswith("error: There is no file none.npy")


# What is wrong with a file: the views that a command is given, and the file that must be named.
BAD_VIEWS = {
    "missing": (["pixels=none.npy"], "none.npy"),
    "empty": (["pixels=empty.parquet"], "empty.parquet"),
    "truncated": (["pixels=cut.npz"], "cut.npz"),
    "truncated parquet": (["pixels=cut.parquet"], "cut.parquet"),
    "wrong extension": (["pixels=really_npy.csv"], "really_npy.csv"),
    "unknown extension": (["pixels=pixels.xyz"], "pixels.xyz"),
    "other row counts": (["pixels.npy", "hog=short.npy"], "short.npy has 5 rows, but pixels.npy has 240"),
    "duplicate ids": (["pixels=once.csv", "hog=twice.csv", "--id-column", "id"], "twice.csv has the row id 'u' more"),
    "mixed types": (["pixels=mixed.csv"], "mixed.csv"),
    "mixed types in parquet": (["pixels=mixed.parquet"], "mixed.parquet: column 'b'"),
}
BAD_MODELS = ("none.coterie", "empty.coterie", "cut.coterie", "noise.coterie", "hog.parquet", "bare")

# Runs commands one after the other, as a shell would, each as if the process were its own.
SEVERAL = """
import json, sys
from coterie.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["coterie", *arguments]
    try:
        main()
    except SystemExit as end:
        print("exit", end.code, file=sys.stderr)
"""


@pytest.fixture
def bad_folder(folder):
    run("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    bad_files()
    pd.DataFrame({"a": [1.0, 2], "b": ["x", "y"]}).to_parquet("mixed.parquet")
    before = sorted(os.listdir())
    yield folder
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("kind", BAD_VIEWS)
def test_a_bad_file_as_a_shell_sees_it(kind, bad_folder):
    views, said = BAD_VIEWS[kind]
    command = [*COTERIE, "fit", *views, "-k", "3", "--labels", "out.csv", "--model", "out.coterie"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize("command", ["predict", "describe", "compare", "suggest-k", "convert"])
def test_bad_files_of_every_command(command, bad_folder):
    """In one process for each command: most of the time would be that of their starts."""
    given = {"predict": ["m.coterie"], "compare": ["-k", "3"]}.get(command, [])
    asked = {} if command == "describe" else {tuple(views): said for views, said in BAD_VIEWS.values()}
    commands = [[command, *given, *views, *(["out.h5"] if command == "convert" else [])] for views in asked]
    wanted = list(asked.values())
    if command in ("predict", "describe"):
        commands += [[command, model, *(["pixels.npy"] if command == "predict" else [])] for model in BAD_MODELS]
        wanted += BAD_MODELS
    commands.append([*commands[-1], "--debug"])
    code = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    *plain, debug = done.stderr.removesuffix("exit 2\n").split("exit 2\n")
    for said, heard in zip(wanted, plain, strict=True):
        (line,) = heard.splitlines()
        assert line.startswith("error: ")
        assert said in line
    assert debug.startswith("Traceback")
    assert debug.splitlines()[-1] == plain[-1].strip()


def test_faults_of_our_own_are_told_from_bad_input():
    code, said = judge(RuntimeError("this\ncannot be"))
    assert code == 1
    assert said.startswith("unexpected RuntimeError: this cannot be (--debug")
    assert judge(MemoryError()) == (2, "out of memory")
    assert judge(KeyboardInterrupt())[0] == 130
    assert judge(ImportError("Reading parquet needs pyarrow")) == (2, "Reading parquet needs pyarrow")


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_too(folder):
    np.save("few.npy", np.repeat(np.eye(3), 20, axis=0))
    result = run("fit", "few.npy", "-k", 3, "--landmarks", "50", "--neighbors", "1", "--json")
    assert "warning: Only 3 rows are distinct" in result.stderr
    assert json.loads(result.stdout)["warnings"][0].startswith("Only 3 rows are distinct")


def test_quiet_and_verbose(folder):
    result = run("fit", "pixels.npy", "-k", K, *QUICK, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")
    result = run("fit", "pixels.npy", "-k", K, *QUICK, "--verbose")
    assert "[coterie " in result.stderr
    assert "Nothing was written" in result.stderr
    assert result.stdout.startswith(f"{N} rows, {K} clusters")


def test_values():
    assert parse_value("auto") == "auto"
    assert parse_value("None") is None
    assert parse_value("[1, 2]") == [1, 2]
    assert parse_value("a,1.5") == ["a", 1.5]


# -- the manual, the help and the README -----------------------------------------------------------------------


def examples():
    """Return every command of the manual and of the help, as it stands there."""
    commands = re.findall(r"^\$ (coterie .*)$", manual(), re.MULTILINE)
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    commands += re.findall(r"^\$ (coterie .*)$", readme, re.MULTILINE)
    for name in ("fit", "predict", "drift", "report", "suggest-k", "describe", "compare", "convert", None):
        function = next((c.callback for c in app.registered_commands if c.name == name), app.registered_callback)
        text = (function if name else function.callback).__doc__
        found = re.findall(r"^ *\* `(coterie .*?)`", text, re.MULTILINE)
        assert found
        commands += found
    return [command for command in dict.fromkeys(commands) if command != "coterie demo"]


def words_of(command):
    """Return a command's words as a shell would: globs are expanded, where they match anything."""
    _, *words = shlex.split(command)
    return [match for word in words for match in (sorted(glob.glob(word)) if "*" in word else [word])]


@pytest.mark.filterwarnings("default")
def test_examples_run_as_they_stand(folder):
    commands = examples()
    assert len(commands) > 20
    for command in commands:  # in this order: the first one writes the model that others read
        words = words_of(command)
        code = 3 if words[0] == "drift" else 0  # the rows of its examples lack a view
        run(*words, *(["--overwrite"] if words[0] == "predict" and "--overwrite" not in words else []), code=code)
    written = ("out.parquet", "digits.coterie", "digits.html", "new.csv", "out.csv", "hog.npy", "all.h5")
    assert all(Path(name).stat().st_size for name in written)


def test_help_teaches():
    for command in ("fit", "predict", "drift", "report", "suggest-k", "describe", "compare", "convert", "demo"):
        shown = run(command, "--help").stdout
        assert "Usage" in shown
        assert "\x1b" not in shown
    assert "Exit codes" in run("--help").stdout
    assert run("--version").stdout == f"coterie {coterie.__version__}\n"


# -- real processes --------------------------------------------------------------------------------------------


def loaded_by(*args):
    """Return which slow packages a command imports, as a process of its own."""
    code = """
import atexit, sys
from coterie.cli import main

def tell():
    ran = [name for name, module in sys.modules.items() if type(module).__name__ == "module"]
    slow = ("numpy", "scipy.stats", "sklearn", "numba", "pandas", "pyarrow", "torch")
    print("loaded", *(name for name in slow if name in ran), file=sys.stderr)

atexit.register(tell)
main()
"""
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True)
    return done.stderr.splitlines()[-1].split()[1:]


def test_commands_import_what_they_need(folder):
    for asked in (["--help"], ["--version"], ["fit", "--help"]):
        assert loaded_by(*asked) == []
    assert loaded_by("fit", "none.npy", "-k", 3) == ["numpy"]
    run("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    predict = ["predict", "m.coterie", "pixels.npy", "hog.parquet", "--labels", "new.parquet"]
    assert loaded_by(*predict) == ["numpy", "sklearn", "numba", "pyarrow"]


def test_a_module_that_runs_when_it_is_used(tmp_path):
    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text("print('runs')\nfrom heavy import part\nvalue = part.value + 1\n")
    (tmp_path / "heavy" / "part.py").write_text("import heavy\nvalue = 1 if not hasattr(heavy, 'value') else 0\n")
    code = """
import sys
from concurrent.futures import ThreadPoolExecutor
from coterie.cli.start import hidden, import_later

with hidden("heavy"):
    try:
        import heavy
    except ImportError:
        print("hidden")
import_later("heavy")
import heavy
print("imported")
with ThreadPoolExecutor(4) as pool:
    print(set(pool.map(lambda _: heavy.value, range(8))))
import_later("heavy")
print(heavy.part.value, type(sys.modules["heavy"]).__name__)
import_later("nonsense")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    assert done.stdout.split() == ["hidden", "imported", "runs", "{2}", "1", "module"]


def test_a_real_process_in_a_pipe(folder, arrays):
    """Fit, predict and convert as a shell runs them: results on standard output, no colours, exit codes."""
    views = ["pixels.npy", "hog.parquet", "text.npz"]
    fit = [*COTERIE, "fit", *views, "-k", str(K), *QUICK, "--labels", "out.parquet", "--model", "m.coterie"]
    done = subprocess.run(fit, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert f"{N} rows, {K} clusters" in done.stdout
    assert (pd.read_parquet("out.parquet")["label"] == expected(arrays).labels_).all()
    new = f"{shlex.join(COTERIE)} predict m.coterie new_*.npy --labels new.csv --json | cat"
    piped = subprocess.run(new, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(piped.stdout)["rows"] == N // 3
    bad = subprocess.run([*COTERIE, "convert", "none.npy", "out.npy"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r"error: There is no file none\.npy.*\n", bad.stderr)


def run_in_terminal(command):
    """Run a process whose standard error is a terminal; return what it wrote there, and to standard output."""
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(main, 4096):
            shown += chunk
    except OSError:  # how a terminal says that all is said
        pass
    os.close(main)
    out, _ = process.communicate()
    assert process.returncode == 0
    return shown, out


def test_a_terminal_gets_colours_and_a_bar(folder):
    """Standard error is a terminal, standard output is not: the bar is on one, plain JSON on the other."""
    shown, out = run_in_terminal([*COTERIE, "fit", "pixels.npy", "-k", str(K), "--set", "n_init=100", "--json"])
    assert json.loads(out)["clusters"] == K
    assert b"fitting 240 rows" in shown
    assert b"\x1b[" in shown


SLOW_PASS = """
import time
from coterie.cli.session import Voice
from coterie.progress import Progress, counted
with Voice(quiet=False, json=False, verbose=False, warnings=[]).bar("fitting"), Progress(False).stage("graphs"):
    for _ in counted(range(100), 100, 1000):
        time.sleep(0.02)
"""


def test_the_bar_tells_rows_a_second_and_the_time_left():
    shown, _ = run_in_terminal([sys.executable, "-c", SLOW_PASS])
    assert b"fitting: graphs" in shown
    assert b" rows/s" in shown
    assert re.search(rb"0:0\d", shown)


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    np.save(tmp_path / "big.npy", np.random.default_rng(0).standard_normal((60_000, 6)).astype(np.float32))
    (tmp_path / "out.csv").write_text("from before\n")
    options = ["-k", "8", "--landmarks", "200", "--neighbors", "5", "--max-iter", "2000", "--set", "tol=0", "--verbose"]
    command = [*COTERIE, "fit", "big.npy", *options, "--labels", "out.csv", "--model", "m.coterie"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "round" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert rest.splitlines()[-1] == "error: stopped; no file was left half-written"
    assert "Traceback" not in rest
    assert sorted(os.listdir(tmp_path)) == ["big.npy", "out.csv"]
    assert (tmp_path / "out.csv").read_text() == "from before\n"


def test_a_stopped_job_goes_on(tmp_path):
    """Ctrl-C in the middle, then the same command again: the labels are those of a run that nobody stopped."""
    rng = np.random.default_rng(0)
    np.save(
        tmp_path / "big.npy", (rng.standard_normal((20_000, 6)) + 4 * rng.integers(3, size=(20_000, 1))).astype("f4")
    )
    options = ["-k", "3", "--landmarks", "200", "--neighbors", "5", "--max-iter", "40", "--set", "tol=0", "--verbose"]
    command = [*COTERIE, "fit", "big.npy", *options]
    job = [*command, "--work-dir", "job", "--labels", "out.npy"]
    process = subprocess.Popen(job, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "round 5" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert not (tmp_path / "out.npy").exists()
    steps = len(list((tmp_path / "job").glob("*/step_*")))
    assert steps > 10
    again = subprocess.run([*job, "--jobs", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert os.listdir(tmp_path / "job") == []
    subprocess.run([*command, "--labels", "quiet.npy"], cwd=tmp_path, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), np.load(tmp_path / "quiet.npy"))


def test_results_that_memory_has_no_room_for(folder, arrays):
    views = ["pixels.npy", "hog.parquet", "text.npz"]
    limited = run("fit", *views, "-k", K, *QUICK, "--memory-limit", "1GB", "--embedding", "places.npy", "--json")
    assert "memory_limit" not in json.loads(limited.stdout)["config"]
    np.testing.assert_allclose(np.load("places.npy"), expected(arrays).transform(arrays), atol=1e-6)
    result = run("fit", *views, "-k", K, "--memory-limit", "1MB", code=2)
    assert "'memory_limit' parameter" in result.stderr
    assert "at least 1 GB" in result.stderr


def test_completion(folder):
    environment = {**os.environ, "_COTERIE_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    code = [sys.executable, "-c", "from coterie.cli import app; app(prog_name='coterie')"]
    environment["COMP_WORDS"] = "coterie fit hog"
    done = subprocess.run(code, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["hog.parquet"]
    Path("sub").mkdir()
    Path("sub/a.npy").touch()
    assert complete_files(None, [], "x=sub/") == ["x=sub/a.npy"]
    assert complete_files(None, [], "su") == ["sub/"]
    assert complete_files(None, [], "nowhere/") == []


# -- rows in other orders --------------------------------------------------------------------------------------


@pytest.fixture
def shuffled(arrays, data, tmp_path):
    """Two files whose rows are in different orders, the second without some; and known labels in a third order."""
    rng = np.random.default_rng(1)
    ids = pd.Index([f"r{i:03}" for i in range(N)], name="id")
    rounded = np.round(arrays["pixels"].astype(np.float64), 3)
    frames = {"pixels": pd.DataFrame(rounded, index=ids), "hog": pd.DataFrame(arrays["hog"], index=ids)}
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
    """As processes of their own; what they write has the right labels and values beside every id."""
    pixels, hog = shuffled.values()
    with_ids = ["--id-column", "id"]
    target = ["--target", "known.csv::label"]

    def run_shown(*args):
        done = subprocess.run([*COTERIE, *map(str, args), "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

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
        found = run_shown(
            "predict", "m.coterie", *order, *target, "--labels", "new.csv", "--embedding", "new.npz", "--overwrite"
        )
        assert found["scores"]["ARI"] == truth
        labels = pd.read_csv("new.csv", index_col="id")["label"]
        assert (labels == right.loc[labels.index]).all()
        assert labels.index.tolist() == (pixels if order is files else hog).index.tolist()
        with np.load("new.npz") as stored:
            assert stored["id"].tolist() == labels.index.tolist()

    methods = ["-m", "Coterie", "-m", "k-means, scaled"]
    found = run_shown("compare", *files, "-k", K, *methods, *target, "--labels", "all.csv")
    assert {line["scores"]["ARI"] > 0.8 for line in found["methods"].values()} == {True}
    table = pd.read_csv("all.csv", index_col="id")
    ours = GuidedCoTraining(K, random_state=0).fit_predict([pixels.to_numpy(), hog.loc[pixels.index].to_numpy()])
    assert ari(table["Coterie"].loc[pixels.index], ours) == 1

    run_shown("convert", *files, "both.h5", *target)
    with h5py.File("both.h5") as stored:
        index = stored["id"].asstr()[:]
        assert (stored["pixels"][:] == pixels.loc[index].to_numpy()).all()
        assert (stored["hog"][:] == hog.loc[index].to_numpy()).all()
        assert (stored["y"][:] == data.target[pixels.index.get_indexer(index)]).all()

    settings = ["--max", "14", "--landmarks", "50", "--neighbors", "5"]
    best = suggest_k({"pixels": pixels, "hog": hog}, k_max=14, n_landmarks=50, n_neighbors=5, random_state=0)
    assert run_shown("suggest-k", *files, *settings)["candidates"][0]["scores"] == best.scores.max()


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

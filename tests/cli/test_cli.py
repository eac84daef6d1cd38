"""The command line on real files, in this process: the same labels as from Python; the manual, the help, the README."""

import glob
import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import QUICK, K, N, expected, frame_of, labels_of, manual, refused, run, run_json
from scipy import sparse

import coterie
from coterie import GuidedCoTraining, suggest_k
from coterie.cli import app
from coterie.cli.options import as_toml, parse_value
from coterie.cli.predict import view_names
from coterie.formats import open_table, open_target, open_views
from coterie.metrics import ari


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

    shown = run("describe", "m.coterie").stdout
    assert (
        "made by coterie fit a=pixels.npy hog.parquet[1:]; coterie describe m.coterie --toml has all options" in shown
    )
    assert "{" not in shown.replace("{'a': 'block'}", "")  # no JSON among the lines

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


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("seed = true", "'seed' must be a value as on the command line, not true or false. Got true instead."),
        (
            "clusters = false",
            "'clusters' must be a value as on the command line, not true or false. Got false instead.",
        ),
        ('confidence = "no"', "'confidence' must be true or false. Got \"no\" instead."),
        ("header = 1", "'header' must be true or false. Got 1 instead."),
        ("quiet = [true]", "'quiet' must be true or false. Got [true] instead."),
    ],
)
def test_a_config_with_a_switch_for_a_value_is_refused(folder, line, told):
    Path("bad.toml").write_text(line + "\n")
    assert f"bad.toml: {told}" in refused("fit", "pixels.npy", "--config", "bad.toml")


def test_number_of_clusters(folder, arrays):
    views = {"pixels": arrays["pixels"], "hog": arrays["hog"]}
    found = run_json("suggest-k", "pixels.npy", "hog.parquet", "--max", "14", "--landmarks", "50", "--neighbors", "5")
    wanted = suggest_k(views, k_max=14, n_landmarks=50, n_neighbors=5, random_state=0)
    assert found["best"] == wanted.best == found["candidates"][0]["k"]
    assert sorted(line["k"] for line in found["candidates"]) == wanted.k.tolist()
    islands = {int(k): None if np.isnan(seen) else seen for k, seen in zip(wanted.k, wanted.islands, strict=True)}
    assert {line["k"]: line["islands"] for line in found["candidates"]} == islands
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
        outputs = ("--labels", "out.csv", "--model", "m.coterie", "--report", "r.json", "--overwrite")
        run("fit", *views, "-k", K, *QUICK, *outputs, "-q")
        assert (labels_of("out.csv") == model.labels_).all()
        run("predict", "m.coterie", *views, "--labels", "again.csv", "--overwrite", "-q")
        assert (labels_of("again.csv") == model.labels_).all()
    hog[3, 2] = np.nan
    np.save("hole.npy", hog)
    assert "view 'hole', row 3, column 2. " in refused("fit", "pixels.npy", "hole.npy", "-k", K, *QUICK)


def half(frame):
    frame.iloc[:9].to_csv("half.csv", index=False)
    return "half.csv::label"


def test_a_file_is_the_view_that_its_name_holds():
    assert view_names(["b", "a"], ["a", "b"]) == {"b": "b", "a": "a"}
    assert view_names(["new_a.b", "old-pix"], ["a.b", "pix", "b"]) == {"new_a.b": "a.b", "old-pix": "pix"}
    for given, known in ((["spixels"], ["pixels"]), (["a_b"], ["a", "b"]), (["x_a", "y_a"], ["a", "b"])):
        with pytest.raises(ValueError, match="=PATH"):
            view_names(given, known)


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
    assert "holds one table" in refused("convert", "pixels.npy", "hog.parquet", "both.csv")
    assert "none of .csv" in refused("convert", "pixels.npy", "o.xyz")
    assert not glob.glob("*.xyz")


def test_compare(folder, arrays, data):
    found = run_json("compare", "digits.npz", "-k", K, "--target", "digits.npz::y", "--labels", "all.parquet")
    names = ["Coterie", "Guided co-training", "k-means, raw", "k-means, scaled", "k-means, standardised"]
    names += ["ConcatLSC", "MVSC-B", "LSC, pixels alone", "LSC, hog alone"]
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


def test_the_basis_that_was_chosen_is_said(folder):
    fit = ("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "--overwrite")
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
    for options, n_rows in ([], 41), (["--header"], 40), (["--no-header"], 41):
        result = run("convert", "years.csv", "years.npy", *options, "--overwrite", "--json")
        found = json.loads(result.stdout)
        assert found["rows"] == n_rows
        assert ["may be names" in warning for warning in found["warnings"]] == [True] * (not options)


def test_ids_are_written_as_they_are(folder):
    """Also those that a spreadsheet would take for formulas: they are what rows are matched by."""
    ids = ["=cmd|' /C calc'!A0", "+1", "-1", "@x", *(f"r{i}" for i in range(36))]
    pd.DataFrame({"id": ids, "x": np.arange(40.0)}).to_csv("rows.csv", index=False)
    run("convert", "rows.csv", "out.csv", "--id-column", "id")
    assert pd.read_csv("out.csv")["id"].tolist() == ids


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


WRITING = ("fit", "predict", "compare", "convert")  # several examples write files of one name


@pytest.mark.filterwarnings("default")
def test_examples_run_as_they_stand(folder):
    commands = examples()
    assert len(commands) > 20
    for command in commands:  # in this order: the first one writes the model that others read
        words = words_of(command)
        code = 3 if words[0] == "drift" else 0  # the rows of its examples lack a view
        run(*words, *(["--overwrite"] if words[0] in WRITING else []), code=code)
    written = ("out.parquet", "digits.coterie", "digits.html", "new.csv", "out.csv", "hog.npy", "all.h5")
    assert all(Path(name).stat().st_size for name in written)


def test_help_teaches():
    for command in ("fit", "predict", "drift", "report", "suggest-k", "describe", "compare", "convert", "demo"):
        shown = run(command, "--help").stdout
        assert "Usage" in shown
        assert "\x1b" not in shown
    assert "Exit codes" in run("--help").stdout
    assert run("--version").stdout == f"coterie {coterie.__version__}\n"

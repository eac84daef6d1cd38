"""New rows at the command line: the daily job, novelty and drift, on real files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import coterie
from coterie import GuidedCoTraining
from coterie.cli import app
from coterie.datasets import make_views

K = 3


@pytest.fixture(scope="module")
def model():
    data = make_views(400, K, n_columns=(6, 5), separation=6, random_state=0)
    views = {"pixels": data.views["view0"], "hog": data.views["view1"]}
    fitted = GuidedCoTraining(K, random_state=0, n_landmarks=80).fit({name: view[:300] for name, view in views.items()})
    return fitted, {name: view[300:] for name, view in views.items()}


@pytest.fixture
def folder(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coterie.save(model[0], "m.coterie")
    for name, view in model[1].items():
        np.save(f"new_{name}.npy", view)
    return tmp_path


def run(*args, code=0):
    done = CliRunner().invoke(app, list(map(str, args)))
    assert done.exit_code == code, done.output
    return done


FILES = ("new_pixels.npy", "new_hog.npy")


def test_novelty_is_written(folder, model):
    fitted, new = model
    run("predict", "m.coterie", *FILES, "--labels", "new.csv", "--confidence", "--novelty")
    found = pd.read_csv("new.csv")
    assert list(found.columns) == ["row", "label", "confidence", "novelty"]
    np.testing.assert_array_equal(found["label"], fitted.predict(new))
    np.testing.assert_allclose(found["novelty"], fitted.novelty(new), atol=1e-6)
    assert "no room" in run("predict", "m.coterie", *FILES, "--labels", "new.npy", "--novelty", code=2).output


@pytest.mark.filterwarnings("ignore:.*left out because they hold no numbers")
def test_the_column_of_ids_is_that_of_the_fit_for_all_files_or_none(model, tmp_path, monkeypatch):
    """One file without it must not let the others be read as if they had no ids: rows would be matched by position."""
    monkeypatch.chdir(tmp_path)
    new = {name: pd.DataFrame(view).add_prefix(name) for name, view in model[1].items()}
    numbered = {name: frame.assign(key=np.arange(100) + 500) for name, frame in new.items()}
    for name, frame in numbered.items():
        frame.to_csv(f"{name}.csv", index=False)
    run("fit", "pixels.csv", "hog.csv", "--id-column", "key", "-k", K, "--model", "m.coterie", "-q")
    new["hog"].to_csv("new_hog.csv", index=False)
    numbered["pixels"][::-1].to_csv("new_pixels.csv", index=False)
    command = ("predict", "m.coterie", "new_pixels.csv", "new_hog.csv")
    assert "new_hog.csv has no column 'key'" in run(*command, code=2).output
    new["pixels"].to_csv("new_pixels.csv", index=False)
    run(*command, "--labels", "by_position.csv")
    numbered["hog"].to_csv("new_hog.csv", index=False)
    numbered["pixels"][::-1].assign(note="x").to_csv("new_pixels.csv", index=False)
    assert "column 'note' holds 'x' in line 2" in run(*command, code=2).output
    run(*command, "--labels", "by_id.csv", "--numeric-only")
    found = pd.read_csv("by_id.csv").set_index("key").sort_index()["label"]
    assert found.tolist() == pd.read_csv("by_position.csv")["label"].tolist()
    numbered["pixels"].assign(key="a")[:0].to_csv("new_pixels.csv", index=False)
    numbered["hog"].assign(key="a").to_csv("new_hog.csv", index=False)
    assert "new_pixels.csv has no rows. Leave the file out." in run(*command, code=2).output


def test_one_cluster_is_called_so(folder):
    found = run("fit", *FILES, "-k", 1, "--landmarks", "60").stdout
    assert found.startswith("100 rows, 1 cluster of 100 rows, ")


def test_nothing_is_overwritten_unless_told(folder):
    Path("new.csv").write_text("mine")
    assert "there already" in run("predict", "m.coterie", *FILES, "--labels", "new.csv", code=2).output
    assert Path("new.csv").read_text() == "mine"
    run("predict", "m.coterie", *FILES, "--labels", "new.csv", "--overwrite")
    assert Path("new.csv").read_text().startswith("row,label")


def test_labels_on_standard_output(folder, model):
    fitted, new = model
    lines = run("predict", "m.coterie", *FILES, "--labels", "-", "--confidence").stdout.splitlines()
    assert lines[0] == "row,label,confidence"
    assert [int(line.split(",")[1]) for line in lines[1:]] == fitted.predict(new).tolist()
    assert "both write" in run("predict", "m.coterie", *FILES, "--labels", "-", "--json", code=2).output
    for labels in (["--labels", "-"], []):  # an embedding in their place hid them, and the summary stood below it
        refused = run("predict", "m.coterie", *FILES, *labels, "--embedding", "-", code=2)
        assert "- cannot be written: results go to files" in refused.output


@pytest.mark.filterwarnings("default:2 rows lack every view")
def test_rows_that_lack_every_view(folder, model):
    fitted, new = model
    for name, view in new.items():
        gaps = view.copy()
        gaps[[4, 9]] = np.nan
        np.save(f"new_{name}.npy", gaps)
    done = run("predict", "m.coterie", *FILES, "--labels", "new.csv", "--json")
    assert json.loads(done.stdout)["unlabelled"] == 2
    labels = pd.read_csv("new.csv")["label"].to_numpy()
    assert np.flatnonzero(labels == -1).tolist() == [4, 9]
    np.testing.assert_array_equal(np.delete(labels, [4, 9]), np.delete(fitted.predict(new), [4, 9]))
    done = run("predict", "m.coterie", *FILES, "--labels", "strict.csv", "--strict", code=2)
    assert "Every view is missing in row 4 and 1 more near it." in done.output
    assert not Path("strict.csv").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_empty_file_gives_an_empty_output(folder, model, suffix):
    for name, view in model[1].items():
        frame = pd.DataFrame(view[:0]).add_prefix("c")
        frame.to_parquet(f"new_{name}.parquet") if suffix == "parquet" else frame.to_csv(f"new_{name}.csv", index=False)
    run("predict", "m.coterie", f"new_pixels.{suffix}", f"new_hog.{suffix}", "--labels", f"out.{suffix}", "--novelty")
    found = pd.read_parquet("out.parquet") if suffix == "parquet" else pd.read_csv("out.csv")
    assert len(found) == 0
    assert list(found.columns) == ["row", "label", "novelty"]


def test_a_day_without_rows_looks_like_other_days(folder, model):
    """The column of ids has its name, nothing is said of columns, and drift says that there is nothing to compare."""
    _, new = model
    for name, view in new.items():
        frame = pd.DataFrame(view).add_prefix("c").assign(person=[f"p{i}" for i in range(100)], note="some text")
        frame.to_parquet(f"{name}.parquet")
        frame[:0].to_parquet(f"none_{name}.parquet")
    run("fit", "pixels.parquet[c*]", "hog.parquet[c*]", "--id-column", "person", "-k", K, "--model", "ids.coterie")
    files = ["none_pixels.parquet[c*]", "none_hog.parquet[c*]"]
    done = run("predict", "ids.coterie", *files, "--labels", "none.csv", "--confidence")
    assert "without views" not in done.output
    assert Path("none.csv").read_text().strip() == "person,label,confidence"
    assert "The files have no rows" in run("drift", "ids.coterie", *files, code=2).output
    assert "The files have no rows" in run("report", "ids.coterie", *files, code=2).output


def test_the_column_of_ids_is_remembered(folder, model):
    _, new = model
    ids = [f"p{i}" for i in range(100)]
    for name, view in new.items():
        pd.DataFrame(view).add_prefix("c").assign(person=ids).to_csv(f"{name}.csv", index=False)
    run("fit", "pixels.csv", "hog.csv", "--id-column", "person", "-k", K, "--model", "ids.coterie", "--labels", "a.csv")
    run("predict", "ids.coterie", "pixels.csv", "hog.csv", "--labels", "b.csv")
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    assert "p7" in Path("b.csv").read_text()
    frame = coterie.load("ids.coterie").predict_frame({"pixels": "pixels.csv", "hog": "hog.csv"})  # in Python too
    assert frame.index.tolist() == ids
    assert frame["label"].tolist() == pd.read_csv("a.csv")["label"].tolist()


@pytest.mark.parametrize("column", ["person", 0])
def test_a_model_that_python_made_has_its_column_of_ids_too(folder, model, column):
    _, new = model
    frames = {name: pd.DataFrame(view).add_prefix("c") for name, view in new.items()}
    for frame in frames.values():
        frame.insert(0, "person", [f"p{i}" for i in range(100)])
    fitted = GuidedCoTraining(K, id_column="person", n_landmarks=60, random_state=0).fit(frames)
    coterie.save(fitted.set_params(id_column=column), "ids.coterie")
    for name, frame in frames.items():
        frame.iloc[::-1].to_csv(f"{name}.csv", index=False)
    run("predict", "ids.coterie", "pixels.csv", "hog.csv", "--labels", "b.csv")
    found = pd.read_csv("b.csv").iloc[::-1]
    assert found.iloc[:, 0].tolist() == fitted.row_ids_.tolist()
    assert found["label"].tolist() == fitted.labels_.tolist()


def test_drift_is_an_exit_code(folder, model):
    _, new = model
    found = json.loads(run("drift", "m.coterie", *FILES, "--json").stdout)
    assert found["drifted"] is False
    assert found["n_rows"] == 100
    assert "as in the fit" in run("drift", "m.coterie", *FILES).stdout
    np.save("one_pixels.npy", new["pixels"][:1])
    one = run("drift", "m.coterie", "one_pixels.npy", code=3).stdout  # it lacks a view
    assert one.startswith("1 row: ")
    assert "the clusters' shares differ by " in one
    np.save("moved_pixels.npy", new["pixels"] + 5)
    done = run("drift", "m.coterie", "moved_pixels.npy", "new_hog.npy", code=3)
    assert "look at it" in done.stdout
    done = run("drift", "m.coterie", "new_hog.npy", "--json", code=3)
    assert "lack view 'pixels'" in json.loads(done.stdout)["alarms"][-1]


def test_novel_rows_within_the_tolerance_are_mentioned(folder, model):
    """A new kind of one row in eight raises no alarm by default, but the batch is not as in the fit."""
    _, new = model
    seen = coterie.load("m.coterie").novelty(new)
    usual = np.flatnonzero(seen <= 0.95)[:88]
    rows = np.concatenate([usual, usual[:12]])
    for name, view in new.items():
        mixed = view[rows]
        mixed[88:] += 5
        np.save(f"mixed_{name}.npy", mixed)
    done = run("drift", "m.coterie", "mixed_pixels.npy", "mixed_hog.npy", "--tolerance", "0.3")
    assert "within the tolerance of 0.3, but more rows are novel than chance explains" in done.stdout
    assert "as in the fit" not in done.stdout


def test_a_refit_keeps_the_numbers(folder, model):
    run(
        "fit",
        "pixels=new_pixels.npy",
        "hog=new_hog.npy",
        "-k",
        K,
        "--seed",
        5,
        "--align-to",
        "m.coterie",
        "--labels",
        "a.csv",
    )
    np.testing.assert_array_equal(pd.read_csv("a.csv")["label"], model[0].predict(model[1]))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.filterwarnings("default:.*left out because they hold no numbers")
def test_text_columns_are_left_out_when_asked(folder, model, suffix):
    _, new = model
    for name, view in new.items():
        frame = pd.DataFrame(view).add_prefix("c").assign(note="some text")
        frame.to_parquet(f"{name}.parquet") if suffix == "parquet" else frame.to_csv(f"{name}.csv", index=False)
    files = [f"pixels.{suffix}", f"hog.{suffix}"]
    assert "'note'" in run("fit", *files, "-k", K, "--labels", "a.csv", code=2).output
    done = run("fit", *files, "-k", K, "--labels", "a.csv", "--model", "n.coterie", "--numeric-only")
    assert f"pixels.{suffix}: left out because they hold no numbers: note." in done.output
    run("predict", "n.coterie", *files, "--labels", "b.csv")  # the model remembers it
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    run("fit", *[f"{file}[c*]" for file in files], "-k", K, "--labels", "c.csv")
    assert Path("a.csv").read_text() == Path("c.csv").read_text()


@pytest.mark.filterwarnings("default:.*left out because they hold no numbers")
def test_every_command_leaves_text_columns_out_when_asked(folder, model):
    _, new = model
    for name, view in new.items():
        frame = pd.DataFrame(view).add_prefix("c").assign(person=[f"p{i}" for i in range(len(view))], note="some text")
        frame.to_csv(f"{name}.csv", index=False)
    files = ["pixels.csv", "hog.csv"]
    asked = ["--id-column", "person", "--numeric-only"]
    said = "pixels.csv: left out because they hold no numbers: note."
    assert said in run("fit", *files, "-k", K, *asked, "--model", "n.coterie").output
    assert said in run("report", "n.coterie", *files, "-o", "r.json").output  # the model remembers both
    assert "p99" in Path("r.json").read_text()
    for command in (["convert", *files, "out.h5"], ["compare", *files, "-k", K, "-m", "k-means, raw"]):
        assert "'note'" in run(*command, "--id-column", "person", code=2).output
        assert said in run(*command, *asked).output
    kept = coterie.formats.open_views(["out.h5"])
    np.testing.assert_allclose(kept["pixels"][:], new["pixels"], rtol=1e-6)
    run("report", "n.coterie", *files, "-o", "again.json", *asked)


@pytest.mark.filterwarnings("default:.*that the fit did not have")
def test_columns_of_files_are_matched_by_name(folder, model):
    _, new = model
    frames = {name: pd.DataFrame(view).add_prefix("c") for name, view in new.items()}
    for name, frame in frames.items():
        frame.to_csv(f"{name}.csv", index=False)
    run("fit", "pixels.csv", "hog.csv", "-k", K, "--labels", "a.csv", "--model", "n.coterie")
    frames["pixels"].iloc[:, ::-1].assign(extra=1.0).to_csv("pixels.csv", index=False)
    done = run("predict", "n.coterie", "pixels.csv", "hog.csv", "--labels", "b.csv")
    assert "View 'pixels' has columns that the fit did not have, and they are left out: 'extra'." in done.output
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    frames["hog"].drop(columns="c2").to_csv("hog.csv", index=False)
    done = run("predict", "n.coterie", "pixels.csv", "hog.csv", "--labels", "c.csv", code=2)
    assert "View 'hog' lacks 1 of the fit's 5 columns: 'c2'" in done.output


def test_results_call_the_ids_as_the_files_do(folder, model):
    """Two files of which each lacks rows, matched by a column; results can be joined to either."""
    _, new = model
    names = np.array([f"P{i:03d}" for i in range(100)])
    for (view, values), rows in zip(new.items(), (np.arange(95), np.arange(99, 2, -1)), strict=True):
        pd.DataFrame(values[rows]).add_prefix("c").assign(product=names[rows]).to_parquet(f"{view}.parquet")
    files = ["pixels.parquet", "hog.parquet"]
    done = run("fit", *files, "-k", K, "--id-column", "product", "--labels", "a.csv", "--model", "n.coterie")
    assert [line.split()[1:5:2] for line in done.output.splitlines() if "dense" in line] == [
        ["pixels", "95"],
        ["hog", "97"],
    ]
    fitted = pd.read_csv("a.csv")
    assert sorted(fitted["product"]) == names.tolist()
    run("predict", "n.coterie", *files, "--labels", "b.parquet", "--target", "a.csv", "--id-column", "product")
    run("predict", "n.coterie", *files, "--labels", "c.csv")
    joined = pd.read_parquet("b.parquet").merge(fitted, on="product")
    assert (joined["label_x"] == joined["label_y"]).all()
    assert len(joined) == 100
    assert run("predict", "n.coterie", *files, "--labels", "-").stdout.startswith("product,label")

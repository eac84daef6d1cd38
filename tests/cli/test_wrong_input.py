"""One line for whatever is wrong with what a command is given."""

import json
import os
import shutil
import subprocess
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import COTERIE, QUICK, K, refused, run, run_json, run_several
from typer.testing import CliRunner

from coterie import GuidedCoTraining
from coterie.cli import app
from coterie.cli.session import judge


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
        (*fit, "pixels.npy", "-k", "many"): "--clusters (-k) must be a whole number of at least 1, or auto. Got 'many'",
        (*fit, "pixels.npy", "-k", "1.5"): "--clusters (-k) must be a whole number of at least 1, or auto. Got '1.5'",
        (*fit, "~tilde.npy"): "There is no file ~tilde.npy",
        (*fit, "pixels=-"): "- cannot be read: rows are read several times. Write standard input to a file first.",
        ("fits", "pixels.npy"): "Did you mean 'fit'? See ",
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
        ("compare", "pixels.npy", "-k", "many"): "error: --clusters (-k) must be a whole number of at least 1",
    }


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


AFTER_THE_FIT = {
    "views of another model": (["one=pixels.npy", "--align-to", "m.coterie"], "m.coterie cannot label these rows"),
    "columns of another model": (["pixels=short.npy", "--align-to", "m.coterie"], "has 2 columns, but it had 9"),
    "no such view": (["pixels.npy", "--image", "hog=2x3", "--report", "r.html"], "no view 'hog' to be shown"),
    "other sizes": (["pixels.npy", "--image", "pixels=2x3", "--report", "r.html"], "makes 6 values"),
    "channels": (["pixels.npy", "--image", "pixels=1x1x9", "--report", "r.html"], "1, 3 or 4 channels"),
    "columns of one name": (
        ["pixels.npy", "--colour-by", "people.csv[age]", "--colour-by", "age=people.csv[income]", "--report", "r.html"],
        "Two columns to colour by are called 'age'",
    ),
    "too many columns": (
        ["pixels.npy", *[f"--colour-by=c{i}=people.csv[age]" for i in range(13)], "--report", "r.html"],
        "at most 12 columns",
    ),
}


@pytest.mark.parametrize("case", AFTER_THE_FIT)
def test_what_only_the_end_of_a_fit_needs_is_checked_before_it(folder, monkeypatch, case):
    args, said = AFTER_THE_FIT[case]
    run("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    np.save("short.npy", np.zeros((5, 2)))
    monkeypatch.setattr(GuidedCoTraining, "fit", lambda *_: pytest.fail("the rows were fitted, and the fit was lost"))
    line = refused("fit", *args, "-k", K, "--model", "new.coterie")
    assert said in line
    assert not Path("new.coterie").exists()


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


@pytest.fixture(scope="module")
def bad_library(library, tmp_path_factory):
    """A copy of the library, with a model and with what is wrong."""
    home = tmp_path_factory.mktemp("bad") / "here"
    shutil.copytree(library, home)
    with chdir(home):
        run("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "-q")
        bad_files()
        pd.DataFrame({"a": [1.0, 2], "b": ["x", "y"]}).to_parquet("mixed.parquet")
    return home


@pytest.fixture
def bad_folder(bad_library):
    """The folder of what is wrong, to which nothing may be written."""
    before = sorted(os.listdir(bad_library))
    with chdir(bad_library):
        yield bad_library
    assert sorted(os.listdir(bad_library)) == before


OUTPUTS = ["--labels", "out.csv", "--model", "out.coterie"]


@pytest.mark.parametrize("kind", ["missing", "truncated parquet"])
def test_a_bad_file_as_a_shell_sees_it(kind, bad_folder):
    views, said = BAD_VIEWS[kind]
    done = subprocess.run([*COTERIE, "fit", *views, "-k", "3", *OUTPUTS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize("command", ["fit", "predict", "describe", "compare", "suggest-k", "convert"])
def test_bad_files_of_every_command(command, bad_folder):
    given = {"fit": ["-k", "3", *OUTPUTS], "predict": ["m.coterie"], "compare": ["-k", "3"]}.get(command, [])
    asked = {} if command == "describe" else {tuple(views): said for views, said in BAD_VIEWS.values()}
    commands = [[command, *given, *views, *(["out.h5"] if command == "convert" else [])] for views in asked]
    wanted = list(asked.values())
    if command in ("predict", "describe"):
        commands += [[command, model, *(["pixels.npy"] if command == "predict" else [])] for model in BAD_MODELS]
        wanted += BAD_MODELS
    commands.append([*commands[-1], "--debug"])
    done = run_several(commands)
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


# -- files that are there already ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "pixels.npy", "-k", "3", "--labels", "kept.csv"],
        ["fit", "pixels.npy", "-k", "3", "--labels", "new.csv", "--model", "kept.csv"],
        ["fit", "pixels.npy", "-k", "3", "--labels", "new.csv", "--report", "kept.html"],
        ["fit", "pixels.npy", "-k", "3", "--labels", "new.csv", "--embedding", "kept.csv"],
        ["fit", "pixels.npy", "-k", "3", "--labels", "kept.csv", "--dry-run"],
        ["compare", "pixels.npy", "-k", "3", "--labels", "kept.csv"],
        ["convert", "pixels.npy", "kept.csv"],
        ["demo", "--report", "kept.html"],
    ],
    ids=" ".join,
)
def test_files_that_are_there_already_are_kept(folder, words):
    kept = Path(next(word for word in words if word.startswith("kept")))
    kept.write_text("years of work")
    assert f"{kept} is there already. Choose another name, or add --overwrite." in refused(*words)
    assert kept.read_text() == "years of work"
    assert not Path("new.csv").exists()


def test_files_are_replaced_where_that_is_asked_for(folder):
    Path("kept.csv").write_text("years of work")
    found = run("convert", "pixels.npy", "kept.csv", "--overwrite", "--json")
    assert json.loads(found.stdout)["files"] == {"out": "kept.csv"}
    assert "years of work" not in Path("kept.csv").read_text()


def test_pages_of_ours_are_replaced_and_those_of_others_are_not(folder):
    fit = ["fit", "pixels.npy", "-k", "3", *QUICK, "--model", "m.coterie", "--report", "page.html"]
    run(*fit)
    report = ["report", "m.coterie", "pixels.npy", "-o", "page.html"]
    run(*report)
    assert "m.coterie is there already" in refused(*fit)
    assert "overwrite" not in run_json("fit", *fit[1:], "--overwrite")["config"]  # how a run is done, not what it gives
    Path("page.html").write_text("<html>a page by hand</html>")
    assert "page.html is there already" in refused(*report)


# -- names of files that are not text --------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="names of files are text there")
def test_names_of_files_may_be_any_bytes(folder):
    given, known, out = map(os.fsdecode, (b"caf\xe9.npy", b"y\xe9.npy", b"out\xff.csv"))
    shutil.copy("pixels.npy", given)
    shutil.copy("y.npy", known)
    files = [given, "hog.parquet"]
    fit = ["fit", *files, "-k", K, *QUICK, "--labels", out, "--model", "m.coterie", "--report", "page.html"]
    found = run_json(*fit)
    assert list(found["views"]) == ["caf?", "hog"]
    assert found["files"]["labels"] == out
    assert Path(out).exists()
    for words in (
        ["predict", "m.coterie", *files, "--labels", "new.csv"],
        ["report", "m.coterie", *files, "-o", "again.html", "--colour-by", known],
        ["describe", "m.coterie"],
        ["convert", *files, "both.h5"],
        ["convert", given, "one.csv"],
    ):
        run_json(*words)


def test_a_column_of_ids_that_no_file_can_have_is_refused(folder):
    assert "pixels.npy has no id column 'person', and neither has any other file" in refused(
        "fit", "pixels.npy", "-k", "3", "--id-column", "person"
    )


def test_links_are_written_through(folder):
    Path("elsewhere").mkdir()
    Path("out.csv").symlink_to(Path("elsewhere", "real.csv"))  # which is not there yet
    for options in [], ["--overwrite"]:
        run("convert", "pixels.npy", "out.csv", *options)
        assert Path("out.csv").is_symlink()
        assert os.listdir("elsewhere") == ["real.csv"]


def test_links_that_lead_nowhere(folder):
    Path("one.csv").symlink_to("other.csv")
    Path("other.csv").symlink_to("one.csv")
    Path("lost.npy").symlink_to("moved.npy")
    fit = ("fit", "pixels.npy", "-k", K, *QUICK)
    for output in ("--labels", "--model"):
        assert "one.csv is a link that leads back to itself. Name a file." in refused(*fit, output, "one.csv")
    assert "There is no file lost.npy: it is a link to moved.npy, which leads nowhere" in refused("fit", "lost.npy")
    assert "There is no file one.csv: it is a link to other.csv, which leads nowhere" in refused("fit", "one.csv")
    assert os.readlink("one.csv") == "other.csv"


def test_pipes_are_refused_before_anybody_waits_for_them(folder):
    os.mkfifo("rows.csv")
    assert "rows.csv is a device or a pipe, and rows are read several times" in refused("fit", "rows.csv", "-k", K)
    assert "rows.csv is a device or a pipe" in refused("fit", "pixels.npy", "-k", K, "--target", "rows.csv")


def test_a_report_is_a_page_or_its_data(folder):
    for name in ("page.pdf", "page.csv", "page"):
        said = refused("fit", "pixels.npy", "-k", K, *QUICK, "--report", name)
        assert f"{name} cannot be written: a report is a page, .html, or its data, .json. Name it so." in said
        assert not Path(name).exists()


def test_files_at_home_are_kept_like_others(folder, monkeypatch):
    """~ is the home folder for what is written and for what is read, and a name may hold an equals sign."""
    monkeypatch.setenv("HOME", os.getcwd())
    shutil.copy("digits.npz", "lr=1.npz")
    Path("out.csv").write_text("mine")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    fit = ("fit", "pixels.npy", "-k", K, *QUICK)
    assert "is there already" in refused(*fit, "--labels=~/out.csv")
    assert "is read by this command" in refused(*fit, "--target", "~/y.npy", "--labels", "y.npy", "--overwrite")
    said = refused("fit", "./lr=1.npz::view_1", "-k", K, *QUICK, "--labels", "lr=1.npz", "--overwrite")
    assert "lr=1.npz is read by this command" in said
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_nothing_that_is_read_is_overwritten(folder):
    """Known labels, models, names and files of a folder are read beside the views, and --overwrite is no leave."""
    run("fit", "pixels.npy", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    Path("names.json").write_text('{"0": "round"}')
    Path("parts").mkdir()
    for name in ("first", "second"):
        shutil.copy("pixels.npy", f"parts/{name}.npy")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    fit, report = ("fit", "pixels.npy", "-k", K, *QUICK), ("report", "m.coterie", "pixels.npy")
    for command, said in (
        ((*fit, "--target", "y.npy", "--labels", "y.npy"), "y.npy is read by this command"),
        ((*fit, "--target", "digits.npz::y", "--labels", "digits.npz"), "digits.npz is read by this command"),
        ((*fit, "--colour-by", "people.csv[age]", "--labels", "people.csv"), "people.csv is read by this command"),
        (("fit", "parts", "-k", K, "--labels", "parts/first.npy"), "first.npy is read by this command"),
        (("fit", "parts", "-k", K, "--labels", "parts/third.npy"), "parts, which is read by this command"),
        (("compare", "pixels.npy", "-k", K, "--target", "y.npy", "--labels", "y.npy"), "y.npy is read by this command"),
        (("convert", "pixels.npy", "y.npy", "--target", "y.npy"), "y.npy is read by this command"),
        (("predict", *report[1:], "--target", "y.npy", "--labels", "y.npy"), "y.npy is read by this command"),
        ((*report, "-o", "m.coterie"), "m.coterie cannot be written: a report is a page"),
        ((*report, "--names", "names.json", "-o", "names.json"), "names.json is read by this command"),
    ):
        assert said in refused(*command, "--overwrite")
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before

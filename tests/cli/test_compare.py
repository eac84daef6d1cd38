"""``coterie compare``: any method by name, each in a process that a limit ends, and a table in the order asked for."""

from __future__ import annotations

import json
from contextlib import chdir

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie import peers
from coterie.cli import app
from coterie.cli.compare import all_methods, choose_methods, first_sentence, ranked
from coterie.datasets import make_views
from coterie.metrics import ari

VIEWS = ["pixels", "hog"]
QUICK = ["-m", "k-means, raw", "-m", "KASP"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = make_views(2000, 4, n_columns=(8, 6), separation=6, random_state=0)
    home = tmp_path_factory.mktemp("files")
    for name, table in zip(VIEWS, data.views.values(), strict=True):
        np.save(home / f"{name}.npy", table)
    np.save(home / "y.npy", data.target)
    np.save(home / "many.npy", np.random.default_rng(0).standard_normal((10_001, 2)))
    with chdir(home):
        yield data


def run(*arguments):
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_does_not_end_in_time_says_so_and_the_others_run(folder):
    asked = ["-k", 4, "-m", "RMSC", *QUICK, "--limit", 1, "--target", "y.npy"]
    found = json.loads(run("pixels.npy", "hog.npy", *asked, "--json"))
    assert found["methods"]["RMSC"] == {"failed": "did not end within 1 s"}
    assert list(found["methods"])[-1] == "RMSC"
    assert found["methods"]["KASP"]["scores"]["ARI"] > 0.9
    assert set(found["agreement"]) == {"k-means, raw", "KASP"}


def test_what_does_not_fit_says_why_in_its_line(folder):
    shown = " ".join(run("many.npy", "-k", 3, "-m", "SC", "-m", "k-means, raw").split())
    assert "why not" in shown
    assert "SC compares all pairs of rows: 10,001 rows need about 2.4 GB" in shown.replace(" │ │ │ │ │ │ ", " ")


def test_a_method_of_one_table_takes_all_views_or_one(folder):
    found = json.loads(run("pixels.npy", "hog.npy", "-k", 4, "-m", "kasp", "-m", "KASP, hog alone", "--json"))
    assert list(found["methods"]) == ["KASP", "KASP, hog alone"]
    views = {name: np.load(f"{name}.npy") for name in VIEWS}
    alone, whole = (peers.KASP(4, view=view, random_state=0).fit_predict(views) for view in ("hog", None))
    assert found["agreement"]["KASP"]["KASP, hog alone"] == pytest.approx(ari(whole, alone))
    assert found["methods"]["KASP"]["agreement"] == found["agreement"]["KASP"]["KASP, hog alone"]


@pytest.mark.parametrize("sort", ["seconds", "ari", "agreement"])
def test_the_table_is_sorted_by_what_is_asked_for(sort):
    lines = {
        "slow": {"seconds": 9.0, "scores": {"ARI": 0.9}, "agreement": 0.1},
        "broken": {"failed": "it needs too much"},
        "quick": {"seconds": 1.0, "scores": {"ARI": 0.5}, "agreement": 0.2},
    }
    best = {"seconds": "quick", "ari": "slow", "agreement": "quick"}[sort]
    ordered = list(ranked(lines, {"ari": "ARI"}.get(sort, sort)))
    assert (ordered[0], ordered[-1]) == (best, "broken")
    assert list(ranked(lines, None)) == ["slow", "quick", "broken"]


def test_a_wrong_order_is_refused_with_the_remedy(folder):
    files = ["compare", "pixels.npy", "-k", "4"]
    unknown = CliRunner().invoke(app, [*files, "--sort", "beauty"])
    assert "--sort takes one of seconds, ACC, NMI, ARI, agreement. Got 'beauty'" in unknown.stderr
    without = CliRunner().invoke(app, [*files, "--sort", "NMI"])
    assert "needs known labels. Pass --target" in without.stderr


def test_every_class_can_be_named_and_all_are_those_that_bear_the_rows():
    for name in peers.__all__:
        (method,) = choose_methods(VIEWS, 100, [name])
        assert method.estimator == name
    every = choose_methods(VIEWS, 100, ["all"])
    assert {method.estimator for method in every} == {*peers.__all__, "GuidedCoTraining", "as_published"}
    assert {method.cost for method in choose_methods(VIEWS, 50_000, ["all"])} == {"linear"}
    names = [method.name for method in all_methods(VIEWS)]
    assert len(set(names)) == len(names)


def test_one_sentence_is_shown():
    assert first_sentence("It needs 9.6 GB.") == "It needs 9.6 GB"

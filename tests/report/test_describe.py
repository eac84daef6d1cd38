"""The report's plain data, against answers worked out otherwise."""

import json

import numpy as np
import pytest
from browsing import well_formed
from scipy import sparse

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.metrics import ari, clustering_accuracy, nmi, purity
from coterie.report import VERSION, describe, html_summary, write_json
from coterie.report._page import render


def test_json_has_a_version_and_comes_back_the_same(model, digits, found, tmp_path):
    path = write_json(model, tmp_path / "out.json", digits.views, target=digits.target, images={"pixels": (8, 8)})
    again = json.loads(path.read_text(encoding="utf-8"))
    assert again == found
    assert (again["schema"], again["version"]) == ("coterie-report", VERSION)


def test_numbers_are_those_of_the_fit(model, digits, found):
    sizes = np.bincount(model.labels_, minlength=10)
    for c, cluster in enumerate(found["clusters"]):
        members = np.flatnonzero(model.labels_ == c)
        assert cluster["size"] == sizes[c] == sum(cluster["histogram"])
        assert cluster["confidence"] == pytest.approx(model.confidence_[members].mean(), rel=1e-3)
        assert cluster["medoid"]["row"] == cluster["central"][0]["row"] == model.medoid_indices_[c]
        assert {line["row"] for line in cluster["central"] + cluster["border"]} <= set(members)
        rest = np.setdiff1d(members, model.medoid_indices_)
        assert cluster["border"][0]["row"] == rest[model.confidence_[rest].argmin()]
        assert cluster["central"][1]["confidence"] == pytest.approx(model.confidence_[rest].max(), abs=1e-3)
        majority = np.bincount(digits.target[members]).argmax()
        assert cluster["majority"]["class"] == str(majority)
    assert {view["name"]: view["weight"] for view in found["views"]} == {
        name.replace("(concatenation)", "all views"): pytest.approx(weight, rel=1e-3)
        for name, weight in model.view_weights_.items()
    }
    np.testing.assert_allclose(found["agreement"]["graphs"]["values"], model.graph_agreement_, atol=1e-3)
    np.testing.assert_allclose(found["agreement"]["clusters"]["values"], model.cluster_agreement_, atol=1e-3)
    between = np.array(found["agreement"]["views"]["values"])
    np.testing.assert_allclose(between[0, 1], model.graph_agreement_[:3, 3:6].mean(), atol=1e-3)
    assert found["history"][0]["change"] is None
    assert found["history"][1]["change"] == pytest.approx(model.history_[1]["change"], rel=1e-3)
    stages = {line["stage"]: line["seconds"] for line in found["timings"] if line["part_of"] is None}
    assert stages["rounds"] == pytest.approx(model.timings_["rounds"], rel=1e-3)
    assert "total" not in stages
    assert sum(stages.values()) < 1.01 * model.timings_["total"]


def test_settings_that_were_changed_come_first(found):
    changed = [line for line in found["settings"] if line["changed"]]
    assert found["settings"][: len(changed)] == changed
    assert {line["name"]: (line["value"], line["default"]) for line in changed} == {
        "n_clusters": ("10", "8"),
        "random_state": ("0", "None"),
    }


def test_known_labels(model, digits, found):
    truth = found["truth"]
    for name, metric in {"accuracy": clustering_accuracy, "nmi": nmi, "ari": ari, "purity": purity}.items():
        assert truth[name] == pytest.approx(metric(digits.target, model.labels_), rel=1e-3)
    assert truth["classes"] == [str(c) for c in range(10)]
    for cluster, line in zip(truth["clusters"], truth["counts"], strict=True):
        assert line == np.bincount(digits.target[model.labels_ == cluster], minlength=10).tolist()
    some = np.where(np.arange(len(digits.target)) % 2, digits.target.astype(object), None)
    half = describe(model, target=some)["truth"]
    odd = np.arange(len(some)) % 2 == 1
    assert half["rows"] == odd.sum()
    assert half["nmi"] == pytest.approx(nmi(digits.target[odd], model.labels_[odd]), rel=1e-3)


def test_disputed_rows_are_those_that_views_disagree_on(model, digits, found):
    opinions = model.view_labels(digits.views)
    agree = (opinions == model.labels_[:, None]).mean(axis=1)
    said = found["disagreement"]
    assert said["unanimous"] == pytest.approx(np.mean(agree == 1), rel=1e-3)
    np.testing.assert_allclose(said["by_view"], (opinions == model.labels_[:, None]).mean(axis=0), rtol=1e-3)
    for line in said["rows"]:
        assert line["opinions"] == opinions[line["row"]].tolist()
    assert agree[said["rows"][0]["row"]] == agree.min()


def test_rows_added_for_small_clusters_are_not_in_shares_of_all_rows(model, digits):
    """A sample of 60 rows has about six of every cluster, and about six are added."""
    found = describe(model, digits.views, sample=60)
    assert len(found["embedding"]["rows"]) > 100
    assert found["disagreement"]["rows_looked_at"] == 60


def test_columns_that_set_a_cluster_apart(rng):
    target = np.repeat([0, 1, 2], 100)
    table = rng.standard_normal((300, 6))
    table[target == 1, 4] += 9
    table[target == 2, 2] -= 9
    other = np.eye(3)[target] * 9 + rng.standard_normal((300, 3))
    views = {"table": table, "other": other}
    model = GuidedCoTraining(3, random_state=0).fit(views)
    for form in (views, {"table": sparse.csr_array(table), "other": other}):
        clusters = describe(model, form)["clusters"]
        for planted, (column, sign) in {1: ("column 4", 1), 2: ("column 2", -1)}.items():
            cluster = np.bincount(model.labels_[target == planted]).argmax()
            first = clusters[cluster]["views"][0]["columns"][0]
            assert first["column"] == column
            mine, number = model.labels_ == cluster, int(column[-1])
            inside, outside = table[mine, number].mean(), table[~mine, number].mean()
            assert first["difference"] == pytest.approx((inside - outside) / table[:, number].std(), abs=2e-3)
            assert first["inside"] == pytest.approx(inside, rel=1e-3)
            assert np.sign(first["difference"]) == sign


def test_words_that_set_a_cluster_apart(rng):
    target = np.repeat(np.arange(4), 80)
    counts = rng.poisson(0.02, (320, 400))
    counts[:, 399] = 5  # a word that all rows have tells nothing
    for topic in range(4):
        counts[np.ix_(target == topic, np.arange(40 * topic, 40 * topic + 40))] += rng.poisson(1, (80, 40))
    vocabulary = [f"topic{c // 40}" if c < 160 else f"word{c}" for c in range(400)]
    views = {"text": sparse.csr_array(counts), "other": np.eye(4)[target] + 0.1 * rng.standard_normal((320, 4))}
    model = GuidedCoTraining(4, random_state=0).fit(views)
    by_number = {f"w{c}": c for c in range(400)}
    for words in (vocabulary, by_number):
        clusters = describe(model, views, words={"text": words})["clusters"]
        for topic in range(4):
            cluster = np.bincount(model.labels_[target == topic]).argmax()
            found = [line["word"] for line in clusters[cluster]["views"][0]["words"]]
            topics = {word if words is vocabulary else vocabulary[by_number[word]] for word in found}
            assert topics == {f"topic{topic}"}


def test_without_rows(model):
    found = describe(model)
    assert found["embedding"] is None
    assert found["disagreement"] is None
    assert found["clusters"][0]["views"] == []
    page = render(found)
    assert page.count("Pass X, the rows of the fit") == 3
    assert len(page) < 200_000


def test_a_stored_embedding_makes_a_map():
    data = make_views(200, 3, separation=6)
    model = GuidedCoTraining(3, store_embedding=True, random_state=0).fit(data.views)
    assert len(describe(model)["embedding"]["x"]) == 200


def test_evidence_for_k():
    data = make_views(400, 4, separation=7)
    model = GuidedCoTraining("auto", random_state=0).fit(data.views)
    found = describe(model, data.views)["suggestion"]
    assert (found["best"], found["is_clear"], found["k"][0]) == (4, True, 2)
    assert "The graphs support 4 clusters" in render(describe(model))


def test_one_cluster_one_view_few_rows():
    rows = np.array([[0.0, 1.0], [0.1, 1.0], [5.0, 5.0], [5.1, 5.0], [5.0, 5.2]])
    for k in (1, 2):
        model = GuidedCoTraining(k, random_state=0).fit(rows)
        found = describe(model, rows, target=[0, 0, 1, 1, 1])
        assert found["data"]["clusters"] == k
        well_formed(render(found))


def test_an_empty_cluster_is_shown_as_empty():
    rows = np.repeat(np.eye(3), 20, axis=0)
    with pytest.warns(UserWarning, match="clusters hold rows"):
        model = GuidedCoTraining(3, random_state=0, n_components=1).fit(rows)
    found = describe(model, rows)
    assert min(cluster["size"] for cluster in found["clusters"]) == 0
    assert "No row is in this cluster" in render(found)


def test_frames_and_their_ids():
    import pandas as pd
    import polars as pl

    data = make_views(120, 3, separation=6)
    ids = [f"id{i}" for i in range(120)]
    frames = {name: pd.DataFrame(view, index=ids).add_prefix("col ") for name, view in data.views.items()}
    model = GuidedCoTraining(3, random_state=0).fit(frames)
    columns = pl.DataFrame({"number": np.arange(120.0), "few": np.arange(120) % 3, "name": ["u", None, "w"] * 40})
    lists = describe(model, frames, columns={"a": [None, *range(119)], "b": [None] * 120, "c": [(1, 2)] * 120})
    numbers, nothing, pairs = lists["embedding"]["columns"]
    assert numbers["values"] == [None, *range(119)]
    assert (nothing["levels"], set(nothing["values"])) == ([], {-1})
    assert (pairs["levels"], set(pairs["values"])) == (["(1, 2)"], {0})
    found = describe(model, frames, columns=columns, target=pd.Series(data.target, index=ids))
    assert found["embedding"]["ids"] == ids
    assert found["clusters"][0]["views"][0]["columns"][0]["column"].startswith("col ")
    known, number, few, name = found["embedding"]["columns"]
    assert [column["kind"] for column in (known, number, few, name)] == ["name", "number", "name", "name"]
    assert number["values"] == np.arange(120.0).tolist()
    assert [None if v < 0 else name["levels"][v] for v in name["values"]] == ["u", None, "w"] * 40


def test_a_model_from_a_file(digits, model, found, tmp_path):
    from coterie.saving import load, save

    with_rows = load(save(model, tmp_path / "rows.coterie", rows=True))
    settings = {"target": digits.target, "images": {"pixels": (8, 8)}}
    assert describe(with_rows, digits.views, **settings) == found
    bare = load(save(model, tmp_path / "bare.coterie"))
    assert describe(bare, digits.views, **settings) == found
    assert "1,797 rows in 10 clusters" in html_summary(bare)
    with pytest.raises(ValueError, match=r"no labels_. Pass X"):
        describe(bare)


def test_tensors():
    torch = pytest.importorskip("torch")
    data = make_views(200, 3, n_columns=(9, 4), separation=6)
    plain = describe(GuidedCoTraining(3, random_state=0).fit(data.views), data.views, target=data.target)
    views = {name: torch.as_tensor(view) for name, view in data.views.items()}
    fitted = GuidedCoTraining(3, random_state=0).fit(views)
    assert torch.is_tensor(fitted.labels_)
    again = describe(fitted, views, target=torch.as_tensor(data.target), images={"view0": (3, 3)})
    assert again["truth"] == plain["truth"]
    assert [cluster["central"] for cluster in again["clusters"]] == [c["central"] for c in plain["clusters"]]
    assert "200 rows in 3 clusters" in html_summary(fitted)


def test_refusals(model, digits):
    views, n = digits.views, 1797
    refused = {
        "X has 10 rows": {"X": {name: view[:10] for name, view in views.items()}},
        "does not hold the rows of the fit": {"X": {name: view[::-1] for name, view in views.items()}},
        r"images\['pixels'\] is \(8, 9\)": {"images": {"pixels": (8, 9)}},
        "1, 3 or 4 channels": {"images": {"pixels": (8, 4, 2)}},
        "no view 'nothing'": {"words": {"nothing": []}},
        r"words\['pixels'\] has 2 words": {"words": {"pixels": ["a", "b"]}},
        "'target' parameter must have one value per row": {"target": [1, 2]},
        "holds no label": {"target": [None] * n},
        r"Got an array of shape \(1797, 1\)": {"target": digits.target[:, None]},
        "'ids' parameter": {"ids": ["a"]},
        "at most 12 columns": {"columns": {str(c): range(n) for c in range(13)}},
        "'sample' parameter of describe must be an int": {"sample": 0},
        "at most 10000": {"sample": 10**6},
    }
    for message, settings in refused.items():
        with pytest.raises(ValueError, match=message):
            describe(model, **{"X": views, **settings})

"""What is passed beside the rows: texts, pictures, names, another run, levels; and what models say of themselves."""

import json

import numpy as np
import pandas as pd
import pytest
from browsing import HOSTILE, well_formed
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.progress import listening
from coterie.report import describe, write_report
from coterie.report._page import render
from coterie.report._portraits import has_meaning, words_of_texts
from coterie.report._sankey import sankey
from coterie.saving import load, save


@pytest.fixture(scope="module")
def toy():
    data = make_views(400, 4, n_columns=(6, 5), separation=7, random_state=0)
    return GuidedCoTraining(4, random_state=0).fit(data.views), data


# -- texts, pictures and names --------------------------------------------------------------------------------------


def test_texts_give_words_and_rows(toy):
    model, data = toy
    topics = ("apple pie", "river bank", "steel bridge", "violin concerto")
    texts = [f"{topics[label]} the number {i} \n" for i, label in enumerate(data.target)]
    texts[7] = None
    found = describe(model, data.views, texts=texts)
    for cluster in found["clusters"]:
        topic = topics[data.target[cluster["medoid"]["row"]]]
        words = next(view for view in cluster["views"] if view["view"] == "texts")["words"]
        assert {words[0]["word"], words[1]["word"]} == set(topic.split())
        assert "the" not in {line["word"] for line in words}
        for line in cluster["central"]:
            assert line["text"] == f"{topic} the number {line['row']}"
    assert found["embedding"]["texts"][7] is None
    page = render(found)
    assert "column 0" not in page  # columns without names say less than the rows' own texts
    assert "apple pie the number" in page
    assert "column 0" in render(describe(model, data.views))


def test_columns_with_names_stay_beside_texts(toy):
    model, data = toy
    frames = {name: pd.DataFrame(view, columns=list("abcdef")[: view.shape[1]]) for name, view in data.views.items()}
    named = GuidedCoTraining(4, random_state=0).fit(frames)
    assert ">What sets cluster 0 apart<" in render(describe(named, frames, texts=["x"] * 400))
    assert ">What sets cluster 0 apart<" not in render(describe(model, data.views, texts=["x"] * 400))


def test_values_with_an_index_are_those_of_the_rows_it_names(toy):
    _, data = toy
    ids = [f"row{i}" for i in range(400)]
    frames = {name: pd.DataFrame(view, index=ids) for name, view in data.views.items()}
    model = GuidedCoTraining(4, random_state=0).fit(frames)
    given = pd.DataFrame({"group": data.target, "text": ids}, index=ids)[::-1]
    found = describe(model, frames, target=given["group"], columns=given[["group"]], texts=given["text"])
    assert found["truth"]["accuracy"] == 1
    assert all(line["text"] == line["id"] for cluster in found["clusters"] for line in cluster["central"])
    assert describe(model, frames, target=given["group"].to_numpy())["truth"]["accuracy"] < 1
    assert describe(model, frames, target=given["group"][::-1].set_axis(range(7, 407)))["truth"]["accuracy"] == 1
    with pytest.raises(ValueError, match=r"'target' parameter of describe has an index, with 399 of the 400 rows' ids"):
        describe(model, frames, target=given["group"].rename({"row3": "row 3"}))


def test_rows_are_matched_without_those_of_the_fit_too(tmp_path):
    """A model without its rows predicts them again, and their ids are those of X."""
    data = make_views(400, n_clusters=4, separation=6, random_state=0)
    ids = [f"row{i}" for i in range(400)]
    frames = {name: pd.DataFrame(view, index=ids) for name, view in data.views.items()}
    save(GuidedCoTraining(4, random_state=0).fit(frames), tmp_path / "m.coterie")
    model = load(tmp_path / "m.coterie")
    target = pd.Series(data.target, index=ids)
    assert describe(model, frames, target=target[::-1])["truth"]["accuracy"] == 1
    assert describe(model, frames, target=data.target[::-1])["truth"]["accuracy"] < 1


def test_rows_in_another_order_are_refused_though_their_labels_are_the_same():
    data = make_views(400, n_clusters=4, separation=6, random_state=0)
    frames = {name: pd.DataFrame(view, index=range(1000, 1400)) for name, view in data.views.items()}
    model = GuidedCoTraining(4, random_state=0).fit(frames)
    order = np.arange(400)
    for cluster in range(4):
        order[model.labels_ == cluster] = order[model.labels_ == cluster][::-1]
    moved = {name: frame.iloc[order] for name, frame in frames.items()}
    told = rf"in another order: its row 0 is '{1000 + order[0]}', which is row {order[0]} of the fit"
    with pytest.raises(ValueError, match=told):
        describe(model, moved)
    others = {name: frame.set_axis(range(5000, 5400)) for name, frame in frames.items()}
    assert describe(model, others)["clusters"]  # ids that the fit did not have say nothing of the order


def test_another_fit_of_the_same_rows_may_have_them_in_another_order(tmp_path):
    data = make_views(400, n_clusters=4, separation=6, random_state=0)
    ids = [f"row{i}" for i in range(400)]
    frames = {name: pd.DataFrame(view, index=ids) for name, view in data.views.items()}
    model = GuidedCoTraining(4, random_state=0).fit(frames)
    turned = {name: frame[::-1] for name, frame in reversed(frames.items())}
    other = GuidedCoTraining(4, random_state=0).fit(turned)
    save(other, tmp_path / "other.coterie")
    for against in (other, load(tmp_path / "other.coterie")):
        assert describe(model, frames, against=against)["against"]["ari"] == 1
    mixed = {"view0": frames["view0"][::-1], **{name: frames[name] for name in ("view1", "view2")}}
    again = GuidedCoTraining(4, random_state=0).fit(mixed)
    assert describe(again, mixed, against=load(tmp_path / "other.coterie"))["against"]["ari"] == 1
    part = GuidedCoTraining(4, random_state=0).fit(
        {name: frame.rename({"row3": "x"}) for name, frame in frames.items()}
    )
    with pytest.raises(ValueError, match="labels of the 'against' model are of rows with other ids: 399 of the 400"):
        describe(model, frames, against=part)


def test_dates_are_dates_and_missing_ones_are_missing():
    data = make_views(60, n_clusters=2, separation=6, random_state=0)
    model = GuidedCoTraining(2, random_state=0).fit(data.views)
    days = np.where(np.arange(60) < 20, np.datetime64("NaT"), np.datetime64("2026-01-02")).astype("datetime64[ns]")
    for given in (days, pd.Series(days), days.astype("datetime64[D]")):
        found = describe(model, data.views, target=given, columns={"day": given})
        (column,) = (own for own in found["embedding"]["columns"] if own["name"] == "day")
        assert column["levels"] == ["2026-01-02"]
        assert column["values"].count(-1) == 20
        assert found["truth"]["classes"] == ["2026-01-02"]
    spans = pd.Series(pd.to_timedelta([1, None] * 30, unit="D"))
    (column,) = (
        own for own in describe(model, data.views, columns={"x": spans})["embedding"]["columns"] if own["name"] == "x"
    )
    assert len(column["levels"]) == 1


def test_values_that_are_lists_are_refused(toy):
    model, data = toy
    lists = [[row % 3] for row in range(len(model.labels_))]
    for given, name in (({"target": lists}, "target"), ({"columns": {"tags": lists}}, r"columns\[tags\]")):
        with pytest.raises(ValueError, match=rf"The '{name}' parameter must have one number or name per row"):
            describe(model, data.views, **given)


def test_names_of_columns_that_say_nothing():
    assert not has_meaning([f"t{i}" for i in range(300)])
    assert not has_meaning([str(i) for i in range(300)])
    assert not has_meaning(["dim_1", "dim_2"])
    assert not has_meaning(
        [f"image_embedding[{i}]" for i in range(300)]
    )  # a column of lists, as parquet files have them
    assert has_meaning(["CD3E", "MS4A", "GAPDH"])
    assert has_meaning(["age", "income", "q1"])


def test_words_are_counted_by_texts():
    vocabulary, held = words_of_texts(["Red red Ärger 12", "red ärger", "", "lonely"])
    assert vocabulary == ["red", "ärger"]
    assert held.toarray().tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]


def test_pictures_of_rows(toy, tmp_path):
    from PIL import Image

    model, data = toy
    colours = [(250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 0)]
    for i, label in enumerate(data.target):
        if i % 40:
            Image.new("RGB", (30, 20), colours[label]).save(tmp_path / f"{i}.png")
    (tmp_path / "40.png").write_bytes(b"no picture")
    (tmp_path / "80.txt").write_text("no picture either")
    by_id = describe(model, data.views, pictures=tmp_path)
    assert by_id["data"]["unread_pictures"] == 10
    by_path = describe(model, data.views, pictures=[str(tmp_path / f"{i}.png") for i in range(400)])
    assert by_path["embedding"]["pictures"] == by_id["embedding"]["pictures"]
    central = by_id["clusters"][0]["views"][0]
    assert (central["view"], central["kind"], central["mean"]) == ("pictures", "images", None)
    assert len(set(central["central"])) <= 2  # all of one colour, but for one that may be missing
    assert "10 of the rows" in render(by_id)
    with pytest.raises(ValueError, match="a folder or one path per row"):
        describe(model, data.views, pictures=tmp_path / "nothing")


def test_names_of_clusters(toy, tmp_path):
    model, data = toy
    file = tmp_path / "names.json"
    file.write_text(json.dumps({"0": HOSTILE[0], "3": " blue "}), encoding="utf-8")
    for names in ({0: HOSTILE[0], 3: "blue"}, file, str(file)):
        found = describe(model, data.views, names=names)
        assert [line["name"] for line in found["clusters"]] == [HOSTILE[0], None, None, "blue"]
    well_formed(render(found))
    refused = {"clusters 0 to 3": {"4": "x"}, "names that are text": {"1": 7}, "must be a dict": [1, 2]}
    for message, names in refused.items():
        with pytest.raises(ValueError, match=message):
            describe(model, data.views, names=names)
    file.write_text("{")
    with pytest.raises(ValueError, match="is not a JSON file of names"):
        describe(model, names=file)


# -- two runs -------------------------------------------------------------------------------------------------------


def test_two_runs_side_by_side(toy, tmp_path):
    model, data = toy
    other = GuidedCoTraining(5, random_state=1).fit(data.views)
    found = describe(model, data.views, against=other, against_title="five")
    said = found["against"]
    assert (said["title"], said["clusters"]) == ("five", 5)
    assert said["ari"] == pytest.approx(adjusted_rand_score(model.labels_, other.labels_), rel=1e-3)
    for line in said["matches"]:
        mine = model.labels_ == line["cluster"]
        theirs = other.labels_ == line["other"]
        assert line["shared"] == np.sum(mine & theirs)
        assert line["jaccard"] == pytest.approx(np.sum(mine & theirs) / np.sum(mine | theirs), rel=1e-3)
        assert line["left"] == np.sum(mine & ~theirs)
        for part in line["elsewhere"]:
            assert part["rows"] == np.sum(mine & (other.labels_ == part["other"]))
    assert said["stayed"] == pytest.approx(sum(line["shared"] for line in said["matches"]) / 400, rel=1e-3)
    assert len(said["unmatched"]) == 1
    column = found["embedding"]["derived"][-1]
    assert column["name"] == "cluster in five"
    rows = found["embedding"]["rows"]
    assert [int(column["levels"][v]) for v in column["values"]] == other.labels_[rows].tolist()
    checker = well_formed(render(found))
    assert "against" in checker.ids
    bare = load(save(other, tmp_path / "bare.coterie"))  # without labels: it is asked
    assert describe(model, data.views, against=bare, against_title="five") == found
    same = describe(model, data.views, against=model)["against"]
    assert (same["stayed"], same["ari"], same["unmatched"]) == (1.0, 1.0, [])


def test_runs_of_other_rows_are_refused(toy):
    model, data = toy
    few = {name: view[:300] for name, view in data.views.items()}
    with pytest.raises(ValueError, match="fitted on 300 rows, this one on 400"):
        describe(model, data.views, against=GuidedCoTraining(4, random_state=0).fit(few))


def test_flows_fill_their_nodes(toy):
    model, data = toy
    drawn = sankey(describe(model, data.views, against=GuidedCoTraining(7, random_state=1).fit(data.views))["against"])
    for node in drawn["nodes"]:
        assert 0 <= node["y"] <= node["y"] + node["height"] <= drawn["height"] + 0.2
    assert sum(flow["rows"] for flow in drawn["flows"]) == 400


# -- what models say of themselves ----------------------------------------------------------------------------------


def test_clusters_that_do_not_replicate_are_marked(toy):
    model, data = toy
    found = describe(model, data.views)
    assert found["data"]["stability"] == pytest.approx(model.stability_, rel=1e-3)
    page = render(found)
    assert "does not replicate" not in page
    assert page.index("<dt>stability</dt>") < page.index("<dt>mean confidence</dt>")
    shaky = load_like(model, cluster_stability_=np.array([0.9, 0.2, 0.8, 0.49]), stability_=0.3)
    found = describe(shaky, data.views)
    assert [line["replicates"] for line in found["clusters"]] == [True, False, True, False]
    page = render(found)
    assert "2 of 4 clusters do not replicate" in page
    assert page.count("Does not replicate (stability") == 2
    values = {line["name"]: line["values"] for line in found["embedding"]["derived"]}["cluster stability"]
    assert values == [[0.9, 0.2, 0.8, 0.49][label] for label in model.labels_[found["embedding"]["rows"]]]
    unmeasured = GuidedCoTraining(4, measure_stability=False, random_state=0).fit(data.views)
    found = describe(unmeasured, data.views)
    assert (found["data"]["stability"], found["clusters"][0]["replicates"]) == (None, None)
    well_formed(render(found))


def load_like(model, **attributes):
    """Return a copy of a model that says something else of itself."""
    import copy

    changed = copy.copy(model)
    for name, value in attributes.items():
        setattr(changed, name, value)
    return changed


def test_novelty_colours_the_map():
    data = make_views(300, 3, missing=0.2, separation=6, random_state=0)
    model = GuidedCoTraining(3, random_state=0).fit(data.views)
    found = describe(model, data.views)["embedding"]
    derived = {line["name"]: line for line in found["derived"]}
    np.testing.assert_allclose(derived["novelty"]["values"], model.novelty(data.views), rtol=1e-3)
    lacks = np.isnan(data.views["view0"]).all(axis=1)
    said = [derived["views present"]["levels"][v] for v in derived["views present"]["values"]]
    np.testing.assert_array_equal(["lacks view0" in line for line in said], lacks)
    assert "all views" in said


def test_a_table_that_views_splits_has_a_report():
    table = np.hstack(list(make_views(200, 3, n_columns=(5, 4), separation=6, random_state=0).views.values()))
    split = {"left": slice(0, 5), "right": slice(5, 9)}
    model = GuidedCoTraining(3, views=split, random_state=0).fit(table)
    found = describe(model, table)
    assert [view["name"] for view in found["views"] if not view["is_concatenation"]] == ["left", "right"]
    derived = {line["name"]: line for line in found["embedding"]["derived"]}
    np.testing.assert_allclose(derived["novelty"]["values"], model.novelty(table), rtol=1e-3)


def test_fits_that_were_compared_are_listed(toy):
    model, _ = toy
    found = describe(model)
    chosen = [line for line in found["candidates"] if line["chosen"]]
    assert [(line["name"], line["preparation"]) for line in chosen] == [("commute", "own")]
    assert chosen[0]["stability"] == pytest.approx(model.stability_, rel=1e-3)
    for line, record in zip(found["candidates"], model.candidates_, strict=True):
        assert line["agreement"] == pytest.approx(record["agreement"], rel=1e-3)
        names = ("name", "chosen", "rounds")
        assert [line[name] for name in names] == [record[name] for name in names]
    assert {line["rounds"] for line in found["candidates"]} <= {1, 2, 5, 10}
    page = render(found)
    well_formed(page)
    assert page.count("Ways to merge the graphs") == 2
    assert page.count('<tr class="chosen"><th scope="row"><bdi>commute</bdi>') == 1


def test_a_fit_without_a_choice_lists_none(toy):
    _, data = toy
    found = describe(GuidedCoTraining(4, basis="commute", random_state=0).fit(data.views))
    assert found["candidates"] is None
    assert "Ways to merge the graphs" not in render(found)


def test_clusters_that_do_not_replicate_are_warned_of(toy):
    noise = [np.random.default_rng(v).standard_normal((600, 10)) for v in range(2)]
    with pytest.warns(UserWarning, match="do not replicate"):
        model = GuidedCoTraining(5, random_state=0).fit(noise)
    found = describe(model)
    assert found["data"]["stability"] == pytest.approx(model.stability_, rel=1e-3)
    assert found["data"]["replicates"] is False
    assert 'id="chance"' in render(found)
    steady = describe(toy[0])
    assert steady["data"]["replicates"] is True
    assert 'id="chance"' not in render(steady)


def test_rows_that_lie_apart_for_lack_of_a_view_are_named():
    """Rows that lack the view which alone tells two halves apart end up beside each other."""
    rng = np.random.default_rng(0)
    half = np.repeat([0, 1], 300)
    left = np.column_stack([20.0 * half, np.zeros(600)]) + rng.standard_normal((600, 2))
    right = rng.standard_normal((600, 3)) + 4
    lacks = half == 1  # whoever is in the second half lacks the second view
    right[lacks] = np.nan
    views = {"left": left, "right": right}
    model = GuidedCoTraining(2, random_state=0).fit(views)
    found = describe(model, views)
    (part,) = found["embedding"]["apart"]
    assert (part["view"], part["lacking"]) == ("right", 0.5)
    assert part["together"] > 0.95
    assert "lie apart from the others" in render(found)
    second = model.labels_[-1]
    assert found["clusters"][second]["lacking"] == [{"view": "right", "inside": 1.0, "outside": 0.0}]
    assert found["clusters"][1 - second]["lacking"] == []
    evenly = make_views(600, 3, missing=0.2, separation=7, random_state=0)
    found = describe(GuidedCoTraining(3, basis="diffusion", random_state=0).fit(evenly.views), evenly.views)
    assert found["embedding"]["apart"] == []


def test_levels_of_the_tree(toy):
    model, data = toy
    tree = describe(model, data.views, levels=[2, 4])["tree"]
    assert [line["groups"] for line in tree["levels"]] == [2, 4]
    assert len(set(tree["levels"][0]["group"])) == 2
    for level in (0, 5, "2"):
        with pytest.raises(ValueError, match="numbers of groups, 1 to 4"):
            describe(model, levels=[level])
    assert 'max="4" value="2"' in render(describe(model, data.views, levels=[2, 4]))


def test_near_clusters_and_who_sees_them(toy):
    model, data = toy
    for c, line in enumerate(describe(model, data.views)["clusters"]):
        units = model.cluster_centers_ / np.linalg.norm(model.cluster_centers_, axis=1, keepdims=True)
        alike = np.delete(units @ units[c], c)
        assert line["near"][0]["similarity"] == pytest.approx(alike.max(), abs=1e-3)
        assert len(line["near"]) == 3
        seen = {view["view"]: view["agreement"] for view in line["seen_by"]}
        assert list(seen.values()) == sorted(seen.values(), reverse=True)
        assert seen["view0"] == pytest.approx(model.cluster_agreement_[c][0], rel=1e-3)


def test_a_view_may_be_left_out(toy, tmp_path):
    """A model that was saved without labels gives them again from the views that are there."""
    model, data = toy
    bare = load(save(model, tmp_path / "toy.coterie"))
    assert not hasattr(bare, "labels_")
    found = describe(bare, {"view0": data.views["view0"]})
    assert [view["present"] for view in found["views"][:2]] == [1.0, 0.0]
    assert {part["view"] for part in found["clusters"][0]["views"]} == {"view0"}
    well_formed(render(found))


# -- files ----------------------------------------------------------------------------------------------------------


def test_files_are_read_once_and_say_the_same(tmp_path):
    """A shuffled second file in small row groups: what is read is what is needed, once."""
    from coterie.formats.segments import Cursor

    data = make_views(3000, 4, n_columns=(6, 5), separation=7, random_state=0)
    ids = np.array([f"r{i:05d}" for i in range(3000)])
    order = np.random.default_rng(0).permutation(3000)
    frames = {name: pd.DataFrame(view, index=ids).add_prefix("c") for name, view in data.views.items()}
    frames["view1"] = frames["view1"].iloc[order]
    paths = {name: tmp_path / f"{name}.parquet" for name in frames}
    for name, frame in frames.items():
        frame.to_parquet(paths[name], row_group_size=250)
    model = GuidedCoTraining(4, random_state=0).fit(frames)
    from_frames = describe(model, frames, sample=800)
    opened = []
    start = Cursor.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cursor, "__init__", lambda self, *rest: (opened.append(rest[1]), start(self, *rest))[1])
        from_files = describe(model, {name: str(path) for name, path in paths.items()}, sample=800)
    assert from_files == from_frames
    assert len(opened) <= 2 * 12  # every row group of both files, once


def test_every_stage_is_told(toy, tmp_path):
    model, data = toy
    heard = []
    with listening(heard.append):
        write_report(model, tmp_path / "r.html", data.views)
    assert heard == ["labels", "sample", "pictures", "clusters", "map", "page"]

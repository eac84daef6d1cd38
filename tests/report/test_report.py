"""The report: its plain data against answers worked out otherwise, and its page in a real browser."""

import cProfile
import io
import json
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import sparse

from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views, make_views
from coterie.metrics import ari, clustering_accuracy, nmi, purity
from coterie.report import VERSION, describe, html_summary, write_json, write_report
from coterie.report._colours import PALETTE, colour_of, shape_of
from coterie.report._layout import flat_map
from coterie.report._page import render
from coterie.report._pictures import encode_png, sheet, shrink
from coterie.report._sample import draw_rows
from coterie.report._text import DECEPTIVE, shown

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "n" * 10_000,
    "two\nlines",
    "turned \u202e round",
    "",
    "{{ 7 * 7 }} ${alert(4)} \" ' & \\u003c",
)
SECTIONS = ("map", "clusters", "truth", "views", "disagreement", "number", "run", "settings")


@pytest.fixture(scope="module")
def digits():
    return load_digit_views()


@pytest.fixture(scope="module")
def model(digits):
    return GuidedCoTraining(10, random_state=0).fit(digits.views)


@pytest.fixture(scope="module")
def found(model, digits):
    return describe(model, digits.views, target=digits.target, images={"pixels": (8, 8)})


@pytest.fixture(scope="module")
def crowd():
    """Many clusters and views, rows that lack views, and names that would do harm."""
    import pandas as pd

    data = make_views(900, 105, n_columns=(4,) * 9, separation=8, missing=0.1)
    names = [*HOSTILE, "plain"]
    views = {
        name: pd.DataFrame(view, columns=[f"{HOSTILE[c]}{v}" for c in range(4)])
        for v, (name, view) in enumerate(zip(names, data.views.values(), strict=True))
    }
    model = GuidedCoTraining(105, n_neighbors=5, n_landmarks=220, n_init=1, random_state=0).fit(views)
    return model, views, data.target


def hostile_settings(target):
    n = len(target)
    return {
        "ids": [f"{HOSTILE[i % 8]}{i}" for i in range(n)],
        "target": [HOSTILE[t % 8] + str(t) for t in target],
        "columns": {HOSTILE[0]: [HOSTILE[i % 8] for i in range(n)], HOSTILE[3]: np.linspace(0, 1, n)},
        "title": HOSTILE[0] + HOSTILE[3],
    }


# -- plain data -----------------------------------------------------------------------------------------------------


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
    assert "The graphs speak for 4 clusters" in render(describe(model))


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
        "'target' parameter of describe must have one value per row": {"target": [1, 2]},
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


# -- its parts ------------------------------------------------------------------------------------------------------


def test_names_are_shown_as_one_short_line():
    for name in HOSTILE:
        text = shown(name)
        assert 0 < len(text) <= 48 + 12
        assert not set(text) & (DECEPTIVE | set("\n\r\t"))
    assert shown("a" * 50 + "END").endswith("END")
    assert shown("\ud800").encode("utf-8") == b"\\ud800"
    assert shown(" \u00a0") == "(blank)"
    assert shown("Straße 東京 👩‍🔬") == "Straße 東京 👩‍🔬"


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (4, 3, 3), (3, 4, 4)])
def test_pictures_are_read_by_others(rng, shape):
    from matplotlib.image import imread

    pixels = rng.integers(0, 256, shape).astype(np.uint8)
    again = imread(io.BytesIO(encode_png(pixels)), format="png")
    np.testing.assert_array_equal(np.rint(255 * again), pixels.reshape(again.shape))


def test_shrunk_pictures_keep_their_mean(rng):
    images = rng.random((2, 30, 20, 3))
    small = shrink(images, 10)
    assert small.shape == (2, 10, 7, 3)
    np.testing.assert_allclose(shrink(images, 15).mean(axis=(1, 2)), images.mean(axis=(1, 2)), atol=1e-12)
    np.testing.assert_array_equal(sheet(images, 4)[:, 20:40], images[1])


def test_the_map_keeps_clusters_together(model, digits, found):
    places = np.column_stack([found["embedding"]["x"], found["embedding"]["y"]])
    gaps = ((places[:, None] - places) ** 2).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    assert np.mean(model.labels_[gaps.argmin(axis=1)] == model.labels_) > 0.98
    embedding = model.transform(digits.views)
    np.testing.assert_array_equal(flat_map(embedding, 3), flat_map(embedding, 3))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 40])
def test_maps_of_few_or_equal_rows(n):
    for rows in (np.ones((n, 3)), np.zeros((n, 1)), np.eye(n)):
        places = flat_map(rows)
        assert places.shape == (n, 2)
        assert np.isfinite(places).all()


def test_small_clusters_are_looked_at(seed):
    labels = np.r_[np.zeros(50_000, int), np.ones(40, int), np.full(5, 2)]
    rows = draw_rows(labels, 3, 500, seed)
    counts = np.bincount(labels[rows])
    assert counts[1] >= 12
    assert counts[2] == 5
    assert len(rows) <= 500 + 24


def test_marks_tell_clusters_apart():
    """A hundred marks differ; ten colours differ for normal and for colour-blind eyes, on white and on black."""
    assert len({(colour_of(c), shape_of(c)) for c in range(100)}) == 100
    rgb = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in PALETTE])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)  # (10, 3)
    sights = {
        "normal": np.eye(3),
        "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    }
    to_cones = np.array([[0.412, 0.536, 0.052], [0.212, 0.681, 0.107], [0.088, 0.282, 0.630]])
    to_lab = np.array([[0.210, 0.794, -0.004], [1.978, -2.429, 0.450], [0.026, 0.783, -0.809]])
    for sight in sights.values():
        lab = np.cbrt(np.clip(linear @ np.array(sight).T, 0, 1) @ to_cones.T) @ to_lab.T
        gaps = np.linalg.norm(lab[:, None] - lab, axis=2) + np.eye(10)
        assert gaps.min() > 0.05
        assert 0.45 < lab[:, 0].min() <= lab[:, 0].max() < 0.85


def test_importing_loads_neither_jinja2_nor_matplotlib():
    heavy = "{'jinja2', 'matplotlib'}"
    script = f"import sys, coterie.report, coterie.plot; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_missing_template_engine_is_named(model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=re.escape("pip install coterie[report]")):
        write_report(model, tmp_path / "out.html")


# -- the page as text -----------------------------------------------------------------------------------------------


class Checker(HTMLParser):
    """Every element that is opened is closed, in order; ids are unique, and what is referred to is there."""

    void = frozenset(("meta", "link", "img", "br", "input"))
    drawn = frozenset(("path", "use"))

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.wanted, self.tags = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        assert len(given) == len(attributes), f"{tag} has an attribute twice"
        assert not [name for name in given if name.startswith("on")]
        if "id" in given:
            self.ids.append(given["id"])
        if given.get("href", "").startswith("#"):
            self.wanted.add(given["href"][1:])
        self.wanted.update(given.get("aria-labelledby", "").split())
        for name in ("src", "href"):
            assert given.get(name, "#").startswith(("#", "data:")), f"{tag} asks for {given[name]}"
        if tag == "img":
            assert given["alt"]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"{tag} is closed but not open"
        assert self.open.pop() == tag


def well_formed(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert checker.wanted <= set(checker.ids)
    return checker


def test_the_page_is_well_formed(found, crowd):
    page = render(found)
    checker = well_formed(page)
    assert set(SECTIONS) <= set(checker.ids)
    assert page.lstrip().startswith("<!DOCTYPE html>")
    model, views, target = crowd
    checker = well_formed(render(describe(model, views, **hostile_settings(target))))
    assert checker.tags.count("script") == 2
    assert checker.tags.count("article") == 100  # the largest


def test_neither_work_nor_size_grows_with_rows(tmp_path):
    sizes, calls = [], []
    for n in (5_000, 100_000):
        data = make_views(n, 8, n_columns=(3, 2), separation=6)
        model = GuidedCoTraining(8, n_landmarks=100, n_neighbors=6, n_init=2, random_state=0).fit(data.views)
        names = [f"class {label}" for label in data.target]
        told = {"target": names, "ids": [f"row {row}" for row in range(n)], "columns": {"name": names}}
        profile = cProfile.Profile()
        path = profile.runcall(write_report, model, tmp_path / f"{n}.html", data.views, **told)
        sizes.append(path.stat().st_size)
        calls.append(sum(line.callcount for line in profile.getstats()))
    assert max(sizes) < 1_000_000
    assert sizes[1] < 1.1 * sizes[0]
    assert calls[1] < calls[0] + 40_000  # no Python is run for every row


def test_the_short_form_escapes_names(crowd):
    model = crowd[0]
    text = html_summary(model)
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert "script" not in checker.tags
    assert "900 rows in 105 clusters" in text
    assert "and 93 more" in text


# -- the page in a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs Chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, model, digits, crowd):
    folder = tmp_path_factory.mktemp("pages")
    ink = {"ink": digits.views["pixels"].sum(axis=1)}
    crowd_model, views, target = crowd
    return {
        "digits": write_report(
            model, folder / "digits.html", digits.views, target=digits.target, images={"pixels": (8, 8)}, columns=ink
        ),
        "hostile": write_report(crowd_model, folder / "hostile.html", views, **hostile_settings(target)),
        "bare": write_report(model, folder / "bare.html"),
    }


def open_page(browser, path, width, scheme="light"):
    """Open a file as a screen of that width shows it; return the addresses that it asked for."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    wish = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},  # nothing moves away while it is clicked
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wish})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    if browser.execute_script("return !!document.getElementById('canvas')"):
        wait_for(browser, "document.getElementById('canvas').dataset.drawn")
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def complaints(browser):
    """Return what the browser says about the page, except about this file's way of reading the canvas."""
    return [line for line in browser.get_log("browser") if "readback" not in line["message"]]


def wait_for(browser, condition, seconds=60):
    end = time.monotonic() + seconds
    while not (value := browser.execute_script(f"return {condition}")):
        assert time.monotonic() < end, f"never true: {condition}"
        time.sleep(0.02)
    return value


COLOURED = """
const c = document.getElementById("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
let n = 0;
for (let i = 3; i < d.length; i += 4) n += d[i] > 60;
return n;
"""


def pixels_drawn(browser):
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return browser.execute_script(COLOURED)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["digits", "hostile", "bare"])
def test_the_page_in_a_browser(browser, pages, name, width, scheme):
    asked = open_page(browser, pages[name], width, scheme)
    assert [url for url in asked if not url.startswith("data:")] == [pages[name].as_uri()]
    assert complaints(browser) == []
    needed, there = browser.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert needed == there
    assert width - 20 <= there <= width
    for section in SECTIONS:
        if section == "truth" and name == "bare":
            continue
        high = browser.execute_script(f"return document.getElementById('{section}').getBoundingClientRect().height")
        assert high > 60
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in re.findall(r"\d+", paper)[:3]) > 380
    assert light == (scheme == "light")
    if name != "bare":
        assert pixels_drawn(browser) > 1000


def hover_a_row(browser):
    """Put the pointer on a row of the map, found by its colour."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    spot = browser.execute_script("""
        const c = document.getElementById("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        for (let y = 40; y < c.height - 40; y++) for (let x = 40; x < c.width - 80; x++)
          if (d[4 * (y * c.width + x) + 3] > 150) return [x - c.width / 2, y - c.height / 2];
    """)
    canvas = browser.find_element(By.ID, "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    ActionChains(browser, duration=0).move_to_element_with_offset(canvas, *map(int, spot)).perform()
    wait_for(browser, "!document.getElementById('tip').hidden")
    return browser.find_element(By.ID, "tip").text


@pytest.mark.parametrize("width", [1280, 390])
def test_the_map_answers_the_pointer(browser, pages, model, digits, width):
    open_page(browser, pages["digits"], width)
    text = hover_a_row(browser)
    row = int(re.search(r"row (\d+)", text)[1])
    cluster, confidence = re.search(r"cluster (\d+), confidence ([\d.]+)", text).groups()
    assert int(cluster) == model.labels_[row]
    assert float(confidence) == pytest.approx(model.confidence_[row], abs=0.006)  # it was rounded before
    assert f"known label: {digits.target[row]}" in text
    assert f"ink: {digits.views['pixels'][row].sum():.0f}" in text
    assert browser.execute_script("return !!document.querySelector('#tip .tile')")
    from selenium.webdriver.common.by import By

    browser.find_element(By.ID, "canvas").send_keys("\ue014")  # the right arrow
    wait_for(browser, f"document.getElementById('tip').textContent.includes('row {(row + 1) % 1797}')")
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_legend_switches_clusters(browser, pages, model, width):
    from selenium.webdriver.common.by import By

    open_page(browser, pages["digits"], width)
    drawn = lambda: int(browser.execute_script("return document.getElementById('canvas').dataset.drawn"))  # noqa: E731
    button = browser.find_element(By.CSS_SELECTOR, "#legend button[data-cluster='3']")
    before = pixels_drawn(browser)
    assert drawn() == 1797
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    browser.execute_script("document.activeElement.blur()")
    assert pixels_drawn(browser) < before
    assert drawn() == 1797 - np.sum(model.labels_ == 3)
    browser.find_element(By.ID, "show-none").click()
    assert pixels_drawn(browser) == drawn() == 0
    browser.find_element(By.ID, "show-all").click()
    pixels_drawn(browser)
    assert drawn() == 1797


def test_colours_follow_the_choice(browser, pages):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    open_page(browser, pages["digits"], 1280)
    pictures = set()
    choice = Select(browser.find_element(By.ID, "colour-by"))
    assert [option.text for option in choice.options] == ["cluster", "confidence", "known label", "ink"]
    for option in ("cluster", "confidence", "known label", "ink"):
        choice.select_by_visible_text(option)
        pixels_drawn(browser)
        pictures.add(browser.execute_script("return document.getElementById('canvas').toDataURL()"))
        assert browser.find_element(By.ID, "key").is_displayed() == (option != "cluster")
    assert len(pictures) == 4


def test_zoom_and_print(browser, pages):
    from selenium.webdriver.common.by import By

    open_page(browser, pages["digits"], 1280, "dark")
    before = browser.execute_script("return document.getElementById('canvas').toDataURL()")
    browser.find_element(By.ID, "zoom-in").click()
    pixels_drawn(browser)
    assert browser.execute_script("return document.getElementById('canvas').toDataURL()") != before
    browser.find_element(By.ID, "zoom-reset").click()
    pixels_drawn(browser)
    assert browser.execute_script("return document.getElementById('canvas').toDataURL()") == before
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 50_000
    assert complaints(browser) == []


def test_hostile_names_are_text(browser, pages, crowd):
    from selenium.common.exceptions import NoAlertPresentException

    open_page(browser, pages["hostile"], 1280)
    with pytest.raises(NoAlertPresentException):
        browser.switch_to.alert  # noqa: B018
    assert browser.execute_script("return [document.scripts.length, document.querySelectorAll('img').length]") == [2, 0]
    heading = browser.execute_script("return document.querySelector('h1').textContent")
    assert heading.startswith("<script>alert(1)</script>nnn")
    assert len(heading) == 120
    names = browser.execute_script(
        "return [...document.querySelectorAll('#views .list tbody th')].map(t => t.textContent)"
    )
    assert names == [*(shown(name) for name in HOSTILE), "plain", "all views"]
    text = hover_a_row(browser)
    assert re.search(r"cluster \d+, confidence", text)
    assert complaints(browser) == []

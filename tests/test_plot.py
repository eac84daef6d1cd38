"""The pictures that matplotlib draws: what is on the axes is what the fit found."""

import re
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from coterie import GuidedCoTraining, plot, suggest_k
from coterie.datasets import make_views


@pytest.fixture(scope="module")
def data():
    return make_views(400, 4, separation=7)


@pytest.fixture(scope="module")
def model(data):
    return GuidedCoTraining("auto", random_state=0).fit(data.views)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_every_picture_draws_on_the_axes_it_is_given(model, data):
    for name in set(plot.__all__) - {"html_summary"}:
        extra = {"embedding": (data.views,), "confusion": (data.target,)}.get(name, ())
        _, ax = plt.subplots()
        assert getattr(plot, name)(model, *extra, ax=ax) is ax
        new = getattr(plot, name)(model, *extra)
        assert new is not ax
        assert new.has_data()
        new.figure.canvas.draw()


def test_sizes_and_weights(model):
    heights = [bar.get_height() for bar in plot.cluster_sizes(model).patches]
    assert heights == np.bincount(model.labels_).tolist()
    widths = [bar.get_width() for bar in plot.view_weights(model).patches]
    np.testing.assert_allclose(widths, [*model.view_weights_.values(), *model.agreement_.values()], rtol=1e-3)


def test_values_with_an_index_are_matched_with_the_rows(data):
    ids = [f"row{i}" for i in range(400)]
    frames = {name: pd.DataFrame(view, index=ids) for name, view in data.views.items()}
    model = GuidedCoTraining(4, random_state=0).fit(frames)
    numbers, target = (pd.Series(own, index=ids)[::-1] for own in (np.arange(400.0), data.target))
    ax = plot.embedding(model, frames, color=numbers)
    assert ax.collections[0].get_array().tolist() == list(range(400))
    counts = [int(text.get_text().replace(",", "") or 0) for text in plot.confusion(model, target).texts]
    assert sorted(counts)[-4:] == sorted(np.bincount(data.target))


def test_maps(model, data):
    ax = plot.embedding(model, data.views)
    assert [len(dots.get_offsets()) for dots in ax.collections] == np.bincount(model.labels_).tolist()
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2", "3"]
    ax = plot.embedding(model, data.views, color="confidence")
    np.testing.assert_allclose(ax.collections[0].get_array(), model.confidence_)
    ax = plot.embedding(model, data.views, color=[f"$name{t}" for t in data.target])
    assert len(ax.collections) == 4
    ax.figure.canvas.draw()  # a dollar is a dollar
    with pytest.raises(ValueError, match="Pass X"):
        plot.embedding(model)
    with pytest.raises(ValueError, match="'color' parameter of embedding must be one of"):
        plot.embedding(model, data.views, color="size")
    for lists in ([[1, 2]] * len(data.target), [[1]] * (len(data.target) - 1) + [[1, 2]]):
        with pytest.raises(ValueError, match=r"'color' parameter must have one number or name per row .*\[1.*in row 0"):
            plot.embedding(model, data.views, color=lists)


def test_heat_maps(model, data):
    for between, expected in {"graphs": model.graph_agreement_, "clusters": model.cluster_agreement_}.items():
        image = plot.agreement(model, between=between).images[0]
        np.testing.assert_allclose(image.get_array(), expected, atol=1e-3)
    ax = plot.confusion(model, data.target)
    counts = [int(text.get_text() or 0) for text in ax.texts]
    pairs = np.zeros((4, 4), dtype=int)
    np.add.at(pairs, (model.labels_, data.target), 1)
    assert counts == pairs.ravel().tolist()


def test_evidence_from_a_fit_and_from_suggest_k(model, data):
    suggestion = suggest_k(data.views, k_max=8, random_state=0)
    heights = [bar.get_height() for bar in plot.suggestion(suggestion).patches]
    np.testing.assert_allclose(heights, suggestion.scores, rtol=1e-3)
    assert len(plot.suggestion(model).patches) == len(model.k_suggestion_.k)
    plain = GuidedCoTraining(4, random_state=0).fit(data.views)
    assert plot.suggestion(plain).get_ylabel().startswith("gap")


def test_a_hundred_clusters():
    data = make_views(600, 100, n_columns=(8, 8), separation=9)
    model = GuidedCoTraining(100, n_neighbors=4, n_landmarks=250, n_init=1, random_state=0).fit(data.views)
    for ax in (plot.embedding(model, data.views), plot.agreement(model, between="clusters"), plot.cluster_sizes(model)):
        ax.figure.canvas.draw()


def test_a_missing_matplotlib_is_named(model, monkeypatch):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=re.escape("pip install coterie[plot]")):
        plot.history(model)


def test_the_number_of_a_cluster_stands_on_one_of_its_rows():
    """The median of two islands lies between them, perhaps among the rows of another cluster."""
    islands = np.array([[0.0, 0], [0, 1], [0, 2], [10, 0], [10, 1], [10, 2], [5, 1]])
    _, ax = plt.subplots()
    plot.draw_clusters(ax, islands, np.array([0, 0, 0, 0, 0, 0, 1]), 2)
    places = {text.get_text(): text.xy for text in ax.texts}
    assert any((places["0"] == row).all() for row in islands[:6])
    assert (places["1"] == islands[6]).all()

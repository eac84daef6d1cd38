"""Parts of the report, each alone: names, pictures, the map, the sample and the colours."""

import io
import re
import subprocess
import sys

import numpy as np
import pytest
from browsing import HOSTILE

from coterie.report import write_report
from coterie.report._colours import PALETTE, colour_of, shape_of
from coterie.report._layout import flat_map
from coterie.report._page import environment
from coterie.report._pictures import encode_png, sheet, shrink
from coterie.report._sample import draw_rows
from coterie.report._text import DECEPTIVE, shown


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
    rows, uniform = draw_rows(labels, 3, 500, seed)
    counts = np.bincount(labels[rows])
    assert counts[1] >= 12
    assert counts[2] == 5
    assert len(rows) <= 500 + 24
    assert uniform.sum() == 500
    assert (labels[rows[~uniform]] > 0).all()


# sRGB without its gamma -> what eyes see that lack one kind of cones (Machado, Oliveira and Fernandes 2009).
SIGHTS = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
TO_LAB = [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]


def palette_lab(sight):
    """Return the palette in OKLab, as some eyes see it."""
    rgb = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in PALETTE])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)  # (40, 3)
    seen = np.clip(linear @ np.array(SIGHTS[sight]).T, 0, 1)
    return np.cbrt(seen @ np.array(TO_CONES).T) @ np.array(TO_LAB).T


# A just noticeable difference is about 0.02. Colour-blind eyes see a plane of colours where others see a space.
@pytest.mark.parametrize(
    ("sight", "ten", "forty"), [("normal", 0.16, 0.07), *((s, 0.08, 0.035) for s in list(SIGHTS)[1:])]
)
def test_forty_colours_are_told_apart(sight, ten, forty):
    lab = palette_lab(sight)
    gaps = np.linalg.norm(lab[:, None] - lab, axis=2) + np.eye(40)  # (40, 40)
    assert gaps.min() > forty
    assert gaps[:10, :10].min() > ten


def test_colours_are_readable_on_light_and_dark():
    lab = palette_lab("normal")
    assert 0.44 < lab[:, 0].min() < 0.55
    assert 0.75 < lab[:, 0].max() < 0.86
    assert np.hypot(lab[:, 1], lab[:, 2]).min() > 0.03  # grey is for rows that have no value


def test_a_hundred_marks_differ():
    assert len({(colour_of(c), shape_of(c)) for c in range(100)}) == 100
    assert len({colour_of(c) for c in range(40)}) == 40


def test_importing_loads_neither_jinja2_nor_matplotlib():
    heavy = "{'jinja2', 'matplotlib'}"
    script = f"import sys, coterie.report, coterie.plot; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_missing_template_engine_is_named(model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    environment.cache_clear()  # an earlier report may have loaded it
    with pytest.raises(ImportError, match=re.escape("pip install coterie[report]")):
        write_report(model, tmp_path / "out.html")

"""The page: as text, and in a real browser."""

import cProfile
import re

import numpy as np
import pytest
from browsing import (
    HOSTILE,
    SECTIONS,
    Checker,
    complaints,
    hostile_settings,
    hover_a_row,
    open_page,
    pixels_drawn,
    wait_for,
    well_formed,
)

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.report import describe, html_summary, write_report
from coterie.report._page import render
from coterie.report._text import shown


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
def test_numbers_in_the_legend_are_whole(browser, pages, width):
    """Also beside the mark of clusters that do not replicate."""
    open_page(browser, pages["digits"], width)
    cut = browser.execute_script(
        "return [...document.querySelectorAll('#legend .called')].filter(e => e.scrollWidth > e.clientWidth).length"
    )
    assert cut == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_small_pictures_share_one_width(browser, pages, width):
    open_page(browser, pages["digits"], width)
    script = "return [...document.querySelectorAll('.multiples .frame')].map(e => e.getBoundingClientRect().width)"
    widths = browser.execute_script(script)
    assert len(widths) > 10
    assert min(widths) > 100
    assert max(widths) - min(widths) < 2


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
    options = ["cluster", "confidence", "known label", "ink", "cluster stability", "novelty"]
    assert [option.text for option in choice.options] == options
    for option in options:
        choice.select_by_visible_text(option)
        pixels_drawn(browser)
        pictures.add(browser.execute_script("return document.getElementById('canvas').toDataURL()"))
        assert browser.find_element(By.ID, "key").is_displayed() == (option != "cluster")
    assert len(pictures) == len(options)


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
    assert re.search(r"cluster \d+( \(.*\))?, confidence", text)
    assert complaints(browser) == []


def test_no_script_but_its_own_may_run(browser, pages):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', pages["digits"].read_text(encoding="utf-8"))[1]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert re.fullmatch(r"'sha256-[\w+/]+=*'", rules["script-src"])  # one script, by its digest
    assert rules["default-src"] == "'none'"
    open_page(browser, pages["digits"], 1280)
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s)"
    )
    assert browser.execute_script("return window.ran") is None
    assert any("Content Security Policy" in line["message"] for line in complaints(browser))

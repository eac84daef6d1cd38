"""Fits, reports and a browser that the report's tests share."""

import shutil
import time

import pytest
from browsing import HOSTILE, hostile_settings

from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views, make_views
from coterie.report import describe, write_report


@pytest.fixture(scope="session")
def digits():
    return load_digit_views()


@pytest.fixture(scope="session")
def model(digits):
    return GuidedCoTraining(10, random_state=0).fit(digits.views)


@pytest.fixture(scope="session")
def found(model, digits):
    return describe(model, digits.views, target=digits.target, images={"pixels": (8, 8)})


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def pages(tmp_path_factory, model, digits, crowd):
    folder = tmp_path_factory.mktemp("pages")
    ink = {"ink": digits.views["pixels"].sum(axis=1)}
    crowd_model, views, target = crowd
    hostile = {**hostile_settings(target), "against": crowd_model, "against_title": HOSTILE[1]}
    return {
        "digits": write_report(
            model, folder / "digits.html", digits.views, target=digits.target, images={"pixels": (8, 8)}, columns=ink
        ),
        "hostile": write_report(crowd_model, folder / "hostile.html", views, **hostile),
        "bare": write_report(model, folder / "bare.html"),
    }


LARGE_ROWS, LARGE_CLUSTERS = 200_000, 30


@pytest.fixture(scope="session")
def large():
    """200,000 rows in 30 clusters, and what a user would pass with them; some ids are formulas."""
    data = make_views(LARGE_ROWS, LARGE_CLUSTERS, n_columns=(6, 5), separation=7, random_state=0)
    settings = dict(n_landmarks=300, n_neighbors=6, n_init=1, random_state=0)
    model = GuidedCoTraining(LARGE_CLUSTERS, **settings).fit(data.views)
    kinds = ("=cmd{}", 'id "{}", no', *["row-{}"] * 48)
    told = {
        "ids": [kinds[i % 50].format(i) for i in range(LARGE_ROWS)],
        "columns": {"height": data.views["view0"][:, 0], "side": ["right", "left"] * (LARGE_ROWS // 2)},
        "texts": [f"number {i} of <b>class {label}</b>" for i, label in enumerate(data.target)],
        "target": data.target,
        "names": {0: "first & foremost"},
    }
    return model, data, told


@pytest.fixture(scope="session")
def large_page(tmp_path_factory, large):
    model, data, told = large
    return write_report(model, tmp_path_factory.mktemp("large") / "large.html", data.views, **told)


@pytest.fixture
def downloads(browser, tmp_path):
    """A folder that the browser writes to, and a wait until a file is whole: at first it is there, and empty."""
    settings = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", settings)

    def wait(name):
        end = time.monotonic() + 30
        file = tmp_path / name
        while not file.exists() or not file.stat().st_size or list(tmp_path.glob("*.crdownload")):
            assert time.monotonic() < end, f"{name} was never written"
            time.sleep(0.05)
        return file

    return wait

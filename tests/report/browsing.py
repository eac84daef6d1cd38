"""What the report's tests share: names that would do harm, a reader of pages, and hands for a real browser."""

import json
import time
from html.parser import HTMLParser

import numpy as np

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

COLOURED = """
const c = document.getElementById("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
let n = 0;
for (let i = 3; i < d.length; i += 4) n += d[i] > 60;
return n;
"""


def hostile_settings(target):
    n = len(target)
    return {
        "ids": [f"{HOSTILE[i % 8]}{i}" for i in range(n)],
        "target": [HOSTILE[t % 8] + str(t) for t in target],
        "columns": {HOSTILE[0]: [HOSTILE[i % 8] for i in range(n)], HOSTILE[3]: np.linspace(0, 1, n)},
        "title": HOSTILE[0] + HOSTILE[3],
    }


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


def pixels_drawn(browser):
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return browser.execute_script(COLOURED)


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

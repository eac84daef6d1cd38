"""What the report's tests share: names that would do harm, a reader of pages, and hands for a real browser."""

import json
import re
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
        "texts": [HOSTILE[i % 8] for i in range(n)],
        "names": {c: HOSTILE[c % 8] for c in range(0, 100, 3)},
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


# Where rows are on the screen while nothing is moved or zoomed: both axes fill the frame, neither much more than fits.
LAID_OUT = """
const {x, y} = arguments[0], canvas = document.getElementById("canvas");
canvas.scrollIntoView({block: "center", behavior: "instant"});
const frame = canvas.getBoundingClientRect();
const span = (axis) => [Math.min(...axis), Math.max(...axis)];
const [[left, right], [low, high]] = [span(x), span(y)];
const wide = (frame.width - 56) / (right - left), tall = (frame.height - 56) / (high - low);
const least = Math.min(wide, tall);
const [sx, sy] = [Math.min(wide, 1.35 * least), Math.min(tall, 1.35 * least)];
const spots = x.map((value, i) => [frame.width / 2 + (value - (left + right) / 2) * sx,
                                   frame.height / 2 - (y[i] - (low + high) / 2) * sy]);
return [frame.left, frame.top, frame.width, frame.height, spots];
"""


def selected(browser):
    """Return the rows that are selected, by number, ascending; the list on the page is read to its end."""
    browser.execute_script(
        "const more = document.querySelector('#picked-more button');"
        "while (!document.getElementById('picked-more').hidden) more.click();"
    )
    count = browser.execute_script("return Number(document.getElementById('selection').dataset.rows || 0)")
    ids = browser.execute_script("return [...document.querySelectorAll('#picked tr th')].map(h => h.textContent)")
    assert len(ids) == count
    return sorted(int(re.search(r"\d+", name)[0]) for name in ids)


def drag(browser, path):
    """Press, move along a path and let go; return the frames that were drawn in a second meanwhile."""
    kinds = ["mousePressed", *["mouseMoved"] * (len(path) - 1), "mouseReleased"]
    held = {"button": "left", "buttons": 1, "clickCount": 1}
    spots = zip(kinds, [*path, path[-1]], strict=True)
    events = [{"type": kind, "x": float(x), "y": float(y), **held} for kind, (x, y) in spots]
    return frames_during(browser, "Input.dispatchMouseEvent", events)


def swipe(browser, path):
    """Do the same with a finger."""
    kinds = ["touchStart", *["touchMove"] * (len(path) - 1)]
    spots = zip(kinds, path, strict=True)
    events = [{"type": kind, "touchPoints": [{"x": float(x), "y": float(y)}]} for kind, (x, y) in spots]
    return frames_during(browser, "Input.dispatchTouchEvent", [*events, {"type": "touchEnd", "touchPoints": []}])


def frames_during(browser, command, events):
    """Send events to the page; return the frames that were drawn in a second meanwhile."""
    browser.execute_script(
        "window.frames_drawn = [];"
        "const f = (t) => { frames_drawn.push(t); window.f_next = requestAnimationFrame(f); };"
        "window.f_next = requestAnimationFrame(f);"
    )
    for event in events:
        browser.execute_cdp_cmd(command, event)
    times = browser.execute_script("cancelAnimationFrame(f_next); return frames_drawn")
    return 1000 * (len(times) - 1) / max(times[-1] - times[0], 1e-9) if len(times) > 2 else 0.0


def key(browser, name):
    """Press a key, wherever the focus is."""
    codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
    text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
    sent = {"key": name, "code": name, "windowsVirtualKeyCode": codes.get(name, ord(name[0].upper()))}
    browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", **sent, **({"text": text} if text else {})})
    browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", **sent})


def cut_tree(merges, n_leaves, n_groups):
    """Return the groups that are left when merges are done until there are so many."""
    parts = {leaf: {leaf} for leaf in range(n_leaves)}
    for number, (left, right, *_) in enumerate(merges[: n_leaves - n_groups]):
        parts[n_leaves + number] = parts.pop(left) | parts.pop(right)
    return list(parts.values())

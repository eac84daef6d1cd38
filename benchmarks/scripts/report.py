"""Time of a report: written from frames and from files, and opened in Chromium.

    python -m benchmarks.scripts.report [--rows 200000] [--repeats 3] [--results FILE]

The files are parquet, the second with its rows in another order, matched by id. Frames and files alternate, and the
fastest repeat of each is used. In the browser, the time to the first contentful paint and the frame rate while the map
is dragged are measured, at the size of a screen and of a phone.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measure import machine, source_hash, versions
from coterie import GuidedCoTraining
from coterie.datasets import make_views

K = 30
COLUMNS = (16, 8)
WIDTHS = {"screen": 1400, "phone": 390}
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
PAINT = "return performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0]"
DRAWN = "return !!document.getElementById('canvas').dataset.drawn"
COUNT = (
    "window.times = []; const f = (t) => { times.push(t); window.next = requestAnimationFrame(f); };"
    "window.next = requestAnimationFrame(f);"
    "for (let i = 0; i < 4; i++) document.getElementById('zoom-in').click();"
    "canvas.scrollIntoView({block: 'center', behavior: 'instant'});"
    "const r = canvas.getBoundingClientRect(); return [r.left + r.width / 4, r.top + r.height / 3];"
)


def measure_writing(folder, n_rows, repeats):
    """Return the seconds of reports from frames and from files of the same rows."""
    data = make_views(n_rows, K, n_columns=COLUMNS, separation=7, random_state=0)
    ids = [f"row{i}" for i in range(n_rows)]
    frames = {name: pd.DataFrame(view, index=ids).add_prefix("c") for name, view in data.views.items()}
    second = list(frames)[1]
    frames[second] = frames[second].iloc[np.random.default_rng(0).permutation(n_rows)]
    paths = {name: folder / f"{name}.parquet" for name in frames}
    for name, frame in frames.items():
        frame.to_parquet(paths[name], row_group_size=50_000)
    model = GuidedCoTraining(K, random_state=0).fit(frames)
    ways = {"frames": frames, "files": {name: str(path) for name, path in paths.items()}}
    seconds = {way: [] for way in ways}
    for _ in range(repeats):
        for way, views in ways.items():
            started = time.perf_counter()
            model.report(folder / "report.html", views)
            seconds[way].append(time.perf_counter() - started)
    return {way: round(min(found), 3) for way, found in seconds.items()}


def measure_browsing(page, width, repeats):
    """Return the milliseconds to the first contentful paint, and the frame rate while the map is dragged."""
    from selenium import webdriver
    from selenium.webdriver.support.wait import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        paints, rates = [], []
        for _ in range(repeats):
            driver.get(page.as_uri())
            WebDriverWait(driver, 60).until(lambda d: d.execute_script(DRAWN))
            paints.append(WebDriverWait(driver, 60).until(lambda d: d.execute_script(PAINT)))
            rates.append(drag(driver))
    finally:
        driver.quit()
    return {"first_paint_ms": round(min(paints)), "frames_a_second": round(max(rates), 1)}


def drag(driver):
    """Zoom in, drag the map, and return the frame rate meanwhile."""
    left, top = driver.execute_script(COUNT)
    for i, kind in enumerate(["mousePressed", *["mouseMoved"] * 40, "mouseReleased"]):
        spot = {"x": left + 3 * min(i, 40), "y": top + 2 * (min(i, 40) % 20)}
        driver.execute_cdp_cmd(
            "Input.dispatchMouseEvent", {"type": kind, **spot, "button": "left", "buttons": 1, "clickCount": 1}
        )
    times = driver.execute_script("cancelAnimationFrame(next); return times")
    return 1000 * (len(times) - 1) / (times[-1] - times[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/report.jsonl"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = {"rows": given.rows, "clusters": K, "seconds": measure_writing(folder, given.rows, given.repeats)}
        page = folder / "report.html"
        record |= {"bytes": page.stat().st_size}
        if shutil.which("chromedriver"):
            record |= {kind: measure_browsing(page, width, given.repeats) for kind, width in WIDTHS.items()}
    record |= {"load": [round(load, 1) for load in os.getloadavg()], "machine": machine(), "versions": versions()}
    record |= {"code": {"source": source_hash()}}
    with given.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()

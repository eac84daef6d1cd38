"""The README's picture: a report on digits in a real browser, with the pointer on a row."""

import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views

OUT = Path(__file__).resolve().parents[2] / "docs" / "images" / "report.png"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--window-size=1280,1300",
)
# The lowest row of the map's upper third that is drawn in the middle: a tooltip there hides little.
SPOT = """
const c = document.getElementById("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
for (let y = c.height >> 2; y < c.height - 40; y++) for (let x = c.width >> 2; x < c.width / 1.6; x++)
  if (d[4 * (y * c.width + x) + 3] > 150) return [x - c.width / 2, y - c.height / 2];
"""


def main() -> None:
    data = load_digit_views()
    GuidedCoTraining(10, random_state=0).fit(data.views)  # compiles the kernels
    model = GuidedCoTraining(10, random_state=0).fit(data.views)
    with tempfile.TemporaryDirectory() as folder:
        page = model.report(
            Path(folder) / "digits.html",
            data.views,
            target=data.target,
            images={"pixels": (8, 8)},
            title="Handwritten digits",
        )
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            browser.set_window_size(1280, 1290)
            browser.get(page.as_uri())
            spot = browser.execute_script(SPOT)
            canvas = browser.find_element(By.ID, "canvas")
            ActionChains(browser, duration=0).move_to_element_with_offset(canvas, *map(int, spot)).perform()
            browser.save_screenshot(str(OUT))
        finally:
            browser.quit()


if __name__ == "__main__":
    main()

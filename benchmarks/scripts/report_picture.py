"""The README's picture: a report on digits in a real browser, with a row selected by the arrow keys."""

import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
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
ROW = 24  # the row to select: its tooltip covers little of the map
RIGHT = "\ue014"


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
            canvas = browser.find_element(By.ID, "canvas")
            canvas.send_keys(*[RIGHT] * (ROW + 1))  # a pointer would dim all clusters but one
            browser.execute_script("scrollTo(0, 0)")
            browser.save_screenshot(str(OUT))
        finally:
            browser.quit()


if __name__ == "__main__":
    main()

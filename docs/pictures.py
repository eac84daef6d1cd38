"""Pictures that the manual's own examples make: figures that a page saves, and reports as Chromium shows them.

``{picture} map.png`` shows a file that the page's examples have saved, ``{picture} fit.html`` a page that they have
written, as a browser shows it. The examples run once for each page, in a folder of their own, and what they print is
compared as in the tests. Where there is no browser or no data set that the page ``:needs:``, or ``draw_pictures`` is 0,
a line says so in the picture's place.
"""

import contextlib
import doctest
import io
import os
import shutil
import tempfile
import warnings
from base64 import b64decode
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

FOLDER = "_pictures"  # in the sources of the manual
NOT_DRAWN = "This picture is drawn when the whole manual is built."
NO_DATA = "This picture is drawn where the folder that COTERIE_DATA names holds {}."
NO_BROWSER = "This is a picture of a page; whoever built this manual had no Chromium to take it with."
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")

DRAWN = "const c = document.getElementById('canvas'); return !c || !!c.dataset.drawn"
COLOUR = """
const list = document.getElementById("colour-by");
list.value = [...list.options].find((option) => option.text === arguments[0]).value;
list.dispatchEvent(new Event("change"));
"""
FRAME = """
const part = arguments[0] ? document.getElementById(arguments[0]) : document.body, frame = part.getBoundingClientRect();
const margin = arguments[0] ? 16 : 0;  // not above: there a line and the end of the section before would show
return {x: frame.x + scrollX - margin, y: frame.y + scrollY + (arguments[0] ? 1 : 0),
        width: frame.width + 2 * margin, height: frame.height + margin};
"""


def run_examples(page, folder):
    """Run the examples of a page in a folder; return what went wrong, in words."""
    parser = doctest.DocTestParser()
    test = parser.get_doctest(page.read_text(encoding="utf-8"), {}, page.name, str(page), 0)
    said = io.StringIO()
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.write)
    return said.getvalue()


class Chromium:
    """A browser that is started when the first picture is taken."""

    def __init__(self):
        self.driver = None

    def start(self):
        """Return the browser, or None where there is none."""
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        service = shutil.which("chromedriver")
        if self.driver is None and binary and service:
            with contextlib.suppress(ModuleNotFoundError):
                from selenium import webdriver

                options = webdriver.ChromeOptions()
                options.binary_location = binary
                for flag in FLAGS:
                    options.add_argument(flag)
                self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
        return self.driver

    def take(self, source, target, part, colour_by, width, height):
        """Write a picture of a page, or of the part of it that has an id; return whether there is a browser."""
        driver = self.start()
        if driver is None:
            return False
        from selenium.webdriver.support.wait import WebDriverWait

        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        driver.get(source.as_uri())
        WebDriverWait(driver, 60).until(lambda d: d.execute_script(DRAWN))
        if colour_by:
            driver.execute_script(COLOUR, colour_by)
        clip = {**driver.execute_script(FRAME, part), "scale": 1}
        clip["height"] = min(clip["height"], height)
        asked = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        target.write_bytes(b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]))
        return True

    def quit(self):
        if self.driver is not None:
            self.driver.quit()


class Picture(SphinxDirective):
    """A figure that the page's examples have saved, or a page that they have written."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {
        "alt": directives.unchanged_required,
        "needs": directives.unchanged_required,
        "part": directives.unchanged,
        "colour-by": directives.unchanged,
        "width": directives.positive_int,
        "height": directives.positive_int,
        "name": directives.unchanged,
    }

    def run(self):
        file = self.arguments[0]
        if "alt" not in self.options:
            raise self.error(f"The picture of {file} needs :alt:, which says what there is to see.")
        if not self.config.draw_pictures:
            return [said(NOT_DRAWN)]
        needed = self.options.get("needs")
        if needed and not (Path(os.environ.get("COTERIE_DATA", "")) / needed).is_file():
            return [said(NO_DATA.format(needed))]
        made = self.folder() / file
        if not made.is_file():
            raise self.error(f"The examples of this page write no {file}.")
        name = self.options.get("name", made.stem)
        kept = Path(self.env.srcdir) / FOLDER / self.env.docname / f"{name}.png"
        kept.parent.mkdir(parents=True, exist_ok=True)
        if made.suffix == ".html":
            settings = [self.options.get(key, default) for key, default in DEFAULTS.items()]
            if not self.env.app.chromium.take(made, kept, *settings):
                logging.getLogger(__name__).info("%s is left out: no Chromium", kept.name)
                return [said(NO_BROWSER)]
        else:
            shutil.copy(made, kept)
        image = nodes.image(uri=f"/{FOLDER}/{self.env.docname}/{name}.png", alt=self.options["alt"])
        caption = nodes.caption("", "", *self.parse_inline(" ".join(self.content))[0]) if self.content else None
        return [nodes.figure("", image, *([caption] if caption else []))]

    def folder(self):
        """Return the folder that the page's examples wrote to; they run when the first picture is asked for."""
        folders = self.env.app.picture_folders
        if self.env.docname not in folders:
            folder = Path(tempfile.mkdtemp(prefix="coterie-manual-"))
            folders[self.env.docname] = folder
            wrong = run_examples(Path(self.env.doc2path(self.env.docname)), folder)
            if wrong:
                raise self.error(f"The examples of this page fail:\n{wrong}")
        return folders[self.env.docname]


DEFAULTS = {"part": "", "colour-by": "", "width": 1180, "height": 1040}


def said(text):
    return nodes.paragraph("", "", nodes.emphasis("", text))


def tidy(app, error):
    app.chromium.quit()
    for folder in app.picture_folders.values():
        shutil.rmtree(folder, ignore_errors=True)


def setup(app):
    app.add_config_value("draw_pictures", True, "env", types=(bool,))
    app.add_directive("picture", Picture)
    app.chromium, app.picture_folders = Chromium(), {}
    app.connect("build-finished", tidy)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

"""The manual: its links resolve, what it names exists, and it builds without warnings."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "guides").glob("*.md")])
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Rooms of the package, as the page on the method names their functions.
ROOMS = sorted(path.stem for path in (ROOT / "src" / "coterie").iterdir() if path.suffix == ".py" or path.is_dir())

pytestmark = pytest.mark.skipif(not PAGES, reason="needs the sources of the manual")


def prose(page):
    return CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))


def name_of(page):
    """A page as the table of contents has it."""
    return page.relative_to(DOCS).with_suffix("").as_posix()


def by_name(path):
    return path.name


def page_exists(target):
    """Whether a page is there, or will be made from an example."""
    folder, _, name = target.rpartition("/")
    if folder == "gallery":
        return name == "index" or (DOCS / "examples" / f"{name}.py").is_file()
    return (DOCS / f"{target.removeprefix('../')}.md").is_file()


@cache
def find(name):
    """Return what a dotted name stands for."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "?"):  # a package of others
                pytest.skip(f"needs {error.name}")
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(f"There is no {name}.")


# -- the pages as they are written ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", text):
        assert page_exists(target), f"{page.name}: {{doc}}`{target}`"
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not urlsplit(target).scheme:
            path = target.partition("#")[0]
            assert not path or (page.parent / path).is_file(), f"{page.name}: ({target})"


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"```\{toctree\}(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    entries = [line for part in listed for line in part.splitlines() if line and not line.startswith(":")]
    assert sorted(entries) == sorted(["gallery/index", *(name_of(page) for page in PAGES if page.stem != "index")])


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_what_a_page_names_exists(page):
    for name in re.findall(r"`(coterie(?:\.\w+)+)(?:\(.*?\))?`", prose(page)):
        find(name)


def test_functions_named_beside_the_equations_exist():
    text = prose(DOCS / "method.md")
    named = re.findall(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)`", text)
    assert len(named) > 15
    for name in named:
        find(f"coterie.{name}")
    table = text[text.index("| step | function | kernels |") :].partition("\n\n")[0]
    kernels = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[3])]
    on_a_gpu_only = {"nearest"}
    for name in kernels:
        assert name in on_a_gpu_only or callable(find(f"coterie.kernels.cpu.{name}"))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_python_in_pages_can_be_compiled_and_names_what_exists(page):
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        check_names(ast.parse(code))


# -- the gallery's scripts --------------------------------------------------------------------------------------------


def check_names(tree):
    """Assert that what is imported from coterie exists, that its attributes do, and that its parameters are known."""
    from coterie import GuidedCoTraining

    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "coterie":
                    find(alias.name)
                    known["coterie"] = "coterie"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "coterie":
            for alias in node.names:
                find(f"{node.module}.{alias.name}")
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    parameters = GuidedCoTraining().get_params()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            first, _, rest = dotted.partition(".")
            if first in known and re.fullmatch(r"[\w.]+", rest):
                find(f"{known[first]}.{rest}")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "GuidedCoTraining":
            named = {keyword.arg for keyword in node.keywords if keyword.arg is not None}  # and not **settings
            assert named <= set(parameters)


def test_there_are_examples():
    assert len(EXAMPLES) >= 7
    assert (DOCS / "examples" / "GALLERY_HEADER.rst").is_file()


@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_an_example_can_be_compiled_and_names_what_exists(example):
    tree = ast.parse(example.read_text(encoding="utf-8"), example.name)
    title = (ast.get_docstring(tree) or "").splitlines()
    assert re.fullmatch("=+", title[1])
    assert len(title[1]) == len(title[0])
    check_names(tree)


# -- the pages as they are built --------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The links of a page, the places in it that links can lead to, and what a browser loads to show it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loads = set(), {""}, set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag != "a":
            self.loads |= {values[key] for key in ("href", "src", "srcset", "data", "poster") if values.get(key)}
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        self.links |= {values[key] for key in ("href", "src") if values.get(key)}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The manual as HTML, its examples not run: they take a minute, and run with ``make docs``."""
    for package in ("sphinx", "myst_parser", "numpydoc", "furo", "sphinx_gallery", "latex2mathml"):
        pytest.importorskip(package, reason="needs pip install coterie[docs]")
    copy = tmp_path_factory.mktemp("manual")
    shutil.copytree(DOCS, copy / "docs", ignore=shutil.ignore_patterns("_build", "gallery"))
    shutil.copytree(ROOT / "benchmarks" / "results", copy / "benchmarks" / "results")
    shutil.copy(ROOT / "CHANGELOG.md", copy)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "-D", "plot_gallery=0"]
    done = subprocess.run([*command, str(copy / "docs"), str(copy / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return copy / "html"


def test_links_and_anchors_of_the_built_manual_resolve(built):
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(built.rglob("*.html"))}
    assert len(pages) > len(PAGES) + len(EXAMPLES)
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {"", unquote(parts.fragment)}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.relative_to(built.resolve())}: {link}")
    assert not broken


def test_the_built_manual_loads_nothing_from_the_network(built):
    for path in sorted(built.rglob("*.html")):
        page = Page(path.read_text(encoding="utf-8"))
        assert page.loads, path
        assert not [address for address in page.loads if urlsplit(address).netloc], path
    for path in sorted(built.rglob("*.css")):
        addresses = re.findall(r"(?:@import\s+|url\()\s*[\"']?([^\"')\s]+)", path.read_text(encoding="utf-8"))
        assert not [address for address in addresses if urlsplit(address).netloc], path


def test_formulas_are_drawn_by_the_browser_itself(built):
    text = (built / "method.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 40
    assert text.count('<span class="number">(') == 3  # \\tag{1}, {2} and {6}

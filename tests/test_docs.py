"""The manual: its links resolve, what it names exists, and it builds without warnings."""

import ast
import importlib
import importlib.util
import inspect
import os
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
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
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


def listed_in(page):
    """Return the entries of a page's tables of contents."""
    listed = re.findall(r"```\{toctree\}(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [line for part in listed for line in part.splitlines() if line and not line.startswith(":")]


def page_exists(page, target):
    """Whether a page that another one names is there, or will be made from an example."""
    path = DOCS / target[1:] if target.startswith("/") else page.parent / target
    if path.parent == DOCS / "gallery":
        return path.name == "index" or (DOCS / "examples" / f"{path.name}.py").is_file()
    return path.with_suffix(".md").is_file()


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
        assert page_exists(page, target), f"{page.name}: {{doc}}`{target}`"
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not urlsplit(target).scheme:
            path = target.partition("#")[0]
            assert not path or (page.parent / path).is_file(), f"{page.name}: ({target})"


def outside_tables(page):
    """Return a page's text without what `make tables` writes and without code."""
    return re.sub(r"<!-- table:([\w-]+) -->.*?<!-- /table:\1 -->", "", prose(page), flags=re.DOTALL)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=by_name)
def test_tables_of_figures_are_made_from_results(page):
    typed = [line for line in outside_tables(page).splitlines() if line.startswith("|") and re.search(r"\.\d\d", line)]
    assert [line for line in typed if "novelty" not in line] == [], "make it from a file of benchmarks/results"


# Figures in words that are constants of the code: a page, how it says them, and the constant.
THRESHOLDS = (
    ("background/method", "one leaves at most {} of the disagreement", "coterie.method.candidates.CLEARLY_LESS"),
    ("background/method", "if it is below {},", "coterie.method.candidates.REPLICATED"),
    ("background/method", "if it leads by {} and", "coterie.method.candidates.STEADIER"),
    ("background/method", "must lead by {}.", "coterie.method.candidates.FAR_LEAD"),
    ("background/method", "an agreement above {}", "coterie.method.candidates.SEPARATE"),
    ("background/method", "(an ARI below {})", "coterie.method.candidates.ALIKE"),
    ("background/method", "(`stability_` below {})", "coterie.fitting.STEADY"),
    ("background/method", "(agreement below {})", "coterie.fitting.PREDICTED"),
    ("background/method", "replicates better by {} and", "coterie.fitting.CLEARLY_STEADIER"),
    ("background/method", "at most {} of what views disagree on", "coterie.fitting.LESS_DISAGREEMENT"),
    ("guides/trust", "`stability_` below {};", "coterie.method.stability.CHANCE"),
    ("guides/trust", "`cluster_stability_` below {};", "coterie.report._clusters.LEAST_STABILITY"),
    ("guides/trust", "`novelty` above {};", "coterie.drift.NOVEL"),
    ("guides/report", "a stability below {} are marked", "coterie.report._clusters.LEAST_STABILITY"),
    ("guides/choosing_k", "has an index above {},", "coterie.method.selection.SEEN"),
    ("guides/choosing_k", "or above {} with one view", "coterie.method.selection.SEEN_ALONE"),
    ("guides/choosing_k", "the gap behind them exceeds {}:", "coterie.method.selection.CLEAR_GAP"),
    ("guides/choosing_k", "`is_clear` requires {}", "coterie.method.selection.CLEAR"),
    ("guides/choosing_k", "with several views and {} with one", "coterie.method.selection.CLEAR_ALONE"),
)


@pytest.mark.parametrize(("page", "said", "constant"), THRESHOLDS, ids=lambda value: value.rpartition(".")[2])
def test_thresholds_are_those_of_the_code(page, said, constant):
    text = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8").split())
    assert said.format(f"{find(constant):g}".removeprefix("0")) in text


def test_links_of_the_readme_lead_somewhere():
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(ROOT / "README.md")):
        path, _, anchor = target.partition("#")
        titles = re.findall(r"^#+ (.*)", (ROOT / path).read_text(), re.MULTILINE) if path.endswith(".md") else []
        assert (ROOT / path).is_file()
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_lines_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    found = {}
    exec(code, found)
    assert (found["model"].predict(found["views"]) == found["model"].labels_).all()
    assert Path("digits.html").stat().st_size > 100_000


def test_every_page_is_in_the_table_of_contents():
    entries = listed_in(DOCS / "index.md")
    names = {name_of(page) for page in PAGES} - {"index"} | {"gallery/index"}
    assert sorted(entries) == sorted(names)


def test_the_reference_has_a_page_for_all_that_is_public():
    """Modules with a section of their own list all that they offer."""
    listed = set(re.findall(r"^   (coterie[.\w]+)$", (DOCS / "reference" / "index.md").read_text(), re.MULTILINE))
    wanted = set()
    for room in ("coterie", *(f"coterie.{name}" for name in find("coterie").__all__)):
        module = find(room)
        if inspect.ismodule(module):
            public = {name: getattr(module, name) for name in module.__all__}
            wanted |= {f"{room}.{name}" for name, value in public.items() if callable(value)}
    same = {"coterie.plot.html_summary"}  # listed as the report's
    assert wanted - same <= listed
    for name in listed:
        assert find(name).__doc__


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_what_a_page_names_exists(page):
    for name in re.findall(r"`(coterie(?:\.\w+)+)(?:\(.*?\))?`", prose(page)):
        find(name)


def test_functions_named_beside_the_equations_exist():
    text = prose(DOCS / "background" / "method.md")
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


# -- guides and their pictures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted((DOCS / "guides").glob("*.md")), ids=by_name)
def test_a_guide_begins_with_a_question_and_ends_with_a_picture(page):
    _, question, *_, last = page.read_text(encoding="utf-8").strip().split("\n\n")
    assert re.fullmatch(r"\*[^*]+\?\*", question)
    assert last.endswith("```")
    assert "```{picture} " in page.read_text(encoding="utf-8")[-600:]


@pytest.fixture(scope="module")
def pictures():
    pytest.importorskip("sphinx", reason="needs pip install coterie[docs]")
    found = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_examples_of_a_page_write_where_they_are_told_and_failures_are_named(pictures, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(">>> open('made.txt', 'w').write('x')\n1\n")
    (tmp_path / "own").mkdir()
    assert pictures.run_examples(page, tmp_path / "own") == ""
    assert (tmp_path / "own" / "made.txt").read_text() == "x"
    page.write_text(">>> 1 + 1\n3\n")
    assert "Expected:\n    3\nGot:\n    2" in pictures.run_examples(page, tmp_path)


def test_a_page_is_photographed_where_there_is_a_browser(pictures, tmp_path, monkeypatch):
    from matplotlib.image import imread

    source, target = tmp_path / "page.html", tmp_path / "page.png"
    source.write_text("<body><p id='part' style='width: 200px; height: 3000px; background: red'></p>")
    chromium = pictures.Chromium()
    try:
        if chromium.take(source, target, "part", "", 800, 500):
            drawn = imread(target)  # (h, w, 4)
            assert drawn.shape[:2] == (500, 232)  # as high as was asked for; a margin of 16 on both sides
            assert drawn[250, 116, :3].tolist() == [1, 0, 0]
    finally:
        chromium.quit()
    target.unlink(missing_ok=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not pictures.Chromium().take(source, target, "part", "", 800, 500)
    assert not target.exists()


def test_a_picture_whose_data_set_is_not_there_says_so(pictures, tmp_path):
    (tmp_path / "conf.py").write_text(f"import sys\nsys.path.insert(0, {str(DOCS)!r})\nextensions = ['pictures']\n")
    (tmp_path / "index.rst").write_text("Page\n====\n\n.. picture:: a.png\n   :alt: a\n   :needs: cells.npz\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "text", str(tmp_path), str(tmp_path / "out")]
    done = subprocess.run(command, env=os.environ | {"COTERIE_DATA": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert pictures.NO_DATA.format("cells.npz") in (tmp_path / "out" / "index.txt").read_text().replace("\n", " ")


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
    drawn = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [name for name in drawn if name.startswith(("plt.", "plot."))]  # the first figure is its thumbnail


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
    shutil.copytree(DOCS, copy / "docs", ignore=shutil.ignore_patterns("_build", "_pictures", "gallery", "generated"))
    shutil.copytree(ROOT / "benchmarks" / "results", copy / "benchmarks" / "results")
    shutil.copy(ROOT / "CHANGELOG.md", copy)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "-Dplot_gallery=0", "-Ddraw_pictures=0"]
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
    text = (built / "background" / "method.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 40
    assert text.count('<span class="number">(') == 3  # \\tag{1}, {2} and {6}

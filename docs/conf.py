"""Settings of the manual."""

import doctest
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from sphinx.util import logging

from coterie import __version__

sys.path.insert(0, str(Path(__file__).parent))  # mathml.py, pictures.py

project = "Coterie"
author = "The Coterie developers"
copyright = "The Coterie developers"
version = release = __version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "pictures",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # the gallery's pages are made as .rst
exclude_patterns = ["_build", "_templates", "examples"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are in NumPy's form. reference/index.md lists names, and every one gets a page from the templates.
templates_path = ["_templates"]
numpydoc_show_class_members = False
autosummary_generate = True
# What users are given and do not make themselves is shown without its parameters.
autosummary_context = {
    "without_signature": (
        "Alignment",
        "DownloadError",
        "Drift",
        "FileTable",
        "FormatError",
        "Hierarchy",
        "KSuggestion",
        "ModelFileError",
        "MultiViewData",
        "Prediction",
        "TableWriter",
        "Target",
    )
}
# Every peer's page ends with its lines of the table of methods.
METHODS = (Path(__file__).parent / "background" / "which_method.md").read_text(encoding="utf-8")
PEER = re.compile(r"^\| \{class\}`~coterie\.peers\.(\w+)`(?:, (\w+))? \| (.*) \|$", re.MULTILINE)
peer_facts = {}
for name, kind, cells in PEER.findall(METHODS):
    peer_facts.setdefault(name, []).append([kind or "defaults", *cells.split(" | ")])
autosummary_context["peer_facts"] = peer_facts
autodoc_member_order = "bysource"
autodoc_typehints = "none"

# Examples of docstrings run with the tests (pytest --doctest-modules); this builder runs those of the pages.
doctest_test_doctest_blocks = ""
doctest_default_flags = doctest.ELLIPSIS

html_theme = "furo"
html_title = f"Coterie {release}"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]

# Scripts of examples/ run when the manual is built. One whose package is missing is shown, and not run.
NEEDED = {"plot_3_cells": "mudata", "plot_9_dask": "distributed"}
NOT_RUN = {script: package for script, package in NEEDED.items() if find_spec(package) is None}
for script, package in NOT_RUN.items():
    logging.getLogger(__name__).info("%s.py is not run: it needs pip install %s", script, package)
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/(?!(?:{'|'.join(NOT_RUN)})\.py)plot_",
    "within_subsection_order": "FileNameSortKey",
    "ignore_repr_types": r"matplotlib|'list'|'tuple'",
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "doc_module": ("coterie",),
}

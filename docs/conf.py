"""Settings of the manual."""

import doctest

from coterie import __version__

project = "Coterie"
author = "The Coterie developers"
copyright = "The Coterie developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are in NumPy's form; members are listed by the pages.
numpydoc_show_class_members = False
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"

# Examples of docstrings run with the tests (pytest --doctest-modules); this builder runs those of the pages.
doctest_test_doctest_blocks = ""
doctest_default_flags = doctest.ELLIPSIS

html_theme = "furo"
html_title = f"Coterie {release}"
html_copy_source = False
html_show_sphinx = False

"""Settings of the manual."""

from coterie import __version__

project = "Coterie"
author = "The Coterie developers"
copyright = "The Coterie developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are in NumPy's form; attributes stand in a list below the parameters.
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Sources repeat their parameters as plain names; defaults stand in the descriptions.
autodoc_preserve_defaults = True

# Examples of docstrings run with the tests (pytest --doctest-modules); this builder runs those of the pages.
doctest_test_doctest_blocks = ""
trim_doctest_flags = True

html_theme = "furo"
html_title = f"Coterie {release}"
html_copy_source = False
html_show_sphinx = False

"""Formulas as MathML, which browsers draw by themselves: the manual needs no script for them, and no network."""

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

TAG = re.compile(r"\\tag\{([^}]*)\}")


def draw(latex, node, display="inline"):
    """Return MathML, with a warning where LaTeX is left in it that the converter does not know."""
    formula = convert(latex, display=display)
    if "\\" in formula:
        logging.getLogger(__name__).warning("not all of it became MathML: %s", latex, location=node)
    return formula


def visit_inline(translator, node):
    translator.body.append(draw(node.astext(), node))
    raise nodes.SkipNode


def visit_display(translator, node):
    latex = node.astext()
    tags = TAG.findall(latex)
    formula = draw(TAG.sub("", latex).strip(), node, "block")
    number = f'<span class="number">({escape(tags[0])})</span>' if tags else ""
    translator.body.append(f'<div class="formula">{formula}{number}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

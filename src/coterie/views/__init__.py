"""Convert input data to named, validated views that are read block by block, and prepare their columns.

``reading`` recognises the type of the input (``frames`` and ``cells`` convert objects of other libraries), ``columns``
selects columns, ``matching`` aligns the rows of several views, ``views`` holds the result, ``checks`` refuses data that
cannot be clustered, and ``preparation`` chooses the ``steps`` that make distances in a view meaningful.
"""

from coterie.views.checks import Shape, check_any_view, check_columns, check_finite, check_finite_rows, check_overlap
from coterie.views.columns import match_columns, settled_groups
from coterie.views.matching import in_row_order, rows_as_in
from coterie.views.parts import by_rows
from coterie.views.preparation import (
    METRICS,
    SCALINGS,
    Preparation,
    prepare,
    within_float_range,
)
from coterie.views.reading import as_views, match_views, view_rows
from coterie.views.statistics import column_moments
from coterie.views.steps import Step, Table
from coterie.views.views import RawRows, RowRange, View, ViewBlock, ViewRows, Views, absent_views

__all__ = [
    "METRICS",
    "SCALINGS",
    "Preparation",
    "RawRows",
    "RowRange",
    "Shape",
    "Step",
    "Table",
    "View",
    "ViewBlock",
    "ViewRows",
    "Views",
    "absent_views",
    "as_views",
    "by_rows",
    "check_any_view",
    "check_columns",
    "check_finite",
    "check_finite_rows",
    "check_overlap",
    "column_moments",
    "in_row_order",
    "match_columns",
    "match_views",
    "prepare",
    "rows_as_in",
    "settled_groups",
    "view_rows",
    "within_float_range",
]

"""Whatever the user passes -> named, validated views, read block by block; raw columns -> prepared ones.

``reading`` recognises what was passed (``frames`` and ``cells`` know the objects of other libraries), ``columns``
chooses columns, ``matching`` finds the rows that belong together, ``views`` holds the result, ``checks`` refuses what
cannot be clustered, and ``preparation`` makes distances meaningful, by ``steps``.
"""

from coterie.views.checks import Shape, check_any_view, check_columns, check_finite, check_finite_rows, check_overlap
from coterie.views.columns import match_columns, settled_groups
from coterie.views.matching import in_row_order
from coterie.views.preparation import (
    METRICS,
    SCALINGS,
    Preparation,
    column_moments,
    prepare,
    within_float_range,
)
from coterie.views.reading import as_views, match_views, view_rows
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
    "settled_groups",
    "view_rows",
    "within_float_range",
]

"""Reading tables from files of many formats, block by block, and writing files that appear only when they are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

__all__ = [
    "FileTable",
    "FormatError",
    "TableWriter",
    "Target",
    "match_rows",
    "open_column",
    "open_table",
    "open_target",
    "open_views",
    "open_writer",
    "write_table",
    "write_views",
]

if TYPE_CHECKING:
    from coterie.formats.converting import write_views
    from coterie.formats.errors import FormatError
    from coterie.formats.matching import match_rows
    from coterie.formats.opening import open_column, open_table, open_target, open_views
    from coterie.formats.tables import FileTable, Target
    from coterie.formats.writing import TableWriter, open_writer, write_table

# A format's library, too, is imported only when such a file is opened.
__getattr__ = names_of(
    __name__,
    {
        "FileTable": "tables",
        "FormatError": "errors",
        "TableWriter": "writing",
        "Target": "tables",
        "match_rows": "matching",
        "open_column": "opening",
        "open_table": "opening",
        "open_target": "opening",
        "open_views": "opening",
        "open_writer": "writing",
        "write_table": "writing",
        "write_views": "converting",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)

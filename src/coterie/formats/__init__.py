"""Reading tables from files of many formats, block by block, and writing files that appear only when they are whole."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Names are looked up when they are first used, and a format's library only when such a file is opened.
_HOMES = {
    "FileTable": "coterie.formats.tables",
    "FormatError": "coterie.formats.errors",
    "Target": "coterie.formats.tables",
    "TableWriter": "coterie.formats.writing",
    "match_rows": "coterie.formats.matching",
    "open_table": "coterie.formats.opening",
    "open_target": "coterie.formats.opening",
    "open_views": "coterie.formats.opening",
    "open_writer": "coterie.formats.writing",
    "write_table": "coterie.formats.writing",
    "write_views": "coterie.formats.converting",
}

__all__ = [
    "FileTable",
    "FormatError",
    "TableWriter",
    "Target",
    "match_rows",
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
    from coterie.formats.opening import open_table, open_target, open_views
    from coterie.formats.tables import FileTable, Target
    from coterie.formats.writing import TableWriter, open_writer, write_table


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'coterie.formats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

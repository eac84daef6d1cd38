"""Read tables block by block from files of many formats, and write files that appear only when they are complete.

A format is one module here and one line of ``registry.FAMILIES``, which gives the module's name, the extensions, what
the first bytes may look like (``registry.FIRST_BYTES``), and what a file holds: a table, tables by key, or columns. The
module provides two or three functions, and imports the format's library inside functions, by `errors.package`:

``open_store(path, request)``
    a `stores.Store`: shape, type, names of columns and ids of rows, and a ``read(start, stop)`` that gives any run of
    rows. ``request`` (`registry.Request`) names the key; only a format whose columns have types uses its ``columns``
    and ``id_column``, for others columns are selected after reading. Nothing large is read or allocated before the
    size that it claims is compared with the bytes in the file (`unpacking.check_ratio`);
``read_labels(path, request)``
    known labels, and the rows' ids where the file has any, as a `labels.Target`;
``list_tables(path)``, where a file may hold several
    the keys that open as views of their own, without known labels; ``()`` where a file is one table.

They may raise any exception: the caller converts it to a `FormatError` that names the file (`errors.errors_naming`). A
store keeps open files in a `stores.Lazy`, so that tables can be pickled, forked and read by several threads. Stores
that several formats share are in ``stores`` (arrays, CSR, raw rows) and ``segments`` (formats that can only be read
forward). A library that a damaged file can crash runs in a child process (``isolated``). Data sets are built on
formats, and formats do not import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import lazy_names

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
    from coterie.formats.labels import Target
    from coterie.formats.matching import match_rows
    from coterie.formats.opening import open_column, open_table, open_target, open_views
    from coterie.formats.tables import FileTable
    from coterie.formats.writing import TableWriter, open_writer, write_table

# A format's library, too, is imported only when such a file is opened.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "converting": ("write_views",),
        "errors": ("FormatError",),
        "matching": ("match_rows",),
        "opening": ("open_column", "open_table", "open_target", "open_views"),
        "labels": ("Target",),
        "tables": ("FileTable",),
        "writing": ("TableWriter", "open_writer", "write_table"),
    },
)

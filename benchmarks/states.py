"""Notes below tables on the version of the code with which Coterie's figures were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Line = Mapping[str, Any]

# Source hashes from before landmarks became means and a third basis was added, which changed most figures.
CHANGE = "landmarks were means and a third basis was weighed"
EARLIER = (
    *("61ef1fc924af", "a19f33b8e5c3", "bf482d35a89a", "c1cca615cb7a", "13a59ee583fa", "6037dfadad6d", "6590783e0cb7"),
    *("4ba63472f566", "a881dc8997c4", "ec95dae30ae9", "b73f1bda00a9", "030294282fc1", "68e130ac3a8e", "5a5a585ca88f"),
    *("4de8bad272fc", "78912d73e942", "6d504a7", "3f80214"),
)


def is_earlier(line: Line) -> bool:
    """Return whether a line is from before CHANGE; lines that do not name their code are.

    Examples
    --------
    >>> is_earlier({}), is_earlier({"code": {"source": "4de8bad272fc"}}), is_earlier({"code": {"source": "new"}})
    (True, True, False)
    """
    code = line.get("code")
    source = code.get("source") if isinstance(code, Mapping) else code
    return source is None or source in EARLIER


def earlier_note(lines: Iterable[Line], names: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return no note, or one that says which of Coterie's lines in a table are from before CHANGE.

    Parameters
    ----------
    lines : iterable of dict
        Coterie's lines alone.
    names : dict of str, optional
        Titles of the data sets; with them, a note on some of the lines names their data.
    """
    lines = list(lines)
    old = [line for line in lines if is_earlier(line)]
    if not old:
        return ()
    if len(old) == len(lines):
        return (f"Coterie's figures are from before {CHANGE}.",)
    some = ", ".join(dict.fromkeys(names[line["data"]] for line in old)) if names else "some lines"
    return (f"Coterie's figures are from before {CHANGE} for {some}.",)

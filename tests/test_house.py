"""The rooms of the package: imports point down the list, whatever function they are in."""

import ast
from functools import cache
from pathlib import Path

import pytest

import coterie

SOURCE = Path(coterie.__file__).parent

# From top to bottom. A module may import its own room and those below it.
ROOMS = (
    ("cli", "__main__", "tl", "pl", "serving", "report", "plot", "saving", "drift", "alignment"),
    ("peers",),
    ("suggesting",),
    ("estimator", "new_rows"),
    ("fitting", "joining", "settings", "model", "model_file", "placement", "jobs", "forecast"),
    ("method",),
    ("views",),
    ("rows",),
    ("kernels",),
    ("arrays",),
    ("datasets",),
    ("storage", "formats", "features", "metrics"),
    ("validation", "threads", "progress", "files", "lazy", "waiting", "children", "machine"),
)
FLOORS = {name: floor for floor, room in enumerate(ROOMS) for name in room}

# (module, imported) with the reason for each.
EXCEPTIONS = {
    ("estimator", "report"): "GuidedCoTraining.report and the notebook's summary are the estimator's own doors",
    ("arrays", "kernels"): "is_tensor is defined in kernels",
    ("datasets", "formats"): "data sets are read and written through the formats",
}


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(tree):
    """All modules of the package that a file imports, also inside functions; not those for type checkers alone."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING":
            stack += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where they point"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        stack += ast.iter_child_nodes(node)


@cache
def edges():
    """Every import as (module, room, imported room)."""
    return set(find_edges())


def find_edges():
    rooms = {path.stem for path in SOURCE.iterdir()}
    for path in sorted(SOURCE.rglob("*.py")):
        name = module_name(path)
        if not name:
            continue  # the package itself: its names are found when they are used
        for imported in imports_of(ast.parse(path.read_text())):
            parts = imported.split(".")
            if parts[0] == "coterie" and len(parts) > 1 and parts[1] in rooms:
                yield name, name.split(".")[0], parts[1]


def test_every_module_has_a_room():
    found = {module_name(path).split(".")[0] for path in SOURCE.rglob("*.py")} - {""}
    assert found - set(FLOORS) == set()


def test_imports_point_down():
    upward = {
        (module, imported)
        for module, room, imported in edges()
        if FLOORS[imported] < FLOORS[room] and (room, imported) not in EXCEPTIONS
    }
    assert upward == set()


@pytest.mark.parametrize("edge", EXCEPTIONS)
def test_exceptions_are_needed(edge):
    assert edge in {(room, imported) for _, room, imported in edges()}


def test_imports_are_seen_wherever_they_are():
    code = """
from typing import TYPE_CHECKING
import coterie.rows.memory
from coterie import metrics
if TYPE_CHECKING:
    from coterie.cli import app
def function():
    from coterie.views import Views
"""
    found = set(imports_of(ast.parse(code)))
    assert {"coterie.rows.memory", "coterie.metrics", "coterie.views"} <= found
    assert "coterie.cli" not in found

"""One file per model: parameters and a Fitted <-> the bytes of a file.

The file holds the row map, which is all that new rows need, the fitted attributes, and the parameters. Reading
rebuilds objects of a closed list of classes, and checks that all parts are consistent before any of them is used: see
:mod:`coterie.storage.container` for the bytes and :mod:`coterie.storage.encoding` for the values. The attributes, their
types and their shapes are those of :class:`coterie.model.Fitted`.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, get_args

import numpy as np
from scipy import sparse

from coterie import __version__
from coterie.arrays import squared_norms, to_host
from coterie.method.distances import LandmarkRows
from coterie.method.graphs import CONCATENATION, Graph, GraphMap
from coterie.method.novelty import QUANTILES, NoveltyScale
from coterie.method.rowmap import Basis, Guide, RowMap
from coterie.method.selection import KSuggestion
from coterie.model import ALWAYS, PER_ROW, Fitted, attributes_of_a_fit
from coterie.storage.container import (
    ContainerHeader,
    naming_file,
    read_container,
    read_container_header,
    refuse_file,
    short,
    write_container,
)
from coterie.storage.encoding import Decoder, Encoder, Outliner, conforms
from coterie.views import Preparation, Shape, Step

FORMAT = 1  # goes up whenever older code could not read the new files
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")
CONTENT = {"saved", "libraries", "notes", "n_rows", "parameters", "fitted"}

# scikit-learn keeps the setting of ``set_output`` in this attribute. Files store it beside the fitted attributes.
OUTPUT = "_sklearn_output_config"

# The only classes that a file can hold.
CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *get_args(Step),
        Preparation,
        Graph,
        LandmarkRows,
        GraphMap,
        Basis,
        Guide,
        RowMap,
        Shape,
        KSuggestion,
        NoveltyScale,
    )
}

MAY_BE_NAN = {"agreement", "stability", "separation", "islands"}  # of a KSuggestion: NaN where k was not tried


@dataclass(frozen=True)
class SavedModel:
    """The content of a model file, except notes."""

    parameters: dict[str, Any]
    fitted: Fitted
    output: dict[str, str] | None = None  # the setting of set_output


def write_model(path: str | os.PathLike[str], model: SavedModel, *, rows: bool, notes: Mapping[str, Any]) -> None:
    """Write a model to one file; without ``rows``, leave out the attributes with an entry for every row."""
    fitted = to_host(stored_attributes(model.fitted, rows=rows))
    n_rows = model.fitted.n_rows
    beside = {} if model.output is None else {OUTPUT: model.output}
    encoder = Encoder(CLASSES)
    content = {
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "libraries": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "notes": notes,
        "n_rows": n_rows,
        "parameters": {name: encoder(value, name) for name, value in model.parameters.items()},
        "fitted": {name: encoder(value, name) for name, value in {**fitted, **beside}.items()},
    }
    with naming_file(path):
        check_attributes(fitted, n_rows)  # nothing is written that could not be read again
        check_output(model.output)
        write_container(path, content, encoder.arrays, version=FORMAT, writer=__version__)


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Return the model that a file holds; refuse what :func:`write_model` would not have written."""
    header, arrays = read_container(path, newest=FORMAT)
    with naming_file(path):
        content = _check_content(header)
        decoder = Decoder(arrays, CLASSES)
        parameters = {name: decoder(node) for name, node in content["parameters"].items()}
        stored = {name: decoder(node) for name, node in content["fitted"].items()}
        output = stored.pop(OUTPUT, None)
        check_attributes(stored, content["n_rows"])
        check_output(output)
        if decoder.unused:
            refuse_file(f"it holds an array that nothing uses, {short(min(decoder.unused))}")
    known = attributes_of_a_fit()
    fitted = Fitted(n_rows=content["n_rows"], **{known[name].field: value for name, value in stored.items()})
    return SavedModel(parameters, fitted, output)


def stored_attributes(fitted: Fitted, *, rows: bool) -> dict[str, Any]:
    """Return the attributes of a model that a file stores, by name."""
    return {
        name: getattr(fitted, known.field)
        for name, known in attributes_of_a_fit().items()
        if fitted.has(name) and (rows or known.kind != PER_ROW)
    }


def outline_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the description of a file as plain values, from its header alone."""
    header = read_container_header(path, newest=FORMAT)
    with naming_file(path):
        content = _check_content(header)
        outline = Outliner(CLASSES)
        named = ["view_names_", "_shapes", "preparation_", "n_clusters_"]
        named += [name for name in ("candidates_", "stability_") if name in content["fitted"]]
        fitted = {name: outline(content["fitted"].get(name)) for name in named}
        for name, value in fitted.items():
            _check_type(name, value, attributes_of_a_fit()[name].hint)
        _check_candidates(fitted.get("candidates_", []))
        names, shapes, prepared = fitted["view_names_"], fitted["_shapes"], fitted["preparation_"]
        landmarks = header.spans.get("landmark_indices_")
        if landmarks is None or len(shapes) != len(names) or set(prepared) != set(names):
            refuse_file("its views do not fit together")
        return {
            "coterie": header.writer,
            "libraries": content["libraries"],
            "saved": content["saved"],
            "notes": content["notes"],
            "parameters": {name: _plain(outline(node)) for name, node in content["parameters"].items()},
            "views": [
                {
                    "name": name,
                    "n_columns": shape.n_columns,
                    "columns": None if shape.columns is None else list(shape.columns),
                    "preparation": prepared[name],
                }
                for name, shape in zip(names, shapes, strict=True)
            ],
            "n_clusters": fitted["n_clusters_"],
            "stability": _plain(fitted.get("stability_")),
            "candidates": _plain(fitted.get("candidates_")),
            "n_landmarks": math.prod(landmarks.shape),
            "n_rows": content["n_rows"],
            "has_rows": "labels_" in content["fitted"],
            "file_bytes": header.file_bytes,
            "array_bytes": sum(span.end - span.begin for span in header.spans.values()),
        }


def _plain(value: Any) -> Any:
    """Return a parameter as values that JSON can represent."""
    match value:
        case np.generic():
            return value.item()
        case np.dtype():
            return value.name
        case slice():
            return ":".join("" if bound is None else str(bound) for bound in (value.start, value.stop, value.step))
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
    return value


# -- is it a model? -----------------------------------------------------------------------------------------------


def _check_content(header: ContainerHeader) -> dict[str, Any]:
    content = header.content
    if set(content) != CONTENT:
        refuse_file(f"its content is not made of {', '.join(sorted(CONTENT))}")
    dicts = all(isinstance(content[name], dict) for name in ("libraries", "notes", "parameters", "fitted"))
    if not dicts or not isinstance(content["saved"], str) or not conforms(content["libraries"], dict[str, str]):
        refuse_file("its content is not what it should be")
    if type(content["n_rows"]) is not int or not 0 < content["n_rows"] < 1 << 62:
        refuse_file(f"its number of rows is {short(content['n_rows'])}")
    return content


def check_attributes(fitted: Mapping[str, Any], n_rows: int) -> None:
    """Refuse attributes that no fit would make: missing, of wrong types, or inconsistent."""
    known = attributes_of_a_fit()
    for name, attribute in known.items():
        if attribute.kind == ALWAYS and name not in fitted:
            refuse_file(f"it lacks {name}")
    for name, value in fitted.items():
        if name not in known:
            refuse_file(f"it holds {short(name)}, which no fit leaves behind")
        _check_type(name, value, known[name].hint)
    row_map = fitted["_row_map"]
    sizes = {"n": n_rows, "v": len(fitted["view_names_"])}
    check_row_map(row_map, fitted["view_names_"], fitted["_shapes"], sizes)
    sizes["k"] = fitted["n_clusters_"]
    for name, attribute in known.items():
        if attribute.shape and name in fitted:
            _check_floats(name, fitted[name], attribute.shape, sizes)
    for name in ("cluster_centers_", "_view_places"):
        _check_dtype(name, fitted[name], row_map.graph_map.dtype)
    _check_numbers("landmark_indices_", fitted["landmark_indices_"], "p", sizes, range(n_rows))
    _check_numbers("medoid_indices_", fitted["medoid_indices_"], "k", sizes, range(-1, n_rows))
    if "cluster_sizes_" in fitted:
        _check_numbers("cluster_sizes_", fitted["cluster_sizes_"], "k", sizes, range(n_rows + 1))
        if fitted["cluster_sizes_"].sum() != n_rows:
            refuse_file(f"cluster_sizes_ do not add up to {n_rows} rows")
    if "labels_" in fitted:
        _check_numbers("labels_", fitted["labels_"], "n", sizes, range(sizes["k"]))
    if fitted.get("row_ids_") is not None:
        _check_shape("row_ids_", fitted["row_ids_"], "n", sizes)
    _check_tables(fitted, row_map.graph_map)


def check_output(output: Any) -> None:
    """Refuse a setting of ``set_output`` that scikit-learn does not have."""
    if output is None:
        return
    _check_type(OUTPUT, output, dict[str, str])
    if not set(output) <= {"transform"} or not set(output.values()) <= {"default", "pandas", "polars"}:
        refuse_file("its output is none that scikit-learn knows")


def _check_candidates(records: list[dict[str, Any]]) -> None:
    types = {"name": str, "preparation": str, "agreement": float, "stability": float | None, "chosen": bool}
    for record in records:
        known = {**types, "rounds": int} if "rounds" in record else types  # files of the first version have none
        if set(record) != set(known) or not all(conforms(record[part], hint) for part, hint in known.items()):
            refuse_file(f"candidates_ do not have {', '.join(types)}")


def _check_tables(fitted: Mapping[str, Any], graph_map: GraphMap) -> None:
    """Check the attributes that are dicts and lists, and those that only some models have."""
    _check_candidates(fitted.get("candidates_", []))
    names = [*graph_map.names, graph_map.view_name(CONCATENATION)]
    for name in ("agreement_", "view_weights_"):
        if not set(fitted[name]) <= set(names) or not np.isfinite(list(fitted[name].values())).all():
            refuse_file(f"{name} is not a finite number for every view")
    if set(fitted["preparation_"]) != set(graph_map.names):
        refuse_file("preparation_ is not about the views")
    if list(fitted["singular_values_"]) != graph_map.graph_names():
        refuse_file("singular_values_ are not about the graphs")
    for values in fitted["singular_values_"].values():
        _check_floats("singular_values_", values, "t", {})
    if len(fitted["history_"]) != fitted["n_iter_"] or fitted["n_iter_"] < 1:
        refuse_file("history_ does not have a line for every round")
    width = fitted.get("n_features_in_", 1)
    if width < 1:
        refuse_file("n_features_in_ is below 1")
    if "feature_names_in_" in fitted:
        columns = fitted["feature_names_in_"]
        _check_shape("feature_names_in_", columns, "w", {"w": width})
        if not all(isinstance(column, str) for column in columns):
            refuse_file("feature_names_in_ are not names")
    if "k_suggestion_" in fitted:
        _check_suggestion(fitted["k_suggestion_"])
    if "_novelty_scale" in fitted:
        _check_novelty(fitted["_novelty_scale"], graph_map)


def _check_suggestion(suggestion: KSuggestion) -> None:
    sizes: dict[str, int] = {}
    _check_numbers("k_suggestion_", suggestion.k, "m", sizes, range(1, 1 << 31))
    found = {field.name: getattr(suggestion, field.name) for field in fields(suggestion)}
    found.update(found.pop("graph_gaps"))
    for name, values in found.items():
        if isinstance(values, np.ndarray) and name != "k":
            _check_floats("k_suggestion_", values, "m", sizes, finite=name not in MAY_BE_NAN)
    if not sizes["m"]:
        refuse_file("k_suggestion_ is empty")


def _check_novelty(scale: NoveltyScale, graph_map: GraphMap) -> None:
    sizes = {"v": len(graph_map.names), "w": len({graph.view for graph in graph_map.graphs}), "t": QUANTILES}
    shapes = {"floors": "w", "distances": "wt", "levels": "wt", "scores": "vt", "score_levels": "vt", "present": "v"}
    for name, shape in shapes.items():
        values = getattr(scale, name)
        _check_floats("_novelty_scale", values, shape, sizes)
        ascending = values.ndim == 1 or not (np.diff(values, axis=1) < 0).any()
        if values.min() < 0 or not ascending or (name in ("levels", "score_levels", "present") and values.max() > 1):
            refuse_file("_novelty_scale does not hold ascending quantiles")


def check_row_map(row_map: RowMap, names: tuple[str, ...], shapes: tuple[Shape, ...], sizes: dict[str, int]) -> None:
    """Refuse a map whose parts do not fit together; its sizes are added to ``sizes``."""
    graph_map = row_map.graph_map
    if not names or graph_map.names != names or len(set(names)) < len(names):
        refuse_file("its views have no names, or several")
    if not len(graph_map.preparations) == len(graph_map.landmarks) == len(shapes) == len(names):
        refuse_file(f"it has {len(names)} views, but not as many preparations, landmarks and shapes")
    if graph_map.dtype not in (np.float32, np.float64):
        refuse_file(f"its precision is {graph_map.dtype}")
    for name, shape, preparation, landmarks in zip(
        names, shapes, graph_map.preparations, graph_map.landmarks, strict=True
    ):
        width = _check_preparation(f"view {short(name)}", preparation, shape)
        _check_dtype(f"view {short(name)}", landmarks.rows, graph_map.dtype)
        if preparation.dtype != graph_map.dtype:
            refuse_file("its views have several precisions")
        _check_landmarks(f"the landmarks of view {short(name)}", landmarks, width, sizes)
    _check_graphs(graph_map.graphs, sizes)
    for basis in (row_map.basis, *(guide.basis for guide in row_map.guides)):
        _check_basis(basis, graph_map.dtype, sizes)
    for guide in row_map.guides:
        _check_floats("a guide", guide.anchors, "pc", sizes)
        _check_dtype("a guide", guide.anchors, graph_map.dtype)


def _check_preparation(label: str, preparation: Preparation, shape: Shape) -> int:
    """Check a preparation, and return the number of columns of prepared rows."""
    if shape.n_columns < 1 or (shape.columns is not None and len(shape.columns) != shape.n_columns):
        refuse_file(f"{label} does not have a name for every column")
    _check_positive(label, preparation.factor)
    width = shape.n_columns
    for step in preparation.steps:
        for field in fields(step):
            value = getattr(step, field.name)
            if conforms(value, float):
                _check_positive(label, value)
            elif isinstance(value, np.ndarray) or sparse.issparse(value):
                # A vector has a number for every column; a matrix maps the columns to new ones.
                _check_floats(label, value, "d" if value.ndim == 1 else "de", {"d": width})
                width = value.shape[-1]
    return width


def _check_landmarks(label: str, landmarks: LandmarkRows, width: int, sizes: dict[str, int]) -> None:
    sizes["d"] = width
    _check_floats(label, landmarks.rows, "pd", sizes)
    _check_shape(label, landmarks.present, "p", sizes)
    if landmarks.present.dtype != bool or not sizes["p"]:
        refuse_file(f"{label} are not there")
    # Finite squared lengths, which a fit requires too, ensure finite products: never infinity minus infinity.
    with np.errstate(over="ignore"):
        longest = squared_norms(landmarks.rows).max(initial=0)
    if not np.isfinite(longest):
        refuse_file(f"{label} are too far out to be squared")


def _check_graphs(graphs: tuple[Graph, ...], sizes: dict[str, int]) -> None:
    sizes["g"] = len(graphs)
    if not set(range(sizes["v"])) <= {graph.view for graph in graphs} <= set(range(CONCATENATION, sizes["v"])):
        refuse_file("its graphs are not about its views")
    for graph in graphs:
        if not 1 <= graph.n_neighbors <= sizes["p"]:
            refuse_file(f"a graph joins rows to {short(graph.n_neighbors)} of {sizes['p']} landmarks")
        if not 0 <= graph.bandwidth < np.inf:
            refuse_file(f"a graph has bandwidth {short(graph.bandwidth)}")


def _check_basis(basis: Basis, dtype: np.dtype, sizes: dict[str, int]) -> None:
    _check_floats("a basis", basis.bases, "gpr", sizes)
    _check_floats("a basis", basis.rotation, "grc", sizes)
    if not basis.bases.size or not basis.rotation.size:
        refuse_file("a basis is empty")
    _check_dtype("a basis", basis.bases, dtype)
    _check_dtype("a basis", basis.rotation, dtype)


def _check_type(name: str, value: Any, hint: Any) -> None:
    if not conforms(value, hint):
        refuse_file(f"{name} is of the wrong type")


def _check_dtype(label: str, array: Any, dtype: np.dtype) -> None:
    if getattr(array, "dtype", None) != dtype:
        refuse_file(f"{label} is not of type {dtype}")


def _check_shape(label: str, array: Any, letters: str, sizes: dict[str, int]) -> None:
    """Check an array's shape, given by a letter per axis; letters without a size get that of the array."""
    shape = getattr(array, "shape", ())
    if len(shape) != len(letters) or any(
        sizes.setdefault(letter, size) != size for letter, size in zip(letters, shape, strict=True)
    ):
        wanted = ", ".join(str(sizes.get(letter, "any")) for letter in letters)
        refuse_file(f"{label} has shape {shape} where it should be ({wanted})")


def _check_floats(label: str, table: Any, letters: str, sizes: dict[str, int], *, finite: bool = True) -> None:
    _check_shape(label, table, letters, sizes)
    values = table.data if sparse.issparse(table) else table
    if values.dtype.kind != "f":
        refuse_file(f"{label} is of type {values.dtype} where floats should be")
    if finite and not np.isfinite(values).all():
        refuse_file(f"{label} holds NaN or infinity")


def _check_numbers(label: str, array: np.ndarray, letters: str, sizes: dict[str, int], allowed: range) -> None:
    _check_shape(label, array, letters, sizes)
    if array.dtype.kind not in "iu":
        refuse_file(f"{label} is of type {array.dtype} where whole numbers should be")
    if array.size and not allowed.start <= array.min() <= array.max() < allowed.stop:
        refuse_file(f"{label} reaches outside of {allowed.start} to {allowed.stop - 1}")


def _check_positive(label: str, value: float) -> None:
    if not 0 < value < np.inf:
        refuse_file(f"{label} is scaled by {short(value)}")

"""Values <-> plain JSON and arrays, by a closed list of types: nothing in a file can name code.

None, booleans, whole numbers, finite floats, strings and lists represent themselves. Everything else is an object with
one key, which names its kind: ``{"tuple": [1, 2]}``, ``{"array": ["landmarks"]}``, ``{"object": ["Clip", {...}]}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from coterie.formats.stores import build_csr
from coterie.storage.container import STORED_DTYPES, parse_json, refuse_file, short

KnownClasses = Mapping[str, type]  # the dataclasses that a file may hold, by name

DTYPE_NAMES = {dtype.name: dtype for dtype in STORED_DTYPES.values()}
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")
TIMES = {f"{kind}[{unit}]" for kind in ("datetime64", "timedelta64") for unit in UNITS}
MAX_INT = 1 << 64


class Encoder:
    """Turns values into JSON, and collects their arrays.

    Examples
    --------
    >>> encoder = Encoder({})
    >>> encoder((1, slice(None, 3), float("inf")), "pair")
    {'tuple': [1, {'slice': [None, 3, None]}, {'float': 'inf'}]}
    >>> encoder(np.ones((2, 3)), "table"), list(encoder.arrays)
    ({'array': ['table']}, ['table'])
    """

    def __init__(self, classes: KnownClasses) -> None:
        self.classes = classes
        self.arrays: dict[str, np.ndarray] = {}

    def __call__(self, value: Any, path: str) -> Any:
        """Return a value as JSON; ``path`` names it in errors, and its arrays in the file."""
        match value:
            case np.generic() if value.dtype.name in DTYPE_NAMES:
                return {"scalar": [value.dtype.name, self(value.item(), path)]}
            case None | bool():
                return value
            case str():
                return str(value)
            case int() if -MAX_INT < value < MAX_INT:
                return int(value)
            case float():
                return float(value) if math.isfinite(value) else {"float": str(float(value))}
            case list() | range():
                return self._each(value, path)
            case tuple():
                return {"tuple": self._each(value, path)}
            case slice():
                return {"slice": self._each([value.start, value.stop, value.step], path)}
            case dict():
                return {"dict": [self._each(pair, f"{path}.{i}") for i, pair in enumerate(value.items())]}
            case np.ndarray():
                return self._array(value, path)
            case np.dtype() if value.name in DTYPE_NAMES:
                return {"dtype": value.name}
            case type() if issubclass(value, np.generic) and np.dtype(value).name in DTYPE_NAMES:
                return {"dtype": np.dtype(value).name}
        if sparse.issparse(value) and value.format == "csr":
            parts = {part: getattr(value, part) for part in ("data", "indices", "indptr")}
            return {"csr": [*(self(part, f"{path}.{name}") for name, part in parts.items()), list(value.shape)]}
        if is_dataclass(value) and self.classes.get(type(value).__name__) is type(value):
            parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            return {"object": [type(value).__name__, {n: self(part, f"{path}.{n}") for n, part in parts.items()}]}
        raise TypeError(
            f"{path} holds a {type(value).__module__}.{type(value).__qualname__}, which a model file cannot hold. "
            "Use numbers, strings, lists, dicts, slices or NumPy arrays of them."
        )

    def _each(self, values: Any, path: str) -> list[Any]:
        return [self(value, f"{path}.{i}") for i, value in enumerate(values)]

    def _array(self, array: np.ndarray, path: str) -> Any:
        kind = array.dtype.kind
        if kind in "OT":
            items = Encoder({})
            text = json.dumps([items(item, f"{path}[{i}]") for i, item in enumerate(array.ravel().tolist())])
            if items.arrays:
                raise TypeError(f"{path} holds arrays inside an array, which a model file cannot hold.")
            return {"objects": [self._keep(np.frombuffer(text.encode(), dtype=np.uint8), path), list(array.shape)]}
        if kind == "U" and array.dtype.itemsize:
            letters = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C").view("<u4")
            return {"unicode": [self._keep(letters.reshape(*array.shape, -1), path)]}
        if array.dtype.name in TIMES:
            return {"time": [self._keep(array.astype("<i8"), path), array.dtype.name]}
        if array.dtype.name not in DTYPE_NAMES:
            raise TypeError(f"{path} is an array of {array.dtype}, which a model file cannot hold. Convert it first.")
        # The order of axes in memory is kept, because products may be rounded differently in another one.
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        if array.flags.c_contiguous or not array.transpose(axes).flags.c_contiguous:
            return {"array": [self._keep(array, path)]}
        return {"array": [self._keep(array.transpose(axes), path), axes]}

    def _keep(self, array: np.ndarray, path: str) -> str:
        self.arrays[path] = np.asarray(array, dtype=DTYPE_NAMES[array.dtype.name], order="C")
        return path


class Decoder:
    """Turns JSON and arrays back into values, and refuses anything that the encoder would not have written."""

    def __init__(self, arrays: Mapping[str, np.ndarray], classes: KnownClasses) -> None:
        self.arrays = arrays
        self.classes = classes
        self.unused = set(arrays)
        self.readers: dict[str, Callable[[Any], Any]] = {
            "float": self._float,
            "scalar": self._scalar,
            "tuple": lambda node: tuple(self._list(node)),
            "dict": self._dict,
            "slice": self._slice,
            "dtype": self._dtype,
            "array": self._array,
            "unicode": self._unicode,
            "time": self._time,
            "objects": self._objects,
            "csr": self._csr,
            "object": self._object,
        }

    def __call__(self, node: Any) -> Any:
        """Return the value that a node of JSON represents."""
        if node is None or isinstance(node, bool | str | float):
            return node
        if isinstance(node, int):
            return node if -MAX_INT < node < MAX_INT else refuse_file("it holds a whole number of more than 64 bits")
        if isinstance(node, list):
            return self._list(node)
        (tag,) = node if len(node) == 1 else ("",)
        if tag not in self.readers:
            refuse_file(f"it holds a value of an unknown kind, {short(tag)}")
        return self.readers[tag](node[tag])

    def _list(self, node: Any) -> list[Any]:
        if not isinstance(node, list):
            refuse_file(f"it holds {short(node)} where a list should be")
        return [self(item) for item in node]

    def _slice(self, node: Any) -> slice:
        bounds = self._list(expect_list(node, 3))
        if not all(conforms(bound, int | None) for bound in bounds):
            refuse_file("it holds a slice between other things than whole numbers")
        return slice(*bounds)

    def _float(self, node: Any) -> float:
        return float(node) if node in ("nan", "inf", "-inf") else refuse_file(f"it holds {short(node)} for a number")

    def _dtype(self, node: Any) -> np.dtype:
        return (
            DTYPE_NAMES[node]
            if isinstance(node, str) and node in DTYPE_NAMES
            else refuse_file(f"it holds type {short(node)}")
        )

    def _scalar(self, node: Any) -> Any:
        name, value = expect_list(node, 2)
        dtype, value = self._dtype(name), self(value)
        fits = isinstance(value, bool) if dtype.kind == "b" else conforms(value, float if dtype.kind == "f" else int)
        if not fits or (dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max):
            refuse_file(f"it holds {short(value)} for a number of type {dtype}")
        with np.errstate(over="ignore"):
            return dtype.type(value)

    def _dict(self, node: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for pair in self._list(node):
            key, value = expect_list(pair, 2)
            if not isinstance(key, str | int | float | None) or key in found:
                refuse_file("it holds a dict with a key that comes twice, or cannot be one")
            found[key] = value
        return found

    def _take(self, name: Any) -> np.ndarray:
        if not isinstance(name, str) or name not in self.unused:
            refuse_file(f"it lacks array {short(name)}, or uses it twice")
        self.unused.remove(name)
        return self.arrays[name]

    def _array(self, node: Any) -> np.ndarray:
        name, *axes = expect_list(node)
        array = self._take(name)
        if not axes:
            return array
        if len(axes) != 1 or not isinstance(axes[0], list) or not is_order(axes[0], array.ndim):
            refuse_file(f"array {short(name)} has no possible order of axes")
        return array.transpose(np.argsort(axes[0]))

    def _unicode(self, node: Any) -> np.ndarray:
        (name,) = expect_list(node, 1)
        letters = self._take(name)
        if letters.dtype != np.uint32 or not letters.ndim or not letters.shape[-1] or letters.max(initial=0) > 0x10FFFF:
            refuse_file(f"array {short(name)} does not hold letters")
        return letters.view(f"<U{letters.shape[-1]}")[..., 0]

    def _time(self, node: Any) -> np.ndarray:
        name, unit = expect_list(node, 2)
        numbers = self._take(name)
        if numbers.dtype != np.int64 or not isinstance(unit, str) or unit not in TIMES:
            refuse_file(f"array {short(name)} does not hold times")
        return numbers.view(unit)

    def _objects(self, node: Any) -> np.ndarray:
        name, shape = expect_list(node, 2)
        letters = self._take(name)
        if letters.dtype != np.uint8 or letters.ndim != 1:
            refuse_file(f"array {short(name)} does not hold a text")
        items = Decoder({}, {})(parse_json(letters.tobytes(), max_lists=10 + len(letters) // 6))
        if not isinstance(items, list) or not is_shape(shape) or math.prod(shape) != len(items):
            refuse_file(f"array {short(name)} does not hold as many items as its shape says")
        return np.fromiter(items, dtype=object, count=len(items)).reshape(shape)

    def _csr(self, node: Any) -> sparse.csr_array:
        *parts, shape = expect_list(node, 4)
        data, indices, indptr = (self(part) for part in parts)
        if not all(isinstance(part, np.ndarray) for part in (data, indices, indptr)):
            refuse_file("a sparse table is not made of three vectors")
        if not is_shape(shape) or len(shape) != 2 or not indices.dtype == indptr.dtype in (np.int32, np.int64):
            refuse_file("a sparse table has no possible shape or type")
        try:
            return build_csr(data, indices, indptr, tuple(shape))
        except ValueError as error:
            refuse_file(f"a sparse table in it is broken ({str(error).rstrip('.')})")

    def _object(self, node: Any) -> Any:
        name, parts = expect_list(node, 2)
        if not isinstance(name, str) or name not in self.classes:
            refuse_file(f"it holds an object of an unknown class, {short(name)}")
        cls = self.classes[name]
        known = {field.name: field.default is MISSING for field in fields(cls) if field.init}
        # Fields added to a class later have a default, so that older files can lack them.
        needed = {part for part, is_needed in known.items() if is_needed}
        if not isinstance(parts, dict) or not needed <= set(parts) <= set(known):
            refuse_file(f"a {name} in it has other parts than {', '.join(known) or 'none'}")
        values = {part: self(node) for part, node in parts.items()}
        hints = get_type_hints(cls)
        for part, value in values.items():
            if not conforms(value, hints[part]):
                refuse_file(f"{name}.{part} in it is of the wrong type")
        return cls(**values)


class Outliner(Decoder):
    """Reads values without their arrays, each of which becomes a short text."""

    def __init__(self, classes: KnownClasses) -> None:
        super().__init__({}, classes)
        self.readers.update(dict.fromkeys(("array", "unicode", "time", "objects"), lambda node: "(array)"))
        self.readers["csr"] = lambda node: "(sparse table)"


def expect_list(node: Any, length: int | None = None) -> list[Any]:
    """Return a node after checking that it is a list, of a given length or not empty."""
    if not isinstance(node, list) or (len(node) != length if length is not None else not node):
        refuse_file(f"it holds {short(node)} where {length or 'some'} values should be")
    return node


def is_shape(shape: Any) -> bool:
    """Whether a list can be the shape of an array."""
    return isinstance(shape, list) and all(type(size) is int and 0 <= size < 1 << 48 for size in shape)


def is_order(axes: list[Any], n_axes: int) -> bool:
    """Whether a list holds every axis once."""
    return all(type(axis) is int for axis in axes) and sorted(axes) == list(range(n_axes))


def conforms(value: Any, hint: Any) -> bool:
    """Return whether a value is of the type of an annotation.

    Examples
    --------
    >>> conforms((1, 2), tuple[int, ...]), conforms({"a": 1}, dict[str, str]), conforms(True, int)
    (True, False, False)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(conforms(value, part) for part in inner)
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool | np.bool_)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if origin is tuple and inner[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(conforms, value, inner))
    if origin in (tuple, list):
        return isinstance(value, origin) and all(conforms(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            conforms(k, inner[0]) and conforms(v, inner[1]) for k, v in value.items()
        )
    return isinstance(value, origin or hint)

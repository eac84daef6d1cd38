"""One file for one multi-view data set: reading and writing the bundle format.

A bundle is an ``.npz`` archive without pickled objects:

==================================================== =====================================
key                                                  meaning
==================================================== =====================================
``view_names``                                       the names of the views, in order
``view_1``, ``view_2``, ...                          a dense view, rows by columns
``view_1_data``, ``_indices``, ``_indptr``,          a sparse view instead, as CSR
``_shape``
``y``                                                int32 labels from 0; may be left out
==================================================== =====================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coterie.files import written_whole
from coterie.formats.errors import one_line
from coterie.formats.numpy_files import member, members, read_names, required
from coterie.formats.stores import build_csr

SUFFIX = ".npz"
CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_bundle(path: Path) -> tuple[dict[str, NDArray[Any] | sparse.csr_array], NDArray[np.int32] | None]:
    """Return the views of a bundle by name, and the labels, if it has any."""
    arrays = read_arrays(path)
    names = read_names(arrays, path)
    views = {name: read_view(arrays, i, path) for i, name in enumerate(names, start=1)}
    target = as_target(arrays["y"], f"{path}: 'y'") if "y" in arrays else None
    check_same_rows(views, target, f"{path}")
    return views, target


def write_bundle(path: Path, views: Mapping[str, Any], target: Any = None) -> None:
    """Write a bundle; the file appears under its name only when it is complete."""
    arrays: dict[str, Any] = {"view_names": np.array(list(views), dtype=np.str_)}
    kept = {name: as_view(view, f"view {name!r} for {path}") for name, view in views.items()}
    labels = None if target is None else as_target(np.asarray(target), f"target for {path}")
    check_same_rows(kept, labels, f"The data for {path}")
    for i, view in enumerate(kept.values(), start=1):
        arrays.update(view_arrays(view, i))
    if labels is not None:
        arrays["y"] = labels
    with written_whole(path) as file:
        np.savez_compressed(file, **arrays)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an ``.npz`` file, none of them pickled and none larger than the file says."""
    try:
        with open(path, "rb") as file:  # NumPy would leave a file open that it cannot read
            if file.read(6) == np.lib.format.MAGIC_PREFIX:
                raise ValueError("it holds a single array")
            file.seek(0)
            for key in members(path):
                member(path, key)
            archive = np.load(file, allow_pickle=False)
            return {key: archive[key] for key in archive.files}
    except MemoryError:
        raise
    except Exception as error:  # NumPy and zipfile may raise anything when they meet a broken file
        raise ValueError(
            f"{path} is not a complete .npz archive of plain arrays: {one_line(error)}. "
            "Coterie reads no pickles; write the file with coterie.datasets.save_views."
        ) from error


def read_view(arrays: Mapping[str, NDArray[Any]], i: int, path: Path) -> NDArray[Any] | sparse.csr_array:
    """Return view i, counted from 1."""
    key = f"view_{i}"
    if f"{key}_data" not in arrays:
        return as_view(required(arrays, key, path), f"{path}: {key!r}")
    data, indices, indptr, shape = (required(arrays, f"{key}_{part}", path) for part in CSR_PARTS)
    with calling(f"{path}: {key!r}"):
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
            raise ValueError(f"'_shape' must be two whole numbers. Got {shape} instead.")
        return build_csr(data, indices, indptr, (int(shape[0]), int(shape[1])), prefix="_")


@contextmanager
def calling(owner: str) -> Iterator[None]:
    """Prefix the messages of ValueErrors inside with ``owner``, the part of the file that they are about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None


def as_target(labels: NDArray[Any], owner: str) -> NDArray[np.int32]:
    """Return labels as int32, after a check that the conversion changes no value."""
    whole = labels.ndim == 1 and labels.dtype.kind in "iu"
    if not whole or (labels.size and not 0 <= labels.min() <= labels.max() < 2**31):
        raise ValueError(
            f"{owner} must be whole numbers from 0, one per row. "
            f"Got {labels.dtype} of shape {labels.shape}. "
            "Number other labels first: np.unique(labels, return_inverse=True)[1]."
        )
    return labels.astype(np.int32, copy=False)


def as_view(view: Any, owner: str) -> NDArray[Any] | sparse.csr_array:
    """Return a view as an array, or as a CSR array if it is sparse."""
    if sparse.issparse(view):
        return sparse.csr_array(view)
    view = np.asarray(view)
    if view.ndim != 2 or view.dtype.kind not in "buif":
        raise ValueError(
            f"{owner} must be a two-dimensional array of real numbers. Got {view.dtype} of shape {view.shape} instead."
        )
    return view


def view_arrays(view: NDArray[Any] | sparse.csr_array, i: int) -> dict[str, NDArray[Any]]:
    """Return the arrays that a bundle holds for view i, by key."""
    key = f"view_{i}"
    if isinstance(view, np.ndarray):
        return {key: view}
    parts = (view.data, view.indices, view.indptr, np.array(view.shape, dtype=np.int64))
    return {f"{key}_{name}": part for name, part in zip(CSR_PARTS, parts, strict=True)}


def check_same_rows(
    views: Mapping[str, NDArray[Any] | sparse.csr_array],
    target: NDArray[np.int32] | None,
    owner: str,
) -> None:
    """Refuse views, and labels, that do not all have the same rows."""
    counts = {f"view {name!r}": view.shape[0] for name, view in views.items()}
    if not counts:
        raise ValueError(f"{owner}: there must be at least one view.")
    if target is not None:
        counts["'y'"] = len(target)
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ValueError(f"{owner}: all views and 'y' must have the same number of rows; {listed}.")

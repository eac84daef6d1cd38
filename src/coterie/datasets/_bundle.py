"""Data sets of several views, in files of the bundle format (`coterie.formats.bundles`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coterie.datasets._home import find_home
from coterie.files import expand_home
from coterie.formats.bundles import SUFFIX, read_bundle, write_bundle


@dataclass(frozen=True, eq=False, repr=False)
class MultiViewData:
    """Rows seen through several views.

    Attributes
    ----------
    views : dict of str to ndarray or csr_array
        The views by name, in order; all have the same rows.
    target : ndarray of int32 or None
        The true groups, from 0, for evaluation only.
    name : str

    Examples
    --------
    >>> import numpy as np
    >>> MultiViewData({"a": np.zeros((4, 2)), "b": np.zeros((4, 3))}, None, "toy")
    MultiViewData('toy', 4 rows, a: 2 float64, b: 3 float64)
    """

    views: dict[str, NDArray[Any] | sparse.csr_array]
    target: NDArray[np.int32] | None
    name: str

    def __repr__(self) -> str:
        n_rows = next(iter(self.views.values())).shape[0] if self.views else 0
        views = (
            f"{name}: {view.shape[1]} {view.dtype}{' sparse' if sparse.issparse(view) else ''}"
            for name, view in self.views.items()
        )
        return f"MultiViewData({', '.join([repr(self.name), f'{n_rows} rows', *views])})"


def load_views(
    path_or_name: str | os.PathLike[str], *, data_home: str | os.PathLike[str] | None = None
) -> MultiViewData:
    """Read a bundle.

    Parameters
    ----------
    path_or_name : str or path
        A file, or the name of a bundle in the data folder, such as ``"mfeat"``.
    data_home : str, path or None, default=None
        The data folder, for a name. None takes the environment variable COTERIE_DATA, else the
        user's cache folder.

    Returns
    -------
    MultiViewData

    Raises
    ------
    FileNotFoundError
        If there is no such bundle; the message lists those that there are.
    ValueError
        If the file is not a bundle; the message names the file and the key.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/toy.npz"
    >>> _ = save_views(path, {"a": np.eye(3), "b": np.ones((3, 2))}, [0, 0, 1])
    >>> load_views(path)
    MultiViewData('toy', 3 rows, a: 3 float64, b: 2 float64)
    """
    path = find_bundle(path_or_name, data_home)
    views, target = read_bundle(path)
    return MultiViewData(views, target, path.stem)


def save_views(path: str | os.PathLike[str], views: Mapping[str, Any], target: Any = None) -> Path:
    """Write a bundle; the file appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path
        Where to write; ``.npz`` is added if it is missing.
    views : mapping of str to array-like or sparse array
        The views by name, all with the same rows.
    target : array-like of int or None, default=None
        The true groups, from 0.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile
    >>> save_views(tempfile.mkdtemp() + "/toy", {"a": [[1.0], [2.0]]}).name
    'toy.npz'
    """
    path = Path(path)
    path = path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)
    write_bundle(path, views, target)
    return path


def find_bundle(path_or_name: str | os.PathLike[str], data_home: str | os.PathLike[str] | None) -> Path:
    """Return the file of a bundle, given by its path or its name."""
    path = expand_home(path_or_name)
    if path.suffix == SUFFIX or path.name != str(path_or_name):
        if path.is_file():
            return path
        raise FileNotFoundError(f"There is no file {path}.")
    home = find_home(data_home)
    found = home / f"{path.name}{SUFFIX}"
    if found.is_file():
        return found
    there = ", ".join(sorted(file.stem for file in home.glob(f"*{SUFFIX}"))) or "none"
    raise FileNotFoundError(
        f"There is no bundle {path.name!r} in {home} (there: {there}). Set the environment "
        "variable COTERIE_DATA to the folder that has it, or pass data_home or a file's path."
    )

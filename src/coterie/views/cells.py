"""Convert AnnData and MuData to tables with cell names; neither package is imported to recognise its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class CellTable:
    """One view of some cells: a table, the cells' names, and the columns' names if there are any."""

    data: Any  # (cells, d)
    index: Any  # a pandas index, (cells,)
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Cells:
    """The views of an AnnData or MuData object, and the names of all its cells in the object's order."""

    tables: dict[str, CellTable]
    index: Any


def is_anndata(data: Any) -> bool:
    """Whether an object is an AnnData."""
    return any(f"{cls.__module__.split('.')[0]}.{cls.__name__}" == "anndata.AnnData" for cls in type(data).__mro__)


def is_mudata(data: Any) -> bool:
    """Whether an object is a MuData."""
    return any(f"{cls.__module__.split('.')[0]}.{cls.__name__}" == "mudata.MuData" for cls in type(data).__mro__)


def cells_of(data: Any, views: Sequence[str] | Mapping[str, str] | None = None) -> Cells:
    """Return the views of an AnnData or MuData object; nothing that is in memory is copied.

    Parameters
    ----------
    data : AnnData or MuData
    views : list or dict of str, default=None
        For AnnData: "X", layers ("layers/counts") and entries of obsm ("X_pca", or "obsm/X_pca"), or a dict from
        names to these; None takes X. For MuData: modalities, or a dict from modalities to what to take of each; None
        takes X of all modalities.

    Examples
    --------
    >>> import anndata
    >>> cells = anndata.AnnData(np.eye(3), obsm={"X_pca": np.ones((3, 2))})
    >>> {name: table.data.shape for name, table in cells_of(cells, ["X", "X_pca"]).tables.items()}
    {'X': (3, 3), 'X_pca': (3, 2)}
    """
    if is_mudata(data):
        return _modalities_of(data, views)
    if not is_anndata(data):
        raise TypeError(f"coterie.tl takes an AnnData or MuData object. Got a {type(data).__name__} instead.")
    chosen = ["X"] if views is None else views
    entries = dict(chosen) if isinstance(chosen, Mapping) else {name: name for name in as_list(chosen)}
    return Cells({name: entry_of(data, entry, "The object") for name, entry in entries.items()}, data.obs_names)


def _modalities_of(data: Any, views: Sequence[str] | Mapping[str, str] | None) -> Cells:
    if getattr(data, "axis", 0) != 0:
        raise ValueError(
            "The modalities of this MuData share variables instead of cells (axis=1), so they are not views of the "
            "same cells. Concatenate them, or pass a MuData with axis=0."
        )
    chosen = list(data.mod) if views is None else views
    entries = dict(chosen) if isinstance(chosen, Mapping) else {name: "X" for name in as_list(chosen)}
    unknown = [name for name in entries if name not in data.mod]
    if unknown:
        raise ValueError(f"There is no modality {unknown[0]!r}. There are: {', '.join(data.mod)}.")
    nested = [name for name in entries if not is_anndata(data.mod[name])]
    if nested:
        raise ValueError(f"Modality {nested[0]!r} is a {type(data.mod[nested[0]]).__name__}. Pass it alone.")
    for name in entries:
        check_known(data.mod[name].obs_names, data.obs_names, name)
    tables = {
        name: entry_of(data.mod[name], entry, f"Modality {name!r}", f"{name}/") for name, entry in entries.items()
    }
    return Cells(tables, data.obs_names)


def check_known(own: Any, all_cells: Any, name: str) -> None:
    """Raise ValueError if a modality has cells that the whole object lacks: they would be left out."""
    if own.equals(all_cells):
        return
    missing = ~own.isin(all_cells)  # (cells,)
    if missing.any():
        raise ValueError(
            f"Modality {name!r} has {missing.sum():,} cells that the MuData does not list in its obs_names (the first "
            f"is {own[missing.argmax()]!r}): it was changed afterwards. Call update() on the MuData."
        )


def as_list(views: Any) -> list[str]:
    """Return names of views as a list; a single one may be given as a string. Refuse one that is there twice."""
    found = [views] if isinstance(views, str) else list(views)
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"The list of views has {twice!r} twice. Leave one of them out.")
    return found


def entry_of(data: Any, entry: str, owner: str, folder: str = "") -> CellTable:
    """Return X, a layer or an entry of obsm; ``folder`` is the group of a backed object in its file."""
    if entry == "X" and data.X is not None:
        return CellTable(_x_of(data, folder), data.obs_names, tuple(map(str, data.var_names)))
    kind, _, name = entry.rpartition("/")
    for known, entries in (("obsm", data.obsm), ("layers", data.layers)):
        if kind in ("", known) and name in entries:
            table = entries[name]
            columns = getattr(table, "columns", None) if known == "obsm" else data.var_names
            return CellTable(
                table.to_numpy() if hasattr(table, "iloc") else plain(table),
                data.obs_names,
                None if columns is None else tuple(map(str, columns)),
            )
    there = [*(["X"] if data.X is not None else []), *data.obsm, *(f"layers/{layer}" for layer in data.layers)]
    example = "X" if data.X is not None else (there or ["X"])[0]
    remedy = f" Say what each view is: views={{{entry!r}: {example!r}}}." if not kind and not folder else ""
    raise ValueError(f"{owner} has no {entry!r}. There are: {', '.join(there)}.{remedy}")


def _x_of(data: Any, folder: str) -> Any:
    """Return X; that of a backed object stays in its file and is read block by block."""
    if not data.isbacked or data.is_view:
        return plain(data.X)
    from coterie.formats import open_table

    return open_table(str(data.filename), key=f"{folder}X")


def plain(table: Any) -> Any:
    """Return a table as a plain NumPy, SciPy, Dask or torch object: anndata wraps views and backed arrays."""
    if hasattr(table, "to_memory"):
        table = table.to_memory()
    wrapped = type(table).__module__.split(".")[0] in ("anndata", "h5py") and not sparse.issparse(table)
    return np.asarray(table) if wrapped else table


def weight_column(key: str, view: str) -> str:
    """Return the name of the obs column that holds the weights of a view.

    Examples
    --------
    >>> weight_column("coterie", "rna"), weight_column("coterie", "obsm/X_pca")
    ('coterie_weight_rna', 'coterie_weight_obsm:X_pca')
    """
    return f"{key}_weight_{writable(view)}"


def writable(view: str) -> str:
    """Return a view's name without slashes, which would begin a group in .h5ad."""
    return view.replace("/", ":")

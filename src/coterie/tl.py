"""Tools for AnnData and MuData, in the habits of scverse: results are written into the object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.estimator import GuidedCoTraining

__all__ = ["cluster", "views_of"]

KEY = "coterie"


def cluster(
    data: Any,
    n_clusters: int | str = "auto",
    *,
    views: Sequence[str] | Mapping[str, str] | None = None,
    key_added: str = KEY,
    random_state: Any = 0,
    copy: bool = False,
    **settings: Any,
) -> Any:
    """Cluster the cells of an AnnData or MuData object by all their views.

    Writes ``obs["coterie"]`` (categories "0", "1", ...), ``obs["coterie_confidence"]`` and ``uns["coterie"]``: the
    parameters, and for every view its weight, how far it agrees with the others and what was done to it.

    Parameters
    ----------
    data : AnnData or MuData
        Cells are rows. A cell that a modality of MuData does not have lacks that view.
    n_clusters : int or "auto", default="auto"
        Number of clusters; "auto" looks for it.
    views : list or dict of str, default=None
        What the views are: see `views_of`.
    key_added : str, default="coterie"
        The name under which the results are written.
    random_state : int, RandomState or None, default=0
        Seed of everything that is drawn.
    copy : bool, default=False
        Whether to leave ``data`` as it is and return a copy with the results.
    **settings
        Other parameters of :class:`coterie.GuidedCoTraining`.

    Returns
    -------
    AnnData, MuData or None
        The copy; None without ``copy``.

    Examples
    --------
    >>> import anndata
    >>> from coterie.datasets import make_views
    >>> rna, protein, _ = make_views(200, n_clusters=3, separation=6, random_state=0).views.values()
    >>> cells = anndata.AnnData(rna, obsm={"protein": protein})
    >>> cluster(cells, 3, views=["X", "protein"])
    >>> cells.obs["coterie"].cat.categories.tolist()
    ['0', '1', '2']
    """
    if copy:
        data = data.copy()
    tables = views_of(data, views)
    model = GuidedCoTraining(n_clusters, random_state=random_state, **settings).fit(tables)
    labels = np.asarray(model.labels_)
    data.obs[key_added] = as_categories(labels, model.n_clusters_)
    data.obs[f"{key_added}_confidence"] = np.asarray(model.confidence_)
    data.uns[key_added] = {
        "params": {"n_clusters": model.n_clusters_, "views": list(tables), **storable(model.get_params())},
        "preparation": dict(model.preparation_),
        "view_weights": {name: float(weight) for name, weight in model.view_weights_.items()},
        "agreement": {name: float(share) for name, share in model.agreement_.items()},
        "cluster_agreement": np.asarray(model.cluster_agreement_),
    }
    return data if copy else None


def views_of(data: Any, views: Sequence[str] | Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the views of an AnnData or MuData object as tables that a fit takes.

    Parameters
    ----------
    data : AnnData or MuData
    views : list or dict of str, default=None
        For AnnData, what to take: "X", a layer ("layers/counts") or an entry of obsm ("X_pca", or "obsm/X_pca"); None
        takes X. For MuData, a list of modalities, or a dict from modalities to what to take of each; None takes X of
        all modalities.

    Returns
    -------
    dict of str to table
        Tables whose rows are the object's cells. A cell that a modality lacks is NaN throughout.

    Examples
    --------
    >>> import anndata
    >>> cells = anndata.AnnData(np.eye(3), obsm={"X_pca": np.ones((3, 2))})
    >>> {name: table.shape for name, table in views_of(cells, ["X", "X_pca"]).items()}
    {'X': (3, 3), 'X_pca': (3, 2)}
    """
    if not hasattr(data, "mod"):
        if not hasattr(data, "obsm"):
            raise TypeError(f"coterie.tl takes an AnnData or MuData object. Got a {type(data).__name__} instead.")
        if isinstance(views, Mapping):
            return {name: entry_of(data, entry, "The object") for name, entry in views.items()}
        return {name: entry_of(data, name, "The object") for name in as_list(views or ["X"])}
    entries = dict(views) if isinstance(views, Mapping) else {name: "X" for name in as_list(views or list(data.mod))}
    unknown = [name for name in entries if name not in data.mod]
    if unknown:
        raise ValueError(f"There is no modality {unknown[0]!r}. There are: {', '.join(data.mod)}.")
    return {
        name: for_cells(entry_of(data.mod[name], entry, f"Modality {name!r}"), data, data.mod[name])
        for name, entry in entries.items()
    }


def as_list(views: Any) -> list[str]:
    """Return views as a list; one alone may be given as text."""
    return [views] if isinstance(views, str) else list(views)


def entry_of(data: Any, entry: str, owner: str) -> Any:
    """Return X, a layer or an entry of obsm."""
    if entry == "X" and data.X is not None:
        return in_memory(data.X)
    folder, _, name = entry.rpartition("/")
    for known, entries in (("obsm", data.obsm), ("layers", data.layers)):
        if folder in ("", known) and name in entries:
            return in_memory(entries[name])
    there = [*(["X"] if data.X is not None else []), *data.obsm, *(f"layers/{layer}" for layer in data.layers)]
    raise ValueError(f"{owner} has no {entry!r}. There are: {', '.join(there)}.")


def in_memory(table: Any) -> Any:
    """Return a table as a plain one: it may be in an open file, or a view of another table."""
    if hasattr(table, "to_memory"):
        table = table.to_memory()
    return np.asarray(table) if isinstance(table, np.ndarray) or type(table).__module__.startswith("h5py") else table


def for_cells(table: Any, data: Any, modality: Any) -> Any:
    """Return a modality's table with a row for every cell of the whole object, NaN for those that it lacks."""
    positions = modality.obs_names.get_indexer(data.obs_names)  # (n,)
    present = positions >= 0
    if len(positions) == table.shape[0] and bool((positions == np.arange(len(positions))).all()):
        return table
    if hasattr(table, "iloc"):
        table = table.to_numpy()
    if present.all():
        return table[positions]
    known = table[positions[present]]
    found = np.full((len(positions), table.shape[1]), np.nan, dtype=np.promote_types(table.dtype, np.float32))  # (n, d)
    found[present] = known.toarray() if hasattr(known, "toarray") else known
    return found


def as_categories(labels: np.ndarray, n_clusters: int) -> Any:
    """Return labels as the categories "0", "1", ... as scverse has them."""
    import pandas

    # As objects: anndata cannot write the text of newer pandas.
    names = pandas.Index([str(label) for label in range(n_clusters)], dtype=object)
    return pandas.Categorical.from_codes(labels.astype(int), categories=names)


def storable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters that can be written to .h5ad: None, which cannot, and what has no plain value are left out."""
    plain = (str, bool, int, float, list, np.ndarray)
    return {
        name: value
        for name, value in parameters.items()
        if isinstance(value, plain) and name not in ("n_clusters", "views")
    }

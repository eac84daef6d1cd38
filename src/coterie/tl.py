"""Tools for AnnData and MuData, in the habits of scverse: results are written into the object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from coterie.arrays import to_host
from coterie.estimator import GuidedCoTraining
from coterie.model import fitted_of
from coterie.views.cells import Cells, as_list, cells_of, is_mudata, weight_column, writable

__all__ = ["cluster", "predict", "rank_views", "views_of"]

KEY = "coterie"


def cluster(
    data: Any,
    n_clusters: int | str = "auto",
    *,
    views: Sequence[str] | Mapping[str, str] | None = None,
    layer: str | Mapping[str, str] | None = None,
    use_rep: str | Sequence[str] | Mapping[str, str] | None = None,
    key_added: str = KEY,
    random_state: Any = 0,
    save: str | PathLike[str] | None = None,
    copy: bool = False,
    **settings: Any,
) -> Any:
    """Cluster the cells of an AnnData or MuData object by all their views.

    Writes, for ``key_added="coterie"``:

    - ``obs["coterie"]``, the clusters as categories "0", "1", ..., and ``obs["coterie_confidence"]``;
    - ``obs["coterie_weight_rna"]`` and so on for every view: how far that view alone supports the cell's cluster, as a
      share of all views' support (:meth:`coterie.GuidedCoTraining.view_support`); 0 where the cell lacks the view. A
      slash in a view's name is a colon there, as files could not hold it: ``obs["coterie_weight_obsm:X_pca"]``;
    - ``obsm["X_coterie"]``, the embedding, for ``sc.pp.neighbors(data, use_rep="X_coterie")`` and what follows it;
    - ``uns["coterie"]``: the parameters, and for every view its weight, how far it agrees with the others and what was
      done to it; the clusters' agreement with the views, and how stable they are.

    Counts are not copied, and X of a backed object is read from its file block by block.

    Parameters
    ----------
    data : AnnData or MuData
        Cells are rows. A cell that a modality of MuData does not have lacks that view.
    n_clusters : int or "auto", default="auto"
        Number of clusters; "auto" looks for it.
    views : list or dict of str, default=None
        What the views are: see `views_of`.
    layer : str or dict of str, default=None
        The layer to take instead of X; a dict says it for some modalities of MuData.
    use_rep : str, list of str or dict of str, default=None
        The entries of obsm to take instead of X, such as "X_pca"; a dict says it for some modalities of MuData.
    key_added : str, default="coterie"
        The name under which the results are written.
    random_state : int, RandomState or None, default=0
        Seed of everything that is drawn.
    save : path, default=None
        A file for the model, from which `predict` labels new cells.
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
    >>> cells.obsm["X_coterie"].shape
    (200, 3)
    """
    views = chosen_entries(data, views, layer, use_rep)
    cells = cells_of(data, views)
    settings = {"store_embedding": True, **settings}
    model = GuidedCoTraining(n_clusters, views=views, random_state=random_state, **settings).fit(data)
    if save is not None:
        from coterie.saving import save as save_model

        save_model(model, save)
    if copy:
        data = data.copy()
    embedding = model.embedding_ if settings["store_embedding"] else model.transform(cells)
    write_clusters(data, model, cells, key_added, model.labels_, model.confidence_, embedding)
    return data if copy else None


def predict(
    data: Any,
    model: GuidedCoTraining | str | PathLike[str],
    *,
    views: Sequence[str] | Mapping[str, str] | None = None,
    key_added: str = KEY,
    copy: bool = False,
) -> Any:
    """Give new cells the clusters that they would have had in the fit.

    Writes ``obs["coterie"]``, ``obs["coterie_confidence"]``, ``obs["coterie_novelty"]`` (how unlike all cells of the
    fit a cell is), the weights of the views, ``obsm["X_coterie"]`` and ``uns["coterie"]`` like `cluster`; the last is
    what the fit found, of its own cells.

    Parameters
    ----------
    data : AnnData or MuData
        New cells with the same variables. Modalities may be left out.
    model : GuidedCoTraining or path
        A fitted model, or a file of one.
    views : list or dict of str, default=None
        As in the fit. None: as the file says, where `cluster` wrote it; else the views' names.
    key_added, copy
        As in `cluster`.

    Returns
    -------
    AnnData, MuData or None
        The copy; None without ``copy``.

    Examples
    --------
    >>> import anndata
    >>> from coterie.datasets import make_views
    >>> rna, protein, _ = make_views(300, n_clusters=3, separation=6, random_state=0).views.values()
    >>> model = GuidedCoTraining(3, random_state=0).fit({"X": rna[:200], "protein": protein[:200]})
    >>> new = anndata.AnnData(rna[200:], obsm={"protein": protein[200:]})
    >>> predict(new, model)
    >>> bool((new.obs["coterie"].astype(int) == model.predict([rna[200:], protein[200:]])).all())
    True
    """
    model = opened_model(model)
    cells = cells_of(data, known_views(data, model) if views is None else views)
    if copy:
        data = data.copy()
    parts = list(model.stream(cells))
    novelty = None
    if all(part.novelty is not None for part in parts):
        novelty = np.concatenate([to_host(part.novelty) for part in parts])
    labels, confidence, embedding = (
        np.concatenate([np.asarray(getattr(part, name)) for part in parts])
        for name in ("labels", "confidence", "embedding")
    )
    write_clusters(data, model, cells, key_added, labels, confidence, embedding, novelty)
    return data if copy else None


def rank_views(data: Any, *, key: str = KEY) -> Any:
    """Return which views show which cluster, the best first.

    Parameters
    ----------
    data : AnnData or MuData
        After `cluster`.
    key : str, default="coterie"
        The name under which `cluster` wrote its results.

    Returns
    -------
    pandas.DataFrame
        One row per cluster and view, in the order of clusters and of ``agreement``: the share of the cluster's cells
        that the view alone assigns to it too. ``rank`` is 1 for the view that shows the cluster best.

    Examples
    --------
    >>> import anndata
    >>> from coterie.datasets import make_views
    >>> rna, protein, _ = make_views(200, n_clusters=2, separation=6, random_state=0).views.values()
    >>> cells = anndata.AnnData(rna, obsm={"noise": np.random.default_rng(0).standard_normal((200, 4))})
    >>> cluster(cells, 2, views=["X", "noise"])
    >>> rank_views(cells)[["cluster", "view", "rank"]].values.tolist()
    [['0', 'X', 1], ['0', 'noise', 2], ['1', 'X', 1], ['1', 'noise', 2]]
    """
    import pandas

    if key not in data.uns or "cluster_agreement" not in data.uns[key]:
        raise ValueError(f"There is no uns[{key!r}] that coterie.tl.cluster wrote. Call it first, or pass its key.")
    shares, names = np.asarray(data.uns[key]["cluster_agreement"]), list(data.uns[key]["params"]["views"])  # (k, V)
    rows = [
        {"cluster": str(number), "view": names[v], "agreement": float(own[v]), "rank": rank}
        for number, own in enumerate(shares)
        for rank, v in enumerate(np.argsort(-own, kind="stable"), start=1)
    ]
    return pandas.DataFrame(rows)


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
    cells = cells_of(data, views)
    return {name: for_cells(table.data, cells.index, table.index) for name, table in cells.tables.items()}


def for_cells(table: Any, all_cells: Any, own: Any) -> Any:
    """Return a modality's table with a row for every cell of the whole object, NaN for those that it lacks."""
    if own.equals(all_cells):
        return table
    positions = own.get_indexer(all_cells)  # (n,)
    present = positions >= 0
    if present.all():
        return table[positions]
    known = table[positions[present]]
    found = np.full((len(positions), table.shape[1]), np.nan, dtype=np.promote_types(table.dtype, np.float32))  # (n, d)
    found[present] = known.toarray() if hasattr(known, "toarray") else known
    return found


# -- what is written ----------------------------------------------------------------------------------------------


def write_clusters(
    data: Any,
    model: GuidedCoTraining,
    cells: Cells,
    key: str,
    labels: Any,
    confidence: Any,
    embedding: Any,
    novelty: Any = None,
) -> None:
    """Write labels, confidence, weights of views, the embedding and what the fit found into the cells' object.

    What an earlier call wrote under the same key and this one does not is removed: it is of other clusters.
    """
    shares = view_shares(to_host(model.view_support(cells)))  # (n, V) before anything is written: it may fail
    for name in (f"{key}_novelty", *(weight_column(key, view) for view in views_written(data, key))):
        if name in data.obs:
            del data.obs[name]
    data.obs[key] = as_categories(to_host(labels), model.n_clusters_)
    data.obs[f"{key}_confidence"] = to_host(confidence)
    if novelty is not None:
        data.obs[f"{key}_novelty"] = novelty
    for name, weights in zip(model.view_names_, shares.T, strict=True):
        data.obs[weight_column(key, name)] = weights
    data.obsm[f"X_{key}"] = to_host(embedding)
    data.uns[key] = findings(model)


def views_written(data: Any, key: str) -> list[str]:
    """Return the views whose weights an earlier call wrote; none where something else is under the key."""
    found = data.uns.get(key)
    parameters = found.get("params") if isinstance(found, Mapping) else None
    return list(parameters["views"]) if isinstance(parameters, Mapping) and "views" in parameters else []


def view_shares(support: np.ndarray) -> np.ndarray:
    """Return each view's share of the support for a cell's cluster; NaN, where a cell lacks a view, is 0.

    Examples
    --------
    >>> view_shares(np.array([[0.75, 0.25], [0.0, 0.0], [0.5, np.nan]])).tolist()
    [[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]
    """
    present = ~np.isnan(support)  # (n, V)
    known = np.where(present, support, 0.0)
    # Where no view alone supports the cluster, those that the cell has are alike.
    known = np.where(known.any(axis=1, keepdims=True), known, present)
    return known / np.maximum(known.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


def findings(model: GuidedCoTraining) -> dict[str, Any]:
    """Return what a fit found besides the cells' own results, as values that can be written to .h5ad."""
    found = {
        "params": {
            "n_clusters": model.n_clusters_,
            "views": list(model.view_names_),
            **storable(model.get_params(deep=False)),
        },
        "preparation": {writable(name): how for name, how in model.preparation_.items()},
        "view_weights": {writable(name): float(weight) for name, weight in model.view_weights_.items()},
        "agreement": {writable(name): float(share) for name, share in model.agreement_.items()},
        "cluster_agreement": np.asarray(model.cluster_agreement_),
    }
    if hasattr(model, "stability_"):
        found["stability"] = float(model.stability_)
        found["cluster_stability"] = np.asarray(model.cluster_stability_)
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


# -- models -------------------------------------------------------------------------------------------------------


def chosen_entries(data: Any, views: Any, layer: Any, use_rep: Any) -> Any:
    """Return what of the object each view is, in the form of ``views``."""
    if layer is None and use_rep is None:
        return views
    if views is not None or (is_mudata(data) and isinstance(layer, str) and isinstance(use_rep, str)):
        raise ValueError("views, layer and use_rep each say what the views are. Pass one of them, or views as a dict.")
    if not is_mudata(data):
        names = [("layers", layer)] * (layer is not None) + [("obsm", name) for name in as_list(use_rep or [])]
        return {name: f"{kind}/{name}" for kind, name in names}
    entries = dict.fromkeys(data.mod, "X")
    for kind, chosen in (("layers", layer), ("obsm", use_rep)):
        if isinstance(chosen, str):
            chosen = dict.fromkeys(data.mod, chosen)
        entries |= {name: f"{kind}/{entry}" for name, entry in (chosen or {}).items()}
    return entries


def opened_model(model: Any) -> GuidedCoTraining:
    """Return a model, or that of a file."""
    if not isinstance(model, str | PathLike):
        return model
    from coterie.saving import load

    return load(model)


def known_views(data: Any, model: GuidedCoTraining) -> dict[str, str]:
    """Return what of the object the model's views are; a MuData may lack some of them."""
    groups = fitted_of(model).groups
    entries = {name: "X" if is_mudata(data) else name for name in model.view_names_}
    if isinstance(groups, dict) and all(isinstance(entry, str) for entry in groups.values()):
        entries = groups  # the fit was on such an object
    return {name: entry for name, entry in entries.items() if not is_mudata(data) or name in data.mod}

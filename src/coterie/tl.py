"""Tools for AnnData and MuData, by the conventions of scverse: results are written into the object."""

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
    """Cluster the cells of an AnnData or MuData object by several views.

    Writes, for ``key_added="coterie"``:

    - ``obs["coterie"]``, the clusters as categories "0", "1", ..., and ``obs["coterie_confidence"]``;
    - ``obs["coterie_weight_rna"]`` and so on for every view: how far that view alone supports the cell's cluster, as a
      share of all views' support (:meth:`coterie.GuidedCoTraining.view_support`); 0 where the cell lacks the view. A
      slash in a view's name becomes a colon, because files cannot hold it: ``obs["coterie_weight_obsm:X_pca"]``;
    - ``obsm["X_coterie"]``, the embedding, for ``sc.pp.neighbors(data, use_rep="X_coterie")`` and the steps after it;
    - ``uns["coterie"]``: the parameters; the weight, agreement and preparation of every view; the agreement of each
      view with each cluster; and the clusters' stability, if it was measured.

    Counts are not copied, and X of a backed object is read from its file block by block.

    Parameters
    ----------
    data : AnnData or MuData
        Cells are rows. A cell that is absent from a modality of MuData lacks that view.
    n_clusters : int or "auto", default="auto"
        Number of clusters; "auto" estimates it.
    views : list or dict of str, default=None
        The entries of the object that are views, as in `views_of`.
    layer : str or dict of str, default=None
        The layer to take instead of X; a dict maps modalities of MuData to layers, and the others use X.
    use_rep : str, list of str or dict of str, default=None
        The entries of obsm to take instead of X, such as "X_pca"; a dict maps modalities of MuData to entries, and the
        others use X.
    key_added : str, default="coterie"
        The name under which the results are written.
    random_state : int, RandomState or None, default=0
        Seed of everything that is drawn.
    save : path, default=None
        The file to which the model is saved, for `predict`.
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
    check_writable(data, key_added, list(cells.tables), copy)
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
    """Assign new cells to the clusters of a model, as if they had been in the fit.

    Writes ``obs["coterie"]``, ``obs["coterie_confidence"]``, ``obs["coterie_novelty"]`` (how unlike all cells of the
    fit a cell is), the weights of the views, ``obsm["X_coterie"]`` and ``uns["coterie"]`` like `cluster`; the last
    describes the fit and its cells, not the new ones.

    Parameters
    ----------
    data : AnnData or MuData
        New cells with the same variables. Modalities may be left out.
    model : GuidedCoTraining or path
        A fitted model, or the file of one.
    views : list or dict of str, default=None
        As in the fit. None takes the entries that the model records if `cluster` fitted it, else those named like the
        views.
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
    check_writable(data, key_added, list(model.view_names_), copy)
    if copy:
        data = data.copy()
    labels, confidence, embedding, novelty = assigned(model, cells)
    write_clusters(data, model, cells, key_added, labels, confidence, embedding, novelty)
    return data if copy else None


def rank_views(data: Any, *, key: str = KEY) -> Any:
    """Return the views, ranked for every cluster by how well each shows it.

    Parameters
    ----------
    data : AnnData or MuData
        After `cluster`.
    key : str, default="coterie"
        The name under which `cluster` wrote its results.

    Returns
    -------
    pandas.DataFrame
        One row per cluster and view, sorted by cluster and then by ``agreement``, the share of the cluster's cells that
        the view alone assigns to it too. ``rank`` is 1 for the view with the highest agreement.

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
    """Return the views of an AnnData or MuData object as a dict of tables for ``fit``.

    Parameters
    ----------
    data : AnnData or MuData
    views : list or dict of str, default=None
        For AnnData, the entries to take: "X", a layer ("layers/counts") or an entry of obsm ("X_pca", or
        "obsm/X_pca"); None takes X. For MuData, a list of modalities, or a dict from modalities to the entry of each;
        None takes X of all modalities.

    Returns
    -------
    dict of str to table
        Tables whose rows are the object's cells. A cell that is absent from a modality is a row of NaN.

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
    """Return a modality's table with a row for every cell of the whole object, NaN for cells that are absent in it."""
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


def assigned(model: GuidedCoTraining, cells: Cells) -> tuple[Any, Any, Any, Any]:
    """Return the labels, confidence, embedding and novelty of new cells; novelty is None if the model has none."""
    parts = list(model.stream(cells))
    if not parts:  # no cells
        empty = np.empty(0)
        return empty, empty, np.empty((0, fitted_of(model).n_clusters)), empty
    labels, confidence, embedding = (
        np.concatenate([np.asarray(getattr(part, name)) for part in parts])
        for name in ("labels", "confidence", "embedding")
    )
    known = all(part.novelty is not None for part in parts)
    return labels, confidence, embedding, np.concatenate([to_host(part.novelty) for part in parts]) if known else None


# -- what is written ----------------------------------------------------------------------------------------------


def check_writable(data: Any, key: Any, views: Sequence[str], copy: bool) -> None:
    """Refuse, before the cells are clustered, an object or names that could not take the results afterwards."""
    if not isinstance(key, str) or not key or key == "_index":
        raise ValueError(f"key_added must be a name for a column of obs. Got {key!r} instead.")
    if data.isbacked and (copy or data.is_view):
        what = "A copy" if copy else "A part"
        raise ValueError(
            f"{what} of an object that is backed by a file cannot take results. Read it into memory first: "
            f"pass {'its to_memory()' if hasattr(data, 'to_memory') else 'an object that was read without backed'}."
        )
    named: dict[str, str] = {}
    for view in views:
        column = weight_column(key, view)
        other = named.setdefault(column, view)
        if other != view:
            raise ValueError(
                f"The weights of views {other!r} and {view!r} would both be written to obs[{column!r}]. "
                "Rename one of the views."
            )


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
    """Write labels, confidence, novelty, weights of views, the embedding and facts of the fit into the object.

    Novelty and weights that an earlier call wrote under the same key are removed, as they belong to other clusters.
    """
    shares = view_shares(to_host(model.view_support(cells)))  # (n, V), before anything is written, as it may fail
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
    """Return the views whose weights an earlier call wrote; none if the key holds something else."""
    found = data.uns.get(key)
    parameters = found.get("params") if isinstance(found, Mapping) else None
    views = parameters.get("views") if isinstance(parameters, Mapping) else None
    return [str(view) for view in views] if isinstance(views, list | tuple | np.ndarray) else []


def view_shares(support: np.ndarray) -> np.ndarray:
    """Return each view's share of the total support for a cell's cluster; 0 for views that the cell lacks (NaN).

    Examples
    --------
    >>> view_shares(np.array([[0.75, 0.25], [0.0, 0.0], [0.5, np.nan]])).tolist()
    [[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]]
    """
    present = ~np.isnan(support)  # (n, V)
    known = np.where(present, support, 0.0)
    # If no view alone supports the cluster, the views that the cell has get equal shares.
    known = np.where(known.any(axis=1, keepdims=True), known, present)
    return known / np.maximum(known.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


def findings(model: GuidedCoTraining) -> dict[str, Any]:
    """Return the results of a fit that are not per cell, as values that can be written to .h5ad."""
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
    """Return labels as categories "0", "1", ..., by the convention of scverse."""
    import pandas

    # dtype=object, because anndata cannot write the string dtype of newer pandas.
    names = pandas.Index([str(label) for label in range(n_clusters)], dtype=object)
    return pandas.Categorical.from_codes(labels.astype(int), categories=names)


def storable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that can be written to .h5ad, without None and values that are not plain."""
    plain = (str, bool, int, float, list, np.ndarray)
    return {
        name: value
        for name, value in parameters.items()
        if isinstance(value, plain) and name not in ("n_clusters", "views")
    }


# -- models -------------------------------------------------------------------------------------------------------


def chosen_entries(data: Any, views: Any, layer: Any, use_rep: Any) -> Any:
    """Return ``views``, or the equivalent of ``layer`` and ``use_rep`` in its form."""
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
    """Return a model, loaded if a path is given."""
    if not isinstance(model, str | PathLike):
        return model
    from coterie.saving import load

    return load(model)


def known_views(data: Any, model: GuidedCoTraining) -> dict[str, str]:
    """Return the object's entry for each of the model's views, without modalities that a MuData lacks."""
    groups = fitted_of(model).groups
    entries = {name: "X" if is_mudata(data) else name for name in model.view_names_}
    if isinstance(groups, dict) and all(isinstance(entry, str) for entry in groups.values()):
        entries = groups  # the fit was on such an object
    return {name: entry for name, entry in entries.items() if not is_mudata(data) or name in data.mod}

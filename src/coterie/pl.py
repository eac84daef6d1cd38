"""Plots of AnnData and MuData objects with results of :func:`coterie.tl.cluster`.

Every function takes the object and, optionally, the axes to draw on, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from coterie.plot import axes, draw_clusters, draw_values, heat_map, plain, shade
from coterie.report._layout import flat_map
from coterie.rows.sampling import draw_sample
from coterie.views.cells import entry_of, is_mudata, weight_column

__all__ = ["embedding", "markers", "view_weights"]

KEY = "coterie"
LARGEST_DOT = 160.0  # square points
SHARES_SHOWN = (0.25, 0.5, 1.0)


def embedding(
    data: Any,
    *,
    color: str | None = None,
    basis: str | None = None,
    key: str = KEY,
    ax: Any = None,
    sample: int = 4000,
    random_state: int = 0,
) -> Any:
    """Draw a map of the cells, coloured by cluster or by a column of obs.

    Parameters
    ----------
    data : AnnData or MuData
        After :func:`coterie.tl.cluster`.
    color : str, default=None
        A column of obs, of numbers or names; None colours by cluster.
    basis : str, default=None
        An entry of obsm whose first two columns are drawn, such as "X_umap"; None computes a map of the embedding.
    key : str, default="coterie"
        The name under which `cluster` wrote its results.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.
    sample : int, default=4000
        Cells to draw at most.
    random_state : int, default=0
        Seed of the sample and of the map.

    Returns
    -------
    matplotlib Axes
    """
    labels = clusters_of(data, key)
    if color is not None and color not in data.obs:
        raise ValueError(f"There is no obs[{color!r}] to colour cells by. There are: {', '.join(data.obs.columns)}.")
    if basis is not None and basis not in data.obsm:
        raise ValueError(f"There is no obsm[{basis!r}] to draw. There are: {', '.join(data.obsm)}.")
    rows = draw_sample(data.n_obs, sample, np.random.default_rng(random_state))  # (s,)
    found = np.asarray(data.obsm[basis or f"X_{key}"])[rows]
    points = flat_map(found, random_state) if basis is None else found[:, :2]  # (s, 2)
    ax = axes(ax, (7, 6))
    if color is None:
        draw_clusters(ax, points, labels.codes[rows], len(labels.categories))
    else:
        values = data.obs[color].iloc[rows]
        if values.dtype.kind not in "iuf":
            values = values.astype(str).astype(object).where(values.notna(), None)  # names
        draw_values(ax, points, values.to_numpy(), color)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(f"{len(rows):,} of {data.n_obs:,} cells, {len(labels.categories)} clusters")
    return ax


def markers(
    data: Any,
    names: Sequence[str] | Mapping[str, Sequence[str]],
    *,
    groupby: str | None = None,
    layer: str | None = None,
    key: str = KEY,
    ax: Any = None,
) -> Any:
    """Draw a dot plot of markers: the share of each cluster's cells that have a marker, and its mean value.

    A dot's size is the share of the cluster's cells with a value above 0. Its shade is the cluster's mean, scaled so
    that the lowest mean of all clusters is 0 and the highest 1.

    Parameters
    ----------
    data : AnnData or MuData
        After :func:`coterie.tl.cluster`.
    names : list of str, or dict of lists
        Variables of any modality ("rna:CD4" or "CD4"); a dict groups them, for example by cell type.
    groupby : str, default=None
        A column of obs to group cells by instead of the clusters, such as cell types.
    layer : str, default=None
        The layer to take instead of X.
    key : str, default="coterie"
        The name under which `cluster` wrote its results.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    groups = clusters_of(data, groupby or key)
    found = marker_table(data, flat_names(names), groups, layer)
    ax = axes(ax, (2.5 + 0.35 * len(found), 1.2 + 0.36 * len(groups.categories)))
    shares = np.array([share for share, _ in found.values()])  # (m, k)
    means = np.array([mean for _, mean in found.values()])  # (m, k)
    low, high = means.min(axis=1, keepdims=True), means.max(axis=1, keepdims=True)
    shades = (means - low) / np.where(high > low, high - low, 1)  # (m, k)
    at, row = np.indices(shares.shape)
    dots = ax.scatter(
        at, row, s=LARGEST_DOT * shares, c=shades, cmap=shade(), vmin=0, vmax=1, edgecolors="0.5", linewidths=0.4
    )
    ax.set_xticks(np.arange(len(found)), [plain(name) for name in found], rotation=90)
    ax.set_yticks(np.arange(len(groups.categories)), [plain(str(name)) for name in groups.categories])
    ax.set_xlim(-0.7, len(found) - 0.3)
    ax.set_ylim(len(groups.categories) - 0.4, -0.6)
    ax.figure.colorbar(dots, ax=ax, label="mean, from lowest to highest", shrink=0.7)
    for share in SHARES_SHOWN:
        ax.scatter([], [], s=LARGEST_DOT * share, c="0.6", label=f"{share:.0%} of cells")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(SHARES_SHOWN), frameon=False, fontsize=8)
    return ax


def view_weights(data: Any, *, key: str = KEY, ax: Any = None) -> Any:
    """Draw the mean weight of every view in every cluster, which shows the modalities that support it.

    Parameters
    ----------
    data : AnnData or MuData
        After :func:`coterie.tl.cluster`.
    key : str, default="coterie"
        The name under which `cluster` wrote its results.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    groups = clusters_of(data, key)
    views = list(data.uns[key]["params"]["views"])
    columns = [data.obs[weight_column(key, view)].to_numpy() for view in views]
    weights = np.column_stack([means_of(values, groups) for values in columns])  # (k, V)
    ax = heat_map(ax, weights, weights, [str(name) for name in groups.categories], [plain(v) for v in views], "{:.2f}")
    ax.set_ylabel("cluster")
    return ax


# -- what is drawn --------------------------------------------------------------------------------------------------


def clusters_of(data: Any, key: str) -> Any:
    """Return a column of obs as a pandas Categorical."""
    if key not in data.obs:
        raise ValueError(f"There is no obs[{key!r}]. Call coterie.tl.cluster first, or pass its key.")
    return data.obs[key].astype("category").array


def flat_names(names: Sequence[str] | Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of markers as one list."""
    if isinstance(names, Mapping):
        names = [name for group in names.values() for name in ([group] if isinstance(group, str) else group)]
    return list(dict.fromkeys([names] if isinstance(names, str) else names))


def marker_table(
    data: Any, names: Sequence[str], groups: Any, layer: str | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for every marker each group's share of cells with a value above 0, (k,), and mean value, (k,)."""
    found = {}
    for name in names:
        values = values_of(data, name, layer)  # (n,)
        known = ~np.isnan(values)
        has = np.where(known, values > 0, np.nan)
        found[name] = (means_of(has, groups), means_of(values, groups))
    return found


def values_of(data: Any, name: str, layer: str | None) -> np.ndarray:
    """Return the values of one variable, NaN for cells that lack its modality."""
    parts = data.mod if is_mudata(data) else {"": data}
    modality, _, plain_name = name.partition(":")
    owners = [(part, own) for part in parts for own in (name, plain_name) if own in parts[part].var_names]
    owners = [(part, own) for part, own in owners if own == name or part == modality]
    if not owners:
        raise ValueError(f"There is no variable {name!r}. Pass names of var_names, or modality:name.")
    part, own = owners[0]
    cells = parts[part]
    table = entry_of(cells[:, [own]], "X" if layer is None else f"layers/{layer}", f"Modality {part!r}")
    column = table.data.toarray() if sparse.issparse(table.data) else np.asarray(table.data)
    values = np.full(data.n_obs, np.nan)
    positions = cells.obs_names.get_indexer(data.obs_names)  # (n,)
    values[positions >= 0] = column[:, 0][positions[positions >= 0]]
    return values


def means_of(values: np.ndarray, groups: Any) -> np.ndarray:
    """Return the mean of every group over the cells that have a value; 0 for groups without any.

    Examples
    --------
    >>> import pandas as pd
    >>> means_of(np.array([1.0, 3.0, np.nan]), pd.Categorical(["a", "a", "b"])).tolist()
    [2.0, 0.0]
    """
    known, size = ~np.isnan(values) & (groups.codes >= 0), len(groups.categories)
    sums = np.bincount(groups.codes[known], weights=values[known], minlength=size)  # (k,)
    return sums / np.maximum(np.bincount(groups.codes[known], minlength=size), 1)

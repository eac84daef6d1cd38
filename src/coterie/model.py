"""A fitted model: the row map, the centroids, and everything that a fit publishes. It labels new rows.

A fitted attribute is one line of :class:`Fitted`, by which the estimator publishes it and files store it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from os import PathLike
from types import NoneType
from typing import Any, Union, get_args, get_type_hints

import numpy as np

from coterie.arrays import array_namespace, like, to_host
from coterie.method.assignment import Prediction, assign, assign_with_confidence, shares_of_clusters
from coterie.method.explanation import label_by_view, support_by_view
from coterie.method.novelty import NoveltyScale, familiarity_of
from coterie.method.rowmap import RowMap
from coterie.method.selection import KSuggestion
from coterie.placement import BlockPlan, as_given, explain_memory, place_views, raw_rows
from coterie.rows import Rows
from coterie.threads import one_thread_per_block
from coterie.views import (
    RawRows,
    RowRange,
    Shape,
    ViewBlock,
    ViewRows,
    Views,
    absent_views,
    check_columns,
    match_columns,
    match_views,
)
from coterie.views.cells import is_anndata, is_mudata
from coterie.views.frames import for_sklearn

# When a model lacks an attribute: never; where its field is None; or where it was loaded without its rows.
ALWAYS, SOMETIMES, PER_ROW = "always", "sometimes", "per row"


def always(shape: str = "", attribute: str | None = None) -> Any:
    """Declare an attribute that every model has."""
    return field(metadata={"kind": ALWAYS, "shape": shape, "attribute": attribute})


def sometimes(shape: str = "", attribute: str | None = None) -> Any:
    """Declare an attribute that a model lacks where it is None."""
    return field(default=None, metadata={"kind": SOMETIMES, "shape": shape, "attribute": attribute})


def per_row(shape: str = "", *, nullable: bool = False) -> Any:
    """Declare an attribute with an entry for every row of the fit; if ``nullable``, None is a value like any other."""
    metadata = {"kind": PER_ROW, "shape": shape, "attribute": None, "nullable": nullable}
    return field(default=None, metadata=metadata)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The result of a fit, with all that is needed to label new rows.

    A field ``x`` is published as the attribute ``x_`` and named so in files, unless it names another attribute.
    Letters give the shapes of float arrays: n rows, v views, g graphs, k clusters, c components; others are any size.
    """

    # The map of new rows to clusters, not published.
    row_map: RowMap = always(attribute="_row_map")
    shapes: tuple[Shape, ...] = always(attribute="_shapes")
    groups: dict | list | tuple | None = always(attribute="_groups")  # the parameter ``views``
    view_centroids: np.ndarray = always("vkc", attribute="_view_places")
    novelty_scale: NoveltyScale | None = sometimes(attribute="_novelty_scale")  # None: see novelty_of

    # The results of the fit.
    agreement: dict[str, float] = always()
    cluster_agreement: np.ndarray = always("kv")
    cluster_centers: np.ndarray = always("kc")
    consensus_singular_values: np.ndarray = always("s")
    graph_agreement: np.ndarray = always("gg")
    history: list[dict[str, float]] = always()
    landmark_indices: np.ndarray = always()
    medoid_indices: np.ndarray = always()
    n_clusters: int = always()
    n_iter: int = always()
    preparation: dict[str, str] = always()
    singular_values: dict[str, np.ndarray] = always()
    timings: dict[str, float] = always()
    view_names: tuple[str, ...] = always()
    view_weights: dict[str, float] = always()
    candidates: list[dict[str, str | float | bool | None]] | None = sometimes()
    cluster_sizes: np.ndarray | None = sometimes()  # None: from an older file
    cluster_stability: np.ndarray | None = sometimes("k")
    k_suggestion: KSuggestion | None = sometimes()
    stability: float | None = sometimes()

    # scikit-learn's attributes, for input that is a single table.
    feature_names_in: np.ndarray | None = sometimes()
    n_features_in: int | None = sometimes()

    # One entry for every row of the fit.
    n_rows: int
    labels: np.ndarray | None = per_row()
    confidence: np.ndarray | None = per_row("n")
    embedding: np.ndarray | None = per_row("nc")
    row_ids: np.ndarray | None = per_row(nullable=True)

    @property
    def has_rows(self) -> bool:
        """Whether the model has labels and the other attributes per row: a file may leave them out."""
        return self.labels is not None

    def has(self, attribute: str) -> bool:
        """Whether the model has an attribute that some models lack."""
        known = attributes_of_a_fit()[attribute]
        if known.kind == ALWAYS or getattr(self, known.field) is not None:
            return True
        return known.nullable and self.has_rows

    def published(self) -> list[str]:
        """Return the names of the attributes that an estimator publishes."""
        return [name for name in attributes_of_a_fit() if not name.startswith("_") and self.has(name)]

    def in_kind_of(self, X: Any) -> Fitted:
        """Return the model with labels, confidence and embedding in the kind of array that X holds."""
        return replace(
            self,
            labels=as_given(self.labels, X),
            confidence=as_given(self.confidence, X),
            embedding=None if self.embedding is None else as_given(self.embedding, X),
        )

    def once(self, repeats: np.ndarray) -> Fitted:
        """Return the model with one entry for each distinct row, given how often each was repeated in the fit."""
        owner = np.repeat(np.arange(len(repeats)), repeats)  # (n,) the distinct row of each repeated one
        first = np.cumsum(repeats) - repeats

        def kept(values: Any) -> Any:
            return None if values is None else values[first]

        return replace(
            self,
            landmark_indices=owner[self.landmark_indices],
            medoid_indices=np.where(self.medoid_indices < 0, -1, owner[self.medoid_indices]),
            n_rows=len(repeats),
            labels=kept(self.labels),
            confidence=kept(self.confidence),
            embedding=kept(self.embedding),
            row_ids=kept(self.row_ids),
        )

    def renumbered(self, order: np.ndarray) -> Fitted:
        """Return the model with its clusters in another order: new cluster j is the old cluster ``order[j]``."""
        number = np.argsort(order)  # (k,) the new number of each cluster

        def moved(values: Any) -> Any:
            return None if values is None else values[order]

        return replace(
            self,
            view_centroids=self.view_centroids[:, order],
            cluster_agreement=self.cluster_agreement[order],
            cluster_centers=self.cluster_centers[order],
            medoid_indices=self.medoid_indices[order],
            cluster_sizes=moved(self.cluster_sizes),
            cluster_stability=moved(self.cluster_stability),
            labels=None if self.labels is None else like(number.astype(np.int32)[to_host(self.labels)], self.labels),
        )

    # -- new rows -----------------------------------------------------------------------------------------------

    def read(self, X: Any, device: Any, id_column: str | int | None = None) -> Views:
        """Return new rows as views like those of the fit, to be processed on ``device``."""
        return place_views(self.matched(X, id_column), device)

    def matched(self, X: Any, id_column: str | int | None = None) -> Views:
        """Return new rows as views like those of the fit."""
        columns = [shape.columns for shape in self.shapes]
        return match_columns(match_views(X, self.groups, self.view_names, id_column, columns), columns)

    def predict(self, views: Views, plan: BlockPlan) -> Any:
        """Return the clusters of rows."""
        centroids = self.cluster_centers  # self, which may be large, must not be sent to where the rows are

        def label(row_map: RowMap, block: RawRows) -> Any:
            return mask_absent(assign(row_map(block.views, block.first_row), centroids).labels, block)

        return self._collect(views, plan, label)  # (n,)

    def confidence_of(self, views: Views, plan: BlockPlan) -> Any:
        """Return how much nearer each row is to its own cluster than to the next; less for rows far from all others."""
        judge = partial(predict_block, centroids=self.cluster_centers, scale=self.novelty_scale)
        return self._collect(views, plan, lambda row_map, block: judge(row_map, block).confidence)  # (n,)

    def novelty_of(self, views: Views, plan: BlockPlan) -> Any:
        """Return the novelty of each row, between 0 and 1: how far it is from all rows of the fit."""
        if self.novelty_scale is None:
            raise ValueError(
                "This model has no novelty: it was made by an older version of Coterie, or every row is a landmark and "
                "n_neighbors is 1. Fit again."
            )
        scale = self.novelty_scale

        def measure(row_map: RowMap, block: RawRows) -> Any:
            found = row_map.graph_map.search(block.views, block.first_row)
            return like(scale.novelty(row_map.graph_map.nearest_distances(found)), found.squares)

        return self._collect(views, plan, measure)  # (n,)

    def transform(self, views: Views, plan: BlockPlan) -> Any:
        """Return the rows' embedding."""
        return self._embed(views, plan, lambda rows: rows)  # (n, c)

    def memberships(self, views: Views, plan: BlockPlan) -> Any:
        """Return each row's share in every cluster: rows sum to one, NaN for rows that lack every view."""
        centroids = self.cluster_centers

        def share(row_map: RowMap, block: RawRows) -> Any:
            rows = row_map(block.views, block.first_row)
            lacking = mask_absent(assign(rows, centroids).labels, block) < 0  # (b,)
            return like(shares_of_clusters(to_host(rows), centroids, to_host(lacking)), rows)

        return self._collect(views, plan, share)  # (n, k)

    def view_labels(self, views: Views, plan: BlockPlan) -> Any:
        """Return the cluster that each view alone assigns each row to, -1 where a row lacks the view."""
        centroids = self.view_centroids

        def label(row_map: RowMap, block: RawRows) -> np.ndarray:
            return label_by_view(row_map.graph_map.connect(block.views, block.first_row), row_map, centroids)

        return self._collect(views, plan, label)  # (n, V)

    def view_support(self, views: Views, plan: BlockPlan) -> Any:
        """Return how far each view alone supports each row's cluster, NaN where a row lacks the view."""
        centroids, view_centroids = self.cluster_centers, self.view_centroids

        def support(row_map: RowMap, block: RawRows) -> np.ndarray:
            joined = row_map.graph_map.connect(block.views, block.first_row)
            return support_by_view(joined, assign(row_map.follow(joined), centroids).labels, row_map, view_centroids)

        return self._collect(views, plan, support)  # (n, V)

    def stream(self, views: Views, plan: BlockPlan) -> Iterator[Prediction]:
        """Yield labels, confidence, embedding and novelty block by block, in the order of the rows."""
        judge = partial(predict_block, centroids=self.cluster_centers, scale=self.novelty_scale)
        with self._rows(views, plan) as (rows, row_map):
            yield from rows.stream(partial(judge, row_map), load=RowRange.read)

    def explain_rows(self, blocks: Sequence[ViewBlock]) -> tuple[np.ndarray, np.ndarray]:
        """Return the embedding of a few rows in host memory, and the clusters that the views alone assign them to."""
        block = self.row_map.graph_map.connect(blocks)
        return self.row_map.follow(block), label_by_view(block, self.row_map, self.view_centroids)  # (b, c), (b, V)

    def _embed(self, views: Views, plan: BlockPlan, function: Callable[[np.ndarray], np.ndarray]) -> Any:
        return self._collect(views, plan, lambda row_map, block: function(row_map(block.views, block.first_row)))

    def _collect(self, views: Views, plan: BlockPlan, function: Callable[[RowMap, RawRows], np.ndarray]) -> Any:
        if not views.n_rows:
            return self._collect(absent_views(self.view_names), plan, function)[:0]
        with self._rows(views, plan) as (rows, row_map):
            return rows.collect(partial(function, row_map), load=RowRange.read)

    @contextmanager
    def _rows(self, views: Views, plan: BlockPlan) -> Iterator[tuple[Rows, RowMap]]:
        """Yield raw rows like those of the fit, and the row map on the device that processes them."""
        check_columns(views, self.shapes)
        row_map = self.row_map if views.device is None else self.row_map.on(views.device)
        with one_thread_per_block(), explain_memory(views):
            yield raw_rows(views, plan), row_map


def predict_block(row_map: RowMap, block: RawRows, centroids: np.ndarray, scale: NoveltyScale | None) -> Prediction:
    """Return the labels, confidence, embedding and novelty of some rows."""
    graph_map = row_map.graph_map
    found = graph_map.search(block.views, block.first_row)
    # Before weights replace the distances:
    novelty = None
    if scale is not None:
        novelty = like(scale.novelty(graph_map.nearest_distances(found)), found.squares, np.float32)  # (b,)
    familiarity = familiarity_of(found, graph_map, scale)  # (b,)
    embedding = row_map.follow(graph_map.weigh(found))  # (b, c)
    part = assign_with_confidence(embedding, centroids)
    labels = mask_absent(part.labels, block)
    return Prediction(block.first_row, labels, part.confidence * familiarity, embedding, novelty)


def mask_absent(labels: Any, block: RawRows) -> Any:
    """Return labels with -1 for rows that lack every view, which cannot be assigned."""
    present = [to_host(view.present) for view in block.views if view.present is not None]
    if len(present) < len(block.views):
        return labels
    known = np.array(present).any(axis=0)  # (b,)
    xp = array_namespace(labels)
    return labels if known.all() else xp.where(like(known, labels, bool), labels, xp.asarray(-1, dtype=labels.dtype))


@dataclass(frozen=True)
class Attribute:
    """The declaration of a fitted attribute."""

    field: str  # of Fitted
    hint: Any  # its type
    kind: str
    shape: str
    nullable: bool


@cache
def attributes_of_a_fit() -> dict[str, Attribute]:
    """Return all attributes that a fit can make, by name.

    Examples
    --------
    >>> known = attributes_of_a_fit()
    >>> known["stability_"].kind, known["cluster_centers_"].shape, known["_view_places"].field
    ('sometimes', 'kc', 'view_centroids')
    """
    hints = get_type_hints(Fitted)
    found = {}
    for own in fields(Fitted):
        if not own.metadata:
            continue
        kind, nullable = own.metadata["kind"], own.metadata.get("nullable", False)
        hint = hints[own.name] if kind == ALWAYS or nullable else without_none(hints[own.name])
        name = own.metadata["attribute"] or own.name + "_"
        found[name] = Attribute(own.name, hint, kind, own.metadata["shape"], nullable)
    return found


def without_none(hint: Any) -> Any:
    """Return an optional type without None.

    Examples
    --------
    >>> without_none(int | None)
    <class 'int'>
    """
    return Union[tuple(part for part in get_args(hint) if part is not NoneType)]  # noqa: UP007


def fitted_of(estimator: Any) -> Fitted:
    """Return the model of a fitted estimator; raise an error if it is not fitted."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    return estimator._fitted


def row_ids_of(model: Any, X: Any) -> np.ndarray | None:
    """Return the ids of rows in the order of a model's answers: that of its first view; no rows are read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the answers come with them
        return fitted_of(model).matched(X, model.id_column).ids


def table_columns(X: Any, views: Views, groups: Any) -> dict[str, Any]:
    """Return scikit-learn's n_features_in and feature_names_in, which exist only for a single table."""
    of_cells = is_anndata(X) or is_mudata(X)
    if (
        isinstance(X, ViewRows)
        or (len(views) > 1 and groups is None)
        or (of_cells and groups is not None)
        or isinstance(X, str | PathLike)
    ):
        return {}
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import validate_data

    table = BaseEstimator()  # a stand-in: nothing is set on an estimator before its fit is done
    validate_data(table, for_sklearn(X) if hasattr(X, "shape") else views[0].data, skip_check_array=True)
    return {name.removesuffix("_"): value for name, value in vars(table).items()}

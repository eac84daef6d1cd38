"""FastMICE: an ensemble of transfer cuts, each of some views and some of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coterie.peers._common import Peer
from coterie.peers._docstrings import peer
from coterie.peers._ensemble import Member, agree, cut_member, draw_sizes
from coterie.peers._transfer import AnchorGraph, join_to_anchors
from coterie.threads import count_threads, one_thread_per_block
from coterie.validation import check_choice
from coterie.views.preparation import SCALINGS
from coterie.views.steps import Table

LEAST_COLUMNS, MOST_COLUMNS = 0.2, 0.8  # share of a view's columns that a member draws


@peer
class FastMICE(Peer):
    """Fast multi-view clustering via ensembles: random views, random columns, one consensus.

    Each of M members draws a number of views and some columns of each, joins the rows to anchors of
    every drawn view and clusters them by the transfer cut of the joint bipartite graph. The transfer
    cut of rows and all members' clusters gives the labels. There is nothing to tune. Time O(M n p d),
    memory O(n (M + q)): linear in the number of rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, k. Members have k to 2k.
    n_members : int, default=20
        Number of members, M.
    scaling : "auto", "none", "block", "half" or "standard", default="auto"
        Preparation of each view, as in :class:`coterie.GuidedCoTraining`.
    n_landmarks : int, default=1000
        Number of a member's anchors over all its views, p.
    n_neighbors : int, default=5
        Number of anchors that a row is joined to over all of a member's views, q.

    Attributes
    ----------
    embedding_
    base_labels_ : ndarray of shape (n, n_members)
        Every member's clusters.

    Notes
    -----
    The method does not say how columns are scaled, and raw word counts (``scaling="none"``) hide the clusters, so that
    Coterie's own preparation is the default. On views of words, results differ much between seeds: means over few seeds
    are unreliable, and those over ten or twenty are within .03 of a prototype's. Two variants were tried: unit rows of
    the columns that a member draws, since the authors suggest cosines for text, and no more anchors than rows over all
    views of a member, as in their code. The first is better on one set of words and worse on two; the second changes
    little. The page "Which method when" has the figures.
    ``predict`` maps new rows through all members, like the rows of the fit.

    References
    ----------
    D. Huang, C. Wang and J. Lai: Fast Multi-View Clustering via Ensembles: Towards Scalability,
    Superiority, and Simplicity. IEEE Transactions on Knowledge and Data Engineering 35 (2023).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import FastMICE
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = FastMICE(3, n_landmarks=100, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    n_members: int = 20
    scaling: str = "auto"
    n_landmarks: int = 1000
    n_neighbors: int = 5
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> FastMICE:
        self._check_ints(n_members=1, n_landmarks=1, n_neighbors=1)
        check_choice("FastMICE", "scaling", self.scaling, SCALINGS)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views, self.scaling)
        with one_thread_per_block():
            tables = reader.tables(views)
            sizes = draw_sizes(self.n_clusters, 2 * self.n_clusters, self.n_members, views.n_rows, rng)
            members = [
                fit_member(tables, int(size), self.n_landmarks, self.n_neighbors, rng, n_threads) for size in sizes
            ]
            found = agree(members, self.n_clusters, rng, n_threads)
        self._reader, self._ensemble = reader, found.ensemble
        self.embedding_, self.base_labels_, self.labels_ = found.embedding, found.base_labels, found.labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old, by the map that the rows of the fit went through."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            return self._ensemble(reader.tables(views), count_threads(self.n_jobs))


@dataclass(frozen=True)
class ViewPart:
    """A member's part of one view: some columns, and anchors in them."""

    view: int
    columns: np.ndarray  # numbers, ascending
    join: AnchorGraph


@dataclass(frozen=True)
class JoinedViews:
    """A map from rows of all views to weights of anchors in a member's views, side by side."""

    parts: tuple[ViewPart, ...]

    def __call__(self, tables: Sequence[Table], n_threads: int) -> sparse.csr_array:
        """Return the rows' weights."""
        return next_to_each_other([s.join(tables[s.view][:, s.columns], n_threads) for s in self.parts])


def fit_member(
    tables: Sequence[Table],
    n_clusters: int,
    n_landmarks: int,
    n_neighbors: int,
    rng: np.random.Generator,
    n_threads: int,
) -> tuple[Member, np.ndarray]:
    """Return one member of the ensemble, and the clusters that it gives the rows.

    The numbers of anchors and neighbours are divided among the views that were drawn.
    """
    drawn = rng.choice(len(tables), rng.integers(1, len(tables), endpoint=True), replace=False)
    p, q = -(-n_landmarks // len(drawn)), -(-n_neighbors // len(drawn))
    parts, graphs = [], []
    for v in np.sort(drawn):
        columns = draw_columns(tables[v].shape[1], rng)
        join, graph = join_to_anchors(tables[v][:, columns], p, q, rng, n_threads, unit=True)
        parts.append(ViewPart(int(v), columns, join))
        graphs.append(graph)
    return cut_member(JoinedViews(tuple(parts)), next_to_each_other(graphs), n_clusters, rng, n_threads)


def draw_columns(width: int, rng: np.random.Generator) -> np.ndarray:
    """Return 20 to 80 % of a view's columns, at least one."""
    share = rng.uniform(LEAST_COLUMNS, MOST_COLUMNS)
    return np.sort(rng.choice(width, max(1, round(share * width)), replace=False))


def next_to_each_other(graphs: Sequence[sparse.csr_array]) -> sparse.csr_array:
    """Return graphs of the same rows as one: B."""
    return sparse.csr_array(sparse.hstack(graphs, format="csr"))

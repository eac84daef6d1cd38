"""One partition from many of the same rows: the consensus of U-SENC and of FastMICE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coterie.peers._lloyd import lloyd, nearest_center
from coterie.peers._transfer import TransferCut, incidence, transfer_cut

MEMBER_PASSES = 5
CONSENSUS_PASSES = 20
CONSENSUS_RUNS = 5

# A member's map from rows to the graph that joins them to its own anchors.
Join = Callable[[Any, int], sparse.csr_array]


@dataclass(frozen=True)
class Member:
    """One partition, as a map: rows -> weights of anchors -> embedding -> clusters."""

    join: Join
    spectrum: TransferCut
    centers: np.ndarray  # (k_i, k_i), each of length one

    def __call__(self, rows: Any, n_threads: int) -> np.ndarray:
        """Return the rows' clusters."""
        return nearest_center(self.spectrum(self.join(rows, n_threads)), self.centers)[0]  # (n,)


@dataclass(frozen=True)
class Ensemble:
    """Members, and the transfer cut of their partitions."""

    members: tuple[Member, ...]
    spectrum: TransferCut
    centers: np.ndarray  # (k, k), each of length one

    def __call__(self, rows: Any, n_threads: int) -> np.ndarray:
        """Return the rows' clusters."""
        graph = self.join([member(rows, n_threads) for member in self.members])
        return nearest_center(self.spectrum(graph), self.centers)[0]  # (n,)

    def join(self, labels: Sequence[np.ndarray]) -> sparse.csr_array:
        """Return the incidence matrix of the members' partitions."""
        return incidence(labels, [len(member.centers) for member in self.members])


@dataclass(frozen=True)
class EnsembleFit:
    """An ensemble, and its results for the rows of its fit."""

    ensemble: Ensemble
    labels: np.ndarray  # (n,)
    embedding: np.ndarray  # (n, k)
    base_labels: np.ndarray  # (n, M)


def cut_member(
    join: Join, graph: sparse.csr_array, n_clusters: int, rng: np.random.Generator, n_threads: int
) -> tuple[Member, np.ndarray]:
    """Return a partition of the graph's rows: the transfer cut, and a few passes of k-means with cosines."""
    spectrum = transfer_cut(graph, n_clusters)
    rows = spectrum(graph)  # (n, k_i)
    groups = lloyd(rows, n_clusters, n_iter=MEMBER_PASSES, rng=rng, n_threads=n_threads, cosine=True)
    return Member(join, spectrum, groups.centers), groups.labels


def agree(
    members: Sequence[tuple[Member, np.ndarray]], n_clusters: int, rng: np.random.Generator, n_threads: int
) -> EnsembleFit:
    """Return the ensemble's consensus: the transfer cut of the members' incidence matrix, and k-means."""
    labels = [own for _, own in members]
    graph = incidence(labels, [len(member.centers) for member, _ in members])  # (n, sum of k_i)
    spectrum = transfer_cut(graph, n_clusters)
    rows = spectrum(graph)  # (n, k)
    groups = lloyd(
        rows,
        n_clusters,
        n_iter=CONSENSUS_PASSES,
        n_runs=CONSENSUS_RUNS,
        rng=rng,
        n_threads=n_threads,
        cosine=True,
    )
    ensemble = Ensemble(tuple(member for member, _ in members), spectrum, groups.centers)
    return EnsembleFit(ensemble, groups.labels, rows, np.column_stack(labels))


def draw_sizes(low: int, high: int, count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of clusters, one for each member: from ``low`` to ``high``, and never more than ``most``."""
    return np.minimum(rng.integers(low, high, size=count, endpoint=True), most)  # (M,)

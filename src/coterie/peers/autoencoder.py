"""GraphEncoder: a stack of sparse auto-encoders instead of eigenvectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.lazy import import_extra
from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, gaussian_affinity
from coterie.peers._docstrings import peer
from coterie.threads import one_thread_per_block
from coterie.validation import check_real, refuse

N_MATRICES = 4  # of n x n float64: affinities, their normalised copy, and torch's

LEAST_ACTIVITY = 1e-6  # keeps the penalty's logarithms finite


@peer
class SparseAutoencoder(Peer):
    """Deep representations of a graph (GraphEncoder), of one view or of all side by side.

    Rows of the normalised affinities D^-1 S are the input of a stack of auto-encoders, which are trained
    one after the other with a penalty that keeps units inactive; k-means clusters the last hidden layer.
    Memory O(n^2), time O(n^2) an epoch: the number of rows is limited.

    Parameters
    ----------
    hidden : sequence of int, default=(256, 64)
        Number of units of every layer.
    sparsity : float, default=0.1
        Target of the units' mean activity, rho, between 0 and 1.
    beta : float, default=0.1
        Weight of the penalty.
    n_epochs : int, default=60
        Number of epochs that every layer is trained for.
    batch_size : int, default=256
        Number of rows in a batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, hidden[-1])
        The last hidden layer.
    objective_ : list of float
        Mean loss of every epoch, layer after layer.
    n_iter_ : int
        Number of epochs of all layers.

    Notes
    -----
    Needs torch: ``pip install coterie[gpu]``. The input is multiplied by n, so that its mean is one and not 1 / n.

    References
    ----------
    F. Tian, B. Gao, Q. Cui, E. Chen and T. Liu: Learning Deep Representations for Graph Clustering. AAAI 2014.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import SparseAutoencoder
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> model = SparseAutoencoder(3, hidden=(32, 8), random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    hidden: Sequence[int] = (256, 64)
    sparsity: float = 0.1
    beta: float = 0.1
    n_epochs: int = 60
    batch_size: int = 256
    learning_rate: float = 1e-3
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> SparseAutoencoder:
        settings = self._settings()
        views = self._read_views(X)
        torch = import_extra("torch", "gpu", "SparseAutoencoder")  # here, so that its threads are limited too
        check_row_count("SparseAutoencoder", views.n_rows, N_MATRICES)
        rng = self._make_rng()
        reader = self._learn_reader(views, dtype=np.float64)
        with one_thread_per_block():
            walks = transition_rows(gaussian_affinity(reader.table(views), rng))  # (n, n)
            found = train_stack(torch, walks, self.hidden, settings, rng)
            labels = cut(found.rows, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = found.rows, labels
        self.objective_, self.n_iter_ = list(found.losses), len(found.losses)
        return self

    def _settings(self) -> Training:
        owner = "SparseAutoencoder"
        self._check_ints(n_epochs=1, batch_size=1, n_init=1)
        check_real(owner, "beta", self.beta, low=0)
        check_real(owner, "learning_rate", self.learning_rate, low=0, above=True)
        check_real(owner, "sparsity", self.sparsity, low=0, above=True)
        if self.sparsity >= 1:
            refuse(owner, "sparsity", "a number between 0 and 1", self.sparsity)
        listed = isinstance(self.hidden, tuple | list) and len(self.hidden) > 0
        if not listed or any(not isinstance(units, int) or units < 1 for units in self.hidden):
            refuse(owner, "hidden", "a list of whole numbers of at least 1, one for each layer", self.hidden)
        return Training(self.sparsity, self.beta, self.n_epochs, self.batch_size, self.learning_rate)


@dataclass(frozen=True)
class Training:
    """How a layer is trained."""

    sparsity: float
    beta: float
    n_epochs: int
    batch_size: int
    learning_rate: float


@dataclass(frozen=True)
class Encoding:
    """The rows after the last layer, and the loss of every epoch."""

    rows: np.ndarray  # (n, units)
    losses: tuple[float, ...]


def transition_rows(affinity: np.ndarray) -> np.ndarray:
    """Return n D^-1 S in float32, S with ones on its diagonal."""
    np.fill_diagonal(affinity, 1)
    return (affinity * (len(affinity) / affinity.sum(axis=1, keepdims=True))).astype(np.float32)  # (n, n)


def train_stack(
    torch: Any, rows: np.ndarray, hidden: Sequence[int], settings: Training, rng: np.random.Generator
) -> Encoding:
    """Train one layer after the other, each on the output of the one before."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    current, losses = torch.from_numpy(rows), list[float]()
    for units in hidden:
        current, own = train_layer(torch, current, units, settings, generator)
        losses += own
    return Encoding(current.numpy(), tuple(losses))


def train_layer(torch: Any, rows: Any, units: int, settings: Training, generator: Any) -> tuple[Any, list[float]]:
    """Minimise |x - decode(encode(x))|^2 / d + beta KL(rho | mean activity); return the encoded rows and the losses."""
    n, d = rows.shape
    bound = (6 / (d + units)) ** 0.5
    encode = (torch.rand(d, units, generator=generator) * 2 - 1) * bound
    decode = (torch.rand(units, d, generator=generator) * 2 - 1) * bound
    parts = [encode, torch.zeros(units), decode, torch.zeros(d)]
    for part in parts:
        part.requires_grad_(True)
    optimizer = torch.optim.Adam(parts, lr=settings.learning_rate)
    losses = []
    for _ in range(settings.n_epochs):
        total = 0.0
        for numbers in torch.randperm(n, generator=generator).split(settings.batch_size):
            batch = rows[numbers]
            active = torch.sigmoid(batch @ parts[0] + parts[1])  # (b, units)
            loss = ((active @ parts[2] + parts[3] - batch) ** 2).mean()
            loss = loss + settings.beta * sparsity_penalty(torch, active.mean(dim=0), settings.sparsity)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(numbers)
        losses.append(total / n)
    with torch.no_grad():
        return torch.sigmoid(rows @ parts[0] + parts[1]), losses


def sparsity_penalty(torch: Any, activity: Any, goal: float) -> Any:
    """Return the mean KL divergence between Bernoulli variables of the wanted activity and of the units'."""
    own = activity.clamp(LEAST_ACTIVITY, 1 - LEAST_ACTIVITY)
    return (goal * torch.log(goal / own) + (1 - goal) * torch.log((1 - goal) / (1 - own))).mean()

"""Drift: how far a batch of new rows differs from the rows of the fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.arrays import to_host
from coterie.estimator import GuidedCoTraining
from coterie.model import fitted_of
from coterie.validation import check_real

__all__ = ["Drift", "measure_drift"]

NOVEL = 0.95  # 5 % of the fit's rows have a higher novelty
DEVIATIONS = 3.0  # differences of up to this many standard errors are attributed to chance


@dataclass(frozen=True)
class Drift:
    """How a batch of rows differs from the fit.

    Attributes
    ----------
    n_rows : int
        Number of rows in the batch.
    novel : float
        Share of rows whose novelty is above .95; .05 is expected.
    novelty_shift : float
        Largest excess, over all thresholds, of the share of rows above a novelty over its expectation (the one-sided
        Kolmogorov-Smirnov statistic): 0 if the batch is like the fit.
    shares, fitted_shares : ndarray of shape (n_clusters,)
        Share of the rows in each cluster, in the batch and in the fit.
    share_shift : float
        Half the sum of the shares' absolute differences: the share of rows that would have to change clusters.
    lacking, fitted_lacking : dict of float
        Share of the rows that lack each view, in the batch and in the fit (there, of at most 2,000 rows).
    alarms : tuple of str
        A message for each difference beyond tolerance and chance; empty if there is none.
    """

    n_rows: int
    novel: float
    novelty_shift: float
    shares: np.ndarray
    fitted_shares: np.ndarray
    share_shift: float
    lacking: dict[str, float]
    fitted_lacking: dict[str, float]
    alarms: tuple[str, ...] = field(default=())


def measure_drift(model: GuidedCoTraining, X: Any, *, tolerance: float = 0.1) -> Drift:
    """Compare a batch of rows with the rows that a model was fitted on.

    Parameters
    ----------
    model : GuidedCoTraining
        After ``fit``, or loaded from a file.
    X : like in :meth:`coterie.GuidedCoTraining.predict`
        The batch.
    tolerance : float, default=0.1
        How far shares may differ (``novel`` by half of it) without an alarm, besides what chance explains in a batch
        of this size.

    Returns
    -------
    Drift

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> data = make_views(900, n_clusters=3, random_state=0)
    >>> old, new = ({name: view[rows] for name, view in data.views.items()} for rows in (slice(600), slice(600, 900)))
    >>> model = GuidedCoTraining(3, random_state=0).fit(old)
    >>> measure_drift(model, new).alarms
    ()
    >>> measure_drift(model, {name: view + 5 for name, view in new.items()}).alarms[0]
    '100 % of the rows are unlike those of the fit (novelty above 0.95); 5 % are expected'
    """
    check_real("measure_drift", "tolerance", tolerance, low=0)
    fitted = fitted_of(model)
    if fitted.novelty_scale is None or fitted.cluster_sizes is None:
        raise ValueError(
            "This model does not know what its fit was like: it was made by an older version of Coterie. Fit again."
        )
    parts = [(to_host(part.labels), to_host(part.novelty)) for part in model.stream(X)]
    if not parts:
        raise ValueError("X has no rows, so there is nothing to compare with the fit.")
    labels, novelty = (np.concatenate(column) for column in zip(*parts, strict=True))  # (n,), (n,)
    present = fitted.novelty_scale.present
    names = fitted.view_names
    lacking = 1 - presence_by_view(fitted.read(X, model.device, model.id_column))
    sizes = np.bincount(labels[labels >= 0], minlength=fitted.n_clusters)
    found = Drift(
        n_rows=len(labels),
        novel=float((novelty > NOVEL).mean()),
        novelty_shift=shift_upwards(novelty),
        shares=sizes / max(sizes.sum(), 1),
        fitted_shares=fitted.cluster_sizes / fitted.cluster_sizes.sum(),
        share_shift=0.0,
        lacking=dict(zip(names, lacking.tolist(), strict=True)),
        fitted_lacking=dict(zip(names, (1 - present).tolist(), strict=True)),
    )
    return with_alarms(found, tolerance)


def presence_by_view(views: Any) -> np.ndarray:
    """Return the share of rows that have each view; rows are read only if it is not known otherwise."""
    if not views.may_lack:
        return views.presence().mean(axis=0)  # (V,)
    counts = np.zeros(len(views))
    for start in range(0, views.n_rows, 8192):
        rows = slice(start, min(start + 8192, views.n_rows))
        blocks = views.read(rows)
        counts += [rows.stop - start if own.present is None else int(to_host(own.present).sum()) for own in blocks]
    return counts / views.n_rows


def shift_upwards(novelty: np.ndarray) -> float:
    """Return how far novelties exceed a uniform distribution: the one-sided Kolmogorov-Smirnov statistic.

    Examples
    --------
    >>> shift_upwards(np.linspace(0.5, 1, 101)).__round__(2)
    0.5
    """
    ordered = np.sort(novelty.astype(np.float64))
    return float(max((ordered - np.arange(len(ordered)) / len(ordered)).max(), 0.0))


def with_alarms(found: Drift, tolerance: float) -> Drift:
    """Return the drift with its share shift and its alarms."""
    n, shares, before = found.n_rows, found.shares, found.fitted_shares
    shift = float(np.abs(shares - before).sum() / 2)
    alarms = []
    if found.novel > 1 - NOVEL + tolerance / 2 + chance(1 - NOVEL, n):
        alarms.append(
            f"{found.novel:.0%} of the rows are unlike those of the fit (novelty above {NOVEL}); "
            f"{1 - NOVEL:.0%} are expected".replace("%", " %")
        )
    elif found.novelty_shift > tolerance + DEVIATIONS / 2 / np.sqrt(n):
        alarms.append(
            f"rows are farther out than those of the fit: their novelty is shifted by {found.novelty_shift:.2f}"
        )
    if shift > tolerance + sum(chance(float(share), n) for share in before) / 2:
        moved = int(np.abs(shares - before).argmax())
        alarms.append(
            f"the clusters' shares differ by {shift:.0%} from the fit: cluster {moved} has {shares[moved]:.0%} "
            f"of the rows instead of {before[moved]:.0%}".replace("%", " %")
        )
    for name, share in found.lacking.items():
        usual = found.fitted_lacking[name]
        if share > usual + tolerance + chance(usual, n):
            alarms.append(f"{share:.0%} of the rows lack view {name!r} instead of {usual:.0%}".replace("%", " %"))
    return Drift(**{**vars(found), "share_shift": shift, "alarms": tuple(alarms)})


def chance(share: float, n_rows: int) -> float:
    """Return the difference of a share that chance explains in a batch: DEVIATIONS standard errors."""
    return DEVIATIONS * float(np.sqrt(share * (1 - share) / n_rows))

"""The number of clusters that the rows of some views fall into, without a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coterie.estimator import GuidedCoTraining
from coterie.joining import join, prepare_sample
from coterie.method.selection import KSuggestion, settle_k_max, suggest_from_graphs
from coterie.placement import placement_of
from coterie.progress import Progress
from coterie.settings import check_parameters, settle
from coterie.threads import one_thread_per_block
from coterie.views import as_views


def suggest_k(
    X: Any,
    *,
    k_max: int | None = None,
    views: Any = None,
    n_jobs: int | None = -1,
    random_state: Any = None,
    **settings: Any,
) -> KSuggestion:
    """Suggest how many clusters the rows of X fall into.

    Parameters
    ----------
    X : array, frame, or a list, tuple or dict of them
        Like in :meth:`coterie.GuidedCoTraining.fit`.
    k_max : int, default=None
        The largest number of clusters that is tried. None is 40, or a tenth of the rows where that is less.
    views : dict or list of column selections, default=None
        Splits the columns of a single table into views.
    n_jobs : int, default=-1
        Threads; -1 uses all cores. The answer does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of all random draws.
    **settings
        Other parameters of :class:`coterie.GuidedCoTraining` that say how graphs are built.

    Returns
    -------
    KSuggestion

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> data = make_views(400, n_clusters=4, separation=7, random_state=0)
    >>> suggestion = suggest_k(data.views, k_max=8, random_state=0)
    >>> suggestion.best, suggestion.is_clear
    (4, True)
    """
    data = as_views(X, views, id_column=settings.get("id_column"))
    k_max = settle_k_max("suggest_k", k_max, data.n_rows)
    model = GuidedCoTraining(k_max, views=views, n_jobs=n_jobs, random_state=random_state, **settings)
    owner, parameters = type(model).__name__, model.get_params(deep=False)
    check_parameters(owner, parameters)
    settled = replace(settle(owner, parameters, data), n_clusters=None)  # k_max need not be reached
    job = {**parameters, "task": "suggest_k"}  # must not be resumed as an unfinished fit
    with one_thread_per_block(), placement_of(owner, job, data) as (placement, rng):
        progress = Progress(verbose=False)
        sample = prepare_sample(data, settled, rng, progress)
        graphs = join(data, sample, settled, placement, rng, progress)
        return suggest_from_graphs(graphs.rows, graphs.graph_map, k_max=k_max, rng=rng, n_threads=settled.n_threads)

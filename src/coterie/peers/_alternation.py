"""Alternating optimisation: one loop, with a tolerance, a maximum number of rounds and a history."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sklearn.exceptions import ConvergenceWarning

State = TypeVar("State")


@dataclass(frozen=True)
class Round(Generic[State]):
    """The result of one round."""

    state: State
    objective: float
    change: float | None = None  # compared with the tolerance; None: the objective's relative change is


@dataclass(frozen=True)
class Alternation(Generic[State]):
    """The final state, and the history of the rounds."""

    state: State
    objective: tuple[float, ...]  # one value a round
    change: float  # of the last round, as compared with the tolerance
    converged: bool

    @property
    def n_iter(self) -> int:
        """Number of rounds."""
        return len(self.objective)


def alternate(start: State, step: Callable[[State], Round[State]], *, max_iter: int, tol: float) -> Alternation[State]:
    """Repeat ``step`` from ``start`` on, until a round changes by no more than ``tol`` or ``max_iter`` is reached.

    Examples
    --------
    Newton's method for the root of 2:

    >>> found = alternate(2.0, lambda x: Round((x + 2 / x) / 2, abs(x * x - 2)), max_iter=50, tol=1e-9)
    >>> found.converged, round(found.state, 6)
    (True, 1.414214)
    """
    state, objective, change = start, list[float](), float("inf")
    while len(objective) < max_iter:
        ended = step(state)
        state = ended.state
        change = relative_change(objective, ended.objective) if ended.change is None else ended.change
        objective.append(float(ended.objective))
        if change <= tol:
            return Alternation(state, tuple(objective), change, True)
    return Alternation(state, tuple(objective), change, False)


def relative_change(history: list[float], now: float) -> float:
    """Return the relative change of the objective; infinity in the first round."""
    if not history:
        return float("inf")
    before = history[-1]
    return abs(now - before) / max(abs(before), 1e-300) if now != before else 0.0


def warn_unless_converged(owner: str, found: Alternation, tol: float) -> None:
    """Warn that the constraints are not met yet; for methods whose result is not valid before they are."""
    if not found.converged:
        warnings.warn(
            f"{owner} stopped after {found.n_iter} rounds with a residual of {found.change:.1e}, above tol={tol:g}. "
            "Raise max_iter, or tol if that is near enough.",
            ConvergenceWarning,
            stacklevel=3,
        )

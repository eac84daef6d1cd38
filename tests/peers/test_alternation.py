"""The loop that methods alternate in: when it ends, and what it keeps."""

from __future__ import annotations

import pytest
from sklearn.exceptions import ConvergenceWarning

from coterie.peers._alternation import Alternation, Round, alternate, warn_unless_converged


def halve(value):
    return Round(value / 2, value)


def test_rounds_end_at_the_maximum():
    found = alternate(1.0, halve, max_iter=4, tol=0.0)
    assert (found.state, found.n_iter, found.converged) == (1 / 16, 4, False)
    assert found.objective == (1.0, 0.5, 0.25, 0.125)


def test_rounds_end_when_the_objective_rests():
    found = alternate(0, lambda n: Round(n + 1, 10.0 if n > 2 else float(n)), max_iter=50, tol=1e-6)
    assert found.converged
    assert found.objective == (0.0, 1.0, 2.0, 10.0, 10.0)


def test_a_round_may_say_itself_how_far_it_is():
    found = alternate(1.0, lambda x: Round(x / 10, 5.0, change=x), max_iter=50, tol=1e-3)
    assert (found.n_iter, found.converged, found.change) == (4, True, pytest.approx(1e-3))


def test_an_objective_of_zero_is_rest():
    assert alternate(0, lambda n: Round(n, 0.0), max_iter=50, tol=0.0).n_iter == 2


def test_only_what_has_not_converged_is_warned_of():
    warn_unless_converged("Method", Alternation(0, (1.0,), 0.0, True), 1e-3)
    with pytest.warns(ConvergenceWarning, match=r"Method stopped after 1 rounds with a residual of 5.0e-01, above tol"):
        warn_unless_converged("Method", Alternation(0, (1.0,), 0.5, False), 1e-3)

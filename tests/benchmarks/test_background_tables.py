"""Tables of the background pages: rules for choosing a basis, and trials as they were written down."""

import pytest

from benchmarks.background_tables import always, best_by, candidates_table, trial_tables


def line(data, unequal, **figures):
    bases = ("diffusion", "commute")
    given = {name: dict(zip(bases, pair, strict=True)) for name, pair in figures.items()}
    return {"data": data, "unequal": unequal, **given}


def test_a_rule_takes_the_basis_with_the_higher_figure():
    found = line("a", True, ari=(0.2, 0.8), stability=(0.5, 0.503))
    assert always("diffusion")(found) == 0.2
    assert best_by("stability")(found) == 0.8
    assert best_by("stability", lead=0.005)(found) == 0.2
    assert best_by("ari")(found) == 0.8


def test_means_are_over_sets_of_each_kind():
    figures = ("stability", "row_halves_agreement", "view_label_agreement", "first_round_agreement", "final_agreement")
    same = dict.fromkeys(figures, (0.0, 1.0))  # always the second
    lines = [
        line("a", True, ari=(0.1, 0.5), **same),
        line("a", True, ari=(0.3, 0.7), **same),
        line("b", True, ari=(0.0, 1.0), **same),
        line("c", False, ari=(0.9, 0.2), **same),
    ]
    for one in lines:
        one["ari"] |= {"subspace": 0.0, "k-means, prepared columns": 0.0}
    rows = {row[0]: row[1:] for row in candidates_table(lines).rows}
    assert rows['always "diffusion"'] == ("0.100", "0.900")
    assert rows["stability between halves of the landmarks"] == ("0.800", "0.200")
    assert rows["the better of the two, by labels"] == ("0.800", "0.900")


def test_trials_are_shown_as_they_stand():
    (table,) = trial_tables([{"table": "t", "about": "NMI", "header": ["a", "b"], "rows": [["1", "2"]]}]).values()
    assert (table.header, table.rows) == (("a", "b"), (("1", "2"),))
    with pytest.raises(KeyError):
        trial_tables([{"table": "t"}])

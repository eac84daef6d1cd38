"""Tables of the background pages: rules for choosing a basis, and trials as they were written down."""

import pytest

from benchmarks.background_tables import always, best_by, candidates_table, opened_table, trial_tables
from benchmarks.basis_tables import bases_table, few_landmarks_table, kind_of, means_table, todays_rule
from benchmarks.collecting import all_tables
from benchmarks.states import earlier_note
from benchmarks.tables import seeds_note


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


def weighed(data="pair_5", **bases):
    """A set on which each basis has the same (ARI, agreement) after every round."""

    def looks(ari, agreement):
        found = {"ari": ari, "agreements": [agreement] * 2, "own_labels_too": [agreement] * 2, "entropy": 1.0}
        return {str(rounds): found for rounds in (1, 2, 5)}  # nothing changed after that

    return {"data": data, "seed": 0, **{basis: looks(*figures) for basis, figures in bases.items()}}


def test_the_rule_of_the_package_is_applied_to_the_figures_of_every_basis():
    assert (
        todays_rule(weighed(diffusion=(0.1, 0.8), commute=(0.2, 0.805), islands=(0.3, 0.809))) == 0.1
    )  # no clear lead
    assert todays_rule(weighed(diffusion=(0.1, 0.8), commute=(0.2, 0.82), islands=(0.3, 0.825))) == 0.2
    islands = {"diffusion": (0.1, 0.8), "commute": (0.2, 0.8), "islands": (0.3, 0.9)}
    assert todays_rule(weighed(**islands)) == 0.3
    assert todays_rule(weighed(diffusion=(0.1, 0.8), commute=(0.2, 0.9))) == 0.1  # words alone


def test_sets_of_the_comparison_are_of_four_kinds():
    assert [kind_of(data) for data in ("uci", "zipf_uci", "citeseq5", "white_300", "moons")] == [
        *("equal", "unequal", "unequal", "noise", "shapes")
    ]
    sets = ("uci", "zipf_uci", "white_300", "moons")
    table = bases_table([weighed(data, diffusion=(0.1, 0.8), commute=(0.2, 0.9), islands=(0.3, 0.9)) for data in sets])
    assert table.header == ("chosen by", "equal (1)", "unequal (1)", "shapes (1)", "noise (1)")
    assert table.rows[5] == ("**the rule above**", "0.200", "0.200", "0.200", "0.200")


def test_landmarks_that_are_means_stand_beside_medoids_with_the_sets_that_change_most():
    def line(data, medoids, means):
        columns = {f"{basis}, {kind}": {"5": {"ari": ari}} for basis in ("diffusion", "commute") for kind, ari in
                   (("medoids", medoids), ("means", means))}  # fmt: skip
        return {"data": data, **columns}

    lines = [line("usps", 0.5, 0.7), line("moons", 0.5, 0.5), line("citeseer", 0.5, 0.4), line("uci", 0.5, 0.6)]
    table = means_table(lines, shown=1)
    assert table.rows[0] == ("mean over 4 sets", "0.500", "0.550", "0.500", "0.550")
    assert [row[0] for row in table.rows[1:]] == ["USPS", "moons", "Citeseer"]
    few = [
        {**weighed(data, diffusion=(0.5, 0), commute=(0.6, 0)), "landmarks_third": 9}
        for data in ("uci", "zipf_uci", "moons")
    ]
    thirds = {f"{basis}, a third of the landmarks": few[0][basis] for basis in ("diffusion", "commute")}
    assert few_landmarks_table([{**one, **thirds} for one in few]).rows[-1] == (
        '"commute", 5 rounds, shapes (1)',
        "0.600",
        "0.600",
    )


def test_notes_say_what_is_older_than_the_change_that_matters():
    old, new = {"data": "a", "code": {"source": "4de8bad272fc"}}, {"data": "b", "code": {"source": "new"}}
    assert earlier_note([new]) == ()
    assert earlier_note([old, {"data": "a"}])[0].endswith("a third basis was weighed.")
    assert earlier_note([old, new], {"a": "USPS"})[0].endswith("a third basis was weighed for USPS.")


def test_notes_say_how_many_seeds_there_were():
    lines = [
        {"method": method, "data": data, "seed": seed, "settings": {}, "NMI": 0.5}
        for method, data, seeds in (("a", "uci", 3), ("a", "usps", 1), ("b", "uci", 2), ("c", "uci", 2))
        for seed in range(seeds)
    ]
    assert seeds_note(lines, "NMI") == ("Seeds: 1 to 3 for a; 2 for the others.",)
    assert seeds_note(lines[-2:], "NMI") == ("Seeds: 2.",)
    assert seeds_note(lines[-1:], "NMI") == ()


def test_a_report_from_files_stands_beside_one_from_frames():
    seen = {"first_paint_ms": 240, "frames_a_second": 58.8}
    old = {"rows": 10, "seconds": {"frames": 9.0, "files": 9.0}}
    line = {"rows": 10, "seconds": {"frames": 2.0, "files": 3.0}, "screen": seen}
    assert opened_table([old, line]).rows == (("10", "2.0", "3.0", "1.5", "240 / -", "59 / -"),)


def test_there_are_no_tables_without_results(tmp_path):
    assert all_tables(tmp_path) == {}

"""README's table and the lines that are lost: whose figures are shown, and whose are not."""

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.collecting import all_tables
from benchmarks.commands import app
from benchmarks.speed import QUICK, SUMMARY, summary_part
from benchmarks.speed_tables import speed_tables
from benchmarks.summary import lost_sentence, lost_table, summary_table

ROOT = Path(__file__).resolve().parents[2]


def score(method, data, **measures):
    return {"method": method, "data": data, "seed": 0, "settings": {}, **measures}


@pytest.fixture
def leaderboard():
    """Every method once better than the one before, except on the second set; one was not measured on the third."""
    values = {method: number / 10 for number, method in enumerate(SUMMARY, 1)}
    first = [score(method, "usps", NMI=value) for method, value in values.items()]
    second = [score(method, "digits", NMI=0.9 if method == "Coterie" else 0.1) for method in SUMMARY]
    third = [score("Coterie", "mfeat", NMI=1.0)]
    return [*first, *second, *third, *(score(method, "noise", NMI=1.0) for method in SUMMARY)]


def timed(run, seconds, **changed):
    settings = {**run.settings(), **changed}
    return {"method": run.method.name, "data": run.data, "seed": 0, "settings": settings, "seconds": seconds}


def test_means_and_wins_are_over_real_sets_that_all_methods_ran_on(leaderboard):
    table = summary_table(leaderboard, [], QUICK)
    assert table.rows[0] == ("Coterie, defaults", "0.500", "1 of 2", "-", "-")
    assert [row[1] for row in table.rows[1:]] == ["0.150", "0.200", "0.250", "0.300"]
    assert [row[2] for row in table.rows] == ["1 of 2", "0 of 2", "0 of 2", "0 of 2", "1 of 2"]


def test_seconds_are_those_of_todays_settings_alone(leaderboard):
    images, million = summary_part(QUICK)
    assert [run.method.name for run in images] == list(SUMMARY)
    records = [
        timed(images[0], 9.0),
        timed(images[0], 1.25),  # the last one counts
        timed(images[0], 7.0, basis="diffusion"),  # a default of before
        timed(million[3], 61.0),
    ]
    shown = [row[3:] for row in summary_table(leaderboard, records, QUICK).rows]
    assert shown == [("1.2", "-"), ("-", "-"), ("-", "-"), ("-", "61.0"), ("-", "-")]


def test_a_fit_that_was_ended_has_a_dash_and_no_line_of_its_own(leaderboard):
    images, _ = summary_part(QUICK)
    ended = {**timed(images[1], 1.0), "failed": "did not end", "limit": 300, "part": "summary"}
    del ended["seconds"]
    assert summary_table(leaderboard, [ended], QUICK).rows[1][3] == "-"
    assert speed_tables([ended])["speed_summary"].rows == ()


def test_a_note_names_the_methods_whose_rows_were_not_shuffled(leaderboard):
    shuffled = [{**line, "settings": {"order": "shuffled"}} for line in leaderboard]
    measured = [timed(run, 1.0) for group in summary_part(QUICK) for run in group]
    assert summary_table(shuffled, [], QUICK).notes == ("A dash: not measured with these settings.",)
    assert summary_table(shuffled, measured, QUICK).notes == ()
    some = [line for line in leaderboard if line["method"] != "Coterie"]
    own = [line for line in shuffled if line["method"] == "Coterie"]
    (note,) = summary_table([*some, *own], measured, QUICK).notes
    assert "MVSC-B" in note
    assert "Coterie" not in note


def test_sets_on_which_another_method_has_the_higher_nmi_are_named():
    lines = [score("Coterie", "usps", NMI=0.7), score("MVSC-B", "usps", NMI=0.8), score("Coterie", "digits", NMI=0.9)]
    assert lost_sentence(lines).endswith("higher NMI: USPS (MVSC-B 0.800, Coterie 0.700).")
    assert lost_sentence(lines[::2]).startswith("No method")


def test_lines_that_another_method_wins_clearly_are_listed():
    records = [
        score("Coterie", "citeseq_5", ARI=0.97),
        score("MVSC-B", "citeseq_5", ARI=0.99),  # within what other seeds change
        score("Coterie", "citeseq_10", ARI=0.7),
        score("MVSC-B", "citeseq_10", ARI=0.72),
        score("FastMICE", "citeseq_10", ARI=0.8),
    ]
    assert lost_table(records).rows == (("CITE-seq, 10 types", "0.700", "0.800", "FastMICE"),)


def written_pages():
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.skipif(not (ROOT / "benchmarks" / "results").is_dir(), reason="needs the results of a checkout")
def test_every_marker_is_filled_or_says_that_nothing_was_measured():
    found = all_tables(ROOT / "benchmarks" / "results")
    between = re.compile(r"<!-- table:([\w-]+) -->\n(.*?)\n?<!-- /table:\1 -->", re.DOTALL)
    for page in written_pages():
        for name, body in between.findall(page.read_text(encoding="utf-8")):
            assert name in found or body == "*Not measured yet.*", f"{page.name}: nothing makes {name}"


@pytest.mark.skipif(not (ROOT / "benchmarks" / "results").is_dir(), reason="needs the results of a checkout")
def test_the_tables_of_readme_and_docs_are_those_of_the_results(tmp_path):
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "results")
    pages = written_pages()
    copies = [tmp_path / f"{number}-{page.name}" for number, page in enumerate(pages)]
    for page, copy in zip(pages, copies, strict=True):
        shutil.copy(page, copy)
    arguments = ["tables", "--results", str(tmp_path / "results"), *(f"--write={copy}" for copy in copies)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "Changed: nothing." in done.output.replace("\n", " "), "run `make tables`"

"""All results -> a dict of all tables in README and docs, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.background_tables import candidates_table, checks_table, opened_table, trial_tables
from benchmarks.basis_tables import bases_table, few_landmarks_table, many_clusters_table, means_table, shapes_sentence
from benchmarks.campaign_table import campaign_table, long_run_table, same_labels_table, sharing_table
from benchmarks.cells_table import cells_table
from benchmarks.choosing import choosing_table
from benchmarks.cluster_table import cluster_table
from benchmarks.core_tables import kmeans_table, threads_table
from benchmarks.gpu_table import card_table, gpu_table
from benchmarks.mixed_table import mixed_table
from benchmarks.out_of_core_table import out_of_core_table
from benchmarks.records import read_lines, read_records
from benchmarks.replication_table import touching_table, without_table
from benchmarks.scale_table import scaling_check_table, scaling_table
from benchmarks.serving_table import serving_tables
from benchmarks.speed_tables import speed_tables
from benchmarks.steadiness import steadiness_table
from benchmarks.summary import lost_sentence, lost_table, summary_table
from benchmarks.tables import Table, tables_of
from benchmarks.which_method import all_peers_sentence, method_tables

SUITE_TABLES = ("paper", "leaderboard", "robustness", "unequal")
CAMPAIGNS = ("fuzz", "campaign_fits", "damage")

# A table's name, the file of its results, and the function that makes it.
FROM_LINES: tuple[tuple[str, str, Callable[[Any], Table | str]], ...] = (
    ("candidates", "candidates", candidates_table),
    ("bases", "views_choose", bases_table),
    ("touching", "replication", touching_table),
    ("without_clusters", "replication", without_table),
    ("few_landmarks", "rounds_and_bases", few_landmarks_table),
    ("landmark_means", "landmark_means", means_table),
    ("many_clusters", "many_clusters", many_clusters_table),
    ("mixed_tables", "mixed_tables", mixed_table),
    ("shapes", "shapes", shapes_sentence),
    ("checks", "checks", checks_table),
    ("report", "report", opened_table),
    ("choosing_k", "choosing_k", choosing_table),
    ("steadiness", "steadiness", steadiness_table),
    ("gpu", "gpu", gpu_table),
    ("card", "card", card_table),
    ("out_of_core", "out_of_core", out_of_core_table),
    ("cells", "cells", cells_table),
    ("cluster", "cluster", cluster_table),
    ("long_run", "long_run", long_run_table),
    ("sharing", "sharing", sharing_table),
    ("threads", "threads", threads_table),
    ("beside_kmeans", "beside_kmeans", kmeans_table),
    ("same_labels", "same_labels", same_labels_table),
    ("which_method_minutes", "all_peers", all_peers_sentence),
)


def all_tables(results: Path) -> dict[str, Table | str]:
    """Return every table and sentence for which there are results."""
    found: dict[str, Table | str] = {**suite_tables(results), **trial_tables(read_lines(results / "trials.jsonl"))}
    for name, file, make in FROM_LINES:
        if lines := read_lines(results / f"{file}.jsonl"):
            found[name] = make(lines)
    if served := read_lines(results / "serving.jsonl"):
        found |= serving_tables(served)
    spread, cards = read_lines(results / "cluster.jsonl"), read_lines(results / "card.jsonl")
    if any(line["part"] == "scaling" for line in spread):
        found |= {"scaling_check": scaling_check_table(spread), "scaling": scaling_table(spread, cards)}
    campaigns = [read_lines(results / f"{name}.jsonl") for name in CAMPAIGNS]
    if any(campaigns):
        found["campaigns"] = campaign_table(*campaigns)
    return found


def suite_tables(results: Path) -> dict[str, Table | str]:
    """Return the tables of the suites, of speed, and of summaries over several of them."""
    records = {suite: read_records(results / f"{suite}.jsonl") for suite in SUITE_TABLES}
    timed = read_records(results / "speed.jsonl")
    found: dict[str, Table | str] = {**tables_of(records), **speed_tables(timed)}
    if records["leaderboard"]:
        found["summary"] = summary_table(records["leaderboard"], timed)
        found["leaderboard_lost"] = lost_sentence(records["leaderboard"])
    if records["unequal"]:
        found["unequal_lost"] = lost_table(records["unequal"])
    if peers := read_lines(results / "peers.jsonl"):
        found |= method_tables(peers, [*records["leaderboard"], *records["paper"]])
    return found

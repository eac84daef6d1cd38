"""AASC on UCI's digits with several preparations, scales and embeddings: the table ``trial_aasc``.

``python -m benchmarks.scripts.aasc`` replaces that table in ``benchmarks/results/trials.jsonl``. ACC and NMI are means
over twenty single starts of k-means, as the figures of Lee and Liu (ICIP 2016) seem to be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.data import load_data, shuffled
from benchmarks.records import read_lines
from coterie.files import write_text
from coterie.metrics import clustering_accuracy, nmi
from coterie.peers._common import unit_rows
from coterie.peers._dense import local_affinity, pairwise_squares, weigh_pairs
from coterie.peers.aasc import aggregate
from coterie.threads import one_thread_per_block

RESULTS = Path(__file__).parents[1] / "results" / "trials.jsonl"
TABLE = "trial_aasc"
STARTS = 20
MOST_ROUNDS, TOLERANCE = 20, 1e-5  # the class's defaults


def standardised(table: np.ndarray) -> np.ndarray:
    """Return columns with mean zero and unit variance."""
    widths = table.std(axis=0)  # (d,)
    return (table - table.mean(axis=0)) / np.where(widths > 0, widths, 1)


def from_zero_to_one(table: np.ndarray) -> np.ndarray:
    """Return columns scaled to a minimum of 0 and a maximum of 1."""
    widths = np.ptp(table, axis=0)  # (d,)
    return (table - table.min(axis=0)) / np.where(widths > 0, widths, 1)


def scaled_by(table: np.ndarray, share: float) -> np.ndarray:
    """Return Gaussian affinities whose scale is a share of the median distance."""
    squares = pairwise_squares(table)  # (n, n)
    median = np.sqrt(np.median(squares[np.triu_indices(len(squares), 1)]))
    return weigh_pairs(squares, 0.5 / (share * median) ** 2)


COLUMNS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as they are": np.asarray,
    "unit rows": unit_rows,
    "0 to 1": from_zero_to_one,
    "unit variances": standardised,
    "unit variances, unit rows": lambda table: unit_rows(standardised(table)),
}
SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "median distance": lambda table: scaled_by(table, 1.0),
    "half of it": lambda table: scaled_by(table, 0.5),
    "twice of it": lambda table: scaled_by(table, 2.0),
    "local": local_affinity,
}


def main() -> None:
    data = shuffled(load_data("uci"), 0)
    views, target = [np.asarray(table, dtype=np.float64) for table in data.views.values()], np.asarray(data.target)
    k, rows = len(set(target.tolist())), []
    for columns, prepare in COLUMNS.items():
        for scale, affinity in SCALES.items():
            with one_thread_per_block():
                found = aggregate([affinity(prepare(table)) for table in views], k, MOST_ROUNDS, TOLERANCE)
            vectors = found.state.vectors  # (n, k)
            rows.append((columns, scale, *(single_starts(cut, target) for cut in (vectors, unit_rows(vectors)))))
            print(*rows[-1], sep=", ", flush=True)
    header = ["columns of views", "scale of affinities", "vectors as they are", "vectors with unit rows"]
    about = f"AASC on UCI's digits, ACC / NMI, means of {STARTS} single starts of k-means"
    replace_table({"table": TABLE, "about": about, "header": header, "rows": rows})


def single_starts(vectors: np.ndarray, target: np.ndarray) -> str:
    """Return "ACC / NMI", means over single starts of k-means from random rows."""
    k = vectors.shape[1]
    labels = [KMeans(k, init="random", n_init=1, random_state=seed).fit_predict(vectors) for seed in range(STARTS)]
    acc, information = (np.mean([score(target, own) for own in labels]) for score in (clustering_accuracy, nmi))
    return f"{acc:.3f} / {information:.3f}"


def replace_table(line: dict[str, object]) -> None:
    """Replace the table of the same name in the results, or append it."""
    lines = read_lines(RESULTS)
    at = next((i for i, old in enumerate(lines) if old["table"] == line["table"]), len(lines))
    write_text(
        RESULTS, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in [*lines[:at], line, *lines[at + 1 :]])
    )


if __name__ == "__main__":
    main()

"""Measure peers on real sets, as lines of ``benchmarks/results/peers.jsonl``, to compare with published figures.

``python -m benchmarks.scripts.peers FastMICE AIMC --data uci scene15 --seeds 3`` measures two methods on two sets.
Rows are shuffled with the seed first, except with ``--file-order``: some published figures depend on rows sorted by
class.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.data import load_data, reordered
from coterie import peers
from coterie.metrics import ari, clustering_accuracy, nmi

FIGURES = ("acc", "nmi", "ari", "seconds", "cpu_seconds")
RESULTS = Path(__file__).parents[1] / "results" / "peers.jsonl"


def measure(method: str, data: str, seed: int, params: dict[str, Any], rows: int | None, file_order: bool) -> dict:
    found = load_data(data, rows=rows)
    n, k = len(found.target), len(np.unique(found.target))
    order = np.arange(n) if file_order else np.random.default_rng(seed).permutation(n)
    views = {name: reordered(table, order) for name, table in found.views.items()}
    model = getattr(peers, method)(k, random_state=seed, **params)
    start, cpu = perf_counter(), process_time()
    labels = model.fit_predict(views)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    target = found.target[order]
    return {
        "method": method,
        "data": data,
        "seed": seed,
        "acc": round(float(clustering_accuracy(target, labels)), 4),
        "nmi": round(float(nmi(target, labels)), 4),
        "ari": round(float(ari(target, labels)), 4),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "params": params,
        "note": "; ".join(filter(None, ["file order" if file_order else "", f"{rows} rows" if rows else ""])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--data", nargs="+", default=["uci"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--params", type=json.loads, default={}, help="JSON, for all methods")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--file-order", action="store_true")
    parser.add_argument("--dry", action="store_true", help="print lines, and write none")
    asked = parser.parse_args()
    for data in asked.data:
        for method in asked.methods:
            lines = []
            for seed in range(asked.seeds):
                lines.append(measure(method, data, seed, asked.params, asked.rows, asked.file_order))
                if not asked.dry:
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
            means = [f"{name} {np.mean([line[name] for line in lines]):.3f}" for name in FIGURES]
            print(method, data, asked.params, *means, flush=True)


if __name__ == "__main__":
    main()

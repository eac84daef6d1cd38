"""The constants of :mod:`coterie.forecast`: the cost of each stage in units of plain products and passes.

    python -m benchmarks.scripts.forecast [--results benchmarks/results/forecast.jsonl] [--device cuda] [measure | fit]

``measure`` fits views of several shapes and records the work, the seconds of every stage and the machine's rates.
``fit`` prints the constants estimated from these records, and for every measured fit the ratio of forecast to measured
time, with these constants and with those in the code. On a CPU, processor time of one thread is used, which does not
depend on other work on the machine.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from benchmarks.measure import source_hash
from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.forecast import COSTS, Size, count_work, measure_rates
from coterie.placement import place_views
from coterie.settings import settle
from coterie.threads import one_thread_per_block
from coterie.views import as_views

# (rows, columns, clusters, settings)
SHAPES = (
    (2_000, (64, 32), 5, {}),
    (2_000, (240, 76, 216, 47, 64, 6), 10, {}),
    (8_000, (128, 64), 30, {}),
    (15_000, (512,), 10, {}),
    (20_000, (32, 32, 32), 50, {}),
    (30_000, (256, 64), 10, {}),
    (60_000, (784, 512), 10, {}),
    (100_000, (64, 32, 16), 20, {}),
    (250_000, (64, 32), 8, {}),
    (500_000, (32, 16), 10, {}),
    (5_000, (64, 32), 5, {"basis": "subspace"}),
    (50_000, (128, 64), 10, {"basis": "subspace"}),
    (200_000, (64, 32), 10, {"basis": "subspace"}),
    (10_000, (64, 32), "auto", {}),
    (40_000, (64, 32, 16), "auto", {}),
)

# Stage of the forecast -> the stages of ``timings_`` that it comprises.
PARTS = {
    "preparation": ("preparation",),
    "landmarks": ("landmarks",),
    "graphs": ("graphs",),
    "n_clusters": ("n_clusters",),
    "rounds": ("candidates", "rounds", "centroids"),
    "assignment": ("assignment", "explanation"),
    "pilot": ("pilot",),
    "stability": ("stability",),
}


def measure(shape, device):
    n, columns, k, settings = shape
    data = make_views(n, n_clusters=8 if k == "auto" else k, n_columns=columns, separation=5, random_state=0)
    model = GuidedCoTraining(k, random_state=0, device=device, n_jobs=1, **settings)
    views = place_views(as_views(list(data.views.values())), device)
    settled = settle("GuidedCoTraining", model.get_params(), views)
    with one_thread_per_block():
        rates = measure_rates(views.device)
        timings = min((model.fit(data.views).timings_ for _ in range(2)), key=lambda stages: stages["total"])
    work = count_work(Size.of(views, settled), settled)
    return {
        "rows": n,
        "columns": columns,
        "clusters": k,
        "settings": settings,
        "device": device,
        "products": rates.products,
        "passes": rates.passes,
        "seconds": timings["total"],
        "stages": {stage: sum(timings.get(name, 0.0) for name in PARTS[stage]) for stage in work},
        "work": work,
        "code": {"source": source_hash()},
        "cores": os.cpu_count(),
        "machine": platform.machine(),
    }


def find_costs(records):
    """Return the costs of each stage by least squares of log(forecast / measured seconds)."""
    found = {}
    for stage in PARTS:
        lines = [record for record in records if stage in record["stages"]]
        if not lines:
            continue
        work = np.array([[1, r["work"][stage][0] / r["products"], r["work"][stage][1] / r["passes"]] for r in lines])
        seconds = np.array([r["stages"][stage] for r in lines])
        shares = seconds / np.array([r["seconds"] for r in lines])  # short stages have little weight

        def errors(logs, work=work, seconds=seconds, shares=shares):
            return np.sqrt(shares) * np.log(work @ np.exp(logs) / seconds)

        ends = least_squares(errors, np.log([0.02, 1.0, 1.0]), bounds=(-12, 6)).x
        found[stage] = tuple(float(f"{value:.2g}") for value in np.exp(ends))
    return found


def predicted(record, costs):
    return sum(
        costs[stage][0] + costs[stage][1] * products / record["products"] + costs[stage][2] * passes / record["passes"]
        for stage, (products, passes) in record["work"].items()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["measure", "fit"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/forecast.jsonl"))
    chosen = parser.parse_args()
    if "measure" in chosen.parts:
        if chosen.device == "cpu":
            time.perf_counter = time.process_time
        GuidedCoTraining(2, device=chosen.device).fit(make_views(500, 2, random_state=0).views)  # compiles
        for shape in SHAPES:
            line = json.dumps(measure(shape, chosen.device))
            with chosen.results.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    records = [json.loads(line) for line in chosen.results.read_text().splitlines()]
    records = [record for record in records if record["device"] == chosen.device]
    costs = find_costs(records)
    print(json.dumps(costs, indent=4))
    for record in records:
        print(
            record["rows"], record["columns"], record["clusters"], record["settings"], f"{record['seconds']:.2f} s,",
            f"fitted {predicted(record, costs) / record['seconds']:.2f}, in the code",
            f"{predicted(record, COSTS) / record['seconds']:.2f}",
        )  # fmt: skip


if __name__ == "__main__":
    main()

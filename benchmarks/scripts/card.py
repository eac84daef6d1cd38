"""Fits on a GPU, stage by stage, beside k-means on the same rows: three shapes, default, as published and in tf32.

    python -m benchmarks.scripts.card [--data FOLDER] [--results benchmarks/results/card.jsonl] [--profile FOLDER]
        [--settings default published tf32 ...] [SHAPE ...]

Shapes: million, mnist, hundred. Every line of the results is one measurement. Seconds are medians of three fits after a
first one that compiles. Stages are timed in a further fit that synchronises the GPU at the end of every stage.
``--profile`` writes torch's profile of operations, and Python's of functions, for every fit.
"""

import argparse
import cProfile
import gc
import io
import json
import platform
import pstats
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import source_hash
from benchmarks.scripts.gpu import DEVICE, blobs, median_seconds
from coterie import GuidedCoTraining
from coterie.metrics import ari, nmi
from coterie.progress import listening

PASSES = 25  # of k-means

SETTINGS = {
    "default": lambda k: GuidedCoTraining(k, random_state=0),
    "default, tf32": lambda k: GuidedCoTraining(k, random_state=0, dtype="tf32"),
    "published": lambda k: GuidedCoTraining.as_published(k, random_state=0),
    "published, tf32": lambda k: GuidedCoTraining.as_published(k, random_state=0, dtype="tf32"),
}


def million(home):
    views, target = blobs(1_000_000, (512, 256, 128), 20)
    return dict(enumerate(views)), target.cpu().numpy(), 20


def hundred(home):
    views, target = blobs(100_000_000, (64, 32), 10)
    return dict(enumerate(views)), target.cpu().numpy(), 10


def mnist(home):
    from benchmarks.data import load_mnist

    data = load_mnist(home)
    return {n: torch.as_tensor(np.asarray(v), device=DEVICE) for n, v in data.views.items()}, data.target, 10


SHAPES = {"million": million, "mnist": mnist, "hundred": hundred}


def stage_seconds(run):
    """Return the seconds of every stage, with the GPU synchronised after each."""
    marks = []

    def hear(stage):
        torch.cuda.synchronize()
        marks.append((stage, time.perf_counter()))

    with listening(hear):
        run()
    torch.cuda.synchronize()
    marks.append(("", time.perf_counter()))
    found = {}
    for (stage, start), (_, stop) in pairwise(marks):
        found[stage] = round(found.get(stage, 0.0) + stop - start, 4)
    return found


def fit_line(model, views, target, profile):
    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    model.fit(views)
    torch.cuda.synchronize()
    first = time.perf_counter() - started
    line = {"first_fit_s": first, "seconds": median_seconds(lambda: model.fit(views), 3, warm=0)}
    line["peak_GB"] = torch.cuda.max_memory_allocated() / 1e9
    line["stages"] = stage_seconds(lambda: model.fit(views))
    line["rounds"] = model.n_iter_
    line["basis"] = next((c["name"] for c in getattr(model, "candidates_", ()) if c["chosen"]), model.basis)
    labels = model.labels_[: 10**6].cpu().numpy()
    line |= {"ari_to_truth": ari(target[: 10**6], labels), "nmi_to_truth": nmi(target[: 10**6], labels)}
    if profile is not None:
        write_profile(profile, lambda: model.fit(views))
    return line


def write_profile(path, run):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    tables = [
        found.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=70)
        for order in ("self_cuda_time_total", "self_cpu_time_total")
    ]
    text = io.StringIO()
    with cProfile.Profile() as python:
        run()
        torch.cuda.synchronize()
    pstats.Stats(python, stream=text).sort_stats("tottime").print_stats(40)
    path.write_text("\n\n".join([*tables, text.getvalue()]))


def cpu_labels(make, views):
    """Return the labels of a fit with the same seed on the CPU, and its seconds."""
    host = {name: view.cpu().numpy() for name, view in views.items()}
    model = make.set_params(dtype="float32", device="cpu", measure_stability=False).fit(host)
    return model.labels_, model.timings_["total"]


def kmeans_line(views, k):
    """Return the time of PASSES passes of k-means on the concatenated views, by flash-kmeans or else torch in tf32."""
    rows = torch.cat([view.float() for view in views.values()], dim=1)  # (n, d)
    start = rows[torch.randperm(len(rows), device=DEVICE)[:k]].clone()
    try:
        from flash_kmeans import FlashKMeans
    except ImportError:
        return {"method": "plain torch k-means, tf32", "seconds": median_seconds(lambda: plain_kmeans(rows, start), 3)}

    def run():
        FlashKMeans(rows.shape[1], k, niter=PASSES, tol=-1.0, device=torch.device(DEVICE)).train(rows)

    return {"method": "flash-kmeans", "seconds": median_seconds(run, 3)}


def plain_kmeans(rows, centroids):
    torch.backends.cuda.matmul.allow_tf32 = True
    norms = (rows * rows).sum(dim=1)
    for _ in range(PASSES):
        distances = norms[:, None] + (centroids * centroids).sum(dim=1) - 2 * rows @ centroids.T
        members = torch.nn.functional.one_hot(distances.argmin(dim=1), len(centroids)).float()  # (n, k)
        centroids = (members.T @ rows) / members.sum(dim=0).clamp(min=1)[:, None]
    torch.backends.cuda.matmul.allow_tf32 = False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/card.jsonl"))
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--no-cpu", action="store_true", help="Leave out the fits on the cores.")
    chosen = parser.parse_args()
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version()}
    about |= {"code": {"source": source_hash()}}
    for shape in chosen.shapes or SHAPES:
        views, target, k = SHAPES[shape](chosen.data)
        sizes = {"shape": shape, "rows": len(target), "columns": [view.shape[1] for view in views.values()], "k": k}
        lines = [] if shape == "hundred" else [kmeans_line(views, k)]
        reference = {}
        for settings in chosen.settings:
            path = chosen.profile and chosen.profile / f"{shape}-{settings.replace(', ', '-')}.txt"
            model = SETTINGS[settings](k)
            line = {"method": f"Coterie, {settings}", **fit_line(model, views, target, path)}
            if shape != "hundred" and not chosen.no_cpu:
                plain = settings.removesuffix(", tf32")
                if plain not in reference:
                    reference[plain] = cpu_labels(SETTINGS[plain](k), views)
                labels, line["cpu_s"] = reference[plain]
                line["ari_to_cpu"] = ari(labels, model.labels_.cpu().numpy())
            lines.append(line)
            print(json.dumps({**sizes, **line}), flush=True)
        with chosen.results.open("a") as file:
            for line in lines:
                file.write(json.dumps({**sizes, **line, **about}) + "\n")
        print(json.dumps({"shape": shape, **lines[0]}), flush=True)
        del views, lines
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

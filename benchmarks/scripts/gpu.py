"""Fits of a million and of a hundred million rows on a GPU, beside a lower bound of their time.

    python -m benchmarks.scripts.gpu [--data FOLDER] [--results benchmarks/results/gpu.jsonl] [PART ...]

Parts: ceilings, nearest, agreement, million, streaming, predict, memory, hundred. Every line of the results is one
measurement; times are medians of several runs after a warm-up, in wall-clock time with the GPU synchronised.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import source_hash
from coterie import GuidedCoTraining
from coterie.kernels import torch as kernels
from coterie.metrics import ari, clustering_accuracy, nmi

DEVICE = "cuda"


def median_seconds(run, repeats=5, warm=1):
    for _ in range(warm):
        run()
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))


def ceilings():
    """Return the GPU's peak rates: a copy in its memory, products, and the bus."""
    x = torch.randn(2**28, device=DEVICE)
    y = torch.empty_like(x)
    copy = 2 * x.nbytes / median_seconds(lambda: y.copy_(x))
    pinned = torch.empty(2**28, pin_memory=True)
    bus = pinned.nbytes / median_seconds(lambda: y.copy_(pinned, non_blocking=True))
    a, b = torch.randn(1_000_000, 512, device=DEVICE), torch.randn(512, 1024, device=DEVICE)
    rates = {}
    for name, tf32 in (("tf32", True), ("float32", False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        rates[name] = 2 * a.shape[0] * b.numel() / median_seconds(lambda: a @ b)
    torch.backends.cuda.matmul.allow_tf32 = False
    return {
        "copy_TB_s": copy / 1e12,
        "bus_GB_s": bus / 1e9,
        **{f"product_{k}_TF_s": v / 1e12 for k, v in rates.items()},
    }


def nearest():
    """Return times of the fused product and selection, of the product alone, and of topk alone."""
    lines = []
    for n, d, p in ((1_000_000, 512, 1024), (4_000_000, 64, 600), (4_000_000, 32, 600)):
        rows = torch.randn(n, d, device=DEVICE)
        landmarks = rows[:p].contiguous()
        row_norms, norms = (rows * rows).sum(dim=1), (landmarks * landmarks).sum(dim=1)
        line = {"rows": n, "columns": d, "landmarks": p, "neighbours": 8}
        for precision, tf32 in (("tf32", True), ("float32", False)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            product = median_seconds(lambda a=rows, b=landmarks: a @ b.T)
            fused = median_seconds(lambda a=(rows, row_norms, landmarks, norms, 8, precision): kernels.nearest(*a))
            line |= {f"product_{precision}_s": product, f"fused_{precision}_s": fused}
            line[f"fused_over_product_rate_{precision}"] = product / fused
        whole = torch.empty(n, p, device=DEVICE) if n * p * 4 < 30e9 else None
        if whole is not None:
            line["topk_alone_s"] = median_seconds(lambda w=whole: w.topk(8, dim=1, largest=False), 3)
        torch.backends.cuda.matmul.allow_tf32 = False
        exact = (
            torch.cdist(rows[:4096].double(), landmarks.double()).topk(8, dim=1, largest=False).indices.sort(1).values
        )
        for precision in kernels.PRECISIONS:
            found = (
                kernels.nearest(rows[:4096], row_norms[:4096], landmarks, norms, 8, precision)[0].long().sort(1).values
            )
            line[f"same_neighbours_{precision}"] = float((found == exact).double().mean())
        lines.append(line)
    return lines


def blobs(n, columns, k, seed=0, dtype=torch.float32):
    """Return rows around k centres, generated block by block on the GPU, and their clusters."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    target = torch.randint(k, (n,), generator=generator, device=DEVICE)
    views = []
    for d in columns:
        centers = 2.5 / d**0.5 * torch.randn(k, d, generator=generator, device=DEVICE)
        centers *= 2
        view = torch.empty(n, d, device=DEVICE, dtype=dtype)
        for start in range(0, n, 2**21):
            part = slice(start, min(start + 2**21, n))
            noise = torch.randn(part.stop - part.start, d, generator=generator, device=DEVICE)
            view[part] = (centers[target[part]] + noise).to(dtype)
        views.append(view)
    return views, target


def published(k, **settings):
    return GuidedCoTraining.as_published(k, **{"tol": 0, "max_iter": 10, "random_state": 0, **settings})


def timed_fit(model, views):
    model.fit(views)  # compiles the kernels
    seconds = median_seconds(lambda: model.fit(views), 3, warm=0)
    return seconds, {name: round(value, 4) for name, value in model.timings_.items()}


def floor(views, p, rates):
    """Return the seconds of one product at the measured rate or one read at the measured bandwidth, the longer one."""
    operations = sum(2 * len(view) * view.shape[1] * p for view in views)
    return max(
        operations / rates["product_tf32_TF_s"] / 1e12, sum(v.nbytes for v in views) / rates["copy_TB_s"] / 1e12 * 2
    )


def million():
    rates = ceilings()
    views, target = blobs(1_000_000, (512, 256, 128), 20)
    lines = []
    for dtype in ("float32", "tf32"):
        model = published(20, n_landmarks=1000, dtype=dtype)
        seconds, stages = timed_fit(model, views)
        lines.append(
            {
                "rows": 1_000_000,
                "columns": [512, 256, 128],
                "settings": f"published, p=1000, q=8, k=20, 10 rounds, {dtype}",
                "seconds": seconds,
                "floor_s": floor(views, 1000, rates),
                "ari_to_truth": ari(target.cpu().numpy(), model.labels_.cpu().numpy()),
                "stages": stages,
            }
        )
    model = GuidedCoTraining(20, random_state=0)
    seconds, stages = timed_fit(model, views)
    lines.append(
        {
            "rows": 1_000_000,
            "settings": "defaults",
            "seconds": seconds,
            "stages": stages,
            "ari_to_truth": ari(target.cpu().numpy(), model.labels_.cpu().numpy()),
        }
    )
    return lines


def hundred():
    rates = ceilings()
    torch.cuda.empty_cache()
    views, target = blobs(100_000_000, (64, 32), 10)
    torch.cuda.reset_peak_memory_stats()
    model = published(10, n_landmarks=600)
    started = time.perf_counter()
    model.fit(views)
    torch.cuda.synchronize()
    first = time.perf_counter() - started
    seconds = median_seconds(lambda: model.fit(views), 2, warm=0)
    return {
        "rows": 100_000_000,
        "columns": [64, 32],
        "settings": "published, p=600, q=8, k=10, 10 rounds, float32",
        "seconds": seconds,
        "first_fit_s": first,
        "floor_s": floor(views, 600, rates),
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
        "data_GB": sum(v.nbytes for v in views) / 1e9,
        "ari_to_truth": float(ari(target[:1_000_000].cpu().numpy(), model.labels_[:1_000_000].cpu().numpy())),
        "stages": {name: round(value, 4) for name, value in model.timings_.items()},
    }


def predict():
    views, _ = blobs(20_000_000, (64, 32), 10)
    lines = []
    for name, model in (
        ("published, p=600", published(10, n_landmarks=600)),
        ("defaults", GuidedCoTraining(10, random_state=0)),
    ):
        model.fit([view[:1_000_000] for view in views])
        seconds = median_seconds(lambda m=model: m.predict(views), 3)
        lines.append({"rows": 20_000_000, "columns": [64, 32], "settings": name, "rows_per_s": 20_000_000 / seconds})
    return lines


def streaming():
    """Return the rate at which rows in host memory reach the GPU while graphs are built, and its share of the bus's."""
    rates = ceilings()
    rng = np.random.default_rng(0)
    lines = []
    for n, columns in ((20_000_000, (64, 32)), (4_000_000, (512, 256, 128))):
        views = [np.empty((n, d), dtype=np.float32) for d in columns]
        for view in views:
            part = rng.standard_normal((500_000, view.shape[1]), dtype=np.float32)
            for start in range(0, n, len(part)):
                view[start : start + len(part)] = part
        pinned = [torch.from_numpy(view).pin_memory().numpy() for view in views]
        for memory, dtype in (("pageable", "float32"), ("pinned", "float32"), ("pinned", "tf32")):
            source = pinned if memory == "pinned" else views
            model = published(10, n_landmarks=600, device=DEVICE, dtype=dtype)
            model.fit([view[:1_000_000] for view in source])
            graphs = []
            for _ in range(3):
                model.fit(source)
                graphs.append(model.timings_["graphs"])
            rate = sum(v.nbytes for v in views) / np.median(graphs) / 1e9
            lines.append(
                {
                    "rows": n,
                    "columns": columns,
                    "memory": memory,
                    "dtype": dtype,
                    "graphs_s": float(np.median(graphs)),
                    "fit_s": model.timings_["total"],
                    "GB_s": rate,
                    "share_of_bus": rate / rates["bus_GB_s"],
                }
            )
    return lines


def agreement(home):
    """Return the agreement of fits with the same seed on a CPU and on a GPU."""
    from benchmarks.data import load_mfeat, load_mnist, load_usps
    from coterie import datasets

    sets = {
        "synthetic": lambda: datasets.make_views(20_000, 10, random_state=0),
        "mfeat": lambda: load_mfeat(home),
        "usps": lambda: load_usps(home),
        "mnist": lambda: load_mnist(home),
    }
    lines = []
    for name, load in sets.items():
        data = load()
        for settings, make in (
            ("defaults", lambda **kw: GuidedCoTraining(10, random_state=0, **kw)),
            ("published", lambda **kw: published(10, **kw)),
        ):
            host = make().fit(data.views)
            line = {"data": name, "settings": settings, "rows": len(data.target), "cpu_s": host.timings_["total"]}
            line |= {
                "cpu_acc": clustering_accuracy(data.target, host.labels_),
                "cpu_nmi": nmi(data.target, host.labels_),
            }
            for dtype in ("float32", "tf32"):
                model = make(device=DEVICE, dtype=dtype)
                tensors = {view: torch.as_tensor(np.asarray(rows), device=DEVICE) for view, rows in data.views.items()}
                model.fit(tensors)
                seconds = median_seconds(lambda m=model, t=tensors: m.fit(t), 3, warm=0)
                labels = model.labels_.cpu().numpy()
                line |= {
                    f"{dtype}_s": seconds,
                    f"{dtype}_ari_to_cpu": ari(host.labels_, labels),
                    f"{dtype}_acc": clustering_accuracy(data.target, labels),
                    f"{dtype}_nmi": nmi(data.target, labels),
                    f"{dtype}_stages": {key: round(value, 4) for key, value in model.timings_.items()},
                }
                again = model.labels_
                line[f"{dtype}_same_bytes_again"] = bool((model.fit(tensors).labels_ == again).all())
            lines.append(line)
    return lines


def memory():
    """Return the error of a fit with too little GPU memory, and show that the process can still fit afterwards."""
    views, _ = blobs(4_000_000, (64, 32), 10)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(int(free - 100e6), dtype=torch.uint8, device=DEVICE)
    try:
        published(10, n_landmarks=600).fit(views)
        message = "no error"
    except MemoryError as error:
        message = str(error)
    del hog
    torch.cuda.empty_cache()
    model = published(10, n_landmarks=600).fit(views)
    return {"message": message, "fit_after": len(model.labels_)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/gpu.jsonl"))
    chosen = parser.parse_args()
    known = {
        "ceilings": ceilings, "nearest": nearest, "agreement": lambda: agreement(chosen.data), "million": million,
        "streaming": streaming, "predict": predict, "memory": memory, "hundred": hundred,
    }  # fmt: skip
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version()}
    about |= {"code": {"source": source_hash()}}
    for part in chosen.parts or known:
        started = time.perf_counter()
        try:
            found = known[part]()
        except Exception:  # the other parts still run
            import traceback

            print(part, "failed:", traceback.format_exc()[-1500:], flush=True)
            continue
        for line in found if isinstance(found, list) else [found]:
            text = json.dumps({"part": part, **line, **about})
            with chosen.results.open("a") as file:
                file.write(text + "\n")
            print(text, flush=True)
        print(f"-- {part}: {time.perf_counter() - started:.1f} s", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

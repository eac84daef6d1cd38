"""Time of a local Dask cluster beside one process, and the bytes that cross between its processes.

    python -m benchmarks.scripts.cluster [--results benchmarks/results/cluster.jsonl] [--repeats 3] [PART ...]

Parts: time, bytes, tasks, scaling. Every line of the results is one measurement. The fits of a comparison alternate;
times are medians. Bytes are those that every process (client, scheduler, workers) writes to its sockets; those of a
round are the difference between fits of three rounds and of two. ``scaling`` is in processor seconds, which other work
on the machine disturbs less than wall-clock time: those of the client with its scheduler, and those of all workers.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import psutil

import coterie
from benchmarks.cluster_table import received_in
from benchmarks.measure import source_hash
from coterie import GuidedCoTraining
from coterie.metrics import ari

COLUMNS = (64, 32, 16)
CLUSTERS = 10
PARTITION_ROWS = 125_000


def make_part(number, rows, columns, seed=0):
    """Return a partition of every view; the centres depend on the seed alone, so all processes use the same."""
    centers = [np.random.default_rng((seed, d)).standard_normal((CLUSTERS, d)) for d in columns]
    rng = np.random.default_rng((seed, 1, number))
    target = rng.integers(CLUSTERS, size=rows)
    parts = [2.5 * center[target] / np.sqrt(center.shape[1]) * 2 for center in centers]
    noise = [rng.standard_normal((rows, d), dtype=np.float32) for d in columns]
    return [(part + more).astype(np.float32) for part, more in zip(parts, noise, strict=True)]


def save_views(folder, n_rows):
    """Write every view's partitions as files, once."""
    folder = Path(folder) / str(n_rows)
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(n_rows // PARTITION_ROWS):
            for view, rows in enumerate(make_part(number, PARTITION_ROWS, COLUMNS)):
                np.save(folder / f"{view}_{number}.npy", rows)
        (folder / "done").touch()
    return folder


def in_memory(folder, n_rows):
    numbers = range(n_rows // PARTITION_ROWS)
    return [
        np.concatenate([np.load(folder / f"{view}_{number}.npy") for number in numbers]) for view in range(len(COLUMNS))
    ]


def on_dask(folder, n_rows):
    """Return the same rows as Dask arrays, which read their files lazily."""
    load = dask.delayed(np.load)
    return [
        da.concatenate(
            [
                da.from_delayed(load(str(folder / f"{view}_{number}.npy")), (PARTITION_ROWS, width), dtype=np.float32)
                for number in range(n_rows // PARTITION_ROWS)
            ]
        )
        for view, width in enumerate(COLUMNS)
    ]


def cluster_of(n_workers, threads=1):
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=threads,
        processes=True,
        dashboard_address=":0",
        host="127.0.0.1",
        memory_limit=0,
    )


def processor_seconds():
    """Return the processor seconds of this process and its workers, less disturbed than wall-clock time."""
    own = psutil.Process()
    spent = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(times.user + times.system for times in spent)


def timed(model, views):
    """Return the wall-clock seconds and processor seconds of a fit, and its labels."""
    started, before = time.perf_counter(), processor_seconds()
    model.fit(views)
    labels = np.asarray(model.labels_)
    return time.perf_counter() - started, processor_seconds() - before, labels


def measure_time(folder, n_rows, repeats, worker_counts):
    """Yield the times of one fit on clusters of several sizes, which alternate with the same fit in one process."""
    folder = save_views(folder, n_rows)
    model = GuidedCoTraining(CLUSTERS, random_state=0, n_jobs=2)
    arrays, parts = in_memory(folder, n_rows), on_dask(folder, n_rows)
    few = on_dask(folder, 2 * PARTITION_ROWS)
    seconds, processors, stages, agreement = {}, {}, {}, {}
    clusters = {n: cluster_of(n) for n in worker_counts}
    clients = {n: distributed.Client(cluster, set_as_default=False) for n, cluster in clusters.items()}

    def note(n, views):
        spent, used, labels = timed(model, views)
        seconds.setdefault(n, []).append(spent)
        processors.setdefault(n, []).append(used)
        stages[n] = {name: round(value, 2) for name, value in model.timings_.items() if ":" not in name}
        return labels

    try:
        timed(model, [view[: 2 * PARTITION_ROWS] for view in arrays])  # compiles kernels, or loads them from the cache
        for client in clients.values():
            with client.as_current():
                timed(model, few)
        for _ in range(repeats):
            expected = note(0, arrays)
            for n, client in clients.items():
                with client.as_current():
                    agreement[n] = ari(expected, note(n, parts))
    finally:
        for n in clients:
            clients[n].close()
            clusters[n].close()
    clock, used = ({n: float(np.median(found[n])) for n in found} for found in (seconds, processors))
    for n in worker_counts:
        yield {
            "part": "time",
            "rows": n_rows,
            "columns": COLUMNS,
            "workers": n,
            "seconds": round(clock[n], 2),
            "memory_seconds": round(clock[0], 2),
            "ratio": round(clock[n] / clock[0], 3),
            "processor_seconds": round(used[n], 2),
            "processor_ratio": round(used[n] / used[0], 3),
            "load": os.getloadavg()[0],
            "ari_to_memory": agreement[n],
            "partitions": n_rows // PARTITION_ROWS,
            "stages": stages[n],
            "memory_stages": stages[0],
        }


def split_processor_seconds():
    """Return the processor seconds of this process, and of its workers."""
    own = psutil.Process()
    mine, *others = (process.cpu_times() for process in (own, *own.children(recursive=True)))
    return np.array([mine.user + mine.system, sum(times.user + times.system for times in others)])


def measure_scaling(folder, sizes, n_workers):
    """Yield the times of fits of several sizes on one cluster."""
    model = GuidedCoTraining(CLUSTERS, random_state=0, n_jobs=1)
    with cluster_of(n_workers) as cluster, distributed.Client(cluster):
        timed(model, on_dask(save_views(folder, min(sizes)), min(sizes)))  # loads compiled kernels
        for n_rows in sizes:
            parts = on_dask(save_views(folder, n_rows), n_rows)
            before = split_processor_seconds()
            seconds, _, _ = timed(model, parts)
            client, workers = split_processor_seconds() - before
            yield {
                "part": "scaling",
                "rows": n_rows,
                "columns": COLUMNS,
                "workers": n_workers,
                "partitions": n_rows // PARTITION_ROWS,
                "seconds": round(seconds, 2),
                "client_processor_seconds": round(float(client), 2),
                "worker_processor_seconds": round(float(workers), 2),
                "load": os.getloadavg()[0],
                "stages": {name: round(value, 2) for name, value in model.timings_.items() if ":" not in name},
            }


# -- bytes ----------------------------------------------------------------------------------------------------------


def count_writes():
    """Make this process count the bytes that it writes to its sockets."""
    from distributed.comm.tcp import TCP

    if not hasattr(TCP, "written"):
        TCP.written = 0
        write = TCP.write

        async def counting(self, *arguments, **settings):
            size = await write(self, *arguments, **settings)
            TCP.written += size
            return size

        TCP.write = counting


def written():
    from distributed.comm.tcp import TCP

    return TCP.written


SETTINGS = {"default": GuidedCoTraining, "published": GuidedCoTraining.as_published}


def bytes_of_fit(client, views, settings, rounds):
    """Return the bytes that cross during a fit of a number of rounds, and the model."""
    before = written() + sum(client.run(written).values())
    model = SETTINGS[settings](CLUSTERS, random_state=0, max_iter=rounds, tol=0, measure_stability=False).fit(views)
    distributed.wait([model.labels_, model.confidence_])
    return written() + sum(client.run(written).values()) - before, model


def measure_bytes(folder, n_rows, n_workers, settings):
    """Return the bytes that all processes send during fits of two and three rounds."""
    parts = on_dask(save_views(folder, n_rows), n_rows)
    with cluster_of(n_workers) as cluster, distributed.Client(cluster) as client:
        count_writes()  # this process has the client and the scheduler
        client.run(count_writes)
        two, _ = bytes_of_fit(client, parts, settings, 2)
        between_workers, (three, model) = received_in(client, lambda: bytes_of_fit(client, parts, settings, 3))
    p, n_graphs = len(model.landmark_indices_), len(model.singular_values_)
    return {
        "part": "bytes",
        "settings": settings,
        "rows": n_rows,
        "columns": COLUMNS,
        "workers": n_workers,
        "partitions": n_rows // PARTITION_ROWS,
        "landmarks": p,
        "graphs": n_graphs,
        "clusters": CLUSTERS,
        "fit_bytes": two,
        "round_bytes": three - two,
        "between_workers": between_workers,  # of the fit of three rounds
        "raw_bytes": 4 * n_rows * sum(COLUMNS),
    }


def measure_tasks(n_tasks=2000, threads=16):
    """Yield the time of a task for client and scheduler, from a pass over partitions without work.

    At any time, as many tasks run as the workers have threads.
    """
    from coterie.rows.dask import DaskRows
    from coterie.rows.tasks import Part

    with cluster_of(2, threads) as cluster, distributed.Client(cluster):
        rows = DaskRows([Part((number,), list_of) for number in range(n_tasks)], np.ones(n_tasks, dtype=int))
        rows = rows.map(list_of)
        started = time.perf_counter()
        rows.map(list_of)
        spent = time.perf_counter() - started
    yield {"part": "tasks", "tasks": n_tasks, "workers": 2, "threads": threads, "seconds_a_task": spent / n_tasks}


def list_of(thing):
    return [thing]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["time", "bytes", "tasks"])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/cluster.jsonl"))
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "coterie-cluster")
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "coterie": coterie.__version__}
    machine |= {"code": {"source": source_hash()}}
    versions = {"dask": dask.__version__, "numpy": np.__version__}
    for part in given.parts:
        for n_rows in given.rows if part not in ("tasks", "scaling") else [0]:
            if part == "scaling":
                lines = (line for n in given.workers for line in measure_scaling(given.data, given.rows, n))
            elif part == "time":
                lines = measure_time(given.data, n_rows, given.repeats, given.workers)
            elif part == "bytes":
                lines = (measure_bytes(given.data, n_rows, n, name) for name in SETTINGS for n in given.workers)
            else:
                lines = measure_tasks()
            for line in lines:
                print(json.dumps(line), flush=True)
                with given.results.open("a") as file:
                    file.write(json.dumps({**line, **machine, **versions}) + "\n")


if __name__ == "__main__":
    main()

"""What a Dask cluster of local worker processes costs beside one process, and the bytes that cross between processes.

    python benchmarks/cluster.py [--results benchmarks/results/cluster.jsonl] [--repeats 3] [PART ...]

Parts: time, bytes, tasks. Every line of the results is one measurement. Fits of one comparison take turns; times are
medians. Bytes are those that every process (client, scheduler, workers) writes to its sockets; those of a round are the
difference between fits of three rounds and of two.
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

import coterie
from coterie import GuidedCoTraining
from coterie.metrics import ari

COLUMNS = (64, 32, 16)
CLUSTERS = 10
PARTITION_ROWS = 125_000


def make_part(number, rows, columns, seed=0):
    """Some rows of every view around the same centres, whoever makes them."""
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
    """The same rows as Dask arrays that read their files when they are worked on."""
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


def timed(model, views):
    started = time.perf_counter()
    model.fit(views)
    labels = np.asarray(model.labels_)
    return time.perf_counter() - started, labels


def measure_time(folder, n_rows, repeats, worker_counts):
    """The same fit in one process and on clusters, in turns."""
    folder = save_views(folder, n_rows)
    model = GuidedCoTraining(CLUSTERS, random_state=0, n_jobs=2)
    arrays, parts = in_memory(folder, n_rows), on_dask(folder, n_rows)
    seconds, stages, agreement = {0: []}, {}, {}
    clusters = {n: cluster_of(n) for n in worker_counts}
    clients = {n: distributed.Client(cluster, set_as_default=False) for n, cluster in clusters.items()}
    try:
        for turn in range(repeats + 1):  # the first one warms up
            spent, expected = timed(model, arrays)
            seconds[0] += [spent] * (turn > 0)
            stages[0] = dict(model.timings_)
            for n, client in clients.items():
                with client.as_current():
                    spent, labels = timed(model, parts)
                seconds.setdefault(n, []).extend([spent] * (turn > 0))
                stages[n] = dict(model.timings_)
                agreement[n] = ari(expected, labels)
    finally:
        for n in clients:
            clients[n].close()
            clusters[n].close()
    base = float(np.median(seconds[0]))
    for n in worker_counts:
        spent = float(np.median(seconds[n]))
        yield {
            "part": "time",
            "rows": n_rows,
            "columns": COLUMNS,
            "workers": n,
            "seconds": round(spent, 2),
            "memory_seconds": round(base, 2),
            "ratio": round(spent / base, 3),
            "ari_to_memory": agreement[n],
            "partitions": n_rows // PARTITION_ROWS,
            "stages": {name: round(value, 2) for name, value in stages[n].items() if ":" not in name},
            "memory_stages": {name: round(value, 2) for name, value in stages[0].items() if ":" not in name},
        }


# -- bytes ----------------------------------------------------------------------------------------------------------


def count_writes():
    """Let this process count the bytes that it writes to its sockets."""
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


def bytes_of_fit(client, views, rounds):
    """Bytes that cross during a fit of so many rounds."""
    before = written() + sum(client.run(written).values())
    model = GuidedCoTraining(CLUSTERS, random_state=0, max_iter=rounds, tol=0, measure_stability=False).fit(views)
    distributed.wait([model.labels_, model.confidence_])
    return written() + sum(client.run(written).values()) - before, model


def measure_bytes(folder, n_rows, n_workers):
    parts = on_dask(save_views(folder, n_rows), n_rows)
    with cluster_of(n_workers) as cluster, distributed.Client(cluster) as client:
        count_writes()  # this process has the client and the scheduler
        client.run(count_writes)
        two, _ = bytes_of_fit(client, parts, 2)
        three, model = bytes_of_fit(client, parts, 3)
    p, n_graphs = len(model.landmark_indices_), len(model.singular_values_)
    yield {
        "part": "bytes",
        "rows": n_rows,
        "columns": COLUMNS,
        "workers": n_workers,
        "partitions": n_rows // PARTITION_ROWS,
        "landmarks": p,
        "graphs": n_graphs,
        "clusters": CLUSTERS,
        "fit_bytes": two,
        "round_bytes": three - two,
        "raw_bytes": 4 * n_rows * sum(COLUMNS),
    }


def measure_tasks(n_tasks=2000):
    """What a task costs the scheduler: a pass over partitions in which there is nothing to do."""
    from coterie.rows.dask import DaskRows
    from coterie.rows.tasks import Part

    with cluster_of(2) as cluster, distributed.Client(cluster):
        rows = DaskRows([Part((number,), list_of) for number in range(n_tasks)], np.ones(n_tasks, dtype=int))
        rows.map(list_of)
        started = time.perf_counter()
        rows.map(list_of)
        spent = time.perf_counter() - started
    yield {"part": "tasks", "tasks": n_tasks, "workers": 2, "seconds_a_task": spent / n_tasks}


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
    versions = {"dask": dask.__version__, "numpy": np.__version__}
    for part in given.parts:
        for n_rows in given.rows if part != "tasks" else [0]:
            if part == "time":
                lines = measure_time(given.data, n_rows, given.repeats, given.workers)
            elif part == "bytes":
                lines = (line for n in given.workers for line in measure_bytes(given.data, n_rows, n))
            else:
                lines = measure_tasks()
            for line in lines:
                print(json.dumps(line), flush=True)
                with given.results.open("a") as file:
                    file.write(json.dumps({**line, **machine, **versions}) + "\n")


if __name__ == "__main__":
    main()

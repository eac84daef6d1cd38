"""Cells as RNA and protein: Coterie beside muon's weighted nearest neighbours and Leiden, on the same cells.

    python -m benchmarks.scripts.cells [--data citeseq_pbmc10k.npz] [--seeds 3] [--results FILE]

The data set is a file in the folder that COTERIE_DATA names. muon is run as in its manual: RNA is normalised,
log-scaled and reduced by PCA, protein by centred log ratios and PCA, followed by neighbours of each, their weighted
nearest neighbours, and Leiden. Leiden takes a resolution, not a number of clusters: of several resolutions, the one
whose number is nearest is used, and only its own run is timed. Coterie takes the counts. ``seconds`` are wall-clock
time, ``cpu`` the processor time of all cores.
"""

import argparse
import json
import os
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import anndata
import mudata
import numpy as np
from scipy import sparse

from benchmarks.measure import machine, source_hash, versions
from coterie import tl
from coterie.metrics import ari, nmi

RESOLUTIONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)


def read_cells(path):
    """Return a MuData of counts, and the known coarse and fine types."""
    found = np.load(path)
    csr = [found[f"view_1_{part}"] for part in ("data", "indices", "indptr")]
    rna = anndata.AnnData(sparse.csr_matrix(tuple(csr), shape=tuple(found["view_1_shape"])))
    protein = anndata.AnnData(found["view_2"])
    protein.var_names = [str(name).removesuffix("_TotalSeqB") for name in found["protein_names"]]
    rna.var_names = [f"gene{number}" for number in range(rna.n_vars)]
    rna.obs_names = protein.obs_names = [f"cell{number}" for number in range(rna.n_obs)]
    return mudata.MuData({"rna": rna, "protein": protein}), {"types": found["y"], "finer types": found["y_l2"]}


@contextmanager
def timed(into):
    started, used = time.perf_counter(), time.process_time()
    yield
    into["seconds"] = into.get("seconds", 0) + time.perf_counter() - started
    into["cpu"] = into.get("cpu", 0) + time.process_time() - used


def judge(labels, known):
    return {name: {"ari": ari(y, labels), "nmi": nmi(y, labels)} for name, y in known.items()}


def coterie_way(cells, known, k, seed):
    times = {}
    with timed(times):
        tl.cluster(cells, k, random_state=seed)
    labels = cells.obs["coterie"].cat.codes.to_numpy()
    return {"method": f"Coterie, k = {k}", "clusters": len(set(labels)), **times, **judge(labels, known)}


def muon_neighbours(cells, seed):
    """Return the times of the steps before Leiden: preparation and neighbours."""
    import muon
    import scanpy

    parts = {"preparation": {}, "neighbours": {}}
    with timed(parts["preparation"]):
        rna, protein = cells["rna"], cells["protein"]
        scanpy.pp.normalize_total(rna, target_sum=1e4)
        scanpy.pp.log1p(rna)
        scanpy.pp.pca(rna, random_state=seed)
        muon.prot.pp.clr(protein)
        scanpy.pp.pca(protein, random_state=seed)
    with timed(parts["neighbours"]):
        for modality in (rna, protein):
            scanpy.pp.neighbors(modality, random_state=seed)
        muon.pp.neighbors(cells, key_added="wnn", random_state=seed)
    return parts


def muon_way(cells, known, wanted, before, seed):
    import scanpy

    tried = []
    for resolution in RESOLUTIONS:
        own = {}
        with timed(own):
            scanpy.tl.leiden(
                cells, resolution=resolution, neighbors_key="wnn", random_state=seed, flavor="igraph", n_iterations=2
            )
        tried.append((own, cells.obs["leiden"].cat.codes.to_numpy(), resolution))
    own, labels, resolution = min(tried, key=lambda one: abs(len(set(one[1])) - wanted))
    whole = {name: own[name] + sum(part[name] for part in before.values()) for name in ("seconds", "cpu")}
    parts = {f"cpu_{name}": part["cpu"] for name, part in before.items()}
    name = f"muon's WNN and Leiden, resolution {resolution}"
    return {"method": name, "clusters": len(set(labels)), **whole, **parts, **judge(labels, known)}


def keep(record, given, seed):
    record |= {"data": given.data, "seed": seed, "load": os.getloadavg()[0], "code": {"source": source_hash()}}
    print(record, flush=True)
    with open(given.results, "a", encoding="utf-8") as file:
        file.write(json.dumps({**record, "machine": machine(), "versions": versions()}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="citeseq_pbmc10k.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/cells.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of anndata, scanpy and muon
    path = Path(os.environ["COTERIE_DATA"]) / given.data
    few = read_cells(path)[0][:500].copy()  # compiles both methods before they are timed
    tl.cluster(few, 3)
    muon_neighbours(few, 0)
    for seed in range(given.seeds):
        cells, known = read_cells(path)
        numbers = [len(set(y)) for y in known.values()]
        for k in (*numbers, "auto"):
            keep(coterie_way(cells, known, k, seed), given, seed)
        before = muon_neighbours(cells, seed)
        for k in numbers:
            keep(muon_way(cells, known, k, before, seed), given, seed)


if __name__ == "__main__":
    main()

"""Whether the code gives bitwise the same labels and embeddings as an earlier version of it.

    git worktree add ../base e6e427f
    python -m benchmarks.scripts.same_labels --base ../base/src

Every fit runs in two processes, one of each version, on the same rows in the same placement (in memory, with
``memory_limit``, from Dask arrays, with ``device="torch"``). Labels and embeddings are compared byte by byte, and this
version loads the model that the other one saved and predicts the rows of the fit. "diffusion" means the defaults
from before ``basis="auto"``. Fits that have a result for the current code are skipped; the results are lines of
benchmarks/results/same_labels.jsonl, one for each fit.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results" / "same_labels.jsonl"
SETS = {"UCI": "mfeat", "USPS": "usps", "Citeseer": "citeseer", "digits": None, "synthetic, 130,000 rows": None}
SETTINGS = ("as published", "diffusion")
PLACES = ("memory", "memory_limit", "dask", "torch")
LIMIT_SECONDS = 1800


# -- in a process of either version ---------------------------------------------------------------------------------


def load_rows(path):
    """Return views and the number of clusters."""
    from coterie.datasets import load_views

    data = load_views(path)
    return data.views, len(set(data.target.tolist()))


def as_placed(views, place):
    """Return the views, as Dask arrays for the placement "dask"."""
    if place != "dask":
        return views
    import dask.array

    return {name: dask.array.from_array(view, chunks=(-(-view.shape[0] // 3), -1)) for name, view in views.items()}


def estimator(settings, k, place):
    from coterie import GuidedCoTraining

    more = {"random_state": 0, "store_embedding": True}
    more |= {"memory_limit": {"memory_limit": "1GB"}, "torch": {"device": "torch"}}.get(place, {})
    if settings == "as published":
        return GuidedCoTraining.as_published(k, **more)
    return GuidedCoTraining(k, basis="diffusion", max_iter=2, **more)


def fit(rows, settings, place, out):
    """Fit, and write labels, embedding and model."""
    import coterie

    views, k = load_rows(rows)
    (out / "imported").write_text(str(Path(coterie.__file__).parents[1]))
    model = estimator(settings, k, place).fit(as_placed(views, place))
    np.savez(out / "found.npz", labels=np.asarray(model.labels_), embedding=np.asarray(model.embedding_))
    coterie.save(model, out / "model.coterie")


def predict(rows, out):
    """Write the labels that a saved model predicts."""
    import coterie

    views, _ = load_rows(rows)
    np.save(out / "again.npy", np.asarray(coterie.load(out / "model.coterie").predict(views)))


# -- the comparison -------------------------------------------------------------------------------------------------


def run(source, *arguments):
    """Run a part of this file with a version of the code; return the last line of its error, empty if none."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, *map(str, arguments)],
        env=environment,
        timeout=LIMIT_SECONDS,
        capture_output=True,
        text=True,
    )
    return done.stderr.strip().splitlines()[-1][:300] if done.returncode else ""


def write_rows(name, folder):
    """Write a data set as a bundle that both versions read."""
    from coterie.datasets import load_views, make_views, save_views

    path = folder / "rows.npz"
    if SETS[name] is not None:
        data = load_views(Path(os.environ["COTERIE_DATA"]) / f"{SETS[name]}.npz")
        views, target = data.views, data.target
    elif name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        views = {"pixels": digits.data, "columns": digits.images.sum(axis=1)}
        target = digits.target
    else:
        data = make_views(130_000, 8, n_columns=(30, 12), random_state=0)
        views, target = data.views, data.target
    save_views(path, views, target)
    return path


def compare(rows, settings, place, base, folder):
    """Return which results are the same in both versions."""
    ours, theirs = folder / "ours", folder / "theirs"
    wrong = {}
    for out, source in ((ours, HERE.parent / "src"), (theirs, base)):
        out.mkdir()
        wrong[out.name] = run(source, "fit", rows, settings, place, out)
        # An installed package must not be imported instead of either version: the same code would always agree.
        if not wrong[out.name] and Path((out / "imported").read_text()) != source.resolve():
            raise RuntimeError(f"{source} was to be measured, and {(out / 'imported').read_text()} was imported.")
    if any(wrong.values()):
        return {"error": {name: said for name, said in wrong.items() if said}}
    found, before = (dict(np.load(out / "found.npz")) for out in (ours, theirs))
    said = run(HERE.parent / "src", "predict", rows, theirs)
    again = None if said else np.load(theirs / "again.npy")
    return {
        "rows": len(before["labels"]),
        "labels": bool(np.array_equal(found["labels"], before["labels"])),
        "embedding": found["embedding"].tobytes() == before["embedding"].tobytes(),
        "other_labels": int((found["labels"] != before["labels"]).sum()),
        "largest_difference": float(np.abs(found["embedding"] - before["embedding"]).max()),
        "old_model": said or bool(np.array_equal(again, before["labels"])),
    }


def tree_hash(source):
    """Return the first twelve hexadecimal digits of a hash of a version's source files."""
    digest = hashlib.sha256()
    for path in sorted((source / "coterie").rglob("*.py")):
        digest.update(path.relative_to(source).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def cases_done(source):
    """Return the fits that have a result of the code with this hash."""
    lines = map(json.loads, RESULTS.read_text().splitlines() if RESULTS.exists() else ())
    return {(line["data"], line["settings"], line["place"]) for line in lines if line["code"]["source"] == source}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True, help="the src folder of the earlier version")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES))
    parser.add_argument("--dry", action="store_true", help="leave the results file as it is")
    args = parser.parse_args()
    from benchmarks.measure import machine, source_hash
    from benchmarks.records import append_record
    from coterie import __version__

    done, differ, base = cases_done(source_hash()), 0, tree_hash(args.base)
    if base == tree_hash(HERE.parent / "src"):
        parser.error(f"{args.base} holds the same code as this repository: there is nothing to compare.")
    for name in args.data:
        wanted = [(s, p) for s in SETTINGS for p in args.places if (name, s, p) not in done]
        with tempfile.TemporaryDirectory() as folder:
            rows = write_rows(name, Path(folder)) if wanted else None
            for settings, place in wanted:
                started = time.perf_counter()
                with tempfile.TemporaryDirectory() as inside:
                    found = compare(rows, settings, place, args.base.resolve(), Path(inside))
                line = {"data": name, "settings": settings, "place": place, "base": base, **found}
                differ += not (found.get("labels") and found["embedding"] and found["old_model"] is True)
                print(line, round(time.perf_counter() - started, 1), flush=True)
                if not args.dry:
                    code = {"version": __version__, "source": source_hash()}
                    append_record(RESULTS, {**line, "code": code, "machine": machine()})
    sys.exit(bool(differ))


if __name__ == "__main__":
    if sys.argv[1:2] == ["fit"]:
        fit(Path(sys.argv[2]), sys.argv[3], sys.argv[4], Path(sys.argv[5]))
    elif sys.argv[1:2] == ["predict"]:
        predict(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()

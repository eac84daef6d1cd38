"""Make a small model with every kind of part, and rows with the answers it gives, to be read by later versions.

Run it once for every new version of the file format: ``python tests/data/make_model.py 1`` writes ``model_v1.coterie``
and ``model_v1.npz`` beside it.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse

from coterie import GuidedCoTraining
from coterie.saving import save

N, K = 90, 3


def make_views(seed=0):
    """Three views of the same clusters: numbers with missing rows, words, and links between the rows."""
    rng = np.random.default_rng(seed)
    target = np.arange(N) % K
    numbers = (4 * rng.standard_normal((K, 6))[target] + rng.standard_normal((N, 6))).astype(np.float32)
    numbers[::11] = np.nan
    words = rng.poisson(0.02 + 0.4 * (np.arange(60) % K == target[:, None]) * (rng.random(60) < 0.4))
    links = rng.random((N, N)) < np.where(target[:, None] == target, 0.08, 0.005)
    links = links | links.T
    return {
        "numbers": numbers,
        "words": sparse.csr_array(words.astype(np.float32)),
        "links": sparse.csr_array(links.astype(np.float64)),
    }


def store(views, **answers):
    """Return views and answers as arrays of one file."""
    arrays = dict(answers)
    for name, view in views.items():
        arrays[name] = view.toarray().astype(np.float32) if sparse.issparse(view) else view
    return arrays


if __name__ == "__main__":
    beside = Path(__file__).with_name(f"model_v{sys.argv[1]}")
    views = make_views()
    frame = pd.DataFrame(views["numbers"], columns=list("abcdef"), index=[f"row {i}" for i in range(N)])
    model = GuidedCoTraining(K, n_landmarks=40, n_neighbors=[4, 8], random_state=0).fit({**views, "numbers": frame})
    save(model, beside.with_suffix(".coterie"), rows=True, notes={"made by": Path(__file__).name})
    answers = {"labels": model.labels_, "places": model.transform(views), "own": model.view_labels(views)}
    np.savez_compressed(beside.with_suffix(".npz"), **store(views, **answers))

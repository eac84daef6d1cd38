import re
import shutil
from contextlib import chdir

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from command_runs import K, N, manual
from pandas_text import plain_text
from scipy import sparse

from coterie.datasets import make_views, save_views


@pytest.fixture(scope="session")
def data():
    return make_views(N, K, separation=9, n_columns=(9, 6, 5), random_state=0)


@pytest.fixture(scope="session")
def arrays(data):
    """The views of the manual's examples: two dense ones and counts."""
    pixels, hog, _ = data.views.values()
    rng = np.random.default_rng(0)
    counts = rng.poisson(3 * (np.arange(30) % K == data.target[:, None]) + 0.2)  # (n, 30)
    return {"pixels": pixels, "hog": hog, "text": sparse.csr_array(counts.astype(np.float32))}


@pytest.fixture(scope="session")
def library(data, arrays, tmp_path_factory):
    """A folder with every file that the manual and the help name."""
    folder = tmp_path_factory.mktemp("library")
    pixels, hog, text = arrays.values()
    np.save(folder / "pixels.npy", pixels)
    pd.DataFrame(hog, columns=[f"h{i}" for i in range(6)]).to_parquet(folder / "hog.parquet")
    sparse.save_npz(folder / "text.npz", text)
    np.save(folder / "y.npy", data.target)
    np.save(folder / "new_pixels.npy", pixels[::3])
    np.save(folder / "new_hog.npy", hog[::3])
    pd.DataFrame(hog[::3], columns=[f"h{i}" for i in range(6)]).to_parquet(folder / "new_hog.parquet")
    sparse.save_npz(folder / "new_text.npz", text[::3])
    np.save(folder / "more.npy", pixels[::2])
    save_views(folder / "digits.npz", {"pixels": pixels, "hog": hog}, data.target)
    ids = np.array([f"p{i}" for i in range(N)])
    people = pd.DataFrame({"person": ids, "age": hog[:, 0], "income": hog[:, 1], "name": "x"})
    people.to_csv(folder / "people.csv", index=False)
    visits = pd.DataFrame(pixels[:, :5], columns=list("abcde"))
    visits.insert(0, "person", ids)
    visits.iloc[::-1].iloc[10:].to_csv(folder / "visits.csv", index=False)
    with plain_text():
        parts = {
            "rna": anndata.AnnData(pixels, obs=pd.DataFrame(index=list(ids))),
            "prot": anndata.AnnData(hog, obs=pd.DataFrame(index=list(ids))),
        }
        parts["prot"].var_names = [f"p{i}" for i in range(6)]
        mudata.MuData(parts).write(folder / "cells.h5mu")
    (folder / "run.toml").write_text(re.search(r"```toml\n(.*?)```", manual(), re.DOTALL)[1])
    return folder


@pytest.fixture
def folder(library, tmp_path):
    """A copy of the library, to write to."""
    shutil.copytree(library, tmp_path / "here")
    with chdir(tmp_path / "here"):
        yield tmp_path / "here"

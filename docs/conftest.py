"""The manual's examples run in a folder of their own; pages that need a data set are not run without it."""

import os
from pathlib import Path

import pytest

NEEDED = {"guides/cells.md": "citeseq_pbmc10k.npz"}

folder = Path(os.environ.get("COTERIE_DATA", ""))
collect_ignore = [page for page, name in NEEDED.items() if not (folder / name).is_file()]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Some examples write files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")

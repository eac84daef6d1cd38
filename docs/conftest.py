"""Pages whose examples need a data set are not run without it."""

import os
from pathlib import Path

NEEDED = {"guides/cells.md": "citeseq_pbmc10k.npz"}

folder = Path(os.environ.get("COTERIE_DATA", ""))
collect_ignore = [page for page, name in NEEDED.items() if not (folder / name).is_file()]

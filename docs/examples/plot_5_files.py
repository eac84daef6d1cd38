"""
Tables in files
===============

Tables need not be read before they are clustered. ``coterie.formats`` opens files without reading them; a fit then
takes them block by block, and only ever holds a few blocks. So a table may be larger than memory.
"""

# %%
# Two files
# ---------
#
# One view is written as an array of NumPy's, the other as parquet, both block by block. Row 17 is the same thing in
# both. (``coterie fit`` on the command line also matches rows by their ids.) Parquet needs
# ``pip install coterie[files]``.

import tempfile
from pathlib import Path

import numpy as np

from coterie.datasets import iterate_views
from coterie.formats import open_writer

folder = Path(tempfile.mkdtemp())
target = []
with open_writer(folder / "sensors.npy") as sensors, open_writer(folder / "survey.parquet") as survey:
    for block in iterate_views(100_000, 8, n_columns=(48, 12), separation=1.6, random_state=0):
        sensors.write({"sensor": block.views["view0"]})
        survey.write({"answer": block.views["view1"]})
        target.append(block.target)
target = np.concatenate(target)
for path in sorted(folder.iterdir()):
    print(f"{path.name:15} {path.stat().st_size / 1e6:5.1f} MB")

# %%
# Opened, not read
# ----------------
#
# A view is written as on the command line: ``name=path``, with columns in brackets where not all are wanted. Rows are
# read when they are asked for.

from coterie.formats import open_views

views = open_views([folder / "sensors.npy", f"answers={folder / 'survey.parquet'}"])
for table in views.values():
    print(f"{table.name}: {table.shape[0]} x {table.shape[1]} {table.dtype}")
views["answers"][2:4].round(2)

# %%
# Fitted from the files
# ---------------------
#
# The tables go where arrays would. What is read is a sample for the preparation and the landmarks, and then every row
# once.

import tracemalloc

from coterie import GuidedCoTraining
from coterie.metrics import nmi

tracemalloc.start()
model = GuidedCoTraining(8, n_landmarks=500, n_neighbors=10, random_state=0).fit(views)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(f"NMI with the known clusters: {nmi(target, model.labels_):.3f}; {peak / 1e6:.0f} MB at most")

# %%
# It is the same as in memory
# ---------------------------

arrays = {name: np.asarray(table) for name, table in views.items()}
same = GuidedCoTraining(8, n_landmarks=500, n_neighbors=10, random_state=0).fit(arrays)
print(f"{np.mean(same.labels_ == model.labels_):.2%} of the labels are the same")

# %%
# Results, and a model, in files
# ------------------------------
#
# The model is one file without any pickle in it, and can be asked on a machine that has no other copy of the data.
# A file takes its name only when all of it is written.

import coterie
from coterie.formats import write_table

write_table(folder / "labels.parquet", {"label": model.labels_, "confidence": model.confidence_})
coterie.save(model, folder / "people.coterie")

again = coterie.load(folder / "people.coterie")
print(f"{np.mean(again.predict(views) == model.labels_):.2%} of the labels are predicted by the loaded model")

# %%
# How sure are the labels? The figure is drawn from the file of results.

import matplotlib.pyplot as plt

from coterie.formats import open_table

confidence = np.asarray(open_table(folder / "labels.parquet", columns="confidence")).ravel()
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.hist(confidence, bins=50, color="#2a6f8a")
ax.set(xlabel="confidence", ylabel="rows")

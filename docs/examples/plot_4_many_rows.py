"""
A million rows
==============

Time and memory grow with the number of rows, and not with its square. This example shows it with 1,000,000 rows on
whichever machine built the manual, so its seconds are not to be compared with those of other pages. On a GPU a hundred
times as many rows are a matter of seconds.
"""

# %%
# Rows
# ----
#
# Two views with 32 and 16 columns, and 10 clusters. They take 192 MB.

from coterie.datasets import make_views

data = make_views(1_000_000, n_clusters=10, n_columns=(32, 16), separation=4, random_state=0)
print(f"{sum(view.nbytes for view in data.views.values()) / 1e6:.0f} MB")

# %%
# One fit, and where its time goes
# --------------------------------
#
# ``tracemalloc`` counts what the fit allocates besides its input, and slows it down a little.

import tracemalloc

from coterie import GuidedCoTraining, plot
from coterie.metrics import nmi

tracemalloc.start()
model = GuidedCoTraining(10, random_state=0).fit(data.views)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(f"NMI with the known clusters: {nmi(data.target, model.labels_):.3f}")
plot.timings(model)

# %%
# What stays of a row while the rounds go on are its neighbours: 2 bytes for which landmark it is and 4 for the weight,
# for each neighbour in each graph. Here these are the graphs:

graphs = list(model.singular_values_)
kept = 6 * 10 * len(graphs)
print(f"{len(model.landmark_indices_)} landmarks, {len(graphs)} graphs: {', '.join(graphs)}")
print(f"kept: {kept} bytes a row, {kept * len(data.target) / 1e6:.0f} MB; at most, for everything: {peak / 1e6:.0f} MB")

# %%
# Twice the rows, at most twice the time
# --------------------------------------
#
# The defaults choose landmarks and neighbours by the number of rows. They are held fixed here, so that the lines can be
# compared. A part of a fit does not depend on the rows at all: choosing landmarks on a sample, and the singular vectors
# of small matrices. So the lines do not start at zero.

import matplotlib.pyplot as plt

sizes = [25_000, 50_000, 100_000, 200_000]
stages = {"graphs": [], "rounds": [], "assignment": [], "total": []}
for size in sizes:
    some = {name: view[:size] for name, view in data.views.items()}
    timings = GuidedCoTraining(10, n_landmarks=500, n_neighbors=10, random_state=0).fit(some).timings_
    for stage, seconds in stages.items():
        seconds.append(timings[stage])

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for stage, seconds in stages.items():
    ax.plot(sizes, seconds, marker="o", label=stage, color="black" if stage == "total" else None)
ax.set(xlabel="rows", ylabel="seconds", ylim=(0, None), xticks=sizes)
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(frameon=False)

# %%
# The model does not grow
# -----------------------
#
# A fitted model is its landmarks and some small matrices. As a file, it has the same size whatever the number of rows;
# ``coterie.save(..., rows=True)`` would add labels and confidences, one for each row.

import tempfile
from pathlib import Path

import coterie

folder = Path(tempfile.mkdtemp())
for size in (25_000, 200_000):
    some = {name: view[:size] for name, view in data.views.items()}
    small = GuidedCoTraining(10, n_landmarks=500, n_neighbors=10, random_state=0).fit(some)
    coterie.save(small, folder / "model.coterie")
    print(f"{size:,} rows: a file of {(folder / 'model.coterie').stat().st_size / 1e3:.0f} kB")

# sphinx_gallery_thumbnail_number = 2

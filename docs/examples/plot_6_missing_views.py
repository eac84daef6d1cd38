"""
Rows that lack views
====================

Patients miss a scan, products have no picture, documents were never translated. Rows with gaps are often dropped, or
the gaps are filled with means. Neither is needed: a row is placed by the views that it has.
"""

# %%
# Gaps in the digits
# ------------------
#
# Four views of handwritten digits, and 40 % of all (row, view) pairs taken away at random. A row keeps at least one
# view. A view that a row lacks is a row of NaN.

import numpy as np

from coterie.datasets import load_digit_views

data = load_digit_views()
rng = np.random.default_rng(0)
lacks = rng.random((len(data.target), len(data.views))) < 0.4
lacks[lacks.all(axis=1), 0] = False
views = {name: np.where(lacks[:, [v]], np.nan, view) for v, (name, view) in enumerate(data.views.items())}

count = np.bincount((~lacks).sum(axis=1), minlength=5)
for has in range(1, 5):
    print(f"{count[has]:5} rows have {has} of 4 views")

# %%
# Three ways
# ----------
#
# Dropping rows leaves few of them, and the others without a label. Means put all rows that lack a view at one
# place in it, where they look alike. The third way is to pass the gaps as they are.

import matplotlib.pyplot as plt

from coterie import GuidedCoTraining
from coterie.metrics import nmi


def fit(tables):
    """Return a fit with the same settings for all three ways."""
    return GuidedCoTraining(10, random_state=0).fit(tables)


whole = ~lacks.any(axis=1)
dropped = fit({name: view[whole] for name, view in views.items()})
filled = fit({name: np.where(np.isnan(view), np.nanmean(view, axis=0), view) for name, view in views.items()})
model = fit(views)
complete = fit(data.views)

scores = {
    f"rows with gaps dropped ({whole.mean():.0%} of rows)": nmi(data.target[whole], dropped.labels_),
    "gaps filled with means": nmi(data.target, filled.labels_),
    "gaps as they are": nmi(data.target, model.labels_),
    "nothing missing": nmi(data.target, complete.labels_),
}
figure, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
bars = ax.barh(list(scores), list(scores.values()), color=["0.7", "0.7", "#2a6f8a", "0.85"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="NMI with the known digits", xlim=(0, 1.1))

# %%
# What one more view is worth
# ---------------------------
#
# Even rows that are seen through one view alone are mostly put where they belong: the others have made clear what that
# view means.

has = (~lacks).sum(axis=1)
classes = np.array([np.bincount(data.target[model.labels_ == cluster]).argmax() for cluster in range(10)])
right = classes[model.labels_] == data.target

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
at = np.arange(1, 5)
ax.plot(at, [right[has == number].mean() for number in at], marker="o", label="share in a cluster of their digit")
ax.plot(at, [model.confidence_[has == number].mean() for number in at], marker="s", label="mean confidence")
ax.set(xlabel="views that a row has", xticks=at, ylim=(0, 1.02))
ax.legend(frameon=False)

# %%
# The map, by how many views a row has
# ------------------------------------

from coterie import plot

plot.embedding(model, views, color=np.array([f"{number} of 4" for number in has]))

# %%
# New rows may lack views too
# ---------------------------
#
# A dict may leave views out altogether.

for name in data.views:
    found = complete.predict({name: data.views[name]})
    print(f"{name:10} alone: {np.mean(found == complete.labels_):.0%} of rows get the label that all views give them")

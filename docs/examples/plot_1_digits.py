"""
Handwritten digits
==================

Scikit-learn comes with 1,797 small pictures of handwritten digits. Here they are seen through four views: the pixels,
the directions of edges, the frequencies, and what the outline looks like from each side. No view tells all digits
apart. Together they nearly do, and no label is looked at on the way.
"""

# %%
# Four tables with the same rows
# ------------------------------

from coterie.datasets import load_digit_views

data = load_digit_views()
for name, view in data.views.items():
    print(f"{name:10} {view.shape[0]} rows, {view.shape[1]} columns")

# %%
# One fit
# -------
#
# A dict of tables goes in. Nothing needs to be scaled or weighted first. In a notebook, a fitted model shows itself:

from coterie import GuidedCoTraining

model = GuidedCoTraining(10, random_state=0).fit(data.views)
model

# %%
# The map
# -------
#
# Rows that the views agree are alike lie together. Islands can be trusted; how far apart they lie cannot.

from coterie import plot

plot.embedding(model, data.views)

# %%
# The same map, coloured by how sure each row's label is. The doubtful rows lie between islands.

plot.embedding(model, data.views, color="confidence")

# %%
# What each view counted
# ----------------------
#
# All views side by side take part as one more view. *Agreement* is the share of what a view brings that the consensus
# holds too.

plot.view_weights(model)

# %%
# Which views see which cluster? Each view was asked alone where it would put the rows of each cluster.

plot.agreement(model, between="clusters")

# %%
# How good is it?
# ---------------
#
# The digits' classes are known here, so the clusters can be compared with them. The numbers of clusters are arbitrary:
# measures that do not care about numbering are needed.

from coterie.metrics import clustering_accuracy, nmi

print(f"accuracy {clustering_accuracy(data.target, model.labels_):.3f}, NMI {nmi(data.target, model.labels_):.3f}")
plot.confusion(model, data.target)

# %%
# Rows to look at
# ---------------
#
# The row that stands for each cluster, above; and the row that each cluster is least sure of, below.

import matplotlib.pyplot as plt
import numpy as np

surest = model.medoid_indices_
least_sure = [
    np.flatnonzero(model.labels_ == cluster)[model.confidence_[model.labels_ == cluster].argmin()]
    for cluster in range(model.n_clusters_)
]
figure, axes = plt.subplots(2, 10, figsize=(9, 2.2), layout="constrained")
for line, rows in zip(axes, (surest, least_sure), strict=True):
    for ax, row in zip(line, rows, strict=True):
        ax.imshow(data.views["pixels"][row].reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("surest")
axes[1, 0].set_ylabel("least sure")

# %%
# A report
# --------
#
# All of this, and more, is on one page that can be mailed: it loads nothing from elsewhere.

import tempfile
from pathlib import Path

path = model.report(
    Path(tempfile.mkdtemp()) / "digits.html", data.views, target=data.target, images={"pixels": (8, 8)}, title="Digits"
)
print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")

# sphinx_gallery_start_ignore
from html import escape


class Page:
    """The report, shown in the manual."""

    def _repr_html_(self):
        text = escape(path.read_text(encoding="utf-8"), quote=True)
        style = "width: 100%; height: 40rem; border: 1px solid #8888; border-radius: 4px"
        return f'<iframe title="The report of this fit" loading="lazy" style="{style}" srcdoc="{text}"></iframe>'


Page()
# sphinx_gallery_end_ignore

"""
Cells as RNA and protein
========================

Some instruments count two things in one cell: the copies of RNA of thousands of genes, and of a few dozen proteins on
the surface. RNA has many columns with few counts. Proteins are few, counted well, and do not tell everything apart.
This example draws such cells from a model, so that the types are known, and clusters both tables at once. It needs the
packages ``anndata`` and ``mudata``.
"""

# %%
# Cells that are made up
# ----------------------
#
# There are eight types. Types 0 and 1 have the same proteins, and so have types 2 and 3; types 4 and 5 differ little in
# RNA, and so do 6 and 7. Counts are negative binomial, and each cell is read to a depth of its own.

import anndata
import mudata
import numpy as np

rng = np.random.default_rng(0)
n_cells, n_types, n_genes, n_proteins = 2000, 8, 800, 30
types = rng.integers(n_types, size=n_cells)


def draw_counts(means, depth, dispersion):
    """Return negative binomial counts with the given means, one row per cell."""
    rates = rng.gamma(dispersion, means * depth / dispersion)
    return rng.poisson(rates).astype(np.float32)


genes = rng.lognormal(-1.5, 1.2, size=n_genes) * np.exp(rng.normal(0, 0.9, size=(n_types, n_genes)))
proteins = rng.lognormal(2.5, 0.6, size=n_proteins) * np.exp(rng.normal(0, 1.0, size=(n_types, n_proteins)))
genes[5] = genes[4] * np.exp(rng.normal(0, 0.05, size=n_genes))
genes[7] = genes[6] * np.exp(rng.normal(0, 0.05, size=n_genes))
proteins[1], proteins[3] = proteins[0], proteins[2]

depth = rng.lognormal(0, 0.4, size=(n_cells, 1))
cells = [f"cell{number}" for number in range(n_cells)]
rna = anndata.AnnData(draw_counts(genes[types], depth, 2.0))
protein = anndata.AnnData(draw_counts(proteins[types], rng.lognormal(0, 0.3, size=(n_cells, 1)), 5.0))
rna.obs_names = protein.obs_names = cells
rna.var_names = [f"gene{number}" for number in range(n_genes)]
protein.var_names = [f"protein{number}" for number in range(n_proteins)]
mudata.set_options(pull_on_update=False)  # as mudata 0.4 will do by itself
data = mudata.MuData({"rna": rna, "protein": protein})
print(data.shape, {name: modality.shape for name, modality in data.mod.items()})

# %%
# Modalities are views
# --------------------
#
# The counts go in as they are. That they are counts is seen from the values: both tables are put on a log scale, and
# the RNA of each cell is first brought to a common total. The labels are written into the object, as categories, which
# is what other tools of scverse expect.

import coterie.tl

coterie.tl.cluster(data, 8, random_state=0)
print(data.obs["coterie"].value_counts().to_dict())
print(data.uns["coterie"]["preparation"])

# %%
# Both, or one
# ------------

import matplotlib.pyplot as plt

from coterie import GuidedCoTraining
from coterie.metrics import nmi

views = coterie.tl.views_of(data)
scores = {f"{name} alone": nmi(types, GuidedCoTraining(8, random_state=0).fit_predict(views[name])) for name in views}
scores["both"] = nmi(types, data.obs["coterie"].cat.codes.to_numpy())

figure, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
bars = ax.barh(list(scores), list(scores.values()), color=["0.7", "0.7", "#2a6f8a"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set_xlabel("NMI with the types")
ax.set_xlim(0, 1.12)

# %%
# Which view sees which type
# --------------------------
#
# The estimator itself takes the tables too. A cluster that one view cannot see is one where that view alone puts the
# rows elsewhere: look for light fields.

from coterie import plot

model = GuidedCoTraining(8, random_state=0).fit(views)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot.confusion(model, types, ax=axes[0])
plot.agreement(model, between="clusters", ax=axes[1])
axes[0].set_title("clusters and types")
axes[1].set_title("share that each view alone agrees on")

# %%
# The map
# -------

plot.embedding(model, views, color=np.array([f"type {number}" for number in types]))

# sphinx_gallery_thumbnail_number = 3

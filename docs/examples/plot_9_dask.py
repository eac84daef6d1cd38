"""
Rows on a cluster
=================

Dask arrays stay where their partitions are: on the workers of a cluster. Only small sums travel, and the labels are a
Dask array again. Here the cluster is two workers on threads of this process. It needs ``pip install coterie[dask]``.
"""

# %%
# A small cluster
# ---------------
#
# On a real one, this is all that changes.

from distributed import Client, LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)

# %%
# Views in partitions
# -------------------
#
# Usually a Dask array reads files. This one makes its rows; nothing is computed yet.

import dask.array as da

from coterie.datasets import make_views

data = make_views(40_000, n_clusters=6, n_columns=(24, 12), separation=2.5, random_state=0)
views = {name: da.from_array(table, chunks=(5_000, -1)) for name, table in data.views.items()}
views["view0"]

# %%
# Fitted where the rows are
# -------------------------

from coterie import GuidedCoTraining
from coterie.metrics import nmi

model = GuidedCoTraining(6, n_landmarks=500, random_state=0).fit(views)
model.labels_

# %%
# Labels are computed when they are asked for; here, all of them.

print(f"NMI {nmi(data.target, model.labels_.compute()):.3f}")

# %%
# The same as in memory
# ---------------------
#
# Sums are rounded otherwise, and that is all.

from coterie.metrics import ari

here = GuidedCoTraining(6, n_landmarks=500, random_state=0).fit(data.views)
print(f"adjusted Rand index to a fit in memory: {ari(here.labels_, model.labels_.compute()):.4f}")

# %%
# New rows may be on the cluster, or here: the model is the same.

model.predict({name: table[:5] for name, table in data.views.items()}), model.predict(views)[:5].compute()

# %%
# Labels of partitions
# --------------------
#
# Every partition has rows of every cluster here; with data that is sorted by day or by place it would not.

import matplotlib.pyplot as plt
import numpy as np

counts = np.array([np.bincount(part.compute(), minlength=6) for part in model.labels_.blocks])
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for cluster_number in range(6):
    ax.bar(np.arange(len(counts)), counts[:, cluster_number], bottom=counts[:, :cluster_number].sum(axis=1))
ax.set(xlabel="partition", ylabel="rows, by cluster")

# %%

client.close()
cluster.close()

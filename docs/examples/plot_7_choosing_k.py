"""
How many clusters?
==================

Most methods want to be told. ``suggest_k`` looks for numbers of clusters that the views agree on, that do not change
when half of the rows are taken, and behind which the graphs have a gap. It returns a ranking with its evidence, and
says when there is none to speak of.
"""

# %%
# Clear clusters
# --------------
#
# Seven clusters in three views, of which one is pure noise.

from coterie import plot, suggest_k
from coterie.datasets import make_views

data = make_views(1500, n_clusters=7, n_columns=(12, 8, 8), n_noise=1, separation=6, random_state=0)
found = suggest_k(data.views, k_max=15, random_state=0)
print(found.table(3))
print(f"best: {found.best}, clear: {found.is_clear}")

# %%
# The height of a bar is the score; the best number stands out.

plot.suggestion(found)

# %%
# The evidence
# ------------
#
# The score is a product, and each factor can be looked at. Agreement, stability and separation are asked only for the
# numbers that the graphs favour.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 5, figsize=(12, 2.6), layout="constrained", sharex=True)
for ax, name in zip(axes, ("agreement", "stability", "separation", "shared", "gap"), strict=True):
    ax.plot(found.k, getattr(found, name), marker="o", markersize=4)
    ax.axvline(found.best, color="0.7", linestyle="--", linewidth=1)
    ax.set(title=name, xlabel="clusters", ylim=(0, None))

# %%
# Real data are less clear
# ------------------------
#
# There are ten digits. But a digit that people write in two ways may fall into two clusters, and digits that look alike
# into one. Read the ranking as a short list.

from coterie.datasets import load_digit_views

digits = suggest_k(load_digit_views().views, k_max=16, random_state=0)
print(f"the first three: {digits.top(3)}")
plot.suggestion(digits)

# %%
# No clusters at all
# ------------------
#
# Two views of noise have nothing to agree on, and that is said.

noise = make_views(800, n_clusters=3, n_columns=(10, 10), n_noise=2, random_state=0)
nothing = suggest_k(noise.views, k_max=12, random_state=0)
print(f"strength {nothing.strength:.2f}, clear: {nothing.is_clear}")

# %%
# Within a fit
# ------------
#
# ``n_clusters="auto"`` takes the best number, keeps the evidence in ``k_suggestion_``, and warns where it is weak.

from coterie import GuidedCoTraining
from coterie.metrics import nmi

model = GuidedCoTraining("auto", random_state=0).fit(data.views)
print(f"{model.n_clusters_} clusters, NMI with the known ones {nmi(data.target, model.labels_):.3f}")

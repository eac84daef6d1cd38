"""
Documents in several languages
==============================

A news agency publishes the same stories in several languages. Every language is a view: a table of word counts with
a row for each story and a column for each word. Nobody has to translate anything, and no dictionary is needed; it is
enough that row 17 is the same story in every table.
"""

# %%
# The documents
# -------------
#
# Where the environment variable ``COTERIE_DATA`` names a folder with 600 stories of the Reuters collection in five
# languages, these are taken. Otherwise stories are made up: each is about one subject, each subject prefers some
# words, and every language has words of its own. Most words of a story say nothing about its subject.

import os
from pathlib import Path

import numpy as np
from scipy import sparse

from coterie.datasets import MultiViewData, load_views


def make_stories(n_stories, n_subjects, vocabularies, seed):
    """Return word counts of made-up stories, in one table per language, and the stories' subjects."""
    rng = np.random.default_rng(seed)
    subjects = rng.integers(n_subjects, size=n_stories)
    views = {}
    for language, n_words in vocabularies.items():
        common = rng.dirichlet(np.full(n_words, 0.05))  # what everybody writes
        special = rng.dirichlet(np.full(n_words, 0.02), size=n_subjects)  # what one subject needs
        share = rng.beta(2, 14, size=(n_stories, 1))  # how much of a story is about its subject
        chances = (1 - share) * common + share * special[subjects]
        lengths = rng.poisson(60, size=n_stories) + 5
        counts = rng.multinomial(lengths, chances)
        views[language] = sparse.csr_array(counts.astype(np.float32))
    return MultiViewData(views, subjects, "made-up stories")


bundle = Path(os.environ.get("COTERIE_DATA", "")) / "reuters_600_fullvocab.npz"
if bundle.is_file():
    data = load_views(bundle)
    names = {"EN": "English", "FR": "French", "GR": "German", "IT": "Italian", "SP": "Spanish"}
    views = {names[name[:2]]: view for name, view in data.views.items()}
else:
    sizes = {"English": 3000, "French": 3500, "German": 5000, "Italian": 3200, "Spanish": 3400}
    data = make_stories(600, 6, sizes, seed=0)
    views = data.views

print(data.name)
for language, view in views.items():
    print(f"{language:8} {view.shape[0]} stories, {view.shape[1]} words, {view.nnz / view.shape[0]:.0f} in a story")

# %%
# Raw counts go in
# ----------------
#
# That these are words is seen from the values: counts are put on a log scale, rare words weigh more, lengths of
# stories are divided out, and the table is reduced to its main directions.

from coterie import GuidedCoTraining

model = GuidedCoTraining(6, random_state=0).fit(views)
print(model.preparation_["English"])

# %%
# One language, or all
# --------------------
#
# Each language alone is clustered in the same way, and the stories' subjects say how well that went. Only they can tell
# which language is best. All languages together should come out near the best one, or above it, and nobody has to
# know which that is.

import matplotlib.pyplot as plt

from coterie.metrics import nmi

scores = {
    language: nmi(data.target, GuidedCoTraining(6, random_state=0).fit_predict(view))
    for language, view in views.items()
}
scores["all together"] = nmi(data.target, model.labels_)

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
bars = ax.barh(list(scores), list(scores.values()), color=["0.7"] * len(views) + ["#2a6f8a"])
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set_xlabel("NMI with the known subjects")
ax.set_xlim(0, max(scores.values()) * 1.15)

# %%
# The map of all stories
# ----------------------

from coterie import plot

plot.embedding(model, views)

# %%
# Do the languages tell the same story?
# -------------------------------------
#
# The heat map says how alike the views' graphs are, before any view has influenced another.

plot.agreement(model)

# %%
# A story in one language
# -----------------------
#
# New stories need not exist in every language. Here all are shown to the model in English alone.

found = model.predict({"English": views["English"]})
print(f"{np.mean(found == model.labels_):.0%} of the stories get the label that they have in all languages")

# sphinx_gallery_thumbnail_number = 2

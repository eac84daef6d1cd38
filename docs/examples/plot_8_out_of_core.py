"""
More rows than memory
=====================

A fit can keep what it knows of rows in files, under a limit of memory, and go on after it was killed. Here that is done
on a small scale: the files are small, and the job is stopped on purpose.
"""

# %%
# Two files
# ---------
#
# Rows are written block by block, as they would be where nobody could hold all of them.

import tempfile
from pathlib import Path

import numpy as np

from coterie.datasets import iterate_views
from coterie.formats import open_writer

folder = Path(tempfile.mkdtemp())
with open_writer(folder / "text.npy") as text, open_writer(folder / "images.npy") as images:
    for block in iterate_views(150_000, 6, n_columns=(32, 16), separation=3, random_state=0):
        text.write({"text": block.views["view0"]})
        images.write({"images": block.views["view1"]})
paths = [folder / "text.npy", folder / "images.npy"]
print(f"{sum(path.stat().st_size for path in paths) / 1e6:.0f} MB")

# %%
# A job that is stopped
# ---------------------
#
# ``memory_limit`` is what the process may take, and ``work_dir`` is where the job keeps what it has done. Somebody
# stops this one when the rounds are over; ``kill -9`` would do no more harm.

from coterie import GuidedCoTraining
from coterie.progress import listening


class Stopped(Exception):
    pass


def stop_after_the_rounds(stage):
    if stage == "assignment":
        raise Stopped


job = {"memory_limit": "1GB", "work_dir": folder / "job", "random_state": 0}
try:
    with listening(stop_after_the_rounds):
        GuidedCoTraining(6, **job).fit(paths)
except Stopped:
    kept = [path for path in (folder / "job").rglob("*") if path.is_file()]
    print(f"stopped; {len(kept)} files, {sum(path.stat().st_size for path in kept) / 1e6:.0f} MB")

# %%
# The same call goes on
# ---------------------
#
# The graphs are not computed again, nor the sums over rows of the rounds; their small eigenproblems are.

model = GuidedCoTraining(6, **job).fit(paths)
print({stage: round(seconds, 1) for stage, seconds in model.timings_.items() if ":" not in stage})
print(f"{len(list((folder / 'job').iterdir()))} files left")

# %%
# Nothing is different
# --------------------
#
# A fit in memory that nobody stopped gives the same labels.

in_memory = GuidedCoTraining(6, random_state=0).fit([np.load(path) for path in paths])
print(bool((model.labels_ == in_memory.labels_).all()))

# %%
# Labels as they come
# -------------------
#
# Where even labels are too many to keep, they come block by block and can be written at once.

with open_writer(folder / "labels.npy") as out:
    for part in model.stream(paths):
        out.write({"label": part.labels})
print(np.load(folder / "labels.npy", mmap_mode="r").shape)

# %%
# What was not done twice
# -----------------------

import matplotlib.pyplot as plt

stages = ["preparation", "landmarks", "graphs", "rounds", "assignment"]
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
at = np.arange(len(stages))
ax.bar(at - 0.2, [in_memory.timings_[stage] for stage in stages], 0.4, label="a whole fit in memory", color="0.7")
ax.bar(at + 0.2, [model.timings_[stage] for stage in stages], 0.4, label="the job that was stopped, second part")
ax.set(ylabel="seconds", xticks=at, xticklabels=stages)
ax.legend(frameon=False)

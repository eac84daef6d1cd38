"""The README's picture: what Coterie makes of handwritten digits, without labels. Run: python benchmarks/picture.py"""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views
from coterie.metrics import clustering_accuracy, nmi

SURE, UNSURE = 14, 6
OUT = Path(__file__).resolve().parents[1] / "docs" / "images" / "digits.png"


def main() -> None:
    data = load_digit_views()
    model = GuidedCoTraining(10, random_state=0).fit(data.views)
    images = data.views["pixels"].reshape(-1, 8, 8)
    figure, axes = plt.subplots(10, SURE + UNSURE + 1, figsize=(11, 5.6), facecolor="white")
    order = np.argsort([np.bincount(data.target[model.labels_ == c]).argmax() for c in range(10)], kind="stable")
    for line, cluster in zip(axes, order, strict=True):
        members = np.flatnonzero(model.labels_ == cluster)
        majority = np.bincount(data.target[members]).argmax()
        ranked = members[np.argsort(-model.confidence_[members])]
        shown = [*ranked[:: max(1, len(ranked) // 40)][:SURE], None, *ranked[-UNSURE:]]
        for axis, row in zip(line, shown, strict=True):
            axis.axis("off")
            if row is not None:
                wrong = data.target[row] != majority
                axis.imshow(images[row], cmap="Reds" if wrong else "gray_r", interpolation="nearest")
    accuracy, information = clustering_accuracy(data.target, model.labels_), nmi(data.target, model.labels_)
    figure.suptitle(
        f"1,797 digits in four views, ten clusters, no labels: accuracy {accuracy:.1%}, NMI {information:.2f}\n"
        "a line per cluster: rows it is sure of, and on the right the six it is least sure of; red: of another class",
        fontsize=11,
        x=0.02,
        ha="left",
    )
    figure.subplots_adjust(left=0.02, right=0.99, top=0.88, bottom=0.01, wspace=0.05, hspace=0.05)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()

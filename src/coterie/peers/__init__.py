"""The methods that Coterie is measured against, each as its authors published it, built from the same rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

if TYPE_CHECKING:
    from coterie.peers.aimc import AIMC
    from coterie.peers.concat_lsc import ConcatLSC
    from coterie.peers.exact import ExactGuidedCoTraining
    from coterie.peers.fastmice import FastMICE
    from coterie.peers.fpmvs import FPMVSCAG
    from coterie.peers.kmeans import ConcatKMeans
    from coterie.peers.lmvsc import LMVSC
    from coterie.peers.lsc import LSC
    from coterie.peers.mvscb import MVSCB
    from coterie.peers.sfmc import SFMC
    from coterie.peers.smvsc import SMVSC
    from coterie.peers.spectral import SC
    from coterie.peers.usenc import USENC
    from coterie.peers.uspec import USPEC

# One line a method: its class, and the module that holds it.
HOMES = {
    "AIMC": "aimc",
    "ConcatKMeans": "kmeans",
    "ConcatLSC": "concat_lsc",
    "ExactGuidedCoTraining": "exact",
    "FPMVSCAG": "fpmvs",
    "FastMICE": "fastmice",
    "LMVSC": "lmvsc",
    "LSC": "lsc",
    "MVSCB": "mvscb",
    "SC": "spectral",
    "SFMC": "sfmc",
    "SMVSC": "smvsc",
    "USENC": "usenc",
    "USPEC": "uspec",
}

__all__ = [
    "AIMC",
    "FPMVSCAG",
    "LMVSC",
    "LSC",
    "MVSCB",
    "SC",
    "SFMC",
    "SMVSC",
    "USENC",
    "USPEC",
    "ConcatKMeans",
    "ConcatLSC",
    "ExactGuidedCoTraining",
    "FastMICE",
]

__getattr__ = names_of(__name__, HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)

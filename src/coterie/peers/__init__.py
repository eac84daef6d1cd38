"""The methods that Coterie is measured against, each as its authors published it, built from the same rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

if TYPE_CHECKING:
    from coterie.peers.aimc import AIMC
    from coterie.peers.autoencoder import SparseAutoencoder
    from coterie.peers.commute_time import CommuteTime
    from coterie.peers.concat_lsc import ConcatLSC
    from coterie.peers.exact import ExactGuidedCoTraining
    from coterie.peers.fastmice import FastMICE
    from coterie.peers.fpmvs import FPMVSCAG
    from coterie.peers.kasp import KASP
    from coterie.peers.kmeans import ConcatKMeans
    from coterie.peers.lmvsc import LMVSC
    from coterie.peers.lsc import LSC
    from coterie.peers.mvscb import MVSCB
    from coterie.peers.nystroem import Nystroem
    from coterie.peers.pic import PIC
    from coterie.peers.sequential import Sequential
    from coterie.peers.sfmc import SFMC
    from coterie.peers.shinnou_sasaki import ShinnouSasaki
    from coterie.peers.smvsc import SMVSC
    from coterie.peers.spectral import SC
    from coterie.peers.usenc import USENC
    from coterie.peers.uspec import USPEC

# One line a method: its class, and the module that holds it.
HOMES = {
    "AIMC": "aimc",
    "CommuteTime": "commute_time",
    "ConcatKMeans": "kmeans",
    "ConcatLSC": "concat_lsc",
    "ExactGuidedCoTraining": "exact",
    "FPMVSCAG": "fpmvs",
    "FastMICE": "fastmice",
    "KASP": "kasp",
    "LMVSC": "lmvsc",
    "LSC": "lsc",
    "MVSCB": "mvscb",
    "Nystroem": "nystroem",
    "PIC": "pic",
    "SC": "spectral",
    "SFMC": "sfmc",
    "SMVSC": "smvsc",
    "Sequential": "sequential",
    "ShinnouSasaki": "shinnou_sasaki",
    "SparseAutoencoder": "autoencoder",
    "USENC": "usenc",
    "USPEC": "uspec",
}

__all__ = [
    "AIMC",
    "FPMVSCAG",
    "KASP",
    "LMVSC",
    "LSC",
    "MVSCB",
    "PIC",
    "SC",
    "SFMC",
    "SMVSC",
    "USENC",
    "USPEC",
    "CommuteTime",
    "ConcatKMeans",
    "ConcatLSC",
    "ExactGuidedCoTraining",
    "FastMICE",
    "Nystroem",
    "Sequential",
    "ShinnouSasaki",
    "SparseAutoencoder",
]

__getattr__ = names_of(__name__, HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)

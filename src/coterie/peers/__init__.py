"""The methods that Coterie is compared with, each as its authors published it, built from the same modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

if TYPE_CHECKING:
    from coterie.peers.aasc import AASC
    from coterie.peers.aimc import AIMC
    from coterie.peers.autoencoder import SparseAutoencoder
    from coterie.peers.commute_time import CommuteTime
    from coterie.peers.concat_lsc import ConcatLSC
    from coterie.peers.coregularised import CoRegularised
    from coterie.peers.cotraining import CoTraining
    from coterie.peers.dimsc import DiMSC
    from coterie.peers.exact import ExactGuidedCoTraining
    from coterie.peers.fastmice import FastMICE
    from coterie.peers.fpmvs import FPMVSCAG
    from coterie.peers.kasp import KASP
    from coterie.peers.kmeans import ConcatKMeans
    from coterie.peers.lmvsc import LMVSC
    from coterie.peers.lsc import LSC
    from coterie.peers.ltmsc import LTMSC
    from coterie.peers.mkl import MultipleKernelLaplacian
    from coterie.peers.mmsc import MMSC
    from coterie.peers.mscmo import MSCMO
    from coterie.peers.multinmf import MultiNMF
    from coterie.peers.mvscb import MVSCB
    from coterie.peers.nystroem import Nystroem
    from coterie.peers.pic import PIC
    from coterie.peers.rmsc import RMSC
    from coterie.peers.sequential import Sequential
    from coterie.peers.sfmc import SFMC
    from coterie.peers.shinnou_sasaki import ShinnouSasaki
    from coterie.peers.smvsc import SMVSC
    from coterie.peers.spectral import SC
    from coterie.peers.usenc import USENC
    from coterie.peers.uspec import USPEC

# One line per method: its class, and the module that defines it.
HOMES = {
    "AASC": "aasc",
    "AIMC": "aimc",
    "CoRegularised": "coregularised",
    "CoTraining": "cotraining",
    "CommuteTime": "commute_time",
    "ConcatKMeans": "kmeans",
    "ConcatLSC": "concat_lsc",
    "DiMSC": "dimsc",
    "ExactGuidedCoTraining": "exact",
    "FPMVSCAG": "fpmvs",
    "FastMICE": "fastmice",
    "KASP": "kasp",
    "LMVSC": "lmvsc",
    "LSC": "lsc",
    "LTMSC": "ltmsc",
    "MMSC": "mmsc",
    "MSCMO": "mscmo",
    "MVSCB": "mvscb",
    "MultiNMF": "multinmf",
    "MultipleKernelLaplacian": "mkl",
    "Nystroem": "nystroem",
    "PIC": "pic",
    "RMSC": "rmsc",
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
    "AASC",
    "AIMC",
    "FPMVSCAG",
    "KASP",
    "LMVSC",
    "LSC",
    "LTMSC",
    "MMSC",
    "MSCMO",
    "MVSCB",
    "PIC",
    "RMSC",
    "SC",
    "SFMC",
    "SMVSC",
    "USENC",
    "USPEC",
    "CoRegularised",
    "CoTraining",
    "CommuteTime",
    "ConcatKMeans",
    "ConcatLSC",
    "DiMSC",
    "ExactGuidedCoTraining",
    "FastMICE",
    "MultiNMF",
    "MultipleKernelLaplacian",
    "Nystroem",
    "Sequential",
    "ShinnouSasaki",
    "SparseAutoencoder",
]

__getattr__ = names_of(__name__, HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)

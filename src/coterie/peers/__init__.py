"""The methods that Coterie is measured against, each as its authors published it, built from the same rooms."""

from __future__ import annotations

from coterie.peers.aasc import AASC
from coterie.peers.concat_lsc import ConcatLSC
from coterie.peers.coregularised import CoRegularised
from coterie.peers.cotraining import CoTraining
from coterie.peers.dimsc import DiMSC
from coterie.peers.exact import ExactGuidedCoTraining
from coterie.peers.kmeans import ConcatKMeans
from coterie.peers.lsc import LSC
from coterie.peers.ltmsc import LTMSC
from coterie.peers.mkl import MultipleKernelLaplacian
from coterie.peers.mmsc import MMSC
from coterie.peers.mscmo import MSCMO
from coterie.peers.multinmf import MultiNMF
from coterie.peers.mvscb import MVSCB
from coterie.peers.rmsc import RMSC
from coterie.peers.spectral import SC

__all__ = [
    "AASC",
    "LSC",
    "LTMSC",
    "MMSC",
    "MSCMO",
    "MVSCB",
    "RMSC",
    "SC",
    "CoRegularised",
    "CoTraining",
    "ConcatKMeans",
    "ConcatLSC",
    "DiMSC",
    "ExactGuidedCoTraining",
    "MultiNMF",
    "MultipleKernelLaplacian",
]

"""Fetch the five data sets of the paper from their publishers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coterie.datasets._bundle import MultiViewData, load_views, save_views
from coterie.datasets._convert import (
    MFEAT_FILES,
    NUS_FEATURES,
    convert_mfeat,
    convert_mnist,
    convert_nus,
    convert_reuters,
    convert_usps,
)
from coterie.datasets._download import DownloadError, RawFile, download
from coterie.datasets._features import cached_features
from coterie.datasets._home import find_home, writable_home

BASE_VARIABLE = "COTERIE_DATA_URL"

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and how its files are read.

    Attributes
    ----------
    files : tuple of RawFile
    convert : callable
        Converts the folder of raw files to the data set.
    unpacked : re.Pattern or None
        Matches a file of the unpacked raw data; if there is one, nothing is downloaded. None if the
        files are not packed.
    page : str or None
        The page to download from by hand, if the publisher has no stable address for programs.
    """

    files: tuple[RawFile, ...]
    convert: Callable[[Path], MultiViewData]
    unpacked: re.Pattern[str] | None = None
    page: str | None = None


UCI = "https://archive.ics.uci.edu/static/public"
# The original site refuses programs; this is the Common Visual Data Foundation's public copy.
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"

MNIST_DIGESTS = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}

SOURCES = {
    "mfeat": Source((RawFile("mfeat.zip", f"{UCI}/72/multiple+features.zip"),), convert_mfeat, MFEAT_FILES),
    "usps": Source(
        (RawFile("usps_all.mat", "https://cs.nyu.edu/~roweis/data/usps_all.mat"),),
        convert_usps,
    ),
    "mnist": Source(
        tuple(RawFile(name, f"{MNIST}/{name}", digest) for name, digest in MNIST_DIGESTS.items()),
        convert_mnist,
        re.compile(r"(^|/)train-images[-.]idx3-ubyte$"),
    ),
    "nus": Source(
        (RawFile("NUS-WIDE-OBJECT.zip", ""),),
        convert_nus,
        NUS_FEATURES,
        page="https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    ),
    "reuters": Source(
        (
            RawFile(
                "reuters.zip",
                f"{UCI}/259/reuters+rcv1+rcv2+multilingual+multiview+text+categorization+test+collection.zip",
            ),
        ),
        convert_reuters,
        re.compile(r"(^|/)Index_EN-EN$"),
    ),
}


def fetch_mfeat(
    *, data_home: PathLike | None = None, base_url: str | None = None, progress: bool = True
) -> MultiViewData:
    """Return UCI's Multiple Features: 2,000 handwritten digits in six views.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The data folder. None takes the environment variable COTERIE_DATA, else the user's cache
        folder. If it has the bundle, here ``mfeat.npz``, that is read and nothing is downloaded.
    base_url : str or None, default=None
        Where to download from instead of the publisher; None takes the environment variable
        COTERIE_DATA_URL if it is set.
    progress : bool, default=True
        Whether to show progress bars.

    Returns
    -------
    MultiViewData
        Views ``fac`` 216, ``fou`` 76, ``kar`` 64, ``mor`` 6, ``pix`` 240 and ``zer`` 47.

    Raises
    ------
    DownloadError
        If it is not in the data folder and cannot be downloaded.

    Examples
    --------
    >>> fetch_mfeat()  # doctest: +SKIP
    MultiViewData('mfeat', 2000 rows, fac: 216 uint16, fou: 76 float64, kar: 64 float64, ...)
    """
    return fetch("mfeat", data_home=data_home, base_url=base_url, progress=progress)


def fetch_usps(
    *,
    features: bool = False,
    block_norm: str = "L2-Hys",
    n_jobs: int | None = None,
    data_home: PathLike | None = None,
    base_url: str | None = None,
    progress: bool = True,
) -> MultiViewData:
    """Return the USPS digits: 11,000 images of 16 x 16.

    Parameters
    ----------
    features : bool, default=False
        Whether to add GIST and HOG as views; they are computed once and kept.
    block_norm : str, default="L2-Hys"
        How HOG normalises a block, see :func:`coterie.features.hog`.
    n_jobs : int or None, default=None
        Number of threads for the features.
    data_home, base_url, progress
        As for :func:`fetch_mfeat`.

    Returns
    -------
    MultiViewData
        View ``pixels`` 256, and with ``features`` also ``gist`` 512 and ``hog`` 81.

    Examples
    --------
    >>> fetch_usps(features=True)  # doctest: +SKIP
    MultiViewData('usps', 11000 rows, pixels: 256 uint8, gist: 512 float32, hog: 81 float32)
    """
    data = fetch("usps", data_home=data_home, base_url=base_url, progress=progress)
    return as_images(data, features, block_norm, n_jobs, data_home, progress)


def fetch_mnist(
    *,
    features: bool = False,
    block_norm: str = "L2-Hys",
    n_jobs: int | None = None,
    data_home: PathLike | None = None,
    base_url: str | None = None,
    progress: bool = True,
) -> MultiViewData:
    """Return the MNIST digits: 70,000 images of 28 x 28, those for training first.

    Its parameters are those of :func:`fetch_usps`; its views are ``pixels`` 784, and with ``features`` also ``gist``
    512 and ``hog`` 81.

    Examples
    --------
    >>> fetch_mnist(features=True)  # doctest: +SKIP
    MultiViewData('mnist', 70000 rows, pixels: 784 uint8, gist: 512 float32, hog: 81 float32)
    """
    data = fetch("mnist", data_home=data_home, base_url=base_url, progress=progress)
    return as_images(data, features, block_norm, n_jobs, data_home, progress)


def fetch_nus(
    *, data_home: PathLike | None = None, base_url: str | None = None, progress: bool = True
) -> MultiViewData:
    """Return NUS-WIDE-Object: 30,000 images of 31 concepts in five views.

    Its publisher has no stable address for programs. Get NUS-WIDE-OBJECT from the page that the error names, and put
    the zip archive, or its two folders unpacked, where the error says; or pass the ``base_url`` of a copy of
    ``NUS-WIDE-OBJECT.zip``. The parameters are those of :func:`fetch_mfeat`; the views are ``CH`` 64, ``CM55`` 225,
    ``CORR`` 144, ``EDH`` 73 and ``WT`` 128. :func:`convert_nus` says how images of several concepts are labelled.

    Examples
    --------
    >>> fetch_nus()  # doctest: +SKIP
    MultiViewData('nus', 30000 rows, CH: 64 float32, CM55: 225 float32, ...)
    """
    return fetch("nus", data_home=data_home, base_url=base_url, progress=progress)


def fetch_reuters(
    *, data_home: PathLike | None = None, base_url: str | None = None, progress: bool = True
) -> MultiViewData:
    """Return the Reuters multilingual documents: 18,758 written in English, in five languages.

    Its parameters are those of :func:`fetch_mfeat`; its views are sparse: ``EN`` 21,531, ``FR`` 24,893, ``GR`` 34,279,
    ``IT`` 15,506 and ``SP`` 11,547.

    Examples
    --------
    >>> fetch_reuters()  # doctest: +SKIP
    MultiViewData('reuters', 18758 rows, EN: 21531 float32 sparse, ...)
    """
    return fetch("reuters", data_home=data_home, base_url=base_url, progress=progress)


def fetch(name: str, *, data_home: PathLike | None, base_url: str | None, progress: bool) -> MultiViewData:
    """Return a data set from its bundle, or make the bundle from the publisher's files first."""
    home = find_home(data_home)
    if (home / f"{name}.npz").is_file():
        return load_views(home / f"{name}.npz")
    home = writable_home(home)
    bundle = home / f"{name}.npz"
    if not bundle.is_file():
        data = SOURCES[name].convert(raw_folder(name, home, base_url, progress))
        save_views(bundle, data.views, data.target)
    return load_views(bundle)


def raw_folder(name: str, home: Path, base_url: str | None, progress: bool) -> Path:
    """Return the folder with the publisher's files, after downloading missing ones."""
    source = SOURCES[name]
    folder = home / "raw" / name
    base_url = base_url or os.environ.get(BASE_VARIABLE)
    if is_unpacked(folder, source):
        return folder
    if source.page and not base_url:
        need_by_hand(source, folder)
        return folder
    for raw in source.files:
        download(raw, folder, base_url=base_url, progress=progress)
    return folder


def is_unpacked(folder: Path, source: Source) -> bool:
    """Whether the folder has unpacked raw files."""
    if source.unpacked is None:
        return False
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return any(source.unpacked.search(path) for path in paths)


def need_by_hand(source: Source, folder: Path) -> None:
    """Raise an error if files are missing that must be downloaded by hand."""
    missing = [folder / raw.name for raw in source.files if not (folder / raw.name).is_file()]
    if missing:
        raise DownloadError(
            f"These files must be downloaded by hand from {source.page}. Put them at "
            f"{', '.join(map(str, missing))}, or unpack them into {folder}."
        )


def as_images(
    data: MultiViewData,
    features: bool,
    block_norm: str,
    n_jobs: int | None,
    data_home: PathLike | None,
    progress: bool,
) -> MultiViewData:
    """Return images as the view ``pixels``, with GIST and HOG as further views if ``features`` is true."""
    pixels = next(iter(data.views.values()))
    if not features:
        return MultiViewData({"pixels": pixels}, data.target, data.name)
    views = cached_features(
        data.name, pixels, data_home=data_home, block_norm=block_norm, n_jobs=n_jobs, progress=progress
    )
    return MultiViewData(dict(views), data.target, data.name)

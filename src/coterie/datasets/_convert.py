"""Convert the published files of the paper's five data sets to views and labels."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coterie.datasets._archives import read_members
from coterie.datasets._bundle import MultiViewData
from coterie.validation import check_choice

N_DIGITS = 10

MFEAT_VIEWS = ("fac", "fou", "kar", "mor", "pix", "zer")
MFEAT_FILES = re.compile(r"(^|/)mfeat-(fac|fou|kar|mor|pix|zer)$")

MNIST_FILES = re.compile(r"(^|/)(train|t10k)-(images|labels)[-.]idx[13]-ubyte(\.gz)?$")
IDX_UNSIGNED_BYTE = 0x08  # the only type of value that MNIST uses

# Widths as the data set's authors give them. The files may have one more column at the end, which
# is not part of the feature; the paper counts it (65, 226, 145, 74, 129).
NUS_WIDTHS = {"CH": 64, "CM55": 225, "CORR": 144, "EDH": 73, "WT": 128}
NUS_FEATURES = re.compile(
    r"(^|/)(?P<split>Train|Test)_(Normalized_)?(?P<view>CH|CM55|CORR|EDH|WT)\.(txt|dat)$",
    re.IGNORECASE,
)
NUS_LABELS = re.compile(
    r"ground ?truth/(.*/)?(Labels_)?(?P<concept>[^/]+?)_?(?P<split>Train|Test)[^/]*\.txt$",
    re.IGNORECASE,
)

# Languages and the sizes of their vocabularies, as the data set's authors give them.
REUTERS_WORDS = {"EN": 21531, "FR": 24893, "GR": 34279, "IT": 15506, "SP": 11547}


def convert_mfeat(source: str | os.PathLike[str]) -> MultiViewData:
    """Read UCI's Multiple Features from its text files.

    Parameters
    ----------
    source : str or path
        UCI's archive, or a folder with ``mfeat-fac``, ``mfeat-fou`` and so on.

    Returns
    -------
    MultiViewData
        Six views. The files have no labels: the first tenth of the rows is of digit 0, the next
        of digit 1, and so on.
    """
    source = Path(source)
    files = {_base(name)[6:]: text for name, text in read_members(source, MFEAT_FILES).items()}
    _need(source, files, MFEAT_VIEWS, "mfeat-{}")
    views = {name: tight(parse_table(files[name], f"mfeat-{name}")) for name in MFEAT_VIEWS}
    n_rows = _common_length(source, {f"mfeat-{name}": len(view) for name, view in views.items()})
    if n_rows % N_DIGITS:
        raise ValueError(
            f"{source}: mfeat files must have equally many rows for each of {N_DIGITS} digits. "
            f"Got {n_rows} rows in all."
        )
    labels = np.repeat(np.arange(N_DIGITS, dtype=np.int32), n_rows // N_DIGITS)  # (n,)
    return MultiViewData(dict(views), labels, "mfeat")


def convert_usps(source: str | os.PathLike[str]) -> MultiViewData:
    """Read the USPS digits from Roweis' ``usps_all.mat``.

    Parameters
    ----------
    source : str or path
        The file, or the folder that has it.

    Returns
    -------
    MultiViewData
        One view, ``pixels``: uint8, 16 x 16. The digits come in the order 1, 2, ..., 9, 0.
    """
    from coterie.formats.matlab_files import read_variables

    path = Path(source)
    path = path / "usps_all.mat" if path.is_dir() else path
    found = read_variables(path).get("data")
    shape = () if found is None or found.kind != "numbers" else found.shape
    if found is None or len(shape) != 3 or shape[2] != N_DIGITS:
        raise ValueError(f"{path}: 'data' must be pixels x images x {N_DIGITS}. Got {shape or None} instead.")
    data = found.arrays[0]
    n_pixels, n_images, _ = data.shape
    pixels = np.ascontiguousarray(data.transpose(2, 1, 0)).reshape(-1, n_pixels)  # (n, pixels)
    digits = (np.arange(N_DIGITS, dtype=np.int32) + 1) % N_DIGITS  # (10,): 1, 2, ..., 9, 0
    return MultiViewData({"pixels": pixels}, np.repeat(digits, n_images), "usps")


def convert_mnist(source: str | os.PathLike[str]) -> MultiViewData:
    """Read the MNIST digits from their four idx files, compressed or not.

    Parameters
    ----------
    source : str or path
        A folder or archive with ``train-images-idx3-ubyte.gz`` and the three others.

    Returns
    -------
    MultiViewData
        One view, ``pixels``: uint8, 28 x 28; the training images first, then the test images.
    """
    source = Path(source)
    files = {}
    for name, content in read_members(source, MNIST_FILES).items():
        match = MNIST_FILES.search(name)
        assert match is not None  # read_members returns nothing else
        files["-".join(match.group(2, 3))] = parse_idx(content, name)
    _need(source, files, ("train-images", "train-labels", "t10k-images", "t10k-labels"), "{}-idx")
    for split in ("train", "t10k"):
        _common_length(source, {k: len(v) for k, v in files.items() if k.startswith(split)})
    images = np.concatenate([files["train-images"], files["t10k-images"]])  # (n, 28, 28)
    labels = np.concatenate([files["train-labels"], files["t10k-labels"]])  # (n,)
    pixels = images.reshape(len(images), -1)  # (n, 784)
    return MultiViewData({"pixels": pixels}, labels.astype(np.int32), "mnist")


def convert_nus(source: str | os.PathLike[str], *, several: str = "first") -> MultiViewData:
    """Read NUS-WIDE-Object from its text files.

    Parameters
    ----------
    source : str or path
        The unpacked archive, or a zip or tar of it. Its folder ``low level features`` has
        ``Train_CH.txt`` and ``Test_CH.txt``, and the same for CM55, CORR, EDH and WT; its folder
        ``ground truth`` has two files for every concept, with one 0 or 1 per image. The names of
        the full set are known too (``Train_Normalized_CH.dat``, ``Labels_bear_Train.txt``).
    several : {"first", "drop"}, default="first"
        How to label an image of several concepts. "first" takes the one that comes first in the
        alphabet, which keeps the 30,000 images of the paper; "drop" leaves the image out.
        Images of no concept are always left out.

    Returns
    -------
    MultiViewData
        Five views, float32; the training images first, then the test images.
    """
    check_choice("convert_nus", "several", several, ("first", "drop"))
    source = Path(source)
    views = read_nus_features(source)
    member = read_nus_labels(source)  # (n, concepts)
    _common_length(source, {"ground truth": len(member)} | {k: len(v) for k, v in views.items()})
    n_concepts = member.sum(axis=1)  # (n,)
    kept = n_concepts == 1 if several == "drop" else n_concepts >= 1  # (n,)
    labels = member[kept].argmax(axis=1).astype(np.int32)  # (n kept,), the first in the alphabet
    return MultiViewData({name: view[kept] for name, view in views.items()}, labels, "nus")


def read_nus_features(source: Path) -> dict[str, NDArray[np.float32]]:
    """Return the five features, training rows over test rows."""
    parts: dict[tuple[str, str], NDArray[np.float32]] = {}
    for name, text in read_members(source, NUS_FEATURES).items():
        match = NUS_FEATURES.search(name)
        assert match is not None  # read_members returns nothing else
        view = match["view"].upper()
        table = parse_table(text, name).astype(np.float32)
        if table.shape[1] not in (NUS_WIDTHS[view], NUS_WIDTHS[view] + 1):
            raise ValueError(
                f"{source}: {name} must have {NUS_WIDTHS[view]} columns, or one more. Got {table.shape[1]} instead."
            )
        parts[match["split"].title(), view] = table[:, : NUS_WIDTHS[view]]
    both = [(split, view) for view in NUS_WIDTHS for split in ("Train", "Test")]
    _need(source, {"_".join(key): 0 for key in parts}, ["_".join(key) for key in both], "{}.txt")
    return {view: np.concatenate([parts["Train", view], parts["Test", view]]) for view in NUS_WIDTHS}


def read_nus_labels(source: Path) -> NDArray[np.bool_]:
    """Return a mask of the concepts that every image shows, training rows over test rows."""
    columns: dict[str, dict[str, NDArray[np.bool_]]] = {"Train": {}, "Test": {}}
    for name, text in read_members(source, NUS_LABELS).items():
        match = NUS_LABELS.search(name)
        assert match is not None  # read_members returns nothing else
        values = parse_table(text, name)
        if values.shape[1] != 1 or not np.isin(values, (0, 1)).all():
            raise ValueError(f"{source}: {name} must have one 0 or 1 in every line.")
        columns[match["split"].title()][match["concept"].lower()] = values[:, 0] == 1
    concepts = sorted(columns["Train"])
    if not concepts or concepts != sorted(columns["Test"]):
        odd = sorted(set(columns["Train"]) ^ set(columns["Test"])) or "none at all"
        raise ValueError(
            f"{source}: 'ground truth' must have a Train and a Test file for every concept. "
            f"Without its counterpart: {odd}."
        )
    for split, members in columns.items():
        _common_length(source, {f"{concept} {split}": len(v) for concept, v in members.items()})
    splits = [np.column_stack([columns[s][c] for c in concepts]) for s in ("Train", "Test")]
    return np.concatenate(splits)  # (n, concepts)


def convert_reuters(source: str | os.PathLike[str], *, language: str = "EN") -> MultiViewData:
    """Read the Reuters multilingual documents from their index files.

    Parameters
    ----------
    source : str or path
        UCI's archive, or a folder with ``EN/Index_EN-EN``, ``EN/Index_EN-FR`` and so on.
    language : {"EN", "FR", "GR", "IT", "SP"}, default="EN"
        The language that the documents were written in; the other four views are translations. The
        paper uses English, 18,758 documents.

    Returns
    -------
    MultiViewData
        Five views, float32 CSR. Classes are numbered in the order of the alphabet.
    """
    check_choice("convert_reuters", "language", language, tuple(REUTERS_WORDS))
    source = Path(source)
    wanted = re.compile(rf"(^|/)Index_{language}-(EN|FR|GR|IT|SP)$")
    files = {_base(name)[-2:]: text for name, text in read_members(source, wanted).items()}
    _need(source, files, tuple(REUTERS_WORDS), f"Index_{language}-{{}}")
    views, classes = {}, {}
    for name, n_words in REUTERS_WORDS.items():
        views[name], classes[name] = parse_index(files[name], n_words, f"Index_{language}-{name}")
    first = classes[language]
    odd = [name for name in classes if classes[name] != first]
    if odd:
        raise ValueError(
            f"{source}: all files of a language must list the same documents. The classes in "
            f"Index_{language}-{odd[0]} differ from those in Index_{language}-{language}."
        )
    labels = np.unique(np.array(first), return_inverse=True)[1].astype(np.int32)  # (n,)
    return MultiViewData(dict(views), labels, "reuters")


def parse_index(text: bytes, n_words: int, owner: str) -> tuple[sparse.csr_array, list[str]]:
    """Read lines of a class and ``word:weight`` pairs, the words counted from 1.

    Examples
    --------
    >>> weights, classes = parse_index(b"CCAT 1:0.5 3:2\\nECAT 2:1\\n", 3, "a file")
    >>> weights.toarray().tolist(), classes
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], ['CCAT', 'ECAT'])
    """
    classes: list[str] = []
    pairs: list[NDArray[np.float64]] = []
    for number, line in enumerate(text.decode("ascii").splitlines(), start=1):
        name, _, rest = line.strip().partition(" ")
        if not name:
            continue
        try:
            pair = np.array(rest.replace(":", " ").split(), dtype=np.float64).reshape(-1, 2)
        except ValueError as error:
            raise ValueError(
                f"{owner}, line {number}, must be a class and word:weight pairs. Got {line[:60]!r}."
            ) from error
        classes.append(name)
        pairs.append(pair)  # (words of the document, 2)
    counts = np.array([len(pair) for pair in pairs], dtype=np.int64)  # (n,)
    table = np.concatenate(pairs) if pairs else np.empty((0, 2))  # (all words, 2)
    words = table[:, 0].astype(np.int32) - 1
    if len(words) and words.min() < 0:
        raise ValueError(f"{owner}: words must be counted from 1. Got the word {words.min() + 1}.")
    shape = (len(pairs), max(n_words, int(words.max(initial=-1)) + 1))
    indptr = np.concatenate([[0], counts.cumsum()]).astype(np.int32)  # (n + 1,)
    weights = sparse.csr_array((table[:, 1].astype(np.float32), words, indptr), shape=shape)
    weights.sum_duplicates()
    return weights, classes


def parse_idx(content: bytes, owner: str) -> NDArray[np.uint8]:
    """Read an idx file: two zero bytes, the type, the number of axes, their lengths, the values.

    Examples
    --------
    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "a file")
    array([7, 9], dtype=uint8)
    """
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if content[:3] != bytes([0, 0, IDX_UNSIGNED_BYTE]) or len(content) < 4:
        raise ValueError(f"{owner} is not an idx file of unsigned bytes.")
    n_axes = content[3]
    start = 4 + 4 * n_axes
    shape = tuple(int(length) for length in np.frombuffer(content[4:start], dtype=">u4"))
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if len(shape) != n_axes or values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(
            f"{owner} is cut short or too long: its header says {shape}, which is not the "
            f"{values.size} values that follow. Fetch it again."
        )
    return values.reshape(shape)


def parse_table(text: bytes, owner: str) -> NDArray[np.float64]:
    """Read lines of numbers with white space between them."""
    try:
        return np.loadtxt(io.BytesIO(text), dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{owner} must be lines of equally many numbers: {error}") from error


def tight(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return non-negative whole numbers as uint8 or uint16 if they fit, and other values unchanged.

    Examples
    --------
    >>> tight(np.array([0.0, 255.0])).dtype, tight(np.array([0.5])).dtype
    (dtype('uint8'), dtype('float64'))
    """
    for dtype in (np.uint8, np.uint16):
        fits = values.size and values.min() >= 0 and values.max() <= np.iinfo(dtype).max
        if fits and (values == np.floor(values)).all():
            return values.astype(dtype)
    return values


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _need(source: Path, found: Mapping[str, Any], needed: Any, pattern: str) -> None:
    missing = [pattern.format(name) for name in needed if name not in found]
    if missing:
        raise ValueError(f"{source} lacks {', '.join(missing)}. Fetch or unpack it again.")


def _common_length(source: Path, lengths: Mapping[str, int]) -> int:
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"{source}: files must have the same number of rows. Got {listed}.")
    return next(iter(lengths.values()))

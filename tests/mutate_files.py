"""Files of every format as a failing disk or an enemy would make them; used by the tests and by the long campaign."""

import gzip
import io
import re
import tempfile
import warnings
import zipfile
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import scipy.io
import zarr
from mutate_models import mutant, outcome
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from coterie.datasets import load_views, save_views
from coterie.formats import FormatError, open_target, open_views

MODEL = Path(__file__).parent / "data" / "model_v1"
N = 24

# A file is a dict from names to bytes: of one entry, or of all that a folder holds.


@dataclass(frozen=True)
class Kind:
    """What is fuzzed: good files of one format, and how they are read."""

    write: object  # (folder) -> None: writes good files, or folders, that the library of the format makes
    read: object  # (path) -> "read", or one of our errors

    def seeds(self):
        """The good files."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # anndata cannot write pandas 3's own text yet.
                with pd.option_context("future.infer_string", False):
                    self.write(folder)
            return [contents_of(path) for path in sorted(folder.iterdir())]


def contents_of(path):
    if path.is_file():
        return {path.name: path.read_bytes()}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path.parent).as_posix(): file.read_bytes() for file in files}


def place_file(file, folder):
    """Write a file or folder and return where it is."""
    for name, data in file.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / next(iter(file)).partition("/")[0]


# -- damage ---------------------------------------------------------------------------------------------------------

NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
LARGE = (1 << 40, 1 << 61, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
WORDS = (
    *(b"-1", b"0", b"1", b"99999999999999999999", b"2147483648", b"-2147483649", b"1e309", b"nan", b"inf", b"0x10"),
    *(
        b"",
        b'"',
        b"'",
        b"\x00",
        b"\n",
        b"\r\n",
        b"\n\n",
        b",",
        b"\t",
        b";",
        b":",
        b"=",
        b"#",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ),
    *(b"[" * 200, b"{" * 200, b"9" * 400, b"a" * 3000, b"../../x", b"null", b"true", b"[]", b"{}", b'{"a": 1}', b"<f8"),
    *(b"|O", b"<U8", b"<M8[s]", b"(1, 2)", b"-nan", b"_", b"1_000", "\N{LATIN SMALL LETTER O WITH DIAERESIS}".encode()),
)


def flip_bits(data, rng):
    for at in rng.integers(len(data), size=rng.integers(1, 9)):
        data[at] ^= 1 << int(rng.integers(8))


def set_bytes(data, rng):
    at = edge(data, rng)
    data[at : at + int(rng.integers(1, 9))] = bytes([int(rng.choice([0, 1, 127, 128, 255]))]) * int(rng.integers(1, 9))


def change_number(data, rng):
    """Put another whole number where a header may have one."""
    width = int(rng.choice([1, 2, 4, 8]))
    at = edge(data, rng) // min(width, 4) * min(width, 4)
    value = int(rng.choice(NUMBERS)) if width < 8 or rng.integers(2) else LARGE[rng.integers(len(LARGE))]
    value %= 1 << 8 * width
    data[at : at + width] = value.to_bytes(width, "little" if rng.integers(4) else "big")


def edge(data, rng):
    """A place in the file: as often near its beginning or its end, where headers are, as anywhere."""
    near = int(min(len(data), 600))
    match rng.integers(4):
        case 0:
            return int(rng.integers(near))
        case 1:
            return len(data) - 1 - int(rng.integers(near))
    return int(rng.integers(len(data)))


def change_word(data, rng):
    """Put other text in the place of a number, or anywhere."""
    found = [match.span() for match in re.finditer(rb"\d+", bytes(data[:20_000]))]
    start, end = found[rng.integers(len(found))] if found and rng.integers(3) else (edge(data, rng),) * 2
    data[start:end] = WORDS[rng.integers(len(WORDS))]


def cut_short(data, rng):
    del data[int(rng.integers(len(data))) :]


def leave_out(data, rng):
    at = edge(data, rng)
    del data[at : at + int(rng.choice([1, 4, 8, 64, 512]))]


def put_in(data, rng):
    data[edge(data, rng) : 0] = rng.bytes(int(rng.choice([1, 4, 8, 64])))


def repeat(data, rng):
    start = edge(data, rng)
    chunk = bytes(data[start : start + int(rng.choice([4, 8, 64, 512]))])
    at = edge(data, rng)
    data[at:at] = chunk


def swap(data, rng):
    size = int(rng.choice([4, 8, 32, 128]))
    a, b = edge(data, rng), edge(data, rng)
    if abs(a - b) >= size and max(a, b) + size <= len(data):
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


DAMAGE = (flip_bits, flip_bits, set_bytes, change_number, change_number, change_number, change_word, change_word)
DAMAGE += (cut_short, leave_out, put_in, repeat, swap)


def damage(data, rng):
    """Return bytes with one to three faults, and the name of the first."""
    data, first = bytearray(data), None
    for _ in range(rng.integers(1, 4)):
        fault = DAMAGE[rng.integers(len(DAMAGE))]
        first = first or fault.__name__
        if data:
            fault(data, rng)
    return bytes(data), first


def splice(data, other, rng):
    """Return the beginning of one file and the end of another."""
    at = int(rng.integers(len(data) + 1))
    back = at if rng.integers(2) else int(rng.integers(len(other) + 1))
    return data[:at] + other[back:]


def damage_inside(name, data, rng):
    """Return an archive whose content is damaged and whose checksums are right."""
    if name.endswith(".gz"):
        return gzip.compress(damage(gzip.decompress(data), rng)[0], mtime=0)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", old.infolist()[0].compress_type) as new:
        chosen = rng.integers(len(old.namelist()))
        for i, entry in enumerate(old.namelist()):
            content = old.read(entry)
            new.writestr(zipfile.ZipInfo(entry), damage(content, rng)[0] if i == chosen else content)
    return out.getvalue()


def mutate(file, others, rng):
    """Return what was done, and a damaged copy of a file."""
    file = dict(file)
    name = sorted(file)[rng.integers(len(file))]
    chance = rng.integers(10)
    if len(file) > 1 and chance < 2:  # of a folder, a part goes or becomes a copy of another
        del file[name]
        if chance:
            file[name] = file[sorted(file)[rng.integers(len(file))]]
        return ("swapped parts" if chance else "lost a part"), file
    if name.endswith((".gz", ".npz")) and chance < 5:
        file[name] = damage_inside(name, file[name], rng)
        return "damaged inside", file
    if chance == 9:
        other = others[rng.integers(len(others))]
        file[name] = splice(file[name], other[sorted(other)[rng.integers(len(other))]], rng)
        return "spliced", file
    file[name], done = damage(file[name], rng)
    return done, file


def make_case(kind, seeds, rng):
    """Return what was done, and a damaged file."""
    if kind == "model":
        done, data = mutant(seeds[0]["model.coterie"], rng)
        return done, {"model.coterie": data}
    return mutate(seeds[rng.integers(len(seeds))], seeds, rng)


# -- good files -----------------------------------------------------------------------------------------------------


def numbers(width=5, dtype=np.float64, seed=0):
    return (np.random.default_rng(seed).standard_normal((N, width)) * 10).astype(dtype)


def thin(form="csr"):
    return sparse.random_array((N, 9), density=0.3, format=form, rng=np.random.default_rng(0))


def frame(ids=False):
    found = pd.DataFrame(numbers(), columns=list("abcde"))
    found["whole"] = np.arange(N) % 4
    if ids:
        found.index = pd.Index([f"row{i}" for i in range(N)])
    return found


def write_model(folder):
    (folder / "model.coterie").write_bytes(MODEL.with_suffix(".coterie").read_bytes())


def write_bundle(folder):
    save_views(folder / "dense.npz", {"a": numbers(), "b": numbers(3)}, np.arange(N) % 3)
    save_views(folder / "thin.npz", {"a": thin(), "b": numbers(3)}, np.arange(N) % 3)


def write_npy(folder):
    np.save(folder / "a.npy", numbers())
    np.save(folder / "b.npy", np.asfortranarray(numbers(dtype=">f4")))
    np.save(folder / "c.npy", numbers(12, np.uint8).reshape(N, 3, 4))


def write_npz(folder):
    np.savez(folder / "a.npz", left=numbers(), right=numbers(3, np.float32), y=np.arange(N))
    np.savez_compressed(folder / "b.npz", numbers())
    sparse.save_npz(folder / "c.npz", thin())
    sparse.save_npz(folder / "d.npz", thin("csc"), compressed=False)


def write_text(folder):
    frame().to_csv(folder / "a.csv", index=False)
    frame(ids=True).to_csv(folder / "b.csv")
    frame().to_csv(folder / "c.tsv", index=False, sep="\t")
    np.savetxt(folder / "d.txt", numbers())


def write_gz(folder):
    frame().to_csv(folder / "a.csv.gz", index=False)
    frame(ids=True).to_csv(folder / "b.tsv.gz", sep="\t")


def write_parquet(folder):
    frame(ids=True).to_parquet(folder / "a.parquet", row_group_size=10)
    table = pa.table({"x": pa.array(numbers().tolist(), pa.list_(pa.float32(), 5)), "y": [None, *range(N - 1)]})
    pa.parquet.write_table(table, folder / "b.parquet", compression="none", use_dictionary=False)
    pa.parquet.write_table(pa.Table.from_pandas(frame()), folder / "c.parquet", compression="gzip")


def write_arrow(folder):
    frame().to_feather(folder / "a.feather")
    table = pa.Table.from_pandas(frame(ids=True))
    with pa.ipc.new_file(folder / "b.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    with pa.ipc.new_stream(folder / "c.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


def cells(*tables):
    found = np.empty((1, len(tables)), dtype=object)
    found[0, :] = tables
    return found


def write_mat4(folder):
    scipy.io.savemat(folder / "a.mat", {"X": numbers(), "gt": np.arange(N)}, format="4")
    scipy.io.savemat(folder / "b.mat", {"X": thin("csc"), "t": numbers(3, np.int16)}, format="4")


def write_mat5(folder):
    known = np.arange(N) % 3
    scipy.io.savemat(folder / "a.mat", {"fea": numbers(), "gnd": known})
    scipy.io.savemat(folder / "b.mat", {"X": cells(numbers(), thin("csc")), "gt": known}, do_compression=True)
    scipy.io.savemat(folder / "c.mat", {"X": cells(numbers(), numbers(3, np.uint8)), "gt": known})
    scipy.io.savemat(folder / "d.mat", {"data": {"X": cells(thin("csc"), numbers()), "gt": known, "name": "it"}})


def write_mat73(folder):
    for name, options in (("a", {}), ("b", {"chunks": (2, 10), "compression": "gzip"})):
        path = folder / f"{name}.mat"
        with h5py.File(path, "w", userblock_size=512) as file:
            for key, values in (("fea", numbers()), ("other", numbers(3, np.float32))):
                kind = {8: "double", 4: "single"}[values.dtype.itemsize]
                file.create_dataset(key, data=values.T, **options).attrs["MATLAB_class"] = np.bytes_(kind)
            file.create_dataset("gt", data=np.arange(N)[None] % 3.0).attrs["MATLAB_class"] = np.bytes_("double")
            if name == "a":
                refs, X = file.require_group("#refs#"), file.create_dataset("X", (2, 1), dtype=h5py.ref_dtype)
                X.attrs["MATLAB_class"] = np.bytes_("cell")
                for i, values in enumerate((numbers(), numbers(3))):
                    refs.create_dataset("ab"[i], data=values.T).attrs["MATLAB_class"] = np.bytes_("double")
                    X[i, 0] = refs["ab"[i]].ref
        with open(path, "r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_hdf5(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"], file["deep/y"], file["labels"] = numbers(), numbers(3, np.float32), np.arange(N)
    with h5py.File(folder / "b.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=numbers(), chunks=(7, 5), compression="gzip", shuffle=True, fletcher32=True)


def write_zarr(folder):
    for version in (2, 3):
        root = zarr.open_group(folder / f"v{version}.zarr", mode="w", zarr_format=version)
        root.create_array("x", data=numbers(), chunks=(10, 5))
        root.create_array("y", data=numbers(3, np.float32), chunks=(N, 3))
        root.create_array("labels", data=np.arange(N))


def annotated():
    import anndata

    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b", "c", "a"] * (N // 4))}, index=[f"c{i}" for i in range(N)])
    found = anndata.AnnData(thin(), obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(9)]))
    found.obsm["X_pca"] = numbers()
    return found


def write_h5ad(folder):
    annotated().write_h5ad(folder / "a.h5ad")


def write_anndata_zarr(folder):
    annotated().write_zarr(folder / "a.zarr")


def write_h5mu(folder):
    import mudata

    mudata.MuData({"rna": annotated(), "protein": annotated()}).write_h5mu(folder / "a.h5mu")


def write_svmlight(folder):
    dump_svmlight_file(thin("csr"), np.arange(N) % 3, str(folder / "a.svm"))
    dump_svmlight_file(numbers(), np.arange(N) % 3, str(folder / "b.libsvm"), zero_based=False, comment="made up")


def write_labels(folder):
    known = pd.DataFrame({"label": ["one", "two", "three", "four"] * (N // 4), "id": [f"r{i}" for i in range(N)]})
    known.to_csv(folder / "a.csv", index=False)
    known.to_parquet(folder / "b.parquet")
    np.save(folder / "c.npy", np.arange(N) % 3)
    np.save(folder / "d.npy", np.array(["one", "two"] * (N // 2)))
    np.savez(folder / "e.npz", y=np.arange(N) % 3)


CONFIG = """
# A run.
views = ["left=x.npy", "right=x.npy[0:3]"]
clusters = 3
landmarks = 12
neighbors = [3, 5]
max-iter = 2
jobs = 1

[fit]
seed = 1
weights = { left = 1.0, right = 0.5 }
scaling = "block"
set = ["tol=0.01"]
"""


def write_config(folder):
    (folder / "a.toml").write_text(CONFIG.lstrip())
    (folder / "b.toml").write_text('views = "x.npy"\nclusters = "2"\nseed = 3\nlandmarks = 10\n')


# -- reading --------------------------------------------------------------------------------------------------------


def read_model(path, state={}):  # noqa: B006
    if not state:
        with np.load(MODEL.with_suffix(".npz")) as stored:
            views = {name: stored[name][:7] for name in ("numbers", "words", "links")}
        state.update({name: view if name == "numbers" else sparse.csr_array(view) for name, view in views.items()})
    found = outcome(path, state)
    if found.startswith("unclear"):
        raise AssertionError(found)
    return "refused" if found == "refused" else "read"


def read_bundle(path):
    load_views(path)


def read_tables(path):
    """Read tables as a fit does: their first rows, the last ones, some in between, and what they are called."""
    with suppress(FormatError):
        open_target(path)
    for table in open_views([path]).values():
        last = len(table) - 1
        assert table[: min(50, last + 1)].shape[1] == table.shape[1]
        table[max(0, last - 5) :]
        table[[0, last // 2, last]]
        assert table.columns is None or len(table.columns) == table.shape[1]
        assert table.ids is None or len(table.ids) == len(table)


def read_target(path):
    open_target(path)
    open_target(path, id_column="id") if path.suffix in (".csv", ".parquet") else None


def read_config(path):
    """Run the command line with a configuration."""
    from typer.testing import CliRunner

    from coterie.cli import app

    np.save(path.parent / "x.npy", numbers())
    with chdir(path.parent):
        done = CliRunner().invoke(app, ["fit", "--config", str(path), "--quiet"])
    if done.exit_code not in (0, 2):
        raise AssertionError(f"exit code {done.exit_code}: {done.output}") from done.exception
    if done.exit_code:
        raise FormatError(f"{path}: {done.stderr.splitlines()[-1]}")


KINDS = {
    "model": Kind(write_model, read_model),
    "bundle": Kind(write_bundle, read_bundle),
    "npy": Kind(write_npy, read_tables),
    "npz": Kind(write_npz, read_tables),
    "text": Kind(write_text, read_tables),
    "gz": Kind(write_gz, read_tables),
    "parquet": Kind(write_parquet, read_tables),
    "arrow": Kind(write_arrow, read_tables),
    "mat4": Kind(write_mat4, read_tables),
    "mat5": Kind(write_mat5, read_tables),
    "mat73": Kind(write_mat73, read_tables),
    "hdf5": Kind(write_hdf5, read_tables),
    "zarr": Kind(write_zarr, read_tables),
    "h5ad": Kind(write_h5ad, read_tables),
    "anndata zarr": Kind(write_anndata_zarr, read_tables),
    "h5mu": Kind(write_h5mu, read_tables),
    "svmlight": Kind(write_svmlight, read_tables),
    "labels": Kind(write_labels, read_target),
    "config": Kind(write_config, read_config),
}


def try_file(kind, path):
    """Return what became of a file: read, or refused in one line that names it.

    Any other error, and a message that is not one clear line, are left to whoever called.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return KINDS[kind].read(path) or "read"
        except ValueError as error:
            said = str(error)
            clear = "\n" not in said and len(said) < 2000 and path.name in said
            ours = isinstance(error, FormatError) or (kind == "bundle" and type(error) is ValueError)
            if not clear or not ours:
                raise AssertionError(f"unclear: {type(error).__name__}: {said[:300]}") from error
            return "refused"

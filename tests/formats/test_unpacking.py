"""Files that claim more than they hold."""

import gzip
import io
import zipfile

import h5py
import numpy as np
import zarr
from written_files import refused

from coterie.formats import (
    unpacking,
)


def npy_header(shape, dtype="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_headers_that_claim_to_be_longer_than_the_file(tmp_path):
    """NumPy takes memory for all of a header before it reads it: four gigabytes for one changed byte."""
    rows = npy_header((3, 2)) + bytes(48)
    version_2 = b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\xff" + rows[10:]
    (tmp_path / "x.npy").write_bytes(version_2)
    refused(tmp_path / "x.npy", "its header claims to have 4,294,967,295 bytes")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", version_2)
    refused(tmp_path / "x.npz", "its header claims to have 4,294,967,295 bytes")


def test_headers_that_ask_for_more_than_there_is(tmp_path):
    (tmp_path / "x.npy").write_bytes(npy_header((10**12, 10**6)) + bytes(800))
    refused(tmp_path / "x.npy", "its header asks for 8,000,000,000,000,000,128 bytes")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", npy_header((10**12, 10**6)) + bytes(800))
    refused(tmp_path / "x.npz", "its header asks for")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", (10**9, 10**6), chunks=(1000, 1000), dtype="f8")
    refused(tmp_path / "x.h5", "x.h5::a claims 8,000,000,000,000,000 bytes from 0 in the file")
    zarr.create_array(tmp_path / "x.zarr", shape=(10**9, 10**6), chunks=(1000, 1000), dtype="f8")
    refused(tmp_path / "x.zarr", "x.zarr claims 8,000,000,000,000,000 bytes")


def test_zip_and_gzip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "BOMB_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "x.npz", np.zeros((1000, 1000)))
    refused(tmp_path / "x.npz", r"claims 8,000,128 bytes from 7,\d+ in the file, more than 250 times as many")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"0,0,0,0\n" * 500_000))
    refused(tmp_path / "x.csv.gz", "more than 250 times as many")

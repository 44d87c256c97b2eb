"""Arrays out of .npy and .npz files, whatever is in them."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from nkicc.ir.errors import fail
from nkicc.simulator.memory import physical_memory

__all__ = ["read"]

_LONG = 200
#: What NumPy and zipfile raise for a file that is not what it should be.
_MALFORMED = (
    OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, MemoryError,
    SyntaxError, tokenize.TokenError,
)  # fmt: skip


def read(spec: str) -> np.ndarray:
    """The array of `x.npy` or `x.npz:key`. NKC001 for a file that is damaged, holds Python objects, or announces more
    than it holds or than a quarter of this machine's memory: its header is looked at before anything is allocated."""
    file, _, key = spec.partition(".npz:")
    path = f"{file}.npz" if key else spec
    with _reading(path):
        if not key:
            with Path(path).open("rb") as stream:
                _check(path, stream, Path(path).stat().st_size)
            return np.load(path, allow_pickle=False)
        with zipfile.ZipFile(path) as archive:
            member = next((name for name in (f"{key}.npy", key) if name in archive.NameToInfo), None)
            if member is None:
                fail("NKC001", file=path, why=f"it has no array {key!r}")
            with archive.open(member) as stream:
                _check(path, stream, archive.getinfo(member).file_size)
            with archive.open(member) as stream:
                return npy.read_array(stream, allow_pickle=False)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except _MALFORMED as error:
        # NumPy quotes a header that it cannot read, however long that is.
        why = (getattr(error, "strerror", None) or str(error) or "it is damaged").partition("\n")[0]
        fail("NKC001", file=path, why=why if len(why) < _LONG else f"{why[:_LONG]} …", cause=error)


def _check(path: str, stream: IO[bytes], size: int) -> None:
    """NKC001 unless the header of a .npy file of `size` bytes announces an array that is there and that fits."""
    if stream.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
        fail("NKC001", file=path, why="it is no array in NumPy's format")
    version = stream.read(2)
    read_header = {b"\1\0": npy.read_array_header_1_0, b"\2\0": npy.read_array_header_2_0}.get(version)
    if read_header is None:
        fail("NKC001", file=path, why=f"its format version is {version.hex('.')}, permitted are 01.00 and 02.00")
    shape, _, dtype = read_header(stream)
    if dtype.hasobject or dtype.names is not None:
        fail("NKC001", file=path, why="it holds Python objects or records, not numbers")
    announced = math.prod(shape) * dtype.itemsize
    if any(extent < 0 for extent in shape) or announced > size:
        fail("NKC001", file=path, why=f"its header announces {announced} bytes, it holds at most {size}")
    if announced > physical_memory() // 4:
        fail("NKC001", file=path, why=f"its {announced} bytes are more than a quarter of this machine's memory")

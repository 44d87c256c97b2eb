"""`--input NAME=SPEC`: what each form gives on each rank."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nkicc.cli.specs import parse
from nkicc.ir.errors import NkiccError
from nkicc.ir.types import DType


def value(spec: str, rank: int = 0, *, ranks: int = 4, seed: int = 0) -> object:
    return parse([f"x={spec}"], ranks, seed)["x"](rank)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("-2.5", -2.5), ("True", True), ("None", None), ("'a b'", "a b"), ("max", "max"), ("a=b", "a=b")],
)
def test_constants(text: str, expected: object) -> None:
    found = value(text, 1)
    assert found == expected
    assert type(found) is type(expected)


def test_random_differs_per_rank_and_name_and_seed_and_repeats() -> None:
    first = value("float32[3,5]", 1)
    assert isinstance(first, np.ndarray)
    assert first.dtype == np.float32
    assert first.shape == (3, 5)
    np.testing.assert_array_equal(first, value("float32[3, 5]", 1))
    assert not np.array_equal(first, value("float32[3,5]", 2))
    assert not np.array_equal(first, value("float32[3,5]", 1, seed=1))
    assert not np.array_equal(first, parse(["y=float32[3,5]"], 4, 0)["y"](1))


def test_same_is_one_object_for_all_ranks() -> None:
    of_rank = parse(["x=float32[3,5]@same"], 4, 0)["x"]
    assert of_rank(0) is of_rank(3)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_data_type_can_be_generated(dtype: DType) -> None:
    array = value(f"{dtype.value}[64]", 2)
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtype.numpy
    assert np.isfinite(array.astype(np.float64)).all()
    assert len(np.unique(array.astype(np.float64))) > 3


def test_bfloat16_by_name() -> None:
    array = value("bfloat16[2,2]")
    assert isinstance(array, np.ndarray)
    assert array.dtype == ml_dtypes.bfloat16


def test_files(tmp_path: Path) -> None:
    arrays = [np.arange(4, dtype=np.float32) + 10 * r for r in range(3)]
    for rank, array in enumerate(arrays):
        np.save(tmp_path / f"x_{rank}.npy", array)
    np.savez(tmp_path / "all.npz", a=arrays[0], b=arrays[1])
    for rank, array in enumerate(arrays):
        np.testing.assert_array_equal(value(f"{tmp_path}/x_{{rank}}.npy", rank), array)
    np.testing.assert_array_equal(value(f"{tmp_path}/all.npz:b", 2), arrays[1])
    one = parse([f"x={tmp_path}/x_1.npy"], 3, 0)["x"]
    assert one(0) is one(2)


def test_groups() -> None:
    everyone = value("groups:all", ranks=3)
    pairs = value("groups:[[0,2],[1,3]]")
    assert [list(group) for group in everyone.groups] == [[0, 1, 2]]  # type: ignore[attr-defined]
    assert [list(group) for group in pairs.groups] == [[0, 2], [1, 3]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "option",
    ["x", "=3", "1x=3", "x=float32[0x4]", "x=float99[4]", "x=float32[4]@sam", "x=[1,2]", "x={}", "x=groups:[[0,",
     "x=groups:3", "x=groups:[[0.5]]", "x=" + "(" * 10_000],
)  # fmt: skip
def test_malformed_options_are_refused(option: str) -> None:
    with pytest.raises(NkiccError) as caught:
        parse([option], 4, 0)
    assert caught.value.code == "NKC006"


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(NkiccError, match="given twice"):
        parse(["x=1", "x=2"], 4, 0)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01")
    (tmp_path / "bad.npz").write_bytes(b"PK")
    np.savez(tmp_path / "good.npz", a=np.zeros(1))
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "array.npy", np.zeros((4, 4), np.float32))
    array, archive = (tmp_path / "array.npy").read_bytes(), (tmp_path / "good.npz").read_bytes()
    (tmp_path / "array.npz").write_bytes(array)
    (tmp_path / "archive.npy").write_bytes(archive)
    (tmp_path / "header.npy").write_bytes(array.replace(b"(4, 4)", b"(4, 4"))
    (tmp_path / "huge.npy").write_bytes(array.replace(b"(4, 4), }", b"(9999999999,9)}"))
    np.savez_compressed(tmp_path / "packed.npz", a=np.arange(10000) % 97)
    packed = bytearray((tmp_path / "packed.npz").read_bytes())
    packed[120:160] = b"U" * 40
    (tmp_path / "packed.npz").write_bytes(packed)
    for spec in (
        "no.npy", "bad.npy", "bad.npz:a", "good.npz:zzz", "pickled.npy", "no_{rank}.npy", "array.npz:a",
        "archive.npy", "header.npy", "huge.npy", "packed.npz:a",
    ):  # fmt: skip
        with pytest.raises(NkiccError) as caught:
            value(f"{tmp_path}/{spec}")
        assert caught.value.code == "NKC001"

"""Filled tensors, constants of the program, and printing."""

from pathlib import Path
from typing import Any

import ml_dtypes
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError
from nkicc.ir.listing import listing
from nkicc.ir.program import Constant, Module
from nkicc.simulator import simulate

from .helpers import data, traced


def test_filled_tensors() -> None:
    def kernel(x: nl.ndarray) -> tuple[nl.ndarray, ...]:
        made = (nl.full((4, 5), 2.5, nl.float32), nl.ones((4, 5), nl.float32), nl.zeros_like(nl.load(x)))
        empty = nl.empty_like(made[2], nl.float32, nl.shared_hbm)
        nl.store(empty, nl.load(x))
        outs = tuple(nl.ndarray((4, 5), nl.float32, nl.shared_hbm) for _ in made)
        for out, tile in zip(outs, made, strict=True):
            nl.store(out, tile)
        return (*outs, empty)

    result = nkicc.run(kernel, ranks=3, inputs=lambda rank: {"x": data(rank, (4, 5), np.float16)})
    for rank in range(3):
        for found, expected in zip(result.outputs[rank], (2.5, 1, 0, data(rank, (4, 5))), strict=True):
            assert_array_equal(found, np.broadcast_to(expected, (4, 5)))


TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("lnc", [1, 2])
def test_a_shared_constant_is_the_same_on_all_ranks_and_cores(dtype: Any, lnc: int) -> None:
    table = (TABLE * 8).astype(dtype)

    def kernel(x: nl.ndarray) -> nl.ndarray:
        constant = nl.shared_constant(table)
        assert (constant.shape, constant.dtype, constant.buffer) == (table.shape, table.dtype, nl.shared_hbm)
        assert nl.shared_constant(table.copy()).name == constant.name
        out = nl.ndarray((2, 3, 4), nl.float32, nl.shared_hbm)
        row = nl.program_id()
        nl.store(out[row], nl.add(nl.load(x), nl.load(constant, nl.float32)))
        return out

    result = nkicc.run(kernel, ranks=3, lnc=lnc, inputs=lambda rank: {"x": data(rank, (3, 4))})
    for rank in range(3):
        for core in range(lnc):
            assert_array_equal(result.outputs[rank][core], data(rank, (3, 4)) + table.astype(np.float32))
    for module in (result.penguin, result.program):
        assert Module.from_json(module.to_json()) == module
        assert "  constant tensor constant." in listing(module)
    assert len(result.program.programs[0].constants) == 1
    again = simulate(Module.from_json(result.program.to_json()), [{"x": np.stack([data(r, (3, 4)) for r in range(3)])}])
    assert_array_equal(again.outputs[0][0], np.stack(result.outputs))


def test_a_constant_of_one_core_only() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray((2, 3, 4), nl.float32, nl.shared_hbm)
        if nl.program_id() == 1:
            nl.shared_constant(TABLE + 1)
        nl.store(out[nl.program_id()], nl.load(nl.shared_constant(TABLE)))
        return out

    result = nkicc.run(kernel, ranks=1, lnc=2, inputs={"x": TABLE})
    assert_array_equal(result.outputs[0], [TABLE, TABLE])
    assert len(result.program.programs[0].constants) == 2


def test_a_constant_may_be_a_file_and_may_not_be_changed_by_a_run(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", TABLE)

    def kernel(x: nl.ndarray) -> nl.ndarray:
        constant = nl.shared_constant(str(tmp_path / "table.npy"))
        nisa.dma_copy(constant, x)
        return constant

    for _ in range(2):
        result = nkicc.run(kernel, ranks=2, inputs=lambda rank: {"x": data(rank, (3, 4))})
        assert_array_equal(result.outputs[1], data(1, (3, 4)))
        assert result.program.programs[0].constants[0].data == TABLE.tobytes()


@pytest.mark.parametrize("what", ["missing.npy", 3, np.zeros(3, np.complex64), np.zeros((0, 3), np.float32)])
def test_what_is_no_constant(what: Any) -> None:
    with pytest.raises(NkiccError) as caught:
        traced(lambda: nl.shared_constant(what))
    assert caught.value.code in ("NKC001", "NKC035", "NKC028", "NKC020")
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_a_program_with_a_constant_of_another_size_is_refused() -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        return nl.shared_constant(TABLE)

    module = nkicc.run(kernel, ranks=1, inputs={"x": TABLE}).penguin
    (program,) = module.programs
    name = program.constants[0].tensor
    for constant, code in ((Constant(name, b"1234"), "NKC039"), (Constant("nothing", b""), "NKC023")):
        from msgspec.structs import replace

        bad = replace(module, programs=(replace(program, constants=(constant,)),))
        with pytest.raises(NkiccError) as caught:
            bad.verify()
        assert caught.value.code == code


def test_the_identity_matrix() -> None:
    def kernel(x: nl.ndarray) -> tuple[nl.ndarray, nl.ndarray]:
        given = nl.ndarray((4, 4), nl.float32)
        assert nl.shared_identity_matrix(4, nl.float32, dst=given) is given
        outs = (nl.ndarray((4, 4), nl.float32, nl.shared_hbm), nl.ndarray((6, 6), nl.uint8, nl.shared_hbm))
        nl.store(outs[0], nl.add(given, nl.load(x)))
        nl.store(outs[1], nl.shared_identity_matrix(6))
        return outs

    result = nkicc.run(kernel, ranks=3, inputs=lambda rank: {"x": data(rank, (4, 4))})
    for rank in range(3):
        assert_array_equal(result.outputs[rank][0], data(rank, (4, 4)) + np.eye(4))
        assert_array_equal(result.outputs[rank][1], np.eye(6))
    with pytest.raises(NkiccError) as caught:
        traced(lambda: nl.shared_identity_matrix(129))
    assert caught.value.code == "NKC035"


# --- printing --------------------------------------------------------------------------------------------------------


def test_device_print_shows_each_rank_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(x: nl.ndarray) -> nl.ndarray:
        tile = nl.load(x)
        nl.device_print("x", tile)
        nl.device_print("ones", nl.ones((2, 2), nl.int32))
        nisa.memset(tile, 0.0)
        nl.device_print("then", tile)
        nl.device_print("still", x)
        return x

    result = nkicc.run(kernel, ranks=3, lnc=2, inputs=lambda rank: {"x": np.full((1, 2), rank, np.float32)})
    printed = capsys.readouterr().out
    assert result.report.printed[0] == "x [rank 0, core 0] float32[1, 2]\n[[0. 0.]]"
    assert "x [rank 2, core 1] float32[1, 2]\n[[2. 2.]]" in result.report.printed
    assert "then [ranks 0-2, core 1] float32[1, 2]\n[[0. 0.]]" in result.report.printed
    assert "still [rank 1, core 0] float32[1, 2]\n[[1. 1.]]" in result.report.printed
    assert "ones [ranks 0-2, core 0] int32[2, 2]\n[[1 1]\n [1 1]]" in result.report.printed
    assert sorted(printed.split("\n")) == sorted("\n".join([*result.report.printed, ""]).split("\n"))


def test_device_print_follows_the_loop_of_each_rank(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(x: nl.ndarray) -> None:
        nl.fori_loop(0, ncc.rank_id(), lambda i: nl.device_print("row", x.select(0, i)))

    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    result = nkicc.run(kernel, ranks=3, inputs={"x": x})
    lines = [text.replace("\n", " ") for text in result.report.printed]
    assert lines == [
        f"row [rank {rank}, core 0] int32[2] [{2 * i} {2 * i + 1}]" for i, rank in ((0, 1), (0, 2), (1, 2))
    ]


def test_device_print_takes_a_string_and_a_tensor() -> None:
    for args in ((1, None), ("x", 3)):
        with pytest.raises(NkiccError) as caught:
            traced(lambda args=args: nl.device_print(*args))
        assert caught.value.code == "NKC035"

"""Kernels called like functions, arrays of torch, and the environment variables of the Neuron tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nkicc
from nkicc import NkiccError


@nki.jit
def scale(x: nl.ndarray, by: float = 2.0) -> nl.ndarray:
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), by))
    return out


@nki.jit
def bump(cache: nl.ndarray, x: nl.ndarray) -> tuple[nl.ndarray, int] | list[nl.ndarray]:
    nl.store(cache[1:3], nl.load(x))
    return [scale(x), cache]


@nki.jit
def halves(x: nl.ndarray) -> nl.ndarray:
    out = nl.ndarray((nl.num_programs(), *x.shape), x.dtype, nl.shared_hbm)
    nl.store(out[nl.program_id()], nl.add(nl.load(x), nl.program_id()))
    return out


@nki.jit
def reduced(x: nl.ndarray) -> nl.ndarray:
    a, b = (nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name=name) for name in "ab")
    nisa.dma_copy(a, x)
    ncc.all_reduce([a], [b], ncc.ReplicaGroup([[0]]), nl.add)
    return b


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_call_returns_arrays_of_its_own() -> None:
    found = scale(X)
    assert_array_equal(found, X * 2)
    found[0] = 7
    assert_array_equal(scale(X, by=3), X * 3)
    assert_array_equal(X, np.arange(12).reshape(3, 4))
    assert_array_equal(nki.simulate(scale)(X, 5), X * 5)
    assert_array_equal(nki.simulate(scale.function)(x=X), X * 2)


def test_a_call_changes_the_arrays_that_the_kernel_writes_to() -> None:
    cache, x = np.zeros((4, 5), np.float32), np.ones((2, 5), np.float32)
    out = bump(cache, x)
    assert isinstance(out, list)
    expected = np.zeros((4, 5))
    expected[1:3] = 1
    assert_array_equal(cache, expected)
    assert_array_equal(out[0], 2 * x)
    assert_array_equal(out[1], expected)
    strided = np.zeros((4, 10), np.float32)
    bump(strided[:, ::2], x)
    assert_array_equal(strided[:, ::2], expected)
    assert not strided[:, 1::2].any()


def test_an_array_that_may_not_be_written_is_refused_only_if_it_is() -> None:
    frozen = np.zeros((4, 5), np.float32)
    frozen.flags.writeable = False
    assert_array_equal(scale(frozen), frozen)
    with pytest.raises(NkiccError) as caught:
        bump(frozen, np.ones((2, 5), np.float32))
    assert (caught.value.code, caught.value.operand) == ("NKC007", "cache")


def test_the_grid_is_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_array_equal(halves(X), [X])
    assert_array_equal(halves[2](X), [X, X + 1])
    assert_array_equal(nki.simulate(halves[2])(X), [X, X + 1])
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert_array_equal(halves(X), [X, X + 1])
    assert_array_equal(halves[1](X), [X])


@pytest.mark.parametrize("call", [lambda: scale(), lambda: scale(X, 1, 2), lambda: scale(X, to=3)])
def test_arguments_that_do_not_fit(call: Any) -> None:
    with pytest.raises(NkiccError) as caught:
        call()
    assert caught.value.code == "NKC007"


def test_arguments_behind_a_star() -> None:
    @nki.jit
    def starred(*args: Any) -> nl.ndarray:
        return args[0]

    with pytest.raises(NkiccError) as caught:
        starred(X)
    assert (caught.value.code, caught.value.operand) == ("NKC007", "args")


@pytest.mark.parametrize("decorator", [nki.benchmark, nki.baremetal, nki.benchmark(warmup=3), nki.baremetal()])
def test_there_is_no_device(decorator: Any) -> None:
    with pytest.raises(NkiccError) as caught:
        decorator(reduced)(X)
    assert (caught.value.code, caught.value.message) == ("NKC113", "NKI not yet supports collective compute")
    with pytest.raises(NkiccError) as caught:
        decorator(scale.function)[1](X)
    assert caught.value.code == "NKC008"
    assert_array_equal(nki.simulate(scale)(X), X * 2)


def test_options_of_jit() -> None:
    config = nki.compiler.CompileConfig(address_rotation=nki.compiler.AddressRotation.DISABLE, barrier_check=True)
    special = nki.compiler.SpecializationConfig(allow_nested_config_override=True)
    for options in (
        {"mode": "auto"}, {"debug_kernel": True}, {"compile_config": config, "specialization_config": special},
    ):  # fmt: skip
        assert_array_equal(nki.jit(**options)(scale.function)(X), X * 2)
    with pytest.raises(NkiccError) as caught:
        nki.jit(platform_target="trn1")
    assert (caught.value.code, caught.value.operand) == ("NKC008", "platform_target")
    assert scale.with_schedule([("a", "b")]) is scale


def test_annotations_say_nothing_to_a_run() -> None:
    def doubled(x: nki.typing.tensor[8, 4], y: nki.typing.mutable_tensor) -> Any:
        return scale(x)

    assert_array_equal(nki.jit(doubled)(X, X), X * 2)


# --- environment -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target"), [(None, "trn2"), ("inf2", "trn1"), ("gen2", "trn1"), ("trn3", "trn3"), ("gen4", "trn3")]
)
def test_the_target_of_the_environment(name: str | None, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name:
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
    assert nkicc.run(scale, ranks=1, inputs={"x": X}).program.target == target
    assert nkicc.run(scale, ranks=1, target="trn2", inputs={"x": X}).program.target == "trn2"


def test_precision_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[1.0, 3.0]], ml_dtypes.bfloat16)

    def kernel(x: nl.ndarray) -> nl.ndarray:
        out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 1.001))
        return out

    rounded = (x.astype(np.float32) * np.float32(1.001)).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert_array_equal(nkicc.run(kernel, ranks=1, inputs={"x": x}).outputs[0], rounded)
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    exact = x.astype(np.float32) * np.float32(1.001)
    assert_array_equal(nkicc.run(kernel, ranks=1, inputs={"x": x}).outputs[0], exact)
    result = nkicc.run(kernel, ranks=1, inputs={"x": x}, low_precision_as_float32=False)
    assert_array_equal(result.outputs[0], rounded)


@pytest.mark.parametrize("variable", ["NKI_PRECISE_FP", "NEURON_PLATFORM_TARGET_OVERRIDE", "NEURON_LOGICAL_NC_CONFIG"])
def test_a_variable_with_a_value_that_means_nothing(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "trn9")
    with pytest.raises(NkiccError) as caught:
        scale(X)
    assert caught.value.code == "NKC006"
    assert variable in caught.value.message


# --- torch -----------------------------------------------------------------------------------------------------------


class Tensor:
    """What nkicc uses of a torch tensor, over a NumPy array; bfloat16 does not convert, as in torch."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def dtype(self) -> str:
        return f"torch.{self.array.dtype.name}"

    def detach(self) -> Tensor:
        return self

    cpu = detach

    def numpy(self) -> np.ndarray:
        if self.array.dtype == ml_dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array

    def view(self, dtype: Any) -> Tensor:
        return Tensor(self.array.view(dtype))

    def copy_(self, other: Tensor) -> None:
        self.array[...] = other.array


Tensor.__module__ = "torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("torch")
    module.__dict__.update(
        from_numpy=Tensor, int16=np.dtype(np.int16), uint8=np.dtype(np.uint8), bfloat16=np.dtype(ml_dtypes.bfloat16)
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_torch_in_torch_out(torch: ModuleType, dtype: Any) -> None:
    cache, x = Tensor(np.zeros((4, 5), dtype)), Tensor(np.ones((2, 5), dtype))
    out = bump(cache, x)
    assert all(isinstance(item, Tensor) for item in out)
    expected = np.zeros((4, 5))
    expected[1:3] = 1
    assert (out[0].array.dtype, cache.array.dtype) == (dtype, dtype)
    assert_array_equal(out[0].array, 2 * np.ones((2, 5)))
    assert_array_equal(cache.array, expected)


def test_a_run_takes_torch_tensors_per_rank(torch: ModuleType) -> None:
    result = nkicc.run(scale, ranks=3, inputs=lambda rank: {"x": Tensor((X + rank).astype(ml_dtypes.bfloat16))})
    for rank in range(3):
        assert_array_equal(result.outputs[rank], 2 * (X + rank).astype(ml_dtypes.bfloat16))


def test_torch_is_never_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')\n")
    code = (
        "import nkicc, numpy as np; nkicc.activate(); import nki, nki.language as nl\n"
        "def k(x):\n    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm); nl.store(out, nl.load(x)); return out\n"
        "print(nki.simulate(k)(np.ones((2, 2), np.float32)).sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "4.0\n", done.stderr

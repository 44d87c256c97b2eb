"""Program ids, loops, constants of the machine, tokens and unknown names."""

import importlib
import inspect

import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing
import numpy as np
import pytest

import nkicc
from nkicc import NkiccError

from .helpers import traced


@pytest.mark.parametrize(("lnc", "core", "expected"), [(1, 0, (0, 1, 0)), (2, 0, (1, 2, 0)), (2, 1, (1, 2, 1))])
def test_program_ids(lnc: int, core: int, expected: tuple[int, int, int]) -> None:
    found = traced(lambda: (nl.program_ndim(), nl.num_programs(axes=0), nl.program_id(axis=0)), lnc=lnc, core=core)
    assert found == expected


def test_there_is_one_program_axis() -> None:
    with pytest.raises(NkiccError) as caught:
        traced(lambda: nl.program_id(1))
    assert caught.value.code == "NKC088"


def test_ranges_are_unrolled() -> None:
    assert list(nl.sequential_range(1, 7, 2)) == [1, 3, 5]
    assert list(nl.affine_range(3)) == list(nl.static_range(3)) == [0, 1, 2]


def test_a_device_loop_repeats_its_body_with_a_register() -> None:
    def kernel(x: nl.ndarray, count: int) -> nl.ndarray:
        out = nl.zeros(x.shape, x.dtype, nl.shared_hbm)
        nl.fori_loop(1, nisa.register_alloc(count), lambda row: nisa.dma_copy(out.select(0, row), x.select(0, row)), 2)
        return out

    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    out = nkicc.run(kernel, ranks=1, inputs={"x": x, "count": 6}).outputs[0]
    expected = np.zeros_like(x)
    expected[1:6:2] = x[1:6:2]
    np.testing.assert_array_equal(out, expected)


def test_limits_of_the_target() -> None:
    assert (nl.tile_size.pmax, nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax) == (128, 128, 512)
    assert traced(lambda: nl.tile_size.total_available_sbuf_size, target="trn1") == 180_224
    assert traced(lambda: nl.tile_size.sbuf_fmax, target="trn2") == 53_246
    with pytest.raises(NkiccError) as caught:
        _ = nl.tile_size.sbuf_fmax_bytes
    assert caught.value.code == "NKC009"


def test_dtypes_are_what_host_arrays_carry() -> None:
    assert np.zeros(2, np.float32).dtype == nl.float32
    assert {nl.float8_e4m3: 240.0}[np.dtype("float8_e4m3")] == 240.0
    assert str(nl.float8_e5m2) == "float8_e5m2"
    assert np.ones(2).astype(nl.bfloat16).dtype == nl.bfloat16
    assert nki.dtype.bfloat16 is nl.bfloat16
    assert nki.typing.tensor is nl.ndarray


def test_buffers() -> None:
    assert nl.hbm == nl.private_hbm
    assert len({nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm}) == 4


@pytest.mark.parametrize("module", ["nki", "nki.language", "nki.isa", "nki.isa.constants", "nki.collectives"])
def test_a_name_that_no_release_has_does_not_exist(module: str) -> None:
    found = importlib.import_module(module)
    with pytest.raises(NkiccError) as caught:
        _ = found.no_such_thing
    assert caught.value.code == "NKC112"
    assert f"{module}.no_such_thing" in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    # Python's own questions get the usual answer.
    assert not hasattr(found, "__wrapped__")
    assert inspect.unwrap(found) is found


def test_a_name_of_a_release_is_not_implemented_and_says_what_to_do() -> None:
    with pytest.raises(NkiccError) as caught:
        _ = nl.cos
    assert (caught.value.code, "nki.language.cos" in caught.value.message) == ("NKC008", True)
    assert "nl.sin" in caught.value.hint
    with pytest.raises(NkiccError) as caught:
        _ = nl.par_dim
    assert (caught.value.code, "partition dimension" in caught.value.hint) == ("NKC008", True)
    with pytest.raises(NkiccError) as caught:
        from nki.language import multipy  # noqa: F401
    assert (caught.value.code, caught.value.hint) == ("NKC112", "Did you mean nki.language.multiply?")
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


def test_tokens_are_compared_by_what_they_mean() -> None:
    assert nl.add != nl.subtract
    assert nl.abs != nl.abs_max
    assert hash(nl.add) == hash(nl.Op("add", nl.add.alu))


def test_nothing_works_outside_of_a_kernel() -> None:
    for call in (lambda: nl.ndarray((4, 4), nl.float32), nl.program_ndim, nisa.get_nc_version, nisa.register_alloc):
        with pytest.raises(NkiccError) as caught:
            call()
        assert caught.value.code == "NKC009"
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__

"""What stops a run that would not end, would not fit, or means different things on different ranks."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc.ir.access import Register
from nkicc.ir.bir import CCChannel, CollectiveKind, InstCollectiveCompute, InstCollectiveSend, InstGetGlobalRankId
from nkicc.ir.errors import NkiccError
from nkicc.ir.isa import InstMemset, InstRegisterMove
from nkicc.ir.program import InstWhile
from nkicc.ir.types import AluOp, Loc
from nkicc.simulator import memory, streams
from nkicc.simulator.memory import Pool

from .bir_modules import module, run, tensor

X, Y = tensor("x", (2, 2)), tensor("y", (2, 2))
LINE = Loc("k.py", 5)


def test_a_mask_that_differs_between_ranks() -> None:
    body = (
        InstGetGlobalRankId(output=Register("r")),
        InstCollectiveCompute(
            srcs=(X.full(),), dsts=(Y.full(),), cc_channel=CCChannel(CollectiveKind.AllReduce, ((0, 1),), AluOp.add),
            mask="r", loc=LINE,
        ),
    )  # fmt: skip
    with pytest.raises(NkiccError) as error:
        run(module(body, shared=(X, Y), inputs=("x",), outputs=("y",), ranks=2), x=np.ones((2, 2, 2), np.float32))
    assert (error.value.code, error.value.loc) == ("NKC087", LINE)


def test_several_ranks_cannot_send_to_one() -> None:
    body = (InstCollectiveSend(srcs=(X.full(),), peer_id=1, loc=LINE),)
    with pytest.raises(NkiccError) as error:
        run(module(body, shared=(X,), inputs=("x",), ranks=4), x=np.ones((1, 2, 2), np.float32))
    assert (error.value.code, error.value.loc) == ("NKC103", LINE)
    assert "ranks 0-3" in error.value.message


def test_a_loop_that_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_TURNS", 100)
    endless = InstWhile(condition="go", body=(InstMemset(dst=X.full(), value=1.0),), loc=LINE)
    with pytest.raises(NkiccError) as error:
        run(module((InstRegisterMove(dst=Register("go"), src=1), endless), shared=(X,), outputs=("x",)))
    assert (error.value.code, error.value.loc) == ("NKC108", LINE)


def test_a_tensor_beyond_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "physical_memory", lambda: 4096)
    assert Pool().limit < 4096
    large = tensor("x", (64, 64))
    with pytest.raises(NkiccError) as error:
        run(module((InstMemset(dst=large.full(), value=1.0),), shared=(large,), outputs=("x",)))
    assert error.value.code == "NKC106"
    assert "'x' needs 1 x 16384 bytes" in error.value.message

"""A pipeline of two stages that hand batches on with raw send and recv: the ranks run different programs.

A kernel has no word for a bare send, so this example speaks to the builders: one NeuronCodegen per stage writes that
stage's program, and `link_programs` makes one module of them. The first stage sends a batch and goes on with the next.

python examples/pipeline.py
"""

import numpy as np

from nkicc.builder import NeuronCodegen, ParallelState, link, link_programs
from nkicc.ir.access import AccessPattern, Tensor
from nkicc.ir.isa import InstActivation, InstDMACopy
from nkicc.ir.program import Module
from nkicc.ir.types import ActFn, World
from nkicc.lowering import lower
from nkicc.simulator import simulate
from nkicc.testing import assert_ranks
from nkicc.verify import verify

STAGES, BATCHES, ROWS, COLUMNS = 2, 3, 64, 32


def build(stages: int) -> Module:
    """The module of all stages, one rank each."""
    state = ParallelState(World(stages))
    return link_programs([_stage(state, rank, last=rank == stages - 1) for rank in range(stages)])


def _stage(state: ParallelState, rank: int, last: bool) -> Module:
    """One stage: for every batch receive it, compute relu(x · w), send the result. The ends read x and write y."""
    code = NeuronCodegen(state, ranks=(rank,))
    x = code.allocate("x", (BATCHES, ROWS, COLUMNS), "float32", "shared_hbm")
    w = code.allocate("w", (ROWS, 1), "float32", "shared_hbm")
    y = code.allocate("y", (BATCHES, ROWS, COLUMNS), "float32", "shared_hbm")
    weights = code.allocate("weights", (ROWS, 1), "float32", "sbuf").full()
    code.insert(InstDMACopy(dst=weights, srcs=(w.full(),)))
    for batch in range(BATCHES):
        tile = code.allocate(f"tile{batch}", (ROWS, COLUMNS), "float32", "sbuf")
        if rank == 0:
            code.insert(InstDMACopy(dst=tile.full(), srcs=(_batch(x, batch),)))
        else:
            code.recv_cc_raw([tile], None, rank - 1, [])
        code.insert(InstActivation(dst=tile.full(), data=tile.full(), func=ActFn.relu, scale=weights))
        if last:
            code.insert(InstDMACopy(dst=_batch(y, batch), srcs=(tile.full(),)))
        else:
            code.send_cc_raw([tile], None, rank + 1)
    return link([code], name=f"stage{rank}", inputs=["x", "w"], outputs=[y] if last else [])


def _batch(tensor: Tensor, batch: int) -> AccessPattern:
    """tensor[batch]"""
    return AccessPattern(tensor.name, ((COLUMNS, ROWS), (1, COLUMNS)), offset=batch * ROWS * COLUMNS)


def inputs(rank: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rank)
    return {
        "x": rng.standard_normal((BATCHES, ROWS, COLUMNS), dtype=np.float32),
        "w": rng.standard_normal((ROWS, 1), dtype=np.float32),
    }


def golden(rank: int, stages: int) -> np.ndarray | None:
    """What leaves the last stage; the others return nothing."""
    if rank != stages - 1:
        return None
    state = inputs(0)["x"]
    for stage in range(stages):
        state = np.maximum(state * inputs(stage)["w"], 0)
    return state


def run(stages: int) -> list[np.ndarray | None]:
    """What every rank returns."""
    module = lower(build(stages))
    verify(module)
    # Every program has one rank, which is the leading axis of its arguments and results.
    given = [{name: array[None] for name, array in inputs(rank).items()} for rank in range(stages)]
    return [returned[0][0] if returned else None for returned in simulate(module, given).outputs]


if __name__ == "__main__":
    assert_ranks(run(STAGES), lambda rank: golden(rank, STAGES))
    print(f"{BATCHES} batches through {STAGES} stages: the last rank holds what NumPy gives")

"""Transfers between the cores of a rank and between programs, before and after every optional pass."""

from __future__ import annotations

import numpy as np
import pytest

from nkicc.builder import NeuronCodegen, ParallelState, link, link_programs
from nkicc.ir.access import AccessPattern
from nkicc.ir.isa import InstDMACopy
from nkicc.ir.program import Module, walk
from nkicc.ir.types import DType, Memory, World
from nkicc.lowering import lower
from nkicc.simulator import simulate

from .road import FULL_PIPELINE, distinct, fold, run, same

PIPELINES = [
    None,
    "codegen,lower-local-collectives",
    "codegen,lower-local-collectives,sync-before-global-cc,renumber-core-barriers",
    "codegen,renumber-core-barriers,lower-local-collectives,lower-local-collectives,renumber-core-barriers",
    FULL_PIPELINE,
]


def swap_module(*, ranks: int, dtype: str, elements: int, partitions: int = 16, gpsimd: bool, swaps: int = 1) -> Module:
    """Each core loads its own tiles, swaps them with the other core on pipes 0, 1, …, and stores what it received."""
    codegens = [NeuronCodegen(ParallelState(World(ranks, 2)), core=core) for core in (0, 1)]
    for core, cg in enumerate(codegens):
        cg.allocate("x", (2, swaps, partitions, elements), DType.of(dtype), Memory.shared_hbm)
        y = cg.allocate("y", (2, swaps, partitions, elements), DType.of(dtype), Memory.shared_hbm)
        tiles = []
        for pipe in range(swaps):
            src = cg.allocate(f"src{pipe}", (partitions, elements), DType.of(dtype), Memory.sbuf)
            dst = cg.allocate(f"dst{pipe}", (partitions, elements), DType.of(dtype), Memory.sbuf)
            offset = (core * swaps + pipe) * src.size
            cg.insert(InstDMACopy(dst=src.full(), srcs=(AccessPattern("x", src.full().pattern, offset),)))
            tiles.append((src, dst, offset))
        for pipe, (src, dst, _) in enumerate(tiles):
            cg.sendrecv(dst, src, 1 - core, 1 - core, pipe, use_gpsimd_dma=gpsimd)
        for _, dst, offset in tiles:
            cg.insert(InstDMACopy(dst=AccessPattern("y", dst.full().pattern, offset), srcs=(dst.full(),)))
    return link(codegens, inputs=["x"], outputs=[y])


@pytest.mark.parametrize("passes", PIPELINES)
@pytest.mark.parametrize("gpsimd", [False, True])
@pytest.mark.parametrize("elements", [1, 256, 257])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_swap(passes: str | None, gpsimd: bool, elements: int, dtype: str) -> None:
    module = swap_module(ranks=3, dtype=dtype, elements=elements, gpsimd=gpsimd, swaps=2)
    data = distinct(3, (2, 2, 16, elements), dtype)
    got = run(module, [data], passes=passes)
    for rank in range(3):
        assert same(got[rank, 0], data[rank, 1])
        assert same(got[rank, 1], data[rank, 0])


@pytest.mark.parametrize(
    ("elements", "dtype", "moved_by"),
    [
        (1, "float32", "InstGPSIMDSB2SB"),
        (256, "float32", "InstGPSIMDSB2SB"),
        (257, "float32", "InstDMACopy"),
        (256, "bfloat16", "InstGPSIMDSB2SB"),
        (257, "bfloat16", "InstDMACopy"),
        (256, "uint8", "InstGPSIMDSB2SB"),
        (257, "uint8", "InstDMACopy"),
    ],
)
def test_who_moves_a_swap(elements: int, dtype: str, moved_by: str) -> None:
    """1024 effective bytes per partition, which is 256 elements whatever the width up to 32 bits."""
    module = swap_module(ranks=1, dtype=dtype, elements=elements, gpsimd=True)
    (op,) = [i for i in walk(module.programs[0].cores[0].body) if type(i).__name__ == "SendRecvOp"]
    assert op.use_gpsimd_dma, "the wish is kept on the op"
    dropped = lower(module, path="klr")
    (inst,) = [i for i in walk(dropped.programs[0].cores[0].body) if type(i).__name__ == "InstCollectiveCompute"]
    assert not inst.use_gpsimd_dma, "and dropped by the klr leaf"
    lowered = lower(module, passes="codegen,lower-local-collectives")
    body = list(walk(lowered.programs[0].cores[0].body))
    received = [i for i in body if any(ap.tensor == "dst0" for ap in i.writes())]
    assert [type(i).__name__ for i in received] == [moved_by]


@pytest.mark.parametrize("passes", PIPELINES)
@pytest.mark.parametrize("op", ["add", "max", "min"])
@pytest.mark.parametrize("count", [1, 2, 5, 16, 17, 33])
def test_receive_from_several_and_reduce(passes: str | None, op: str, count: int) -> None:
    """`count` tiles of the two cores in turn; more than 16 sources are legalised without changing a bit."""
    ranks, shape = 2, (4, 3)
    froms = [i % 2 for i in range(count)]
    codegens = [NeuronCodegen(ParallelState(World(ranks, 2)), core=core) for core in (0, 1)]
    for core, cg in enumerate(codegens):
        cg.allocate("x", (2, count, *shape), DType.bfloat16, Memory.shared_hbm)
        y = cg.allocate("y", (2, *shape), DType.bfloat16, Memory.shared_hbm)
        tiles = [cg.allocate(f"t{i}", shape, DType.bfloat16, Memory.sbuf) for i in range(count)]
        dst = cg.allocate("dst", shape, DType.bfloat16, Memory.sbuf)
        for i, tile in enumerate(tiles):
            part = AccessPattern("x", tile.full().pattern, (core * count + i) * tile.size)
            cg.insert(InstDMACopy(dst=tile.full(), srcs=(part,)))
        cg.sendrecv_cce(dst, tiles, 1 - core, froms, op, 0)
        cg.insert(InstDMACopy(dst=AccessPattern("y", dst.full().pattern, core * dst.size), srcs=(dst.full(),)))
    module = link(codegens, inputs=["x"], outputs=[y])
    data = distinct(ranks, (2, count, *shape), "bfloat16")
    got = run(module, [data], passes=passes)
    for rank in range(ranks):
        want = fold([data[rank, core, i] for i, core in enumerate(froms)], op)
        assert same(got[rank, 0], want)
        assert same(got[rank, 1], want)


@pytest.mark.parametrize("passes", [None, FULL_PIPELINE])
@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ring_all_gather(passes: str | None, lnc: int, channels: int, ranks: int) -> None:
    """n - 1 hops on every channel bring every rank's part everywhere."""
    from nkicc.builder.processing_rank import collective_permute_implicit_current_processing_rank_id as processing_rank

    order = [int(r) for r in np.random.default_rng(ranks).permutation(ranks)]
    width = 3
    codegens = [NeuronCodegen(ParallelState(World(ranks, lnc)), core=core) for core in range(lnc)]
    for core, cg in enumerate(codegens):
        cg.allocate("x", (channels, 2, width), DType.float32, Memory.shared_hbm)
        y = cg.allocate("y", (ranks, channels, 2, width), DType.float32, Memory.shared_hbm)
        buffers = [
            [cg.allocate(f"b{i}c{c}", (2, width), DType.float32, Memory.shared_hbm) for c in range(channels)]
            for i in (0, 1)
        ]
        rows = range(2) if lnc == 1 else (core,)
        part = lambda t, base, row: AccessPattern(t, ((width, 1), (1, width)), base + row * width)  # noqa: E731
        for c in range(channels):
            for row in rows:
                cg.insert(InstDMACopy(dst=part(buffers[0][c].name, 0, row), srcs=(part("x", c * 2 * width, row),)))
        for step in range(ranks):
            if step:
                for c in range(channels):
                    cg.tiled_collective_permute_implicit_cc_raw(
                        [buffers[(step - 1) % 2][c]], [buffers[step % 2][c]], [order], c, channels
                    )
            for c in range(channels):
                register = processing_rank(cg, step, c, channels, [order])
                for row in rows:
                    dst = AccessPattern(
                        "y", ((width, 1), (1, width)), (c * 2 + row) * width, scalar_offset=register.name,
                        indirect_stride=channels * 2 * width,
                    )  # fmt: skip
                    cg.insert(InstDMACopy(dst=dst, srcs=(part(buffers[step % 2][c].name, 0, row),)))
    module = link(codegens, inputs=["x"], outputs=[y])
    data = distinct(ranks, (channels, 2, width), "float32")
    got = run(module, [data], passes=passes)
    for rank in range(ranks):
        assert np.array_equal(got[rank], data)


@pytest.mark.parametrize("passes", [None, FULL_PIPELINE])
def test_a_pipeline_of_two_programs(passes: str | None) -> None:
    """Ranks 0 and 1 are a stage each; the second adds nothing and sends the activation back."""
    state = ParallelState(World(2))
    programs = []
    for rank in (0, 1):
        cg = NeuronCodegen(state, ranks=(rank,))
        x, y = (cg.allocate(n, (2, 5), DType.float32, Memory.shared_hbm) for n in "xy")
        if rank == 0:
            cg.send_cc_raw([x], None, 1)
            cg.recv_cc_raw([y], None, 1, [[0, 1]])
        else:
            cg.recv_cc_raw([y], None, 0, [[0, 1]])
            cg.send_cc_raw([y], None, 0)
        programs.append(link([cg], name=f"stage{rank}", inputs=["x"], outputs=[y]))
    module = link_programs(programs)
    data = distinct(2, (2, 5), "float32")
    lowered = lower(module) if passes is None else lower(module, passes=passes)
    execution = simulate(lowered, [{"x": data[:1]}, {"x": data[1:]}])
    assert same(execution.outputs[0][0][0], data[0])
    assert same(execution.outputs[1][0][0], data[0])


@pytest.mark.parametrize("n", [2, 4])
def test_variable_all_to_all_from_the_builder(n: int) -> None:
    slot, ranks = 4, 4
    cg = NeuronCodegen(ParallelState(World(ranks)))
    x, y = (cg.allocate(t, (n * slot,), DType.float32, Memory.shared_hbm) for t in "xy")
    given = cg.allocate("m", (3, n), DType.uint32, Memory.shared_hbm)
    work = cg.allocate("work", (3, n), DType.uint32, Memory.shared_hbm)
    cg.insert(InstDMACopy(dst=work.full(), srcs=(given.full(),)))
    groups = [list(range(g, g + n)) for g in range(0, ranks, n)]
    cg.all_to_all_v_cc_raw([x], [y], groups, work)
    module = link([cg], inputs=["x", "m"], outputs=[y, work])
    rng = np.random.default_rng(n)
    counts = rng.integers(0, slot + 1, (ranks, n))
    starts = np.tile(np.arange(n) * slot, (ranks, 1))
    m = np.stack([counts, starts, np.full_like(counts, 99)], axis=1).astype(np.uint32)
    data = distinct(ranks, (n * slot,), "float32")
    execution = simulate(lower(module), [{"x": data, "m": m}])
    got, written = execution.outputs[0]
    for rank in range(ranks):
        base, mine = rank - rank % n, rank % n
        for s in range(n):
            count = counts[base + s, mine]
            assert np.array_equal(
                got[rank, s * slot : s * slot + count], data[base + s, mine * slot : mine * slot + count]
            )
            assert np.isnan(got[rank, s * slot + count : (s + 1) * slot]).all()
        assert written[rank, 2].tolist() == counts[base : base + n, mine].tolist()

"""What the builders, the lowering and the simulator cost: `python benchmarks/collectives.py [--json]`.

Four figures from one run:

1. collective operations per second: traced and built, verified, lowered, all of it; through NeuronCodegen and through
   the nki front door;
2. each collective on 64 ranks x 1 Mi float32 per rank, as a multiple of one NumPy copy of the same 256 MiB;
3. microseconds per small instruction on 4, 64 and 1024 ranks;
4. what the checks of a run cost: each of these programs, and an all-reduce that both cores of a rank issue, as a
   multiple of the same run without them.

Times of the simulator are marginal: a program with many equal instructions minus one with a single such instruction, so
that compilation and fresh memory do not count. Fresh pages can cost as much as 30 copies or next to nothing, hence the
many instructions. The best of a few repetitions is taken throughout.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np

from nkicc import nki, session
from nkicc.builder import NeuronCodegen, ParallelState, link
from nkicc.engines import Options
from nkicc.ir.isa import InstDMACopy, InstTensorTensor
from nkicc.ir.program import Module
from nkicc.ir.types import AluOp, DType, Memory, World
from nkicc.lowering import lower
from nkicc.nki import collectives as ncc
from nkicc.nki import isa as nisa
from nkicc.nki import language as nl
from nkicc.simulator import simulate
from nkicc.verify import verify

RANKS = 64
ELEMENTS = 1 << 20
OPERATIONS = 20_000
REPEATS = 128

Build = Callable[[NeuronCodegen], object]


def best(call: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest of a few calls."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def marginal(modules: list[Module], inputs: dict[str, np.ndarray], times: int) -> float:
    """Seconds between runs of a short and a long program: the fastest run of each, taken in turns."""
    seconds: list[list[float]] = [[] for _ in modules]
    for _ in range(times):
        for module, spent in zip(modules, seconds, strict=True):
            spent.append(best(lambda m=module: simulate(m, [inputs], Options()), 1))
    short, long = map(min, seconds)
    return long - short


# --- 1. operations per second ----------------------------------------------------------------------------------------


def build_operations() -> Module:
    """A program of the common collectives, directly through the builder."""
    state = ParallelState(World(RANKS))
    code = NeuronCodegen(state)
    groups = state.gen_all_worker_group()
    given, x, y = [code.allocate(name, (RANKS, 128), DType.float32, Memory.shared_hbm) for name in ("given", "x", "y")]
    code.insert(InstDMACopy(dst=x.full(), srcs=(given.full(),)))
    part = code.allocate("part", (1, 128), DType.float32, Memory.shared_hbm)
    for _ in range(OPERATIONS // 5):
        code.all_reduce_cc_raw("add", [x], [y], groups)
        code.reduce_scatter_cc_raw("add", [x], [part], groups, 0)
        code.all_gather_cc_raw(None, [part], [y], groups, 0)
        code.all_to_all_cc_raw(None, [x], [y], groups, 0, 0)
        code.tiled_collective_permute_implicit_cc_raw(x, y, groups, 0, 1)
    return link([code], inputs=("given",))


def trace_operations() -> Module:
    """The same number of collectives through the front door."""

    @nki.jit
    def kernel(x, count):
        group = ncc.ReplicaGroup([list(range(RANKS))])
        local = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="local")
        total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="total")
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=local, src=x)
        for _ in range(count):
            ncc.all_reduce(dsts=[total], srcs=[local], replica_group=group, op=nl.add)
        nisa.dma_copy(dst=result, src=total)
        return result

    x = np.zeros((RANKS, 128), np.float32)
    return session.trace(kernel, ranks=RANKS, inputs={"x": x, "count": OPERATIONS}).module


def operations_per_second() -> dict[str, dict[str, float]]:
    """Per front end the rate of each stage and of all stages together."""
    found = {}
    for name, front in (("NeuronCodegen", build_operations), ("nki", trace_operations)):
        penguin = front()
        bir = lower(penguin)
        build, down, check = best(front), best(lambda p=penguin: lower(p)), best(lambda b=bir: verify(b))
        seconds = {"traced and built": build, "lowered": down, "verified": check, "together": build + down + check}
        found[name] = {stage: OPERATIONS / spent for stage, spent in seconds.items()}
    return found


# --- 2. collectives against a copy -----------------------------------------------------------------------------------


def collective(name: str, elements: int) -> tuple[tuple[int, ...], tuple[int, ...], Build]:
    """Shapes of x and y, and the call, of one collective over so many elements per rank."""
    groups = ParallelState(World(RANKS)).gen_all_worker_group()
    whole, part, all_ranks = (RANKS, elements // RANKS), (1, elements // RANKS), (RANKS, elements)
    ring = [(rank, (rank + 1) % RANKS) for rank in range(RANKS)]

    def of(code: NeuronCodegen) -> object:
        x, y = code.tensors["x"], code.tensors["y"]
        match name:
            case "all_reduce":
                return code.all_reduce_cc_raw("add", [x], [y], groups)
            case "all_gather":
                return code.all_gather_cc_raw(None, [x], [y], groups, 0)
            case "reduce_scatter":
                return code.reduce_scatter_cc_raw("add", [x], [y], groups, 0)
            case "all_to_all":
                return code.all_to_all_cc_raw(None, [x], [y], groups, 0, 0)
            case "permute":
                return code.tiled_collective_permute_cc_raw(x, y, ring)
            case _:
                return code.tiled_collective_permute_implicit_cc_raw(x, y, groups, 0, 1)

    source = (1, elements) if name == "all_gather" else whole
    return source, {"all_gather": all_ranks, "reduce_scatter": part}.get(name, whole), of


def copies_per_collective() -> dict[str, float]:
    """Time of each collective as a multiple of one copy of all ranks' data."""
    data = np.random.default_rng(0).standard_normal((RANKS, ELEMENTS), dtype=np.float32)
    target = data.copy()
    copy = best(lambda: np.copyto(target, data), 5)
    found = {"copy, ms": copy * 1e3}
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "permute implicit"):
        source, result, call = collective(name, ELEMENTS)
        modules = []
        for count in (1, 1 + REPEATS):
            code = NeuronCodegen(ParallelState(World(RANKS)))
            code.allocate("x", source, DType.float32, Memory.shared_hbm)
            code.allocate("y", result, DType.float32, Memory.shared_hbm)
            for _ in range(count):
                call(code)
            modules.append(lower(link([code], inputs=("x",), outputs=[code.tensors["y"]])))
        found[name] = marginal(modules, {"x": data.reshape(RANKS, *source)}, 2) / REPEATS / copy
    return found


# --- 3. small instructions -------------------------------------------------------------------------------------------


def small_instructions(ranks: int, count: int) -> list[Module]:
    """Three copies of one small input into tiles, without and with `count` additions of two of them."""
    code = NeuronCodegen(ParallelState(World(ranks)))
    tiles = [code.allocate(name, (8, 4), DType.float32, Memory.sbuf).full() for name in ("a", "b", "c")]
    x = code.allocate("x", (8, 4), DType.float32, Memory.shared_hbm)
    for tile in tiles:
        code.insert(InstDMACopy(dst=tile, srcs=(x.full(),)))
    first = link([code], inputs=("x",))
    for _ in range(count):
        code.insert(InstTensorTensor(dst=tiles[2], data1=tiles[0], data2=tiles[1], op=AluOp.add))
    return [lower(first), lower(link([code], inputs=("x",)))]


def microseconds_per_instruction() -> dict[str, float]:
    """One tensor_tensor on a small tile, equal on all ranks or different on each."""
    count, found = 2_000, {}
    for ranks in (4, 64, 1024):
        modules = small_instructions(ranks, count)
        per_rank = np.random.default_rng(0).standard_normal((ranks, 8, 4), dtype=np.float32)
        for what, data in (("uniform", per_rank[:1]), ("per rank", per_rank)):
            found[f"{ranks} ranks, {what}"] = marginal(modules, {"x": data}, 3) / count * 1e6
    return found


# --- 4. checks of a run ----------------------------------------------------------------------------------------------


def cost_of_checks() -> dict[str, float]:
    """Processor time of a run with the checks that are on by default over that of one without."""
    elements, count = ELEMENTS // 16, 16
    data = np.random.default_rng(0).standard_normal((RANKS, elements), dtype=np.float32)
    programs = {}
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "permute implicit"):
        source, result, call = collective(name, elements)
        code = NeuronCodegen(ParallelState(World(RANKS)))
        code.allocate("x", source, DType.float32, Memory.shared_hbm)
        code.allocate("y", result, DType.float32, Memory.shared_hbm)
        for _ in range(count):
            call(code)
        module = lower(link([code], inputs=("x",), outputs=[code.tensors["y"]]))
        programs[name] = module, {"x": data.reshape(RANKS, *source)}
    programs["all_reduce, LNC=2"] = lower(both_cores(elements, count)), {"given": data[:, None]}
    small = small_instructions(RANKS, 2_000)[1]
    programs["small instructions"] = small, {"x": data[:, :32].reshape(RANKS, 8, 4)}
    off = Options(races=False, uninitialised=False)
    found = {}
    for name, (module, inputs) in programs.items():
        spent: dict[Options, list[float]] = {Options(): [], off: []}
        for _ in range(7):
            for options, seconds in spent.items():
                start = time.process_time()
                simulate(module, [inputs], options)
                seconds.append(time.process_time() - start)
        found[name] = min(spent[Options()]) / min(spent[off])
    return found


def both_cores(elements: int, count: int) -> Module:
    """All-reduces that both cores issue, each on what core 0 has copied from the input."""
    state = ParallelState(World(RANKS, 2))
    codegens = [NeuronCodegen(state, core=core) for core in (0, 1)]
    for code in codegens:
        given, x, y = [code.allocate(n, (1, elements), DType.float32, Memory.shared_hbm) for n in ("given", "x", "y")]
        if code.core == 0:
            code.insert(InstDMACopy(dst=x.full(), srcs=(given.full(),)))
        code.core_barrier(x, (0, 1))
        for _ in range(count):
            code.all_reduce_cc_raw("add", [x], [y], state.gen_all_worker_group())
    return link(codegens, inputs=("given",))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    measured: dict[str, dict] = {}
    for title, measure, show in (
        ("operations/s", operations_per_second, show_rates),
        ("copies", copies_per_collective, show_copies),
        ("us per small instruction", microseconds_per_instruction, show_small),
        ("checks", cost_of_checks, show_checks),
    ):
        print(f"measuring {title} ...", file=sys.stderr, flush=True)
        measured[title] = measure()
        if not as_json:
            show(measured[title])
    if as_json:
        print(json.dumps(measured, indent=2))


def show_rates(rates: dict[str, dict[str, float]]) -> None:
    print(f"collective operations per second ({OPERATIONS} operations)")
    for front, stages in rates.items():
        print(f"  {front:<16}" + "   ".join(f"{stage} {rate:>9,.0f}" for stage, rate in stages.items()))


def show_copies(copies: dict[str, float]) -> None:
    copy = copies["copy, ms"]
    print(f"\n{RANKS} ranks x {ELEMENTS} float32, in copies of the same bytes (one copy: {copy:.1f} ms)")
    for name, ratio in copies.items():
        if name != "copy, ms":
            print(f"  {name:<18}{ratio:6.2f}")


def show_small(small: dict[str, float]) -> None:
    print("\nmicroseconds per simulated instruction on an 8 x 4 float32 tile")
    for name, micro in small.items():
        print(f"  {name:<22}{micro:6.1f}")


def show_checks(ratios: dict[str, float]) -> None:
    print("\nruns with the default checks, in runs without")
    for name, ratio in ratios.items():
        print(f"  {name:<22}{ratio:6.2f}")


if __name__ == "__main__":
    main()

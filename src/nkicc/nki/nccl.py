"""`nki.nccl`, as kernels of early releases import it: the raw builders, groups and pairs given by the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .missing import refuse_unknown
from .ops import Op
from .trace import current

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "collective_permute",
    "collective_permute_implicit",
    "recv",
    "reduce_scatter",
    "send",
]


def plain(value: Any) -> Any:
    """An op token as the ALU operation that a builder takes."""
    return (value.alu or value.name) if isinstance(value, Op) else value


def builder(name: str, method: str, module: str = "nki.nccl") -> Callable[..., None]:
    """The function of the front door that is the builder `method`, with its arguments."""

    def function(*args: Any, **kwargs: Any) -> None:
        codegen = current(f"{module}.{name}").codegen
        getattr(codegen, method)(*map(plain, args), **{key: plain(value) for key, value in kwargs.items()})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`NeuronCodegen.{method}`, with its arguments."
    return function


all_reduce = builder("all_reduce", "all_reduce_cc_raw")
all_gather = builder("all_gather", "all_gather_cc_raw")
reduce_scatter = builder("reduce_scatter", "reduce_scatter_cc_raw")
all_to_all = builder("all_to_all", "all_to_all_cc_raw")
broadcast = builder("broadcast", "broadcast_cc_raw")
collective_permute = builder("collective_permute", "collective_permute_cc_raw")
send = builder("send", "send_cc_raw")
recv = builder("recv", "recv_cc_raw")


def collective_permute_implicit(
    src: Any, dst: Any, replica_groups: Any, channel_id: int = 0, num_channels: int = 1
) -> None:
    """One step of one channel of the implicit ring."""
    current("nki.nccl.collective_permute_implicit").codegen.tiled_collective_permute_implicit_cc_raw(
        src, dst, replica_groups, channel_id, num_channels
    )


__getattr__ = refuse_unknown("nki.nccl")

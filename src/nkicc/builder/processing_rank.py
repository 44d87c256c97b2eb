"""The in-group rank resolver of the implicit ring: an intrinsic of the ncc layer, not a method of NeuronCodegen."""

from __future__ import annotations

from nkicc.ir.access import Register
from nkicc.ir.penguin import CurrentProcessingRankId
from nkicc.ir.types import DType

from .arguments import GroupsLike, plain
from .codegen import NeuronCodegen
from .source import refuse

__all__ = ["collective_permute_implicit_current_processing_rank_id"]


def collective_permute_implicit_current_processing_rank_id(
    codegen: NeuronCodegen,
    iteration_id: int,
    channel_id: int,
    num_channels: int,
    replica_groups: GroupsLike,
    name: str | None = None,
) -> Register:
    """A new uint32 register with the rank whose data is here after `iteration_id` implicit permutes on `channel_id`.
    Iteration 0 gives the rank itself. NKC064 unless both ids are integers of at least 0."""
    iteration_id, channel_id = plain(iteration_id), plain(channel_id)
    for operand, number in (("iteration_id", iteration_id), ("channel_id", channel_id)):
        if type(number) is not int or number < 0:
            refuse("NKC064", operand=operand)
    with codegen.undone_on_error():
        register = codegen.register(dtype=DType.uint32)
        codegen.insert(
            CurrentProcessingRankId(
                dst_register=register,
                iteration_id=iteration_id,
                channel_id=channel_id,
                num_channels=plain(num_channels),
                replica_groups=codegen.canonical_groups(replica_groups),
                name=name or "",
            )
        )
        return register

"""Looking into a running program."""

from __future__ import annotations

from nkicc.ir import isa
from nkicc.ir.base import show_ranks

from .common import Context, Step, rule


@rule(isa.InstDevicePrint)
def device_print(inst: isa.InstDevicePrint, ctx: Context) -> Step:
    """One text per rank that executes, or one for all of them if they hold the same."""
    view = ctx.view(inst.src, inst)

    def run() -> None:
        value, active = view.read(), ctx.lanes.active
        ranks = (ctx.ranks if active is None else ctx.ranks[active]).tolist()
        rows = value if active is None or value.shape[0] == 1 else value[active]
        owners = [ranks] if rows.shape[0] == 1 else [[rank] for rank in ranks]
        for owner, row in zip(owners, rows, strict=True):
            who = f"rank {owner[0]}" if len(owner) == 1 else f"ranks {show_ranks(owner)}"
            text = f"{inst.prefix} [{who}, core {ctx.index}] {row.dtype.name}{list(row.shape)}\n{row}"
            print(text, flush=True)
            ctx.printed.append(text)

    return run

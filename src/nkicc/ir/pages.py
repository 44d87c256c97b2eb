"""Longer explanations of codes whose one sentence is not enough, for `nkicc explain` and docs/errors.md.

Plain paragraphs; a line that is indented by four blanks is code. Each example provokes the code as it stands in a
kernel.
"""

from __future__ import annotations

__all__ = ["PAGES"]

#: Code -> what it means, an example, how to get rid of it.
PAGES: dict[str, str] = {
    "NKC011": """\
The launch grid says how many cores of a rank run the kernel; LNC says how many a rank has. If they differ, some cores
would not run, and every rendezvous with them would wait for ever. The device compiler notices late and on one rank
only.

    kernel[1](x)        # one core
    nkicc run kernel.py --lnc 2
""",
    "NKC018": """\
The run completed, and what the kernel left on some rank is not what the file's golden(rank, ranks) gives. Integers must
be equal; floats may differ by 1e-5, or twice the epsilon of their type, of golden's largest magnitude. Only outputs are
compared, so the fault may lie anywhere before.

`nkicc check` looks for the usual reasons, a race, memory that was read before it was written, a wrong ring order.
""",
    "NKC024": """\
A view reaches past the end of its tensor. Offsets count elements of the row-major tensor, strides too; the first pair
walks the partitions where the tensor is in SBUF or PSUM. The message gives the smallest and largest element that the
pattern touches.

    x.ap(pattern=[[512, 128], [1, 512]], offset=4)     # of a (128, 512) tensor: ends 4 elements too far
""",
    "NKC026": """\
Tensors in SBUF and PSUM live from their first to their last use. At the line shown, those that are alive at once take
more bytes per partition than the machine has.
""",
    "NKC031": """\
A collective works either on HBM or on SBUF. Sources and destinations of one call must be of one kind, for all channels.

    ncc.all_reduce(srcs=[tile_in_sbuf], dsts=[tensor_in_hbm], replica_group=group, op=nl.add)
""",
    "NKC036": """\
The group size must divide the extent that is split: ReduceScatter and AllToAll give each member an equal part, and
nothing is cut off in silence.

    ncc.reduce_scatter(srcs=[x], dsts=[y], replica_group=ncc.ReplicaGroup([[0, 1, 2, 3]]), op=nl.add)   # x has 10 rows
""",
    "NKC041": """\
Ids in replica groups and in (source, target) pairs are global ranks, whatever LNC is. With LNC=2 a rank is two physical
cores, so physical core c belongs to rank c // 2.

    ncc.ReplicaGroup([[0, 1, 2, 3]])       # on two ranks with two cores each: use [[0, 1]]
""",
    "NKC042": """\
The groups of one operation are disjoint: a rank takes part in exactly one of them, once. Groups may differ from
operation to operation.

    ncc.ReplicaGroup([[0, 1], [1, 2]])
""",
    "NKC043": """\
All ranks run one program, so all of them reach the operation, also those that its groups leave out. Hardware waits for
members only, and a rank outside of every group has no destination to write: this is refused instead of guessed.

    ncc.all_reduce(srcs=[x], dsts=[y], replica_group=ncc.ReplicaGroup([[0, 1]]), op=nl.add)   # on four ranks

To leave ranks out, give them a group of their own, [[0, 1], [2], [3]], or arguments that make them another program.
""",
    "NKC044": """\
A gather, a scatter or an all-to-all has a result whose shape depends on the size of the group. One program serves all
ranks, so all groups of the operation must be of one size. An all-reduce has no such limit.

    ncc.all_gather(srcs=[x], dsts=[y], replica_group=ncc.ReplicaGroup([[0, 1], [2, 3, 4]]))
""",
    "NKC046": """\
Each rank receives from at most one source in a permute; a second pair with the same target would overwrite the first.

    ncc.collective_permute(srcs=[x], dsts=[y], source_target_pairs=[(0, 2), (1, 2)])
""",
    "NKC059": """\
A collective on SBUF reads whole partitions. The view passed is narrower than its tile: rows are `width` elements of
which the next starts `pitch` elements further.

    ncc.all_reduce(srcs=[tile[:, 4:8]], dsts=[out], replica_group=group, op=nl.add)
""",
    "NKC070": """\
send_to_rank and recv_from_rank of nisa.sendrecv name the two physical cores of one rank, 0 and 1. They are not ranks.
To send to another rank, use nki.collectives.
""",
    "NKC073": """\
The instruction joins the two cores of a rank, which exist with LNC=2 only.
""",
    "NKC100": """\
Every stream (one core of the ranks that share a program) waits for another one, or for one that has finished: nobody
will ever move again. On hardware this is a hang.

The sentence is the cycle. The notes give each state once, with all ranks that are in it; then what each stream issued
last of collectives, transfers and barriers; then the first place where the sequences of two streams differ, which is
usually the mistake.

    if nl.program_id(0) == 0:
        nisa.core_barrier(y, (0, 1))       # core 1 never comes

Usual reasons: a collective or barrier under a condition that not all members share; loops with different trip counts;
two operations in different orders on two ranks; sendrecv on different pipes; two sends that face each other.
""",
    "NKC101": """\
Members of a group met, and they want different things: another operation, reduction, dtype, shape or groups. Nothing
has been moved. The message shows what differs, side by side; the notes give the other line.

Usual reasons: padding that depends on the rank; buffers issued in the order of a dict or set; operations that got
paired because one rank left one out before.
""",
    "NKC102": """\
A register or index tensor moves the access at run time, and its value on some rank moves it out of the tensor. Hardware
would read or write whatever lies there.
""",
    "NKC104": """\
With LNC=2 a collective on shared memory is meant in one of three ways: both cores issue it on the same tensors, each
core issues its own on private ones, or one core issues it while the other waits at a core barrier. The sequences of the
two cores fit none of them.
""",
    "NKC105": """\
In a variable-length all-to-all, what rank i sends to rank j is what j receives from i. With recv_counts_known both
sides say it, and they disagree for the pair shown.
""",
    "NKC107": """\
Ranks may leave a loop at different times. A collective in it is then reached by some members only, and the others would
wait for ever.
""",
    "NKC120": """\
The two cores of a rank advance as they like between two places where they meet: a core barrier, a local transfer, a
collective that both issue on the same tensors. Of two accesses to one element of memory that both see, at least one of
which writes, either may come first. Accesses that no order can change, as when both cores write the same, are none.

    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=shared, src=tile)
    nisa.dma_copy(dst=out, src=shared)             # core 1 may read before core 0 has written

    nisa.core_barrier(shared, (0, 1))              # between the two, on both cores
""",
    "NKC121": """\
Fresh memory holds anything. Copies and transfers carry the mark of elements that nobody has written along, since tiles
are often loaded with padding that nobody uses; the first instruction that computes with one is this error. Where the
tensor is filled in parts, look for the part that is missing.
""",
    "NKC122": """\
The run ended, and an output holds memory that nobody has written: it was not filled whole, or was filled by copies and
transfers of such memory. A ring whose first buffer was never loaded looks like that.
""",
    "NKC140": """\
The device's collectives read and write internal tensors only. Kernel inputs and outputs belong to the caller.

    ncc.all_reduce(srcs=[x], dsts=[y], ...)        # x is an argument, y is returned

    local = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="local")
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="total")
    nisa.dma_copy(dst=local, src=x)
    ncc.all_reduce(srcs=[local], dsts=[total], ...)
    nisa.dma_copy(dst=y, src=total)

`--allow-io` (`allow_io=True`) permits it, for programs that are not meant for a device.
""",
    "NKC147": """\
A step of an implicit ring moves data one rank on: after h hops a rank holds what the rank h places before it sent
first. `collective_permute_implicit_current_processing_rank_id(i)` names the rank i places before. Here the data
has made another number of hops than the iteration that was asked for, so it lands in another rank's place.

    for step in range(size):
        owner = ncc.collective_permute_implicit_current_processing_rank_id(step, group)   # step hops so far: right
        nisa.dma_copy(dst=result.select(0, owner), src=held)

Look for a permute too many or too few before the store, an iteration that counts from 1, or the other of two buffers.
""",
    "NKC165": """\
The kernel runs here. From release 2.33 on the device takes collectives with LNC=1 in private HBM only. With LNC=2, and
with earlier releases (`--sdk 2.32`), shared_hbm is right.
""",
    "NKC180": """\
Two legal runs gave different outputs. The order of an implicit ring is the machine's choice: the list of a group says
who takes part, not who sends to whom. The processing rank of an iteration says whose data has arrived.

    owner = ncc.collective_permute_implicit_current_processing_rank_id(iteration_id=step, replica_group=group)

Cores and ranks advance as they like between the places where they meet. The last note is the command that repeats the
run that failed. Floats may differ in their last bits without being reported: a sum around a ring follows its order.
""",
}

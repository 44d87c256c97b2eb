"""The one exception family of nkicc and the catalogue of its codes.

A code is stable. `NKC…` codes are nkicc's own; other codes (`BIR…`, `LLC…`, `XCG…`) are the device compiler's and keep
its wording. The message of a catalogue entry is a format string; its hint says what to do.
"""

from __future__ import annotations

import linecache
import os
import string
from typing import Any, Never

from msgspec import Struct

from .types import DType, Loc

__all__ = ["CATALOGUE", "USER_ERRORS", "Entry", "NkiccError", "Related", "fail", "text_of"]


#: Lists of ranks and groups may be long; this much of a sentence is shown.
_LONGEST = 1000


class Entry(Struct, frozen=True):
    """One code: the message (a format string), what to do, and where the rule comes from."""

    message: str
    hint: str = ""
    source: str = "nkicc"

    @property
    def title(self) -> str:
        """The message without the particulars of a case: `rank [rank] is listed twice`."""
        return _without_slots(self.message)

    @property
    def advice(self) -> str:
        """The hint without the particulars of a case; empty if it is nothing but those."""
        return "" if self.hint.startswith("{") and self.hint.endswith("}") else _without_slots(self.hint)


def _without_slots(text: str) -> str:
    return "".join(
        [part + ("" if slot is None else f"[{slot}]") for part, slot, _, _ in string.Formatter().parse(text)]
    )


class Related(Struct, frozen=True):
    """Another line that belongs to a fault, and why."""

    message: str
    loc: Loc | None = None

    def __str__(self) -> str:
        return self.message if self.loc is None else f"{self.message} at {self.loc}"


class NkiccError(Exception):
    """Anything that nkicc refuses. Everything a report needs is an attribute; `str()` is the report for a terminal.

    `related` are the other lines that belong to it, `notes` the same as text.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        operand: str = "",
        rank: int | None = None,
        core: int | None = None,
        loc: Loc | None = None,
        notes: tuple[str | Related, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.operand = operand
        self.rank = rank
        self.core = core
        self.loc = loc
        self.related = tuple([Related(note) if isinstance(note, str) else note for note in notes])

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple([str(related) for related in self.related])

    def where(self) -> str:
        """`operand, rank, core` as far as they are known, for people. An operand that the message names in quotes is
        left out."""
        parts = [self.operand] if self.operand and repr(self.operand) not in self.message else []
        if self.rank is not None:
            parts.append(f"rank {self.rank}")
        if self.core is not None:
            parts.append(f"core {self.core}")
        return ", ".join(parts)

    def __str__(self) -> str:
        where = self.where()
        lines = [f"{self.code}: {self.message}" + (f" [{where}]" if where else "")]
        if self.loc is not None:
            file = self.loc.file
            file = os.path.relpath(file) if os.path.isabs(file) else file
            function = f" in {self.loc.function}" if self.loc.function else ""
            lines.append(f"  at {file}:{self.loc.line}{function}")
            text = linecache.getline(self.loc.file, self.loc.line).strip()
            if text:
                lines += [f"    {text}", f"    {'^' * min(len(text), 100)}"]
        lines += [f"  note: {note}" for note in self.notes]
        if self.hint:
            lines.append(f"  help: {self.hint}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The error as plain data, for `--json`."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "operand": self.operand,
            "rank": self.rank,
            "core": self.core,
            "file": self.loc.file if self.loc else None,
            "line": self.loc.line if self.loc else None,
            "notes": list(self.notes),
        }


#: What the user's own Python may raise; only an interrupt from the keyboard is not its doing.
USER_ERRORS = (Exception, SystemExit, GeneratorExit)


def text_of(error: BaseException) -> str:
    """The text of a foreign exception, whose own `__str__` may raise."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be shown)"


def fail(
    code: str,
    *,
    operand: str = "",
    rank: int | None = None,
    core: int | None = None,
    loc: Loc | None = None,
    notes: tuple[str | Related, ...] = (),
    hint: str | None = None,
    cause: BaseException | None = None,
    **slots: object,
) -> Never:
    """Raise the NkiccError of a catalogue code; `slots`, `operand`, `rank` and `core` fill its message and hint."""
    entry = CATALOGUE[code]
    values = {"operand": operand, "rank": rank, "core": core, **slots}
    message = entry.message.format(**values).rstrip()
    error = NkiccError(
        code,
        message if len(message) <= _LONGEST else f"{message[:_LONGEST]} …",
        hint=entry.hint.format(**values).rstrip() if hint is None else hint,
        operand=operand,
        rank=rank,
        core=core,
        loc=loc,
        notes=notes,
    )
    raise error from cause


_SEED = "builder contract"
_DOWN = "device compiler"
_API = "NKI documentation, nki.collectives"
_ISA = "NKI documentation, nki.isa"

#: Every code that nkicc can raise. One entry, one rule, one test.
CATALOGUE: dict[str, Entry] = {
    # --- program and files -----------------------------------------------------------------------------------------
    "NKC001": Entry("{file} cannot be read: {why}", "Check the path and its permissions."),
    "NKC115": Entry("{file} cannot be written: {why}", "Check the folder and its permissions."),
    "NKC116": Entry("there is not enough memory: {why}", "Run fewer ranks, or smaller tensors."),
    "NKC002": Entry(
        "{file} is not a program of nkicc: {why}",
        "Write it with `nkicc build --json` or `nkicc lower --json` and pass it on unchanged.",
    ),
    "NKC003": Entry("{file} has no kernel named {kernel}; it has {available}", "Name one of those: FILE:KERNEL."),
    "NKC004": Entry("{file} holds {kernels}", "Say which one: FILE:KERNEL."),
    "NKC005": Entry("the kernel raised {kind}: {text}", "The line is the kernel's own; nothing was run."),
    "NKC006": Entry("{option}: {why}"),
    "NKC007": Entry("input {name!r}: {why}", "Inputs are given by the names of the kernel's parameters."),
    "NKC008": Entry("{what} is not implemented in nkicc", "{instead}"),
    "NKC009": Entry("{what} can only be used while a kernel is traced", "Call the kernel with nkicc.run(...)."),
    "NKC010": Entry("the kernel returned {found}", "Return one tensor, or a tuple or list of tensors, in HBM."),
    "NKC011": Entry(
        "grid has {grid} core(s), LNC is {lnc}", "Launch the kernel on grid [{lnc}] or run it with lnc={grid}."
    ),
    "NKC012": Entry("{what} is an instruction of the {level} level, the program is at the {expected} level"),
    "NKC013": Entry(
        "pass pipeline: {why}",
        "Passes are separated by commas, options stand in braces: lower-local-collectives{{max-bpp=256}}. "
        "`nkicc lower --list-passes` lists all of them.",
    ),
    "NKC014": Entry("lnc must be 1 or 2 and ranks from 1 to 1048576, got lnc={lnc}, ranks={ranks}"),
    "NKC015": Entry(
        "SPMD grid with multi neuron cores is not supported on {target}", "Use lnc=1 or target trn2.", _DOWN
    ),
    "NKC016": Entry("the importable module {name!r} is not nkicc's", "Call nkicc.activate(replace=True) to shadow it."),
    "NKC017": Entry("{what} raised {kind}: {text}", "The line is the file's own."),
    "NKC018": Entry(
        "{output} differs from golden() on rank(s) {ranks}: {why}",
        "Both are computed from the same inputs(rank, ranks); --no-golden leaves the comparison out.",
    ),
    "NKC-internal": Entry(
        "nkicc itself failed: {kind}: {text}",
        "This is a fault of nkicc, not of your program: please report it. NKICC_DEBUG=1 shows the traceback.",
    ),
    "NKC019": Entry(
        "tp={tp}, dp={dp} and pp={pp} do not multiply to {ranks} rank(s)", "Leave tp out to give it what remains."
    ),
    # --- tensors and access patterns -------------------------------------------------------------------------------
    "NKC020": Entry("tensor {name!r} has shape {shape}", "Every extent must be an integer of at least 1."),
    "NKC021": Entry(
        "tensor {name!r} spans {partitions} partitions, {memory} has 128",
        "Size of partition dimension {partitions} exceeds architecture limitation of 128: tile the first dimension.",
    ),
    "NKC022": Entry("tensor {name!r} is declared twice, as {first} and as {second}", "Give each tensor its own name."),
    "NKC023": Entry("there is no tensor named {name!r} on this core"),
    "NKC024": Entry(
        "access pattern {pattern} at offset {offset} reaches elements {low}..{high} of tensor {name!r}, "
        "which has {size}",
        "Make the view smaller or move it.",
    ),
    "NKC025": Entry("access pattern of {name!r}: {why}"),
    "NKC026": Entry(
        "{memory} needs {need} bytes per partition at this line, {target} has {have}",
        "Live tensors there: {tensors}. Use smaller tiles or let tensors die earlier.",
    ),
    "NKC027": Entry("register {name!r} is used before it is defined"),
    "NKC028": Entry("{what} is {found}, no data type of the machine", f"It has {', '.join(DType)}."),
    "NKC029": Entry("{what} name {name!r} is taken on this core", "Give it a name of its own or none."),
    # --- operands of an instruction --------------------------------------------------------------------------------
    "NKC030": Entry("{inst}: {what} must be in {expected}, {name!r} is in {found}"),
    "NKC031": Entry("{inst} mixes memories: {found}", "All operands in HBM or all in SBUF, never both.", _API),
    "NKC032": Entry("{inst}: {left} is {left_dtype}, {right} is {right_dtype}", "Convert before the instruction."),
    "NKC033": Entry(
        "{inst}: {what} has shape {found}, expected {expected} {why}",
        "Allocate it in the expected shape, or pass a view that has it.",
    ),
    "NKC034": Entry("{inst} takes {expected} {what}, got {found}"),
    "NKC035": Entry("{inst}: {what} is {found!r}; permitted: {permitted}"),
    "NKC036": Entry(
        "{inst}: {what} has extent {extent} in dimension {dim}, which does not divide by the group size {size}",
        "Pad the tensor or choose a group size that divides it.",
        _API,
    ),
    "NKC037": Entry("{inst} takes one tensor per list in SBUF, got {found}", "Issue one call per tensor.", _API),
    "NKC038": Entry(
        "dma_qos is {found!r}; permitted: None or an integer from 0 (Unassigned) to 16 (P14)",
        "Classes are those of DMAQoSClass.",
        _DOWN,
    ),
    "NKC039": Entry("{inst}: the operands hold {left} and {right} elements", "Both sides must have as many."),
    # --- replica groups and pairs ----------------------------------------------------------------------------------
    "NKC040": Entry("replica groups {groups}: {why}", "Give one non-empty list of ranks per group."),
    "NKC041": Entry(
        "rank {rank} does not exist: the world has ranks 0..{last}",
        "Ids in replica groups and pairs are global ranks. {core_hint}",
    ),
    "NKC042": Entry(
        "rank {rank} is listed twice in the replica groups {groups}", "Groups of one operation are disjoint."
    ),
    "NKC043": Entry(
        "rank(s) {ranks} reach {inst} but are in none of its groups {groups}",
        "Every rank that runs the operation must be in exactly one group.",
    ),
    "NKC044": Entry(
        "{inst} needs groups of equal size, got sizes {sizes}",
        "The shape of its result depends on the group size, and one program serves all ranks.",
    ),
    "NKC045": Entry("{inst} needs at least one (source, target) pair"),
    "NKC046": Entry("rank {rank} is the target of two pairs: {pairs}", "A target receives from one source."),
    "NKC047": Entry("rank {rank} is the source of two pairs: {pairs}", "A source sends to one target."),
    "NKC048": Entry("{pair} is not a (source, target) pair of ranks"),
    "NKC049": Entry("rank(s) {ranks} run {count} programs", "Every rank of the world runs exactly one program."),
    # --- collectives -----------------------------------------------------------------------------------------------
    "NKC050": Entry("Illegal AlltoAll without split_dimension", "Pass split_dimension (0 or 1).", _SEED),
    "NKC051": Entry("Illegal AlltoAll without concat_dimension", "Pass concat_dimension (0 or 1).", _SEED),
    "NKC052": Entry(
        "Collective PermuteReduce is not supported for now",
        "Use the implicit ring form (PermuteReduceImplicit).",
        _SEED,
    ),
    "NKC053": Entry("{op} is not supported in '{inst}'", "Permitted: add, maximum, minimum.", _SEED),
    "NKC054": Entry("{inst}: {name} is {found}; permitted: 0 (partition / outermost) and 1 (free)", "", _SEED),
    "NKC055": Entry(
        "{inst}: channel_id {channel} is out of range for {count} channel(s)",
        "Channel ids count from 0 to num_channels - 1.",
        _SEED,
    ),
    "NKC056": Entry("{inst}: num_channels is {found}; permitted: 1, 2 and 4", "", _SEED),
    "NKC057": Entry(
        "{inst} takes whole HBM tensors; {name!r} is {found}",
        "Copy the part into a tensor of its own, or use the tiled form.",
        _SEED,
    ),
    "NKC058": Entry("{inst}: broadcast_sizes is {found}, expected {expected}"),
    "NKC059": Entry(
        "{inst}: operand {name!r} is not densely packed: rows are {width} wide and {pitch} apart",
        "A collective on SBUF needs a densely packed tile; copy the slice first.",
        _DOWN,
    ),
    "NKC060": Entry("cannot use indirect indexing access with the current NKI API for {operands}", "", _SEED),
    "NKC061": Entry("{inst}: dtype {dtype} differs from the operands' {operand_dtype}", "Leave dtype out or match it."),
    "NKC062": Entry("{inst}: the tiles of one operand must be equal views of one tensor at a constant distance"),
    "NKC064": Entry(
        "Invalid iteration_id or channel_id for CCGetRankExpr!", "Both are integers and count from 0.", _DOWN
    ),
    "NKC065": Entry(
        "prepare and trigger of a variable collective: {why}",
        "Exactly one trigger, with the instruction that prepare returned, follows each prepare before the next one.",
        _API,
    ),
    # --- point to point --------------------------------------------------------------------------------------------
    "NKC070": Entry("{inst}: {what} is {found}; permitted are 0 and 1, the cores of the LNC pair, not ranks", "", _ISA),
    "NKC071": Entry("SendRecv instruction on core {core} is receiving from itself!", "Name the other core.", _DOWN),
    "NKC072": Entry("SendRecv instruction on core {core} is sending to itself!", "Name the other core.", _DOWN),
    "NKC073": Entry("{inst} needs the two cores of LNC=2, this program has LNC={lnc}", "Run with lnc=2.", _ISA),
    "NKC074": Entry("rank {rank} names itself as the peer of {inst}", "A raw send or receive needs another rank."),
    "NKC075": Entry("The {what} must be a integer", "", _DOWN),
    "NKC076": Entry("mask parameter is not supported", "The klr path has no masks.", _DOWN),
    # --- program and synchronisation -------------------------------------------------------------------------------
    "NKC080": Entry("core_barrier can only wait for HBM Tensor.", "Pass a tensor in shared_hbm.", _SEED),
    "NKC081": Entry(
        "core_barrier can only wait for full HBM Tensor, but tile of HBM Tensor is passed in.",
        "Pass the tensor itself, not a view of it.",
        _SEED,
    ),
    "NKC082": Entry("rank_id can only support scalar mask", "Use a constant or a register as the mask.", _SEED),
    "NKC083": Entry(
        "program_axes of all_reduce must be program_id! Consider use loop_reduce or reduce instead.", "", _SEED
    ),
    "NKC084": Entry("reduce_axes of all_reduce cannot be program_id!", "", _SEED),
    "NKC085": Entry("core_barrier: cores are {found}; the rank has cores {expected}", "", _ISA),
    "NKC086": Entry("world_size is {found}, the world has {expected} rank(s)"),
    "NKC087": Entry(
        "{inst}: a mask that differs between ranks is not supported here", "Use a mask equal on all ranks."
    ),
    "NKC088": Entry("program axis {axis!r} is unknown; the grid has {axes}"),
    "NKC089": Entry(
        "{inst} depends on {name!r}, which no earlier instruction of this core bears",
        "Name the instruction it waits for.",
    ),
    # --- the front door ----------------------------------------------------------------------------------------------
    "NKC110": Entry(
        "register {name!r} has a value only when the program runs",
        "Python can neither branch on it nor compute with it: use it as an offset, or load it from a table.",
        _ISA,
    ),
    "NKC111": Entry(
        "{loop} is never left: its body runs to the end of the kernel",
        "A loop of the device cannot be left by `break`, `return` or an exception; use nl.while_loop.",
        "NKI documentation, NKI Loops",
    ),
    "NKC112": Entry("there is no {what}", "{instead}"),
    "NKC113": Entry(
        "NKI not yet supports collective compute", "Run the kernel with nkicc.run(...), on any number of ranks.", _DOWN
    ),
    # --- the klr path ----------------------------------------------------------------------------------------------
    "NKC090": Entry("Unsupported operator {kind}", "The klr path has no leaf for it; use the loop path.", _DOWN),
    "NKC091": Entry("{leaf}: {condition}", "An assertion of the klr leaf; the loop path has no such limit.", _DOWN),
    # --- while running ---------------------------------------------------------------------------------------------
    "NKC100": Entry(
        "deadlock: {summary}",
        "The notes say who waits where for whom, what each of them issued last, and where their sequences part.",
    ),
    "NKC101": Entry(
        "{inst}: {left} does {left_op}, {right} does {right_op}",
        "All members of a group must issue the same operation with the same shape, type and groups.",
    ),
    "NKC102": Entry(
        "{inst}: offset {value} puts the access outside tensor {name!r} (permitted 0..{last})",
        "Check the register or index tensor that drives the offset.",
    ),
    "NKC103": Entry(
        "{inst} on ranks {ranks} names one peer, rank {peer}", "Each sending rank needs a peer of its own."
    ),
    "NKC104": Entry(
        "cores 0 and 1 issue different sequences of collectives: {detail}",
        "Both cores issue the same sequence, or one core issues a collective and the other waits at a core barrier.",
    ),
    "NKC105": Entry("{inst}: counts disagree for {pair}: {detail}", "sent[i][j] must equal received[j][i].", _API),
    "NKC106": Entry(
        "tensor {name!r} needs {need} bytes, the limit is {limit} and {taken} are taken",
        "Run fewer ranks, or smaller tensors.",
    ),
    "NKC107": Entry(
        "{inst}: rank(s) {ranks} do not reach it, the loop around it has ended for them",
        "All members of a group issue the same collectives: give the loop the same trip count on all of them.",
    ),
    "NKC108": Entry("{inst} has not ended after {count} turns", "Check the register that ends it."),
    "NKC109": Entry(
        "{inst}: index {value} occurs twice among the rows of {name!r} to add to",
        "A DMA that reads and writes needs unique indices: combine equal ones first, or add them one after another.",
        _ISA,
    ),
    "NKC114": Entry(
        "{inst} goes on with {want} partition(s) of the accumulator of engine {engine}, which holds {held}",
        "Start with reduce_cmd.reset_reduce; instructions that only may accumulate leave it undefined when idle.",
        _ISA,
    ),
    # --- found before a run --------------------------------------------------------------------------------------
    "NKC140": Entry("Collective instruction cannot read/write IO tensors: {name!r} is a kernel {role}", "{fix}", _DOWN),
    "NKC141": Entry(
        "{inst}: HBM operand {name!r} has a name of nkicc's",
        "Allocate it with name=...; the device compiler fails to place it otherwise (NCC_IBIR440).",
        _DOWN,
    ),
    "NKC142": Entry(
        "{inst} (pipe {pipe}) of {who} has no partner: {others} ends without one",
        "Both cores of a rank issue each transfer between them, on the same pipe.",
        _ISA,
    ),
    "NKC143": Entry(
        "{who} waits at a core barrier that {others} never reaches",
        "All cores of a barrier pass it equally often.",
        _ISA,
    ),
    "NKC144": Entry(
        "{inst}: expected rank(s) {expected}, arrived {arrived}: {others} ends after {less} operation(s), {who} has "
        "{more} more",
        "Every member of a group issues each of its collectives: no branch or loop around it may differ between ranks.",
    ),
    "NKC145": Entry(
        "{inst} of rank {rank} waits for a {what} it, and rank {peer} ends without one",
        "Each send needs one receive that names its rank, and each receive one send.",
    ),
    "NKC146": Entry(
        "all wait for each other: {summary}",
        "Issue the operations that wait for each other in one order on all cores and ranks.",
    ),
    "NKC147": Entry(
        "{inst} stores data that has made {hops} hop(s) to the place of the rank that is {iteration} hop(s) away",
        "After t implicit permutes the data here is that of current_processing_rank_id(iteration_id=t).",
        _API,
    ),
    "NKC149": Entry(
        "{inst} stores data that came around {groups} to the place of the processing rank of {asked}",
        "Ask with the replica group of the permutes that brought the data: another list, or another order, is another "
        "ring.",
        _API,
    ),
    "NKC148": Entry(
        "{inst} stores data of channel {channel} to the place of the processing rank of channel {asked}",
        "Each channel has a ring order of its own: ask with the channel_id of the permute that brought the data.",
        _API,
    ),
    "NKC130": Entry(
        "a sum over the ring of {size} ranks has one rank's part twice: what has made {first} hop(s), and {second}",
        "A sum over a ring of n ranks takes n-1 hops: after n hops every rank's data is back where it came from.",
    ),
    "NKC131": Entry(
        "a sum over the ring of {size} ranks lacks one part: that of the rank {missing} hop(s) away",
        "Every rank's data is added once, the rank's own (0 hops) included. No fault if just this part is to be left "
        "out.",
    ),
    "NKC132": Entry(
        "nothing reads what {inst} leaves in {name!r}",
        "What a ring has brought should be used; else this hop, or this sum, is one too many.",
    ),
    # --- rules of machines and releases ---------------------------------------------------------------------------
    "NKC133": Entry(
        "{inst} writes a part of {name!r} that is {what}, at the same time",
        "Tensors of a list, and channels of a step of a ring, move at the same time. Give each a buffer of its own: "
        "those into which a step receives are not those that it sends.",
    ),
    "NKC150": Entry(
        "{inst}: a group of {size} ranks",
        "Machines take groups of 1, 2, 4, 8, 16 or a multiple of 32 ranks.",
        "public kernel library, its test harness (Unsupported collective_ranks)",
    ),
    "NKC151": Entry(
        "{inst}: rank(s) {ranks} are alone in their group",
        "A group of one member compiles but is refused when it is loaded; leave the collective out.",
        "reports of users",
    ),
    "NKC152": Entry(
        "{inst}: the ranks of group {group} are not consecutive",
        "A strided group may be out of reach on this topology: prefer consecutive ranks, or try it on the machine.",
        "reports of users",
    ),
    "NKC153": Entry(
        "{inst}: {count} channels, the limit is {limit}",
        "There are 2 channels, and 4 if each group covers whole nodes of {node} ranks.",
        _API,
    ),
    "NKC154": Entry(
        "{inst}: a group of {size} ranks exchanges, the smallest is {least} with LNC={lnc}",
        "All-to-all needs groups of at least 4 ranks with LNC=2 and 8 with LNC=1.",
        "public kernel library, its tests of collectives",
    ),
    "NKC155": Entry(
        "{inst}: LNC={lnc}, groups of {sizes} ranks",
        "all_gather_v needs LNC=2 and groups of the 4 ranks of a chip.",
        _API,
    ),
    "NKC156": Entry(
        "{inst}: group {group} with LNC={lnc}",
        "all_to_all_v on trn3 needs LNC=2 and groups of consecutive ranks that hold all 4 of each of several chips; a "
        "rank is left out by counts of zero.",
        _API,
    ),
    "NKC157": Entry(
        "{inst}: group {group} is not made of the ranks of one index on different nodes of {node} ranks",
        "Up to 2.32 all_to_all_v spans nodes, one rank of each; from 2.33 only with has_rdispls.",
        _API,
    ),
    "NKC158": Entry(
        "{inst}: rank(s) {ends} only send or only receive",
        "Permutes must be made of closed cycles: every source is also a target.",
        "NKI documentation, collective communication",
    ),
    "NKC159": Entry(
        "this is replica group {limit} + 1 of the program",
        "A program has at most 12 different replica groups, from release 2.32 on 16.",
        "Neuron runtime release notes",
    ),
    "NKC160": Entry(
        "{inst}: rank(s) {ranks} are nobody's target",
        "Their {dst!r} keeps what it held. Add pairs if it should not.",
        _API,
    ),
    "NKC161": Entry(
        "{inst} reduces {dtype}",
        "The collective engine computes in float32, exact up to 2^24, and the graph compiler refuses such integers "
        "({original}).",
        "Neuron error codes",
    ),
    "NKC162": Entry(
        "{inst}: collective_dim 1 on {memory} operands",
        "Dimension 1 is for all_gather on SBUF; all else takes 0.",
        _API,
    ),
    "NKC163": Entry(
        "{inst}: {name!r} is in private_hbm",
        "Before release 2.33 operands in HBM are tensors in shared_hbm.",
        "public kernel library, its tests of collectives",
    ),
    "NKC164": Entry("{inst}: {operand} are in {regions}", "All of a list are in one of the two.", _API),
    "NKC165": Entry(
        "{inst}: {name!r} is in shared_hbm with LNC=1",
        "From release 2.33 on sources are in private_hbm, and destinations too unless NKI_LNC1_SHARED_HBM=1 is set.",
        _API,
    ),
    "NKC166": Entry(
        "{inst} on SBUF operands with LNC={lnc}",
        "SBUF operands need release 2.24, with LNC=2 release 2.25.",
        "Neuron runtime release notes",
    ),
    # --- found by comparing runs -------------------------------------------------------------------------------------
    "NKC180": Entry(
        "output {operand!r} depends on the {what}: it differs on rank(s) {where}, {why}",
        "A group's list is no promise of who sends to whom: ask for the processing rank. Cores and ranks advance as "
        "they like: order them with barriers and collectives. Memory that nobody has written, and what a collective "
        "leaves of its destination, hold anything.",
    ),
    # --- found while running -----------------------------------------------------------------------------------------
    "NKC120": Entry(
        "{inst} {does} elements of {name!r} that core {other} {did}, and nothing orders the two",
        "Put a nisa.core_barrier between them on both cores.",
    ),
    "NKC121": Entry(
        "{inst} reads {count} element(s) of {name!r} that nobody has written, the first at {index}, on rank(s) {ranks}",
        "Write all of the tile before it is used (nisa.memset, or a copy that fills it), or use a smaller view.",
    ),
    "NKC122": Entry(
        "{count} element(s) of the result {name!r} are memory that nobody has written, the first at {index}, on "
        "rank(s) {ranks_text}",
        "Fill the whole result, and whatever is copied into it, or return a view of what is filled.",
    ),
    "NKC123": Entry(
        "{inst}: metadata beside column 0 are not zero on rank(s) {where}",
        "all_gather_v sends one chunk to all members: its count and offset stand in column 0, the rest is ignored.",
        _API,
    ),
    "NKC124": Entry(
        "{inst} makes {value} of finite data: {name!r} at {index}, on rank(s) {where}",
        "Bound what goes in (subtract the row maximum before an exponential, add an epsilon to a divisor), or "
        "compute in a wider type.",
    ),
    "NKC125": Entry(
        "{inst}: both cores of rank(s) {ranks} issue it for their rank, each with a {name!r} of its own, and the two "
        "differ",
        "It is one operation, and which data counts would depend on who comes first. Put the source into shared_hbm, "
        "give each core a destination of its own, or let one core issue it.",
    ),
    # --- the device compiler's own -----------------------------------------------------------------------------------
    "BIR027": Entry("Output dtype must match input", "", _DOWN),
    "BIR026": Entry("Number of input arguments must be the same as recvFomRank size", "", _DOWN),
    "BIR066": Entry("{kind} CollectiveCompute does not support {op} in instruction {name}", "", _DOWN),
    "BIR075": Entry(
        "Collective compute instructions are not allowed in DoWhile loops",
        "Use a loop whose trip count is known: nl.fori_loop or nl.sequential_range.",
        _DOWN,
    ),
    "BIR113": Entry("SB CollectiveKind {kind} requires non-empty replica groups", "", _DOWN),
    "BIR428": Entry("SB CC is only supported on trn2+.", "Use HBM operands or target trn2.", _DOWN),
    "BIR436": Entry(
        "Fine grained InstCollectiveCompute cannot enter as coalesced, this is an internal feature, "
        "violation: {name}, {kind}.",
        "",
        _DOWN,
    ),
    "BIR457": Entry(
        "GPSIMDSB2SB tensors must have partition dimension that's a multiple of 16",
        "The rule was lifted in release 2.30 (NKI 0.4.0).",
        _DOWN,
    ),
    "BIR530": Entry(
        "{opcode} is not supported on arch {arch}, must be {min_arch} or greater", "Use target trn2.", _DOWN
    ),
    "BIR535": Entry(
        "Compilation with --target=trn1 generated local collective compute instruction. Local collectives supported "
        "only for trn2+. Please re-compile by setting compilation target to trn2+",
        "",
        _DOWN,
    ),
    "BIR606": Entry("Engine {engine} is invalid for {opcode} instruction on arch {arch}. Must be {valid}.", "", _DOWN),
    "LLC001": Entry(
        "Expected local collective compute operation to have a single replication group, but found {size} groups",
        "",
        _DOWN,
    ),
    "LLC005": Entry(
        "Local CollectiveCompute input ({input_dim}) and output ({output_dim}) dimensions differ.", "", _DOWN
    ),
    "LLC008": Entry("AllReduce local collective operation currently only supports addition", "", _DOWN),
    "LLC015": Entry(
        "Unable to find suitable split dimension for input tensor {input} AP and output tensor {output} AP",
        "A free dimension must divide by the number of cores.",
        _DOWN,
    ),
    "LLC019": Entry(
        "Expected one input and one output for local collective, but got {arg_count} arguments and {out_count} "
        "outputs.",
        "",
        _DOWN,
    ),
    "LLC020": Entry(
        "Expected local collective to share input dimension {expected_arg_dims}, but core {core_id} has input "
        "dimension {actual_arg_dims}.",
        "",
        _DOWN,
    ),
    "LLC022": Entry(
        "Expected local collective to have matching kinds {expected_kind}, but core {core_id} has kind {actual_kind}.",
        "",
        _DOWN,
    ),
    "LLC030": Entry(
        "Shared remote memory locations ({remote}) are not currently supported in local collective operations.",
        "Copy to SBUF first.",
        _DOWN,
    ),
    "LLC032": Entry(
        "Expected local collective to share output dimension {expected_out_dims}, but core {core_id} has output "
        "dimension {actual_out_dims}.",
        "",
        _DOWN,
    ),
    "LLC035": Entry(
        "Expected shared memory definition for {name} to have a synchronization primitive before it.",
        "The cores issue their local transfers in different orders and {name} changes in between: issue them in one "
        "order, or back to back with buffers of their own.",
        _DOWN,
    ),
    "LLC048": Entry(
        "Expected matching SendRecv to {expected} initial core barrier, but found core {ncId} {actual} initial core "
        "barrier",
        "",
        _DOWN,
    ),
    "LLC049": Entry(
        "Expected matching SendRecvCCE to {expected} initial core barrier, but found core {ncId} {actual} initial core "
        "barrier",
        "",
        _DOWN,
    ),
    "LLC050": Entry(
        "Expected {expected} CoreBarrier insturctions in subgraph {sgId}, but found {actual} on core {ncId}",
        "Between two local transfers, both cores pass the same barriers and loops.",
        _DOWN,
    ),
    "LLC052": Entry(
        "Expected {expected_ccop_count} local collective operations, but found {actual_ccop_count} in core {core_id} "
        "subgraph(s).",
        "Both cores of a rank issue each local transfer.",
        _DOWN,
    ),
    "LLC057": Entry(
        "LNC-predicated global collective involving SB is not supported",
        "core {core} issues {inst}, core {other} does not: issue it on both, each on a tile of its own, or use HBM.",
        _DOWN,
    ),
    "LLC060": Entry("Can't map sendrecv to GPSIMDSB2SB because peer IDs aren't a swap", "", _DOWN),
    "LLC064": Entry(
        "Could not find corresponding CollectiveCompute instruction on core 0 to this CollectiveCompute instruction on "
        "core {ncid}",
        "Transfers pair by pipe_id.",
        _DOWN,
    ),
    **{
        code: Entry(f"Expected all consecutive CC compute ops to be of the same {what}", "", _DOWN)
        for code, what in (
            ("CCO001", "Op, but got {first} != {curr}"),
            ("CCO002", "Engine, but got {first} != {curr}"),
            ("CCO003", "Kind, but got {first} != {curr}"),
            ("CCO004", "ReplicaGroups"),
            ("CCO006", "CanReadUninit"),
            ("CCO007", "IsLocal"),
            ("CCO008", "SrcTargetPairs"),
        )
    },
    "CCO009": Entry(
        "Expected all consecutive CC compute ops to be of channel id starting at 0 and increasing by 1, but got first: "
        "{first}, curr: {curr}",
        "",
        _DOWN,
    ),
    "CCO010": Entry("Expected CC op to not have both ReplicaGroups and SrcTargetPairs", "", _DOWN),
    "ISI001": Entry(
        "All Collective Compute Instructions using the same src-target pairs must have the same stream ID", "", _DOWN
    ),
    "ISI002": Entry(
        "All Collective Compute Instructions using the same replica groups must have the same stream ID", "", _DOWN
    ),
    "ISI003": Entry(
        "All GetCurProcessingRankID Instructions using the same replica groups must have the same stream ID", "", _DOWN
    ),
    "XCG876": Entry(
        "CollectiveKind {kind} requires 1 arguments per output, got num_arguments={num_arguments}, "
        "num_outputs={num_outputs}",
        "",
        _DOWN,
    ),
    "XCG877": Entry(
        "CollectiveKind {kind} requires 2 arguments per output, got num_arguments={num_arguments}, "
        "num_outputs={num_outputs}",
        "",
        _DOWN,
    ),
    "XCG879": Entry("CollectiveKind {kind} does not support arguments outside of DRAM", "Copy to HBM first.", _DOWN),
    "XCG880": Entry("CollectiveKind {kind} does not support outputs outside of DRAM", "Copy to HBM first.", _DOWN),
    "XCG826": Entry("Collective {kind} does not support an ALU op", "", _DOWN),
}

"""The base of every instruction, and what it may ask while it verifies itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from .access import AccessPattern, Tensor
from .errors import fail
from .types import DType, Groups, Loc, Memory, Pairs, RegisterName, Target, World

__all__ = ["Inst", "Scope"]


class Scope:
    """What surrounds an instruction: world, target, the core it runs on, and the tensors that core sees.

    `ranks` are the ranks that run the program (all of the world unless the run has several programs). Groups
    and access patterns that have passed the checks once are remembered, since a program repeats them.
    """

    __slots__ = ("_groups_ok", "_pairs_ok", "core", "patterns_ok", "ranks", "target", "tensors", "world")

    def __init__(
        self,
        world: World,
        target: Target,
        tensors: Mapping[str, Tensor],
        core: int = 0,
        ranks: tuple[int, ...] | None = None,
    ) -> None:
        self.world = world
        self.target = target
        self.tensors = tensors
        self.core = core
        self.ranks = tuple(range(world.ranks)) if ranks is None else ranks
        self.patterns_ok: set[AccessPattern] = set()
        self._groups_ok: set[tuple[Groups, bool]] = set()
        self._pairs_ok: set[Pairs] = set()

    def tensor(self, ap: AccessPattern, loc: Loc | None = None) -> Tensor:
        """The tensor of an access pattern; NKC023 if the core has none of that name."""
        found = self.tensors.get(ap.tensor)
        if found is None:
            fail("NKC023", name=ap.tensor, core=self.core, loc=loc)
        return found

    def dtype(self, ap: AccessPattern) -> DType:
        """Element type of an access pattern."""
        return ap.dtype or self.tensor(ap).dtype

    def check_groups(self, groups: Groups, inst: str, loc: Loc | None, *, equal: bool) -> None:
        """The rules of replica groups: non-empty (NKC040), existing ranks (NKC041), disjoint (NKC042), covering the
        ranks that run the operation (NKC043), and of equal size where the result's shape depends on it (NKC044)."""
        key = (groups, equal)
        if key in self._groups_ok:
            return
        if not groups or not all(groups):
            fail(
                "NKC040",
                groups=show_groups(groups),
                why="a group is empty" if groups else "there is no group",
                operand="replica_groups",
                loc=loc,
            )
        seen: set[int] = set()
        for group in groups:
            for rank in group:
                self.check_rank(rank, "replica_groups", loc)
                if rank in seen:
                    fail("NKC042", rank=rank, groups=show_groups(groups), operand="replica_groups", loc=loc)
                seen.add(rank)
        missing = [r for r in self.ranks if r not in seen]
        if missing:
            fail(
                "NKC043",
                ranks=show_ranks(missing),
                inst=inst,
                groups=show_groups(groups),
                operand="replica_groups",
                loc=loc,
            )
        sizes = [len(group) for group in groups]
        if equal and len(set(sizes)) > 1:
            fail("NKC044", inst=inst, sizes=sizes, operand="replica_groups", loc=loc)
        self._groups_ok.add(key)

    def check_pairs(self, pairs: Pairs, inst: str, loc: Loc | None) -> None:
        """The rules of explicit edges: some (NKC045), existing ranks (NKC041), one source per target (NKC046) and one
        target per source (NKC047)."""
        if pairs in self._pairs_ok:
            return
        if not pairs:
            fail("NKC045", inst=inst, operand="src_tgt_pairs", loc=loc)
        sources: set[int] = set()
        targets: set[int] = set()
        for source, target in pairs:
            self.check_rank(source, "src_tgt_pairs", loc)
            self.check_rank(target, "src_tgt_pairs", loc)
            if target in targets:
                fail("NKC046", rank=target, pairs=list(pairs), operand="src_tgt_pairs", loc=loc)
            if source in sources:
                fail("NKC047", rank=source, pairs=list(pairs), operand="src_tgt_pairs", loc=loc)
            sources.add(source)
            targets.add(target)
        self._pairs_ok.add(pairs)

    def check_rank(self, rank: int, operand: str, loc: Loc | None) -> None:
        """NKC041 unless `rank` is a rank of the world."""
        if 0 <= rank < self.world.ranks:
            return
        lnc = self.world.lnc
        cores = self.world.ranks * lnc
        hint = f"Physical core {rank} belongs to rank {rank // lnc}." if lnc > 1 and 0 <= rank < cores else ""
        fail("NKC041", rank=rank, last=self.world.ranks - 1, core_hint=hint, operand=operand, loc=loc)


class Inst(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="inst", tag=True
):
    """An instruction. `name` is unique on its core; `deps` are names of instructions that come first; `mask` is a
    register that predicates it (non-zero: execute), `loc` the kernel's line."""

    name: str = ""
    deps: tuple[str, ...] = ()
    mask: RegisterName | None = None
    loc: Loc | None = None

    def reads(self) -> tuple[AccessPattern, ...]:
        """The access patterns that the instruction reads."""
        return ()

    def writes(self) -> tuple[AccessPattern, ...]:
        """The access patterns that the instruction writes."""
        return ()

    def verify(self, scope: Scope) -> None:
        """Refuse what is wrong with this instruction alone. Raises NkiccError with the code of the broken rule."""
        verify_operands(self, scope)

    @property
    def label(self) -> str:
        """Class and name, for messages."""
        kind = type(self).__name__
        return f"{kind} '{self.name}'" if self.name else kind


def verify_operands(inst: Inst, scope: Scope) -> None:
    """Every operand names a tensor of the core and stays inside it."""
    loc = inst.loc
    for role, operands in (("dst", inst.writes()), ("src", inst.reads())):
        for ap in operands:
            if ap in scope.patterns_ok:
                continue
            ap.verify(scope.tensor(ap, loc), operand=role, loc=loc)
            if ap.is_dynamic:
                verify_offset(scope, ap, role, loc)
            scope.patterns_ok.add(ap)


def verify_offset(scope: Scope, ap: AccessPattern, operand: str, loc: Loc | None) -> None:
    """The offset of a dynamic pattern, where memory holds it: inside its tensor (NKC023 to NKC025), of integers and, if
    scalar, a single one (NKC025)."""
    for source in (ap.scalar_offset, ap.vector_offset):
        if not isinstance(source, AccessPattern):
            continue
        source.verify(scope.tensor(source, loc), operand=operand, loc=loc)
        why = ""
        if scope.dtype(source).is_float:
            why = f"its offset in {source.tensor!r} is {scope.dtype(source).value}, not an integer"
        elif source is ap.scalar_offset and source.size != 1:
            why = f"its scalar_offset in {source.tensor!r} holds {source.size} elements, not one"
        if why:
            fail("NKC025", name=ap.tensor, why=why, operand=operand, loc=loc)
        if source.is_dynamic:
            verify_offset(scope, source, operand, loc)


def same_dtype(inst: Inst, scope: Scope, left: AccessPattern, right: AccessPattern) -> None:
    """NKC032 unless both patterns have one element type."""
    a, b = scope.dtype(left), scope.dtype(right)
    if a is not b:
        fail(
            "NKC032",
            inst=inst.label,
            left=repr(left.tensor),
            left_dtype=a.value,
            right=repr(right.tensor),
            right_dtype=b.value,
            loc=inst.loc,
        )


def in_memory(inst: Inst, scope: Scope, ap: AccessPattern, what: str, *allowed: Memory) -> None:
    """NKC030 unless the pattern's tensor is in one of the allowed memories."""
    memory = scope.tensor(ap).memory
    if memory not in allowed:
        fail(
            "NKC030",
            inst=inst.label,
            what=what,
            expected=" or ".join(m.value for m in allowed),
            name=ap.tensor,
            found=memory.value,
            operand=what,
            loc=inst.loc,
        )


def show_groups(groups: Groups) -> str:
    """Groups as nested lists, shortened after a few."""
    text = str([list(g) for g in groups[:8]])
    return text if len(groups) <= 8 else f"{text[:-1]}, … {len(groups)} groups]"


def show_ranks(ranks: list[int] | tuple[int, ...]) -> str:
    """Ranks with runs folded: 0-3, 7."""
    parts: list[str] = []
    start = previous = ranks[0]
    for rank in [*ranks[1:], None]:
        if rank is not None and rank == previous + 1:
            previous = rank
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        if rank is not None:
            start = previous = rank
    return ", ".join(parts)

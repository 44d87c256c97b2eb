"""Every instruction has its rule in the simulator and its public function, and every function its place."""

import ast
import inspect
from pathlib import Path
from typing import get_args

import nki.isa as nisa
import pytest

from nkicc.ir import isa
from nkicc.simulator.rules import RULES

INSTRUCTIONS = {kind.__name__: kind for kind in get_args(isa.ISA)}
FRONT = Path(inspect.getfile(nisa)).parent
#: Functions that insert what a collective builder makes, nothing, or refuse.
WITHOUT_INSTRUCTION = {"core_barrier", "get_nc_version", "sendrecv", "nc_matmul_mx", "quantize_mx"}


def uses(file: Path) -> dict[str, set[str]]:
    """Per function and class of a module: the names it mentions, through the others it mentions."""
    direct = {
        node.name: {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }

    def closure(name: str, seen: set[str]) -> set[str]:
        for used in direct[name] - seen:
            seen.add(used)
            if used in direct:
                closure(used, seen)
        return seen

    return {name: closure(name, set()) for name in direct}


FUNCTIONS = {name: used for file in FRONT.glob("*.py") for name, used in uses(file).items() if name in nisa.__all__}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_has_a_rule_and_is_exported(name: str) -> None:
    assert INSTRUCTIONS[name] in RULES
    assert getattr(isa, name) is INSTRUCTIONS[name]
    assert name in isa.__all__


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_has_a_public_function(name: str) -> None:
    functions = [used for file in FRONT.parent.rglob("*.py") for used in uses(file).values()]
    assert any(name in used for used in functions), f"no function of nki inserts {name}"


def test_every_struct_is_in_the_union() -> None:
    defined = {
        node.name
        for file in Path(inspect.getfile(isa)).parent.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.startswith("Inst")
    }
    assert defined == set(INSTRUCTIONS)


@pytest.mark.parametrize("name", [n for n in nisa.__all__ if inspect.isfunction(getattr(nisa, n))])
def test_a_function_inserts_an_instruction_and_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(getattr(nisa, name))
    inserts = FUNCTIONS[name] & set(INSTRUCTIONS)
    assert bool(inserts) != (name in WITHOUT_INSTRUCTION)


def test_every_exported_name_exists() -> None:
    assert [name for name in nisa.__all__ if not hasattr(nisa, name)] == []
    assert len(set(nisa.__all__)) == len(nisa.__all__)

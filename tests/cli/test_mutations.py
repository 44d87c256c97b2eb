"""Whatever is done to a program in JSON, the answer is a result or a coded error, never a fault of nkicc."""

from __future__ import annotations

import copy
import json
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBERS = (-1, 0, 1, 2, 3, 7, 64, 128, 129, 1000, 1 << 40, 1 << 70)
JsonPath = tuple[Any, ...]


def paths(value: Any, path: JsonPath = ()) -> Iterator[JsonPath]:
    """Every place in a JSON value except source lines."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key != "loc":
            yield (*path, key)
            yield from paths(inner, (*path, key))


def at(value: Any, path: JsonPath) -> Any:
    for key in path:
        value = value[key]
    return value


def mutate(program: Any, rng: random.Random) -> None:
    """Delete, repeat or replace one value by another of its kind."""
    places = list(paths(program))
    *path, key = rng.choice(places)
    parent = at(program, tuple(path))
    value = parent[key]
    match rng.randrange(6), value:
        case 0, _:
            del parent[key]
        case 1, _ if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(rng.choice(parent)))
        case _, bool():
            parent[key] = not value
        case _, int():
            parent[key] = rng.choice((*NUMBERS, value + 1, value - 1))
        case _, str():
            parent[key] = rng.choice([text for place in places if isinstance(text := at(program, place), str)])
        case _, list():
            parent[key] = rng.choice(([], value * 2, value[::-1], [value]))
        case _:
            parent[key] = {}


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A mutated shape may ask for all memory of the machine; let it hit a limit first."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("command", ["build", "lower"])
@pytest.mark.parametrize("example", ["all_reduce", "all_to_all", "lnc_swap", "rank_slice", "ring_all_gather"])
def test_mutated_programs(cli: Cli, tmp_path: Path, example: str, command: str) -> None:
    built = cli(command, EXAMPLES / f"{example}.py", "--ranks", 2, "--lnc", 2, "--json")
    assert built.code == 0, built.out
    program = built.json()
    rng = random.Random(f"{example} {command}")
    file = tmp_path / "mutated.json"
    codes: set[str] = set()
    for _ in range(60):
        mutant = copy.deepcopy(program)
        for _ in range(rng.choice((1, 1, 2))):
            mutate(mutant, rng)
        file.write_text(json.dumps(mutant))
        done = cli("run", file, "--json")
        code = done.json().get("error", {}).get("code", "")
        assert code != "NKC-internal", done.out
        assert (done.code == 0) == (code == "")
        codes.add(code)
    # The mutations reach past the reader.
    assert len(codes - {"", "NKC002"}) >= 3

"""docs/api.md and the table of public names say what is so."""

from __future__ import annotations

import importlib.util
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from nkicc import NkiccError
from nkicc.nki.names import INSTEAD, PUBLIC, REMOVED

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("generate_api", DOCS / "generate_api.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (DOCS / "api.md").read_text() == generator.page(), "run python docs/generate_api.py"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_resolves_or_is_refused_by_name(module: str) -> None:
    ours = import_module(f"nkicc.{module}")
    for name in PUBLIC[module]:
        if name in ours.__all__:
            assert getattr(ours, name) is not None
            continue
        with pytest.raises(NkiccError) as caught:
            getattr(ours, name)
        assert caught.value.code == "NKC008"
        assert f"{module}.{name}" in caught.value.message


def test_advice_is_for_names_that_exist() -> None:
    for full in INSTEAD:
        module, _, name = full.rpartition(".")
        assert name in PUBLIC[module], full
    for full in REMOVED:
        module, _, name = full.rpartition(".")
        assert name not in PUBLIC[module], full
        assert (
            not hasattr(import_module(f"nkicc.{module}"), "__all__")
            or name not in import_module(f"nkicc.{module}").__all__
        )


def test_a_function_that_advice_exists_for_refuses() -> None:
    for full in INSTEAD:
        module, _, name = full.rpartition(".")
        ours = import_module(f"nkicc.{module}")
        if name not in ours.__all__:
            continue
        function = getattr(ours, name)
        required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        with pytest.raises(NkiccError) as caught:
            function(*[None] * len(required))
        assert caught.value.code == "NKC008", f"{full} is implemented: drop the advice"

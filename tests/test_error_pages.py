"""docs/errors.md is what the catalogue says, and every code is provoked by a test."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from nkicc.ir.errors import CATALOGUE
from nkicc.ir.pages import PAGES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_errors", DOCS / "generate_errors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_generator_writes(generator: ModuleType) -> None:
    assert (DOCS / "errors.md").read_text() == generator.page(), "run python docs/generate_errors.py"


def test_every_code_is_provoked_by_a_test(generator: ModuleType) -> None:
    assert [code for code in CATALOGUE if code not in generator.tested_in()] == []


def test_every_code_is_raised_by_a_file_that_the_page_names(generator: ModuleType) -> None:
    assert [code for code in CATALOGUE if code not in generator.raised_in()] == []


def test_longer_pages_belong_to_codes_and_name_only_codes() -> None:
    assert set(PAGES) <= set(CATALOGUE)
    for code, page in PAGES.items():
        assert page.endswith("\n"), code
        assert set(re.findall(r"NKC\d+", page)) <= set(CATALOGUE), code
        assert max(map(len, page.splitlines())) <= 120, code

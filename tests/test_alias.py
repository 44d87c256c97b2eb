"""`nkicc.activate()`, each case in an interpreter of its own."""

import subprocess
import sys
from pathlib import Path

CHECK = """
import nki, nki.language as nl, nki.isa as nisa, nki.collectives as ncc, nki.typing as nt, nki.dtype as dt
from nki.isa import constants
from nki.collectives import ReplicaGroup
import nkicc.nki.language, sys
assert nl is nkicc.nki.language and nki.jit is nkicc.nki.jit and dt.float32 is nl.float32
assert constants.nc_version is nisa.nc_version and nt.tensor is nl.ndarray
import nki.tensor
assert nki.tensor.ndarray is nl.ndarray
"""


def python(code: str, folder: Path) -> str:
    """What the code prints; its errors, if it fails."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_activate_makes_nki_importable_and_may_be_repeated(tmp_path: Path) -> None:
    assert python(f"import nkicc; nkicc.activate(); nkicc.activate(){CHECK}\nprint('done')", tmp_path) == "done\n"


def test_a_foreign_nki_is_shadowed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "nki").mkdir()
    (tmp_path / "nki" / "__init__.py").write_text("mine = 1\n")
    (tmp_path / "nki" / "language.py").write_text("mine = 2\n")
    refused = "import nkicc\ntry:\n    nkicc.activate()\nexcept nkicc.NkiccError as error:\n    print(error.code)\n"
    for first in ("", "import nki.language\n"):
        assert python(first + refused, tmp_path) == "NKC016\n"
        shadowed = f"{first}import nkicc; nkicc.activate(replace=True){CHECK}\nprint('done')"
        assert python(shadowed, tmp_path) == "done\n"


def test_importing_nkicc_imports_nothing_else(tmp_path: Path) -> None:
    code = "import sys, nkicc; print(sorted(m for m in sys.modules if m.startswith(('nkicc.', 'numpy'))))"
    assert python(code, tmp_path) == "[]\n"
    assert "AttributeError" in python("import nkicc; nkicc.nothing", tmp_path)

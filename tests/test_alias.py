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
assert constants.nc_version is nisa.nc_version and nt.tensor is nt.tensor[4, 4] is nl.ndarray
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


LEGACY = """
from neuronxcc import nki
import neuronxcc.nki as nki2, neuronxcc.nki.language as nl, neuronxcc.nki.isa as nisa, neuronxcc.nki.typing as nt
from neuronxcc.nki.isa import nc_version
import nki as new
assert nki is nki2 and nki.jit is new.jit and nl is new.language and nisa.nc_version is new.isa.nc_version
for what in ("nisa.activation", "nisa.dma_copy", "nl.par_dim", "nki.simulate_kernel", "nisa.tensor_copy_dynamic_src"):
    try:
        eval(what)
    except nkicc.NkiccError as error:
        assert error.code == "NKC008" and error.hint and error.loc.file == "<string>", what
    else:
        print(what, "resolves")
"""


def test_the_old_names_resolve_where_they_mean_the_same(tmp_path: Path) -> None:
    assert python(f"import nkicc; nkicc.activate(){LEGACY}\nprint('done')", tmp_path) == "done\n"


def test_an_installed_neuronxcc_is_left_alone_unless_told_to(tmp_path: Path) -> None:
    (tmp_path / "neuronxcc").mkdir()
    (tmp_path / "neuronxcc" / "__init__.py").write_text("mine = 1\n")
    for first in ("", "import neuronxcc\n"):
        kept = f"{first}import nkicc; nkicc.activate(); import neuronxcc, nki; print(neuronxcc.mine)"
        assert python(kept, tmp_path) == "1\n"
        shadowed = f"{first}import nkicc; nkicc.activate(replace=True){LEGACY}\nprint('done')"
        assert python(shadowed, tmp_path) == "done\n"


def test_importing_nkicc_imports_nothing_else(tmp_path: Path) -> None:
    code = "import sys, nkicc; print(sorted(m for m in sys.modules if m.startswith(('nkicc.', 'numpy'))))"
    assert python(code, tmp_path) == "[]\n"
    assert "AttributeError" in python("import nkicc; nkicc.nothing", tmp_path)

"""Damaged, hostile and absurd files: one coded error within a second, in little memory, never a fault of nkicc."""

from __future__ import annotations

import io
import json
import pickle
import resource
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from nkicc.cli.source import LARGEST

from .conftest import Cli, Done

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What one refusal may take: seconds of CPU, and bytes of address space beside what is taken already.
SECONDS, BYTES = 1.0, 2 << 30


@pytest.fixture
def little_memory() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


pytestmark = pytest.mark.usefixtures("little_memory")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    from nkicc.cli.app import invoke

    file = tmp_path_factory.mktemp("program") / "program.json"
    assert invoke(["lower", str(EXAMPLES / "all_reduce.py"), "--json", "-o", str(file)]) == 0
    return file.read_text()


def refused(cli: Cli, *args: object) -> Done:
    """The call is refused as bad usage in time."""
    start = time.process_time()
    done = cli(*args)
    assert time.process_time() - start < SECONDS
    assert done.code == 2, done.out + done.err
    assert "NKC-internal" not in done.out + done.err
    assert len(done.err) < 2000
    return done


# --- programs in JSON ------------------------------------------------------------------------------------------------

LOOP = '{"inst":"InstLoop","register":"r","start":0,"stop":1,"body":['
DAMAGE: dict[str, Callable[[str], str | bytes]] = {
    "empty": lambda text: "",
    "truncated": lambda text: text[: len(text) // 2],
    "without its last brace": lambda text: text.rstrip()[:-1],
    "doubled": lambda text: text + text,
    "an array": lambda text: "[]",
    "a number": lambda text: "3",
    "null": lambda text: "null",
    "10 MB of open brackets": lambda text: "[" * 10_000_000,
    "10 MB of nested arrays": lambda text: "[" * 5_000_000 + "]" * 5_000_000,
    "10 MB of nested objects": lambda text: '{"a":' * 2_000_000 + "1" + "}" * 2_000_000,
    "10 MB of zero bytes": lambda text: "\0" * 10_000_000,
    "a field with 10 MB": lambda text: '{"junk":[' + "1," * 5_000_000 + "1]," + text[1:],
    "deeply nested loops": lambda text: text.replace('"body": [', f'"body": [{LOOP * 100_000}{"]}" * 100_000},', 1),
    "NaN": lambda text: text.replace('"ranks": 4', '"ranks": NaN'),
    "Infinity": lambda text: text.replace('"ranks": 4', '"ranks": Infinity'),
    "a float for an integer": lambda text: text.replace('"ranks": 4', '"ranks": 4.5'),
    "a text for an integer": lambda text: text.replace('"ranks": 4', '"ranks": "4"'),
    "a number of 10 MB": lambda text: text.replace('"ranks": 4', '"ranks": ' + "9" * 10_000_000),
    "a negative extent as text": lambda text: text.replace('"shape": [', '"shape": ["-1",', 1),
    "a key twice": lambda text: '{"level": "bir",' + text.lstrip()[1:],
    "an inner key twice": lambda text: text.replace('"ranks": 4', '"ranks": 2, "ranks": 4'),
    "an unknown key": lambda text: '{"levle": "bir",' + text.lstrip()[1:],
    "another version": lambda text: text.replace('"version": 1', '"version": 99'),
    "an unknown instruction": lambda text: text.replace("InstDMACopy", "InstDMACpy", 1),
    "half a character": lambda text: text.replace('"local"', '"lo\\ud800cal"'),
    "no UTF-8": lambda text: text.encode().replace(b"local", b"lo\xff\xfecal"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "a pickle": lambda text: pickle.dumps({"level": "bir"}),
    "a zip": lambda text: b"PK\x03\x04" + text.encode(),
    "comments": lambda text: "// a comment\n" + text,
    "a trailing comma": lambda text: text.rstrip()[:-1] + ",}",
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_program(cli: Cli, tmp_path: Path, program: str, damage: str) -> None:
    content = DAMAGE[damage](program)
    assert content != program
    file = tmp_path / "program.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = refused(cli, "run", file)
    assert "NKC002" in done.err, done.err


def test_a_larger_file_than_any_program_is_not_read(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "program.json"
    with file.open("wb") as stream:
        stream.truncate(LARGEST * 100)
    done = refused(cli, "run", file)
    assert "NKC001" in done.err
    assert "larger than 512 MiB" in done.err


@pytest.mark.parametrize("ranks", [range(2_000_000), [0] * 2_000_000], ids=["too many", "repeated"])
def test_a_group_of_10_megabytes(cli: Cli, tmp_path: Path, program: str, ranks: Sequence[int]) -> None:
    file = tmp_path / "program.json"
    tree = json.loads(program)
    for inst in tree["programs"][0]["cores"][0]["body"]:
        if "cc_channel" in inst:
            inst["cc_channel"]["replica_groups"] = [list(ranks)]
    file.write_text(json.dumps(tree))
    start = time.process_time()
    done = cli("run", file)
    assert time.process_time() - start < 2 * SECONDS
    assert done.code == 1
    assert "NKC04" in done.err
    assert len(done.err) < 2000


@pytest.mark.parametrize("depth", [10, 200])
@pytest.mark.parametrize("command", ["run", "lower", "check"])
def test_nested_loops_work_or_are_refused(cli: Cli, tmp_path: Path, program: str, depth: int, command: str) -> None:
    tree = json.loads(program)
    body = tree["programs"][0]["cores"][0]["body"]
    loops = body[:1]
    for level in range(depth):
        loops = [{"inst": "InstLoop", "register": f"r{level}", "start": 0, "stop": 1, "body": loops}]
    tree["programs"][0]["cores"][0]["body"] = [*loops, *body[1:]]
    file = tmp_path / "program.json"
    file.write_text(json.dumps(tree))
    done = cli(command, file)
    assert "NKC-internal" not in done.out + done.err, done.err
    assert done.code == 0 or depth > 10


@pytest.mark.parametrize("name", ["größe", "サム", "🜁", "a\u202eb", "a\x07b", "[red]x[/red]", "{x}", "%s", "a'b\"c\\d"])
def test_odd_characters_in_names_are_only_names(cli: Cli, tmp_path: Path, program: str, name: str) -> None:
    file = tmp_path / "program.json"
    file.write_text(program.replace('"local"', json.dumps(name)), encoding="utf-8")
    for command in ("run", "lower", "check"):
        done = cli(command, file)
        assert done.code in (0, 1), done.err
        assert "NKC-internal" not in done.out + done.err
    missing = cli("run", file, "--input", f"{name}=3")
    assert missing.code == 2


# --- arrays ----------------------------------------------------------------------------------------------------------


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """A .npy file with any header."""
    text = header.encode("latin1")
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + data


def zipped(content: bytes, name: str = "a.npy") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def good() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(12, dtype=np.float32).reshape(3, 4))
    return stream.getvalue()


def header(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def objects() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{}, []], dtype=object), allow_pickle=True)
    return stream.getvalue()


ARRAYS: dict[str, bytes] = {
    "empty": b"",
    "another magic": b"\x93NUMPZ" + good()[6:],
    "only a magic": b"\x93NUMPY",
    "truncated in its header": good()[:40],
    "truncated in its data": good()[:-5],
    "another version": npy(header("(3, 4)"), bytes(48), b"\x09\x00"),
    "a pickle": pickle.dumps(np.zeros(3)),
    "Python objects": objects(),
    "records": npy(header("(3,)", "[('a', '<f4'), ('b', '<f4')]"), bytes(24)),
    "far more announced than there is": npy(header("(1099511627776, 4)")),
    "a shape beyond 64 bits": npy(header(f"({1 << 70}, {1 << 70})")),
    "a negative extent": npy(header("(-3, 4)"), bytes(48)),
    "a shape of text": npy(header("'34'"), bytes(48)),
    "no dict": npy("[1, 2]\n"),
    "code in its header": npy("__import__('os').abort()\n"),
    "brackets in its header": npy("(" * 5000 + ")" * 5000),
    "a huge header": npy(header("(" + "1, " * 20_000 + ")"), bytes(48)),
    "a header beyond its end": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{",
    "no data type": npy(header("(3, 4)", "'<q9'"), bytes(48)),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("packed", [False, True], ids=["npy", "npz"])
def test_a_damaged_array(cli: Cli, tmp_path: Path, kernel: Path, kind: str, packed: bool) -> None:
    file = tmp_path / ("x.npz" if packed else "x.npy")
    file.write_bytes(zipped(ARRAYS[kind]) if packed else ARRAYS[kind])
    spec = f"x={file}:a" if packed else f"x={file}"
    done = refused(cli, "run", kernel, "--input", spec, "--input", "group=groups:all")
    assert "NKC001" in done.err, done.err


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: b"", ""),
        (lambda data: data[:-10], ""),
        (lambda data: b"PK\x03\x04" + bytes(100), ""),
        (lambda data: data[:60] + b"\xff" * 20 + data[80:], ""),
        (lambda data: zipped(good(), "b.npy"), "no array 'a'"),
    ],
    ids=["empty", "truncated", "no directory", "damaged stream", "another name"],
)
def test_a_damaged_archive(
    cli: Cli, tmp_path: Path, kernel: Path, damage: Callable[[bytes], bytes], words: str
) -> None:
    file = tmp_path / "x.npz"
    file.write_bytes(damage(zipped(good())))
    done = refused(cli, "run", kernel, "--input", f"x={file}:a", "--input", "group=groups:all")
    assert "NKC001" in done.err, done.err
    assert words in done.err


def test_an_archive_that_unpacks_to_more_than_it_may(
    cli: Cli, tmp_path: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 MB of zip that holds 1 GB of zeros."""
    file = tmp_path / "x.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("a.npy", "w") as to:
        to.write(npy(header(f"({1 << 28},)")))
        for _ in range(64):
            to.write(bytes(1 << 24))
    monkeypatch.setattr("nkicc.cli.arrays.physical_memory", lambda: 1 << 31)
    done = refused(cli, "run", kernel, "--input", f"x={file}:a", "--input", "group=groups:all")
    assert "more than a quarter of this machine's memory" in done.err


def test_sound_arrays_are_read(cli: Cli, tmp_path: Path, kernel: Path) -> None:
    (tmp_path / "x.npy").write_bytes(good())
    (tmp_path / "x.npz").write_bytes(zipped(good()))
    for spec in (f"x={tmp_path}/x.npy", f"x={tmp_path}/x.npz:a"):
        done = cli("run", kernel, "--ranks", 2, "--input", spec, "--input", "group=groups:all", "--json")
        assert done.code == 0, done.out
        assert done.json()["rows"][1]["max"] == 22


# --- kernels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"\xff\xfe\x00", b"(" * 100_000, b"def f(:\n", b"x = " + b"-" * 200_000 + b"1", good()],
    ids=["empty", "zero bytes", "no UTF-8", "brackets", "syntax", "signs", "an array"],
)
def test_a_damaged_kernel_file(cli: Cli, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "damaged_kernel.py"
    file.write_bytes(content)
    done = cli("run", file)
    assert done.code in (1, 2)
    assert "NKC017" in done.err or "NKC004" in done.err, done.err


@pytest.mark.parametrize("fault", ["an input of no tensor", "a negative extent"])
def test_check_says_what_is_wrong_with_a_program(cli: Cli, tmp_path: Path, program: str, fault: str) -> None:
    content = json.loads(program)
    part = content["programs"][0]
    if fault == "a negative extent":
        part["tensors"][0]["shape"][0] = -3
    else:
        part["inputs"] = ["nobody"]
    file = tmp_path / "p.json"
    file.write_text(json.dumps(content))
    done = cli("check", file, "--json")
    assert done.code == 1
    expected = "NKC020" if fault == "a negative extent" else "NKC023"
    assert [found["code"] for found in done.json()["findings"]] == [expected]

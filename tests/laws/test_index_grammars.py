"""Files cut by grammar: what each language defines has its part, with what belongs to it and no more."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from handrail.index import grammars, reader
from handrail.index.grammars import marks_by_grammar
from handrail.index.parts import parts_of
from handrail.index.reader import Reader
from handrail.sandbox import landlock
from handrail.sandbox.seccomp import supported
from laws._grammars import MODULES, SAMPLES, need


@pytest.mark.parametrize("extension", SAMPLES)
def test_each_definition_has_the_lines_that_belong_to_it(extension: str) -> None:
    """Decorators and comments go with it, members are apart, what stands between them is what is around them."""
    need(extension)
    text, wanted = SAMPLES[extension]
    text = dedent(text)
    assert [tuple(part) for part in parts_of(text, extension, marks_by_grammar(text, extension))] == wanted


@pytest.mark.parametrize("extension", SAMPLES)
def test_broken_code_is_cut_all_the_same(extension: str) -> None:
    """Cut off anywhere, with brackets gone or bytes that are no text: every line with a word is in one part."""
    need(extension)
    chance = random.Random(7)
    whole = dedent(SAMPLES[extension][0])
    for _ in range(40):
        text = list(whole[: chance.randrange(1, len(whole))])
        for _ in range(chance.randrange(6)):
            text[chance.randrange(len(text))] = chance.choice("(){}[]'\"`\ufffd\u0000é\t\r<>@#\\")
        lines = "".join(text).split("\n")
        parts = parts_of("".join(text), extension, marks_by_grammar("".join(text), extension))
        covered = [line for part in parts for line in range(part.start, part.end + 1)]
        assert len(covered) == len(set(covered))
        assert {n for n, line in enumerate(lines, 1) if any(c.isalnum() for c in line)} <= set(covered)


def test_names_in_any_script_are_told() -> None:
    """Also where a file is no UTF-8 and some of its letters are lost."""
    need("py")
    text = "def größe():\n    pass\nclass 数据:\n    pass\n"
    lost = b"def gr\xf6sse():\n    pass\n\ndef next_one():\n    pass\n".decode("utf-8", "replace")
    assert [mark.name for mark in marks_by_grammar(text, "py") or ()] == ["größe", "数据"]
    assert "next_one" in [mark.name for mark in marks_by_grammar(lost, "py") or ()]


# ── the process that reads ───────────────────────────────────────────────────────────────────


def test_a_process_of_its_own_finds_the_same() -> None:
    """And a language without a grammar is nothing for it."""
    need("py")
    text, found = dedent(SAMPLES["py"][0]), Reader()
    try:
        assert found.marks([(text, "py")])[0] == marks_by_grammar(text, "py")
        assert found.marks([(text, "zzz")])[0] is None
        assert found.marks([("x = 1;" * 10_000, "py")])[0] is None  # no person wrote this line
    finally:
        found.close()


def test_text_that_a_grammar_never_ends_with_costs_a_process_and_not_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is ended after its time, a new one serves the next file, and after some such ends grammars are left alone."""
    need("py")
    text = "class A { \n" * 90_000
    found = Reader()
    try:
        assert found.marks([("def f(): pass\n", "py")])[0] is not None
        first = found._process
        assert first is not None
        assert (found.marks([(text, "py")])[0], first.returncode is None, found._process) == (None, False, None)
        assert found.marks([("def f(): pass\n", "py")])[0] is not None
        monkeypatch.setattr(reader, "MAX_ENDS", 1)
        assert found.marks([("def f(): pass\n", "py")])[0] is None
    finally:
        found.close()


SEEN = """
import json, os, socket, sys
from handrail.index.reader import shut_in
if sys.argv[1] == "shut in":
    shut_in()

def of(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0

there = sys.argv[2]
print(json.dumps({
    "read": of(lambda: open(f"{there}/a.txt").close()),
    "write": of(lambda: open(f"{there}/new.txt", "w").close()),
    "remove": of(lambda: os.unlink(f"{there}/a.txt")),
    "internet": of(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()),
    "unix": of(lambda: socket.socket(socket.AF_UNIX).close()),
    "program": of(lambda: os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {})),
}))
"""


def seen(how: str, folder: Path) -> dict[str, int]:
    """What a process can do, by the errors of what it tries; 0 where it could."""
    (folder / "a.txt").write_text("x")
    run = subprocess.run([sys.executable, "-c", SEEN, how, str(folder)], capture_output=True, text=True, check=True)
    return dict(json.loads(run.stdout))


@pytest.mark.skipif(landlock.abi() < 1 or not supported(os.uname().machine), reason="no Landlock, or no filter for it")
def test_the_process_reads_programs_and_does_nothing_else(tmp_path: Path) -> None:
    """No file of anybody's, no writing, no sockets, no programs; a process that is not shut in can do all of it."""
    free, shut = seen("free", tmp_path), seen("shut in", tmp_path)
    assert set(free.values()) == {0}
    refused, no_family = errno.EACCES, errno.EAFNOSUPPORT
    assert shut == {
        "read": refused, "write": refused, "remove": refused, "internet": no_family, "unix": no_family,
        "program": refused,
    }  # fmt: skip


def test_every_grammar_is_tested_and_can_be_had() -> None:
    """No table without a sample, and each package is in the extra that brings them."""
    names = {module.removeprefix("tree_sitter_").replace("_", "-") for module in grammars._NODES}
    text = (Path(__file__).parents[2] / "pyproject.toml").read_bytes().decode()
    project = tomllib.loads(text)["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["search"]]
    assert set(grammars._NODES) == {MODULES[name] for name in SAMPLES}
    assert names == {item.partition(">")[0].removeprefix("tree-sitter-") for item in asked if "tree-sitter-" in item}


def test_the_process_ends_with_whoever_asked() -> None:
    """And a process that is gone is started again."""
    need("py")
    found = Reader()
    assert found.marks([("def f(): pass\n", "py")])[0] is not None
    process = found._process
    assert process is not None
    process.kill()
    process.wait()
    assert found.marks([("def f(): pass\n", "py")])[0] is None
    assert found.marks([("def f(): pass\n", "py")])[0] is not None
    found.close()
    assert found._process is None

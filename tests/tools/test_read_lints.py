"""read_lints: what linters say of exactly these bytes; they see what the call may see, and change nothing."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.ports import Finished, Linter
from handrail.quality.linters import find_linter
from handrail.testing import ScriptedLinters, lend
from handrail.words import Place
from searching import fill
from tools._linting import confined, needs

UNUSED = "import os\n\nx = 1\n"


async def lint(runtime: Runtime, *paths: str, **args: Any) -> Any:
    """Look at files, and have an answer."""
    outcome = await runtime.call("read_lints", {"paths": list(paths), **args})
    assert outcome.ok, outcome.error
    return outcome


def told(outcome: Any) -> list[tuple[Any, ...]]:
    """Each diagnostic as file, line, column, severity, code and source."""
    names = ("file", "line", "column", "severity", "code", "source")
    return [tuple(item[name] for name in names) for item in outcome.data["diagnostics"]]


# ── in-process ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.json", '{"a": 1,\n "b": }', [("a.json", 2, 7, "error", "syntax", "json")]),
        ("a.json", '{"a": 1}', []),
        ("a.json", "[" * 100_000, [("a.json", 0, 0, "error", "syntax", "json")]),
        ("a.json", "1" * 10_000, [("a.json", 0, 0, "error", "syntax", "json")]),
        ("a.toml", "a = 1\nb = \n", [("a.toml", 2, 5, "error", "syntax", "toml")]),
        ("a.toml", "a = [1", [("a.toml", 1, 0, "error", "syntax", "toml")]),
        ("a.toml", "a = 1\n", []),
        ("a.toml", "a = " + "[" * 100_000, [("a.toml", 0, 0, "error", "syntax", "toml")]),
        ("a.yaml", "a: 1\nb: [1\n", [("a.yaml", 3, 1, "error", "syntax", "yaml")]),
        ("a.yml", "a: &a [1]\nb: *a\n", []),
        ("a.yaml", "a: !!python/object:os.system x\n", []),
        ("A.JSON", "{", [("A.JSON", 1, 2, "error", "syntax", "json")]),
    ],
)
async def test_syntax_is_checked_without_a_program(
    opens: Any, work: Path, name: str, text: str, found: list[tuple[Any, ...]]
) -> None:
    """The first fault, with its place; nothing hostile takes the runtime down, and no tag makes an object."""
    fill(work, {name: text})
    async with opens() as runtime:
        outcome = await lint(runtime, name)
    assert told(outcome) == found
    assert outcome.data["files"][0]["sha256"] == hashlib.sha256(text.encode()).hexdigest()


async def test_aliases_are_not_followed(opens: Any, work: Path) -> None:
    """A text of a few lines that stands for a billion words is checked in no time."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    fill(work, {"a.yaml": "\n".join(lines)})
    async with opens() as runtime:
        assert told(await lint(runtime, "a.yaml")) == []


async def test_no_linter_is_an_answer(opens: Any, work: Path) -> None:
    """As are bytes that are no text, and a file that is too large; what does not exist is not."""
    fill(work, {"a.txt": "x", "b.json": b'{"a": "\xff"}', "c.json": b" " * (1 << 20) + b"1"})
    async with opens() as runtime:
        outcome = await lint(runtime, "a.txt", "b.json", "c.json")
        missing = await runtime.call("read_lints", {"paths": ["nope.py"]})
    assert [item["status"] for item in outcome.data["files"]] == ["no linter", "checked", "not checked"]
    assert told(outcome) == [("b.json", 1, 0, "error", "encoding", "utf-8")]
    assert "a.txt: there is no linter for this" in outcome.content
    assert missing.error is not None
    assert missing.error.code == "NOT_FOUND"


async def test_without_ruff_python_says_what_to_install(opens: Any, work: Path) -> None:
    """Where the program is missing, the answer names it and how to get it; what was asked is no failure."""
    fill(work, {"a.py": UNUSED, "b.pyi": "x: int\n", "c.txt": "x"})
    note = "Python is checked by ruff, which is not installed here: pip install 'handrail[lint]', or ruff itself"
    async with opens() as runtime:
        lend(runtime.kernel, Linters=ScriptedLinters(endings=()))
        outcome = await lint(runtime, "a.py", "b.pyi", "c.txt")
    assert [(item["file"], item["status"], item["note"]) for item in outcome.data["files"]] == [
        ("a.py", "no linter", note), ("b.pyi", "no linter", note), ("c.txt", "no linter", None),
    ]  # fmt: skip
    assert outcome.content.splitlines()[:3] == [
        f"a.py: {note}", f"b.pyi: {note}", "c.txt: there is no linter for this",
    ]  # fmt: skip


# ── programs ─────────────────────────────────────────────────────────────────────────────────


@needs("ruff")
async def test_ruff_checks_python_by_the_projects_own_rules(opens: Any, work: Path) -> None:
    """The content goes by stdin; the configuration is found where it lies."""
    fill(work, {"src/a.py": UNUSED, "b.py": "def f(:\n", "ruff.toml": 'lint.select = ["F401"]\n'})
    async with opens() as runtime:
        outcome = await lint(runtime, "src/a.py", "b.py")
        (work / "ruff.toml").write_text('lint.select = ["E501"]\n')
        other = await lint(runtime, "src/a.py")
    assert told(outcome)[-1] == ("src/a.py", 1, 8, "error", "F401", "ruff")
    assert told(outcome)[0][:2] + told(outcome)[0][3:] == ("b.py", 1, "error", "invalid-syntax", "ruff")
    assert told(other) == []
    assert outcome.data["files"][0] == {
        "file": "src/a.py",
        "sha256": hashlib.sha256(UNUSED.encode()).hexdigest(),
        "linter": "ruff",
        "status": "checked",
        "note": None,
    }
    assert not (work / ".ruff_cache").exists()


@needs("bash")
async def test_shell_scripts_are_parsed_and_not_run(opens: Any, work: Path) -> None:
    """`bash -n` reads them; a command in them stays a text."""
    fill(work, {"a.sh": "touch made\nif true; then\n  echo x\n", "b.sh": "touch made\n"})
    async with opens() as runtime:
        outcome = await lint(runtime, "a.sh", "b.sh")
        used = runtime.parts.limits.usage.used["processes"]
    assert [item[:2] + item[3:] for item in told(outcome)] == [("a.sh", 4, "error", "syntax", "bash")]
    assert (list(outcome.commands), used) == (["bash --norc --noprofile -n"], 2)
    assert not (work / "made").exists()


@needs("ruff")
async def test_a_folder_stands_for_the_files_below_it(opens: Any, work: Path) -> None:
    """Ignored and protected ones left out."""
    (work / ".git").mkdir()
    fill(work, {"a/x.py": UNUSED, "a/y.json": "{", "a/build/z.py": UNUSED, ".gitignore": "build/\n", "a/.env.py": "x"})
    fill(work, {"ruff.toml": 'lint.select = ["F401"]\n'})
    async with opens() as runtime:
        outcome = await lint(runtime, "a")
    assert [(item["file"], item["status"]) for item in outcome.data["files"]] == [
        ("a/x.py", "checked"),
        ("a/y.json", "checked"),
    ]


GCC = "printf '%s\\n' 'x.foo:2:3: warning: bad thing [W1]' 'x.foo:4: error: worse' 'nothing to see'"
JSON = """printf '%s' '[{"line": 1, "column": 2, "severity": "error", "code": "J1", "message": "m"}]'"""
ESLINT = """printf '%s' '[{"messages": [{"line": 3, "column": 1, "severity": 2, "ruleId": "semi", "message": "m"}]}]'"""


@pytest.mark.parametrize(
    ("line", "form", "found"),
    [
        (GCC, "gcc", [("x.foo", 2, 3, "warning", "W1", "sh"), ("x.foo", 4, 0, "error", "", "sh")]),
        (JSON, "json", [("x.foo", 1, 2, "error", "J1", "sh")]),
        (ESLINT, "json", [("x.foo", 3, 1, "error", "semi", "sh")]),
    ],
)
@confined
async def test_an_operator_adds_linters_by_settings(
    opens: Any, work: Path, line: str, form: str, found: list[tuple[Any, ...]]
) -> None:
    """An argument list and how its output is read."""
    fill(work, {"x.foo": "content"})
    config = {"lints": {"foo": {"command": ["/bin/sh", "-c", line], "format": form}}}
    async with opens(config=config) as runtime:
        assert told(await lint(runtime, "x.foo")) == found


@confined
async def test_a_linter_that_does_not_do_its_work_is_told_and_is_no_failure(opens: Any, work: Path) -> None:
    """It crashed, it is not there, it found nothing it could say."""
    fill(work, {"a.one": "x", "b.two": "x", "c.json": "{"})
    lints = {
        "one": {"command": ["/bin/sh", "-c", "echo broken configuration >&2; exit 7"]},
        "two": {"command": ["/no/such/linter"]},
    }
    async with opens(config={"lints": lints}) as runtime:
        outcome = await lint(runtime, "a.one", "b.two", "c.json")
    assert [item["status"] for item in outcome.data["files"]] == ["not checked", "not checked", "checked"]
    assert outcome.data["files"][0]["note"] == "sh ended with 7: broken configuration"
    assert "/no/such/linter" in outcome.data["files"][1]["note"]


@confined
async def test_a_linter_sees_the_workspace_to_read_and_nothing_that_is_excluded(opens: Any, work: Path) -> None:
    """Protected names, denied paths, the network and every place to write are closed to it."""
    fill(work, {"x.foo": "content", ".env": "SECRET=zebra", "private/p.txt": "zebra", "open.txt": "fine"})
    script = (
        'say() { echo "1:1: warning: $1"; }; '
        "grep -q fine open.txt && say reads; "
        "grep -qs zebra .env && say env; grep -qs zebra private/p.txt && say private; "
        "(echo x > made.txt) 2>/dev/null && say writes; (echo x >> x.foo) 2>/dev/null && say changes; "
        "(exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -q 'refused' && say network; cat"
    )
    config = {
        "lints": {"foo": {"command": ["/bin/bash", "-c", script]}},
        "rules": [{"effect": "deny", "touch": "fs.read", "target": "private/**"}],
    }
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    async with opens(config=config) as runtime:
        outcome = await lint(runtime, "x.foo")
    said = [item["message"] for item in outcome.data["diagnostics"]]
    assert [word for word in said if word != "network"] == ["reads"]  # a network of its own refuses, too
    assert {path.name: path.stat().st_mtime_ns for path in work.iterdir()} == before


@confined
async def test_the_bytes_that_were_judged_are_the_bytes_that_are_checked(opens: Any, work: Path) -> None:
    """They come by stdin, whatever stands at the path by then; a linter that opens the path itself is checked on."""
    fill(work, {"x.foo": "content", "y.bar": "content"})
    lints = {
        "foo": {"command": ["/bin/sh", "-c", "sha256sum | sed 's/^/1:1: warning: /'"]},
        "bar": {"command": ["/usr/bin/sha256sum", "{path}"], "input": "path"},
    }
    async with opens(config={"lints": lints}) as runtime:
        outcome = await lint(runtime, "x.foo", "y.bar")
    digest = hashlib.sha256(b"content").hexdigest()
    assert [item["sha256"] for item in outcome.data["files"]] == [digest, digest]
    assert outcome.data["diagnostics"][0]["message"].startswith(digest)


@needs("ruff")
async def test_a_path_cannot_become_an_option(opens: Any, work: Path) -> None:
    """Names that start with a dash, hold blanks or line breaks are names."""
    names = ["--fix.py", "-.py", "a b.py", "a\nb.py", "$(touch made).py"]
    fill(work, {**dict.fromkeys(names, UNUSED)})
    fill(work, {"ruff.toml": 'lint.select = ["F401"]\n'})
    async with opens() as runtime:
        outcome = await lint(runtime, *[name for name in names if "\n" not in name])
    assert [item["status"] for item in outcome.data["files"]] == ["checked"] * 4
    assert len(outcome.data["diagnostics"]) == 4
    assert (work / "--fix.py").read_text() == UNUSED
    assert not (work / "made").exists()


async def test_without_a_sandbox_no_program_is_run(opens: Any, work: Path) -> None:
    """It is refused and said; what needs no program is checked all the same."""
    from handrail.errors import Code, Problem

    def none() -> Any:
        raise Problem(Code.SANDBOX_UNAVAILABLE, "there is none here")

    fill(work, {"a.sh": "if", "b.json": "{"})
    async with opens() as runtime:
        runtime.parts.faculties.choose = none
        outcome = await lint(runtime, "a.sh", "b.json")
    assert [(item["status"], item["note"]) for item in outcome.data["files"]] == [
        ("not checked", "there is none here"),
        ("checked", None),
    ]


async def test_no_linter_runs_on_when_the_call_has_failed(opens: Any, work: Path) -> None:
    """One file's linter breaks, and another one's is slow."""
    started, ends = asyncio.Event(), list[str]()

    class Uneven(ScriptedLinters):
        """Slow for one file; breaks with the other one."""

        async def run(self, linter: Linter, place: Place, data: bytes) -> Finished:
            """Check a file."""
            if place.path == "slow.py":
                started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ends.append(place.path)
            await started.wait()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    fill(work, {"bad.py": "x\n", "slow.py": "x\n"})
    async with opens() as runtime:
        lend(runtime.kernel, Linters=Uneven())
        outcome = await asyncio.wait_for(runtime.call("read_lints", {"paths": ["bad.py", "slow.py"]}), 20)
        assert (outcome.error.code, ends) == ("IO_ERROR", ["slow.py"])


async def test_looking_at_files_asks_nobody(opens: Any, work: Path) -> None:
    """It touches what it reads: the files, and the workspace for what linters read beside them."""
    fill(work, {"a.json": "{"})
    async with opens() as runtime:
        found = runtime.explanation("read_lints", {"paths": ["a.json"]})
        assert [(touch.kind.value, touch.target, touch.deep) for touch in found.touches] == [
            ("fs.read", "a.json", False),
            ("fs.read", ".", True),
        ]
        assert found.verdict.decision.word == "allow"
        denied = await runtime.call("read_lints", {"paths": [".env"]})
        assert not denied.ok


async def test_a_project_nobody_trusts_brings_no_linter(work: Path) -> None:
    """Its file may name programs; none of them is run."""
    fill(work, {"x.foo": "x", "handrail.toml": '[lints.foo]\ncommand = ["/bin/sh", "-c", "echo 1:1: ran"]\n'})
    async with Runtime.open(work) as runtime:
        outcome = await lint(runtime, "x.foo")
        warnings = runtime.parts.loaded.warnings
    assert [item["status"] for item in outcome.data["files"]] == ["no linter"]
    assert any("`lints` is for a trusted file to set" in warning for warning in warnings)


# ── only what is new ─────────────────────────────────────────────────────────────────────────


@needs("ruff")
async def test_only_what_is_new_since_the_last_look_is_told(opens: Any, work: Path) -> None:
    """Lines that moved are known again; a second of the same kind is new."""
    fill(work, {"a.py": "import os\nx = 1\n", "ruff.toml": 'lint.select = ["F401"]\n'})
    async with opens() as runtime:
        first = await lint(runtime, "a.py", new_only=True)
        assert "no earlier look" in first.warnings[0]
        (work / "a.py").write_text("# moved\n\nimport os\nimport sys\nx = 1\n")
        second = await lint(runtime, "a.py", new_only=True)
        third = await lint(runtime, "a.py", new_only=True)
        everything = await lint(runtime, "a.py")
    assert told(first) == [("a.py", 1, 8, "error", "F401", "ruff")]
    assert told(second) == [("a.py", 4, 8, "error", "F401", "ruff")]
    assert (told(third), second.summary) == ([], "1 new diagnostic in 1 of 1 file")
    assert len(told(everything)) == 2


@needs("ruff")
async def test_without_a_look_the_content_before_the_runs_own_edit_counts(opens: Any, work: Path) -> None:
    """What the edit brought in is new, what was there before is not."""
    fill(work, {"a.py": "import os\nx = 1\n", "ruff.toml": 'lint.select = ["F401"]\n'})
    async with opens(enable=("fs",)) as runtime:
        edit = {"path": "a.py", "edits": [{"old": "x = 1", "new": "import sys\nx = 1"}]}
        assert (await runtime.call("edit_file", edit)).ok
        made = {"path": "b.py", "content": "import re\n"}
        assert (await runtime.call("write_file", made)).ok
        outcome = await lint(runtime, "a.py", "b.py", new_only=True)
    assert told(outcome) == [
        ("a.py", 2, 8, "error", "F401", "ruff"),
        ("b.py", 1, 8, "error", "F401", "ruff"),
    ]
    assert outcome.warnings == ()


# ── which linter ─────────────────────────────────────────────────────────────────────────────


def test_the_operators_linter_comes_first() -> None:
    """By the language's files or by its own patterns; what nobody checks has none."""
    lints: dict[str, Any] = {
        "python": {"command": ["flake"]},
        "mine": {"command": ["/usr/bin/env"], "files": ["conf/*.ini"], "input": "path", "exit_codes": [0]},
    }
    mine = find_linter("conf/a.ini", lints)
    assert mine is not None
    assert (mine.source, mine.stdin, mine.exit_codes, mine.reads[0].absolute) == ("env", False, (0,), "/usr/bin")
    python = find_linter("a/b.py", lints)
    assert python is not None
    assert (python.source, python.format) == ("flake", "gcc")
    assert find_linter("other/a.ini", lints) is None
    assert os.path.basename((find_linter("x.sh", {}) or python).argv[0]) == "bash"

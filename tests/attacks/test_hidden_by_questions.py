"""A hidden value is not read out by questions either: answers are the same whatever the value is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.output.redact import Redactor
from handrail.ports import Limits
from handrail.tools.fs._diff import diff_compared
from handrail.tools.fs.apply_patch import apply_patch
from handrail.tools.fs.edit_file import edit_file
from tools._fakes import desk_at

VALUES = (
    "sk-ant-api03-" + "Zq8Lw2Xv9Rb4Tn6Yc1Md7Kf3Hp5Js0Gu" * 2,
    "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0xx" * 2,
)
PASSWORDS = ("sunny4-horse-battery9", "~rainy4-horse-battery9")
KEYS = ("MIIEpAIBAAKCAQEA7bq9CyVcGnNgKf2Zx0", "MIIEowIBAAKCAQEA1xw8DyUdFmMhLe3Yw1")


def text_with(number: int) -> str:
    """A file that differs only in what is hidden of it."""
    value, key = VALUES[number], f"{KEYS[number]}\n" * 4
    key = "-----BEGIN " + f"RSA PRIVATE KEY-----\n{key}-----END " + "RSA PRIVATE KEY-----\n"
    return f"name = demo\nAPI_KEY = {value} # last\nTOKEN={value}\npassword: {PASSWORDS[number]}\n{key}end\n"


def test_the_two_files_look_the_same() -> None:
    """Otherwise nothing below would say anything."""
    shown = [Redactor(engine="plain").text(text_with(number)) for number in (0, 1)]
    assert shown[0] == shown[1]
    assert not any(part in shown[0] for part in ("Zq8", "horse", "MIIE"))


# ── edits and patches ────────────────────────────────────────────────────────────────────────


def edits_of(old: str, new: str = "q") -> dict[str, Any]:
    """One edit, tried."""
    return {"path": "a.ini", "dry_run": True, "edits": [{"old": old, "new": new}]}


def patch_of(*lines: str) -> dict[str, Any]:
    """One hunk, tried."""
    return {
        "patch": "*** Begin Patch\n*** Update File: a.ini\n" + "\n".join(lines) + "\n*** End Patch",
        "dry_run": True,
    }


QUESTIONS: list[tuple[Any, dict[str, Any]]] = [
    (edit_file, edits_of("API_KEY = sk-ant-api03-Zq8")),
    (edit_file, edits_of("API_KEY = sk-ant-api03-Zq8QQQ # last")),
    (edit_file, edits_of("API_KEY = sk-ant-api03-Z", "w")),
    (edit_file, edits_of("Gu # last")),
    (edit_file, edits_of("Zq8L")),
    (edit_file, edits_of("sunny", "rainy")),
    (edit_file, edits_of("sunny horse battery staple")),
    (edit_file, edits_of("password: sunny4-horse-batterz")),
    (edit_file, edits_of("not there at all", "password: sunny4-horse and so on"[:21] + "")),
    (edit_file, edits_of("not there at all", "API_KEY = sk-ant-api03")),
    (edit_file, edits_of("not there at all", "demo\nAPI_KEY = sk-ant-api03")),
    (edit_file, edits_of(f"{KEYS[0]}\n")),
    (edit_file, edits_of(f"  {KEYS[0]}\n  {KEYS[0]}\n")),
    (apply_patch, patch_of("@@", f" {KEYS[0]}", "+more")),
    (apply_patch, patch_of("@@", f"-{KEYS[0]}", f"-{KEYS[0]}", "+more")),
    (apply_patch, patch_of("@@", f"-no such line {KEYS[0]}", f"+{KEYS[0]}")),
    (apply_patch, patch_of("@@ API_KEY = sk-ant-api03-Z", "+more")),
    (apply_patch, patch_of("@@ password: sunny", "+more")),
    (apply_patch, patch_of("@@", " name = demo", "-API_KEY = sk-ant-api03-Zq8QQQ", "+more")),
]


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
async def test_an_edit_that_guesses_a_part_answers_the_same(tmp_path: Path, number: int) -> None:
    """Right or wrong, nothing is found, and what is said of the nearest place is said of what is shown."""
    tool, args = QUESTIONS[number]
    told = []
    for value in (0, 1):
        folder = tmp_path / str(value)
        folder.mkdir()
        async with desk_at(folder) as desk:
            desk.put("a.ini", text_with(value))
            problem = await desk.problem(tool, **args)
            told.append((problem.code, problem.message, problem.details, problem.next_call))
    assert told[0] == told[1]
    assert told[0][0] in (Code.NO_MATCH, Code.AMBIGUOUS_MATCH)


@pytest.mark.parametrize("value", [0, 1])
async def test_no_edit_is_said_to_be_made_before_by_a_part_of_a_value(tmp_path: Path, value: int) -> None:
    """The new text would stand there already, up to the middle of a value."""
    async with desk_at(tmp_path) as desk:
        desk.put("a.ini", text_with(value))
        answer = await desk.call(edit_file, **edits_of("name = demo\n", "name = demo\nAPI_KEY = sk-ant-api03-Z"))
        assert answer.data.replacements == 1


async def test_who_knows_a_value_may_replace_it(tmp_path: Path) -> None:
    """A whole value is found, and so is what stands around one."""
    async with desk_at(tmp_path) as desk:
        desk.put("a.ini", text_with(0))
        await desk.call(edit_file, path="a.ini", edits=[{"old": VALUES[0] + " # last", "new": "none # last"}])
        await desk.call(edit_file, path="a.ini", edits=[{"old": f"TOKEN={VALUES[0]}\n", "new": "TOKEN=\n"}])
        await desk.call(edit_file, path="a.ini", edits=[{"old": "password: ", "new": "password:  "}])
        assert desk.bytes("a.ini").startswith(
            b"name = demo\nAPI_KEY = none # last\nTOKEN=\npassword:  sunny4-horse-bat"
        )


@pytest.mark.parametrize("tool", [edit_file, apply_patch])
async def test_a_change_around_a_value_does_not_show_it(tmp_path: Path, tool: Any) -> None:
    """A name that made it a secret is taken away; the diff still hides what was hidden."""
    async with desk_at(tmp_path) as desk:
        desk.put("a.ini", "name = demo\npassword = hunter2hunter2\nlast\n")
        args = edits_of("password", "title")
        if tool is apply_patch:
            args = patch_of("@@", " name = demo", "-password = hunter2hunter2", "+title = hunter2hunter2")
        answer = await desk.call(tool, **args)
        assert "+title = ***REDACTED***\n" in answer.data.diff
        assert "hunter2" not in f"{answer.content}{await desk.preview(tool, **args)}"


def test_a_key_without_its_first_line_is_not_shown_by_a_diff() -> None:
    """Its lines stand where they stood; only what they were known by is gone."""
    after = text_with(0).replace("-----BEGIN " + "RSA PRIVATE KEY-----\n", "# none\n")
    told = diff_compared(text_with(0), after, "a.ini", Redactor(engine="plain"), Limits())
    assert "+# none" in told
    assert KEYS[0] not in told


async def test_a_diff_shows_no_change_that_is_none(tmp_path: Path) -> None:
    """A hidden value may be an ordinary word: where it stands in lines that stay, these stay as they are."""
    before = 'URL = "postgres://postgres:postgres@db/app"\nDRIVER = "postgres"\nport = 80\n'
    (tmp_path / "a.ini").write_text(before)
    async with desk_at(tmp_path) as desk:
        answer = await desk.call(edit_file, **edits_of("port = 80", "port = 81"))
    changed = [line for line in str(answer.content).splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ["-port = 80", "+port = 81"]


def test_a_problem_is_whole() -> None:
    """What is compared above holds all that a caller is told."""
    assert {"code", "message", "details", "next_call"} <= set(vars(Problem(Code.NO_MATCH, "x")))

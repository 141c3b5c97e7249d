"""Cards of real requests at 80 columns: what changes, why, what each answer covers; nothing bound is hidden."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from fronts.test_mcp_approvals import FORMS, opened
from fronts.test_mcp_approvals import is_question as is_form
from handrail import Runtime
from handrail.approvals.card import card, list_answers
from handrail.approvals.show import Setting, lines, plain
from handrail.ports import Request
from handrail.testing import ScriptedApprover
from handrail.words import Scope

CONFIG: dict[str, Any] = {
    "tools": {"enable": ["fs", "exec", "delete_path"]},
    "approvals": {"max_scope": "always"},
    "limits": {"max_repeats": 0},
}
README = "# Shop\n\nIt greets people.\n\nThe end.\n"
POLITE = README.replace("people.", "people, politely.")
OVERWRITE = {"path": "README.md", "content": POLITE, "mode": "overwrite", "expected_sha256": "*"}


@pytest.fixture(autouse=True)
def shop(work: Path, own_user: Path) -> None:
    """A file to change, in a workspace of a user of their own."""
    (work / "README.md").write_text(README)
    (work / "sub").mkdir()


async def asked(work: Path, tool: str, args: dict[str, Any], **config: Any) -> Request:
    """What a person is asked for a call."""
    person = ScriptedApprover("no")
    async with Runtime.open(work, config={**CONFIG, **config}, approver=person) as runtime:
        await runtime.call(tool, args)
    (request,) = person.asked
    return request


def shown(request: Request, work: Path) -> list[str]:
    """The card with all answers that may be given, as an 80 columns wide terminal shows it."""
    wide = request.max_scope > Scope.CALL
    answers = [("y", "once", False), *((("r", "this run", True), ("a", "always", True)) if wide else ())]
    answers += [("n", "no", False), ("t", "no, tell it why", False), ("d", "details", False)]
    text = plain(card(request, 80, Setting(home=str(work.parent)))) + plain(list_answers(request, answers, 80))
    assert all(len(line) <= 80 for line in text.splitlines())
    return text.splitlines()


async def test_a_small_change_takes_eight_lines(work: Path) -> None:
    """As the design has it, with the two arguments that are not as always."""
    assert shown(await asked(work, "write_file", OVERWRITE), work) == [
        f" write_file  README.md  replace, can be undone{f'python in ~/{work.name}':>33}",
        '  │ mode: "overwrite"',
        '  │ expected_sha256: "*"',
        "  │ -It greets people.",
        "  │ +It greets people, politely.",
        " why   README.md exists and would be replaced  (defaults.overwrite)",
        " y once · r this run: write_file README.md · a always: write_file README.md",
        " n no · t no, tell it why · d details",
    ]


@pytest.mark.parametrize(
    ("tool", "args", "first", "rest"),
    [
        ("delete_path", {"path": "README.md", "confirm": True}, "delete_path  README.md  delete, can be undone", ()),
        ("run_command", {"command": "pytest -q"}, "run_command", ("  │ pytest -q", "a always: pytest *")),
        (
            "run_command",
            {"command": "cd sub && make x | tail -3", "timeout_seconds": 9},
            "run_command",
            ("  │ cd sub && make x | tail -3", "  │ cd sub", "  │ make x", "  │ tail -3", "timeout_seconds: 9"),
        ),
        (
            "run_command",
            {"command": "bash x.sh", "cwd": "sub", "env": {"A": "b"}, "background": True, "stdin": "typed"},
            "run_command",
            (" in    sub", '  │   A: "b"', "background: true", 'stdin: "typed"', "exactly this line"),
        ),
    ],
)
async def test_other_calls_have_the_same_shape(
    work: Path, tool: str, args: dict[str, Any], first: str, rest: tuple[str, ...]
) -> None:
    """The tool and its target, all that is not as always, why, the answers; at most twelve lines of what is short."""
    need_sandbox()
    found = shown(await asked(work, tool, args), work)
    assert found[0].startswith(f" {first}  ")
    assert found[0].endswith(f"python in ~/{work.name}")
    for text in rest:
        assert any(text in line for line in found), text
    why = next(number for number, line in enumerate(found) if line.startswith(" why   "))
    answers = next(number for number, line in enumerate(found) if line.startswith(" y once"))
    assert 0 < why < answers
    assert len(found) <= 12 + ("env" in args) * 4


async def test_what_a_command_may_reach_and_change_beyond_the_ordinary_is_on_the_card(
    work: Path, tmp_path: Path
) -> None:
    """Allowed hosts, further folders for writing and sockets; an ordinary sandbox is not spoken of."""
    need_sandbox()
    plainly = shown(await asked(work, "run_command", {"command": "make x"}), work)
    assert [line for line in plainly if line.startswith(("  may ", "  sandbox"))] == []
    extra = tmp_path / "extra"
    extra.mkdir()
    more = {
        "workspace": {"write": [str(extra)]},
        "exec": {"allowed_hosts": ["pypi.org"], "allowed_sockets": ["a.sock"]},
    }
    found = shown(await asked(work, "run_command", {"command": "make x"}, **more), work)
    for head, text in (("may reach", "pypi.org"), ("may change", str(extra)), ("may use", "a.sock")):
        assert found[found.index(f"  {head}") + 1].startswith(f"  │ {text[:60]}")


async def test_every_argument_is_on_the_card_unless_it_is_a_default_or_in_the_diff(work: Path) -> None:
    """One that is given another value than its default is there, one that is given its default is not."""
    usual = await asked(work, "write_file", {**OVERWRITE, "mkdirs": True})
    assert "mkdirs" not in "\n".join(shown(usual, work))
    request = await asked(work, "write_file", {**OVERWRITE, "mkdirs": False})
    text = "\n".join(shown(request, work))
    left_out = {name for name in request.params if f"{name}: " not in text}
    assert left_out == {*request.aside, "path"}, "the path is in the first line"
    assert "mkdirs" not in left_out
    assert "content" not in text
    whole = plain(lines(request, 0.0, 80))
    assert "content: " in whole


async def test_a_trusted_form_is_the_same_card(work: Path) -> None:
    """In the same order, with what the wider answers cover; the request can be shown whole by its id."""
    async with opened(
        work, modern=False, trust=True, more={"approvals": {"max_scope": "always"}}, capabilities=FORMS
    ) as scene:
        calling = asyncio.ensure_future(scene.talk.call("write_file", OVERWRITE))
        form = await scene.talk.until(is_form)
        calling.cancel()
    text = form["params"]["message"]
    parts = ("write_file  README.md  replace, can be undone", 'mode: "overwrite"', "-It greets people.", " why   ")
    places = [text.index(part) for part in (*parts, "this run and always cover", "handrail approvals show apr_")]
    assert places == sorted(places)
    assert [part for part in ("digest", "expires", "mkdirs", "The end") if part in text] == []

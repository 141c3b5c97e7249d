"""Scripts of skills through the gate: asked for, bound to what was shown, confined."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from handrail.errors import Problem
from handrail.ports import Reply
from handrail.sandbox.choose import choose
from handrail.store import reader
from handrail.testing import ScriptedApprover
from handrail.words import Scope
from tools._skill_desk import put_skill

ARGV = "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.getcwd()]))\n"


@pytest.fixture
def skills(work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a skill that has scripts, where programs can be confined."""
    monkeypatch.setenv("HOME", str(own_user))
    try:
        choose(backend="auto", min_tier="B", allow_unconfined=False, cache_dir=own_user)
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)
    folder = work / ".agents/skills"
    files = {
        "scripts/argv.py": ARGV,
        "scripts/fails.sh": "echo out; echo err >&2; exit 7\n",
        "scripts/writes.sh": "#!/bin/sh\necho x > made.txt && cat made.txt\n",
        "scripts/reads.sh": "cat ../references/a.md\n",
        "references/a.md": "abc\n",
    }
    put_skill(folder, "pdf", files=files)
    return folder


async def test_a_script_is_asked_for_and_gets_its_arguments_as_they_are(opens: Any, skills: Path) -> None:
    """The person sees the script itself; a yes for the run covers the same call of it and no other."""
    approver = ScriptedApprover("run")
    args = ["a b", "$(id)", "`id`", "; exit 3", "", "*", "--flag=é"]
    async with opens(enable=("exec",), approver=approver) as runtime:
        outcome = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py", "args": args})
        await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py", "args": args})
        assert len(approver.asked) == 1
        await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py", "args": ["other"]})
    assert outcome.ok, outcome.content
    assert orjson.loads(outcome.data["stdout"])[0] == args
    assert (outcome.scope, len(approver.asked)) == ("run", 2)
    assert approver.asked[0].diff.endswith(ARGV)
    assert approver.asked[0].impact["reads"] == [".agents/skills/pdf/scripts/argv.py"]


async def test_it_is_off_until_enabled(opens: Any, skills: Path) -> None:
    """And then a skill can leave it out, where skills narrow."""
    call = ("run_script", {"skill": "pdf", "script": "scripts/argv.py"})
    put_skill(skills, "narrow", "allowed-tools: Read")
    approver = ScriptedApprover("once")
    async with opens(approver=approver) as runtime:
        off = await runtime.call(*call)
    config = {"skills": {"narrow": True}}
    async with opens(enable=("run_script",), config=config, approver=approver) as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
        narrowed = await runtime.call(*call)
    rules = [outcome.error.details["rule"] for outcome in (off, narrowed)]
    assert (rules, approver.asked) == (["enablement.not-enabled", "skills.allowed-tools"], [])


@pytest.mark.parametrize("path", ["scripts/argv.py", "references/a.md", "scripts/new.py"])
async def test_an_approval_is_bound_to_the_whole_skill(opens: Any, skills: Path, path: str) -> None:
    """The script, what it could read, and what it could import."""
    call: tuple[str, dict[str, Any]] = ("run_script", {"skill": "pdf", "script": "scripts/argv.py"})
    async with opens(enable=("exec",), mode="headless") as runtime:
        pending = await runtime.call(*call)
        request = pending.error.details["approval"]["id"]
        runtime.parts.ledger.answer(request, Reply("granted", Scope.CALL, by="me"))
        file = skills / "pdf" / path
        before = file.read_bytes() if file.exists() else None
        file.write_text("print('other')\n")
        changed = await runtime.call(*call, approval=request)
        file.unlink() if before is None else file.write_bytes(before)
        same = await runtime.call(*call, approval=request)
    codes = [outcome.error and outcome.error.code for outcome in (pending, changed, same)]
    assert codes == ["APPROVAL_REQUIRED", "APPROVAL_DENIED", None]


async def test_a_script_that_changes_while_a_person_reads_it_is_not_run(opens: Any, skills: Path) -> None:
    """What was shown is what runs, or nothing."""

    def swapping(_: object) -> str:
        (skills / "pdf/scripts/argv.py").write_text("open('/tmp/never', 'w')\n")
        return "once"

    async with opens(enable=("exec",), approver=ScriptedApprover(swapping)) as runtime:
        outcome = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py"})
    assert outcome.error.code == "APPROVAL_DENIED"


async def test_a_script_that_fails_keeps_its_output(opens: Any, skills: Path) -> None:
    """EXIT_NONZERO with both streams."""
    async with opens(enable=("exec",), approver=ScriptedApprover("once")) as runtime:
        outcome = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/fails.sh"})
    details = outcome.error.details
    assert (outcome.error.code, details["exit_code"]) == ("EXIT_NONZERO", 7)
    assert (details["stdout"], details["stderr"]) == ("out\n", "err\n")


async def test_a_script_works_in_scratch_and_only_reads_its_skill(opens: Any, skills: Path) -> None:
    """It may write where it works by default, and not into its own folder, also as its working folder."""
    async with opens(enable=("exec",), approver=ScriptedApprover("once")) as runtime:
        scratch = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/writes.sh"})
        own = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/writes.sh", "cwd": "skill"})
        where = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py", "cwd": "skill"})
    assert (scratch.ok, own.error.code) == (True, "EXIT_NONZERO")
    assert orjson.loads(where.data["stdout"])[1] == str(skills / "pdf")
    assert not (skills / "pdf/made.txt").exists()


@pytest.mark.parametrize("how", ["direct", "review"])
async def test_what_a_script_changed_is_told(opens: Any, skills: Path, work: Path, how: str) -> None:
    """In the workspace, as for a command: what it made and what it changed, whether reviewed or not."""
    (work / "old.txt").write_text("old\n")
    put_skill(skills, "web", files={"scripts/a.sh": 'cd "$1"; echo new > old.txt; echo new > made.txt\n'})
    call = ("run_script", {"skill": "web", "script": "scripts/a.sh", "args": [str(work)]})
    config = {"exec": {"workspace": how, "min_tier": "A"}}
    approver = ScriptedApprover("once")
    async with opens(enable=("exec",), config=config, approver=approver) as runtime:
        outcome = await runtime.call(*call)
        events = [event for event in reader.events(runtime.parts.folder.path) if event["kind"] == "tool.completed"]
    assert outcome.ok, outcome.content
    assert sorted(outcome.data["files_changed"]) == ["made.txt", "old.txt"]
    assert [(item["path"], item["op"]) for item in sorted(events[-1]["files_changed"], key=lambda i: i["path"])] == [
        ("made.txt", "create"),
        ("old.txt", "replace"),
    ]
    assert ((work / "old.txt").read_text(), (work / "made.txt").read_text()) == ("new\n", "new\n")
    assert len(approver.asked) == (2 if how == "review" else 1)


async def test_a_script_of_the_users_own_skill_runs(opens: Any, skills: Path, own_user: Path) -> None:
    """Their folder can be read in the sandbox."""
    put_skill(own_user / ".agents/skills", "mine", files={"scripts/a.sh": "cat $(dirname $0)/../SKILL.md\n"})
    async with opens(enable=("exec",), approver=ScriptedApprover("once")) as runtime:
        outcome = await runtime.call("run_script", {"skill": "mine", "script": "scripts/a.sh"})
    assert outcome.ok, outcome.content
    assert "About mine." in outcome.data["stdout"]


async def test_a_script_is_never_taken_for_a_harmless_command(opens: Any, skills: Path) -> None:
    """Whatever its first line names: a script asks."""
    put_skill(skills, "cat", files={"scripts/a": "#!/bin/cat\nx\n"})
    approver = ScriptedApprover("no")
    async with opens(enable=("exec",), approver=approver) as runtime:
        outcome = await runtime.call("run_script", {"skill": "cat", "script": "scripts/a"})
    assert (outcome.error.code, len(approver.asked)) == ("APPROVAL_DENIED", 1)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"skill": "pdg", "script": "scripts/argv.py"}, "NOT_FOUND"),
        ({"skill": "pdf", "script": "scripts/argw.py"}, "NOT_FOUND"),
        ({"skill": "pdf", "script": "scripts/../references/a.md"}, "PATH_OUTSIDE_ROOTS"),
        ({"skill": "pdf", "script": "SKILL.md/"}, "INVALID_ARGS"),
    ],
)
async def test_nobody_is_asked_about_a_script_that_cannot_run(
    opens: Any, skills: Path, args: dict[str, Any], code: str
) -> None:
    """It fails before that, with what would mend it."""
    approver = ScriptedApprover("once")
    async with opens(enable=("exec",), approver=approver) as runtime:
        outcome = await runtime.call("run_script", args)
    assert (outcome.error.code, approver.asked) == (code, [])


async def test_a_rule_can_let_one_script_run(opens: Any, skills: Path) -> None:
    """By the words that would run; with other arguments it asks."""
    path = skills / "pdf/scripts/argv.py"
    rule = {"effect": "allow", "touch": "proc.exec", "target": f"python3 {path} ok"}
    approver = ScriptedApprover("no")
    async with opens(enable=("exec",), config={"rules": [rule]}, approver=approver) as runtime:
        fits = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py", "args": ["ok"]})
        other = await runtime.call("run_script", {"skill": "pdf", "script": "scripts/argv.py", "args": ["no"]})
    assert fits.ok, fits.content
    assert (other.error.code, len(approver.asked)) == ("APPROVAL_DENIED", 1)

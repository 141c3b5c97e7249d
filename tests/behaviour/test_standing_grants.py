"""Answers that last: for the run, and always in one workspace; never more than the person was shown."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from handrail import Runtime
from handrail.ports import Reply, Request
from handrail.settings import load
from handrail.testing import ScriptedApprover
from handrail.words import Outcome, Scope

ALWAYS: dict[str, Any] = {"tools": {"enable": ["fs", "exec", "delete_path"]}, "approvals": {"max_scope": "always"}}
OVERWRITE = {"path": "a.txt", "content": "new\n", "mode": "overwrite", "expected_sha256": "*"}


@pytest.fixture(autouse=True)
def file(work: Path, own_user: Path) -> None:
    """Something to overwrite, in a workspace of a user of their own."""
    (work / "a.txt").write_text("old\n")


async def asked(work: Path, tool: str, *calls: dict[str, Any], **how: Any) -> tuple[list[Outcome], list[Request]]:
    """Make calls in one run; what a person was asked, who gives the same answer each time."""
    person = ScriptedApprover(how.pop("answer", "no"))
    async with Runtime.open(work, config=how.pop("config", ALWAYS), approver=person, **how) as runtime:
        return [await runtime.call(tool, dict(args)) for args in calls], person.asked


def lines(*commands: str) -> list[dict[str, Any]]:
    """Calls of run_command."""
    return [{"command": command} for command in commands]


# ── always ───────────────────────────────────────────────────────────────────────────────────


async def test_a_yes_for_always_is_not_asked_for_again_in_later_runs(work: Path) -> None:
    """The same tool with the same path; another path, another tool and deleting ask as before."""
    (work / "b.txt").write_text("old\n")
    (first,), questions = await asked(work, "write_file", OVERWRITE, answer="always")
    assert (first.ok, first.scope, len(questions)) == (True, "always", 1)
    (again, other), questions = await asked(work, "write_file", OVERWRITE, {**OVERWRITE, "path": "b.txt"})
    assert (again.ok, again.scope) == (True, "always")
    assert (other.error is not None, [item.params["path"] for item in questions]) == (True, ["b.txt"])
    _, questions = await asked(work, "delete_path", {"path": "a.txt", "confirm": True})
    assert [item.max_scope for item in questions] == [Scope.CALL]


async def test_a_standing_grant_says_who_when_and_for_which_call(work: Path) -> None:
    """And it ends only where the person said when."""
    await asked(work, "write_file", OVERWRITE, answer="always")
    async with Runtime.open(work, config=ALWAYS) as runtime:
        ledger, clock = runtime.parts.ledger, runtime.parts.clock
        ((grant, request),) = ledger.standing(clock.now())
        assert (grant.given_by, request.tool, request.workspace) == ("script", "write_file", str(work.resolve()))
        assert request.call_id
        assert 0 < grant.given_at <= clock.now()
        assert grant.expires > clock.now() + 100 * 365 * 86400
    (work / "b.txt").write_text("old\n")
    over = Reply("granted", Scope.ALWAYS, by="ann", expires=1.0)
    (outcome,), _ = await asked(work, "write_file", {**OVERWRITE, "path": "b.txt"}, answer=over)
    assert outcome.error is not None
    assert outcome.error.code == "APPROVAL_DENIED"


async def test_removed_it_asks_again_in_a_run_that_goes_on(work: Path) -> None:
    """The ledger is looked at for every call."""
    person = ScriptedApprover("always", "no")
    async with Runtime.open(work, config=ALWAYS, approver=person) as runtime:
        assert (await runtime.call("write_file", dict(OVERWRITE))).ok
        assert (await runtime.call("write_file", dict(OVERWRITE))).ok
        ((grant, _),) = runtime.parts.ledger.standing(runtime.parts.clock.now())
        assert runtime.parts.ledger.revoke(grant.id, "ann")
        assert not (await runtime.call("write_file", dict(OVERWRITE))).ok
    assert len(person.asked) == 2


async def test_other_settings_do_not_take_it_out_of_force_and_a_denial_does(work: Path) -> None:
    """It is bound to no policy, lifts ask and never deny, and counts for nothing where less may be granted."""
    await asked(work, "write_file", OVERWRITE, answer="always")
    other = {**ALWAYS, "limits": {"bulk_files": 7}, "rules": [{"effect": "ask", "touch": "fs.write", "target": "**"}]}
    (outcome,), questions = await asked(work, "write_file", OVERWRITE, config=other)
    assert (outcome.ok, questions) == (True, [])
    denied = {**ALWAYS, "rules": [{"effect": "deny", "touch": "fs.write", "target": "a.txt"}]}
    (outcome,), questions = await asked(work, "write_file", OVERWRITE, config=denied)
    assert (outcome.status, questions) == ("denied", [])
    narrow = {**ALWAYS, "approvals": {"max_scope": "run"}}
    _, questions = await asked(work, "write_file", OVERWRITE, config=narrow)
    assert [item.max_scope for item in questions] == [Scope.RUN]


async def test_two_folders_of_the_same_name_do_not_share_it(work: Path, tmp_path: Path) -> None:
    """Nor does a link to one of them make it another's; its canonical path counts."""
    await asked(work, "write_file", OVERWRITE, answer="always")
    other = tmp_path / "elsewhere" / work.name
    other.mkdir(parents=True)
    (other / "a.txt").write_text("old\n")
    _, questions = await asked(other, "write_file", OVERWRITE)
    assert len(questions) == 1
    link = tmp_path / "link"
    link.symlink_to(work)
    _, questions = await asked(link, "write_file", OVERWRITE)
    assert questions == []


async def test_a_folder_that_was_moved_or_replaced_does_not_have_it(work: Path, tmp_path: Path) -> None:
    """The path alone does not count: another folder may be there. Put back, the first one has its grant again."""
    await asked(work, "write_file", OVERWRITE, answer="always")
    away = tmp_path / "away"
    work.rename(away)
    _, questions = await asked(away, "write_file", OVERWRITE)
    assert len(questions) == 1, "moved"
    shutil.copytree(away, work)
    _, questions = await asked(work, "write_file", OVERWRITE)
    assert len(questions) == 1, "replaced by another folder at the same path"
    shutil.rmtree(work)
    work.symlink_to(away)
    _, questions = await asked(work, "write_file", OVERWRITE)
    assert len(questions) == 1, "replaced by a link to where it is now"
    work.unlink()
    away.rename(work)
    _, questions = await asked(work, "write_file", OVERWRITE)
    assert questions == []


async def test_a_folder_made_again_at_once_does_not_have_it(work: Path) -> None:
    """File systems give a number again that has become free; the time of birth tells the two apart."""
    await asked(work, "write_file", OVERWRITE, answer="always")
    for _ in range(3):
        shutil.rmtree(work)
        work.mkdir()
        (work / "a.txt").write_text("old\n")
        _, questions = await asked(work, "write_file", OVERWRITE)
        assert len(questions) == 1


async def test_a_session_does_not_outlast_its_folder_either(work: Path) -> None:
    """Like a standing grant, it holds in later runs."""
    session = {**ALWAYS, "approvals": {"max_scope": "session"}}
    await asked(work, "write_file", OVERWRITE, config=session, answer="session")
    assert (await asked(work, "write_file", OVERWRITE, config=session))[1] == []
    shutil.copytree(work, work.with_name("copy"))
    shutil.rmtree(work)
    work.with_name("copy").rename(work)
    assert len((await asked(work, "write_file", OVERWRITE, config=session))[1]) == 1


async def test_a_project_can_neither_write_nor_widen_it(work: Path, own_user: Path) -> None:
    """Its own file cannot raise what may be granted, and tools do not reach the ledger."""
    (work / "handrail.toml").write_text('[approvals]\nmax_scope = "always"\n[tools]\nenable = ["fs"]\n')
    found = load(work, environment={"HOME": str(own_user)})
    assert found.settings.approvals.max_scope == "run"
    async with Runtime.open(work, config=ALWAYS) as runtime:
        ledger = runtime.parts.ledger.path
    wide = {**ALWAYS, "workspace": {"allow_absolute": True, "write": [str(Path(ledger).parent)]}}
    (outcome,), _ = await asked(work, "write_file", {**OVERWRITE, "path": ledger}, config=wide, answer="always")
    assert outcome.status == "denied"


# ── commands ─────────────────────────────────────────────────────────────────────────────────


async def test_a_pattern_of_a_command_lasts(work: Path) -> None:
    """`make NAME` in any later run; with another command beside it, it asks."""
    need_sandbox()
    (work / "Makefile").write_text("test:\n\t@echo tested\nship:\n\t@echo shipped\n")
    (first,), (question,) = await asked(work, "run_command", *lines("make test"), answer="always")
    assert first.ok
    assert question.touches == (("proc.exec", "make test"),)
    outcomes, questions = await asked(
        work, "run_command", *lines("make test | tail -1", "make ship", "make test; true")
    )
    assert [item.ok for item in outcomes] == [True, False, True]
    assert [item.params["command"] for item in questions] == ["make ship"]
    outcomes, questions = await asked(work, "run_command", {"command": "make test", "background": True})
    assert len(questions) == 1


async def test_a_pattern_covers_neither_redirects_nor_variables_nor_other_folders(work: Path) -> None:
    """What a redirect replaces is judged as ever; a call's own variables and input leave the exact line."""
    need_sandbox()
    (work / "Makefile").write_text("test:\n\t@echo tested\n")
    (work / ".git").mkdir()
    await asked(work, "run_command", *lines("make test"), answer="always")
    free = ("make test > new.txt", "make test 2>&1 | tail -1", "make test < a.txt")
    outcomes, questions = await asked(work, "run_command", *lines(*free))
    assert ([item.ok for item in outcomes], questions) == ([True] * len(free), [])
    for line in (
        *(
            "make test > a.txt",
            "make test 2> a.txt",
            "make test >> a.txt",
            "make test > .bashrc",
            "make test | tee a.txt",
        ),
        *("make test >| a.txt", "make test &> a.txt", "MAKEFLAGS=-s make test", "cd .. && make test", "make test; ./x"),
        *("cd /tmp && make test", "make test -f a.txt", "make test > $X", "exec > a.txt; make test"),
    ):
        outcomes, questions = await asked(work, "run_command", *lines(line))
        assert (len(questions), outcomes[0].ok) in ((1, False), (0, False)), line
        assert (work / "a.txt").read_text() == "old\n", line
    for more in ({"env": {"MAKEFLAGS": "-s"}}, {"stdin": "x"}, {"background": True}):
        assert len((await asked(work, "run_command", {"command": "make test", **more}))[1]) == 1, more
    (hooked,), questions = await asked(work, "run_command", *lines("make test > .git/hooks/x"), answer="always")
    assert (hooked.status, questions) == ("denied", [])


@pytest.mark.parametrize("name", [".vscode/settings.json", "mise.toml", "AGENTS.md", ".github/workflows/x.yml"])
async def test_what_runs_outside_the_sandbox_is_asked_for_each_time(work: Path, name: str) -> None:
    """With its diff: a yes to one content is none to the next, whatever the person answers and by whatever tool."""
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text("harmless\n")
    writes = [{**OVERWRITE, "path": name, "content": f"{number}\n"} for number in range(2)]
    outcomes, questions = await asked(work, "write_file", *writes, answer="always")
    assert [item.ok for item in outcomes] == [True, True]
    assert [(item.max_scope, bool(item.diff)) for item in questions] == [(Scope.CALL, True)] * 2
    need_sandbox()
    border = {**ALWAYS, "exec": {"workspace": "review", "ask": "border"}, "limits": {"max_repeats": 0}}
    calls = [{"command": f"echo {number} > {name}"} for number in (5, 6)]
    outcomes, questions = await asked(work, "run_command", *calls, config=border, answer="always")
    assert [(item.max_scope, bool(item.diff)) for item in questions] == [(Scope.CALL, True)] * 2
    assert (work / name).read_text() == "6\n"


async def test_no_program_sees_the_ledger(work: Path) -> None:
    """Whoever could write it could say yes to everything."""
    need_sandbox()
    await asked(work, "write_file", OVERWRITE, answer="always")
    async with Runtime.open(work, config=ALWAYS) as runtime:
        ledger = Path(runtime.parts.ledger.path)
    assert ledger.exists()
    script = f"import os; print([os.path.exists(p) for p in ({str(ledger)!r}, {str(ledger)!r} + '-wal')])"
    (work / "look.py").write_text(script)
    (outcome,), _ = await asked(work, "run_command", *lines("python3 look.py"), answer="once")
    assert outcome.data["stdout"] == "[False, False]\n", outcome.content


async def test_an_exact_line_lasts_as_long_as_the_file_that_it_runs(work: Path) -> None:
    """Also under other settings; a changed script, folder or variable asks."""
    need_sandbox()
    (work / "build.sh").write_text("echo one\n")
    (work / "sub").mkdir()
    (first,), _ = await asked(work, "run_command", *lines("bash build.sh"), answer="always")
    other = {**ALWAYS, "exec": {"max_processes": 99}}
    (again,), questions = await asked(work, "run_command", *lines("bash build.sh"), config=other)
    assert (first.ok, again.ok, questions) == (True, True, [])
    for args in ({"command": "bash build.sh x"}, {"command": "bash build.sh", "env": {"A": "b"}}):
        assert len((await asked(work, "run_command", args))[1]) == 1
    (work / "build.sh").write_text("echo two\n")
    assert len((await asked(work, "run_command", *lines("bash build.sh")))[1]) == 1


async def test_the_same_line_is_not_asked_for_twice_in_a_run_after_a_yes_for_it(work: Path) -> None:
    """And in the next run it is."""
    need_sandbox()
    config = {**ALWAYS, "approvals": {"max_scope": "run"}}
    line = "python3 -c 'print(1)'"
    outcomes, questions = await asked(work, "run_command", *lines(line, line, line), config=config, answer="run")
    assert ([item.ok for item in outcomes], len(questions)) == ([True] * 3, 1)
    assert len((await asked(work, "run_command", *lines(line), config=config))[1]) == 1

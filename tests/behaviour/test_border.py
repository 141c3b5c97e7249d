"""Commands that run without a question: what they change is judged, each change by itself."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Outcome, Runtime
from handrail.ports import Reply
from handrail.testing import ScriptedApprover
from workspaces import below

BORDER: dict[str, Any] = {
    "exec": {"workspace": "review", "ask": "border"},
    "limits": {"max_repeats": 1000, "bulk_files": 5},
}
NOBODY = "no"


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture(autouse=True)
def files(work: Path) -> None:
    """Something to change."""
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "d").mkdir()
    for number in range(8):
        (work / f"d/{number}").write_text(f"{number}\n")


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository with one commit."""
    for line in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "Ann"),
        ("config", "user.email", "ann@example.org"),
        ("add", "-A"),
        ("commit", "-qm", "one"),
    ):
        subprocess.run(["git", *line], cwd=work, check=True, capture_output=True)
    return work


async def at_border(work: Path, command: str, answer: str = NOBODY, **how: Any) -> tuple[Outcome, ScriptedApprover]:
    """Run one command; a person who is asked says `answer`."""
    approver = ScriptedApprover(lambda _: answer)
    config = {**BORDER, **how.pop("config", {})}
    async with runtime(work, config=config, approver=approver, **how) as opened:
        return await run(opened, command), approver


# ── what is kept without a question ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "line",
    [
        "echo hi > new.txt",
        "sed -i s/one/eins/ a.txt",
        "rm a.txt",
        "mv a.txt b.txt",
        "rm d/0 d/1 d/2 d/3 d/4",
        'eval "$(printf "echo x > y")"',
        'python3 -c \'open("p", "w").write("x")\'',
        "bash -c 'for i in 1 2 3; do echo $i > f$i; done'",
        "ln -s a.txt link",
        "ln -s /usr/bin/env env",
    ],
)
async def test_ordinary_work_asks_nobody_and_is_undone(work: Path, line: str) -> None:
    """Also a line that the reader of lines does not understand; undo puts all back."""
    before = below(work)
    approver = ScriptedApprover(lambda _: NOBODY)
    async with runtime(work, config=BORDER, approver=approver) as opened:
        outcome = await run(opened, line)
        after = below(work)
        await opened.undo(outcome.call_id)
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert after != before or "ln -s" in line
    assert below(work) == before


async def test_git_commits_without_a_question_and_undo_puts_the_repository_back(repository: Path) -> None:
    """Objects, the index, branches and their logs are what git writes."""
    before = below(repository)
    approver = ScriptedApprover(lambda _: NOBODY)
    line = "echo x >> a.txt && git checkout -q -b topic && git add -A && git commit -qm two && git tag v1"
    async with runtime(repository, config=BORDER, approver=approver) as opened:
        outcome = await run(opened, line)
        log = subprocess.run(["git", "log", "--oneline"], cwd=repository, check=True, capture_output=True, text=True)
        await opened.undo(outcome.call_id)
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert len(log.stdout.splitlines()) == 2
    assert below(repository) == before


@pytest.mark.parametrize(
    "line",
    ["rm one two", "rm one two; echo y > one; ln one two", "mv one three; rm two", "echo y > one; echo z > two"],
)
async def test_all_names_of_one_file_are_changed_at_once(work: Path, line: str) -> None:
    """Renaming the first changes a time of the others; that was nobody else. Builds of cargo are full of these."""
    (work / "one").write_text("x\n")
    (work / "two").hardlink_to(work / "one")
    before = below(work)
    async with runtime(work, config=BORDER, approver=ScriptedApprover(lambda _: NOBODY)) as opened:
        outcome = await run(opened, line)
        after = below(work)
        undone = await opened.undo(outcome.call_id)
    assert outcome.ok, outcome.content
    assert after != before
    assert (undone.ok, below(work)) == (True, before), undone.content


@pytest.mark.parametrize("name", ["__pycache__", "node_modules", ".pytest_cache"])
async def test_a_cache_goes_without_a_question(work: Path, name: str) -> None:
    """However many files are in it; they are made again."""
    (work / name).mkdir()
    for number in range(20):
        (work / name / str(number)).write_text("x")
    outcome, approver = await at_border(work, f"rm -rf {name}")
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert not (work / name).exists()


async def test_what_changed_is_told_before_caches(work: Path) -> None:
    """However many files a run of tests leaves in them."""
    line = "mkdir __pycache__ && touch __pycache__/1 __pycache__/2 && echo x > zz.txt"
    outcome, _ = await at_border(work, line)
    assert outcome.summary.endswith("; 1 changed: zz.txt; 3 in caches")
    assert outcome.data["files_changed"][0] == "zz.txt"


async def test_a_tracked_file_in_a_cache_is_no_cache(repository: Path) -> None:
    """Somebody has put it under git's control: it counts like any file."""
    (repository / "node_modules").mkdir()
    for number in range(20):
        (repository / "node_modules" / str(number)).write_text("x")
    for line in (["add", "-f", "node_modules"], ["commit", "-qm", "vendored"]):
        subprocess.run(["git", *line], cwd=repository, check=True, capture_output=True)
    outcome, approver = await at_border(repository, "rm -rf node_modules")
    assert len(approver.asked) == 1
    assert "deletes more than 5 files" in approver.asked[0].reason
    assert "Not kept" in outcome.content
    assert (repository / "node_modules/3").exists()


@pytest.mark.parametrize("beside", [True, False])
async def test_target_is_a_cache_beside_cargo_toml_only(work: Path, beside: bool) -> None:
    """Elsewhere the name means something else."""
    (work / "target").mkdir()
    for number in range(20):
        (work / "target" / str(number)).write_text("x")
    if beside:
        (work / "Cargo.toml").write_text("")
    _, approver = await at_border(work, "rm -rf target")
    assert len(approver.asked) == (0 if beside else 1)


# ── what is asked for ────────────────────────────────────────────────────────────────────────

ASKED = [
    ("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", "a forge runs what it names"),
    ("echo x > AGENTS.md", "agents read it"),
    ("mkdir .vscode; echo {} > .vscode/tasks.json", "editors run"),
    ("mkdir -p node_modules/p/.vscode; echo {} > node_modules/p/.vscode/tasks.json", "editors run"),
    ("rm -r d", "deletes more than 5 files"),
    ("ln -s /root out", "lead out of the roots"),
    ("truncate -s 0 large", "too large to be put back"),
]


@pytest.mark.parametrize(("line", "why"), ASKED)
@pytest.mark.parametrize("answer", ["once", NOBODY])
async def test_what_goes_through_the_wall_is_asked_for_once(work: Path, line: str, why: str, answer: str) -> None:
    """One question with the diff; after a no that alone is left out, and the rest is kept."""
    with open(work / "large", "wb") as file:
        file.truncate(33 << 20)
    outcome, approver = await at_border(work, f"{line}; echo kept > kept.txt", answer)
    assert len(approver.asked) == 1
    assert why in approver.asked[0].reason
    assert "kept.txt" not in approver.asked[0].diff
    assert (work / "kept.txt").read_text() == "kept\n"
    assert outcome.ok, outcome.content
    assert outcome.content.startswith("Not kept: ") == (answer == NOBODY)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("git update-index --assume-unchanged a.txt", "no longer show changes of a.txt"),
        ("git update-index --skip-worktree a.txt", "no longer show changes of a.txt"),
        ("git update-ref refs/remotes/origin/main HEAD", "own records"),
        ("echo /x > .git/objects/info/alternates", "own records"),
        (
            "git replace HEAD HEAD:a.txt -f; git update-ref refs/replace/1111111111111111111111111111111111111111 HEAD",
            "own",
        ),
        ("echo '*' >> .git/info/exclude", "own records"),
        ("git fetch -q . main:refs/remotes/x/y", "own records"),
    ],
)
async def test_hiding_from_git_is_asked_for(repository: Path, line: str, why: str) -> None:
    """What git itself does not write when it commits; without a yes the repository is as before."""
    before = below(repository)
    _, approver = await at_border(repository, line)
    assert len(approver.asked) == 1
    assert why in approver.asked[0].reason
    after = below(repository)
    objects = {path for path in after if path.startswith(".git/objects/")}
    assert {path: what for path, what in after.items() if path not in objects} == {
        path: what for path, what in before.items() if path not in objects
    }


async def test_records_of_a_repository_are_kept_together(repository: Path) -> None:
    """A branch is not moved while what belongs to it waits for a yes."""
    head = (repository / ".git/refs/heads/main").read_text()
    line = "echo x >> a.txt; git commit -qam two; git update-ref refs/remotes/origin/main HEAD"
    outcome, approver = await at_border(repository, line)
    assert len(approver.asked) == 1
    assert (repository / ".git/refs/heads/main").read_text() == head
    assert (repository / "a.txt").read_text().endswith("x\n")
    assert "Not kept" in outcome.content.splitlines()[0]


async def test_a_program_where_the_shell_looks_for_commands_is_asked_for(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder beneath a root that is on the person's PATH."""
    (work / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}")
    _, approver = await at_border(work, "echo x > bin/notes; printf '#!/bin/sh\\n' > bin/ls2; chmod +x bin/ls2")
    assert len(approver.asked) == 1
    assert "where your shell looks for commands" in approver.asked[0].reason
    assert (work / "bin/notes").exists()
    assert not (work / "bin/ls2").exists()


async def test_a_program_in_the_background_is_asked_for_and_works_on_the_workspace(work: Path) -> None:
    """The question says that its changes are neither reviewed nor undone."""
    approver = ScriptedApprover(lambda _: "once")
    async with runtime(work, config=BORDER, approver=approver) as opened:
        outcome = await run(opened, "touch here; sleep 30", background=True)
        while not (work / "here").exists():
            await opened.call("job_read", {"job": "job-1", "wait_seconds": 0.1})
        layer = await run(opened, "echo x > layer.txt; test -e here")
    assert outcome.ok, outcome.content
    assert len(approver.asked) == 1
    assert "neither reviewed nor undone" in approver.asked[0].reason
    assert layer.ok


# ── what is never kept ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [".env.local", "handrail.toml", ".ssh/id_rsa", "e/.git/hooks/pre-commit"])
async def test_what_nobody_may_change_is_left_out_and_the_rest_is_kept(work: Path, name: str) -> None:
    """Nobody is asked, and the first line says what was not kept."""
    write = f"import os; os.makedirs(os.path.dirname('./{name}'), exist_ok=True); open('{name}', 'w').write('x')"
    outcome, approver = await at_border(work, f'python3 -c "{write}"; echo kept > kept.txt', "once")
    assert approver.asked == []
    assert outcome.ok, outcome.content
    assert (work / "kept.txt").exists()
    assert not (work / name).exists()
    assert outcome.content.startswith("Not kept: ")


@pytest.mark.parametrize("line", ["git push", "rm -rf / --no-preserve-root", ":(){ :|:& };:"])
async def test_denied_commands_stay_denied(work: Path, line: str) -> None:
    """The border changes what is asked, nothing that is denied."""
    outcome, approver = await at_border(work, line, "once")
    assert outcome.error is not None
    assert outcome.error.code == "COMMAND_NOT_ALLOWED"
    assert approver.asked == []


# ── rules, fall-back, headless ───────────────────────────────────────────────────────────────


async def test_a_rule_that_restricts_commands_makes_lines_in_doubt_ask(work: Path) -> None:
    """What cannot be read could be what the rule means."""
    config = {"exec": {**BORDER["exec"], "deny": ["curl *"]}}
    _, plain = await at_border(work, "echo hi > x", config=config)
    _, doubtful = await at_border(work, 'eval "$(printf ls)"', config=config)
    denied, _ = await at_border(work, "curl http://example.org", config=config)
    assert plain.asked == []
    assert len(doubtful.asked) == 1
    assert denied.error is not None


async def test_a_rule_that_asks_for_files_asks_when_they_were_changed(work: Path) -> None:
    """Once, with the diff; not before the command runs."""
    rule = {"effect": "ask", "touch": "fs.write", "target": "d/**"}
    outcome, approver = await at_border(work, "echo x > d/1", "once", config={"rules": [rule]})
    assert [bool(request.diff) for request in approver.asked] == [True]
    assert outcome.ok
    assert (work / "d/1").read_text() == "x\n"


async def test_without_a_layer_commands_are_asked_for_and_the_question_says_why(work: Path) -> None:
    """The setting alone opens nothing."""
    config = {"exec": {"workspace": "direct", "ask": "border"}}
    _, approver = await at_border(work, "python3 -c 1", config=config)
    assert len(approver.asked) == 1
    assert 'exec.ask = "border" does not hold here: it needs exec.workspace = "review"' in approver.asked[0].reason


async def test_where_nobody_answers_the_rest_is_kept_and_the_call_can_be_repeated(work: Path, own_user: Path) -> None:
    """The first line names the request; after a yes the same call keeps the rest."""
    config = {**BORDER, "tools": {"enable": ["exec"]}, "approvals": {"keep_after_run": True}}
    call = {"command": "echo x > AGENTS.md; echo y > y.txt"}
    async with Runtime.open(work, config=config, mode="headless") as opened:
        first = await opened.call("run_command", call)
        waiting = opened.parts.ledger.pending(time.time())
        assert first.ok, first.content
        assert first.content.startswith("Not kept: AGENTS.md. ")
        assert (work / "y.txt").exists()
        assert not (work / "AGENTS.md").exists()
        opened.parts.ledger.answer(waiting[0].id, Reply("granted", by="ann"))
        second = await opened.call("run_command", call)
    assert second.ok
    assert (work / "AGENTS.md").read_text() == "x\n"


async def test_overwriting_a_file_that_was_read_whole_is_an_edit(work: Path) -> None:
    """One that was not, or that changed since, is asked for."""
    approver = ScriptedApprover(lambda _: NOBODY)
    config = {**BORDER, "tools": {"enable": ["fs"]}}
    new = {"path": "a.txt", "content": "new\n", "mode": "overwrite"}
    async with runtime(work, config=config, approver=approver) as opened:
        await opened.call("write_file", {**new, "path": "d/1", "expected_sha256": "*"})
        assert len(approver.asked) == 1
        await opened.call("read_file", {"path": "a.txt"})
        known = await opened.call("write_file", new)
        assert known.ok, known.content
        assert len(approver.asked) == 1
        (work / "a.txt").write_text("by a person\n")
        await opened.call("write_file", {**new, "content": "newer\n", "expected_sha256": "*"})
    assert len(approver.asked) == 2
    assert (work / "a.txt").read_text() == "by a person\n"


# ── new repositories ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("line", ["git init -q new", "git init -q new --template=", "git clone -q . new"])
async def test_a_new_repository_is_asked_for_as_a_whole(repository: Path, line: str) -> None:
    """After a no nothing of its records is there; after a yes it works."""
    refused, approver = await at_border(repository, line)
    assert len(approver.asked) == 1, refused.content
    assert not (repository / "new/.git").exists()
    granted, _ = await at_border(repository, line.replace("new", "new2"), "once")
    assert granted.ok, granted.content
    assert not granted.data["not_kept"]
    subprocess.run(["git", "status"], cwd=repository / "new2", check=True, capture_output=True)


@pytest.mark.parametrize(
    "planted",
    [
        "git -C new config core.fsmonitor ./evil",
        "printf '#!/bin/sh\\n' > new/.git/hooks/pre-commit",
        "git -C new config alias.st '!x'",
    ],
)
async def test_a_new_repository_that_runs_programs_is_not_kept(work: Path, planted: str) -> None:
    """Not even with a yes."""
    outcome, _ = await at_border(work, f"git init -q new; {planted}", "once")
    assert not (work / "new/.git/config").exists(), outcome.content
    assert not (work / "new/.git/hooks").exists(), outcome.content

"""What the journal has of calls that an agent carries out itself."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import RunFault
from handrail.front.cli._tables import calls_of
from handrail.hooks.sessions import Sessions
from handrail.store.journal import FileJournal
from handrail.store.reader import verify
from hooking import ALL, SHELL, Speaker, payload_of, settings, speaking

KEY = "sk-proj-" + "Ab3" * 16


def sha(text: str) -> str:
    """The hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_call_is_started_as_handed_over_and_observed_later(work: Path, own_user: Path) -> None:
    """Who carries it out, what stood there, how it ended, what it changed."""
    (work / "a.txt").write_text("one\n")
    async with speaking("claude-code", work) as claude:
        await claude.before("Edit", {"file_path": str(work / "a.txt"), "old_string": "one", "new_string": "two"})
        (started,) = claude.events(own_user, "tool.started")
        assert (started["tool"], started["dialect"], started["asked"]["tool"]) == ("edit_file", "claude-code", "Edit")
        handed = started["handed_over"]
        assert (handed["to"], handed["id"], handed["asks"]) == ("claude-code", "call_1", False)
        assert started["sandbox"] is None
        (before,) = started["before"]
        assert (before["path"], before["sha256"], before["kept"]) == ("a.txt", sha("one\n"), True)
        (work / "a.txt").write_text("two\n")
        await claude.after()
        (seen,) = claude.events(own_user, "tool.observed")
        assert (seen["call_id"], seen["status"], seen["duration_ms"]) == (started["call_id"], "ok", 12)
        (change,) = seen["files_changed"]
        assert (change["op"], change["before"], change["after"]) == ("replace", sha("one\n"), sha("two\n"))
        assert not claude.events(own_user, "tool.completed")
    assert verify(own_user / "state/handrail/runs" / claude.run_id).ok


@pytest.mark.parametrize("agent", ALL)
async def test_a_call_that_no_later_hook_told_of_is_not_seen(work: Path, own_user: Path, agent: str) -> None:
    """That is no unknown outcome of ours."""
    async with speaking(agent, work) as speaker:
        await speaker.run("ls")
        (call,) = calls_of(speaker.events(own_user))
        assert (call["status"], call["handed_over"]) == ("not seen", agent)


@pytest.mark.parametrize("agent", ALL)
async def test_the_later_hook_finds_its_call(work: Path, own_user: Path, agent: str) -> None:
    """By the agent's id, or by what the tool was given; also once the daemon was started anew."""
    async with speaking(agent, work) as speaker:
        await speaker.run("ls")
        first = dict(speaker.last)
        await speaker.run("ls src")
        second = dict(speaker.last)
    sessions = Sessions()
    speaker = Speaker(agent, work, sessions)
    assert await speaker.after(second) == b""
    assert await speaker.after(first) == b""
    await sessions.close()
    ends = [(call["args"]["command"], call["status"]) for call in calls_of(speaker.events(own_user))]
    assert ends == [("ls", "ok"), ("ls src", "ok")]


async def test_a_failure_is_on_record(work: Path, own_user: Path) -> None:
    """In the words of each agent."""
    async with speaking("claude-code", work) as claude:
        await claude.run("ls")
        await claude.say(
            {**claude.last, "hook_event_name": "PostToolUseFailure", "error": "boom", "is_interrupt": False}
        )
        (seen,) = claude.events(own_user, "tool.observed")
        assert (seen["status"], seen["message"]) == ("failed", "boom")
    async with speaking("gemini-cli", work) as gemini:
        await gemini.run("ls")
        await gemini.after(tool_response={"llmContent": "x", "error": {"message": "no such file"}})
        (seen,) = gemini.events(own_user, "tool.observed")
        assert (seen["status"], seen["message"]) == ("failed", "no such file")


async def test_other_arguments_than_were_judged_are_told(work: Path, own_user: Path) -> None:
    """Another hook may have rewritten them."""
    async with speaking("claude-code", work) as claude:
        await claude.run("ls")
        await claude.after({**claude.last, "tool_input": {"command": "ls -la"}})
        (seen,) = claude.events(own_user, "tool.observed")
        assert (seen["changed_input"], seen["args"]) == (True, {"command": "ls -la"})


async def test_who_approved_an_agents_own_question_is_known_by_its_end(work: Path, own_user: Path) -> None:
    """The call was asked for, and then it ran: its person said yes."""
    async with speaking("claude-code", work) as claude:
        assert (await claude.run("npm test"))[0] == "ask"
        (started,) = claude.events(own_user, "tool.started")
        assert (started["verdict"]["decision"], started["handed_over"]["asks"]) == ("ask", True)
        await claude.after()
        (seen,) = claude.events(own_user, "tool.observed")
        assert seen["approved"] == "claude-code"


@pytest.mark.parametrize("agent", ALL)
async def test_secrets_are_hidden(work: Path, own_user: Path, agent: str) -> None:
    """In arguments, answers and file names, of calls that were denied too."""
    async with speaking(agent, work) as speaker:
        await speaker.run(f"echo {KEY}")
        await speaker.after(tool_response={"stdout": f"key {KEY}"})
        await speaker.run(f"rm -rf / {KEY}")
        await speaker.before("mcp__x__y", {"token": KEY})
        out = await speaker.say(payload_of(agent, "Notification" if agent != "codex" else "Stop", work, message=KEY))
        assert out == b""
    run = own_user / "state/handrail/runs" / speaker.run_id
    for file in run.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


async def test_a_run_for_each_session(work: Path, own_user: Path) -> None:
    """Sessions of several agents side by side, each with its own record."""
    sessions = Sessions()
    for agent in ALL:
        for session in ("one", "two"):
            speaker = Speaker(agent, work, sessions, session)
            await speaker.run("ls")
            assert len(speaker.events(own_user, "tool.started")) == 1
    assert len(sessions) == 6
    await sessions.close()
    runs = sorted(path.name for path in (own_user / "state/handrail/runs").glob("[!.]*"))
    assert runs == sorted(f"{agent}-{session}" for agent in ALL for session in ("one", "two"))


async def test_a_run_that_another_process_holds_is_waited_for_and_then_denied(
    work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that cannot write anything down allows nothing."""
    monkeypatch.setattr("handrail.hooks.sessions.BUSY_SECONDS", 0.3)
    from handrail.compose import SystemClock
    from handrail.store.folders import create

    folder = create(own_user / "state/handrail/runs", "claude-code-s1")
    journal = FileJournal.open(folder.path, "claude-code-s1", SystemClock())
    async with speaking("claude-code", work) as claude:
        began = time.monotonic()
        decided, why = await claude.run("ls")
        assert (decided, "is open in this process" in why, time.monotonic() - began >= 0.3) == ("deny", True, True)
        journal.abandon()
        assert (await claude.run("ls"))[0] == "silent"


async def test_a_full_disk_denies(work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is handed over that is not on record."""
    async with speaking("claude-code", work) as claude:
        assert (await claude.run("ls"))[0] == "silent"

        def full(*_: Any) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("handrail.store.journal.os.pwrite", full)
        for line in ("ls", "ls -la"):
            decided, why = await claude.run(line)
            assert (decided, "No space left" in why) == ("deny", True), why
        monkeypatch.undo()


async def test_settings_that_cannot_be_read_deny(work: Path, own_user: Path) -> None:
    """And say which file."""
    settings(own_user, "tools.enabel = 1\n")
    async with speaking("codex", work) as codex:
        decided, why = await codex.run("ls")
        assert (decided, "enabel" in why) == ("deny", True)


async def test_a_bug_of_ours_denies(work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a traceback in the answer."""

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("handrail.hooks.sessions.Session._arguments", broken)
    async with speaking("gemini-cli", work) as gemini:
        decided, why = await gemini.run("ls")
        assert (decided, "Traceback" in why, "unforeseen" in why) == ("deny", False, True)


async def test_people_are_told_when_an_agent_waits_or_stops(work: Path, own_user: Path) -> None:
    """By a program of theirs, with one JSON object on its input; and it is on record."""
    told = own_user / "told"
    program = own_user / "notify"
    program.write_text(f'#!/bin/sh\nnews=$(cat)\necho "$news" >> {told}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    settings(own_user, f'notify.command = ["{program}"]\n')
    async with speaking("claude-code", work) as claude:
        await claude.say(payload_of("claude-code", "Notification", work, message="Claude needs your permission"))
        await claude.say(payload_of("claude-code", "Stop", work, stop_hook_active=False))
        end = time.monotonic() + 10
        while time.monotonic() < end and (not told.exists() or told.read_text().count("}") < 2):
            time.sleep(0.02)
        notes = [(event["event"], event["message"]) for event in claude.events(own_user, "agent.noted")]
    heard = sorted((json.loads(line) for line in told.read_text().splitlines()), key=lambda news: news["event"])
    assert [(news["event"], news["message"]) for news in heard] == [
        ("Notification", "Claude needs your permission"),
        ("Stop", ""),
    ]
    assert {(news["agent"], news["run"], news["workspace"]) for news in heard} == {
        ("claude-code", "claude-code-s1", str(work))
    }
    assert notes == [("Notification", "Claude needs your permission"), ("Stop", "")]


async def test_a_program_that_an_agent_may_write_is_not_started(work: Path, own_user: Path) -> None:
    """Whatever settings name."""
    program = work / "notify"
    program.write_text(f"#!/bin/sh\ntouch {work}/started\n")
    program.chmod(0o755)
    settings(own_user, f'notify.command = ["{program}"]\n')
    async with speaking("claude-code", work) as claude:
        await claude.say(payload_of("claude-code", "Stop", work))
    time.sleep(0.1)
    assert not (work / "started").exists()


async def test_a_file_that_was_read_whole_is_known(work: Path, own_user: Path) -> None:
    """Under `border`, replacing it is an edit, as it is for our own tools."""
    settings(
        own_user, 'exec.ask = "border"\nexec.workspace = "review"\nhooks.ask = "inbox"\napprovals.wait_seconds = 0\n'
    )
    (work / "a.txt").write_text("one\n")
    async with speaking("claude-code", work) as claude:
        write = {"file_path": str(work / "a.txt"), "content": "two\n"}
        assert (await claude.before("Write", write))[0] == "deny"
        await claude.before("Read", {"file_path": str(work / "a.txt")})
        await claude.after()
        assert (await claude.before("Write", write))[0] == "silent"
        (work / "a.txt").write_text("somebody else\n")
        assert (await claude.before("Write", write))[0] == "deny"


async def test_an_end_without_a_beginning_is_noted(work: Path, own_user: Path) -> None:
    """Such as of a call that was made before hooks were installed."""
    async with speaking("claude-code", work) as claude:
        more: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "x"}
        assert await claude.say(payload_of("claude-code", "PostToolUse", work, **more)) == b""
        (note,) = claude.events(own_user, "agent.noted")
        assert "was not asked for before" in note["message"]


async def test_a_closed_session_goes_on_in_its_run(work: Path, own_user: Path) -> None:
    """An agent that resumes a session adds to its record."""
    for line in ("ls", "pwd"):
        async with speaking("claude-code", work) as claude:
            await claude.run(line)
    starts = claude.events(own_user, "run.started")
    assert [event["reopened"] for event in starts] == [False, True]
    assert [event["args"]["command"] for event in claude.events(own_user, "tool.started")] == ["ls", "pwd"]
    with pytest.raises(RunFault):
        list(Speaker("claude-code", work, Sessions(), "other").events(own_user))


@pytest.mark.parametrize("agent", ALL)
async def test_calls_at_the_same_time_are_told_apart(work: Path, own_user: Path, agent: str) -> None:
    """Agents make several at once."""
    import asyncio

    sessions = Sessions()
    speakers = [Speaker(agent, work, sessions) for _ in range(20)]
    lines = [f"ls {number}" for number in range(20)]
    for number, speaker in enumerate(speakers):
        speaker._calls = number
    answers = await asyncio.gather(*(speaker.run(line) for speaker, line in zip(speakers, lines, strict=True)))
    assert {decided for decided, _ in answers} == {"silent"}
    await asyncio.gather(*(speaker.after() for speaker in reversed(speakers)))
    await sessions.close()
    seen = {event["call_id"]: event["args"]["command"] for event in speakers[0].events(own_user, "tool.observed")}
    started = {event["call_id"]: event["args"]["command"] for event in speakers[0].events(own_user, "tool.started")}
    assert (seen, sorted(seen.values())) == (started, sorted(lines))
    assert SHELL[agent]

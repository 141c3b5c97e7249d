"""Commands through the gate: what is shown, kept, counted and refused. In the real sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import alive, gone_within, need_sandbox, run, runtime, until
from handrail.errors import Code
from handrail.output.redact import MARK
from handrail.sandbox.launching import Confined, Ended
from handrail.store.reader import events


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def sha(text: str) -> str:
    """The hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_command_gives_its_output_and_how_it_ended(work: Path) -> None:
    """Both streams, apart, and the command on record."""
    async with runtime(work) as opened:
        outcome = await run(opened, "echo out; echo err >&2")
    told = outcome.data
    assert outcome.ok
    assert (told["exit_code"], told["signal"], told["stdout"], told["stderr"]) == (0, None, "out\n", "err\n")
    assert (told["timed_out"], told["cwd"], told["files_changed"]) == (False, ".", [])
    assert outcome.content.startswith("out\n[stderr]\nerr\n[exit code 0 in ")
    assert outcome.commands == ("echo out; echo err >&2",)
    assert outcome.evidence[0].type == "process"


async def test_a_failed_command_keeps_its_output(work: Path) -> None:
    """In the details for programs, and as it was in what a model reads."""
    async with runtime(work) as opened:
        outcome = await run(opened, "echo before; echo why >&2; exit 3")
    assert outcome.error is not None
    assert outcome.error.code == Code.EXIT_NONZERO
    assert outcome.error.details["exit_code"] == 3
    assert (outcome.error.details["stdout"], outcome.error.details["stderr"]) == ("before\n", "why\n")
    assert "\nbefore\n[stderr]\nwhy\n[exit code 3" in outcome.content
    assert outcome.commands == ("echo before; echo why >&2; exit 3",)


@pytest.mark.parametrize(
    ("command", "ok"),
    [
        ("echo a | grep b", True),
        ("test -f none", True),
        ("[ -f none ]", True),
        ("[[ -f none ]]", True),
        ("diff <(echo a) <(echo b)", True),
        ("grep x /none", False),  # 2: it did not work
        ("grep b <<< a; false", False),
        ("echo $(grep b <<< a); exit 1", False),
        ("false", False),
        ("grep b <<< a || exit 1", False),
    ],
)
async def test_exit_code_1_of_what_answers_by_it_is_no_failure(work: Path, command: str, ok: bool) -> None:
    """Only where the last command of the line says so."""
    async with runtime(work) as opened:
        outcome = await run(opened, command)
    assert outcome.ok is ok, outcome.content


async def test_a_timeout_keeps_the_output_and_leaves_nothing(work: Path) -> None:
    """What was written before is still told."""
    async with runtime(work) as opened:
        outcome = await run(opened, "echo early; exec -a handrail-t1 sleep 60", timeout_seconds=0.4)
    assert outcome.error is not None
    assert outcome.error.code == Code.TIMEOUT
    assert outcome.error.details["stdout"] == "early\n"
    assert "\nearly\n" in outcome.content
    assert alive("handrail-t1") == []


async def test_the_limit_of_all_calls_does_not_cut_a_command(work: Path) -> None:
    """A command has a limit of its own, from its argument or from settings."""
    config = {"limits": {"timeout_seconds": 0.2}}
    async with runtime(work, config=config) as opened:
        outcome = await run(opened, "sleep 0.6; echo done")
    assert outcome.ok
    assert outcome.data["stdout"] == "done\n"
    async with runtime(work, config={"exec": {"timeout_seconds": 0.3}}) as opened:
        assert (await run(opened, "sleep 60")).error.code == Code.TIMEOUT  # type: ignore[union-attr]


async def test_a_command_ends_with_its_leader_not_with_its_pipe(work: Path) -> None:
    """Something left behind that holds the pipe open is not waited for, and does not stay."""
    async with runtime(work) as opened:
        outcome = await run(opened, "(exec -a handrail-t2 sleep 60) & echo leader")
        assert outcome.ok
        assert outcome.data["stdout"] == "leader\n"
        assert outcome.data["seconds"] < 5
        assert gone_within("handrail-t2", 3)


class Holding:
    """A sandbox whose program has ended at once, while someone still holds its output open."""

    confined = Confined("A", "native", ())

    def __init__(self) -> None:
        self.held: list[int] = []

    def spawn(self, *_: Any, stdout: int, **__: Any) -> Any:
        """Give a program that is over."""
        os.write(stdout, b"left\n")
        self.held.append(os.dup(stdout))
        return self

    pid, listener, upper, scratch = 1, None, None, None

    def over(self) -> asyncio.Future[Ended]:
        """It is over."""
        done: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        done.set_result(Ended(0, None, 0.0))
        return done

    def close(self) -> None:
        """Let go."""
        for fd in self.held:
            os.close(fd)


async def test_a_pipe_that_someone_holds_is_waited_for_half_a_second(work: Path) -> None:
    """What is in it is taken; its end is not waited for."""
    async with runtime(work) as opened:
        opened.parts.programs.choose = Holding
        outcome = await run(opened, "true")
    assert outcome.data["stdout"] == "left\n"
    assert 0.5 <= outcome.data["seconds"] < 2


async def test_cancelling_ends_the_tree(work: Path) -> None:
    """Whoever gives up leaves nothing running."""
    mark = f"handrail-t3-{os.getpid()}"  # of this run of the tests alone
    async with runtime(work) as opened:
        call = asyncio.ensure_future(run(opened, f"touch up; (exec -a {mark} sleep 60) & exec -a {mark} sleep 60"))
        await until((work / "up").exists)
        await until(lambda: bool(alive(mark)))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert alive(mark) == []
        assert "up" in json.dumps([event.get("files_changed") for event in events(opened.parts.folder.path)])


@pytest.mark.parametrize("size", [5, 65_536, 900_000])
async def test_input_arrives_whole(work: Path, size: int) -> None:
    """Also what does not fit into a pipe at once."""
    async with runtime(work) as opened:
        outcome = await run(opened, "wc -c; echo end", stdin="x" * size)
    assert outcome.data["stdout"].split() == [str(size), "end"]


async def test_input_that_nobody_reads_is_no_trouble(work: Path) -> None:
    """The program ends as it likes."""
    async with runtime(work) as opened:
        assert (await run(opened, "exec <&-; true", stdin="x" * 900_000)).ok


async def test_variables_are_given_and_secrets_are_not(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's own environment stays with it, whatever settings pass on."""
    monkeypatch.setenv("BUILD_TOKEN", "canary-0b1e")
    monkeypatch.setenv("PLAIN_SETTING", "canary-77aa")
    monkeypatch.setenv("PASSED", "yes")
    config = {"exec": {"pass_env": ["PASSED", "BUILD_TOKEN"]}}
    async with runtime(work, config=config) as opened:
        outcome = await run(opened, "env; cat /proc/*/environ", env={"GIVEN": "it"})
        refused = await run(opened, "env", env={"MY_SECRET": "x"})
        bad = await run(opened, "env", env={"a=b": "x"})
    shown = outcome.content if outcome.ok else str(outcome.error)
    assert "GIVEN=it" in shown
    assert "PASSED=yes" in shown
    assert "canary" not in shown
    assert [item.error.code for item in (refused, bad) if item.error] == [Code.INVALID_ARGS, Code.INVALID_ARGS]


async def test_a_command_runs_where_it_is_told(work: Path) -> None:
    """Beneath a root, in a folder that is one."""
    (work / "sub").mkdir()
    (work / "file").write_text("")
    async with runtime(work) as opened:
        there = await run(opened, "pwd; echo x > made", cwd="sub")
        codes = [(await run(opened, "pwd", cwd=cwd)).error.code for cwd in ("none", "file", "..", "/etc")]  # type: ignore[union-attr]
    assert there.data["stdout"] == f"{work}/sub\n"
    assert there.data["files_changed"] == ["sub/made"]
    assert codes == [Code.NOT_FOUND, Code.NOT_A_DIRECTORY, Code.PATH_OUTSIDE_ROOTS, Code.PATH_OUTSIDE_ROOTS]


async def test_long_output_shows_both_ends_and_the_rest_can_be_fetched(work: Path) -> None:
    """The notice holds the literal call that reads on where the head ends."""
    async with runtime(work) as opened:
        outcome = await run(opened, "seq 1 50000")
        match = re.search(r"read_file (\{.*\})", outcome.content)
        assert match is not None
        fetch = json.loads(match[1])
        rest = await opened.call("read_file", {**fetch, "limit": 1})
        whole = (opened.parts.folder.observations / fetch["path"].rpartition("/")[2]).read_text()
    lines = outcome.content.splitlines()
    assert lines[:2] == ["1", "2"]
    assert lines[-2] == "50000"
    assert fetch["path"] == outcome.refs[0].ref
    assert rest.data["text"].strip() == str(fetch["offset"])
    assert whole == "".join(f"{number}\n" for number in range(1, 50001))
    assert outcome.refs[0].sha256 == sha(whole)
    assert len(outcome.content.encode()) <= 51200
    assert len(lines) <= 2000


async def test_both_streams_are_kept_whole_and_apart(work: Path) -> None:
    """Each in a file of its own name, with the hash of what it holds."""
    async with runtime(work) as opened:
        outcome = await run(opened, "seq 1 3000; seq 5000 9000 >&2")
        streams_kept = outcome.refs[:2]
        names = [ref.ref.rpartition("/")[2] for ref in streams_kept]
        kept = [(opened.parts.folder.observations / name).read_text() for name in names]
    streams = ["".join(f"{number}\n" for number in numbers) for numbers in (range(1, 3001), range(5000, 9001))]
    assert [re.sub(r"_\d+\.", "_N.", name) for name in names] == ["stdout_N.txt", "stderr_N.txt"]
    assert kept == streams
    assert [ref.sha256 for ref in streams_kept] == [sha(stream) for stream in streams]


@pytest.mark.parametrize(("code", "share"), [(0, 0.25), (3, 0.5)])
async def test_of_long_output_that_ended_well_more_of_the_end_is_shown(work: Path, code: int, share: float) -> None:
    """A quarter of the lines is the head where all went well, and a half where it did not."""
    async with runtime(work) as opened:
        outcome = await run(opened, f"seq 1 50000; exit {code}")
    told = outcome.data if outcome.error is None else outcome.error.details
    shown = told["stdout"].splitlines()
    head = next(number for number, line in enumerate(shown) if "lines not shown" in line)
    assert (told["exit_code"], shown[head - 1], shown[-1]) == (code, str(head), "50000")
    assert round(head / (len(shown) - 1), 2) == share


async def test_colours_and_progress_are_not_shown(work: Path) -> None:
    """The whole is kept as it came."""
    async with runtime(work) as opened:
        outcome = await run(opened, r"printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\n'")
        kept = (opened.parts.folder.observations / outcome.refs[0].ref.rpartition("/")[2]).read_bytes()
    assert outcome.data["stdout"] == "red\n100%\n"
    assert kept == b"\x1b[31mred\x1b[0m\n10%\r50%\r100%\n"


async def test_what_is_not_utf8_is_shown_and_said(work: Path) -> None:
    """With the sign that stands for it."""
    async with runtime(work) as opened:
        outcome = await run(opened, r"printf 'a\xff\xfeb\n'")
    assert outcome.data["stdout"] == "a\ufffd\ufffdb\n"
    assert outcome.warnings == ("stdout is not all UTF-8; what is not is shown as \ufffd",)


@pytest.mark.parametrize("end", ["true", "exit 3"])
async def test_a_secret_that_is_hidden_only_in_what_is_kept_is_said_to_be(
    work: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The middle that is not shown counts, whether the command failed or not; output without any does not."""
    monkeypatch.setenv("SERVICE_PASSWORD", "hunter2-9f31-aaaa-zz")
    (work / "one").write_text("hunter2-9f31-aaaa-zz\n")
    async with runtime(work) as opened:
        outcome = await run(opened, f"seq 1 40000; cat one; seq 1 40000; {end}")
        kept = (opened.parts.folder.observations / outcome.refs[0].ref.rpartition("/")[2]).read_text()
        plain = await run(opened, f"seq 1 80000; {end}")
    shown = outcome.error.details["stdout"] if outcome.error is not None else outcome.data["stdout"]
    assert (MARK in shown, kept.count(MARK), outcome.redacted, plain.redacted) == (False, 1, True, False)
    assert f"in what is not shown, secrets are hidden as {MARK}" in outcome.content


async def test_a_secret_is_hidden_in_what_is_shown_and_in_what_is_kept(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes in two writes, and one in the middle that is not shown."""
    monkeypatch.setenv("SERVICE_PASSWORD", "hunter2-9f31-aaaa-zz")
    (work / "one").write_text("hunter2-9f31")
    (work / "two").write_text("-aaaa-zz")
    command = "cat one; sleep 0.2; cat two; echo; seq 1 40000; cat one two; echo; seq 1 40000"
    async with runtime(work) as opened:
        outcome = await run(opened, command)
        kept = (opened.parts.folder.observations / outcome.refs[0].ref.rpartition("/")[2]).read_text()
        raw = b"".join(path.read_bytes() for path in opened.parts.folder.path.rglob("*") if path.is_file())
    assert outcome.redacted
    assert "hunter2" not in outcome.content + kept
    assert kept.count(MARK) == 2
    assert b"hunter2-9f31-aaaa-zz" not in raw


async def test_what_a_command_changed_is_told_with_hashes(work: Path) -> None:
    """Created, changed and removed, in the outcome and in the journal; what was only touched is not."""
    (work / "changed").write_text("old")
    (work / "removed").write_text("gone")
    (work / "touched").write_text("same")
    (work / "d").mkdir()
    async with runtime(work) as opened:
        await run(opened, "true")
        outcome = await run(
            opened, "echo new > created; echo new > changed; rm removed; rmdir d; touch touched; mkdir e"
        )
        told = [event for event in events(opened.parts.folder.path) if event["kind"] == "tool.completed"][-1]
    found = {item["path"]: (item["op"], item["before"], item["after"]) for item in told["files_changed"]}
    assert found == {
        "created": ("create", None, sha("new\n")),
        "changed": ("replace", sha("old"), sha("new\n")),
        "removed": ("delete", sha("gone"), None),
        "d": ("rmdir", None, None),
        "e": ("mkdir", None, None),
    }
    assert set(outcome.data["files_changed"]) == set(found)
    assert all(item["kept"] is False for item in told["files_changed"])


async def test_too_large_a_tree_is_said_not_to_be_observed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning, and no guess."""
    for number in range(30):
        (work / f"f{number}").write_text("")
    monkeypatch.setattr("handrail.processes.effects.MOST_ENTRIES", 10)
    monkeypatch.setattr("handrail.processes.effects.Watch.look.__defaults__", (10,), raising=False)
    monkeypatch.setattr("handrail.processes.running._FEW_ENTRIES", 5)
    async with runtime(work) as opened:
        outcome = await run(opened, "touch new")
    assert outcome.ok
    assert outcome.data["files_changed"] == []
    assert "not observed" in outcome.warnings[0]


async def test_programs_are_counted_against_their_budget(work: Path) -> None:
    """One a command; the next call is refused when it is used up."""
    async with runtime(work, config={"limits": {"max_processes": 2}}) as opened:
        codes = [outcome.error and outcome.error.code for outcome in [await run(opened, "true") for _ in range(3)]]
        assert opened.parts.limits.usage.used["processes"] == 2
    assert codes == [None, None, Code.BUDGET_EXHAUSTED]


@pytest.mark.parametrize(
    "config",
    [
        {"exec": {"sandbox": "none"}},
        {"exec": {"sandbox": "none", "allow_unconfined": True, "allowed_hosts": ["example.org"]}},
    ],
)
async def test_what_cannot_be_confined_is_not_run(work: Path, config: dict[str, Any]) -> None:
    """No sandbox without being told twice, no hosts where nothing keeps programs to them."""
    async with runtime(work, config=config) as opened:
        outcome = await run(opened, "touch ran")
    assert outcome.error is not None
    assert outcome.error.code == Code.SANDBOX_UNAVAILABLE
    assert not (work / "ran").exists()


async def test_the_start_is_on_record_with_its_confinement(work: Path) -> None:
    """Tier, backend and what it may see stand in the event."""
    async with runtime(work) as opened:
        await run(opened, "true")
        told = next(event for event in events(opened.parts.folder.path) if event["kind"] == "tool.started")
        held = opened.parts.programs.made.host.sandbox.confined
    assert (told["sandbox"]["tier"], told["sandbox"]["backend"]) == ("A", "native")
    assert told["sandbox"]["gaps"] == list(held.gaps)
    assert held.gaps
    assert str(work) in told["sandbox"]["write"]


def test_nothing_of_it_is_loaded_before_the_first_command(work: Path) -> None:
    """A run that starts no program pays nothing for those that do."""
    code = (
        "import asyncio, sys\nfrom handrail import Runtime\n"
        "async def main():\n"
        f"    async with Runtime.open({str(work)!r}, config={{'tools': {{'enable': ['exec']}}}}) as runtime:\n"
        "        await runtime.call('list_dir', {})\n"
        "        late = ('handrail.processes', 'handrail.sandbox.choose', 'tree_sitter')\n"
        "        print([name for name in sys.modules if name.startswith(late)])\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"

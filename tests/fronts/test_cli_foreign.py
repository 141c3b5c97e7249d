"""Other systems' own settings on the command line: variables, JSON and YAML, and the checks before anything starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fronts.conftest import Cli
from fronts.zygote import Zygote

LOST = "tools cannot be offered: bash not found; apt-get install bash\n"


@pytest.fixture
def bare(zygote: Zygote, work: Path, own_user: Path, tmp_path: Path) -> Cli:
    """The command line of a user who has no settings, on a machine that has fd: whether this one does is all one."""
    made = Cli(zygote, work, own_user)
    stand_in = tmp_path / "programs" / "fd"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\n")
    stand_in.chmod(0o755)
    made.env["PATH"] += f":{stand_in.parent}"
    return made


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders apart from the workspace."""
    found = tmp_path / "one", tmp_path / "two"
    for folder in found:
        folder.mkdir()
        (folder / "a.txt").write_text(f"in {folder.name}\n")
    return found


def under(cli: Cli, block: dict[str, str]) -> Cli:
    """The command line with further variables."""
    cli.env |= block
    return cli


def shown(cli: Cli, *flags: str) -> dict[str, Any]:
    """The settings in force."""
    told = json.loads(cli("config", "show", "--json", *flags).out)
    return {name: item["value"] for name, item in told.items() if name != "rules"}


# ── variables ────────────────────────────────────────────────────────────────────────────────


def test_the_environment_block_sets_up_a_call(bare: Cli, roots: tuple[Path, Path]) -> None:
    """Its roots are what tools reach, and nothing else is; the workspace it was started in is not."""
    one, two = roots
    block = {"AUTONOUS_TOOL_ALLOWED_ROOTS": f"{one},{one}/../two/,{two}"}
    under(bare, block)
    (bare.work / "mine.txt").write_text("mine\n")
    read = bare("call", "--dialect", "autonous", "read", f"path={two}/a.txt", "--json")
    write = bare("call", "--dialect", "autonous", "write", f"path={two}/b.txt", "content=new")
    out = bare("call", "--dialect", "autonous", "read", f"path={bare.work}/mine.txt")
    assert (json.loads(read.out)["stdout"], write.code, (two / "b.txt").read_text()) == ("in two\n", 0, "new")
    assert (out.code, out.err.split(":")[0]) == (3, "PATH_OUTSIDE_ROOTS")


def test_every_variable_of_the_block_counts(bare: Cli, roots: tuple[Path, Path]) -> None:
    """With the preset of its name, as for a dialect."""
    block = {
        "AUTONOUS_TOOL_ALLOWED_ROOTS": str(roots[0]),
        "AUTONOUS_TOOL_TIMEOUT_SECONDS": "7",
        "AUTONOUS_TOOL_MAX_OUTPUT_LINES": "11",
        "AUTONOUS_TOOL_MAX_OUTPUT_BYTES": "2222",
        "AUTONOUS_TOOL_BASH_DENYLIST": "echo bad, curl",
    }
    under(bare, block)
    found = shown(bare, "--preset", "autonous")
    denied = bare("call", "--dialect", "autonous", "bash", "cmd=echo bad")
    assert found["workspace.root"] == str(roots[0])
    assert (found["limits.timeout_seconds"], found["exec.timeout_seconds"]) == (7.0, 7.0)
    assert (found["limits.max_output_lines"], found["limits.max_output_bytes"]) == (11, 2222)
    assert found["exec.deny"][-2:] == ["echo bad", "curl"]
    assert (denied.code, denied.err.split(":")[0]) == (3, "COMMAND_NOT_ALLOWED")


ROOTS, EMPTY = "AUTONOUS_TOOL_ALLOWED_ROOTS", "is empty: name at least one absolute folder, such as /workspace,/state"
WRONG = [
    ({}, f"{ROOTS} {EMPTY}"),
    ({ROOTS: " , "}, f"{ROOTS} {EMPTY}"),
    ({ROOTS: "/tmp,here"}, f"{ROOTS}: 'here' is not absolute"),
    ({ROOTS: "/tmp,/nowhere-at-all"}, f"{ROOTS}: /nowhere-at-all is not a folder"),
    (
        {ROOTS: "/tmp", "AUTONOUS_TOOL_TIMEOUT_SECONDS": "-1"},
        "AUTONOUS_TOOL_TIMEOUT_SECONDS: '-1' is not a whole number above 0",
    ),
    (
        {ROOTS: "/tmp", "AUTONOUS_TOOL_BASH_DENY": "rm"},
        "environment: unknown key 'AUTONOUS_TOOL_BASH_DENY'; did you mean AUTONOUS_TOOL_BASH_DENYLIST?",
    ),
]


@pytest.mark.parametrize(("block", "says"), WRONG)
@pytest.mark.parametrize("verb", [("call", "ls", "path=/tmp"), ("mcp",)])
def test_a_block_that_is_wrong_starts_nothing(
    bare: Cli, verb: tuple[str, ...], block: dict[str, str], says: str
) -> None:
    """Neither a call nor a server; no run is left behind."""
    told = under(bare, block)(verb[0], "--dialect", "autonous", *verb[1:])
    assert (told.code, told.out, told.err, bare.run_ids()) == (2, "", f"handrail: {says}\n", [])


@pytest.mark.parametrize("verb", [("call", "ls", "path=/tmp"), ("mcp",)])
@pytest.mark.parametrize("written", [False, True])
def test_missing_programs_refuse_the_tools(
    bare: Cli, roots: tuple[Path, Path], verb: tuple[str, ...], written: bool
) -> None:
    """With the list and what brings them; also where settings come from a file."""
    block = {"AUTONOUS_TOOL_ALLOWED_ROOTS": str(roots[0])}
    if written:
        bare("init", "--preset", "autonous")
        block = {}
    # Programs are looked for in fixed folders, whatever PATH says: here there are none.
    code = (
        "from handrail.sandbox import executables; executables.SYSTEM = (); from handrail.front.cli import main; main()"
    )
    words = [sys.executable, "-c", code, verb[0], "--dialect", "autonous", *verb[1:]]
    told = subprocess.run(words, cwd=bare.work, env={**bare.env, **block}, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout, told.stderr) == (2, "", f"handrail: {LOST}")


def test_settings_that_a_person_wrote_do_without_variables(bare: Cli) -> None:
    """A dialect only translates then."""
    bare("init", "--preset", "autonous")
    (bare.work / "a.txt").write_text("hello\n")
    told = bare("call", "--dialect", "autonous", "read", "path=a.txt")
    assert (told.code, told.out) == (0, "hello\n")


def test_a_named_file_beats_the_variables(bare: Cli, roots: tuple[Path, Path], tmp_path: Path) -> None:
    """Who names a file says which settings count."""
    (tmp_path / "own.toml").write_text('workspace.root = "."\n')
    (bare.work / "a.txt").write_text("here\n")
    told = bare(
        *("call", "--dialect", "autonous", "--config", str(tmp_path / "own.toml"), "read", "path=a.txt"),
        AUTONOUS_TOOL_ALLOWED_ROOTS=str(roots[0]),
    )
    assert (told.code, told.out) == (0, "here\n")


def test_a_list_of_tools_needs_no_roots(bare: Cli) -> None:
    """Nothing is reached by it."""
    assert bare("tools", "list", "--dialect", "autonous").code == 0


def reading(folder: Path) -> dict[str, Any]:
    """Ask for a file of a folder."""
    return {"name": "read", "arguments": {"path": f"{folder}/a.txt"}}


def test_a_server_keeps_the_roots_that_it_was_started_with(bare: Cli, roots: tuple[Path, Path]) -> None:
    """Over stdin and stdout, for real: the tools of the document, beneath the roots of the block."""
    one, two = roots
    (bare.work / "handrail.toml").write_text(f'workspace.root = "{two}"\n')  # which no longer counts
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": reading(one)},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": reading(two)},
    ]  # fmt: skip
    server = subprocess.run(
        [sys.executable, "-c", "from handrail.front.cli import main; main()", "mcp", "--dialect", "autonous"],
        input="".join(json.dumps(line) + "\n" for line in asked),
        env={**bare.env, "AUTONOUS_TOOL_ALLOWED_ROOTS": str(one)},
        cwd=bare.work, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    told = {line["id"]: line["result"] for line in map(json.loads, server.stdout.splitlines()) if "result" in line}
    names = [tool["name"] for tool in told[2]["tools"]]
    assert sorted(names) == ["bash", "edit", "find", "grep", "ls", "read", "write"]
    assert told[3]["structuredContent"]["stdout"] == "in one\n"
    assert "ends outside" in told[4]["structuredContent"]["stderr"]


# ── files ────────────────────────────────────────────────────────────────────────────────────


def test_core_tools_config_is_read_for_its_dialect(bare: Cli, tmp_path: Path) -> None:
    """The interface of the document, as JSON."""
    (tmp_path / "sandbox").mkdir()
    given = {
        "sandboxRoot": str(tmp_path / "sandbox"), "maxReadBytes": 1000, "maxHttpBytes": 2000, "maxDownloadBytes": 3000,
        "allowedHosts": ["api.github.com"], "blockedCidrs": ["10.0.0.0/8"], "defaultTimeoutMs": 9000,
        "httpUserAgent": "tool-hub/1", "enableAutoWriteLargeResponses": True,
    }  # fmt: skip
    path = tmp_path / "core-tools.json"
    path.write_text(json.dumps(given))
    told = bare(
        *("call", "--dialect", "tool-hub", "--config", str(path), "core/fs.writeText", "path=a.txt", "text=hi"),
        *("--run", "r1"),
    )
    found = shown(bare, "--preset", "tool-hub", "--config", str(path))
    assert (told.code, (tmp_path / "sandbox/r1/a.txt").read_text()) == (0, "hi")
    assert (found["limits.max_read_bytes"], found["http.timeout_ms"], found["http.spill_large"]) == (1000, 9000, True)


def test_variables_beat_a_file_in_every_form(bare: Cli, tmp_path: Path, roots: tuple[Path, Path]) -> None:
    """HANDRAIL_ variables count beside another system's file, a preset, and the variables of autonous."""
    path = tmp_path / "core-tools.json"
    path.write_text(json.dumps({"sandboxRoot": str(tmp_path / "sandbox"), "maxReadBytes": 1000}))
    under(bare, {"HANDRAIL_LIMITS__MAX_READ_BYTES": "7", "AUTONOUS_TOOL_ALLOWED_ROOTS": str(roots[0])})
    forms = (("--dialect", "tool-hub", "--config", str(path)), ("--preset", "kgent"), ("--preset", "autonous"))
    flags = [("--preset", "tool-hub", "--config", str(path)), *forms[1:]]
    assert [shown(bare, *given)["limits.max_read_bytes"] for given in flags] == [7, 7, 7]
    (tmp_path / "sandbox/r1").mkdir(parents=True)
    (tmp_path / "sandbox/r1/a.txt").write_text("more than seven")
    read = bare("call", *forms[0], "--run", "r1", "core/fs.readText", "path=a.txt", "maxBytes=2000", "--json")
    assert json.loads(read.out)["error"]["kind"] == "FILE_TOO_LARGE"
    under(bare, {"HANDRAIL_WORKSPACE__ROOT": str(roots[1])})
    told = bare("call", "--dialect", "autonous", "read", "path=a.txt")
    assert (told.code, "names the roots; unset one of them" in told.err) == (2, True)


def test_a_retried_write_of_tool_hub_is_made_once(bare: Cli, tmp_path: Path) -> None:
    """On the command line and over MCP, in one run: the key is made, and the retry gives the first outcome."""
    path = tmp_path / "core-tools.json"
    path.write_text(json.dumps({"sandboxRoot": str(tmp_path / "sandbox")}))
    flags = ("--dialect", "tool-hub", "--config", str(path), "--run", "r1")
    told = [bare("call", *flags, "core/fs.writeText", "path=a.txt", "text=hi", "--json") for _ in range(2)]
    assert [one.code for one in told] == [0, 0]
    assert json.loads(told[0].out)["toolCallId"] == json.loads(told[1].out)["toolCallId"]
    write = {"name": "core_fs_writeText", "arguments": {"path": "b.txt", "text": "hi"}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": write},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": write},
    ]  # fmt: skip
    server = subprocess.run(
        [sys.executable, "-c", "from handrail.front.cli import main; main()", "mcp", *flags],
        input="".join(json.dumps(line) + "\n" for line in asked),
        env=bare.env, cwd=bare.work, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = {line["id"]: line["result"] for line in map(json.loads, server.stdout.splitlines()) if "result" in line}
    calls = [found[number]["structuredContent"] for number in (2, 3)]
    assert [call["ok"] for call in calls] == [True, True]
    assert calls[0]["toolCallId"] == calls[1]["toolCallId"]


@pytest.mark.parametrize(
    "text",
    [
        "memory:\n  enabled: true\n  provider: external\n  write_mode: external\ntools:\n  disable: [write_file]\n",
        "memory:\nenabled: true\nprovider: external\nwrite_mode: external\ntools:\n  disable: [write_file]\n",
    ],
)
def test_the_yaml_of_kgent_is_read_for_its_dialect(bare: Cli, tmp_path: Path, text: str) -> None:
    """Also as the document prints it, which has lost its indent."""
    path = tmp_path / "kgent.yaml"
    path.write_text(text)
    stored = bare("call", "--dialect", "kgent", "--config", str(path), "write_memory", "content=x", "--json")
    off = bare("call", "--dialect", "kgent", "--config", str(path), "write_file", "path=a", "content=b")
    assert (json.loads(stored.out)["data"]["status"], off.code) == ("stored", 3)


BAD_FILES = [
    (
        *("a.json", "{}", None),
        "JSON and YAML are other systems' forms; say whose by --dialect: skills-agent, clude, tool-hub, kgent",
    ),
    ("a.json", "{}", "autonous", "autonous is set up by AUTONOUS_TOOL_* variables, not by a file"),
    ("a.json", "[]", "clude", "a mapping is needed"),
    (
        "a.json",
        '{"sandboxRoot": "/", "sandboxRoot": "/"}',
        "tool-hub",
        "the key 'sandboxRoot' stands twice in one object",
    ),
    ("a.json", '{"sandboxRoot": "a"}', "tool-hub", "CoreToolsConfig: sandboxRoot is needed, as an absolute folder"),
    (
        *("a.json", '{"sandboxRoot": "/a", "maxReadByte": 1}', "tool-hub"),
        "CoreToolsConfig: unknown key 'maxReadByte'; did you mean maxReadBytes?",
    ),
    ("a.json", '{"denied_paths": "a"}', "clude", "clude policy: denied_paths: expected a list of texts, got 'a'"),
    ("a.json", '{"timeout_ms": true}', "clude", "clude policy: timeout_ms: expected a number, got True"),
    (
        *("a.json", '{"allowed_tools": 4}', "skills-agent"),
        "skills-agent configuration: allowed_tools: expected a list of texts, got 4",
    ),
    ("a.yml", "memory: 5", "kgent", "memory: expected a mapping, got 5"),
    ("a.yml", "tools: {enable: 5}", "kgent", "tools: enable: expected a list of texts, got 5"),
]


@pytest.mark.parametrize(("name", "text", "system", "says"), BAD_FILES)
def test_a_file_in_a_wrong_form_is_refused_by_name(
    bare: Cli, name: str, text: str, system: str | None, says: str
) -> None:
    """What is wrong, and in which file."""
    (bare.work / name).write_text(text)
    flags = ("--preset", system) if system else ()
    told = bare("config", "show", "--config", name, *flags)
    assert (told.code, told.out, told.err) == (2, "", f"handrail: {name}: {says}\n")


@pytest.mark.parametrize("text", ["[" * 100_000, "a: &a [*a, *a]\n" * 3, "memory: [1", "\ufeff- 1"])
def test_hostile_yaml_is_refused_without_a_trace(bare: Cli, text: str) -> None:
    """However deep or crooked."""
    (bare.work / "a.yaml").write_text(text)
    told = bare("config", "show", "--config", "a.yaml", "--preset", "kgent")
    assert (told.code, told.out) == (2, "")


def test_a_preset_alone_says_which_settings_count(bare: Cli) -> None:
    """On every verb that takes settings; beside a file of ours it would be a second opinion."""
    (bare.work / "x.toml").write_text("")
    assert shown(bare, "--preset", "kgent")["workspace.root"] == "run:workspace"
    both = bare("call", "now", "--preset", "coding", "--config", "x.toml")
    unknown = bare("call", "now", "--preset", "klingon")
    assert (both.code, "choose one" in both.err) == (2, True)
    assert (unknown.code, "There is no preset 'klingon'; there are: readonly" in unknown.err) == (2, True)

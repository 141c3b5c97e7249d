"""The same scenarios in every dialect under the same settings: the same decisions, and the same journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from behaviour._commands import need_sandbox
from dialects._speaking import Speak, Voice, skill
from handrail import dialects
from handrail.settings import PRESETS, preset_text

FIVE = ["skills-agent", "clude", "tool-hub", "kgent", "autonous"]
SIX = ["native", *FIVE]
SETTINGS: dict[str, Any] = {
    "tools": {"enable": ["fs", "delete_path", "run_command"]},
    "rules": [
        {"effect": "deny", "touch": "fs.*", "target": "secret/**", "why": "not for agents"},
        {"effect": "ask", "touch": "fs.read", "target": "asked/**", "why": "a person decides"},
        {"effect": "allow", "touch": "proc.exec", "target": "true"},
        {"effect": "deny", "touch": "proc.exec", "target": "rm"},
    ],
}
# How each dialect says what all of them can say.
READ = {"tool-hub": ("core/fs.readText", {"path": 0}), "autonous": ("read", {"path": 0})}
LIST = {
    "native": ("list_dir", {"path": 0}), "tool-hub": ("core/fs.listDir", {"path": 0}),
    "kgent": ("list_files", {"path": 0}), "autonous": ("ls", {"path": 0}),
}  # fmt: skip
GREP = {
    "tool-hub": ("core/fs.searchText", {"root": 0, "query": 1}), "kgent": ("grep_files", {"path": 0, "pattern": 1}),
}  # fmt: skip
ADDED = "*** Begin Patch\n*** Add File: {0}\n+{1}\n*** End Patch\n"
WRITE = {
    "native": ("write_file", {"path": 0, "content": 1, "mode": "overwrite", "expected_sha256": "*"}),
    "tool-hub": ("core/fs.writeText", {"path": 0, "text": 1, "overwrite": True}),
    "autonous": ("write", {"path": 0, "content": 1}),
    "clude": ("apply_patch", {"patch_text": ADDED}),
}  # fmt: skip
REPLACE = {**WRITE, "clude": None, "skills-agent": None, "kgent": None}  # what was not read is stale to these
# Where a document's way is another tool of ours than most take: the same in our words.
TWINS = {("write", "clude"): ("apply_patch", {"patch": ADDED})}
DELETE = {
    "native": ("delete_path", {"path": 0, "confirm": True}), "tool-hub": None, "kgent": None, "autonous": None,
    "skills-agent": ("delete_file", {"path": 0}), "clude": ("delete_file", {"path": 0}),
}  # fmt: skip
RUN = {
    "native": ("run_command", {"command": 0}), "clude": ("run_terminal_cmd", {"command": 0}),
    "autonous": ("bash", {"cmd": 0}), "skills-agent": None, "tool-hub": None, "kgent": None,
}  # fmt: skip
USES: dict[str, tuple[dict[str, Any], tuple[str, dict[str, Any]]]] = {
    "read": (READ, ("read_file", {"path": 0})),
    "list": (LIST, ("list_dir", {"path": 0})),
    "grep": (GREP, ("grep", {"path": 0, "pattern": 1})),
    "write": (WRITE, ("write_file", {"path": 0, "content": 1})),
    "replace": (REPLACE, ("write_file", {"path": 0, "content": 1})),
    "delete": (DELETE, ("", {})),
    "run": (RUN, ("", {})),
}


class Scenario(NamedTuple):
    """A use, what it is used on, and how every dialect must see it end."""

    use: str
    on: tuple[str, ...]
    code: str | None = None
    decision: str = "allow"

    def __str__(self) -> str:
        return f"{self.use} {' '.join(self.on)}"


def denied(use: str, *on: str, code: str = "PATH_OUTSIDE_ROOTS") -> Scenario:
    """One that policy denies."""
    return Scenario(use, on, code, "deny")


SCENARIOS = [
    Scenario("read", ("a.txt",)),
    Scenario("read", ("sub/b.md",)),
    Scenario("read", ("link-in",)),
    Scenario("read", ("missing",), "NOT_FOUND"),
    Scenario("read", ("sub",), "NOT_A_FILE"),
    Scenario("read", ("binary",), "NOT_TEXT"),
    denied("read", "../outside"),
    denied("read", "/etc/passwd"),
    denied("read", "link-out"),
    denied("read", "sub/../../outside"),
    denied("read", ".ssh/id_rsa", code="PATH_PROTECTED"),
    denied("read", ".env", code="PATH_PROTECTED"),
    denied("read", "secret/key", code="POLICY_DENIED"),
    denied("read", "sub/../secret/key", code="POLICY_DENIED"),
    Scenario("read", ("./sub//b.md",)),
    Scenario("read", ("asked/a",), "APPROVAL_REQUIRED", "ask"),
    Scenario("list", (".",)),
    Scenario("list", ("sub",)),
    Scenario("list", ("a.txt",), "NOT_A_DIRECTORY"),
    Scenario("list", ("missing",), "NOT_FOUND"),
    denied("list", ".."),
    denied("list", "secret", code="POLICY_DENIED"),
    Scenario("grep", (".", "needle")),
    Scenario("grep", ("sub", "needle")),
    Scenario("grep", (".", "absent")),
    Scenario("grep", ("a.txt", "needle")),
    Scenario("grep", ("missing", "x"), "NOT_FOUND"),
    denied("grep", "..", "x"),
    denied("grep", "secret", "x", code="POLICY_DENIED"),
    Scenario("write", ("new.txt", "x")),
    Scenario("write", ("made/new.txt", "x")),
    denied("write", "../new.txt", "x"),
    denied("write", ".git/hooks/post-commit", "x", code="PATH_PROTECTED"),
    Scenario("replace", ("a.txt", "x"), "APPROVAL_REQUIRED", "ask"),
    denied("write", "secret/new", "x", code="POLICY_DENIED"),
    Scenario("delete", ("a.txt",), "APPROVAL_REQUIRED", "ask"),
    Scenario("run", ("true",)),
    denied("run", "true; rm a.txt", code="COMMAND_NOT_ALLOWED"),
]


@pytest.fixture
def project(work: Path, tmp_path: Path) -> Path:
    """A workspace with something of everything."""
    for name in ("sub", "secret", "asked", ".ssh"):
        (work / name).mkdir()
    for name in ("a.txt", "sub/b.md", "secret/key", "asked/a", ".ssh/id_rsa", ".env"):
        (work / name).write_text("needle\n")
    (tmp_path / "outside").write_text("x")
    (work / "binary").write_bytes(bytes(range(256)))
    (work / "link-out").symlink_to(tmp_path / "outside")
    (work / "link-in").symlink_to("a.txt")
    return work


def spoken(dialect: str, scenario: Scenario) -> tuple[str, dict[str, Any]] | None:
    """The call of a scenario in a dialect's words; None where its document has no such tool."""
    table, usual = USES[scenario.use]
    found = table.get(dialect, usual)
    if found is None:
        return None
    return filled(found, scenario)


def filled(call: tuple[str, dict[str, Any]], scenario: Scenario) -> tuple[str, dict[str, Any]]:
    """A call with what a scenario is about in its places."""
    name, args = call
    told = {key: scenario.on[value] if value.__class__ is int else value for key, value in args.items()}
    return name, {key: value.format(*scenario.on) if "patch" in key else value for key, value in told.items()}


OURS: tuple[str, ...] = (
    "tool",
    "version",
    "risk",
    "touches",
    "verdict",
    "policy_digest",
    "sandbox",
    "status",
    "code",
    "class",
)
OURS += ("effect", "message", "started")


def journal(say: Voice) -> list[dict[str, Any]]:
    """What the journal says in our fields, without what differs by time and by a document's defaults."""
    told = []
    for event in say.journal():
        if event["kind"].startswith(("tool.", "approval.")):
            args = event.get("args") or {}
            paths = {name: args[name] for name in ("path", "pattern", "content", "command") if args.get(name)}
            files = [change["path"] for change in event.get("files_changed", ())]
            told.append({"kind": event["kind"], **{k: event[k] for k in OURS if k in event}, **paths, "files": files})
            if event.get("code") == "APPROVAL_REQUIRED":
                del told[-1]["message"]  # it names the request
    named: list[dict[str, Any]] = json.loads(json.dumps(told).replace(say.runtime.run_id, "RUN"))
    return named


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_dialect_is_judged_alike_and_leaves_the_same_journal(
    speak: Speak, project: Path, scenario: Scenario
) -> None:
    """One settings file, six dialects: same decision, same code, same lines in our words."""

    async def ended(dialect: str, call: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
        async with speak(dialect, config=SETTINGS, mode="headless") as say:
            await say(*call)
            error = say.last.error
            found = (error and error.code, say.last.decision, journal(say))
            if say.last.changes:
                await say.runtime.undo()
        return found

    calls = {dialect: call for dialect in SIX if (call := spoken(dialect, scenario)) is not None}
    told = {dialect: await ended(dialect, call) for dialect, call in calls.items()}
    wanted = dict.fromkeys(told, told["native"])
    for (use, dialect), twin in TWINS.items():
        if use == scenario.use:
            wanted[dialect] = await ended("native", filled(twin, scenario))
    assert {dialect: found[:2] for dialect, found in told.items()} == dict.fromkeys(
        told, (scenario.code, scenario.decision)
    )
    assert {dialect: found == wanted[dialect] for dialect, found in told.items()} == dict.fromkeys(told, True), told


def test_thirty_scenarios_go_through_all_six() -> None:
    """The table is as long as it should be, and each of its lines is another."""
    everywhere = {item for item in SCENARIOS if all(spoken(name, item) is not None for name in SIX)}
    assert (len(SCENARIOS) == len(set(SCENARIOS)), len(everywhere) >= 30) == (True, True), len(everywhere)


# ── presets ──────────────────────────────────────────────────────────────────────────────────

DO: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read_file", {"path": "a.txt"}),
    "create": ("write_file", {"path": "new.txt", "content": "x"}),
    "replace": ("write_file", {"path": "a.txt", "content": "x", "mode": "overwrite"}),
    "patch": ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: n\n+x\n*** End Patch\n"}),
    "delete": ("delete_path", {"path": "a.txt", "confirm": True}),
    "command": ("run_command", {"command": "make"}),
    "request": ("http_head", {"url": "https://example.org/"}),
    "note": ("write_memory", {"content": "x"}),
}
DECISIONS = {
    "readonly": "allow deny deny deny deny deny deny deny",
    "coding": "allow allow ask allow deny allow deny deny",
    "skills-agent": "allow deny deny deny deny deny deny deny",
    "clude": "allow deny deny allow ask ask deny deny",
    "tool-hub": "allow allow ask deny deny deny deny deny",
    "kgent": "allow allow ask deny deny deny deny allow",
    "autonous": "allow allow allow deny deny allow deny deny",
    "mcp-filesystem": "allow allow allow deny deny deny deny deny",
}


@pytest.mark.parametrize("name", PRESETS)
async def test_a_preset_decides_what_its_document_names(speak: Speak, work: Path, name: str) -> None:
    """Whatever dialect is spoken: presets decide."""
    if name == "coding":
        need_sandbox()
    async with speak("native", start=name, run_id="one") as say:
        Path(say.runtime.kernel.parts.workspace, "a.txt").write_text("x")
        told = {what: say.runtime.explain(tool, args).decision.word for what, (tool, args) in DO.items()}
    assert " ".join(told.values()) == DECISIONS[name], told


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_explains_itself_line_by_line(name: str) -> None:
    """Every key has a comment directly above it, and every rule a reason."""
    settings, *rules = preset_text(name).split("\n[[rules]]\n")
    lines = settings.splitlines()
    keys = [number for number, line in enumerate(lines) if line and line[0] not in "#["]
    assert [lines[number] for number in keys if not lines[number - 1].startswith("# ")] == []
    assert len(keys) >= 4
    assert [rule for rule in rules if "\n[" in rule or '\nwhy = "' not in rule] == []


@pytest.mark.parametrize("name", FIVE)
async def test_a_dialect_opens_nothing(speak: Speak, work: Path, name: str) -> None:
    """Under the strictest settings no word of any dialect changes or runs anything."""
    skill(work, fill__py="print(1)\n")
    before = sorted(str(path) for path in work.rglob("*"))
    allowed = []
    async with speak(name, start="readonly", mode="headless") as say:
        for word in dialects.get(name).words.values():
            tool = say.runtime.parts.catalog.get(word.ours)
            told = say.runtime.tools(every=True)
            on = next(spec["enabled"] for spec in told if spec["name"] == word.name)
            if on and set(tool.permissions) - {"fs.read", "tool.use"}:
                allowed.append(word.name)
    assert (allowed, sorted(str(path) for path in work.rglob("*"))) == ([], before)

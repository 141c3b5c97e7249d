"""Skills through the gate: what is active narrows, is on record, and outlives the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.ports import Reply
from handrail.store.reader import events
from handrail.testing import ScriptedApprover
from handrail.words import Scope
from tools._skill_desk import put_skill


@pytest.fixture
def opens(opens: Any) -> Any:
    """Open a runtime where skills narrow."""

    def make(*, config: dict[str, Any] | None = None, **how: Any) -> Any:
        config = config or {}
        return opens(config={**config, "skills": {"narrow": True, **config.get("skills", {})}}, **how)

    return make


@pytest.fixture
def skills(work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a narrow skill, one beside it, one that is wider, and one without a list; skills narrow."""
    monkeypatch.setenv("HOME", str(own_user))
    folder = work / ".agents/skills"
    put_skill(folder, "narrow", "allowed-tools: Read LS", files={"references/a.md": "abc"})
    put_skill(folder, "less", "allowed-tools: Read")
    put_skill(folder, "wider", "allowed-tools: Read LS Grep")
    put_skill(folder, "open")
    put_skill(folder, "nothing", "allowed-tools: []")
    (put_skill(folder, "broken") / "SKILL.md").write_text("x")
    (work / "a.txt").write_text("hello")
    return folder


def kinds(runtime: Any) -> list[str]:
    return [event["kind"] for event in events(runtime.parts.folder.path)]


async def test_a_loaded_skill_narrows_what_may_be_called(opens: Any, skills: Path) -> None:
    """What it does not name is denied by the skill, also where the same call was allowed a moment before."""
    async with opens() as runtime:
        grep = {"pattern": "hello"}
        assert (await runtime.call("grep", grep)).ok
        assert (await runtime.call("grep", grep)).ok
        loaded = await runtime.call("load_skill", {"skill_id": "narrow"})
        denied = await runtime.call("grep", grep)
        allowed = [await runtime.call(*call) for call in STAYING]
        explained = runtime.explain("grep", grep)
    assert (loaded.ok, loaded.data["allowed_tools"]) == (True, ["hash_file", "list_dir", "read_file", "stat_path"])
    assert (denied.status, denied.error.details["rule"]) == ("denied", "skills.allowed-tools")
    assert denied.error.message == "Denied: the active skill narrow does not list grep in its allowed-tools."
    assert [outcome.error for outcome in allowed] == [None] * len(STAYING)
    assert explained.deciding.rule == "skills.allowed-tools"


STAYING: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "a.txt"}),
    ("list_dir", {}),
    ("list_skills", {}),
    ("display", {"content": "x"}),
    ("load_skill", {"skill_id": "narrow", "resource": "references/a.md"}),
    ("load_skill", {"skill_id": "narrow"}),
]


async def test_what_is_narrowed_is_open_again_under_a_wider_skill(opens: Any, skills: Path) -> None:
    """A verdict remembered under one skill does not hold under the next."""
    async with opens(approver=ScriptedApprover("once")) as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
        before = await runtime.call("grep", {"pattern": "hello"})
        await runtime.call("load_skill", {"skill_id": "wider"})
        after = await runtime.call("grep", {"pattern": "hello"})
    assert (before.status, after.status) == ("denied", "ok")


async def test_the_active_skill_is_in_force_when_the_run_is_opened_again(opens: Any, skills: Path) -> None:
    """From the journal alone, and from a checkpoint; whatever stands in the folder by then."""
    async with opens(run_id="r") as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
    put_skill(skills, "narrow")
    statuses = []
    for _ in range(2):
        async with opens(run_id="r") as runtime:
            statuses += [(await runtime.call(*call)).status for call in (("grep", {"pattern": "x"}), ("list_dir", {}))]
    assert statuses == ["denied", "ok"] * 2


async def test_loading_is_on_record_before_anything_happens_under_it(opens: Any, skills: Path) -> None:
    """`skill.loaded` stands between the start and the end of the call, with what it allows."""
    async with opens() as runtime:
        outcome = await runtime.call("load_skill", {"skill_id": "less"})
        found = list(events(runtime.parts.folder.path))
    told = [event for event in found if event.get("call_id") == outcome.call_id]
    assert [event["kind"] for event in told] == ["tool.started", "skill.loaded", "tool.completed"]
    assert told[0]["touches"] == [
        {"kind": "tool.use", "target": "less", "how": "load", "skill": {"id": "less", "digest": outcome.data["digest"]}}
    ]
    fields = ("id", "name", "source", "digest", "allowed_tools", "permissions")
    assert [told[1][name] for name in fields] == [
        *("less", "less", "project:.agents/skills", outcome.data["digest"]),
        *(["hash_file", "read_file", "stat_path"], []),
    ]


@pytest.mark.parametrize(
    ("first", "then", "asks"),
    [
        ("narrow", "less", False),
        ("narrow", "narrow", False),
        ("narrow", "nothing", False),
        ("narrow", "wider", True),
        ("narrow", "open", True),
        ("nothing", "less", True),
        ("open", "narrow", False),
        ("open", "open", False),
    ],
)
async def test_loading_a_skill_that_opens_more_asks(
    opens: Any, skills: Path, first: str, then: str, asks: bool
) -> None:
    """Narrowing needs nobody; opening needs a person, once for each time."""
    approver = ScriptedApprover("run")
    async with opens(approver=approver) as runtime:
        await runtime.call("load_skill", {"skill_id": first})
        outcome = await runtime.call("load_skill", {"skill_id": then})
    assert (outcome.ok, len(approver.asked)) == (True, int(asks))
    assert outcome.scope == ("call" if asks else "none")


async def test_a_refusal_leaves_the_active_skill(opens: Any, skills: Path) -> None:
    """Nothing opens unless somebody says so."""
    async with opens(approver=ScriptedApprover("no")) as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
        outcome = await runtime.call("load_skill", {"skill_id": "wider"})
        denied = await runtime.call("grep", {"pattern": "x"})
    assert (outcome.error.code, denied.error.code) == ("APPROVAL_DENIED", "POLICY_DENIED")


async def test_an_approval_does_not_hold_for_a_skill_that_changed_since(opens: Any, skills: Path) -> None:
    """It was given for what the skill said then."""
    async with opens(mode="headless", run_id="r") as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
        pending = await runtime.call("load_skill", {"skill_id": "wider"})
        request = pending.error.details["approval"]["id"]
        grant(runtime, request)
        put_skill(skills, "wider", "allowed-tools: Read LS Grep Write")
        late = await runtime.call("load_skill", {"skill_id": "wider"}, approval=request)
        put_skill(skills, "wider", "allowed-tools: Read LS Grep")
        right = await runtime.call("load_skill", {"skill_id": "wider"}, approval=request)
    assert pending.error.code == "APPROVAL_REQUIRED"
    assert (late.error.code, right.ok) == ("APPROVAL_DENIED", True)


def grant(runtime: Any, request: str) -> None:
    """Grant a request as a person would."""
    runtime.parts.ledger.answer(request, Reply("granted", Scope.CALL, by="me"))


async def test_an_operators_rule_can_let_skills_be_changed(opens: Any, skills: Path) -> None:
    """The question is a default, so a rule that allows takes its place."""
    rule = {"effect": "allow", "tool": "load_skill", "target": "wider"}
    approver = ScriptedApprover("no")
    async with opens(config={"rules": [rule]}, approver=approver) as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
        outcome = await runtime.call("load_skill", {"skill_id": "wider"})
    assert (outcome.ok, approver.asked) == (True, [])


@pytest.mark.parametrize(
    ("skill", "grep", "read"),
    [("narrow", False, True), ("open", True, True), ("nothing", False, False), ("broken", False, False)],
)
async def test_the_skill_that_a_call_names_counts(opens: Any, skills: Path, skill: str, grep: bool, read: bool) -> None:
    """For that call alone; a broken one allows nothing."""
    async with opens() as runtime:
        first = await runtime.call("grep", {"pattern": "hello"}, skill=skill)
        second = await runtime.call("read_file", {"path": "a.txt"}, skill=skill)
        without = await runtime.call("grep", {"pattern": "hello"})
    assert (first.ok, second.ok, without.ok) == (grep, read, True)


async def test_a_broken_skill_is_listed_and_not_loadable(opens: Any, skills: Path) -> None:
    """With its problem, and nothing becomes active."""
    async with opens() as runtime:
        listed = await runtime.call("list_skills")
        loaded = await runtime.call("load_skill", {"skill_id": "broken"})
        recorded = kinds(runtime)
    (row,) = [row for row in listed.data["skills"] if row["id"] == "broken"]
    assert row["problems"] == ["SKILL.md does not start with a header: its first line must be `---`"]
    assert (loaded.error.code, "skill.loaded" in recorded) == ("POLICY_DENIED", False)


async def test_what_a_skill_says_is_redacted(opens: Any, skills: Path) -> None:
    """Its text is output like any other."""
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    put_skill(skills, "leaky", f"permissions: [{secret}]", body=f"Use {secret}.", files={"k.txt": secret})
    async with opens() as runtime:
        loaded = await runtime.call("load_skill", {"skill_id": "leaky"})
        file = await runtime.call("load_skill", {"skill_id": "leaky", "resource": "k.txt"})
        journal = (runtime.parts.folder.path / "events.jsonl").read_text()
    assert loaded.redacted
    assert secret not in f"{loaded.to_dict()}{file.to_dict()}{journal}"


async def test_the_users_own_skills_are_offered_and_only_read(opens: Any, skills: Path, own_user: Path) -> None:
    """From their home; `skills.user = false` leaves them out."""
    put_skill(own_user / ".agents/skills", "mine", files={"a.md": "x"})
    folder = str(own_user / ".agents/skills")
    async with opens(enable=("fs",)) as runtime:
        found = await runtime.call("list_skills")
        written = await runtime.call("write_file", {"path": f"{folder}/mine/a.md", "content": "y"})
    (row,) = [row for row in found.data["skills"] if row["id"] == "mine"]
    assert row["source"] == "user:.agents/skills"
    assert written.error.code == "PATH_OUTSIDE_ROOTS"
    async with opens(config={"skills": {"user": False}}) as runtime:
        found = await runtime.call("list_skills")
    assert "mine" not in [row["id"] for row in found.data["skills"]]


async def test_people_can_undo_whatever_skill_is_active(opens: Any, skills: Path, work: Path) -> None:
    """A skill narrows what a model may call; taking changes back is not among that."""
    async with opens(enable=("fs",)) as runtime:
        made = await runtime.call("write_file", {"path": "new.txt", "content": "x"})
        await runtime.call("load_skill", {"skill_id": "nothing"})
        undone = await runtime.undo(made.call_id)
    assert undone.ok, undone.content
    assert not (work / "new.txt").exists()


async def test_settings_name_the_folders_of_skills(opens: Any, skills: Path, work: Path) -> None:
    """An empty list finds none."""
    put_skill(work / "tools/skills", "other")
    ids = []
    for folders in (["tools/skills"], []):
        async with opens(config={"skills": {"folders": folders}}) as runtime:
            ids.append([row["id"] for row in (await runtime.call("list_skills")).data["skills"]])
    assert ids == [["other"], []]


@pytest.mark.parametrize("folder", [".agents/skills", ".claude/skills", "tools/skills", "linked"])
async def test_no_skill_is_changed_unasked(opens: Any, work: Path, folder: str) -> None:
    """By tools and by programs: what a skill says and runs is for people to change, wherever settings look for it."""
    (work / "tools").mkdir()
    (work / "linked").symlink_to("tools", target_is_directory=True)
    put_skill(work / folder, "pdf", files={"scripts/a.sh": "echo 1"})
    approver = ScriptedApprover("no", "no")
    rules = [{"effect": "allow", "touch": "proc.exec"}]
    skills = {"folders": [".agents/skills", ".claude/skills", "tools/skills", "linked"]}
    config = {"skills": skills, "rules": rules, "tools": {"enable": ["fs", "exec", "move_path"]}}
    async with opens(config=config, approver=approver, mode="interactive") as runtime:
        path = f"{folder}/pdf/scripts/new.sh"
        written = await runtime.call("write_file", {"path": path, "content": "echo 2"})
        moved = await runtime.call("move_path", {"source": folder, "target": "elsewhere"})
        told = await runtime.call("run_command", {"command": f"touch {path}"})
        (work / "quiet.sh").write_text(f"touch {path} || echo kept\n")
        ran = await runtime.call("run_command", {"command": "sh quiet.sh"})
    assert [written.status, moved.status, told.status] == ["denied"] * 3
    assert (len(approver.asked), ran.data["stdout"]) == (3, "kept\n")
    assert not (work / path).exists()


@pytest.mark.parametrize(
    ("named", "status"), [("wider", "denied"), ("open", "denied"), ("less", "denied"), (None, "ok")]
)
async def test_a_skill_that_a_call_names_never_lifts_the_active_one(
    opens: Any, skills: Path, named: str | None, status: str
) -> None:
    """It may narrow further: what opens more tools is loaded, and loading asks."""
    async with opens() as runtime:
        await runtime.call("load_skill", {"skill_id": "narrow"})
        grep = await runtime.call("grep", {"pattern": "hello"}, skill=named)
        listed = await runtime.call("list_dir", {}, skill=named)
    assert grep.status == "denied"
    assert listed.status == ("ok" if named in (None, "wider", "open") else status)

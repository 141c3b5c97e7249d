"""kunora-kgent, promise by promise; each docstring begins with the section of its document.

Longer than 500 lines because every promise of the document is a test of its own.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from behaviour.test_memory_service import Service, serving
from dialects._speaking import Speak, Voice, skill
from handrail import Code, Decision, Problem, SettingsFault, dialects, tool
from handrail.settings import foreign
from handrail.testing import MemoryNotes, ScriptedApprover, lend

MEMORY = """\
memory:
  enabled: true
  provider: external
  write_mode: candidate
"""
EIGHT = [
    "read_file", "write_file", "list_files", "grep_files", "list_skills", "load_skill", "recall_memory", "write_memory",
]  # fmt: skip


async def filled(say: Voice) -> None:
    """Put a file into the run's workspace."""
    await say("write_file", path="a.txt", content="one\nneedle\n")


# ── 技术设计对齐, 范围, 概念模型 ──────────────────────────────────────────────────────────────────


async def test_exactly_the_eight_tools_are_listed(speak: Speak) -> None:
    """接口: filesystem, skills and memory, and nothing else."""
    async with speak("kgent", start="kgent") as say:
        assert list(say.specs()) == EIGHT


async def test_all_eight_are_on_by_default(speak: Speak) -> None:
    """范围: Phase 1 includes them all."""
    async with speak("kgent", start="kgent") as say:
        assert list(say.specs(every=False)) == EIGHT


THREE = {
    "FilesystemToolset": ["read_file", "write_file", "list_files", "grep_files"],
    "SkillToolset": ["list_skills", "load_skill"],
    "MemoryToolset": ["recall_memory", "write_memory"],
}


async def test_tools_are_grouped_in_three_toolsets(speak: Speak) -> None:
    """概念模型: FilesystemToolset, SkillToolset, MemoryToolset."""
    async with speak("kgent", start="kgent") as say:
        specs = say.specs()
    groups = dict.fromkeys(spec["toolset"] for spec in specs.values())
    assert {group: [name for name in specs if specs[name]["toolset"] == group] for group in groups} == THREE


async def test_tools_are_registered_as_pydantic_ai_toolsets(speak: Speak) -> None:
    """技术设计对齐: each group is a toolset that an agent takes; calls of it go through the gate."""
    from pydantic_ai import RunContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.usage import RunUsage

    from handrail.pydantic_ai import HandrailToolset

    async with speak("kgent", start="kgent") as say:
        context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        toolsets = {name: HandrailToolset(say.runtime, toolset=name) for name in THREE}
        offered = {name: await toolset.get_tools(context) for name, toolset in toolsets.items()}
        files, args = toolsets["FilesystemToolset"], {"path": "a.txt", "content": "x"}
        tool = offered["FilesystemToolset"]["write_file"]
        await files.call_tool("write_file", args, context, tool)
        ended = [event["kind"] for event in say.journal() if event["kind"].startswith("tool.")]
        written = (say.folder / "workspace/a.txt").read_text()
    assert {name: list(tools) for name, tools in offered.items()} == THREE
    assert tool.tool_def.parameters_json_schema["required"] == ["path", "content"]
    assert (isinstance(files, AbstractToolset), ended, written) == (True, ["tool.started", "tool.completed"], "x")


EIGHT_PERMISSIONS = {
    "read_file": (["fs.read"], "low", "reads"),
    "write_file": (["fs.read", "fs.write"], "high", "writes"),
    "list_files": (["fs.read"], "low", "reads"),
    "grep_files": (["fs.read"], "low", "reads"),
    "list_skills": (["tool.use"], "low", "none"),
    "load_skill": (["tool.use"], "low", "none"),
    "recall_memory": (["tool.use"], "low", "none"),
    "write_memory": (["memory.write"], "medium", "writes"),
}


async def test_a_tool_has_name_description_schema_and_permission_metadata(speak: Speak) -> None:
    """概念模型: what a Tool is."""
    async with speak("kgent", start="kgent") as say:
        specs = say.specs()
    told = {name: (one["required_permissions"], one["risk"], one["side_effects"]) for name, one in specs.items()}
    assert told == EIGHT_PERMISSIONS
    assert all(spec["name"] == name and spec["description"] for name, spec in specs.items())
    assert {name: spec["args_schema"]["required"] for name, spec in specs.items()} == {
        "read_file": ["path"], "write_file": ["path", "content"], "list_files": ["path"],
        "grep_files": ["pattern", "path"], "list_skills": [], "load_skill": ["skill_id"], "recall_memory": ["query"],
        "write_memory": ["content"],
    }  # fmt: skip


async def test_data_fits_the_schema_of_its_tool(speak: Speak, work: Path) -> None:
    """概念模型: what a tool gives back is described, too."""
    skill(work)
    calls: dict[str, dict[str, Any]] = {
        "write_file": {"path": "a.txt", "content": "needle\n"}, "read_file": {"path": "a.txt"},
        "list_files": {"path": "."}, "grep_files": {"pattern": "needle", "path": "."}, "list_skills": {},
        "load_skill": {"skill_id": "pdf-form-filler"}, "recall_memory": {"query": "x"},
        "write_memory": {"content": "x"},
    }  # fmt: skip
    async with speak("kgent", start="kgent") as say:
        specs = say.specs()
        for name, args in calls.items():
            told = await say(name, args)
            assert (told["ok"], bool(specs[name]["return_schema"]["properties"])) == (True, True), told
            jsonschema.validate(told["data"], specs[name]["return_schema"])


async def test_there_is_no_shell(speak: Speak) -> None:
    """范围: unrestricted shell is excluded; the tool is not even known."""
    async with speak("kgent", start="kgent") as say:
        told = await say("run_command", command="true")
    assert told["error"]["code"] == "UNKNOWN_TOOL"


async def test_shell_stays_denied_in_any_dialect(speak: Speak) -> None:
    """质量和治理: shell is refused by default, whoever asks in whatever words."""
    async with speak("clude", start="kgent") as say:
        told = await say("run_terminal_cmd", command="true")
    assert told["error"]["code"] == "POLICY_DENIED"


# ── interfaces ───────────────────────────────────────────────────────────────────────────────


async def test_read_file_takes_a_path(speak: Speak) -> None:
    """接口 Filesystem: read_file(path)."""
    async with speak("kgent", start="kgent") as say:
        await filled(say)
        told = await say("read_file", path="a.txt")
    assert (told["ok"], told["data"]["text"]) == (True, "one\nneedle\n")


async def test_write_file_takes_path_and_content(speak: Speak) -> None:
    """接口 Filesystem: write_file(path, content)."""
    async with speak("kgent", start="kgent") as say:
        told = await say("write_file", path="sub/a.txt", content="x")
        assert (say.folder / "workspace/sub/a.txt").read_text() == "x"
    assert told["artifacts"][-1]["ref"] == "sub/a.txt"


async def test_a_file_is_replaced_once_it_was_read_and_a_person_said_yes(speak: Speak) -> None:
    """接口 Filesystem: write_file makes new files by itself; what it would replace was seen, and somebody is asked."""
    approver = ScriptedApprover("once")
    async with speak("kgent", start="kgent", approver=approver) as say:
        file = say.folder / "workspace/a.txt"
        file.write_text("former")
        unseen = await say("write_file", path="a.txt", content="new")
        kept = file.read_text()
        await say("read_file", path="a.txt")
        seen = await say("write_file", path="a.txt", content="new")
        assert (kept, file.read_text()) == ("former", "new")
    assert (unseen["error"]["code"], seen["ok"], len(approver.asked)) == ("STALE_FILE", True, 1)


async def test_list_files_takes_a_path(speak: Speak) -> None:
    """接口 Filesystem: list_files(path)."""
    async with speak("kgent", start="kgent") as say:
        await filled(say)
        told = await say("list_files", path=".")
    assert [entry["name"] for entry in told["data"]["entries"]] == ["a.txt"]


async def test_grep_files_takes_pattern_and_path(speak: Speak) -> None:
    """接口 Filesystem: grep_files(pattern, path)."""
    async with speak("kgent", start="kgent") as say:
        await filled(say)
        told = await say("grep_files", pattern="need.e", path=".")
    assert [(row["file"], row["line"]) for row in told["data"]["matches"]] == [("a.txt", 2)]


async def test_list_skills_takes_nothing(speak: Speak, work: Path) -> None:
    """接口 Skills: list_skills()."""
    skill(work)
    async with speak("kgent", start="kgent") as say:
        told = await say("list_skills")
    assert [item["id"] for item in told["data"]["skills"]] == ["pdf-form-filler"]


async def test_load_skill_takes_its_id(speak: Speak, work: Path) -> None:
    """接口 Skills: load_skill(skill_id)."""
    skill(work)
    async with speak("kgent", start="kgent") as say:
        told = await say("load_skill", skill_id="pdf-form-filler")
    assert (told["ok"], "Use the script." in json.dumps(told["data"])) == (True, True)


async def test_recall_memory_takes_query_scope_and_limit(speak: Speak) -> None:
    """接口 Memory: recall_memory(query, scope, limit)."""
    async with speak("kgent", config=foreign.kgent(MEMORY.replace("candidate", "external"))) as say:
        for number, scope in enumerate(["workspace", "workspace", "user"]):
            await say("write_memory", content=f"Fact {number} about builds.", scope=scope)
        told = [
            await say("recall_memory", query="builds", scope="workspace", limit=5),
            await say("recall_memory", query="builds", scope="user", limit=5),
            await say("recall_memory", query="builds", limit=1),
            await say("recall_memory", query="nothing of the kind"),
        ]
    found = [sorted(note["content"][5] for note in result["data"]["notes"]) for result in told]
    assert ([*found[:2], len(found[2]), found[3]]) == [["0", "1"], ["2"], 1, []]


async def test_write_memory_takes_content_scope_and_tags(speak: Speak) -> None:
    """接口 Memory: write_memory(content, scope, tags)."""
    async with speak("kgent", start="kgent") as say:
        told = await say("write_memory", content="The build needs node 22.", scope="user", tags=["build"])
        kept = json.loads((say.folder / told["data"]["ref"].removeprefix("run:")).read_text())
    assert (kept["content"], kept["scope"], kept["tags"], kept["state"]) == (
        "The build needs node 22.", "user", ["build"], "pending",
    )  # fmt: skip


# ── effective permission policy ──────────────────────────────────────────────────────────────


async def test_runtime_denials_always_win(speak: Speak) -> None:
    """合并规则 1: no rule that allows lifts what the runtime denies."""
    config = {"rules": [{"effect": "allow", "touch": "fs.*"}]}
    async with speak("kgent", start="kgent", config=config) as say:
        told = await say("write_file", path=".ssh/id", content="x")
    assert told["error"]["code"] == "PATH_PROTECTED"


async def test_sandbox_paths_always_win(speak: Speak, work: Path) -> None:
    """合并规则 2: what lies outside stays outside, whatever configuration allows."""
    config = {"rules": [{"effect": "allow", "touch": "fs.*"}], "workspace": {"allow_absolute": True}}
    async with speak("kgent", start="kgent", config=config) as say:
        told = await say("write_file", path=f"{work}/a.txt", content="x")
    assert told["error"]["code"] == "PATH_OUTSIDE_ROOTS"


async def test_configuration_enables_safe_abilities(speak: Speak) -> None:
    """合并规则 3: what configuration names is on."""
    async with speak("kgent", config={"tools": {"enable": []}}) as say:
        off = await say("write_file", path="a.txt", content="x")
    async with speak("kgent", config={"tools": {"enable": ["write_file"]}}) as say:
        on = await say("write_file", path="a.txt", content="x")
    assert (off["error"]["code"], on["ok"]) == ("POLICY_DENIED", True)


async def test_a_skill_asks_and_grants_nothing(speak: Speak, work: Path) -> None:
    """合并规则 4: a skill that lists write_file does not switch it on."""
    skill(work, header="allowed-tools: write_file read_file\n")
    async with speak("kgent", config={"tools": {"enable": []}}) as say:
        await say("load_skill", skill_id="pdf-form-filler")
        told = await say("write_file", path="a.txt", content="x")
    assert told["error"]["code"] == "POLICY_DENIED"


async def test_destructive_operations_need_configuration(speak: Speak, work: Path) -> None:
    """合并规则 5: deleting is denied until it is enabled explicitly; then a person is asked."""
    (work / "a.txt").write_text("x")
    async with speak("skills-agent", start="kgent") as say:
        denied = await say("delete_file", path="a.txt")
    async with speak("skills-agent", config={"tools": {"enable": ["delete_path"]}}, mode="headless") as say:
        asked = await say("delete_file", path="a.txt")
    assert (denied["error"]["type"], asked["error"]["type"]) == ("ToolNotAllowed", "ApprovalRequired")
    assert (work / "a.txt").exists()


async def test_the_effective_policy_is_computed_and_shown(speak: Speak, work: Path) -> None:
    """Effective Permission Policy: safe defaults, configuration, loaded skills, sandbox: what each of them says."""
    skill(work, header="allowed-tools: read_file\n")
    write = {"path": "a.txt", "content": "x"}
    asked: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "safe defaults": ({**write}, {}),
        "runtime denials": ({**write, "path": ".ssh/id"}, {}),
        "sandbox": ({**write, "path": "../x"}, {}),
        "skill": ({**write}, {"skill": "pdf-form-filler"}),
    }
    async with speak("kgent", start="kgent") as say:
        told = {what: say.runtime.explain("write_file", args, **how) for what, (args, how) in asked.items()}
        policy = say.runtime.policy()
    assert {what: (verdict.decision.word, verdict.findings[-1].rule) for what, verdict in told.items()} == {
        "safe defaults": ("allow", "defaults.workspace-write"),
        "runtime denials": ("deny", "builtin.key-material"),
        "sandbox": ("deny", "confine.roots"),
        "skill": ("deny", "skills.allowed-tools"),
    }
    (deleting,) = policy["tools"]["delete_path"]["touches"]
    assert (deleting["result"], sorted(deleting["by"])) == ("deny", ["enablement", "rules"])
    assert [rule["why"] for rule in policy["rules"]] == [
        "there is no shell here", "destructive operations are denied by default",
        "notes wait for a person to accept them", "a note waits until a person accepts it",
    ]  # fmt: skip
    assert policy["roots"][0] == {"name": "workspace", "path": str(say.folder / "workspace"), "writable": True}


async def test_a_loaded_skill_narrows_from_then_on(speak: Speak, work: Path) -> None:
    """Effective Permission Policy: loaded skill permission declarations are part of it."""
    skill(work, header="allowed-tools: read_file list_skills\n")
    async with speak("kgent", start="kgent") as say:
        before = await say("write_file", path="a.txt", content="x")
        loaded = await say("load_skill", skill_id="pdf-form-filler")
        told = await say("write_file", path="b.txt", content="x")
        fine = await say("read_file", path="a.txt")
    assert (before["ok"], loaded["ok"], fine["ok"]) == (True, True, True)
    assert (told["error"]["code"], told["error"]["details"]["rule"]) == ("POLICY_DENIED", "skills.allowed-tools")


# ── memory write mode ────────────────────────────────────────────────────────────────────────


PRINTED = """memory:
enabled: true
provider: external
write_mode: candidate
"""


@pytest.mark.parametrize("text", [PRINTED, MEMORY], ids=["as printed", "indented"])
async def test_the_printed_memory_block_goes_through(speak: Speak, text: str) -> None:
    """Memory Write Mode: the YAML of the document, byte for byte, and with the indent that it lost."""
    assert foreign.kgent(text)["memory"] == {"enabled": True, "write_mode": "candidate", "provider": "sqlite"}
    async with speak("kgent", config=foreign.kgent(text)) as say:
        told = await say("write_memory", content="x")
    assert told["data"]["status"] == "candidate"


async def test_memory_can_be_switched_off(speak: Speak) -> None:
    """Memory Write Mode: enabled; without it neither tool is offered."""
    async with speak("kgent", config=foreign.kgent(MEMORY.replace("true", "false"))) as say:
        names = list(say.specs(every=False))
        told = [await say("recall_memory", query="x"), await say("write_memory", content="x")]
    assert (names, [result["error"]["code"] for result in told]) == (EIGHT[:6], ["POLICY_DENIED"] * 2)


def test_the_provider_is_external_and_no_other_name_is_taken() -> None:
    """Memory Write Mode: provider: external is the service that is named, or the one that comes along."""
    url = "https://notes.example.org/v1"
    told = [foreign.kgent({"memory": block})["memory"]["provider"] for block in ({}, {"url": url})]
    assert told == ["sqlite", "http"]
    with pytest.raises(SettingsFault, match="provider 'cloud' is none of external, sqlite, http"):
        foreign.kgent({"memory": {"provider": "cloud"}})


async def test_disabled_does_not_offer_writing(speak: Speak) -> None:
    """Memory Write Mode: disabled."""
    async with speak("kgent", config=foreign.kgent(MEMORY.replace("candidate", "disabled"))) as say:
        names, told = say.specs(every=False), await say("write_memory", content="x")
    assert ("write_memory" in names, "recall_memory" in names, told["ok"]) == (False, True, False)


async def test_candidate_writes_to_the_archive_of_the_run(speak: Speak) -> None:
    """Memory Write Mode: candidate; nothing is remembered until a person accepts it."""
    async with speak("kgent", config=foreign.kgent(MEMORY)) as say:
        await say("write_memory", content="Node 22 is needed.")
        recalled = await say("recall_memory", query="Node")
        kept = [path for path in (say.folder / "archive").rglob("*") if path.is_file()]
        texts = [path.read_bytes() for path in kept]
    assert (recalled["data"]["notes"], any(b"Node 22" in text for text in texts)) == ([], True)


async def test_external_calls_the_provider(speak: Speak) -> None:
    """Memory Write Mode: external; the note is there at once."""
    async with speak("kgent", config=foreign.kgent(MEMORY.replace("candidate", "external"))) as say:
        await say("write_memory", content="Node 22 is needed.")
        recalled = await say("recall_memory", query="Node")
    assert [note["content"] for note in recalled["data"]["notes"]] == ["Node 22 is needed."]


def test_candidate_is_the_default() -> None:
    """Memory Write Mode: Phase 1 default."""
    from handrail import preset

    assert (preset("kgent")["memory"]["write_mode"], foreign.kgent("memory: {}")["memory"]["write_mode"]) == (
        "candidate", "candidate",
    )  # fmt: skip


def test_another_mode_is_refused_by_name() -> None:
    """Memory Write Mode: three modes, and no other."""
    with pytest.raises(SettingsFault, match="write_mode 'always' is none of disabled, candidate, external"):
        foreign.kgent("memory: {write_mode: always}")


def test_tool_permissions_come_from_configuration() -> None:
    """运行时行为: permission policy and toolsets are made from config, in the document's names."""
    told = foreign.kgent({"tools": {"enable": ["grep_files"], "disable": ["write_file"]}})["tools"]
    assert (told["enable"], told["disable"]) == (["write_memory", "grep"], ["exec", "write_file"])
    with pytest.raises(SettingsFault, match="did you mean write_file"):
        foreign.kgent({"tools": {"enable": ["write_fil"]}})


# ── ToolResult ───────────────────────────────────────────────────────────────────────────────


async def test_a_result_has_five_fields(speak: Speak) -> None:
    """Tool Result Summary Contract: ok, summary, data, artifacts, error."""
    async with speak("kgent", start="kgent") as say:
        good, bad = await say("list_files", path="."), await say("read_file", path="missing")
    assert [list(told) for told in (good, bad)] == [["ok", "summary", "data", "artifacts", "error"]] * 2
    assert (good["error"], bad["data"]) == (None, None)


async def test_a_summary_says_what_happened(speak: Speak) -> None:
    """Tool Result Summary Contract: one line."""
    async with speak("kgent", start="kgent") as say:
        await filled(say)
        told = await say("read_file", path="a.txt")
    assert told["summary"] == "Lines 1-2 of 2 of a.txt"


SMALL = {"limits": {"max_output_bytes": 2000}}
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD3fG6"


async def whole(say: Voice, path: str) -> str:
    """A file as read_file alone gives it, part after part."""
    told = await say("read_file", path=path)
    text = told["data"]["text"]
    while told["data"].get("next_cursor"):
        told = await say("read_file", path=path, cursor=told["data"]["next_cursor"])
        text += told["data"]["text"]
    return str(text)


def logged(say: Voice) -> list[dict[str, Any]]:
    """The lines of logs/tools.jsonl, once the run has ended."""
    return [json.loads(line) for line in (say.folder / "logs/tools.jsonl").read_text().splitlines()]


async def test_large_data_becomes_an_artifact(speak: Speak) -> None:
    """Tool Result Summary Contract: not into the log, but into a file that is named and can be read."""
    lines = "".join(f"line {number} of text\n" for number in range(1000))
    async with speak("kgent", start="kgent", config=SMALL) as say:
        await say("write_file", path="a.txt", content=lines)
        told = await say("read_file", path="a.txt")
        size = max(len(json.dumps(event)) for event in say.journal()[-2:])
        [artifact] = told["artifacts"]
        kept = say.folder / artifact["ref"].removeprefix("run:")
        assert (kept.read_text(), artifact["bytes"]) == (lines, len(lines))
        assert artifact["sha256"] == hashlib.sha256(kept.read_bytes()).hexdigest()
        assert await whole(say, artifact["ref"]) == lines
        again = await say("read_file", path=artifact["ref"])
    assert (len(told["data"]["text"]) <= 2000, told["data"]["complete"], size < 3000) == (True, False, True)
    assert again["artifacts"] == []  # it is its own whole


async def test_a_large_search_becomes_an_artifact(speak: Speak) -> None:
    """Tool Result Summary Contract: of matches, too, all are in the file that is named, by the one call that asked."""
    text = "".join(f"needle {number}\n" for number in range(20_000))
    config = {"limits": {"max_calls": 6}}
    async with speak("kgent", start="kgent", config=config) as say:
        await say("write_file", path="a.txt", content=text)
        told = await say("grep_files", pattern="needle", path=".")
        [artifact] = told["artifacts"]
        kept = (say.folder / artifact["ref"].removeprefix("run:")).read_text()
        calls = [await say("read_file", path=artifact["ref"]), *[await say("list_files", path=".") for _ in range(2)]]
    lines = logged(say)
    assert kept == "".join(f"a.txt:{number + 1}:needle {number}\n" for number in range(20_000))
    assert (artifact["bytes"], artifact["sha256"]) == (len(kept), hashlib.sha256(kept.encode()).hexdigest())
    assert (len(told["data"]["matches"]), "more follow" in told["summary"]) == (100, True)
    assert [(line["tool"], line["args"]) for line in lines if "grep" in line["tool"]] == [
        ("grep_files", {"pattern": "needle", "path": "."})
    ]
    assert ([call["ok"] for call in calls], len(lines)) == ([True] * 3, 5)


async def test_a_large_listing_becomes_an_artifact(speak: Speak) -> None:
    """Tool Result Summary Contract: of a folder, too, all entries are in the file that is named, by one call."""
    names = [f"{number:05}" for number in range(3000)]
    async with speak("kgent", start="kgent", config={"limits": {"max_calls": 1}}) as say:
        for name in names:
            (say.folder / "workspace" / name).touch()
        told = await say("list_files", path=".")
        [artifact] = told["artifacts"]
        kept = (say.folder / artifact["ref"].removeprefix("run:")).read_text()
    lines = logged(say)
    assert [line.split()[0] for line in kept.splitlines()] == names
    assert (artifact["bytes"], artifact["sha256"]) == (len(kept), hashlib.sha256(kept.encode()).hexdigest())
    assert (len(told["data"]["entries"]), told["data"]["total"]) == (500, 3000)
    assert [(line["tool"], line["args"]) for line in lines] == [("list_files", {"path": "."})]


async def test_large_data_is_not_in_the_logs(speak: Speak) -> None:
    """Tool Result Summary Contract: the record and the logs name what is large; its text is in none of them."""
    text = "".join(f"line {number} of text\n" for number in range(5000))
    async with speak("kgent", start="kgent") as say:
        (say.folder / "workspace/a.txt").write_text(text)
        told = [await say("read_file", path="a.txt"), await say("grep_files", pattern="text", path=".")]
    written = [say.folder / name for name in ("events.jsonl", "logs/tools.jsonl", "logs/errors.jsonl")]
    lines = [line for path in written for line in path.read_text().splitlines()]
    assert [line for line in lines if "line 1 of text" in line or len(line) > 5000] == []
    assert [len(one["artifacts"]) for one in told] == [1, 1]
    assert any(told[1]["artifacts"][0]["ref"] in line for line in lines)


async def test_an_artifact_holds_no_secret(speak: Speak, work: Path) -> None:
    """Tool Result Summary Contract: what is hidden in data is hidden in what data became, and said to be."""
    text = "line of text\n" * 500
    async with speak("kgent", start="kgent", config=SMALL) as say:
        Path(say.runtime.kernel.parts.workspace, "a.txt").write_text(f"{text}token {TOKEN}\n{text}")
        read = await say("read_file", path="a.txt")
        redacted = say.last.redacted
        found = await say("grep_files", pattern="t", path=".")
        kept = [(say.folder / told["artifacts"][0]["ref"].removeprefix("run:")).read_text() for told in (read, found)]
        everything = b"".join(
            path.read_bytes()
            for path in say.folder.rglob("*")
            if path.is_file() and "workspace" not in path.parts[len(say.folder.parts) :]
        )
    assert (redacted, TOKEN.encode() in everything) == (True, False)
    assert ["***REDACTED***" in one for one in kept] == [True, True]


async def test_an_artifact_names_no_file_by_its_secret(speak: Speak) -> None:
    """Tool Result Summary Contract: names of files are hidden in artifacts, too, and the content says so."""
    async with speak("kgent", start="kgent", config=SMALL) as say:
        for number in range(600):
            (say.folder / f"workspace/{TOKEN}.{number}").write_text("needle\n")
        told = [await say("list_files", path="."), await say("grep_files", pattern="needle", path=".")]
        flags = [outcome.redacted for outcome in say.outcomes]
        kept = [(say.folder / one["artifacts"][0]["ref"].removeprefix("run:")).read_text() for one in told]
    assert ([TOKEN in text for text in kept], flags) == ([False, False], [True, True])
    assert [text.count("***REDACTED***.") for text in kept] == [600, 600]


async def test_a_large_file_is_an_artifact_of_the_one_call_that_read_it(speak: Speak) -> None:
    """Tool Result Summary Contract: no further call is made; what is too large to be kept twice is the file itself."""
    text = "a line of text\n" * 400_000
    async with speak("kgent", start="kgent", config={"limits": {"max_calls": 2}}) as say:
        (say.folder / "workspace/large.txt").write_text(text[:100_000])
        (say.folder / "workspace/huge.txt").write_text(text)
        told = [await say("read_file", path=f"{name}.txt") for name in ("large", "huge")]
    large, huge = (one["artifacts"][0] for one in told)
    assert (say.folder / large["ref"].removeprefix("run:")).read_text() == text[:100_000]
    assert huge == {"ref": "huge.txt", "sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text)}
    assert [(line["tool"], line["args"], line["ok"]) for line in logged(say)] == [
        ("read_file", {"path": "large.txt"}, True), ("read_file", {"path": "huge.txt"}, True),
    ]  # fmt: skip


async def test_a_small_answer_makes_no_artifact(speak: Speak) -> None:
    """Tool Result Summary Contract: only what is large is kept apart."""
    async with speak("kgent", start="kgent") as say:
        await filled(say)
        told = [await say("read_file", path="a.txt"), await say("grep_files", pattern="needle", path=".")]
        kept = list((say.folder / "observations").glob("*"))
    assert ([one["artifacts"] for one in told], kept) == ([[], []], [])


async def test_a_cursor_of_another_tool_is_refused(speak: Speak) -> None:
    """Tool Result Summary Contract: the part that follows is asked for as it was told."""
    async with speak("kgent", start="kgent") as say:
        await filled(say)
        told = [
            await say("read_file", path="a.txt", cursor=one) for one in ("x", "[]", '{"whole": true}', '{"path": "b"}')
        ]
    assert [one["error"]["code"] for one in told] == ["INVALID_ARGS"] * 4


async def test_changed_files_are_artifacts_with_their_hash(speak: Speak) -> None:
    """Tool Result Summary Contract: artifacts refer to what was made."""
    async with speak("kgent", start="kgent") as say:
        told = await say("write_file", path="a.txt", content="x")
    assert [(item["ref"], item["op"], len(item["sha256"])) for item in told["artifacts"]] == [("a.txt", "create", 64)]


async def test_an_error_says_how_to_mend_it(speak: Speak) -> None:
    """Tool Result Summary Contract: error with code, message and details in the document's names."""
    async with speak("kgent", start="kgent") as say:
        told = await say("list_files", paht=".")
    assert told["error"]["code"] == "INVALID_ARGS"
    assert {error["field"]: error["expected"] for error in told["error"]["details"]["errors"]} == {
        "path": "it is required", "paht": "did you mean path?",
    }  # fmt: skip


async def test_what_is_not_there_was_looked_for_in_the_sandbox(speak: Speak, work: Path) -> None:
    """Tool Result Summary Contract: a file of the project is none of the sandbox's; the error says where it looked."""
    (work / "a.txt").write_text("x")
    async with speak("kgent", start="kgent", run_id="first") as say:
        told = [
            await say("read_file", path="a.txt"),
            await say("list_files", path="a.txt"),
            await say("grep_files", pattern="x", path="a.txt"),
        ]
    assert [(one["error"]["code"], one["error"]["message"], one["error"]["details"]["sandbox"]) for one in told] == [
        ("NOT_FOUND", "a.txt does not exist in the sandbox runs/first/workspace.", "runs/first/workspace")
    ] * 3
    assert {one["summary"] for one in told} == {f"NOT_FOUND: {told[0]['error']['message']}"}


# ── events and products ──────────────────────────────────────────────────────────────────────


async def tool_events(speak: Speak, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool events that calls leave."""
    async with speak("kgent", start="kgent") as say:
        for name, args in calls:
            await say(name, args)
        return [event for event in say.events() if event["kind"].startswith("tool.")]


async def test_tool_started_is_written_before_the_tool_runs(speak: Speak) -> None:
    """运行时行为: tool.started."""
    first, second = await tool_events(speak, ("list_files", {"path": "."}))
    assert (first["kind"], first["tool"], first["args"], first["seq"] < second["seq"]) == (
        "tool.started", "list_files", {"path": "."}, True,
    )  # fmt: skip


async def test_tool_completed_has_duration_and_status(speak: Speak) -> None:
    """运行时行为: tool.completed."""
    ended = (await tool_events(speak, ("list_files", {"path": "."})))[-1]
    assert (ended["kind"], ended["tool"], ended["status"], ended["duration_ms"] > 0) == (
        "tool.completed", "list_files", "ok", True,
    )  # fmt: skip


async def test_a_refused_call_never_starts(speak: Speak) -> None:
    """运行时行为: permission is checked before a tool runs."""
    found = await tool_events(speak, ("read_file", {"path": "../x"}), ("run_command", {"command": "true"}))
    assert [(event["kind"], event["error"]["code"]) for event in found] == [
        ("tool.failed", "PATH_OUTSIDE_ROOTS"), ("tool.failed", "UNKNOWN_TOOL"),
    ]  # fmt: skip


async def test_tool_failed_has_the_error(speak: Speak) -> None:
    """运行时行为: tool.failed."""
    ended = (await tool_events(speak, ("read_file", {"path": "missing"})))[-1]
    assert (ended["kind"], ended["status"], ended["error"]["code"]) == ("tool.failed", "failed", "NOT_FOUND")


@pytest.mark.parametrize(
    "path", ["logs/tools.jsonl", "logs/errors.jsonl", "events.jsonl", "workspace", "deliverables", "archive"]
)
async def test_a_run_leaves_its_products(speak: Speak, work: Path, path: str) -> None:
    """产物: under runs/<run-id>/."""
    async with speak("kgent", start="kgent", run_id="first") as say:
        await say("read_file", path="missing")
        await say("write_file", path="draft.md", content="x")
        await say("write_file", path="run:deliverables/report.md", content="done")
        await say("write_memory", content="Node 22 is needed.")
    run = work / "runs/first"
    found = run / path
    held = [json.loads(line) for line in found.read_text().splitlines()] if path.endswith(".jsonl") else []
    names = [one.name for one in found.iterdir()] if found.is_dir() else []
    notes = (run / "archive/memory").iterdir()
    seen: dict[str, Any] = {
        "logs/tools.jsonl": [line.get("tool") for line in held],
        "logs/errors.jsonl": [line.get("tool") for line in held],
        "events.jsonl": [line.get("kind") for line in held[:1] + held[-1:]],
        "workspace": names,
        "deliverables": [(run / "deliverables" / name).read_text() for name in names if path == "deliverables"],
        "archive": [json.loads(one.read_text())["content"] for one in notes],
    }
    assert (
        seen[path]
        == {
            "logs/tools.jsonl": ["read_file", "write_file", "write_file", "write_memory"],
            "logs/errors.jsonl": ["read_file"],
            "events.jsonl": ["run.started", "run.finished"],
            "workspace": ["draft.md"],
            "deliverables": ["done"],
            "archive": ["Node 22 is needed."],
        }[path]
    )


async def test_every_call_is_in_tools_jsonl(speak: Speak, work: Path) -> None:
    """产物: one line a call, with duration and status; refused ones too."""
    async with speak("kgent", start="kgent", run_id="first") as say:
        await say("list_files", path=".")
        await say("read_file", path="../x")
    lines = [json.loads(line) for line in (work / "runs/first/logs/tools.jsonl").read_text().splitlines()]
    assert [line["args"] for line in lines] == [{"path": "."}, {"path": "../x"}]
    assert [(line["tool"], line["status"], line["duration_ms"] > 0) for line in lines] == [
        ("list_files", "ok", True), ("read_file", "denied", True),
    ]  # fmt: skip


async def test_failures_are_in_errors_jsonl(speak: Speak, work: Path) -> None:
    """产物: one line a failure."""
    async with speak("kgent", start="kgent", run_id="first") as say:
        await say("list_files", path=".")
        await say("read_file", path="missing")
    lines = [json.loads(line) for line in (work / "runs/first/logs/errors.jsonl").read_text().splitlines()]
    assert [(line["tool"], line["code"]) for line in lines] == [("read_file", "NOT_FOUND")]


# ── 质量和治理, 性能 ──────────────────────────────────────────────────────────────────────────


async def test_deleting_is_denied_by_default(speak: Speak) -> None:
    """质量和治理: destructive operations."""
    async with speak("native", start="kgent") as say:
        told = await say("delete_path", path="a.txt", confirm=True)
    assert told["error"]["code"] == "POLICY_DENIED"


async def test_writing_outside_the_sandbox_is_denied(speak: Speak, work: Path) -> None:
    """质量和治理: sandbox boundaries for writing."""
    async with speak("kgent", start="kgent") as say:
        told = await say("write_file", path="../../escaped.txt", content="x")
    assert (told["error"]["code"], list(work.rglob("escaped.txt"))) == ("PATH_OUTSIDE_ROOTS", [])


async def test_a_refusal_names_rule_and_remedy(speak: Speak) -> None:
    """质量和治理: permission rejections fail clearly."""
    async with speak("kgent", config={"tools": {"enable": []}}) as say:
        told = await say("write_file", path="a.txt", content="x")
    assert told["error"]["details"]["rule"] == "enablement.not-enabled"
    assert 'tools.enable = ["write_file"]' in told["error"]["message"]


async def test_reading_is_bounded(speak: Speak) -> None:
    """性能和调度考虑: a large file is read in part."""
    async with speak("kgent", start="kgent") as say:
        await say("write_file", path="a.txt", content="line\n" * 100_000)
        told = await say("read_file", path="a.txt")
    assert (told["data"]["end"] <= 2000, told["data"]["total_lines"]) == (True, 100_000)


async def test_tools_hold_no_state(speak: Speak) -> None:
    """性能和调度考虑: stateless: another process that opens the run gives the same answers to the same calls."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "a.txt"}), ("list_files", {"path": "."}), ("grep_files", {"pattern": "n", "path": "."}),
    ]  # fmt: skip
    told = []
    for opening in range(2):
        async with speak("kgent", start="kgent", run_id="first") as say:
            if opening == 0:
                await filled(say)
            told.append([await say(name, args) for name, args in calls])
    assert (told[0], [result["ok"] for result in told[0]]) == (told[1], [True] * 3)


async def test_permissions_tell_a_scheduler_where_a_tool_may_run(speak: Speak) -> None:
    """性能和调度考虑: worker placement by tool permissions: what only reads, what writes, what remembers."""
    async with speak("kgent", start="kgent") as say:
        specs = say.specs(every=False)
    assert {name: spec["required_permissions"] for name, spec in specs.items()} == {
        name: permissions for name, (permissions, _, _) in EIGHT_PERMISSIONS.items()
    }


async def test_tool_events_tell_enough_to_retry(speak: Speak) -> None:
    """性能和调度考虑: permissions and outcomes of every call can be read from the events."""

    @tool(risk="low", pure=True)
    async def elsewhere() -> str:
        """Ask somebody who is not there."""
        raise Problem(Code.UPSTREAM_ERROR, "Nobody answers.")

    async with speak("kgent", start="kgent", tools=[elsewhere]) as say:
        await say("list_files", path=".")
        await say("read_file", path="missing.txt")
        await say("read_file", path="../outside.txt")
        await say.call("elsewhere", {}, dialect="native")
        touches = [event.get("touches", []) for event in say.journal() if event["kind"] == "tool.started"]
        ended = [event for event in say.events() if event["kind"] in ("tool.completed", "tool.failed")]
    assert [touch["kind"] for touch in touches[0]] == ["fs.read"]
    told = [(event["status"], event.get("error", {}).get("code")) for event in ended]
    assert told == [
        ("ok", None), ("failed", "NOT_FOUND"), ("denied", "PATH_OUTSIDE_ROOTS"), ("failed", "UPSTREAM_ERROR"),
    ]  # fmt: skip
    assert [event["error"]["retryable"] for event in ended[1:]] == [False, False, True]


# ── 验收标准 ─────────────────────────────────────────────────────────────────────────────────


async def test_1_the_runtime_builds_toolsets_from_configuration(speak: Speak) -> None:
    """验收标准 1: what configuration disables is not offered."""
    async with speak("kgent", config=foreign.kgent({"tools": {"disable": ["write_file"]}})) as say:
        assert [name for name in EIGHT if name not in say.specs(every=False)] == ["write_file"]


async def test_2_filesystem_tools_enforce_the_sandbox(speak: Speak) -> None:
    """验收标准 2: all four of them."""
    async with speak("kgent", start="kgent") as say:
        told = [
            await say("read_file", path="/etc/passwd"),
            await say("write_file", path="/etc/x", content="x"),
            await say("list_files", path="/etc"),
            await say("grep_files", pattern="root", path="/etc"),
        ]
    assert [result["error"]["code"] for result in told] == ["PATH_OUTSIDE_ROOTS"] * 4


async def test_3_skill_tools_list_and_load(speak: Speak, work: Path) -> None:
    """验收标准 3: list, then load what was listed."""
    skill(work)
    async with speak("kgent", start="kgent") as say:
        listed = await say("list_skills")
        loaded = await say("load_skill", skill_id=listed["data"]["skills"][0]["id"])
    assert loaded["ok"] is True


async def test_4_memory_goes_through_the_provider_contract(speak: Speak) -> None:
    """验收标准 4: an external service that speaks the contract holds the notes; what it holds is what is recalled."""
    service = Service()
    async with serving(service.app) as url:
        config = foreign.kgent({"memory": {"write_mode": "external", "url": url}})
        config["http"] = {"allowed_hosts": [url.split("/")[2]], "allowed_networks": ["127.0.0.0/8"]}
        config["rules"] += [{"effect": "allow", "touch": "net.connect"}]
        async with speak("kgent", config=config) as say:
            wrote = await say("write_memory", content="Deploys happen on Mondays.", tags=["deploy"])
            held = dict(service.notes)
            told = await say("recall_memory", query="Deploys")
            service.notes.clear()
            gone = await say("recall_memory", query="Deploys")
    assert wrote["ok"], wrote
    assert [(note["content"], note["tags"]) for note in held.values()] == [("Deploys happen on Mondays.", ["deploy"])]
    assert [[note["tags"] for note in result["data"]["notes"]] for result in (told, gone)] == [[["deploy"]], []]


async def test_5_calls_are_logged_with_duration_and_status(speak: Speak) -> None:
    """验收标准 5: completed and failed alike."""
    found = await tool_events(speak, ("list_files", {"path": "."}), ("read_file", {"path": "missing"}))
    ended = [event for event in found if event["kind"] != "tool.started"]
    assert [(event["status"], event["duration_ms"] > 0) for event in ended] == [("ok", True), ("failed", True)]


async def test_6_rejections_are_explicit(speak: Speak) -> None:
    """验收标准 6: a code of its own, and the status says denied."""
    async with speak("kgent", start="kgent") as say:
        told = await say("read_file", path="../x")
    assert (say.last.status, told["error"]["code"]) == ("denied", "PATH_OUTSIDE_ROOTS")


async def test_7_dangerous_tools_are_off_by_default(speak: Speak) -> None:
    """验收标准 7: nothing that runs, deletes or reaches out is offered."""
    async with speak("native", start="kgent") as say:
        offered = {name: spec["required_permissions"] for name, spec in say.specs(every=False).items()}
    dangerous = {"proc.exec", "fs.delete", "net.connect"}
    assert {name: kinds for name, kinds in offered.items() if dangerous & set(kinds)} == {}


async def test_8_large_outputs_are_summarised(speak: Speak) -> None:
    """验收标准 8: bounded, with a summary that says of how much."""
    async with speak("kgent", start="kgent") as say:
        await say("write_file", path="a.txt", content="needle\n" * 5000)
        told = await say("grep_files", pattern="needle", path=".")
    assert (len(told["data"]["matches"]), "more follow" in told["summary"]) == (100, True)


async def test_9_tools_work_without_a_model(speak: Speak, work: Path) -> None:
    """验收标准 9: a call is a function call, and what a tool is given can be a fake: no model, no service."""
    notes = MemoryNotes()
    async with speak("kgent", config=foreign.kgent(MEMORY.replace("candidate", "external"))) as say:
        lend(say.runtime.kernel, Memory=notes)
        told = await say("write_memory", content="Node 22 is needed.")
        found = await say("recall_memory", query="Node")
    assert (told["ok"], [note["content"] for note in found["data"]["notes"]]) == (True, ["Node 22 is needed."])


async def test_10_the_effective_policy_is_explicit(speak: Speak) -> None:
    """验收标准 10: it can be asked before a call, and nothing runs."""
    async with speak("kgent", start="kgent") as say:
        verdict = say.runtime.explain("write_file", {"path": "../x", "content": "x"})
        calls = [event for event in say.journal() if event["kind"].startswith("tool.")]
    assert (verdict.decision, calls) == (Decision.DENY, [])


async def test_11_the_write_mode_is_explicit_and_candidate(speak: Speak) -> None:
    """验收标准 11: it stands in the preset's own text, in the settings in force, and in what a write answers."""
    from handrail.settings import preset_text

    async with speak("kgent", start="kgent") as say:
        mode = say.runtime.parts.loaded.settings.memory.write_mode
        told = await say("write_memory", content="x")
    assert ('write_mode = "candidate"' in preset_text("kgent"), mode, told["data"]["status"]) == (
        True, "candidate", "candidate",
    )  # fmt: skip


def test_every_code_has_a_name() -> None:
    """Tool Result Summary Contract: error.code is one of a closed list."""
    assert list(dialects.get("kgent").errors.values()) == [code.value for code in Code]

"""load_skill: instructions that become active, or one file of a skill."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.ports import ActiveSkill, Limits
from handrail.tools.skills.load_skill import LoadedSkill, ResourceRow, load_skill
from handrail.words import How, changes_world
from tools._skill_desk import SkillDesk


@pytest.fixture
def desk(tmp_path: Path) -> SkillDesk:
    """A workspace without skills."""
    return SkillDesk(tmp_path)


async def test_loading_gives_the_body_and_makes_it_active(desk: SkillDesk) -> None:
    """The text below the header, its files with sizes and hashes, what it asks for; on record in the journal."""
    desk.put("pdf", "allowed-tools: Read Bash(git:*)", body="# Steps\nOne.", files={"references/a.md": "abc"})
    answer = await desk.call(load_skill, skill_id="pdf")
    digest = answer.data.digest
    row = ResourceRow("references/a.md", 3, hashlib.sha256(b"abc").hexdigest())
    tools = ["read_file", "run_script"]
    assert answer.data == LoadedSkill(
        id="pdf",
        name="pdf",
        source="project:.agents/skills",
        digest=digest,
        text="# Steps\nOne.",
        resource=None,
        active=True,
        allowed_tools=tools,
        narrows=True,
        permissions=["Bash(git:*)"],
        resources=[row],
        resources_left_out=0,
    )
    assert answer.content is not None
    assert answer.content.startswith("# Steps\nOne.\n\n[skill pdf from project:.agents/skills is active; it allows ")
    assert "[it asks for, and is not given by loading: Bash(git:*)]" in answer.content
    assert desk.skills.active == ActiveSkill("pdf", frozenset(tools))
    event = {"id": "pdf", "name": "pdf", "source": "project:.agents/skills", "digest": digest}
    told = {**event, "allowed_tools": tools, "permissions": ["Bash(git:*)"]}
    assert desk.journal.events == [{"seq": 1, "kind": "skill.loaded", "call_id": "c1", **told}]
    assert desk.journal.flushed == 1


async def test_a_file_of_a_skill_is_read_and_changes_nothing(desk: SkillDesk) -> None:
    """With `resource` nothing becomes active."""
    desk.put("pdf", files={"references/a.md": "\ufeffabc"})
    answer = await desk.call(load_skill, skill_id="pdf", resource="references/a.md")
    assert (answer.data.text, answer.data.resource, answer.data.active) == ("abc", "references/a.md", False)
    assert (answer.content, desk.skills.active, desk.journal.events) == ("abc", None, [])


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("missing.md", Code.NOT_FOUND),
        ("references", Code.NOT_A_FILE),
        ("../csv/SKILL.md", Code.PATH_OUTSIDE_ROOTS),
        ("/etc/passwd", Code.PATH_OUTSIDE_ROOTS),
        ("references/../../csv/SKILL.md", Code.PATH_OUTSIDE_ROOTS),
        ("binary", Code.NOT_TEXT),
        ("latin", Code.NOT_TEXT),
        ("big.txt", Code.FILE_TOO_LARGE),
    ],
)
async def test_what_is_no_text_of_the_skill_is_refused(desk: SkillDesk, resource: str, code: Code) -> None:
    """Nothing outside its folder, nothing binary, nothing over the limit."""
    files = {"references/a.md": "abc", "binary": b"\0\1", "latin": b"\xe9", "big.txt": "x" * 101}
    desk.put("pdf", files=files)
    desk.put("csv")
    desk.limits = Limits(max_read_bytes=100)
    assert (await desk.problem(load_skill, skill_id="pdf", resource=resource)).code is code


async def test_an_unknown_skill_names_near_ones(desk: SkillDesk) -> None:
    """And the call that lists them all."""
    desk.put("pdf")
    problem = await desk.problem(load_skill, skill_id="pdff")
    assert (problem.code, problem.details) == (Code.NOT_FOUND, {"near": ["pdf"]})
    assert problem.next_call == {"tool": "list_skills", "args": {}}


async def test_a_broken_skill_is_not_loaded(desk: SkillDesk) -> None:
    """It fails closed and says why."""
    desk.put("pdf", "allowed-tools: Bash(git")
    problem = await desk.problem(load_skill, skill_id="pdf")
    assert problem.code is Code.POLICY_DENIED
    assert problem.details == {"problems": ["`allowed-tools`: the parentheses in 'Bash(git' do not match"]}
    assert desk.skills.active is None


async def test_a_skill_that_changed_since_it_was_judged_is_refused(desk: SkillDesk) -> None:
    """What is loaded is what policy saw, and what a person approved."""
    skill = desk.put("pdf", "allowed-tools: Read")
    inputs = desk.inputs(load_skill, {"skill_id": "pdf"})
    (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: Now without limits.\n---\n")
    with pytest.raises(Exception, match="changed since") as caught:
        await load_skill.function(**inputs)
    assert caught.value.code is Code.STALE_FILE  # type: ignore[attr-defined]
    assert desk.skills.active is None


async def test_a_skill_that_appeared_since_it_was_judged_is_refused(desk: SkillDesk) -> None:
    """Nobody judged it."""
    inputs = desk.inputs(load_skill, {"skill_id": "pdf"})
    desk.put("pdf")
    with pytest.raises(Exception, match="changed since"):
        await load_skill.function(**inputs)


async def test_two_that_load_at_once_do_not_pass_each_other(desk: SkillDesk) -> None:
    """The second was judged under another active skill than there is now."""
    desk.put("pdf", "allowed-tools: Read")
    desk.put("csv")
    second = desk.inputs(load_skill, {"skill_id": "csv"})
    await desk.call(load_skill, skill_id="pdf")
    with pytest.raises(Exception, match="Another skill was loaded"):
        await load_skill.function(**second)
    assert desk.skills.active == ActiveSkill("pdf", frozenset({"read_file"}))


@pytest.mark.parametrize(("resource", "changes"), [(None, True), ("a.md", False)])
def test_loading_counts_as_a_change_and_reading_does_not(resource: str | None, changes: bool) -> None:
    """A change is durable in the journal before it acts."""
    (touch,) = load_skill.touches({"skill_id": "pdf", "resource": resource})
    assert (changes_world(touch), touch.how is How.LOAD) == (changes, changes)
    assert load_skill.changing

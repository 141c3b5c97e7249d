"""list_skills: all skills there are, broken ones with what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.tools.skills.list_skills import SkillList, SkillRow, list_skills
from tools._skill_desk import SkillDesk, put_skill


@pytest.fixture
def desk(tmp_path: Path) -> SkillDesk:
    """A workspace without skills."""
    return SkillDesk(tmp_path)


async def test_no_skills_are_an_empty_list(desk: SkillDesk) -> None:
    """A missing folder is no error."""
    answer = await desk.call(list_skills)
    assert (answer.data, answer.summary, answer.content) == (SkillList([]), "0 skills", "There are no skills.")


async def test_each_skill_is_told_by_its_header(desk: SkillDesk) -> None:
    """Id, name, description, source, digest, what it allows; by name."""
    desk.put("pdf", "allowed-tools: Read")
    desk.put("csv")
    answer = await desk.call(list_skills)
    digests = {row.id: row.digest for row in answer.data.skills}
    source = "project:.agents/skills"
    assert answer.data.skills == [
        SkillRow("csv", "csv", "About csv.", source, digests["csv"], None, []),
        SkillRow("pdf", "pdf", "About pdf.", source, digests["pdf"], ["read_file"], []),
    ]
    assert answer.content == "csv: About csv.\npdf: About pdf."
    assert len(set(digests.values())) == 2


async def test_a_broken_skill_is_listed_with_its_problem(desk: SkillDesk) -> None:
    """It is neither hidden nor usable."""
    (desk.put("bad") / "SKILL.md").write_text("# no header\n")
    answer = await desk.call(list_skills)
    problem = "SKILL.md does not start with a header: its first line must be `---`"
    assert answer.data.skills == [SkillRow("bad", "bad", "", "project:.agents/skills", "", [], [problem])]
    assert answer.summary == "1 skill, 1 broken"
    assert answer.content == f"bad (broken, not loadable: {problem})"


async def test_two_of_one_name_are_told_apart_by_their_source(tmp_path: Path) -> None:
    """Ids are unique; one that stands alone keeps its plain name."""
    desk = SkillDesk(tmp_path, folders=(".agents/skills", ".claude/skills"))
    desk.put("pdf")
    put_skill(tmp_path / ".claude/skills", "pdf", body="Other.")
    put_skill(tmp_path / ".claude/skills", "csv")
    answer = await desk.call(list_skills)
    ids = [row.id for row in answer.data.skills]
    assert ids == ["project:.agents/skills:pdf", "csv", "project:.claude/skills:pdf"]


async def test_a_long_description_is_cut(desk: SkillDesk) -> None:
    """What a skill says of itself does not flood the list."""
    (desk.put("big") / "SKILL.md").write_text(f"---\nname: big\ndescription: {'x' * 5000}\n---\n")
    (row,) = (await desk.call(list_skills)).data.skills
    assert row.description == "x" * 1023 + "…"

"""The reference MCP filesystem server's dialect and links: what they lead to, beneath the roots and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialects._speaking import Speak
from dialects.test_mcp_filesystem import CONFIG, text


@pytest.fixture
def project(work: Path) -> Path:
    """A few files."""
    (work / "src").mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / "src/b.py").write_text("x = 1\n")
    return work


async def test_a_link_tells_of_what_it_leads_to(speak: Speak, project: Path) -> None:
    """Where that lies beneath a root and may be read; else what it leads to is refused."""
    (project / "src/deep").mkdir()
    (project / ".env").write_text("KEY=1\n")
    links = {"one": "src/two", "src/two": "../a.txt", "abs": str(project / "src/b.py"), "dir": "src/deep",
             "out": "/etc/hostname", "up": "../../x", "gone": "none.txt", "key": ".env", "round": "round"}  # fmt: skip
    for name, target in links.items():
        (project / name).symlink_to(target)
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        sizes = [(await text(say, "get_file_info", path=name)).split("\n") for name in ("one", "abs", "dir")]
        refused = list[str]()
        for name in ("out", "up", "gone", "key", "round"):
            told = await say("get_file_info", path=name)
            refused.append(json.loads(told["content"][0]["text"].partition("\n")[2])["code"])
        judged = [event["code"] for event in say.journal() if event["kind"] == "tool.failed"]
    assert [lines[0] for lines in sizes[:2]] == ["size: 14", "size: 6"]
    assert [lines[4:6] for lines in sizes] == [
        ["isDirectory: false", "isFile: true"], ["isDirectory: false", "isFile: true"],
        ["isDirectory: true", "isFile: false"],
    ]  # fmt: skip
    outside = "PATH_OUTSIDE_ROOTS"
    assert refused == judged == [outside, outside, "NOT_FOUND", "PATH_PROTECTED", outside]


@pytest.mark.parametrize("absolute", [False, True])
async def test_what_can_be_read_through_a_link_can_be_looked_at(speak: Speak, project: Path, absolute: bool) -> None:
    """However the link writes it, and nothing else: both go the same way."""
    (project / "run:work").mkdir()
    (project / "run:work/x").write_text("as it is named")
    secret = project.parent / "secret"
    secret.write_text("outside")
    links = {"back": f"../{project.name}/a.txt", "named": "run:work/x", "abs": str(project / "a.txt"), "c0": "a.txt",
             "turn": "src/../a.txt", "exists": "../secret", "absent": "../nothing", "out": str(secret),
             "near": "../secret/../x", "round": "round", "one": "two", "two": "one"}  # fmt: skip
    links |= {f"c{number}": f"c{number - 1}" for number in range(1, 45)}
    for name, target in links.items():
        (project / name).symlink_to(target)
    config = {**CONFIG, "workspace": {"allow_absolute": absolute}}
    told, read, said = dict[str, str](), dict[str, str](), dict[str, str]()
    async with speak("mcp-filesystem", config=config) as say:
        for name in links:
            info, reading = await say("get_file_info", path=name), await say("read_text_file", path=name)
            told[name] = "" if info["isError"] else info["content"][0]["text"].split("\n")[0]
            read[name] = "" if reading["isError"] else f"size: {len(reading['content'][0]['text'])}"
            said[name] = info["content"][0]["text"].replace(name, "…")
    assert told == read
    assert said["exists"] == said["absent"]  # nothing is told of what lies outside
    followed = {"back", "named", "abs", "turn", *(f"c{number}" for number in range(40))}
    assert {name for name, size in told.items() if size} == followed

"""Tools that declare a touch: what a declaration proves, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail import Misuse, Place, Reads, Risk, Runtime, Touch, TouchKind
from handrail.catalog import Tool, tool

SENT: list[str] = []


def _sending(args: Mapping[str, Any]) -> list[Touch]:
    return [Touch(TouchKind.TOOL_USE, f"send_email/{args['to']}", unsafe=True)]


@tool(touches=_sending, permissions=["tool.use"])
async def send_email(to: str) -> str:
    """Send an email."""
    SENT.append(to)
    return "sent"


@tool(touches=_sending, permissions=["tool.use"], risk="low")
async def send_quietly(to: str) -> str:
    """Send an email, and call that a low risk."""
    SENT.append(to)
    return "sent"


@tool(touches=lambda _: [Touch(TouchKind.TOOL_USE, "counting")], permissions=["tool.use"])
async def count_up() -> str:
    """Change something that policy knows nothing of."""
    SENT.append("counted")
    return "counted"


@pytest.mark.parametrize(
    ("item", "args"), [(send_email, {"to": "a@b.c"}), (send_quietly, {"to": "a@b.c"}), (count_up, {})]
)
async def test_a_declared_touch_does_not_make_a_tool_run_unasked(
    tmp_path: Path, item: Tool, args: dict[str, str]
) -> None:
    """What a tool says of itself with `tool.use` is no proof that it only reads; `unsafe` asks at any risk."""
    SENT.clear()
    async with Runtime.open(tmp_path, tools=[item], mode="headless") as runtime:
        outcome = await runtime.call(item.name, args)
    assert outcome.error is not None
    assert (outcome.error.code, SENT) == ("APPROVAL_REQUIRED", [])


@pytest.mark.parametrize("unsafe", [True, False])
@pytest.mark.parametrize(
    "touch",
    [Touch(TouchKind.FS_READ, "a.txt"), Touch(TouchKind.FS_WRITE, "b.txt"), Touch(TouchKind.PROC_EXEC, "ls")],
    ids=["reading", "writing", "running"],
)
async def test_a_touch_marked_unsafe_asks_whatever_its_kind_is(tmp_path: Path, touch: Touch, unsafe: bool) -> None:
    """The mark says that the kind alone does not tell what happens."""
    (tmp_path / "a.txt").write_text("a")
    marked = replace(touch, unsafe=unsafe, words=(touch.target,) if touch.kind is TouchKind.PROC_EXEC else ())

    @tool(touches=lambda _: [marked], permissions=[touch.kind.value])
    async def act() -> str:
        """Act."""
        return "acted"

    async with Runtime.open(tmp_path, tools=[act], mode="headless") as runtime:
        outcome = await runtime.call("act")
    assert (outcome.error.code if outcome.error else "ok") == ("APPROVAL_REQUIRED" if unsafe else "ok")


def test_low_risk_is_inferred_from_reading_or_purity_alone() -> None:
    """Not from `tool.use`, alone or beside reading."""

    @tool()
    async def reads(path: Reads) -> str:
        """Read."""
        return path.shown

    @tool(pure=True)
    async def adds(one: int) -> int:
        """Add."""
        return one + 1

    @tool(permissions=("tool.use", "fs.read"), touches=lambda args: [Touch(TouchKind.FS_READ, args["path"])])
    async def both(path: str, place: Place | None = None) -> str:
        """Read, and more."""
        return path

    assert [item.changing for item in (reads, adds, both, count_up)] == [False, False, True, True]
    assert [item.risk for item in (reads, adds, both, count_up)] == [Risk.LOW, Risk.LOW, Risk.HIGH, Risk.HIGH]


@tool(name="grep", pure=True)
async def own_grep(word: str) -> str:
    """Search in a way of its own."""
    return f"own: {word}"


@pytest.mark.parametrize("disabled", ["grep", "search"])
async def test_a_program_may_give_a_tool_the_name_of_a_disabled_one(tmp_path: Path, disabled: str) -> None:
    """It is listed and runs; while ours is enabled, the name is taken."""
    config = {"tools": {"disable": [disabled]}}
    async with Runtime.open(tmp_path, tools=[own_grep], mode="headless", config=config) as runtime:
        outcome = await runtime.call("grep", {"word": "x"})
        listed = [item["description"] for item in runtime.tools() if item["name"] == "grep"]
    assert (outcome.data, listed) == ("own: x", ["Search in a way of its own."])


async def test_the_name_of_an_enabled_tool_is_taken(tmp_path: Path) -> None:
    """The error names the setting that gives it up."""
    with pytest.raises(Misuse, match=r'tools.disable = \["grep"\]'):
        async with Runtime.open(tmp_path, tools=[own_grep]):
            pass


async def test_a_tool_of_the_program_itself_can_be_disabled(tmp_path: Path) -> None:
    """A name that is none of ours is denied as before."""
    config = {"tools": {"disable": ["count_up"]}}
    async with Runtime.open(tmp_path, tools=[count_up], mode="headless", config=config) as runtime:
        outcome = await runtime.call("count_up")
    assert outcome.error is not None
    assert outcome.error.code == "POLICY_DENIED"


async def test_a_name_taken_over_brings_no_rights_along(tmp_path: Path) -> None:
    """`job_stop` of ours is allowed because it ends what the run started; another tool of that name asks."""

    @tool(name="job_stop")
    async def own_stop() -> str:
        """Do something else."""
        return "ran"

    config = {"tools": {"disable": ["exec"]}}
    async with Runtime.open(tmp_path, tools=[own_stop], mode="headless", config=config) as runtime:
        outcome = await runtime.call("job_stop")
    assert outcome.error is not None
    assert outcome.error.code == "APPROVAL_REQUIRED"

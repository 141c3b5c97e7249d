"""Laws of tool definitions: touches and risk from the signature, mistakes told where the tool is made, unique names."""

# No postponed annotations here: tools made inside a test could not be read otherwise.
from collections.abc import Callable
from typing import Any

import pytest

from handrail.catalog import (
    Catalog,
    Deletes,
    DeletesBelow,
    Edits,
    Reaches,
    Reads,
    ReadsBelow,
    Runs,
    Writes,
    at,
    host_and_port,
    tool,
)
from handrail.errors import Code, Misuse, Problem
from handrail.ports import Clock, Workspace
from handrail.words import How, Risk, Touch, TouchKind

HERE = at(".")


def test_touches_come_from_argument_types() -> None:
    """Each mark with its kind, depth and manner; ports are no arguments, and what is not given touches nothing."""

    @tool(risk="high", toolset="fs")
    async def many(
        files: Workspace,
        clock: Clock,
        read: Reads,
        write: Writes,
        edit: Edits,
        gone: Deletes,
        tree: DeletesBelow,
        argv: Runs,
        url: Reaches,
        more: list[Reads],
        other: Reads | None = None,
        below: ReadsBelow = HERE,
    ) -> int:
        """Touch everything."""
        return 0

    names = {"read": "a", "write": "b", "edit": "c", "gone": "d", "tree": "e", "more": ["f", "g"]}
    args, _ = many.parse({**names, "argv": ["ls", "-l"], "url": "https://Example.org/x"})
    assert many.touches(args) == (
        Touch(TouchKind.FS_READ, "a"),
        Touch(TouchKind.FS_WRITE, "b", how=How.REPLACE),
        Touch(TouchKind.FS_WRITE, "c", how=How.EDIT),
        Touch(TouchKind.FS_DELETE, "d", follow=False),
        Touch(TouchKind.FS_DELETE, "e", deep=True, follow=False),
        Touch(TouchKind.PROC_EXEC, "ls -l", words=("ls", "-l")),
        Touch(TouchKind.NET_CONNECT, "example.org:443"),
        Touch(TouchKind.FS_READ, "f"),
        Touch(TouchKind.FS_READ, "g"),
        Touch(TouchKind.FS_READ, ".", deep=True),
    )
    assert many.injected == (("files", Workspace), ("clock", Clock))
    assert many.changing


def test_risk_and_effects_follow_from_what_is_declared() -> None:
    """Reading is low, anything else high, and a tool that declares nothing is high and changing unless pure."""

    async def body(path: Reads) -> int:
        """Read."""
        return 0

    async def silent(text: str) -> int:
        """Say nothing."""
        return 0

    reads, unknown, pure = tool()(body), tool()(silent), tool(pure=True)(silent)
    posts = tool(touches=lambda _: (), permissions=["net.connect"])(silent)
    assert (reads.risk, reads.side_effects, reads.changing) == (Risk.LOW, "reads", False)
    assert (unknown.risk, unknown.side_effects, unknown.changing) == (Risk.HIGH, "unknown", True)
    assert (pure.risk, pure.side_effects, pure.changing) == (Risk.LOW, "none", False)
    assert (posts.risk, posts.side_effects, posts.changing) == (Risk.HIGH, "network", True)
    assert unknown.touches({"text": "x"}) == (Touch(TouchKind.TOOL_USE, "silent"),)


def test_a_tool_that_takes_something_away_does_not_say_that_it_does_nothing() -> None:
    """Ending a program touches no file, and is an effect all the same."""
    from handrail.tools.exec.job_stop import job_stop

    assert job_stop.spec()["side_effects"] == "deletes"


def plain(x: int) -> int:
    return x


async def untyped(x) -> int:  # type: ignore[no-untyped-def]
    return 0


async def starred(*xs: int) -> int:
    return 0


async def keyed(**xs: int) -> int:
    return 0


async def typed(x: int) -> int:
    return 0


async def reading(path: Reads) -> int:
    return 0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: tool(pure=True)(plain), "write it as `async def`"),  # type: ignore[arg-type]
        (lambda: tool(pure=True)(untyped), "argument x needs a type"),
        (lambda: tool(pure=True)(starred), "name each argument"),
        (lambda: tool(pure=True)(keyed), "name each argument"),
        (lambda: tool(pure=True, name="Bad-Name")(typed), "use a-z, 0-9 and _"),
        (lambda: tool(pure=True, name="x" * 65)(typed), "at most 64 characters"),
        (lambda: tool(pure=True)(reading), "a pure tool touches nothing"),
        (lambda: tool(pure=True, permissions=["fs.read"])(typed), "a pure tool touches nothing"),
        (lambda: tool(touches=lambda _: ())(typed), "names the kinds in `permissions`"),
    ],
)
def test_a_bad_definition_is_misuse(make: Callable[[], object], told: str) -> None:
    """A mistake of the program is told to the program, where the tool is made."""
    with pytest.raises(Misuse, match=told):
        make()


@pytest.mark.parametrize("wrong", [{"risk": "hgih"}, {"permissions": ["fs.raed"]}])
def test_a_misspelt_risk_or_permission_is_misuse(wrong: dict[str, Any]) -> None:
    """All mistakes in a definition are told in the same way."""
    with pytest.raises(Misuse):
        tool(**wrong)(typed)


def test_names_in_a_catalog_are_unique_and_near_ones_are_named() -> None:
    """A second registration is an error; an unknown name gets the nearest."""
    catalog = Catalog([tool(pure=True, name="sample")(typed)])
    with pytest.raises(Misuse, match="registered already"):
        catalog.add(tool(pure=True, name="sample")(typed))
    with pytest.raises(Problem) as caught:
        catalog.get("sampel")
    assert (caught.value.code, caught.value.details) == (Code.UNKNOWN_TOOL, {"near": ["sample"]})


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://Example.ORG/x", "example.org:443"),
        ("http://example.org", "example.org:80"),
        ("http://example.org:8080/", "example.org:8080"),
        ("example.org/x", "example.org:443"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("postgres://db.example.org:5432/x", "db.example.org:5432"),
        ("http://bücher。example", "xn--bcher-kva.example:80"),
    ],
)
def test_a_url_reaches_the_host_that_is_dialled(url: str, target: str) -> None:
    """What is judged is spelled as it is dialled."""
    assert host_and_port(url) == target


@pytest.mark.parametrize(
    "url",
    [
        *("", "https://", "http://x:99999", "http://x:y/", "http://[::1", "file:///etc/passwd"),
        *("https://user:pass@example.org/", "https://example.org:443@evil.org/"),
    ],
)
def test_what_names_no_host_is_refused(url: str) -> None:
    """INVALID_ARGS with the reason, before anything is judged."""
    with pytest.raises(Problem) as caught:
        host_and_port(url)
    assert caught.value.code is Code.INVALID_ARGS

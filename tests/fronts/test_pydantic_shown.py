"""Pydantic AI: how much a model is shown of an agent's own tool, and secrets in the files that it gives."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic_ai import ModelRetry
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import BinaryContent, ImageUrl, StructuredContent, TextContent, ToolReturn

from fronts.governing import RULES, governed, unwatched
from fronts.test_pydantic_results import KEY, PNG, parts_of
from handrail import Runtime

HIDDEN = "***REDACTED***"
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be", "utf-32-le"]
MOST = 51_200  # bytes that a model is shown of one result, unless settings say otherwise


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches; tools whose names begin with `free` may run."""
    async with unwatched(work) as opened:
        yield opened


def kept(runtime: Runtime, told: str) -> str:
    """The text that the last line of a cut one leads to."""
    found = re.search(r'\[cut: .* read_file \{"path": "run:observations/([^"]+)".*\]\Z', told)
    assert found, told[-300:]
    return (runtime.parts.folder.observations / found[1]).read_text()


# ── how much ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["x" * 900_000, "\n".join(map(str, range(50_000))), f"{KEY}\n" * 5_000])
async def test_of_a_text_that_is_too_long_the_beginning_is_shown(runtime: Runtime, text: str) -> None:
    """The last line says how much is missing and where the whole is, without secrets; so does the metadata."""
    (returned,) = await parts_of(runtime, text)
    whole = text.replace(KEY, HIDDEN)
    assert len(returned.content.encode()) < MOST + 200
    assert whole.startswith(returned.content[:2000])
    assert kept(runtime, returned.content) == whole
    assert returned.metadata["truncation"]["total"] in (whole.count("\n") + 1, whole.count("\n"), len(whole))


@pytest.mark.parametrize(
    "value", [{"text": "x" * 60_000}, [{"id": number, "name": f"n{number}"} for number in range(5_000)]]
)
async def test_of_values_that_are_too_many_the_beginning_is_shown(runtime: Runtime, value: Any) -> None:
    """As JSON, like the answer of one of our own tools."""
    (returned,) = await parts_of(runtime, value)
    assert len(returned.content.encode()) < MOST + 200
    assert returned.content.startswith('{\n  "result": ')
    assert kept(runtime, returned.content).endswith("}\n  ]\n}" if isinstance(value, list) else 'xxx"\n  }\n}')


@pytest.mark.parametrize("value", ["x" * 50_000, {"text": "x" * 50_000}, ["a\nb"] * 3_000, "a\n" * 2_000])
async def test_what_fits_is_given_as_it_is(runtime: Runtime, value: Any) -> None:
    """A long line alone is no reason to cut: JSON is one."""
    (returned,) = await parts_of(runtime, value)
    assert returned.content == value


async def test_settings_say_how_much_is_shown(work: Path, own_user: Path) -> None:
    """In lines and in bytes, of results, of what stands beside them, and of what a tool says by raising."""

    def free_fails() -> str:
        raise ToolFailed("f\n" * 11)

    limits = {"max_output_lines": 10, "max_output_bytes": 100}
    config = {"tools": {"enable": ["fs"]}, "rules": RULES, "limits": limits}
    async with Runtime.open(work, config=config, mode="headless", run_id="one") as small:
        assert [part.content for part in await parts_of(small, "a\n" * 10)] == ["a\n" * 10]
        returned, said = await parts_of(small, ToolReturn("a\n" * 11, content="b" * 101))
        failed = await governed(small, free_fails, calls=[("free_fails", {})]).run("go")
        assert kept(small, returned.content) == "a\n" * 11
        assert kept(small, said.content) == "b" * 101
        assert kept(small, failed.output) == "f\n" * 11
    assert returned.content.startswith("a\n" * 10 + "[cut: 10 of 11 lines shown; ")
    assert said.content.startswith("b" * 100 + "\n[cut: 100 of 101 bytes shown; ")


async def test_content_that_is_too_long_is_cut_like_a_result(runtime: Runtime) -> None:
    """Its texts are bounded together, however many they are; its files stay."""
    (returned, said) = await parts_of(runtime, ToolReturn("ok", content="z" * 3_000_000))
    assert (returned.content, len(said.content) < MOST + 200) == ("ok", True)
    assert kept(runtime, said.content) == "z" * 3_000_000
    texts = [f"{number} {'z' * 9_990}" for number in range(100)]
    content: list[Any] = [*texts[:3], PNG, TextContent(texts[3], metadata=1), *texts[4:99], PNG, f"{texts[99]} {KEY}"]
    _, said = await parts_of(runtime, ToolReturn("ok", content=content))
    assert said.content[:5] == [*texts[:3], PNG, TextContent(texts[3], metadata=1)]
    assert [len(item) < MOST if isinstance(item, str) else item for item in said.content[5:]] == [True, True, PNG]
    shown = sum(len(item) for item in said.content if isinstance(item, str)) + len(texts[3])
    assert shown < MOST + 200
    assert kept(runtime, said.content[6]) == "\n".join([*texts[:99], f"{texts[99]} {HIDDEN}"])


async def test_a_long_value_behind_a_short_text_is_not_sent_in_its_place(runtime: Runtime) -> None:
    """Some models are sent the value of such content."""
    content: Any = [StructuredContent({"a": "x" * 60_000}, content="short"), StructuredContent({"a": 1})]
    _, said = await parts_of(runtime, ToolReturn("ok", content=content))
    assert [type(item).__name__ for item in said.content] == ["TextContent", "StructuredContent"]


@pytest.mark.parametrize(("signal", "outcome"), [(ModelRetry, "retried"), (ToolFailed, "failed")])
async def test_what_a_tool_says_by_raising_is_cut_like_a_result(
    runtime: Runtime, signal: type[Exception], outcome: str
) -> None:
    """Also where it is no text at all."""

    def free_says(much: bool) -> str:
        raise signal("w" * 3_000_000 if much else {"rows": ["w" * 50] * 5_000, "key": KEY})

    for much in (True, False):
        result = await governed(runtime, free_says, calls=[("free_says", {"much": much})]).run("go")
        assert (result.output.partition(": ")[0], len(result.output) < MOST + 300) == (outcome, True)
        assert KEY not in kept(runtime, result.output)


@pytest.mark.parametrize("signal", [ModelRetry, ToolFailed])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (5, "5"),
        (None, "None"),
        ({"a": 1}, "{'a': 1}"),
        ({"a": KEY}, f"{{'a': '{HIDDEN}'}}"),
        (ValueError("x"), "ValueError('x')"),
    ],
)
async def test_what_a_tool_says_by_raising_may_be_no_text(
    runtime: Runtime, signal: Callable[[Any], Exception], said: Any, told: str
) -> None:
    """It reaches the model as it would without the gate, and never ends the run."""

    def free_says() -> str:
        raise signal(said)

    result = await governed(runtime, free_says, calls=[("free_says", {})]).run("go")
    assert result.output.partition(": ")[2] == told


async def test_what_cannot_be_kept_is_said_to_be_lost(runtime: Runtime) -> None:
    """What a tool says reaches the model all the same, as far as it is shown."""

    def free_fails() -> str:
        raise ToolFailed("w" * 60_000)

    folder = runtime.parts.folder.observations
    if folder.exists():
        folder.rmdir()
    folder.write_text("no folder")
    result = await governed(runtime, free_fails, calls=[("free_fails", {})]).run("go")
    assert result.output.startswith("failed: wwww")
    assert "[cut: 2000 of 60000 bytes shown; the rest is lost: The whole output cannot be kept (" in result.output


async def test_a_list_that_a_tool_asks_for_another_try_with_ends_no_run(runtime: Runtime) -> None:
    """Pydantic AI would take it for errors of a check of arguments."""

    def free_says() -> str:
        raise ModelRetry([KEY, 1])  # type: ignore[arg-type]

    result = await governed(runtime, free_says, calls=[("free_says", {})]).run("go")
    assert result.output == f'retried: ["{HIDDEN}",1]'


# ── files ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "media_type",
    [
        *("text/plain", "TEXT/plain", "application/json", "application/yaml", "application/xml", "image/svg+xml"),
        *("application/x-ndjson", "application/javascript", "application/ld+json", "application/octet-stream", ""),
    ],
)
async def test_a_secret_in_the_text_of_a_file_reaches_no_model(runtime: Runtime, media_type: str) -> None:
    """Whatever the file is said to be, and in any encoding that shows; the rest of it is as it was."""
    given, told = (
        [
            BinaryContent(f"schlüssel: {key}\n".encode(encoding), media_type=media_type, identifier=encoding)
            for encoding in ENCODINGS
        ]
        for key in (KEY, HIDDEN)
    )
    returned, said = await parts_of(runtime, ToolReturn({"a": given}, content=given))
    assert (returned.content, said.content) == ({"a": told}, told)
    assert [item.identifier for item in said.content] == ENCODINGS


@pytest.mark.parametrize(
    ("data", "media_type", "told"),
    [
        (b"caf\xe9 " + KEY.encode(), "text/plain", b"caf\xe9 " + HIDDEN.encode()),
        (b"caf\xe9 " + KEY.encode(), "application/vnd.api+json", b"caf\xe9 " + HIDDEN.encode()),
        (b"caf\xe9 " + KEY.encode(), "application/octet-stream", b"caf\xe9 " + HIDDEN.encode()),
        (f"\ufeffa {KEY}".encode("utf-16-le") + b"x", "text/plain", f"\ufeffa {HIDDEN}".encode("utf-16-le") + b"x"),
        (b"\0" + KEY.encode(), "text/plain", b"\0" + HIDDEN.encode()),
        (b"\x89PNG\xff\0\xd8" + KEY.encode(), "image/png", b"\x89PNG\xff\0\xd8" + KEY.encode()),
    ],
)
async def test_what_is_said_to_be_text_or_looks_like_it_is_read_as_text(
    runtime: Runtime, data: bytes, media_type: str, told: bytes
) -> None:
    """Also where some bytes of it are none; other bytes stay as they are."""
    (returned,) = await parts_of(runtime, BinaryContent(data, media_type=media_type))
    assert returned.content == BinaryContent(told, media_type=media_type)


async def test_a_secret_in_a_files_name_reaches_no_model(runtime: Runtime) -> None:
    """Neither in an address nor in what a model is told the file is called."""
    link = ImageUrl(f"https://example.com/a.png?key={KEY}", identifier="mine")
    (returned,) = await parts_of(runtime, [link, BinaryContent(b"\xff", media_type="image/png", identifier=KEY)])
    assert [item.identifier for item in returned.content] == ["mine", HIDDEN]
    assert KEY not in returned.content[0].url


async def test_a_file_whose_place_is_hidden_stands_beside_the_result(runtime: Runtime) -> None:
    """The name that it had is a secret; the file is none."""
    returned, said = await parts_of(runtime, {KEY: PNG, "b": [PNG], "c": {KEY: {"d": PNG}}})
    described = {"media": "binary", "media_type": "image/png", "bytes": 4}
    assert returned.content == {HIDDEN: described, "b": [PNG], "c": {HIDDEN: {"d": described}}}
    assert said.content == [PNG, PNG]


async def test_a_file_that_would_be_sent_as_text_is_bounded_like_text(runtime: Runtime) -> None:
    """In an object Pydantic AI writes a file as base64; where that is too much, the file stands beside the result."""
    large = BinaryContent(b"\xff" * 60_000, media_type="image/png")
    returned, said = await parts_of(runtime, {"a": large, "n": 1})
    assert (len(returned.content) < 300, said.content) == (True, [large])
    (returned,) = await parts_of(runtime, ["a", large])
    assert returned.content == ["a", large]


async def test_a_file_that_cannot_be_sent_as_text_stands_beside_the_result(runtime: Runtime) -> None:
    """In an object Pydantic AI would write down all that belongs to it."""
    odd = BinaryContent(b"\xff", media_type="image/png", vendor_metadata={"odd": object()})
    returned, said = await parts_of(runtime, {"a": odd})
    assert ('"media_type": "image/png"' in returned.content, said.content) == (True, [odd])


async def test_the_record_has_no_file(runtime: Runtime) -> None:
    """The metadata of a result describes it: its type and its size."""
    (returned,) = await parts_of(runtime, {"a": PNG})
    assert returned.metadata["data"] == {"result": {"a": {"media": "binary", "media_type": "image/png", "bytes": 4}}}


@pytest.mark.parametrize("content", [PNG, (text for text in ["a"]), {"a": 1}, b"ab"])
async def test_content_that_is_no_list_is_refused_as_without_the_gate(runtime: Runtime, content: Any) -> None:
    """Pydantic AI says what is wrong with it."""
    with pytest.raises(ValueError, match=r"`UserPromptPart.content` must be a `str` or a sequence"):
        await parts_of(runtime, ToolReturn("x", content=content))

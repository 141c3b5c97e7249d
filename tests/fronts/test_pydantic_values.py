"""Pydantic AI: whatever an agent's own tool gives, its answer is told once its work is done."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import os
import random
import types
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field, field_serializer
from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import BinaryContent, ImageUrl, TextContent, ToolReturn, ToolReturnPart

from fronts.governing import unwatched
from fronts.test_pydantic_ai import scripted
from fronts.test_pydantic_results import KEY, PNG, parts_of
from handrail import Runtime
from handrail.pydantic_ai import Governance

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
HIDDEN = "***REDACTED***"


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches; tools whose names begin with `free` may run."""
    async with unwatched(work) as opened:
        yield opened


class Colour(enum.Enum):
    RED = "red"
    RAW = b"\xff"


class Level(enum.IntEnum):
    LOW = 1


class Named(BaseModel):
    x: int = Field(default=1, serialization_alias="ex")
    left_out: int = Field(default=2, exclude=True)
    key: SecretStr = SecretStr("hunter2hunter2")
    when: dt.datetime = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.x * 2


class Coded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    data: bytes


class Raw(BaseModel):
    number: int = 1
    data: bytes = b"\xff"


class Holder(BaseModel):
    held: Any = None
    number: Any = 1


class Broken(BaseModel):
    number: int = 1
    shown: str = "yes"

    @field_serializer("number")
    def _number(self, _: int) -> int:
        raise RuntimeError(KEY)


class Ids(RootModel[list[int]]):
    pass


class One(RootModel[bytes]):
    pass


@dataclass
class Row:
    a: Any = 1
    b: Any = field(default_factory=list)


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError(KEY)


Pair = namedtuple("Pair", "a b")


async def told(runtime: Runtime | None, values: Sequence[Callable[[], Any]]) -> list[Any]:
    """What a model is sent of these values, each the result of one call; without a gate where none is given."""

    def free_gives(number: int) -> Any:
        return values[number]()

    agent = Agent(
        scripted([("free_gives", {"number": number}) for number in range(len(values))], "end"),
        toolsets=[FunctionToolset([free_gives])],
        capabilities=[] if runtime is None else [Governance(runtime)],
    )
    result = await agent.run("go")
    parts = [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    return [(part.outcome, part.model_response_str(), part.model_response_object(), part.files) for part in parts]


PLAIN: list[Any] = [None, True, 0, -1.5, "", "a\0b", [], {}, 2**64 - 1]
SAME: dict[str, Callable[[], Any]] = {
    **{repr(value): partial(copy, value) for value in PLAIN},
    "json": lambda: '{"a": 1}',
    "endless": lambda: {"a": float("inf"), "b": float("nan")},
    "bytes": lambda: b"ab",
    "raw bytes": lambda: {"a": b"\xff\xfe", b"\xff": bytearray(b"\xfe"), "c": [b"", b"ok"]},
    "enums": lambda: [Colour.RED, Colour.RAW, Level.LOW, {Colour.RED: 1, Level.LOW: 2}],
    "times": lambda: [dt.date(2020, 1, 1), dt.timedelta(days=1), {dt.date(2020, 1, 1): 1}],
    "numbers": lambda: [decimal.Decimal("1.10"), uuid.UUID(int=5), Path("/a")],
    "tuples": lambda: [(1, 2), Pair(1, "x"), {1}, frozenset(["a"]), deque([1]), {(1, 2): "a"}],
    "mappings": lambda: [OrderedDict(a=1), Counter("aab"), {2: "a", None: 2, True: 3, 1.5: 4}],
    "models": lambda: [Named(), Ids([1]), Coded(data=b"\xff"), Holder(held=Row(Named())), Row(b={2})],
    "model": Named,
    "files": lambda: ["a", PNG, "b", ImageUrl("https://example.com/a.png"), {"c": 1}],
    "file": lambda: PNG,
    "inner files": lambda: {"a": PNG, "b": [PNG], 1: PNG},
    "file in a model": lambda: Holder(held=PNG),
    "return": lambda: ToolReturn({"a": 1}, metadata={"m": 1}),
    "return of files": lambda: ToolReturn([PNG, "a"]),
    "text": lambda: TextContent("a", metadata=3),
    "nested return": lambda: {"a": ToolReturn("z")},
    "nested": lambda: [[[[[[1], {"a": {"b": [None]}}]]]]],
}


async def test_a_result_reads_as_it_does_without_the_gate(runtime: Runtime) -> None:
    """Whatever its type, and wherever its files stand."""
    with_gate, without = await told(runtime, list(SAME.values())), await told(None, list(SAME.values()))
    assert dict(zip(SAME, with_gate, strict=True)) == dict(zip(SAME, without, strict=True))


def made(chance: random.Random, depth: int) -> Any:
    """Any value that a tool may give."""
    if depth == 0 or chance.random() < 0.3:
        leaves: list[Any] = [None, True, 0, 2**63, -1.5, "", "é\n", "\u2028", b"", b"\xff\0", PNG, Colour.RED, Named()]
        return chance.choice([*leaves, Coded(data=b"\xff\xfe"), dt.timedelta(1), decimal.Decimal("0.1"), Ids([1])])
    inner = [made(chance, depth - 1) for _ in range(chance.randrange(4))]
    plain = [item for item in inner if item is not PNG]  # a file in a tuple is given as a file, not as base64
    if r"\xff" in repr(inner):
        return inner  # a model takes bytes for text, for which Pydantic AI would end the run
    named, numbered = dict(zip("abc", inner, strict=False)), dict(enumerate(inner))
    return chance.choice(
        [inner, named, numbered, (0, *plain), deque([0, *plain]), Row(inner, b=plain), Holder(held=inner)]
    )


async def test_any_result_reads_as_it_does_without_the_gate(runtime: Runtime) -> None:
    """Values made by chance."""
    chance = random.Random(7)
    values = [made(chance, 4) for _ in range(60 * SCALE)]
    given = [partial(copy, value) for value in values]
    assert await told(runtime, given) == await told(None, given)


# ── what cannot be written down ──────────────────────────────────────────────────────────────


def round_list() -> list[Any]:
    value: list[Any] = [1]
    value.append({"me": value, "file": PNG})
    return value


def round_model() -> Holder:
    value = Holder()
    value.held = value
    return value


def round_rows() -> Row:
    value = Row()
    value.a, value.b = value, [value, Raw()]
    return value


class Torn(Mapping[str, int]):
    """A mapping that breaks off."""

    def __getitem__(self, name: str) -> int:
        if name == "b":
            raise RuntimeError(KEY)
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def broken_off() -> Iterator[int]:
    yield 1
    raise RuntimeError(KEY)


WRONG = "(PydanticSerializationError)]"
RAW = {"number": 1, "data": "_w=="}
NOTE = "[not shown: it cannot be written down"


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda: 2**70, str(2**70)),
        (lambda: {"a": [-(2**63) - 1]}, {"a": [str(-(2**63) - 1)]}),
        (lambda: [10**5000], ["[not shown: an integer of 16610 bits]"]),
        (lambda: (2**70 for _ in "a"), [str(2**70)]),
        (lambda: {"a": map(str, [1, 2]), "b": (item for item in ["a", PNG])}, {"a": ["1", "2"], "b": ["a", PNG]}),
        (broken_off, [1, f"{NOTE} (RuntimeError)]"]),
        (lambda: "a\ud800b", "a\\ud800b"),
        (lambda: {"a\ud800": Row("\ud800")}, {"a\\ud800": {"a": "\\ud800", "b": []}}),
        (round_list, [1, {"me": "[not shown: it holds itself]", "file": PNG}]),
        (round_model, {"held": f"{NOTE} (ValueError)]", "number": 1}),
        (round_rows, {"a": "[not shown: it holds itself]", "b": ["[not shown: it holds itself]", RAW]}),
        (Torn, {"a": 1, "…": f"{NOTE} (RuntimeError)]"}),
        (Raw, RAW),
        (lambda: Holder(held=Row(Raw()), number=2**70), {"held": {"a": RAW, "b": []}, "number": str(2**70)}),
        (lambda: Holder(held=[b"\xff"]), {"held": ["_w=="], "number": 1}),
        (lambda: [One(b"\xff")], ["_w=="]),
        (lambda: b"caf\xe9 " + KEY.encode(), urlsafe_b64encode(b"caf\xe9 " + HIDDEN.encode()).decode()),
        (lambda: Row(Raw(), b=[Broken()]), {"a": RAW, "b": [{"number": f"{NOTE} {WRONG}", "shown": "yes"}]}),
        (lambda: [Mute(), "a"], ["[not shown: Mute]", "a"]),
        (lambda: {Mute(): 1}, {"[not shown: Mute]": 1}),
        (lambda: types.MappingProxyType({"a": PNG}), {"a": PNG}),
        (lambda: ("a", PNG), ["a", PNG]),
        (lambda: ValueError("x"), "ValueError('x')"),
    ],
)  # fmt: skip
async def test_what_can_be_told_of_a_result_is_told(runtime: Runtime, make: Callable[[], Any], given: Any) -> None:
    """The tool has done its work: a note stands where something cannot be written down, and no call fails for it."""
    (returned,) = await parts_of(runtime, make())
    assert (returned.outcome, returned.content) == ("success", given)


@pytest.mark.parametrize("levels", [100, 101, 300, 5_000])
async def test_a_result_that_is_nested_too_deeply_is_told_as_far_as_it_goes(runtime: Runtime, levels: int) -> None:
    """Down to the hundredth level."""
    (returned,) = await parts_of(runtime, {"deep": deep(levels - 1), "key": KEY})
    value, depth = returned.content["deep"], 1
    while isinstance(value, list):
        (value,), depth = value, depth + 1
    expected = 1 if levels == 100 else "[not shown: nested more than 100 levels deep]"
    assert (value, depth, returned.content["key"]) == (expected, 100, HIDDEN)


# ── secrets in bytes ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "find"),
    [
        (lambda data: data, lambda given: given),
        (lambda data: {"a": [data]}, lambda given: given["a"][0]),
        (lambda data: {data: 1}, lambda given: next(iter(given))),
        (lambda data: Coded(data=data), lambda given: given["data"]),
        (
            lambda data: Row(BinaryContent(data, media_type="text/plain")),
            lambda given: given["a"]["data"],
        ),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_secret_in_bytes_reaches_no_model_as_base64(
    runtime: Runtime, make: Callable[[bytes], Any], find: Callable[[Any], str], encoding: str
) -> None:
    """Bytes are written as base64, in which nobody would see it."""
    (returned,) = await parts_of(runtime, make(f"the key: {KEY}".encode(encoding)))
    assert urlsafe_b64decode(find(returned.content)) == f"the key: {HIDDEN}".encode(encoding)
    assert urlsafe_b64encode(KEY[4:-4].encode()).decode() not in str(returned.metadata)

"""Pydantic AI: a secret among the arguments of an agent's own tool is hidden at its own place, and nothing else is."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic import (
    AliasChoices,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Secret,
    SecretStr,
    field_serializer,
    model_validator,
)

from fronts.governing import asked, governed, ran, unwatched
from handrail import Runtime

MARK = "***REDACTED***"
LONG = "plover-4711-xyzzy"
DEFAULT = SecretStr(LONG)


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches; tools whose names begin with `free` may run."""
    async with unwatched(work) as opened:
        yield opened


class Login(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    to: str
    key: SecretStr
    note: str = ""


class Hidden(BaseModel):
    """A model whose fields are written under other names."""

    to: str
    key: SecretStr = Field(validation_alias=AliasChoices("apiKey", "api_key"))
    spare: SecretStr = SecretStr("a default of the program")


class Moved(BaseModel):
    """A model that takes its secret out of another value."""

    url: str
    key: SecretStr = SecretStr("")

    @model_validator(mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        return {**given, "key": given["url"].partition("@")[0]}


def pay(to: str, amount: int, pin: Secret[int]) -> None: ...
def in_deque(to: str, keys: deque[SecretStr]) -> None: ...
def in_set(to: str, keys: set[SecretStr]) -> None: ...
def in_names(to: str, keys: dict[SecretStr, int]) -> None: ...
def address(to: str, key: Secret[IPv4Address]) -> None: ...
def moment(to: str, key: Secret[datetime]) -> None: ...
def number(to: str, key: Secret[Decimal]) -> None: ...
def unique(to: str, key: Secret[UUID]) -> None: ...
def encoded(to: str, key: Secret[Base64Bytes]) -> None: ...
def yes(to: str, key: Secret[bool]) -> None: ...
def several(to: str, key: Secret[list[str]]) -> None: ...
def stripped(to: str, login: Login) -> None: ...
def flat(login: Login) -> None: ...
def flat_by_alias(hidden: Hidden) -> None: ...
def by_alias(to: str, hidden: Hidden) -> None: ...
def moved(to: str, moved: Moved) -> None: ...
def named_otherwise(to: str, key: Annotated[SecretStr, Field(alias="apiKey")]) -> None: ...
def unlike(to: str, login: Annotated[Login, BeforeValidator(lambda given: {**given, "key": "another"})]) -> None: ...
def by_default(to: str, key: SecretStr = DEFAULT) -> None: ...


Case = tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]
CASES: list[Case] = [
    (
        pay,
        {"to": "account 1", "amount": 1000001, "pin": "01"},
        {"to": "account 1", "amount": 1000001, "pin": MARK},
    ),
    (pay, {"to": "1", "amount": 1, "pin": 1}, {"to": "1", "amount": 1, "pin": MARK}),
    (in_deque, {"to": "bob", "keys": [LONG, "x"]}, {"to": "bob", "keys": [MARK, MARK]}),
    (in_set, {"to": "b", "keys": ["a", "b"]}, {"to": "b", "keys": [MARK, MARK]}),
    (in_names, {"to": "b", "keys": {"a": 1, "b": 2}}, {"to": "b", "keys": {MARK: 1, f"{MARK} 1": 2}}),
    (address, {"to": "bob", "key": "10.20.30.44"}, {"to": "bob", "key": MARK}),
    (moment, {"to": "bob", "key": "2024-01-02T03:04:05Z"}, {"to": "bob", "key": MARK}),
    (number, {"to": "bob", "key": "1234567e5"}, {"to": "bob", "key": MARK}),
    (unique, {"to": "bob", "key": "0e8f6d2a11114222833344445555666a"}, {"to": "bob", "key": MARK}),
    (encoded, {"to": "bob", "key": "cGxvdmVyLTQ3MTE="}, {"to": "bob", "key": MARK}),
    (encoded, {"to": "x cGxvdmVyLTQ3MTE=", "key": "cGxvdmVyLTQ3MTE="}, {"to": f"x {MARK}", "key": MARK}),
    (yes, {"to": "true", "key": True}, {"to": "true", "key": MARK}),
    (several, {"to": "a", "key": ["a", "b"]}, {"to": "a", "key": [MARK, MARK]}),
    (
        stripped,
        {"to": "a", "login": {"to": "a", "key": " a ", "note": "a"}},
        {"to": "a", "login": {"to": "a", "key": MARK, "note": "a"}},
    ),
    (stripped, {"to": "a", "login": {"to": "a", "key": ""}}, {"to": "a", "login": {"to": "a", "key": ""}}),
    (flat, {"to": "a", "key": " a "}, {"to": "a", "key": MARK}),
    (flat, {"login": {"to": "a", "key": " a "}}, {"login": {"to": "a", "key": MARK}}),
    (flat_by_alias, {"to": "abc", "apiKey": "abc"}, {"to": "abc", "apiKey": MARK}),
    (by_alias, {"to": "a", "hidden": {"to": "a", "api_key": "a"}}, {"to": "a", "hidden": {"to": "a", "api_key": MARK}}),
    (named_otherwise, {"to": "ab", "apiKey": "abc"}, {"to": "ab", "apiKey": MARK}),
    (by_default, {"to": "bob"}, {"to": "bob"}),
]


@pytest.mark.parametrize(
    ("function", "args", "shown"), CASES, ids=[f"{c[0].__name__}-{i}" for i, c in enumerate(CASES)]
)
async def test_a_secret_is_hidden_where_it_was_written_and_nowhere_else(
    runtime: Runtime, function: Callable[..., Any], args: Any, shown: Any
) -> None:
    """Whatever its type makes of it."""
    await asked(governed(runtime, function, calls=[(function.__name__, args)]))
    (record,) = runtime.parts.ledger.list()
    assert record.request.params["arguments"] == shown


def changed_name(to: str, key: Annotated[SecretStr, Field(alias="apiKey"), BeforeValidator("{}!".format)]) -> str:
    ran.append(to)
    return "done"


def free_changed_name(to: str, key: Annotated[SecretStr, Field(alias="apiKey"), BeforeValidator("{}!".format)]) -> str:
    return changed_name(to, key)


class Order(BaseModel):
    """What a person must see, and what nobody may."""

    to: str
    amount: int
    pin: Secret[int]


def flat_moved(moved: Moved) -> None: ...
def order(order: Order, note: str) -> None: ...
def orders(orders: list[Order]) -> None: ...
def many(to: str, keys: list[SecretStr]) -> None: ...


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (changed_name, {"to": "bob", "apiKey": "pass"}),
        (flat_moved, {"url": "pass@host", "to": "bob"}),
        (moved, {"to": "a", "moved": {"url": "pw@host"}}),
        (moved, {"to": "a", "moved": {"url": "pw@host", "key": "x"}}),
        (unlike, {"to": "bob", "login": {"to": "bob", "key": "x"}}),
        (order, {"order": {"to": "eve", "amount": 99999, "pin": "1_234"}, "note": "x"}),
        (orders, {"orders": [{"to": "eve", "amount": 9, "pin": 1234}, {"to": "eve", "amount": 9, "pin": "1_2"}]}),
        (many, {"to": "eve", "keys": [f"key {number}" for number in range(101)]}),
    ],
)
async def test_nobody_is_asked_where_the_secret_ones_among_arguments_cannot_be_told(
    runtime: Runtime, function: Callable[..., Any], args: Any
) -> None:
    """A person must see what they approve, and may not see the secret."""
    result = await governed(runtime, function, calls=[(function.__name__, args)]).run("go")
    name = function.__name__
    assert result.output.startswith(f"failed: APPROVAL_DENIED: {name} must be approved, and which of its arguments are")
    assert (ran, runtime.parts.ledger.list()) == ([], ())


async def test_where_a_rule_allows_such_a_tool_it_runs_and_the_secret_is_on_no_record(
    runtime: Runtime, own_user: Path
) -> None:
    """What cannot be told apart is not written down."""
    call: Any = [("free_changed_name", {"to": "bob", "apiKey": "pass-4711"})]
    await governed(runtime, free_changed_name, calls=call).run("go")
    runtime.parts.journal.flush()
    files = [path for path in own_user.rglob("*") if path.is_file()]
    assert (ran, [path for path in files if b"pass-4711" in path.read_bytes()]) == (["bob"], [])


def once(to: str, keys: Iterable[SecretStr]) -> str:
    ran.append([key.get_secret_value() for key in keys])
    return "done"


def free_once(to: str, keys: Iterable[SecretStr]) -> str:
    return once(to, keys)


async def test_what_can_be_read_only_once_is_left_to_the_tool(runtime: Runtime, own_user: Path) -> None:
    """Nobody can be asked about it; allowed by a rule, the tool finds all of it, and the record nothing."""
    args = {"to": "bob", "keys": [LONG, "x"]}
    result = await governed(runtime, once, calls=[("once", args)]).run("go")
    assert result.output.startswith("failed: APPROVAL_DENIED: once must be approved, and what it would be given cannot")
    await governed(runtime, free_once, calls=[("free_once", args)]).run("go")
    runtime.parts.journal.flush()
    files = [path for path in own_user.rglob("*") if path.is_file()]
    assert (ran, [path for path in files if LONG.encode() in path.read_bytes()]) == ([[LONG, "x"]], [])


class Telling(BaseModel):
    """A model that writes its secret down as it is."""

    key: SecretStr

    @field_serializer("key", when_used="json")
    def _told(self, key: SecretStr) -> str:
        return key.get_secret_value()


def free_telling(login: Telling, names: Iterable[str]) -> str:
    ran.append(*names)
    return "done"


async def test_a_type_that_tells_its_secrets_tells_none_on_record(runtime: Runtime, own_user: Path) -> None:
    """Also where the arguments can be written down only roughly."""
    call: Any = [("free_telling", {"login": {"key": "pass-4711"}, "names": ["bob"]})]
    await governed(runtime, free_telling, calls=call).run("go")
    runtime.parts.journal.flush()
    files = [path for path in own_user.rglob("*") if path.is_file()]
    assert (ran, [path for path in files if b"pass-4711" in path.read_bytes()]) == (["bob"], [])

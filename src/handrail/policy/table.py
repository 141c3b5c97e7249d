"""`policy test FILE`: a TOML table of calls and the verdicts they should get. Pure.

[[cases]]
tool = "read_file"
args = { path = ".env" }
expect = "deny"
rule = "defaults.protected"     # optional: must be among what decided
code = "PATH_PROTECTED"         # optional: the code the call would fail with
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.errors import Code, Problem, SettingsFault
from handrail.spelling import nearest
from handrail.words import Decision, Json, Verdict

Explain = Callable[[str, Mapping[str, Json]], Verdict]
_KEYS: dict[str, type] = {"tool": str, "args": dict, "expect": str, "rule": str, "code": str}
_TYPES: dict[type, str] = {str: "text", dict: "a table"}
_EXPECT = tuple(decision.word for decision in Decision)
_HEAD = re.compile(r"^[ \t]*\[\[[ \t]*cases[ \t]*\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One call and the verdict it should get."""

    tool: str
    expect: Decision
    args: Mapping[str, Json] = field(default_factory=dict)
    rule: str | None = None
    code: str | None = None
    where: str = ""  # "policy.toml:3"


@dataclass(frozen=True, slots=True)
class Failure:
    """A case whose call is judged otherwise."""

    case: Case
    message: str
    verdict: Verdict | None = None  # None: it is no call at all


def parse(text: str, name: str = "the table") -> list[Case]:
    """Read a table; SettingsFault names every fault in it, with its place."""
    import tomllib

    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsFault(f"{name}: this is no TOML: {error}") from None
    entries = data.pop("cases", None)
    faults = [f"{name}: there is no key {key!r} here{_near(key, ['cases'])}" for key in data]
    if not isinstance(entries, list) or not entries:
        faults.append(f"{name}: it needs at least one `[[cases]]` with tool, args and expect")
        entries = []
    places = _places(text, name, len(entries))
    for entry, where in zip(entries, places, strict=True):
        faults += [f"{where}: {fault}" for fault in _faults(entry)]
    if faults:
        raise SettingsFault("\n".join(faults))
    return [_case(entry, where) for entry, where in zip(entries, places, strict=True)]


def judge(case: Case, explain: Explain) -> Failure | None:
    """Judge one case; None when its call gets the verdict it should."""
    try:
        verdict = explain(case.tool, case.args)
    except Problem as problem:
        if case.expect is Decision.DENY and case.rule is None and case.code == problem.code:
            return None
        return Failure(case, f"{_call(case)} is no call that can be judged: {problem.message} ({problem.code})")
    wrong = "; ".join(_differences(case, verdict))
    return Failure(case, f"{_call(case)}: {wrong}", verdict) if wrong else None


def _differences(case: Case, verdict: Verdict) -> Iterator[str]:
    deciding = verdict.deciding
    because = f"by {deciding.rule}{f' at {deciding.where}' if deciding.where else ''}: {deciding.why}"
    if verdict.decision is not case.expect:
        yield f"expected {case.expect.word}, got {verdict.decision.word} {because}"
    rules = [item.rule for item in verdict.findings if item.decision is deciding.decision or item.source == "grants"]
    if case.rule is not None and case.rule not in rules:
        yield f"expected the rule {case.rule}, it was decided {because}"
    code = _code(verdict)
    if case.code is not None and case.code != code:
        yield f"expected the code {case.code}, got {code or 'none'}"


def _code(verdict: Verdict) -> str | None:
    codes = {Decision.ALLOW: None, Decision.ASK: Code.APPROVAL_REQUIRED.value, Decision.DENY: verdict.deciding.code}
    return codes[verdict.decision]


def _call(case: Case) -> str:
    args = ", ".join(f"{name}={value!r}" for name, value in case.args.items())
    return f"{case.where}: {case.tool}({args})" if case.where else f"{case.tool}({args})"


def _faults(entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "a case is a table with tool, args and expect"
        return
    for key in entry:
        if key not in _KEYS:
            yield f"there is no key {key!r} in a case{_near(key, _KEYS)}"
    for key, kind in _KEYS.items():
        if key in entry and not isinstance(entry[key], kind):
            yield f"{key}: expected {_TYPES[kind]}, got {entry[key]!r}"
    yield from (f"{key}: is missing" for key in ("tool", "expect") if key not in entry)
    yield from _unknown("expect", entry, _EXPECT)
    yield from _unknown("code", entry, [code.value for code in Code])


def _unknown(key: str, entry: Mapping[str, Any], known: Sequence[str]) -> Iterator[str]:
    value = entry.get(key)
    if isinstance(value, str) and value not in known:
        yield (
            f"{key}: {value!r} is none of {', '.join(known)}"
            if len(known) < 5
            else (f"{key}: there is no {value!r}{_near(value, known)}")
        )


def _case(entry: Mapping[str, Any], where: str) -> Case:
    expect = Decision[entry["expect"].upper()]
    return Case(entry["tool"], expect, entry.get("args", {}), entry.get("rule"), entry.get("code"), where)


def _places(text: str, name: str, count: int) -> list[str]:
    """The line of each case; its number where lines cannot be told from the text."""
    heads = [text.count("\n", 0, found.start()) + 1 for found in _HEAD.finditer(text)]
    if len(heads) == count:
        return [f"{name}:{line}" for line in heads]
    return [f"{name}, case {number}" for number in range(1, count + 1)]


def _near(name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    near = nearest(name, list(known), 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(list(known)[:8])}"

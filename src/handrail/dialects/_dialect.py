"""What every dialect is made of: its words, its tables, and how a call is heard in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from handrail.arguments import RefusedMessage, short
from handrail.dialects._schema import check
from handrail.dialects._usual import USUAL
from handrail.dialects._wording import retold
from handrail.errors import FACTS, Code, Problem
from handrail.spelling import nearest
from handrail.strict_json import is_text
from handrail.versions import Adapter, adapt
from handrail.words import Json, Outcome, Touch, TouchKind, noun

Args = dict[str, Any]
Event = Mapping[str, Any]
_GONE = " does not exist."
UNNAMED = "unnamed"  # in the record of a message that names no tool
# Calls of ours, one after the other, each judged by itself; what came of one is sent in, the whole is given back.
Steps = Generator[tuple[str, Args], Outcome, Outcome]


@noun
class Word:
    """One tool of another system: its name, ours, its arguments as its document has them, what comes back."""

    name: str
    ours: str
    says: str
    args: Mapping[str, Any]  # JSON Schema, in the document's names
    names: Mapping[str, str] = field(default_factory=dict)  # document's argument -> ours, where they differ
    defaults: Mapping[str, Json] = field(default_factory=dict)  # the document's, filled in before translating
    always: Mapping[str, Json] = field(default_factory=dict)  # what every call of it says in our words
    inward: Callable[[Args], Args] | None = None  # what renaming cannot do, on renamed arguments
    back: Callable[[Args], Args | None] | None = None  # our arguments in the document's; None: it cannot say them
    spoken: Mapping[str, str] = field(default_factory=dict)  # what our tool says -> as one who called it so would
    outward: Callable[[Outcome], Any] | None = None  # the result in the document's fields
    result: Mapping[str, Any] | None = None  # JSON Schema of it
    capabilities: tuple[str, ...] = ()  # in the document's names
    toolset: str = ""  # the document's name of the group it belongs to, where it has one
    version: str = "1.0.0"
    adapters: Mapping[int, Adapter] = field(default_factory=dict)
    steps: Callable[[Args], Steps | None] | None = None  # for what no single call does, and changes nothing
    stepping: frozenset[str] = frozenset()  # without all of these arguments it is one call after all
    fits: Callable[[Outcome, int, int], Outcome] | None = (
        None  # into lines and bytes, where its text is longer than ours
    )

    def heard(self, args: Mapping[str, Json], *, repair: bool) -> tuple[Args, tuple[str, ...]]:
        """Give arguments in our names; INVALID_ARGS speaks the document's."""
        given, warnings = check(self.args, args, repair=repair)
        ours = {self.names.get(name, name): value for name, value in {**self.defaults, **given}.items()}
        told = self.inward(ours) if self.inward is not None else ours
        return {**told, **self.always}, warnings

    def said(self, args: Mapping[str, Json]) -> Args | None:
        """Give our arguments in the document's names; None where it has no words for them."""
        theirs = {ours: name for name, ours in self.names.items()}
        known, usual = self.args.get("properties", {}), USUAL.get(self.ours, {})
        told = {
            name: value
            for name, value in args.items()
            if theirs.get(name, name) in known or name not in usual or usual[name] != value
        }
        if self.back is not None:
            try:
                return self.back(told)
            except (KeyError, TypeError, AttributeError, IndexError):
                return None  # a call that lacks something, such as a text too long to be repeated
        told = {
            name: value
            for name, value in told.items()
            if self.always.get(name, value) != value or name not in self.always
        }
        if any(theirs.get(name, name) not in known for name in told):
            return None
        return {theirs.get(name, name): value for name, value in told.items() if value is not None}


@noun
class Heard:
    """A foreign call in our words."""

    tool: str
    args: Mapping[str, Json]
    word: Word
    warnings: tuple[str, ...] = ()
    agent: str = ""  # who carries the call out itself once it is judged; empty: we do
    further: tuple[Touch, ...] = ()  # what the call touches besides what our tool would


@noun
class Requested:
    """One call that a message of another system asks for, as `Runtime.call` takes it."""

    tool: str
    args: Mapping[str, Json]
    version: str | None = None
    call_id: str | None = None
    trace_id: str | None = None
    permissions: tuple[str, ...] | None = None
    idempotency_key: str | None = None

    def keywords(self) -> dict[str, Any]:
        """Give what `Runtime.call` takes besides name and arguments."""
        names = ("version", "call_id", "trace_id", "permissions", "idempotency_key")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@noun
class Message:
    """What a message of another system asks for: calls, or the answer that ends its task."""

    calls: tuple[Requested, ...] = ()
    final_answer: str = ""


@noun
class Dialect:
    """Another system's words over our tools."""

    name: str
    about: str
    words: Mapping[str, Word]
    errors: Mapping[Code, str]  # our code -> the document's name; every code has one
    envelope: Callable[[Outcome], dict[str, Json]]
    events: Callable[[Iterable[Event]], Iterator[dict[str, Json]]]
    approval: Callable[[Mapping[str, Any]], dict[str, Json]]
    messages: Callable[[Mapping[str, Any]], Message]
    # Of `Requested` the tool, call_id and trace_id -> the fields of a message that hold them.
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"tool": ("tool",)})
    former: Mapping[str, str] = field(default_factory=dict)  # other names in use -> the document's
    special: Mapping[str, str] = field(default_factory=dict)  # further names of errors -> which code, and where
    touches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # its permissions -> our kinds of touch
    refused: Mapping[str, str] = field(default_factory=dict)  # names it would have -> why they are not served
    needed: Callable[[Word, Mapping[str, Json]], frozenset[str]] | None = None  # permissions, besides the tool's own
    decisions: Mapping[str, str] = field(default_factory=dict)  # allow, ask, deny -> what policy answers
    sandboxed: bool = False  # its files lie in a sandbox of the run
    by_request: bool = False  # a message names its request, which is a run with a sandbox of its own
    # From a request's id, the tool's name and arguments: the idempotency key of a call that was given none.
    key: Callable[[str, str, Mapping[str, Json]], str | None] | None = None
    # Where the document is an MCP server's: a result of its own, from the outcome and what was asked; its own entries.
    reply: Callable[[Outcome, Mapping[str, Json]], dict[str, Json]] | None = None
    entry: Callable[[Word], dict[str, Json]] | None = None

    def heard(self, tool: str, args: Mapping[str, Json], version: str | None = None, *, repair: bool = True) -> Heard:
        """Translate a call; UNKNOWN_TOOL, UNSUPPORTED_VERSION and INVALID_ARGS speak the document's names."""
        if isinstance(args, RefusedMessage):
            raise args.problem
        word, warnings = self._found(tool)
        if version is not None and version != word.version:
            args, more = adapt(word.name, version, word.version, word.adapters, args)
            warnings += more
        ours, mended = word.heard(args, repair=repair)
        return Heard(word.ours, ours, word, warnings + mended)

    def identify(self, message: Any) -> Requested:
        """Give the tool and ids that a refused message names, as far as it does, so that the record has them."""
        known = message if isinstance(message, Mapping) else {}
        found: dict[str, str] = {}
        for ours, names in self.fields.items():
            for name in names:
                with suppress(Problem):
                    if (text := text_of(known, name)) and ours not in found:
                        found[ours] = text
        tool = found.get("tool", UNNAMED)
        return Requested(tool, {}, call_id=found.get("call_id"), trace_id=found.get("trace_id"))

    def steps(self, tool: str, args: Mapping[str, Json] | None, *, repair: bool = True) -> Steps | None:
        """Give the calls that one of the document stands for; None where it is one call of ours, or wrong."""
        word = self.words.get(tool) if isinstance(tool, str) else None
        if word is None or word.steps is None:
            return None
        if word.stepping and args.__class__ is dict and word.stepping.isdisjoint(args):
            return None
        try:
            return word.steps({**word.defaults, **check(word.args, {} if args is None else args, repair=repair)[0]})
        except Problem:
            return None  # refused, and on record, where every wrong call is

    def of(self, tool: str, asked: str = "") -> Word | None:
        """The word for a tool of ours: the one that was asked with, or the first."""
        word = self.words.get(self._plain(asked))
        if word is not None and word.ours == tool:
            return word
        return next((word for word in self.words.values() if word.ours == tool), None)

    def told(self, outcome: Outcome) -> Any:
        """The result of a call in the document's fields; None where it has no words for what came."""
        word = self.of(outcome.tool, outcome.asked)
        if word is None or word.outward is None or outcome.data is None:
            return None
        try:
            return word.outward(outcome)
        except (KeyError, TypeError):  # asked in another system's words, which have other results
            return None

    def tool_name(self, tool: str, asked: str = "") -> str:
        """The document's name of a tool of ours; ours where it has none."""
        if asked:
            return self._name(asked)
        word = self.of(tool)
        return word.name if word is not None else tool

    def said(self, call: Mapping[str, Any] | None) -> dict[str, Json] | None:
        """A suggested call in the document's words; None where it has none."""
        word = self.of(str(call.get("tool"))) if call else None
        args = word.said(call.get("args") or {}) if word is not None and call else None
        return None if args is None or word is None else {"tool": word.name, "args": args}

    def permissions(
        self, given: Iterable[str], tool: str = "", args: Mapping[str, Json] | None = None
    ) -> frozenset[str]:
        """Permissions of the document as kinds of touch; what it does not know permits nothing.

        Where a call needs further ones by its arguments, the tool's own count only with them; to replace a file, its
        former content is looked at.
        """
        names = frozenset(given)
        kinds = self._kinds(names)
        word = self.words.get(self._name(tool))
        further = self.further(word, args or {})
        if word is None or not further:
            return kinds
        whole = further.union(word.capabilities) <= names
        return kinds | {TouchKind.FS_READ.value} if whole else kinds - self._kinds(word.capabilities)

    def further(self, word: Word | None, args: Mapping[str, Json]) -> frozenset[str]:
        """The permissions that a call needs by its arguments, besides those of its tool."""
        return self.needed(word, args) if word is not None and self.needed is not None else frozenset()

    def _kinds(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(kind for name in names for kind in self.touches.get(name, (name,)))

    def fitted(self, outcome: Outcome, max_lines: int, max_bytes: int, args: Mapping[str, Json]) -> Outcome:
        """An outcome in the document's names, whose text in its form keeps to the limits, too."""
        outcome = retold(outcome, self, args)
        word = self.of(outcome.tool, outcome.asked)
        if word is None or word.fits is None or not isinstance(outcome.data, dict):
            return outcome
        return word.fits(outcome, max_lines, max_bytes)

    def fitted_failure(self, outcome: Outcome, max_lines: int, max_bytes: int) -> Outcome:
        """A failed outcome whose program wrote something, within the limits as that of a program that ended well."""
        word = self.of(outcome.tool, outcome.asked)
        if word is None or word.fits is None or outcome.error is None or "stdout" not in outcome.error.details:
            return outcome
        return word.fits(outcome, max_lines, max_bytes)

    def failed(self, outcome: Outcome, where: str, args: Mapping[str, Json]) -> Outcome:
        """A problem in the document's names: what the call needs, and where a file was looked for that is not there."""
        word, error = self.of(outcome.tool, outcome.asked), outcome.error
        if error is not None and error.code == Code.POLICY_DENIED and (further := self.further(word, args)):
            outcome = replace(outcome, error=replace(error, details={**error.details, "needed": sorted(further)}))
        return self._placed(retold(outcome, self, args), where)

    def _placed(self, outcome: Outcome, where: str) -> Outcome:
        error = outcome.error
        if not self.sandboxed or error is None or error.code != Code.NOT_FOUND or _GONE not in error.message:
            return outcome
        told = error.message
        if where != "." and not told.startswith(("run:", "/")):
            told = told.replace(_GONE, f" does not exist in the sandbox {where}.", 1)
        found = replace(error, message=told, details={**error.details, "sandbox": where})
        return replace(outcome, error=found, summary=outcome.summary.replace(error.message, told))

    def reworded(self, problem: Problem, word: Word) -> Problem:
        """A problem with arguments, in the document's argument names."""
        theirs = {ours: name for name, ours in word.names.items()}
        for error in problem.details.get("errors") or ():
            first, dot, rest = str(error.get("field", "")).partition(".")
            error["field"] = f"{theirs.get(first, first)}{dot}{rest}"
        if theirs:
            names = "|".join(map(re.escape, theirs))
            problem.message = re.sub(rf"`({names})\b", lambda found: f"`{theirs[found[1]]}", problem.message)
        return problem

    def word(self, tool: str) -> Word:
        """The word that a caller names; UNKNOWN_TOOL names the nearest."""
        return self._found(tool)[0]

    def _found(self, tool: str) -> tuple[Word, tuple[str, ...]]:
        if not isinstance(tool, str):
            raise self._unknown(short(tool))
        name = self._plain(tool)
        word = self.words.get(name)
        if word is not None:
            return word, ()
        now = self.former.get(name)
        if now is not None:
            return self.words[now], (f"`{tool}` is called `{now}` in {self.name}",)
        raise self._unknown(tool)

    def _unknown(self, tool: str) -> Problem:
        if (why := self.refused.get(tool)) is not None:
            return Problem(Code.UNKNOWN_TOOL, f"{tool} is not served in the dialect {self.name}: {why}.", near=[])
        twins = [word.name for word in self.words.values() if word.ours == tool]
        ends = {name.rpartition(".")[2].rpartition("/")[2]: name for name in self.words}
        close = nearest(tool[:100], [*self.words, *ends], 3, 0.5)
        near = list(dict.fromkeys([*twins, *(ends.get(name, name) for name in close)]))[:3]
        hint = f" Did you mean {' or '.join(near)}?" if near else f" There are {', '.join(self.words)}."
        return Problem(
            Code.UNKNOWN_TOOL, f"There is no tool {short(tool)} in the dialect {self.name}.{hint}", near=near
        )

    def _name(self, name: str) -> str:
        """A name as the document writes it now."""
        plain = self._plain(name)
        return self.former.get(plain, plain)

    def _plain(self, name: str) -> str:
        """A name as the document writes it, also when it came through a function-calling API."""
        if name in self.words:
            return name
        return next((word for word in self.words if encoded(word) == name), name)


def refuse_unknown(message: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """Refuse a field that a kind of message does not have: it may be one that was meant to narrow, misspelt."""
    names = tuple(known)
    for field_name in message:
        if field_name not in names:
            near = nearest(str(field_name), names, 1, 0.6)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
            shown = short(field_name)
            raise Problem(Code.INVALID_ARGS, f"A {what} has no {shown}; {hint}", field=shown)


def only_name(message: Mapping[str, Any], names: tuple[str, str]) -> str:
    """Give the field that holds the tool's name; INVALID_ARGS for a message that has it in both."""
    first, second = names
    if first in message and second in message:
        raise Problem(Code.INVALID_ARGS, f"The message names a tool twice, as `{first}` and as `{second}`; give one.")
    return second if second in message else first


def one_call(message: Any, name: str, args: str, **keys: str) -> Message:
    """The one call of a message, by the keys that it has for a tool's name, arguments and what `Requested` takes.

    INVALID_ARGS for any other message: what is of the wrong type is never passed over, as it may be meant to narrow.
    """
    tool, given = (message.get(name), message.get(args)) if isinstance(message, Mapping) else (None, None)
    given = {} if given is None else given
    if not isinstance(tool, str) or not isinstance(given, Mapping):
        raise Problem(Code.INVALID_ARGS, f"The message needs `{name}`, a tool's name, and `{args}`, an object.")
    texts = {ours: text_of(message, key) for ours, key in keys.items() if ours != "permissions"}
    narrowed = _permissions(message, keys["permissions"]) if "permissions" in keys else None
    return Message((Requested(tool, given, permissions=narrowed, **texts),))


def text_of(message: Mapping[str, Any], key: str) -> str | None:
    """A text of a message, where it has one; a number that names something is taken as text."""
    value = message.get(key)
    if value is None or is_text(value):
        return None if value is None else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return short(value)
    raise Problem(Code.INVALID_ARGS, f"`{key}`: expected a text, got {short(value)}.", field=key)


def _permissions(message: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    value = message.get(key)
    if value is not None and not (isinstance(value, (list, tuple)) and all(map(is_text, value))):
        raise Problem(Code.INVALID_ARGS, f"`{key}`: expected an array of texts, got {short(value)}.", field=key)
    return None if value is None else tuple(value)


def overwriting(args: Args) -> Args | None:
    """Our write_file in the words of a document whose writing always replaces; None for any other way to write."""
    return {"path": args["path"], "content": args["content"]} if args.get("mode") == "overwrite" else None


def encoded(name: str) -> str:
    """A name that every function-calling API takes; a dialect finds the document's name again."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def table(default: Mapping[str, str], **names: str) -> dict[Code, str]:
    """Name every code: by itself, or by its class."""
    return {code: names.get(code.value) or default[FACTS[code].error_class] for code in Code}

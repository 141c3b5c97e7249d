"""What our tools say of a problem, in a document's names; a part that names what the document lacks is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from handrail.dialects._usual import USUAL
from handrail.errors import Code
from handrail.words import ErrorInfo, Json, Outcome

if TYPE_CHECKING:
    from handrail.dialects._dialect import Dialect, Word

# Said in the document's names already, by whoever read the call.
_SPOKEN = frozenset({Code.UNKNOWN_TOOL, Code.UNSUPPORTED_VERSION})
# Names that are no plain words, too: what stands in quotes or in a path belongs to somebody else.
_TOOLS = re.compile(rf"(?<![\w./:\\-])({'|'.join(name for name in USUAL if '_' in name)})(?!\w|[./:\\-]\w)")
_ARGUMENT = re.compile(
    r"`(?P<quoted>[a-z][a-z0-9_]*)(?:[.:][^`]*)?`"
    r"|(?<![\w./:`-])(?P<given>[a-z_]+)(?==[\w\0])"
    r"|(?<![\w./:`-])(?P<bare>[a-z]+(?:_[a-z0-9]+)+|mkdirs)(?![\w./=`-])"
)
# A command, a value or a name that was given; an argument's name in backticks is none.
_FOREIGN = re.compile(r"`[^`]*`|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")
_OURS = re.compile(r"`[a-z][a-z0-9_]*(?:[.][a-z0-9_.]+|: \w+)?`")
_SENTENCE, _CLAUSE = re.compile(r"(?<=[.?]) "), re.compile(r"(; or |; |, or )")
_MASK = re.compile("\0(\\d+)\0")
MISFIT = "The arguments do not fit: "  # a message that begins so is in the document's names
_LONGEST = 500  # of what a caller wrote, as far as a message repeats it


def retold(outcome: Outcome, dialect: Dialect, args: Mapping[str, Json]) -> Outcome:
    """An outcome whose messages, summary, warnings and fields speak the document's names; `args` are the caller's."""
    word = dialect.of(outcome.tool, outcome.asked)
    if word is None:
        return outcome
    wording = Wording(dialect, word, outcome.asked, args)
    warnings = tuple(map(wording.text, outcome.warnings))
    error = outcome.error
    if error is None:
        summary = wording.text(outcome.summary)
        same = summary == outcome.summary and warnings == outcome.warnings
        return outcome if same else replace(outcome, summary=summary, warnings=warnings)
    if error.code in _SPOKEN or "errors" in error.details:
        return outcome
    details = wording.details(error.details)
    following = None if wording.is_same_call(error.next_call) else error.next_call
    told = replace(error, message=wording.message(error), details=details, next_call=following)
    head = f"{error.code}: "
    summary = outcome.summary.replace(f"{head}{error.message}", f"{head}{told.message}", 1)
    return replace(
        outcome, error=told, summary=summary, warnings=warnings, content=_content(outcome.content, error, told, dialect)
    )


def retold_message(event: Mapping[str, Any], dialect: Dialect) -> Any:
    """Give the message of a failed call's event in the document's names."""
    message = event.get("message")
    asked = event.get("asked")
    if not isinstance(asked, Mapping):
        asked = {}
    word = dialect.of(str(event.get("tool")), str(asked.get("tool") or ""))
    args = asked.get("args")
    spoken = event.get("code") in _SPOKEN or str(message).startswith(MISFIT)
    if word is None or spoken or not isinstance(message, str):
        return message
    return Wording(dialect, word, str(asked.get("tool") or ""), args if isinstance(args, Mapping) else {}).text(message)


def _content(content: str, error: ErrorInfo, told: ErrorInfo, dialect: Dialect) -> str:
    """What a model reads of a problem, with the new message, and the details and the next call where they are whole."""
    if content == _lines(error, error.next_call):
        if isinstance(request := told.details.get("approval"), Mapping):
            told = replace(told, details={**told.details, "approval": dialect.approval(request)})
        return _lines(told, dialect.said(told.next_call))
    head = f"{error.code}: {error.message}"
    return f"{told.code}: {told.message}{content[len(head) :]}" if content.startswith(head) else content


def _lines(error: ErrorInfo, call: Mapping[str, Json] | None) -> str:
    shown = {name: value for name, value in error.details.items() if value not in (None, "", [], {})}
    if error.code == "APPROVAL_REQUIRED":
        shown.pop("approval", None)
    lines = [f"{error.code}: {error.message}"]
    lines += [f"details: {orjson.dumps(shown, default=str).decode()}"] if shown else []
    return "\n".join([*lines, *([f"try: {orjson.dumps(call, default=str).decode()}"] if call else [])])


class Wording:
    """How one call's texts are said in a document's names."""

    def __init__(self, dialect: Dialect, word: Word, asked: str, args: Mapping[str, Json]) -> None:
        self._dialect = dialect
        self._word = word
        self._tool = word.ours
        self._name = dialect.tool_name(word.ours, asked)
        self._args = args

    def details(self, details: Mapping[str, Json]) -> dict[str, Json]:
        """Details with the field, what would mend the call, and the reasons of policy in the document's names."""
        told = dict(details)
        if isinstance(field := details.get("field"), str):
            told["field"] = self._field(field)
        if isinstance(mend := told.pop("mend", None), str) and (mend := self.text(mend, needed=False)):
            told["mend"] = mend
        if isinstance(findings := details.get("findings"), list):
            told["findings"] = [{**item, "why": self.text(str(item.get("why")))} for item in findings]
        return told

    def message(self, error: ErrorInfo) -> str:
        """The message; one that begins with the field begins with the document's."""
        field, text = error.details.get("field"), error.message
        if isinstance(field, str) and text.startswith(f"{field}: "):
            return f"{self._field(field)}: {self.text(text[len(field) + 2 :])}"
        return self.text(text)

    def is_same_call(self, call: Mapping[str, Json] | None) -> bool:
        """Tell whether a suggested call would be, in the document's words, the very call that failed."""
        return call is not None and self._dialect.said(call) == {"tool": self._name, "args": dict(self._args)}

    def text(self, text: str, *, needed: bool = True) -> str:
        """A text in the document's names; what the caller or the operator named stays as it is.

        What is `needed` keeps its beginning, where a tool that the document lacks is just another tool.
        """
        for ours, theirs in self._word.spoken.items():
            text = text.replace(ours, theirs)
        if "\0" in text or not _named_in(text):
            return text
        kept: list[str] = []

        def mask(found: re.Match[str]) -> str:
            if _OURS.fullmatch(found[0]) and found[0][1:-1] not in USUAL:
                return found[0]
            kept.append(found[0])
            return f"\0{len(kept) - 1}\0"

        masked = text
        for pattern in (*self._given(), _FOREIGN):
            masked = pattern.sub(mask, masked)
        first, *rest = _SENTENCE.split(masked)
        sentences = (self._sentence(first, needed=needed), *map(self._sentence, rest))
        told = " ".join(filter(None, sentences))
        while _MASK.search(told):  # a part may hold another
            told = _MASK.sub(lambda found: kept[int(found[1])], told)
        return told

    def _given(self) -> Iterator[re.Pattern[str]]:
        """What the caller wrote that looks like a name of ours; the longest first."""
        given = {text for text in _texts(self._args) if len(text) <= _LONGEST and _named_in(text)}
        for text in sorted(given, key=len, reverse=True):
            yield re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")

    def _sentence(self, sentence: str, *, needed: bool = False) -> str:
        """A sentence without the clauses that name what the document lacks; empty where its first does."""
        first, *rest = _CLAUSE.split(sentence)
        if not needed and not self._sayable(first):
            return ""
        told = self._renamed(first)
        for joint, clause in zip(rest[::2], rest[1::2], strict=True):
            if self._sayable(clause):
                told += joint + self._renamed(clause)
        end = sentence[-1:]
        return told if end not in (".", "?") or told.endswith(end) else told + end

    def _sayable(self, clause: str) -> bool:
        tools = [found[1] for found in _TOOLS.finditer(clause)]
        if any(tool != self._tool and self._dialect.of(tool) is None for tool in tools):
            return False
        words = tuple(self._words(clause))
        return all(_theirs(name, words) is not None for name in map(_named, _ARGUMENT.finditer(clause)))

    def _renamed(self, clause: str) -> str:
        """A clause in the document's names; a tool that it lacks is another tool."""
        words = tuple(self._words(clause))
        for word in words[1:]:
            for ours, theirs in word.spoken.items():
                clause = clause.replace(ours, theirs)

        def argument(found: re.Match[str]) -> str:
            name = _named(found)
            return found[0].replace(name, _theirs(name, words) or name, 1)

        return _TOOLS.sub(self._other, _ARGUMENT.sub(argument, clause))

    def _other(self, found: re.Match[str]) -> str:
        if found[1] == self._tool:
            return self._name
        word = self._dialect.of(found[1])
        return "another tool" if word is None else word.name

    def _words(self, clause: str) -> Iterator[Word]:
        """The call's word, then those of the tools that a clause names."""
        yield self._word
        for found in _TOOLS.finditer(clause):
            word = self._dialect.of(found[1])
            if word is not None and word is not self._word:
                yield word

    def _field(self, field: str) -> str:
        first, dot, rest = field.partition(".")
        return f"{_theirs(first, (self._word,)) or first}{dot}{rest}"


def _named_in(text: str) -> bool:
    if "_" not in text and "`" not in text and "=" not in text and "mkdirs" not in text:
        return False  # one of them stands in all that the two find
    return _TOOLS.search(text) is not None or _ARGUMENT.search(text) is not None


def _named(found: re.Match[str]) -> str:
    return found["quoted"] or found["given"] or found["bare"]


def _theirs(name: str, words: Iterable[Word]) -> str | None:
    """The document's name of an argument; itself where it is none of ours, None where the document has no such one."""
    ours = False
    for word in words:
        for theirs, own in word.names.items():
            if own == name:
                return theirs
        if name in word.args.get("properties", {}) and name not in word.names:
            return name
        ours = ours or name in USUAL.get(word.ours, {}) or name in word.always
    return None if ours else name


def _texts(value: Any) -> Iterator[str]:
    """Every text in what a caller gave."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)

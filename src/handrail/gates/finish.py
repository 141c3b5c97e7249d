"""What leaves the kernel: redacted, then bounded, then stored; with evidence always."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from handrail.catalog import Tool
from handrail.errors import FACTS, Code, Problem
from handrail.gates import record
from handrail.gates.step import PLAIN, Step
from handrail.output.bound import Bounds, bound
from handrail.output.redact import MARK, Redactor, secret_name
from handrail.ports import Spill
from handrail.words import Answer, Change, ErrorInfo, Evidence, Json, Outcome, Ref, Status, TouchKind, Truncation

_POLICY = "policy"
_NOTHING: Answer[None] = Answer(None)
MOST_CHARS = 32 * 1024 * 1024  # of one answer, everything in it together


class Finisher:
    """Turns what a tool gave, or what went wrong, into an outcome that may be shown."""

    __slots__ = ("_bounds", "_plain_shapes", "_redactor", "_spill")

    def __init__(self, redactor: Redactor, bounds: Bounds, spill: Spill) -> None:
        self._redactor, self._bounds, self._spill = redactor, bounds, spill
        self._plain_shapes: dict[tuple[str, ...], bool] = {}

    def hidden(self, value: Any) -> Any:
        """Give a value with its secrets hidden; all its texts are looked at together first, for most hold none."""
        texts: list[str] = []
        if value.__class__ in _HOLDERS and self._gather(value, "", texts) and self._redactor.clean("\n".join(texts)):
            return value
        return self._redactor.value(value)

    def is_clean(self, args: Mapping[str, Json], texts: Sequence[str]) -> bool:
        """Whether nothing in parsed arguments and further texts needs hiding; both are looked at in one pass."""
        found = list(texts)
        return self._gather(args, "", found) and self._redactor.clean("\n".join(found))

    def args(self, args: Mapping[str, Json], encoded: bytes | None = None) -> Any:
        """Arguments as an event keeps them: redacted, and cut where they are long; those that were checked as JSON."""
        if encoded is None:
            return record.cut(self.hidden(record.jsonable(args)))
        # Value by value: escapes in the JSON text would keep secrets from being recognised.
        given = args if PLAIN.issuperset(map(type, args.values())) else orjson.loads(encoded)
        hidden = self.hidden(given)
        return orjson.Fragment(encoded) if hidden is given and len(encoded) <= record.MAX_TEXT else record.cut(hidden)

    def finished(self, step: Step, result: Any, now: float) -> Outcome:
        """Build the outcome of a tool that ended well."""
        tool, files = step.tool, step.files
        assert tool is not None and files is not None
        answer: Answer[Any] = result if result.__class__ is Answer else Answer(result)
        data = tool.shape.result(answer.data)
        summary, content = answer.summary, answer.content
        if content is None:
            content = _shown(data)
        # A tool that shows part of a whole has hidden what it had to by itself.
        evidence, truncation, refs = answer.evidence, self._aside(answer.truncation), answer.refs
        changes = tuple(self._changes(files.changes)) if files.changes else ()
        warnings = self._texts(step.warnings + answer.warnings + (_lost(tool, changes) if changes else ()))
        size, redacted = self._scan(summary, content, data, evidence), MARK in content
        if size < 0:
            redacted = True
            summary, data = self._redactor.text(summary), self.hidden(data)
            # Made anew from what is hidden: writing a text down as JSON changes how a secret in it is spelled.
            content = self._redactor.text(_shown(data) if answer.content is None else content)
            evidence = tuple(_hidden(item, self._redactor) for item in evidence)
            size = len(content) + len(orjson.dumps(data))
        cut = bound(content, self._bounds)
        if cut is not None:
            content, truncation, refs = self._spilled(content, cut, truncation, refs)
        # What may be shown also fits as data, where each line break takes two bytes.
        most = max(tool.max_bytes, 2 * self._bounds.max_bytes)
        if size * 2 > most and len(encoded := orjson.dumps(data)) > most:
            refs = (*refs, self._spill.put(encoded.decode(), "data"))
            warnings = (*warnings, f"`data` is over {most} bytes and kept as {refs[-1].ref}")
            data = None
        how = (_decision(step), _scope(step), _rules(step), warnings, _milliseconds(step, now), self._asked(step))
        return Outcome(
            step.id, tool.name, tool.version, Status.OK, summary, content, data, None,
            evidence or (_evidence(step, content),), changes, self._texts(answer.commands), refs, truncation, redacted,
            *how,
        )  # fmt: skip

    def failed(self, step: Step, problem: Problem, now: float) -> Outcome:
        """The outcome of a call that did not do what was asked."""
        facts = FACTS[problem.code]
        raw = record.jsonable([problem.message, problem.details, problem.next_call])
        message, details, next_call = self.hidden(raw)
        answer = problem.answer or _NOTHING
        content = _told(problem.code, message, details, next_call)
        if answer.content is not None:
            content = f"{problem.code.value}: {message}\n{self._redactor.text(answer.content)}"
        cut = bound(content, self._bounds, "middle" if answer.content is not None else "head")
        denied = facts.error_class == _POLICY
        status = Status.FAILED if not denied else Status.DENIED
        error = ErrorInfo(problem.code.value, facts.error_class, message, details, facts.retryable, next_call)
        name = self._redactor.text(record.cut(record.jsonable(step.name)))
        return Outcome(
            call_id=step.id,
            tool=name,
            version=step.tool.version if step.tool is not None else "",
            status=Status.PENDING if problem.code is Code.APPROVAL_REQUIRED else status,
            summary=f"{problem.code.value}: {message}",
            content=content if cut is None else cut.text,
            data=None,
            error=error,
            evidence=(
                *(_hidden(item, self._redactor) for item in answer.evidence),
                Evidence("tool", f"{name}#{step.id}", problem.code.value, _sha256(content)),
            ),
            changes=tuple(self._changes(step.files.changes)) if step.files is not None else (),
            commands=self._texts(answer.commands),
            refs=answer.refs,
            truncation=self._aside(answer.truncation),
            redacted=[message, details, next_call] != list(raw) or (answer is not _NOTHING and MARK in content),
            decision=_decision(step),
            scope=_scope(step),
            rules=_rules(step),
            warnings=self._texts(step.warnings + answer.warnings),
            duration_ms=_milliseconds(step, now),
            asked=self._asked(step),
        )

    def handed_over(self, step: Step, now: float) -> Outcome:
        """The outcome of a judged call that an agent carries out itself; pending where it asks its own person first."""
        assert step.tool is not None
        asks = step.agent_asks
        said = f"{step.agent} asks its person, then carries it out" if asks else f"{step.agent} carries it out itself"
        return Outcome(
            call_id=step.id,
            tool=step.tool.name,
            version=step.tool.version,
            status=Status.PENDING if asks else Status.OK,
            summary=said,
            content=self._redactor.text(step.verdict.deciding.why) if asks and step.verdict is not None else said,
            data={"before": record.former_fields(step.formers)},
            error=None,
            evidence=(_evidence(step, said),),
            decision=_decision(step),
            scope="none" if step.grant is None else step.grant.scope.word,
            rules=_rules(step),
            warnings=self._texts(step.warnings),
            duration_ms=_milliseconds(step, now),
            asked=self._asked(step),
        )

    def _asked(self, step: Step) -> str:
        """The tool's name as it was asked for in a dialect."""
        call = step.call
        return "" if call.dialect == "native" else str(record.cut(self._redactor.text(str(call.tool))))

    def _texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._redactor.text, texts)) if texts else texts

    def _aside(self, cut: Truncation | None) -> Truncation | None:
        """A cut whose cursor names no secret; one that did leads nowhere."""
        if cut is None or cut.next_cursor is None:
            return cut
        return replace(cut, next_cursor=self._redactor.text(cut.next_cursor))

    def _changes(self, changes: Iterable[Change]) -> Iterable[Change]:
        """Changes with secrets in file names hidden; such a change cannot be undone from the journal."""
        text = self._redactor.text
        for change in changes:
            path, source = text(change.path), None if change.source is None else text(change.source)
            same = path is change.path and source is change.source
            yield change if same else replace(change, path=path, source=source, kept=False)

    def _scan(self, summary: str, content: str, data: Json, evidence: Sequence[Evidence]) -> int:
        """The size of an answer in characters, or -1 when something in it must be hidden."""
        texts = [summary, content]
        for item in evidence:
            if item.ref not in summary:
                texts.append(item.ref)
            texts.append(item.summary)
        if data.__class__ is str:
            texts.append(data)
        elif data.__class__ in _HOLDERS and not self._gather(data, content, texts):
            return -1
        _check_size(texts)
        whole = "\n".join(texts)
        return len(whole) if self._redactor.clean(whole) else -1

    def _gather(self, value: Json, content: str, texts: list[str]) -> bool:
        """Collect every text in a value; False when a name in it marks its value as secret."""
        if value.__class__ is dict:
            names = tuple(value)
            plain = self._plain_shapes.get(names)
            if plain is None:
                plain = self._learn(names)
            if not plain:
                return False
            value = value.values()
        for item in value:
            if item.__class__ is str:
                if item is not content and item != content:
                    texts.append(item)
            elif item.__class__ is tuple:
                return False  # no JSON value: left to those who look closely
            elif item.__class__ in _HOLDERS and not self._gather(item, content, texts):
                return False
        return True

    def _learn(self, names: tuple[str, ...]) -> bool:
        """Whether none of an object's names hides its value or must itself be hidden."""
        plain = self._redactor.clean("\n".join(names)) and not any(map(secret_name, names))
        if len(self._plain_shapes) < 1000:
            self._plain_shapes[names] = plain
        return plain

    def _spilled(
        self, content: str, cut: Any, truncation: Truncation | None, refs: tuple[Ref, ...]
    ) -> tuple[str, Truncation, tuple[Ref, ...]]:
        """Keep the redacted whole where the model can fetch it, and say so in the last line."""
        ref = self._spill.put(content)
        next_line = cut.text.count("\n") + 1
        notice = (
            f"[cut: {cut.shown} of {cut.total} {cut.by} shown; the rest: "
            f'read_file {{"path": "{ref.ref}", "offset": {next_line}}}]'
        )
        cursor = truncation.next_cursor if truncation is not None else None
        shown = Truncation(cut.by, cut.shown, cut.total, cursor, ref.ref)
        return f"{cut.text.rstrip(chr(10))}\n{notice}", shown, (*refs, ref)


_HOLDERS = (dict, list)


def _lost(tool: Tool, changes: Sequence[Change]) -> tuple[str, ...]:
    """Say what cannot be put back, and why; what programs change is never kept."""
    lost = [change for change in changes if not change.kept]
    if not lost or TouchKind.PROC_EXEC in tool.permissions:
        return ()
    from handrail.undo_order import NO_ROOM, why_lost

    found: dict[str, list[str]] = {}
    for change in lost:
        found.setdefault(why_lost(record.change_fields(change)), []).append(change.path)
    return tuple(
        f"no room to keep what stood in {', '.join(paths[:5])} (undo.max_bytes): no undo"
        if why == NO_ROOM
        else f"no undo of {', '.join(paths[:5])}: {why}"
        for why, paths in found.items()
    )


def _milliseconds(step: Step, now: float) -> float:
    return int((now - step.began) * 1e6) / 1e3


def _check_size(texts: Sequence[str]) -> None:
    """Refuse a flood before it is copied: hiding, bounding and keeping an answer take several times its size."""
    if (size := sum(map(len, texts))) > MOST_CHARS:
        text = f"The tool gave {size} characters; more than {MOST_CHARS} cannot be taken. Ask it for less."
        raise Problem(Code.INVALID_RESULT, text, characters=size, max_characters=MOST_CHARS)


def _shown(data: Json) -> str:
    """What a model is shown of a result: a text as it is, anything else as JSON."""
    return data if data.__class__ is str else _json(data)


def _json(data: Json) -> str:
    if data.__class__ is str:
        _check_size((data,))
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()


def _hidden(item: Evidence, redactor: Redactor) -> Evidence:
    return replace(item, ref=redactor.text(item.ref), summary=redactor.text(item.summary))


def _evidence(step: Step, content: str) -> Evidence:
    assert step.tool is not None
    return Evidence("tool", f"{step.tool.name}#{step.id}", "the answer as given", _sha256(content))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _rules(step: Step) -> tuple[str, ...]:
    if step.verdict is None:
        return ()
    return tuple(dict.fromkeys([finding.rule for finding in step.verdict.findings]))


def _scope(step: Step) -> str:
    return "none" if step.grant is None else step.grant.scope.word


def _decision(step: Step) -> str:
    if step.grant is not None:
        return "ask"
    return "deny" if step.verdict is None else step.verdict.decision.word


def _told(code: Code, message: str, details: Any, next_call: Any) -> str:
    """What a model reads of a problem: enough to mend its own call."""
    lines = [f"{code.value}: {message}"]
    shown = {name: value for name, value in (details or {}).items() if value not in (None, "", [], {})}
    if code is Code.APPROVAL_REQUIRED:
        shown.pop("approval", None)  # the request is for people, and the call itself is known to whoever made it
    if shown:
        lines.append(f"details: {orjson.dumps(shown, default=str).decode()}")
    if next_call:
        lines.append(f"try: {orjson.dumps(next_call, default=str).decode()}")
    return "\n".join(lines)

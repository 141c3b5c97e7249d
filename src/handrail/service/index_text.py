"""What is found by: the words and marks of an event. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

MOST_CHARS = 6000  # of one call that can be searched
_MOST_VALUES = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(65536)
def mark(name: str, value: str) -> str:
    """Write a filter such as `tool=read_file` as one word that no text holds."""
    return f"q{blake2b(f'{name}={value}'.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


@lru_cache(4096)
def _second(text: str) -> int:
    """Microseconds since 1970 of a whole second."""
    moment = datetime.fromisoformat(f"{text}+00:00")
    return int((moment - _EPOCH).total_seconds()) * 1_000_000


def microseconds(ts: Any) -> int:
    """Read the time of an event; 0 where it has none."""
    try:
        return _second(ts[:19]) + int(ts[20:26])
    except (TypeError, ValueError, IndexError):
        return 0


def absolute(path: str, workspace: str) -> str:
    """Write a path of a call as the machine knows it, as far as its run tells."""
    if path.startswith(("/", "run:")) or not workspace:
        return path
    return workspace if path == "." else f"{workspace.rstrip('/')}/{path}"


def started_words(event: Mapping[str, Any]) -> list[str]:
    """Collect what a call was asked to do, and why it was judged so."""
    words = [str(event.get("tool", "")), *_texts(event.get("args"))]
    words += [str(touch.get("target", "")) for touch in _dicts(event.get("touches"))]
    verdict = event.get("verdict")
    for finding in _dicts(verdict.get("findings") if isinstance(verdict, dict) else None):
        if finding.get("decision") != "allow":
            words += (str(finding.get("rule", "")), str(finding.get("why", "")))
    if client := event.get("client"):
        words.append(str(client))
    return words


def ended_words(event: Mapping[str, Any]) -> list[str]:
    """Collect how a call ended."""
    words = [str(event.get("code") or ""), str(event.get("message") or "")]
    words += [str(change.get("path", "")) for change in _dicts(event.get("files_changed"))]
    return words + [str(command) for command in event.get("commands_run") or ()]


def other_words(event: Mapping[str, Any]) -> list[str]:
    """Collect the texts of an event that stands for itself."""
    return [str(event.get("kind", "")), *_texts({name: value for name, value in event.items() if name not in _COMMON})]


_COMMON = frozenset({"seq", "ts", "run_id", "kind", "call_id", "prev", "trace_id", "files", "policy_digest", "order"})


def title_of(event: Mapping[str, Any]) -> str:
    """Say in a few words what an event that stands for itself is about."""
    for name in ("title", "content", "task", "question", "answer", "reason", "message"):
        if isinstance(value := event.get(name), str) and value:
            return value[:200]
    request = event.get("request")
    return str(request.get("reason", ""))[:200] if isinstance(request, dict) else ""


def call_title(event: Mapping[str, Any]) -> str:
    """Say in a few words what a call is about: its command, path or address, or its first text."""
    args = event.get("args")
    if not isinstance(args, dict):
        return ""
    for name in ("command", "path", "url", "query", "pattern", "source", "name"):
        if isinstance(value := args.get(name), str) and value:
            return value[:200]
    return next((value[:200] for value in args.values() if isinstance(value, str) and value), "")


def started_marks(event: Mapping[str, Any], workspace: str) -> list[str]:
    """Collect what a call can be filtered by when it starts."""
    verdict = event.get("verdict")
    decision = verdict.get("decision") if isinstance(verdict, dict) else None
    marks = [mark("kind", "call"), mark("tool", str(event.get("tool", ""))), mark("decision", str(decision or "none"))]
    touches = [touch for touch in _dicts(event.get("touches"))[:20] if str(touch.get("kind", "")).startswith("fs.")]
    return marks + [mark("path", absolute(str(touch.get("target", "")), workspace)) for touch in touches]


def ended_marks(event: Mapping[str, Any], workspace: str) -> list[str]:
    """Collect what a call can be filtered by when it has ended."""
    marks = [mark("status", str(event.get("status", ""))), mark("code", str(event.get("code") or "none"))]
    for change in _dicts(event.get("files_changed")):
        path = absolute(str(change.get("path", "")), workspace)
        marks += (mark("path", path), mark("changed", path))
    return marks


def joined(words: list[str], marks: list[str]) -> str:
    """Write a document: its marks, then as much of its words as can be searched."""
    return f"{' '.join(marks)} {' '.join(words)[:MOST_CHARS]}"


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: Any, most: int = _MOST_VALUES) -> Iterator[str]:
    """Give the texts and numbers in a JSON value, and the names of its fields that hold them."""
    waiting = [value]
    while waiting and most:
        item = waiting.pop()
        most -= 1
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield str(item)

"""Goose keeps its settings as YAML: the entry is put in as text, so that comments and order stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail.errors import SettingsFault

_KEY = "extensions"
_NAME = "handrail"
_MOST_CHARS = 300_000
_MOST_DEPTH = 100
_MOST_NODES = 100_000  # with what aliases stand for
_BY_HAND = "add the entry by hand, `--print` shows it"


def shown(entry: dict[str, Any]) -> str:
    """Write the entry as it would stand in an empty file."""
    return f"{_KEY}:\n{_block(entry, '  ')}"


def laid_over(path: Path, before: str | None, entry: dict[str, Any]) -> str:
    """Give the text with the entry in it; everything else is as it was, which is checked."""
    eol = "\r\n" if "\r\n" in (before or "") else "\n"
    if before is None or not before.strip():
        return shown(entry).replace("\n", eol)
    known = _read(path, before)
    there = known.get(_KEY)
    if there is not None and not isinstance(there, dict):
        raise SettingsFault(f"{path}: what stands under {_KEY} is no table; {_BY_HAND}")
    if there is not None and _NAME in there:
        if there[_NAME] == entry:
            return before
        raise SettingsFault(f"{path}: has an entry {_NAME} already; change it by hand, `--print` shows the new one")
    after = _with(before, entry, eol, has=_KEY in known)
    expected = {**known, _KEY: {**(there or {}), _NAME: entry}}
    if _read(path, after) != expected:
        raise SettingsFault(
            f"{path}: the entry cannot be put in safely; write `{_KEY}:` on a line of its own with the entries "
            f"indented below it, or {_BY_HAND}"
        )
    return after


def turned_off(path: Path, before: str, name: str) -> str:
    """Give the text in which an extension is not enabled; everything else is as it was, which is checked."""
    eol = "\r\n" if "\r\n" in before else "\n"
    known = _read(path, before)
    there = known.get(_KEY) or {}
    entry = there.get(name) or {"type": "builtin", "name": name}
    wanted = {**known, _KEY: {**there, name: {**entry, "enabled": False}}}
    if name in there:
        switch = rf"^([ ]+){re.escape(name)}:[ \t]*\r?\n(?:\1[ ]+[^\n]*\n)*?\1[ ]+enabled:[ ]*(true)\b"
        found = re.search(switch, before, re.MULTILINE)
        after = before if found is None else f"{before[: found.start(2)]}false{before[found.end(2) :]}"
    else:
        after = _with(before, {**entry, "enabled": False}, eol, has=True, name=name)
    if _read(path, after) != wanted:
        raise SettingsFault(f"{path}: {name} cannot be turned off safely; do it with `goose configure`")
    return after


def _with(before: str, entry: dict[str, Any], eol: str, *, has: bool, name: str = _NAME) -> str:
    text = before if before.endswith("\n") else f"{before}{eol}"
    head = re.search(rf"^{_KEY}:[ \t]*(?:#[^\n]*\n|\r?\n)", text, re.MULTILINE)
    if head is None:
        # Written in another way (`extensions: {}`): what comes out does not fit what is expected, and is refused.
        return text if has else text + shown(entry).replace("\n", eol)
    below = re.match(r"(?:[ \t]*(?:#[^\n]*\n|\r?\n))*([ ]+)\S", text[head.end() :])
    block = _block(entry, below[1] if below else "  ", name).replace("\n", eol)
    return text[: head.end()] + block + text[head.end() :]


def _block(entry: dict[str, Any], indent: str, name: str = _NAME) -> str:
    import yaml

    text: str = yaml.safe_dump({name: entry}, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return "".join(f"{indent}{line}\n" for line in text.splitlines())


def _read(path: Path, text: str) -> dict[str, Any]:
    """The settings; SettingsFault for what YAML would guess at, and for what grows without end when it is read."""
    import yaml

    if len(text) > _MOST_CHARS:
        raise SettingsFault(f"{path}: has more than {_MOST_CHARS:,} characters; {_BY_HAND}")
    try:
        why = _too_much(yaml.parse(text, _loader()))
        found = None if why else _loaded(text)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        # Most of these are what the reader of YAML says of a date or a number that is none.
        why = f"is not YAML ({error}); mend it first"
    if why:
        raise SettingsFault(f"{path}: {why}; nothing is written: {_BY_HAND}")
    if found is None:  # nothing but comments
        return {}
    if not isinstance(found, dict):
        raise SettingsFault(f"{path}: is not a table of settings; {_BY_HAND}")
    return found


def _too_much(events: Iterator[Any]) -> str:
    """Why a file is not read: it holds itself, is too deep, or is too large once its aliases are written out."""
    import yaml

    sizes, anchors, counts = dict[str | None, int](), list[str | None](), [0]
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, None)
            anchors.append(event.anchor)
            counts.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            sizes[anchors.pop()] = size = counts.pop()
            counts[-1] += size
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
            counts[-1] += 1
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                return f"*{event.anchor} stands for nothing, or for what it is a part of"
            counts[-1] += sizes[event.anchor]
        if len(counts) > _MOST_DEPTH + 1 or counts[-1] > _MOST_NODES:
            return f"is more than {_MOST_DEPTH} levels deep or has more than {_MOST_NODES:,} values"
    return ""


def _loaded(text: str) -> Any:
    """What the text says; ValueError for a key that stands twice in one table, of which YAML takes the last."""
    import yaml

    loader = _loader()(text)
    try:
        top = loader.get_single_node()
        for node in _nodes(top):
            if isinstance(node, yaml.MappingNode):
                keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
                twice = Counter(keys).most_common(1)
                if twice and twice[0][1] > 1:
                    raise ValueError(f"the key {twice[0][0][1]!r} stands twice in one table")
        return None if top is None else loader.construct_document(top)
    finally:
        loader.dispose()


def _loader() -> Any:
    """The quick one where it is built in."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _nodes(top: Any) -> Iterator[Any]:
    """All nodes, each once."""
    import yaml

    waiting, seen = [top], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value

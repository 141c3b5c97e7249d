"""Runs as people look at them: tables and trees that stay readable at 80 columns."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from handrail import dialects
from handrail.approvals.show import visible

NOT_SEEN = "not seen"  # the end of a call that an agent carried out itself, and told nothing of
STATUS = {"ok": "green", "failed": "red", "denied": "red", "pending": "yellow", "unknown": "magenta", NOT_SEEN: "dim"}
DECISION = {"allow": "green", "ask": "yellow", "deny": "red"}
LEVEL = {"success": "green", "warning": "yellow", "error": "red", "progress": "cyan"}
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_LEFT = {"running": "no end on record yet", "cut off": "by the end of its process; what it did is not known"}
_LEAST = 8  # columns that a cut one keeps
_SHORT = 13  # of a run's own name: its millisecond
WARNING = "warning: "  # how a note begins that tells of something to look at
WIDE = 110  # columns from which on a list of runs also names the workspaces


def plain(value: Any) -> str:
    """Text that can do nothing to a terminal or to our markup."""
    return escape(visible(str(value)))


def print_rows(
    out: Console, head: Sequence[str], rows: Iterable[Sequence[str]], give_way: Sequence[str], *, fair: bool = False
) -> None:
    """Print rows of markup in columns, each row on one line; where room is short, named columns are cut in turn.

    `fair` ones are cut together, so that none is short while another is long.
    """
    cells = [[Text(name, "bold") for name in head], *([Text.from_markup(cell) for cell in row] for row in rows)]
    widths = [max(row[column].cell_len for row in cells) for column in range(len(head))]
    missing = sum(widths) + 2 * (len(head) - 1) - out.width
    columns = [head.index(name) for name in give_way]
    while fair and missing > 0 and max(widths[column] for column in columns) > _LEAST:
        widths[max(columns, key=widths.__getitem__)] -= 1
        missing -= 1
    for column in columns:
        cut = min(max(missing, 0), max(widths[column] - _LEAST, 0))
        widths[column] -= cut
        missing -= cut
    for row in cells:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            cell.truncate(width, overflow="ellipsis", pad=True)
            line.append_text(cell).append("  ")
        line.rstrip()
        out.print(line, soft_wrap=True)


def wrapped(*columns: str, wrap: Sequence[str]) -> Table:
    """A table without lines in which the named columns wrap beneath themselves."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=name not in wrap, overflow="fold")
    return table


def coloured(word: str, colours: Mapping[str, str], shown: str = "") -> str:
    """A word in the colour it stands for."""
    return f"[{colours.get(word, 'dim')}]{plain(shown or word)}[/]"


def display_panel(fields: Mapping[str, Any], width: int) -> Panel:
    """Draw what a tool shows to the person: the content, then why it is shown and what backs it."""
    from rich.markdown import Markdown

    level = str(fields.get("level", "info"))
    shown: list[RenderableType] = [Markdown(_visible_lines(str(fields.get("content", ""))))]
    if thought := fields.get("thought"):
        shown.append(Text(f"\n{_visible_lines(str(thought))}", style="italic dim"))
    shown += [Text(f"• {visible(str(item))}", style="dim") for item in fields.get("evidence") or ()]
    title = plain(str(fields.get("title") or level))
    return Panel(Group(*shown), title=title, border_style=LEVEL.get(level, "blue"), width=width)


def _visible_lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def arguments_line(args: Any, room: int) -> str:
    """A call's arguments on one line; what is not set is left out."""
    if not isinstance(args, Mapping):
        text = visible(str(args))
    else:
        given = {name: value for name, value in args.items() if value not in (None, False, [], {})}
        text = visible("  ".join(f"{name}={_first_line(value)}" for name, value in given.items()))
    return _cut(_HASH.sub(r"\1…", text), room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 1)]}…"


def took(duration_ms: float) -> str:
    """How long something took, in the unit that people would say."""
    if duration_ms < 10_000:
        return f"{duration_ms:.1f} ms"
    seconds = round(duration_ms / 1000)
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60} min"


def _first_line(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "path" in item for item in value):
        return ", ".join(f"{item.get('op', '')} {item['path']}".strip() for item in value)
    if isinstance(value, (list, dict)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    first, newline, rest = str(value).partition("\n")
    return f"{first} …" if newline and rest else first


# ── runs ─────────────────────────────────────────────────────────────────────────────────────


def runs_table(out: Console, found: Sequence[tuple[Any, Any]]) -> None:
    """The runs and what each did, newest first; at a terminal by as much of their names as tells them apart."""
    names = short_names([item.run_id for item, _ in found]) if out.is_terminal else {}
    rows = [
        (
            plain(names.get(item.run_id, item.run_id)),
            _local(item.started),
            plain(item.description.get("caller", "")),
            f"{did.calls}{'' if did.whole else '+'}",
            _asked(did),
            _state(item),
            plain(", ".join(name if count == 1 else f"{name} ×{count}" for name, count in did.tools.most_common())),
            plain(_several([_last(path) if out.width < WIDE else path for path in reversed(did.changed)])),
            plain(from_home(item.description.get("workspace", ""))),
        )
        for item, did in found
    ]
    # At 80 columns there is no room for the workspace; `--here` and the note below tell those of others.
    head = ("run", "started", "front", "calls", "ask/deny", "state", "tools", "changed", "workspace")
    shown = len(head) if out.width >= WIDE else len(head) - 1
    give_way = [name for name in ("workspace", "tools", "changed", "run") if name in head[:shown]]
    print_rows(out, head[:shown], [row[:shown] for row in rows], give_way)


def _state(item: Any) -> str:
    """Whether a run was closed, is open, or was cut off in the middle of a call."""
    if item.last_kind == "run.finished":
        return "closed"
    cut_off = left_open(item.path) == "cut off" and _has_open_calls(item.path)
    return "[magenta]cut off[/]" if cut_off else "[yellow]open[/]"


def _has_open_calls(folder: Path) -> bool:
    from handrail.errors import RunFault
    from handrail.store.reader import events

    calls: dict[str | None, set[Any]] = {"tool.started": set(), "tool.completed": set(), "tool.failed": set()}
    try:
        for event in events(folder):
            if not event.get("handed_over"):  # a call that an agent carries out itself was not cut off by us
                calls.get(event.get("kind"), set()).add(event.get("call_id"))
    except RunFault:
        return False
    return bool(calls["tool.started"] - calls["tool.completed"] - calls["tool.failed"])


def _asked(did: Any) -> str:
    if not did.asked and not did.denied:
        return ""
    return f"[yellow]{did.asked}[/]/[red]{did.denied}[/]"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _several(names: Sequence[str]) -> str:
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The shortest starts by which runs can be told apart; names that people gave stay whole."""
    short = {}
    for name in names:
        length = _SHORT if len(name) == 36 and name.count("-") == 4 else len(name)
        while length < len(name) and sum(other.startswith(name[:length]) for other in names) > 1:
            length += 1
        short[name] = name[:length].rstrip("-")
    return short


def from_home(path: str) -> str:
    """A path as people write it: `~` for their own folder."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def _local(ts: str) -> str:
    """A moment in as few characters as tell it: the year only where it is another one."""
    try:
        moment = datetime.fromisoformat(ts).astimezone()
    except ValueError:
        return "unknown"
    return moment.strftime("%m-%d %H:%M" if moment.year == datetime.now().astimezone().year else "%Y-%m-%d")


_REFUSED = "connection refused: "


def calls_of(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry a call: how it was judged, how it ended, what it changed."""
    calls: dict[str, dict[str, Any]] = {}
    for event in events:
        call_id = event.get("call_id")
        if call_id is None:
            continue
        call = calls.setdefault(
            call_id, {"call_id": call_id, "seq": event.get("seq", 0), "status": "unknown", "notes": []}
        )
        kind = event["kind"]
        if kind == "tool.started" or event.get("started") is False:
            verdict = event.get("verdict") or {}
            call |= {"ts": event["ts"], "tool": event.get("tool"), "args": event.get("args")}
            call |= {"decision": verdict.get("decision"), "parent": event.get("parent")}
            call["rules"] = [finding["rule"] for finding in verdict.get("findings", ())]
            if event.get("handed_over"):
                call |= {"status": NOT_SEEN, "handed_over": event["handed_over"].get("to")}
            if event.get("dialect") in dialects.agents():
                call["asked"] = (event.get("asked") or {}).get("tool")
        if kind in ("tool.completed", "tool.failed", "tool.observed"):
            call |= {"status": event["status"], "code": event.get("code"), "duration_ms": event["duration_ms"]}
            call |= {"changed": event.get("files_changed", []), "redacted": event.get("redacted", False)}
            call |= {"effect": event.get("effect"), "message": event.get("message")}
        elif not kind.startswith("tool."):
            call["notes"].append(_note(event))
    return [call for call in calls.values() if "tool" in call]


def _note(event: Mapping[str, Any]) -> str:
    kind = event["kind"]
    if kind == "approval.required":
        return f"asked: {event['request'].get('reason', '')}"
    if kind == "approval.granted":
        return f"granted by {event.get('by') or 'somebody'} ({event.get('scope')})"
    if kind == "approval.denied":
        return f"refused by {event.get('by') or 'somebody'}: {event.get('advice') or event.get('state')}"
    if kind == "program.warned":
        return f"{WARNING}{'; '.join(event.get('warnings', ()))}"
    if kind == "changes.judged":
        judged = event.get("judged", ())
        return f"not kept at once: {_cut(', '.join(str(item.get('path')) for item in judged), 100)}"
    if kind == "display":
        return f"shown: {_cut(str(event.get('content', '')), 100)}"
    if kind == "net.refused":
        return f"{_REFUSED}{event.get('host') or 'unknown host'} ({_cut(str(event.get('problem', '')), 100)})"
    if kind == "net.connected":
        return f"connected to {event.get('host') or 'unknown host'}"
    if kind == "undo.applied":
        return f"took back {', '.join(call[-12:] for call in event.get('calls', ()))}"
    return str(kind)


def left_open(folder: Path) -> str:
    """What became of a call without an end: it runs where the run is in use, else its process ended first."""
    import fcntl

    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "running"
    except OSError:  # nobody ever held it
        pass
    return "cut off"


def _ending(call: Mapping[str, Any], left: str) -> str:
    known = "duration_ms" in call or call["status"] == NOT_SEEN
    return str(call.get("code") or call["status"]) if known else left


def run_table(out: Console, folder: Path, calls: Sequence[Mapping[str, Any]]) -> None:
    """The calls of one run."""
    left = left_open(folder)
    out.print(f"[bold]run[/] {plain(folder.name)}   {len(calls)} call{'' if len(calls) == 1 else 's'}")
    if not calls:
        return
    rows = [
        (
            plain(call["call_id"][-12:] if out.is_terminal else call["call_id"]),
            plain(call.get("asked") or call["tool"]),
            coloured(call.get("decision") or "-", DECISION),
            coloured(call["status"], STATUS, _ending(call, left)),
            f"{call['duration_ms']:.1f}" if "duration_ms" in call else "",
            str(len(call["changed"])) if call.get("changed") else "",
            plain(arguments_line(call.get("args"), 200)),
        )
        for call in calls
    ]
    head = ("call", "tool", "decision", "status", "ms", "changed", "arguments")
    print_rows(out, head, rows, ("arguments", "tool"))
    for call in calls:
        for note in call["notes"]:
            if note.startswith(_REFUSED):
                out.print(f"{plain(call['tool'])}: {plain(note)}")
            elif note.startswith(WARNING):
                out.print(f"[yellow]{plain(note)}[/] [dim]({plain(call['call_id'])})[/]", soft_wrap=True)


def run_tree(name: str, events: Iterable[Mapping[str, Any]], width: int, left: str = "running") -> Tree:
    """A run drawn as a tree: calls, below them what was asked, decided, changed; `left` is what has no end."""
    from handrail.front.cli._agent_tree import TurnBranches

    tree = Tree(f"[bold]run[/] {plain(name)}")
    known = list(events)
    nodes: dict[str, Tree] = {}
    turns = TurnBranches(tree, nodes, known, width)
    for call in calls_of(known):
        turns.add_before(call["seq"])
        colour, tool = STATUS.get(call["status"], "white"), visible(str(call.get("asked") or call["tool"]))
        shown = arguments_line(call.get("args"), max(width - len(tool) - 9, 10))
        node = nodes.get(call.get("parent") or "", tree).add(f"[{colour}]●[/] [bold]{escape(tool)}[/] {escape(shown)}")
        nodes[call["call_id"]] = node
        _branches(node, call, width, left)
    turns.add_before(None)
    return tree


def _branches(node: Tree, call: Mapping[str, Any], width: int, left: str) -> None:
    status = call["status"]
    decision = call.get("decision") or "not judged"
    node.add(f"{coloured(decision, DECISION)} [dim]{plain(', '.join(dict.fromkeys(call.get('rules', ()))))}[/]")
    for note in call["notes"]:
        node.add(f"[yellow]{plain(_cut(note, max(width - 10, 20)))}[/]")
    for change in call.get("changed", ()):
        node.add(f"[cyan]{plain(change['op'])}[/] {plain(change['path'])}")
    hidden = " [magenta]secrets hidden[/]" if call.get("redacted") else ""
    lasted = _LEFT[left] if call["status"] != NOT_SEEN else f"{call['handed_over']} told nothing of its end"
    if "duration_ms" in call:
        lasted = took(call["duration_ms"])
    node.add(f"{coloured(status, STATUS, _ending(call, left))} [dim]{lasted}[/]{hidden}")

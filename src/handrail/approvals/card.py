"""A request as a card: what will change or run, why a person is asked, what each answer covers, in that order. Pure.

Left out is what is as always, and what the diff shows: defaults, the unchanged lines around a change, ids. Everything
else that an approval is bound to is on the card; `show.lines` shows the rest.

Text from the call stands behind the gutter, or is quoted where it is not plain, so that none of it can pass for ours.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from handrail.approvals.show import (
    GUTTER,
    RISK_STYLE,
    Line,
    Setting,
    ShownText,
    count_cells,
    fold_text,
    list_diff,
    list_values,
    mark_change,
    put_behind_gutter,
    visible,
)
from handrail.output.diffs import FileDiff, file_diffs
from handrail.policy.grants import ANY_TARGET, BY_PATTERN, EXACT
from handrail.ports import Request

_PLAIN = re.compile(r"~?[\w./*@+:=,-]+(?: [\w./*@+:=,-]+)*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_@+~./-]+")  # names that nothing can be hidden between
_FEW = 4  # targets that are listed one a line
_ENDED_WELL = "exit code 0"
_BETWEEN = " · "
_MOST_SHORT = 60  # characters of what an answer covers, where it stands beside the answer's key
_EXACT_LINE = "exactly this line, while the files that it runs stay as they are"
_LINE = "command"  # the argument that is a command line
_FOLDER = "cwd"
_GONE = "the program that asked has ended; a yes counts once its call is made again"
_HERE = "."  # what every command line sees


def card(request: Request, width: int | None = None, setting: Setting | None = None) -> list[Line]:
    """Show what a person needs to decide, and the request's place among those that wait."""
    around = setting or Setting()
    target = _only_target(request)
    shown = [Line(" ", around.queue, "bold")] if around.queue else []
    shown += _head(request, target, width, around.home)
    if around.gone:
        shown += fold_text(" gone  ", "     ┊ ", ShownText(_GONE), width)
    params = {name: value for name, value in request.params.items() if name not in request.aside}
    told = [value for value in params.values() if isinstance(value, str)]
    told += [_HERE] if _LINE in request.params else []
    line = params.pop(_LINE, None)
    if isinstance(line, str):
        shown += put_behind_gutter([ShownText(visible(part), "bold") for part in line.split("\n")], width)
    elif line is not None:
        params[_LINE] = line
    params = {name: value for name, value in params.items() if not (target and value == target)}
    if isinstance(params.get(_FOLDER), str):
        shown += fold_text(" in    ", "     ┊ ", ShownText(_plainly(params.pop(_FOLDER))), width)
    if params or not request.params:
        shown += put_behind_gutter(list_values(params, 0), width)
    files = file_diffs(request.diff)
    shown += _list_targets(request, [*told, target], files, width)
    if request.diff:
        shown += put_behind_gutter(list_diff(request.diff) if files is None else _list_changes(request, files), width)
    rule = f"  ({request.rule})" if request.rule else ""
    return [*shown, *_fold_words(" why   ", "     ┊ ", visible(f"{request.reason}{rule}"), width)]


def _fold_words(first: str, further: str, text: str, width: int | None) -> Iterator[Line]:
    """Break a sentence between words; where its characters differ in width, wherever it must."""
    if width is None or not text.isascii():
        yield from fold_text(first, further, ShownText(text), width)
        return
    rows = textwrap.wrap(text, max(1, width - len(first)), drop_whitespace=False, break_on_hyphens=False)
    for number, row in enumerate(rows):
        yield Line(first if number == 0 else further, row)


def _list_targets(
    request: Request, told: Sequence[str], files: Sequence[FileDiff] | None, width: int | None
) -> Iterator[Line]:
    """Show what a call touches that neither its arguments nor the diff name, and how a program ended that failed."""
    named = {file.path or file.lines[0].partition(" folder ")[2] for file in files or ()}
    for kind, targets in request.impact.items():
        further = [item for item in targets if item not in told]
        if kind in ("reads", "writes") and files is not None and len(files) > 1:
            further = [item for item in further if item not in named]
        elif kind == "ended":
            further = [how for how in further if how != _ENDED_WELL]
        if further:
            yield Line("", f"  {visible(kind)}", "bold")
            yield from _list_names(further, width)


def _list_changes(request: Request, files: Sequence[FileDiff]) -> Iterator[ShownText]:
    """Show the lines that change; of several files each with its name, and of those that are deleted the name alone."""
    deleted = request.impact.get("deletes", ())
    for file in files:
        if file.kind == "noted":
            if not _is_listed(file, deleted):
                yield from (ShownText(visible(line)) for line in file.lines)
        elif file.kind == "removed" and len(files) > 1 and file.path in deleted:
            continue  # the list of what is deleted names it
        else:
            if len(files) > 1:
                yield ShownText(visible(f"{file.kind} {file.path}"), "bold")
            yield from map(mark_change, file.lines)


def _is_listed(file: FileDiff, deleted: Sequence[str]) -> bool:
    return file.lines[0].startswith("removed folder ") and file.lines[0].partition(" folder ")[2] in deleted


def _list_names(targets: Sequence[str], width: int | None) -> Iterator[Line]:
    """List targets, one a line; many with plain names side by side."""
    room = 0 if width is None else width - len(GUTTER)
    side_by_side = len(targets) > _FEW and all(_NAME.fullmatch(name) and len(name) <= room for name in targets)
    if not side_by_side:
        yield from put_behind_gutter([ShownText(visible(target)) for target in targets], width)
        return
    for row in textwrap.wrap("  ".join(targets), room, break_on_hyphens=False):
        yield Line(GUTTER, row)


def list_answers(request: Request, answers: Iterable[tuple[str, str, bool]], width: int | None = None) -> list[Line]:
    """Show the key and the meaning of each answer; one that is wider than the call with exactly what it covers."""
    given = list(answers)
    covered = cover_shortly(request)
    beside = len(covered) == 1 and len(covered[0]) <= _MOST_SHORT
    shown = []
    wider = [meaning for _, meaning, is_wider in given if is_wider]
    if wider and not beside:
        verb = "covers" if len(wider) == 1 else "cover"
        shown.append(Line("", f"  {' and '.join(wider)} {verb}", "bold"))
        shown += put_behind_gutter([ShownText(text) for text in covered], width)
    keys = [f"{key} {meaning}{f': {covered[0]}' if is_wider and beside else ''}" for key, meaning, is_wider in given]
    for row in _put_in_rows(keys, width):
        shown += fold_text(" ", " ┊ ", ShownText(row, "bold"), width)
    return shown


def cover_shortly(request: Request) -> list[str]:
    """Say what an answer wider than the call covers, one text for each target."""
    kinds: dict[str, list[str]] = {}
    for kind, target in request.touches:
        kinds.setdefault(target, []).append(kind)
    hosts = any(kind.startswith("net.connect") for kind, _ in request.touches)
    found = [_cover(request, of_target, target) for target, of_target in kinds.items()]
    return list(dict.fromkeys(text for text in found if not (hosts and text == _EXACT_LINE)))


def _cover(request: Request, kinds: Sequence[str], target: str) -> str:
    if EXACT in kinds:
        return _EXACT_LINE
    if target == ANY_TARGET:
        return f"{_plainly(request.tool)} of any target, with any arguments"
    if any(kind.startswith("proc.exec") for kind in kinds):
        return _plainly(target)
    if " by " in target and any(kind.startswith("net.connect") for kind in kinds):
        host, _, commands = target.partition(" by ")
        sends = "send to" if any(".unsafe" in kind for kind in kinds) else "reach"
        exactly = "" if any(kind.endswith(BY_PATTERN) for kind in kinds) else "exactly "
        return f"{sends} {_plainly(host)} by {exactly}{_plainly(commands)}"
    return f"{_plainly(request.tool)} {_plainly(target)}"


def _head(request: Request, target: str, width: int | None, home: str) -> Iterator[Line]:
    """Say the tool, its target and what it does to that; at the right, who asks in which workspace."""
    does = "reaches" if "reaches" in request.impact and target else ""
    shown = (_plainly(request.tool), does, _plainly(target) if target else "", request.does)
    what = "  ".join(filter(None, shown))
    place = request.workspace
    if home and (place == home or place.startswith(f"{home}/")):
        place = f"~{place[len(home) :]}"
    who = f"{_plainly(request.caller)} in {_plainly(place)}"
    style = RISK_STYLE[request.risk]
    room = 0 if width is None else width - count_cells(what) - count_cells(who) - 2
    if width is None or room >= 2:
        yield Line(" ", f"{what}{' ' * max(room, 2)}{who}", style)
        return
    yield from fold_text(" ", " ┊ ", ShownText(what, style), width)
    yield from fold_text(" ", " ┊ ", ShownText(who), width)


def _only_target(request: Request) -> str:
    """Give the one thing that a call changes or reads; empty where there are several, or commands."""
    if "reaches" in request.impact and len(request.impact["reaches"]) == 1 and _LINE in request.params:
        return str(request.impact["reaches"][0])
    if "runs" in request.impact:
        return ""
    targets = {target for targets in request.impact.values() for target in targets}
    return str(next(iter(targets))) if len(targets) == 1 else ""


def _plainly(value: Any) -> str:
    """Write a text of the call as it is where it is plain, and else quoted."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else visible(json.dumps(text, ensure_ascii=False))


def _put_in_rows(keys: Iterable[str], width: int | None) -> Iterator[str]:
    """Put answers beside each other as far as they fit; a longer one is a row of its own."""
    row = ""
    for key in keys:
        longer = f"{row}{_BETWEEN}{key}" if row else key
        if row and width is not None and count_cells(longer) + 1 > width:
            yield row
            row = key
        else:
            row = longer
    yield row

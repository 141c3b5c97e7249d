"""Rendering Mustache: the whole specification with inheritance, dynamic names and lambdas. Bounded; no I/O.

Data is JSON and can never be called. Lambdas are Python functions that the operator registered; they are looked up
where no data has the name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from handrail.tools.util._mustache_parse import (
    DEFAULT,
    Argument,
    Block,
    Delimiters,
    Node,
    Partial,
    Section,
    TemplateError,
    Text,
    Variable,
    indented,
    parse,
)

MAX_OUTPUT_BYTES = 5 * 1024 * 1024
MAX_DEPTH = 100
MAX_STEPS = 500_000

Lambda = Callable[[str], str]
LAMBDAS: dict[str, Lambda] = {}

_MISSING = object()


def register_lambda(name: str, function: Lambda) -> None:
    """Offer a function to every template under a name without dots.

    A section hands it the text it wraps, a variable the empty text; what it gives is rendered as a template.
    """
    if not name or "." in name:
        raise ValueError(f"{name!r} cannot name a lambda: it is empty or holds a dot")
    LAMBDAS[name] = function


def render(
    template: str,
    data: Any,
    partials: Mapping[str, str] | None = None,
    *,
    escape_html: bool = False,
    max_steps: int = MAX_STEPS,
) -> str:
    """Render a template; TemplateError with the place, or with the bound that was passed."""
    return Rendering(partials or {}, escape_html, max_steps).whole(template, data)


class StepsError(TemplateError):
    """The template does more than was allowed."""


class Rendering:
    """One rendering: its bounds and what it has written."""

    def __init__(self, partials: Mapping[str, str], escape_html: bool, max_steps: int) -> None:
        self._partials = partials
        self._escape = escape_html
        self._steps = self._max_steps = max_steps
        self._room = MAX_OUTPUT_BYTES
        self._out: list[str] = []

    def whole(self, template: str, data: Any) -> str:
        """Render the main template."""
        self._nodes(self._parsed(template, DEFAULT, ""), (LAMBDAS, data), {}, 0)
        return "".join(self._out)

    # ── bounds ───────────────────────────────────────────────────────────────────────────────

    def _write(self, text: str) -> None:
        self._room -= len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._room < 0:
            raise TemplateError(f"the result is over {MAX_OUTPUT_BYTES} bytes")
        self._out.append(text)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise StepsError(f"rendering takes more than {self._max_steps} steps: partials or lists call for too many")

    def _indented(self, source: str, indent: str, *, skip_first: bool = False) -> str:
        """Indent, unless that alone would make too much of it: blanks before every line multiply."""
        if indent:
            size = len(source) + (source.count("\n") + 1) * len(indent)
            if size // 100 > self._steps:
                self._spend(size // 100)
            if size > MAX_OUTPUT_BYTES:
                raise TemplateError(f"a partial or block with its indentation is over {MAX_OUTPUT_BYTES} bytes")
        return indented(source, indent, skip_first=skip_first)

    def _parsed(self, source: str, delimiters: Delimiters, name: str) -> tuple[Node, ...]:
        self._spend(1 + len(source) // 100)
        try:
            return parse(source, delimiters)
        except TemplateError as error:
            error.template = error.template or name
            raise

    # ── nodes ────────────────────────────────────────────────────────────────────────────────

    def _nodes(self, nodes: Sequence[Node], stack: tuple[Any, ...], blocks: Mapping[str, Argument], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise TemplateError(f"templates are nested more than {MAX_DEPTH} levels deep: one of them includes itself")
        self._spend(1 + len(nodes))  # an empty section costs as well: a list may repeat it
        for node in nodes:
            if isinstance(node, Text):
                self._write(node.text)
            elif isinstance(node, Variable):
                self._write(self._value(node, stack, depth))
            elif isinstance(node, Section):
                self._section(node, stack, blocks, depth)
            elif isinstance(node, Partial):
                self._partial(node, stack, blocks, depth)
            else:
                self._block(node, stack, blocks, depth)

    def _value(self, node: Variable, stack: tuple[Any, ...], depth: int) -> str:
        value = _lookup(node.name, stack)
        if not (node.escaped and self._escape):
            return self._expanded(value(""), DEFAULT, stack, depth) if callable(value) else _as_text(value)
        if not callable(value):
            return _escaped(_as_text(value))
        self._escape = False  # what a lambda gives is escaped once, as a whole
        try:
            return _escaped(self._expanded(value(""), DEFAULT, stack, depth))
        finally:
            self._escape = True

    def _expanded(self, result: Any, delimiters: Delimiters, stack: tuple[Any, ...], depth: int) -> str:
        """Render what a lambda gave."""
        outer, self._out = self._out, []
        try:
            self._nodes(self._parsed(_as_text(result), delimiters, ""), stack, {}, depth + 1)
            return "".join(self._out)
        finally:
            self._out = outer

    def _section(self, node: Section, stack: tuple[Any, ...], blocks: Mapping[str, Argument], depth: int) -> None:
        value = _lookup(node.name, stack)
        if node.inverted:
            if _is_false(value):
                self._nodes(node.nodes, stack, blocks, depth + 1)
        elif callable(value):
            self._write(self._expanded(value(node.raw), node.delimiters, stack, depth))
        elif not _is_false(value):
            for item in value if isinstance(value, list) else (value,):
                self._nodes(node.nodes, (*stack, item), blocks, depth + 1)

    def _partial(self, node: Partial, stack: tuple[Any, ...], blocks: Mapping[str, Argument], depth: int) -> None:
        name = node.name
        if name.startswith("*"):
            named = _lookup(name[1:], stack)
            name = named if isinstance(named, str) else ""
        source = self._partials.get(name)
        if source is not None:
            nodes = self._parsed(self._indented(source, node.indent), DEFAULT, name)
            # The outermost template's arguments win.
            self._spend(len(node.arguments) and (len(node.arguments) + len(blocks)) // 10)
            self._nodes(nodes, stack, {**node.arguments, **blocks} if node.arguments else blocks, depth + 1)

    def _block(self, node: Block, stack: tuple[Any, ...], blocks: Mapping[str, Argument], depth: int) -> None:
        argument = blocks.get(node.name)
        if argument is None:
            self._nodes(node.nodes, stack, blocks, depth + 1)
            return
        source = self._indented(argument.raw, node.indent, skip_first=node.inline)
        # In its own text the block's name means the default again.
        self._spend(len(blocks) // 10)
        rest = {name: other for name, other in blocks.items() if name != node.name}
        self._nodes(self._parsed(source, argument.delimiters, ""), stack, rest, depth + 1)
        if node.tail and source and not source.endswith("\n"):
            self._write(node.tail)


# ── values ───────────────────────────────────────────────────────────────────────────────────


def _lookup(name: str, stack: tuple[Any, ...]) -> Any:
    """Find the first part of a name in the nearest frame that has it, and the rest in what was found."""
    if name == ".":
        return stack[-1]
    first, *rest = name.split(".")
    found: Any = _MISSING
    for frame in reversed(stack):
        if isinstance(frame, dict) and first in frame:
            found = frame[first]
            break
    for part in rest:
        found = found[part] if isinstance(found, dict) and part in found else _MISSING
    return None if found is _MISSING else found


def _is_false(value: Any) -> bool:
    return value is None or value is False or value == "" or value == [] or (value == 0 and value is not False)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")

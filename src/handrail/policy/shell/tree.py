"""Read a line by the grammar of tree-sitter: every command in it, also where the line is not read exactly."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from handrail.policy.shell.model import Redirect, Simple, Sure, Word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_ASSIGNMENTS = frozenset({"variable_assignment", "variable_assignments"})
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_CODED = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_SIGNS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
# The grammar's scanner looks signs up in a table of 256: others would end the process. Places stay as they are.
_ASCII = bytes(at if at in b"\t\n" or 32 <= at < 127 else (32 if at < 128 else ord("x")) for at in range(256))
_COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class Tree:
    """What the grammar sees in a line."""

    __slots__ = ("_word", "broken", "commands", "functions", "redirects", "source")

    def __init__(self, source: bytes, *, starts_alone: bool = False) -> None:
        self.source = source
        self._word = _start if starts_alone else self._read  # two readings are compared by where words start
        self.commands: list[Simple] = []
        self.functions: list[str] = []
        self.redirects: list[Redirect] = []
        root = _parser().parse(source.translate(_ASCII)).root_node
        self.broken = root.has_error
        self._walk(root)

    def spans(self) -> list[tuple[int, ...]]:
        """Where each command and each of its words starts, in the order of the line."""
        found = [(item.start, *[word.start for word in item.words]) for item in self.commands]
        found.sort()
        return found

    def _walk(self, root: Node) -> None:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            children = node.children
            if node.type in _COMMANDS:
                self.commands.append(self._command(node, children))
            elif node.type == "function_definition":
                self.functions.append(self._text(children[1] if children[0].type == "function" else children[0]))
            elif node.type == "file_redirect":
                self._redirect(children)
            waiting += [child for child in children if child.child_count]

    def _command(self, node: Node, children: list[Node]) -> Simple:
        simple = Simple(node.start_byte, "", (), node.type)
        simple.end = node.end_byte
        if node.type == "test_command":
            simple.words = [Word(self._text(children[0]), Sure.LITERAL, node.start_byte, children[0].end_byte)]
            return simple
        for child in children:
            if child.type in _ASSIGNMENTS and not simple.words:
                name, _, _ = self._text(child).partition("=")
                simple.assigned.append((name, self._word(child)))
            elif child.type not in _REDIRECTS:
                simple.words.append(self._word(child))
        return simple

    def _redirect(self, children: list[Node]) -> None:
        signs = [self._text(child) for child in children if not child.is_named]
        named = [child for child in children if child.is_named and child.type != "file_descriptor"]
        if signs and named:
            self.redirects.append(Redirect(signs[0], self._word(named[0])))

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _read(self, node: Node) -> Word:
        raw = self._text(node)
        text = unquoted(raw)
        return Word(raw if text is None else text, Sure.LITERAL, node.start_byte, node.end_byte)


def _start(node: Node) -> Word:
    return Word("", Sure.LITERAL, node.start_byte, 0)


def unquoted(raw: str) -> str | None:
    """The value of a word without expansions; None where it has any."""
    if raw.isalnum():
        return raw
    texts = []
    at = 0
    while at < len(raw):
        sign = raw[at]
        if sign == "'" or raw.startswith("$'", at):
            end, text = _until_quote(raw, at)
        elif sign == '"':
            end, text = _until_double(raw, at + 1)
        elif sign == "\\":
            end, text = at + 2, raw[at + 1 : at + 2].replace("\n", "")
        elif sign in "$`":
            return None
        else:
            end, text = at + 1, sign
        if end < 0:
            return None
        texts.append(text)
        at = end
    return "".join(texts)


def _until_quote(raw: str, at: int) -> tuple[int, str]:
    """The end and the value of a string in single quotes, with or without a dollar."""
    if raw[at] == "'":
        end = raw.find("'", at + 1)
        return (end + 1, raw[at + 1 : end]) if end > 0 else (-1, "")
    start = end = at + 2
    while end < len(raw) and raw[end] != "'":
        end += 2 if raw[end] == "\\" else 1
    return end + 1, _CODED.sub(_decoded, raw[start:end])


def _decoded(found: re.Match[str]) -> str:
    """The sign that an escape in a string with a dollar stands for."""
    text = found[0][1:]
    if text[0] in "xuU" and len(text) > 1:
        code = int(text[1:], 16)
        return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
    return chr(int(text, 8)) if text[0].isdigit() else _SIGNS.get(text, text)


def _until_double(raw: str, at: int) -> tuple[int, str]:
    texts = []
    while at < len(raw) and raw[at] != '"':
        if raw[at] in "$`":
            return -1, ""
        if raw[at] == "\\" and at + 1 < len(raw):
            texts.append(raw[at + 1] if raw[at + 1] in '$`"\\' else raw[at : at + 2].replace("\\\n", ""))
            at += 2
        else:
            texts.append(raw[at])
            at += 1
    return at + 1, "".join(texts)

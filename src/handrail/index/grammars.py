"""Definitions by grammar, where the tree-sitter grammar of a language is installed; nothing is ever downloaded."""

from __future__ import annotations

from functools import cache
from typing import Any

from handrail.index.parts import Mark

# Extension to the module of its grammar and the function in it that gives the language.
_MODULES = {
    "sh": ("tree_sitter_bash", "language"),
    "bash": ("tree_sitter_bash", "language"),
    "py": ("tree_sitter_python", "language"),
    "pyi": ("tree_sitter_python", "language"),
    "js": ("tree_sitter_javascript", "language"),
    "jsx": ("tree_sitter_javascript", "language"),
    "mjs": ("tree_sitter_javascript", "language"),
    "ts": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "h": ("tree_sitter_c", "language"),
    "cc": ("tree_sitter_cpp", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "hpp": ("tree_sitter_cpp", "language"),
    "cs": ("tree_sitter_c_sharp", "language"),
    "rb": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
}
_DEFINES = ("_definition", "_declaration", "_item", "_specifier")
_NAMES = ("name", "declarator", "type")
MAX_NODES = 20_000  # looked at in one file
_CONTAINERS = frozenset({"decorated_definition", "export_statement", "declaration_list", "class_body", "block", "body"})


@cache
def parser_for(extension: str) -> Any | None:
    """The parser of a language; None where its grammar is not installed."""
    known = _MODULES.get(extension)
    if known is None:
        return None
    from importlib import import_module

    try:
        import tree_sitter

        return tree_sitter.Parser(tree_sitter.Language(getattr(import_module(known[0]), known[1])()))
    except (ImportError, AttributeError, ValueError, TypeError):
        return None


def marks_by_grammar(text: str, extension: str) -> list[Mark] | None:
    """The definitions of a text; None where no grammar is at hand."""
    parser = parser_for(extension)
    if parser is None:
        return None
    tree = parser.parse(text.encode("utf-8", "replace"))
    marks: list[Mark] = []
    todo = [(child, 0) for child in reversed(tree.root_node.children)]
    seen = 0
    while todo and seen < MAX_NODES:
        node, depth = todo.pop()
        seen += 1
        name = _name(node) if node.is_named and node.type.endswith(_DEFINES) else ""
        if name:
            marks.append(Mark(node.start_point[0], depth, name))
        if depth < 2 and (name or node.type in _CONTAINERS or node.type.endswith(("_body", "_list", "_block"))):
            todo += [(child, depth + bool(name)) for child in reversed(node.children)]
    return marks


def _name(node: Any) -> str:
    """What a definition defines, by the fields that grammars use for it."""
    for field in _NAMES:
        found = node.child_by_field_name(field)
        while found is not None and found.child_count:
            inner = found.child_by_field_name("declarator") or found.child_by_field_name("name")
            if inner is None:
                break
            found = inner
        if found is not None and found.text is not None:
            text = found.text.decode("utf-8", "replace")
            return text if len(text) <= 120 and "\n" not in text else ""
    return ""

"""Definitions by grammar, where the tree-sitter grammar of a language is installed; nothing is ever downloaded."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from handrail.index.parts import MAX_DEPTH, Mark

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
_MARKED = "marked"  # found as a mark of its own, and looked into: a class
_WHOLE = "whole"  # found and not looked into: a function
_ROOM = "room"  # looked into, its name goes before what is in it: a namespace
_WRAP = "wrap"  # looked into, and what is in it begins where it begins: a decorator, an export
_OPEN = "open"  # looked into: a body, a block

# What a node of each grammar is to us. Nodes that are not named here are passed over with all that is in them.
_SCRIPT = {
    "program": _OPEN, "export_statement": _WRAP, "lexical_declaration": _WRAP, "variable_declaration": _WRAP,
    "expression_statement": _WRAP, "class_declaration": _MARKED, "class": _MARKED, "class_body": _OPEN,
    "function_declaration": _WHOLE, "generator_function_declaration": _WHOLE, "method_definition": _WHOLE,
    "variable_declarator": _WHOLE, "assignment_expression": _WHOLE, "field_definition": _WHOLE,
    "if_statement": _OPEN, "else_clause": _OPEN, "try_statement": _OPEN, "statement_block": _OPEN,
}  # fmt: skip
_TYPED = _SCRIPT | {
    "interface_declaration": _WHOLE, "type_alias_declaration": _WHOLE, "enum_declaration": _WHOLE,
    "abstract_class_declaration": _MARKED, "module": _ROOM, "internal_module": _ROOM, "ambient_declaration": _WRAP,
    "function_signature": _WHOLE, "abstract_method_signature": _WHOLE, "method_signature": _WHOLE,
    "public_field_definition": _WHOLE,
}  # fmt: skip
_NATIVE = {
    "translation_unit": _OPEN, "function_definition": _WHOLE, "type_definition": _WHOLE, "struct_specifier": _WHOLE,
    "union_specifier": _WHOLE, "enum_specifier": _WHOLE, "preproc_function_def": _WHOLE, "preproc_ifdef": _OPEN,
    "preproc_if": _OPEN, "preproc_else": _OPEN, "preproc_elif": _OPEN, "linkage_specification": _OPEN,
    "declaration_list": _OPEN,
}  # fmt: skip
_NODES: dict[str, dict[str, str]] = {
    "tree_sitter_bash": {"program": _OPEN, "function_definition": _WHOLE, "if_statement": _OPEN},
    "tree_sitter_python": {
        "module": _OPEN, "class_definition": _MARKED, "function_definition": _WHOLE, "decorated_definition": _WRAP,
        "type_alias_statement": _WHOLE, "block": _OPEN, "if_statement": _OPEN, "elif_clause": _OPEN,
        "else_clause": _OPEN, "try_statement": _OPEN, "except_clause": _OPEN, "finally_clause": _OPEN,
        "with_statement": _OPEN,
    },
    "tree_sitter_javascript": _SCRIPT,
    "tree_sitter_typescript": _TYPED,
    "tree_sitter_go": {
        "source_file": _OPEN, "function_declaration": _WHOLE, "method_declaration": _WHOLE, "type_declaration": _WRAP,
        "type_spec": _WHOLE, "type_alias": _WHOLE,
    },
    "tree_sitter_rust": {
        "source_file": _OPEN, "function_item": _WHOLE, "struct_item": _WHOLE, "enum_item": _WHOLE,
        "union_item": _WHOLE, "trait_item": _MARKED, "impl_item": _MARKED, "mod_item": _ROOM, "declaration_list": _OPEN,
        "macro_definition": _WHOLE, "type_item": _WHOLE, "function_signature_item": _WHOLE, "foreign_mod_item": _OPEN,
    },
    "tree_sitter_java": {
        "program": _OPEN, "class_declaration": _MARKED, "interface_declaration": _MARKED, "enum_declaration": _MARKED,
        "record_declaration": _MARKED, "annotation_type_declaration": _WHOLE, "method_declaration": _WHOLE,
        "constructor_declaration": _WHOLE, "compact_constructor_declaration": _WHOLE, "class_body": _OPEN,
        "interface_body": _OPEN, "enum_body": _OPEN, "enum_body_declarations": _OPEN,
    },
    "tree_sitter_c": _NATIVE,
    "tree_sitter_cpp": _NATIVE | {
        "namespace_definition": _ROOM, "class_specifier": _MARKED, "struct_specifier": _MARKED,
        "field_declaration_list": _OPEN, "template_declaration": _WRAP, "alias_declaration": _WHOLE,
    },
    "tree_sitter_c_sharp": {
        "compilation_unit": _OPEN, "namespace_declaration": _ROOM, "declaration_list": _OPEN,
        "class_declaration": _MARKED, "interface_declaration": _MARKED, "struct_declaration": _MARKED,
        "record_declaration": _MARKED, "enum_declaration": _WHOLE, "method_declaration": _WHOLE,
        "constructor_declaration": _WHOLE, "property_declaration": _WHOLE, "delegate_declaration": _WHOLE,
    },
    "tree_sitter_ruby": {
        "program": _OPEN, "module": _ROOM, "class": _MARKED, "body_statement": _OPEN, "method": _WHOLE,
        "singleton_method": _WHOLE, "singleton_class": _OPEN,
    },
    "tree_sitter_php": {
        "program": _OPEN, "namespace_definition": _ROOM, "compound_statement": _OPEN, "class_declaration": _MARKED,
        "interface_declaration": _MARKED, "trait_declaration": _MARKED, "enum_declaration": _MARKED,
        "declaration_list": _OPEN, "enum_declaration_list": _OPEN, "function_definition": _WHOLE,
        "method_declaration": _WHOLE,
    },
}  # fmt: skip
# Only what they give a name to makes these a definition.
_IF_FUNCTION = {
    "variable_declarator": "value", "assignment_expression": "right", "field_definition": "value",
    "public_field_definition": "value",
}  # fmt: skip
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "class"})
_NAMES = ("name", "property", "left", "declarator", "type")
_IDENTIFIER = re.compile(r"~?[^\W\d][\w$.:~]*", re.UNICODE)
MAX_NODES = 20_000  # looked at in one file
MAX_NAME = 120


@cache
def installed() -> tuple[str, ...]:
    """The grammars that are at hand, by their modules; none of them is loaded for that."""
    from handrail.installed import find_module

    return tuple(sorted(name for name in {module for module, _ in _MODULES.values()} if find_module(name) is not None))


def has_grammar(extension: str) -> bool:
    """Whether the grammar of such files is at hand."""
    known = _MODULES.get(extension)
    return known is not None and known[0] in installed()


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
    """The definitions of a text, with their ends; None where no grammar is at hand.

    For some text it does not come to an end: what is not ours is read in a process of its own.
    """
    parser = parser_for(extension)
    if parser is None:
        return None
    nodes = _NODES[_MODULES[extension][0]]
    tree = parser.parse(text.encode("utf-8", "replace"))
    marks: dict[int, Mark] = {}
    todo = [(tree.root_node, 0, "", -1)]
    for _ in range(MAX_NODES):
        if not todo:
            break
        node, depth, around, began = todo.pop()
        role = nodes.get(node.type) if node.is_named else None
        if role is None:
            continue
        start = began if began >= 0 and began not in marks else node.start_point[0]
        name = _name(node) if role in (_MARKED, _WHOLE, _ROOM) else ""
        whole = f"{around}.{name}" if around and name else name or around
        if name and role is not _ROOM:
            # The outermost of those that begin on one line: they are shown by lines.
            marks.setdefault(start, Mark(start, 0, whole, node.end_point[0] + 1))
        if role is not _WHOLE and depth + (role is _MARKED) < MAX_DEPTH:
            inner = (depth + (role is _MARKED), whole, start if role is _WRAP else -1)
            todo += [(child, *inner) for child in reversed(node.children)]
    return sorted(marks.values())


def _name(node: Any) -> str:
    """What a definition defines, by the fields that grammars use for it; "" for what defines nothing."""
    value = _IF_FUNCTION.get(node.type)
    if value is not None:
        given = node.child_by_field_name(value)
        if given is None or given.type not in _FUNCTIONS:
            return ""
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return ""  # it is only mentioned
    found = next((item for field in _NAMES if (item := node.child_by_field_name(field)) is not None), None)
    while found is not None and (inner := _inner(found)) is not None:
        found = inner
    if found is None or found.text is None:
        return ""
    text = _IDENTIFIER.search(found.text[: 4 * MAX_NAME].decode("utf-8", "replace"))
    name = text[0][:MAX_NAME] if text else ""
    return f"{receiver}.{name}" if name and (receiver := _receiver(node)) else name


def _inner(node: Any) -> Any | None:
    """What a declarator declares: pointers, arrays and arguments are about it, and not it."""
    if not node.type.endswith("declarator"):
        return None
    return node.child_by_field_name("declarator") or next(
        (child for child in node.named_children if child.type.endswith(("declarator", "identifier"))), None
    )


def _receiver(node: Any) -> str:
    """The type that a method of Go belongs to."""
    found = node.child_by_field_name("receiver")
    text = None if found is None else re.search(rb"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*\)$", found.text or b"")
    return text[1].decode() if text else ""

"""The reference page of the Python API: what is said there is what stands in the source, comments included.

Read from the text and never imported: the page is the same whether or not a framework is installed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from io import StringIO
from pathlib import Path
from tokenize import COMMENT, generate_tokens

from handrail.front.reference_names import GROUPS, Group

SOURCE = Path(__file__).parents[1]
WIDTH = 100  # of a signature on one line
Function = ast.FunctionDef | ast.AsyncFunctionDef
_DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|pragma)[^#]*")


@dataclass(frozen=True, slots=True)
class Module:
    """One file of ours: its text, what it defines, and the comment that ends each line."""

    text: str
    tree: ast.Module
    comments: dict[int, str]

    def says(self, node: ast.AST | None) -> str:
        """The text of a part of the source, on one line."""
        return "" if node is None else " ".join((ast.get_source_segment(self.text, node) or "").split())


@dataclass(frozen=True, slots=True)
class Found:
    """A definition, and the module it stands in."""

    module: Module
    node: ast.stmt


@cache
def _module(name: str) -> Module:
    below = SOURCE.joinpath(*name.split(".")[1:])
    text = (below / "__init__.py" if below.is_dir() else below.with_suffix(".py")).read_text(encoding="utf-8")
    comments = {}
    for token in generate_tokens(StringIO(text).readline):
        if token.type == COMMENT and (said := _DIRECTIVE.sub("", token.string).lstrip("# ")):
            comments[token.start[0]] = said
    return Module(text, ast.parse(text), comments)


def find(address: str) -> Found:
    """Find what a name of a module stands for, through all that hands it on; LookupError when it is nowhere."""
    home, _, name = address.rpartition(".")
    if name[0].islower() and home.rpartition(".")[2][:1].isupper():  # of a class
        owner = find(home)
        return Found(owner.module, _last(owner.node, name, address))
    module = _module(home)
    if any(name in _names(node) for node in module.tree.body):
        return Found(module, _last(module.tree, name, address))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and any((item.asname or item.name) == name for item in node.names):
            return find(f"{node.module}.{name}")
    raise LookupError(f"{address}: {home} neither defines nor imports it")


def _last(holder: ast.AST, name: str, address: str) -> ast.stmt:
    """The last definition of a name: overloads stand before what they are for."""
    found = [node for node in getattr(holder, "body", ()) if name in _names(node)]
    if not found:
        raise LookupError(f"{address} is not there")
    node: ast.stmt = found[-1]
    return node


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def page() -> Iterator[str]:
    """Everything that a program imports from us."""
    yield "# Python API\n\n"
    yield "Everything comes from `handrail` where no other module is named. Calls are made inside\n"
    yield "`async with Runtime.open(…) as runtime`; what a call came to is an `Outcome`, also where it failed.\n"
    yield "`handrail.__version__` is the version.\n\n"
    for group in GROUPS:
        yield f"- [{group.title}](#{group.title.lower().replace(' ', '-')})\n"
    apart = {name for group in GROUPS for name in group.names.split() if "." in name}
    for group in GROUPS:
        yield f"\n## {group.title}\n\n{group.says}\n"
        yield from _group(group, apart)


def _group(group: Group, apart: set[str]) -> Iterator[str]:
    aliases = []
    for name in group.names.split():
        found = find(f"{group.module}.{name}")
        if isinstance(found.node, ast.ClassDef):
            yield from _class(name, found, apart)
        elif isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _function(name, found.module, found.node)
        else:
            aliases.append((name, found))
    if aliases:
        yield "\n| name | stands for | |\n|---|---|---|\n"
    for name, found in aliases:
        module, node = found.module, found.node
        assert isinstance(node, ast.Assign)
        yield _row(_code(name), _code(module.says(node.value)), module.comments.get(node.end_lineno or 0, ""))


def _function(name: str, module: Module, node: Function) -> Iterator[str]:
    kind = "property" if _is(node, "property") else "function"
    told = [_parameter(module, arg, default) for arg, default in _arguments(node)]
    table = any(says for *_, says in told)
    yield f"\n### {name}\n\n"
    if kind == "property":
        yield f"Type: {_code(module.says(node.returns))}. {_doc(node)}\n"
        return
    yield f"```python\n{_signature(module, node, _called(name, node), typed=not table)}\n```\n\n{_doc(node)}\n"
    if table:
        yield "\n| parameter | type | default | |\n|---|---|---|---|\n"
        for argument, kind, default, says in told:
            yield _row(_code(argument), _code(kind), _code(default) if default else "required", says)


def _class(name: str, found: Found, apart: set[str]) -> Iterator[str]:
    node, module = found.node, found.module
    assert isinstance(node, ast.ClassDef)
    yield f"\n### {name}\n\n"
    made = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if made is not None and f"{name}.open" not in apart:
        yield f"```python\n{_signature(module, made, node.name)}\n```\n\n"
    yield f"{_doc(node)}\n"
    if any(module.says(base).endswith("Enum") for base in node.bases):
        yield from _words(module, node)
    yield from _fields(module, node)
    if made is not None:
        yield from _set_attributes(module, made)
    methods = [item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
    methods = [item for item in methods if item.name[0] != "_" and f"{name}.{item.name}" not in apart]
    if methods:
        yield "\n"
    for item in methods:
        said = " ".join(_doc(item).split())
        if _is(item, "property"):
            yield f"- `{item.name}: {module.says(item.returns)}`: {said}\n"
        else:
            signature = " ".join(_signature(module, item, _called(item.name, item, "async")).split())
            yield f"- `{signature.replace('( ', '(').replace(', )', ')')}`: {said}\n"


def _words(module: Module, node: ast.ClassDef) -> Iterator[str]:
    """The members of an enumeration: a table where something is said of one, else a line."""
    members = [item for item in node.body if isinstance(item, ast.Assign)]
    said = [(_names(item)[0], module.says(item.value), module.comments.get(item.lineno, "")) for item in members]
    if not any(says for *_, says in said):
        yield "\n" + ", ".join(
            _code(word if word == value.strip('"') else f"{word} = {value}") for word, value, _ in said
        )
        yield ".\n"
        return
    yield "\n| member | value | |\n|---|---|---|\n"
    for word, value, says in said:
        yield _row(_code(word), _code(value), says)


def _fields(module: Module, node: ast.ClassDef) -> Iterator[str]:
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and _names(item)[0][0] != "_"]
    if fields:
        yield "\n| field | type | default | |\n|---|---|---|---|\n"
    for item in fields:
        default = module.says(item.value)
        if made := re.fullmatch(r"field\(default_factory=(dict|list)\)", default):
            default = {"dict": "{}", "list": "[]"}[made[1]]
        says = module.comments.get(item.end_lineno or 0, "")
        yield _row(_code(_names(item)[0]), _code(module.says(item.annotation)), _code(default) if default else "", says)


def _set_attributes(module: Module, made: ast.FunctionDef) -> Iterator[str]:
    """What an instance shows besides its methods: the public names that its making sets."""
    told = []
    for node in ast.walk(made):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and module.says(target.value) == "self" and target.attr[0] != "_":
                says = module.comments.get(node.lineno, "") if hasattr(node, "lineno") else ""
                told.append(_code(target.attr) + (f" ({says})" if says else ""))
    if told:
        yield f"\nAttributes: {', '.join(told)}.\n"


def _signature(module: Module, node: Function, name: str, *, typed: bool = True) -> str:
    """How it is called, one parameter a line where one line is too short."""
    parts, starred = [], False
    for arg, default in _arguments(node):
        if arg in node.args.kwonlyargs and not starred and node.args.vararg is None:
            parts.append("*")
            starred = True
        star = "*" * ((arg is node.args.vararg) + 2 * (arg is node.args.kwarg))
        kind = f": {module.says(arg.annotation)}" if typed and arg.annotation is not None else ""
        given = "" if default is None else f"{' = ' if kind else '='}{module.says(default)}"
        parts.append(f"{star}{arg.arg}{kind}{given}")
        if arg in node.args.posonlyargs[-1:]:
            parts.append("/")
    gives = "" if node.name == "__init__" else f" -> {module.says(node.returns)}"
    line = f"{name}({', '.join(parts)}){gives}"
    if len(line) <= WIDTH:
        return line
    if not typed:
        return f"{name}(\n    {_wrapped(parts)},\n){gives}"
    return f"{name}(\n    " + ",\n    ".join(parts) + f",\n){gives}"


def _called(name: str, node: Function, waits: str = "await") -> str:
    """A function as a caller writes it: what is no class method is called on an instance."""
    shown = name if "." not in name or _is(node, "classmethod") else name[0].lower() + name[1:]
    return f"{waits} {shown}" if isinstance(node, ast.AsyncFunctionDef) else shown


def _wrapped(parts: list[str]) -> str:
    import textwrap

    return "\n    ".join(textwrap.wrap(", ".join(parts), WIDTH - 4, break_long_words=False, break_on_hyphens=False))


def _arguments(node: Function) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """The parameters a caller may give, each with its default."""
    plain = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(node.args.defaults))
    for arg, default in zip(plain, [*defaults, *node.args.defaults], strict=True):
        if arg.arg not in ("self", "cls"):
            yield arg, default
    if node.args.vararg is not None:
        yield node.args.vararg, None
    yield from zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    if node.args.kwarg is not None:
        yield node.args.kwarg, None


def _parameter(module: Module, arg: ast.arg, default: ast.expr | None) -> tuple[str, str, str, str]:
    line = (arg if default is None else default).end_lineno or 0
    return arg.arg, module.says(arg.annotation), module.says(default), module.comments.get(line, "")


def _is(node: Function, decorator: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == decorator for item in node.decorator_list)


def _doc(node: ast.ClassDef | Function) -> str:
    return cleandoc(ast.get_docstring(node) or "")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"

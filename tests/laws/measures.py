"""Measures of how the source reads: names, docstrings, density, tokens. `python tests/laws/measures.py` prints them."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

SOURCE = Path(__file__).parent.parent.parent / "src" / "handrail"

# Participles that do not end in -ed. Words that are also the plain form of a verb (put, set, read, cut, let, run) count
# as verbs.
IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "brought",
        "built",
        "bought",
        "caught",
        "chosen",
        "come",
        "dealt",
        "done",
        "drawn",
        "driven",
        "fallen",
        "felt",
        "found",
        "forgotten",
        "given",
        "gone",
        "grown",
        "had",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "shut",
        "slept",
        "sold",
        "spent",
        "spoken",
        "stood",
        "struck",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "understood",
        "undone",
        "won",
        "worn",
        "written",
        "woken",
    ]
)
# Words that end in -ed and are no participles, and names given by a protocol of another library.
NOT_PARTICIPLES = frozenset({"need", "feed", "seed", "embed", "proceed", "exceed", "speed", "shed", "bed"})
OPENING = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "each",
        "every",
        "all",
        "any",
        "both",
        "one",
        "two",
        "no",
        "nothing",
        "what",
        "whatever",
        "whether",
        "how",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "when",
        "whoever",
        "its",
        "their",
        "his",
        "her",
    ]
)
SHARED_MODULES = frozenset({"__init__", "bound"})
SKIPPED_TOKENS = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """One parsed file of the tree."""

    path: Path
    name: str
    text: str
    tree: ast.Module


def read_tree(source: Path = SOURCE) -> list[SourceFile]:
    """Read and parse every module below a folder."""
    files = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        files.append(SourceFile(path, str(path.relative_to(source)), text, ast.parse(text)))
    return files


def find_functions(files: list[SourceFile]) -> Iterator[tuple[SourceFile, Function]]:
    """Yield every function and method with its file."""
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, Function):
                yield file, node


def is_participle(name: str) -> bool:
    """Whether a function's name is one bare past participle."""
    word = name.strip("_").lower()
    if word in IRREGULAR:
        return True
    return word.endswith("ed") and "_" not in word and len(word) > 4 and word not in NOT_PARTICIPLES


def find_participles(files: list[SourceFile]) -> list[str]:
    """List the functions whose name is a bare past participle."""
    return [
        f"{file.name}:{node.lineno} {node.name}" for file, node in find_functions(files) if is_participle(node.name)
    ]


def find_shared_classes(files: list[SourceFile]) -> list[str]:
    """List the classes whose name another class has, too."""
    found = [
        (node.name, f"{file.name}:{node.lineno} {node.name}")
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef)
    ]
    counts = Counter(name.strip("_") for name, _ in found)
    return [place for name, place in found if counts[name.strip("_")] > 1]


def count_classes(files: list[SourceFile]) -> int:
    """Count the classes of the tree."""
    return sum(isinstance(node, ast.ClassDef) for file in files for node in ast.walk(file.tree))


def find_shared_modules(files: list[SourceFile]) -> list[str]:
    """List the module names that stand in several folders; tools and commands are named after what they are."""
    stems = Counter(file.path.stem.strip("_") for file in files if file.path.stem not in SHARED_MODULES)
    return sorted(stem for stem, count in stems.items() if count > 1)


def find_noun_docstrings(files: list[SourceFile]) -> list[str]:
    """List the functions whose docstring opens with a noun clause or a question word."""
    found = []
    for file, node in find_functions(files):
        text = ast.get_docstring(node)
        if text and re.split(r"\W+", text.lower(), maxsplit=1)[0] in OPENING:
            found.append(f"{file.name}:{node.lineno} {node.name}: {text.splitlines()[0]}")
    return found


def count_docstrings(files: list[SourceFile]) -> int:
    """Count the docstrings of functions."""
    return sum(ast.get_docstring(node) is not None for _, node in find_functions(files))


def find_tuple_assignments(files: list[SourceFile]) -> list[str]:
    """List assignments of several values to several names in one line; a swap of the same names is none."""
    found = []
    for file in files:
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
                continue
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and not _is_swap(target, node.value):
                found.append(f"{file.name}:{node.lineno}")
    return found


def _is_swap(target: ast.Tuple, value: ast.Tuple) -> bool:
    names = sorted(ast.unparse(item) for item in target.elts)
    return names == sorted(ast.unparse(item) for item in value.elts)


def find_conditionals(files: list[SourceFile]) -> list[str]:
    """List the conditional expressions."""
    return [
        f"{file.name}:{node.lineno}" for file in files for node in ast.walk(file.tree) if isinstance(node, ast.IfExp)
    ]


def find_late_imports(files: list[SourceFile]) -> list[str]:
    """List imports inside functions; those of the command line are there so that it starts quickly."""
    found = []
    for file, function in find_functions(files):
        if file.name.startswith("front/cli/"):
            continue
        found += [
            f"{file.name}:{node.lineno}"
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
    return sorted(set(found))


def find_private_imports(files: list[SourceFile]) -> list[str]:
    """List underscore modules that a module of another folder imports."""
    found = []
    for file in files:
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("handrail."):
                continue
            for name in (node.module, *(f"{node.module}.{item.name}" for item in node.names)):
                parts = name.split(".")[1:]
                at = next((index for index, part in enumerate(parts) if re.match(r"_[a-z]", part)), None)
                is_module = at is not None and (SOURCE.joinpath(*parts[: at + 1]).with_suffix(".py")).exists()
                if is_module and file.path.parent != SOURCE.joinpath(*parts[:at]):
                    found.append(f"{file.name}:{node.lineno} {name}")
    return sorted(set(found))


def count_tokens(file: SourceFile) -> int:
    """Count names, operators and literals; comments and docstrings do not count."""
    docstrings = set()
    for node in ast.walk(file.tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docstrings.add((first.lineno, first.col_offset))
    tokens = tokenize.generate_tokens(io.StringIO(file.text).readline)
    return sum(token.type not in SKIPPED_TOKENS and token.start not in docstrings for token in tokens)


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a statement is a text by itself, such as a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def count_lines(files: list[SourceFile]) -> int:
    """Count all lines."""
    return sum(file.text.count("\n") for file in files)


def count_code_lines(files: list[SourceFile]) -> int:
    """Count lines that hold code: no blank line, comment or docstring."""
    total = 0
    for file in files:
        lines: set[int] = set()
        docstrings: set[int] = set()
        for node in ast.walk(file.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type not in SKIPPED_TOKENS:
                lines.update(range(token.start[0], token.end[0] + 1))
        total += len(lines - docstrings)
    return total


def measure(source: Path = SOURCE) -> dict[str, float]:
    """Measure every row."""
    files = read_tree(source)
    functions = sum(1 for _ in find_functions(files))
    thousand = count_code_lines(files) / 1000
    return {
        "participle functions, %": 100 * len(find_participles(files)) / functions,
        "classes that share a name, %": 100 * len(find_shared_classes(files)) / count_classes(files),
        "module names in several folders": len(find_shared_modules(files)),
        "docstrings that open with a noun, %": 100 * len(find_noun_docstrings(files)) / count_docstrings(files),
        "tuple assignments in 1000 code lines": len(find_tuple_assignments(files)) / thousand,
        "conditional expressions in 1000 code lines": len(find_conditionals(files)) / thousand,
        "imports in functions in 1000 code lines": len(find_late_imports(files)) / thousand,
        "private modules imported elsewhere": len(find_private_imports(files)),
        "tokens": sum(map(count_tokens, files)),
        "lines": count_lines(files),
        "functions": functions,
    }


if __name__ == "__main__":
    for row, value in measure(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE).items():
        print(f"{row:40} {value:10.1f}")

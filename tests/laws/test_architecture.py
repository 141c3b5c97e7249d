"""The layout tells the story: imports go one way, files and functions stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import handrail

SOURCE = Path(handrail.__file__).parent
MAX_LINES = 500
MAX_FUNCTION = 50

# Layer by module or package; the longest name that fits counts. Imports go to the same or a lower layer.
LAYERS = {
    "": 0,  # the package itself imports nothing until asked
    "words": 0,
    "errors": 0,
    "strict_json": 0,
    "spelling": 0,
    "globs": 0,
    "installed": 0,
    "policy": 1,
    "output": 1,
    "arguments": 1,
    "misfit": 1,
    "limits": 1,
    "pace": 1,
    "versions": 1,
    "dialects": 1,
    "queries": 1,
    "formats": 1,
    "urls": 1,
    "selecting": 1,
    "hiding": 1,
    "ports": 2,
    "catalog": 2,
    "loading": 2,
    "tools": 3,
    "gates": 3,
    "kernel": 3,
    "testing": 3,
    "workspace": 4,
    "sandbox": 4,
    "sandbox.plan": 1,
    "processes": 4,
    "net": 4,
    "skills": 4,
    "memory": 4,
    "index": 4,
    "quality": 4,
    "store": 4,
    "approvals": 4,
    "own_imports": 4,
    "settings": 5,
    "outside": 6,
    "packages": 6,
    "own_code": 6,
    "undo_order": 1,
    "json_edit": 1,
    "hook_files": 6,
    "requests": 6,
    "undoing": 6,
    "faculties": 6,
    "asking": 6,
    "compose": 6,
    "programs": 6,
    "worlds": 6,
    "runtime": 6,
    "agent": 7,
    "commanders": 7,
    "hooks": 7,
    "hooks.install": 8,
    "hooks.status": 8,
    "service": 7,
    "__main__": 8,
    "front": 8,
    "pydantic_ai": 8,
    "langchain": 8,
    "openai_agents": 8,
}
# Layers 0 to 2 do no I/O: these modules have no business there.
IMPURE = {"os", "socket", "subprocess", "threading", "time", "sqlite3", "asyncio", "pathlib", "tempfile", "shutil"}
# What a pure module may use all the same, and why.
ALLOWED = {
    ("output.engines", "threading"): "a scratch area of the scanner for each thread",
}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module with its dotted name beneath the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        yield name.removesuffix("__init__").removesuffix("."), path


def layer(name: str) -> int:
    """The layer a module belongs to."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (found := LAYERS.get(".".join(parts[:length]))) is not None:
            return found
    return LAYERS[""] if name == "" else pytest.fail(f"{name} belongs to no layer: add it to LAYERS")


def imports(path: Path, name: str) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether only the type checker sees it."""
    tree = ast.parse(path.read_text())
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                yield item.name, id(node) in typing_only
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join(["handrail", *above, *([base] if base else [])])
            yield base, id(node) in typing_only
            for item in node.names:
                yield f"{base}.{item.name}", id(node) in typing_only


@pytest.mark.parametrize(
    ("name", "path"), list(modules()), ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_imports_go_up_the_layers_only(name: str, path: Path) -> None:
    """A module knows its own layer and those below it."""
    known = {other for other, _ in modules()}
    for imported, typing_only in imports(path, name):
        target = imported.removeprefix("handrail.")
        if not imported.startswith("handrail.") or target not in known or typing_only or name == "":
            continue
        assert layer(target) <= layer(name), f"{name} (layer {layer(name)}) imports {target} (layer {layer(target)})"


def test_tools_know_neither_the_kernel_nor_another_tool() -> None:
    """What tools of one toolset share is an underscore file in its folder."""
    for name, path in modules():
        if not name.startswith("tools.") or name.count(".") < 2:
            continue
        for imported, _ in imports(path, name):
            assert imported not in ("handrail.kernel", "handrail.runtime"), name
            parts = imported.split(".")
            if parts[:2] == ["handrail", "tools"] and len(parts) >= 4:
                same = parts[2] == name.split(".")[1] and parts[3].startswith("_")
                assert same, f"{name} imports {imported}"


def test_the_first_three_layers_do_no_io() -> None:
    """What kernel and tools need from outside they know as protocols."""
    found = {
        (name, top)
        for name, path in modules()
        if name and layer(name) <= 2
        for imported, typing_only in imports(path, name)
        if (top := imported.split(".")[0]) in IMPURE and not typing_only
    }
    assert found == set(ALLOWED)


# Where `.function` is read, and why.
FUNCTIONS = {
    "kernel": "it runs the tool",
    "policy.shell.bombs": "the name of a function in a shell's script, not a tool's",
}


def takes_a_function(text: str) -> bool:
    """Whether a module reads `.function` of anything, called or not, also by its name as a text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr == "function" and isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Call) and _name(node.func) in {"getattr", "attrgetter", "methodcaller"}:
            words = [word.value for word in node.args if isinstance(word, ast.Constant)]
            if "function" in words:
                return True
    return False


def _name(called: ast.expr) -> str:
    return str(getattr(called, "attr", "") or getattr(called, "id", ""))


def test_only_the_kernel_runs_a_tool() -> None:
    """Law 1: no second way in."""
    assert [name for name, path in modules() if takes_a_function(path.read_text())] == list(FUNCTIONS)


def test_a_second_way_to_run_a_tool_is_seen_however_it_is_spelled() -> None:
    """The negative control."""
    spellings = ["tool.function()", "run = tool.function\nrun()", "getattr(tool, 'function')()"]
    spellings += ["x = operator.attrgetter('function')(tool)", "tool . function (1)", "f(*[t.function for t in tools])"]
    assert [takes_a_function(text) for text in spellings] == [True] * len(spellings)
    assert not takes_a_function("function = 1\nTool(function=function)\n'.function('")


def test_files_and_functions_stay_small() -> None:
    """No file over 500 lines without a reason in it, no function over 50."""
    root = SOURCE.parent.parent
    ours = [*sorted(SOURCE.rglob("*.py")), *sorted((root / "bench").glob("*.py"))]
    for path in [*ours, *sorted((root / "tests").rglob("*.py"))]:
        text = path.read_text()
        tree = ast.parse(text)
        lines = text.count("\n")
        if lines > MAX_LINES:
            assert f"Longer than {MAX_LINES} lines because" in (ast.get_docstring(tree) or ""), (
                f"{path.name}: {lines} lines"
            )
        for node in ast.walk(tree) if path in ours else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= MAX_FUNCTION, f"{path.name}:{node.lineno} {node.name} is {length} lines long"


# Python before 3.11.5 reads on behind what such a group took in vain; `(?>(?:…)*)` says the same, and is read right.
CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
GREEDY_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+")


def test_no_group_is_repeated_for_good() -> None:
    """A regular expression means the same to every Python that is supported."""
    assert GREEDY_GROUP.search("(?:a|b)*+") is not None
    assert GREEDY_GROUP.search("(?>(?:a|b)*)[^a]*+") is None
    for path in sorted(SOURCE.rglob("*.py")):
        texts = [node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant)]
        for text in texts:
            shown = text.decode("latin-1") if isinstance(text, bytes) else str(text)
            if "(?" in shown and GREEDY_GROUP.search(shown):
                assert GREEDY_GROUP.search(CLASS.sub(".", shown)) is None, f"{path.name}: {shown}"


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import handrail` is cheap; each name is loaded when it is used."""
    import subprocess
    import sys

    code = "import sys, handrail; print(sorted(m for m in sys.modules if m.split('.')[0] in "
    code += "('pydantic', 'rich', 'click', 'sqlite3', 'asyncio', 'hyperscan', 're2')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

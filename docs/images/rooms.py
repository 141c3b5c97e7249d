"""Draw the rooms of the package by layer, with their size and imports, from the code (`make picture`)."""

from __future__ import annotations

import ast
from collections import defaultdict
from html import escape
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "handrail"
# The table that the architecture test holds.
LAYERS: dict[str, int] = run_path(str(ROOT / "tests" / "laws" / "test_architecture.py"))["LAYERS"]
NAMES = {
    0: "words",
    1: "pure: decide, redact, parse",
    2: "ports and catalog",
    3: "one call, and the tools",
    4: "the machine",
    5: "settings",
    6: "composition",
    7: "agents and service",
    8: "front ends",
}
WIDTH = 900
LEFT = 210
BOX = 26
GAP = 6
LETTER = 7.3


def read_rooms() -> dict[int, dict[str, int]]:
    """List the rooms of each layer with their lines of code."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts == ("__init__",):
            continue
        room = f"{parts[0]}/" if len(parts) > 1 else f"{parts[0]}.py"
        found[LAYERS[parts[0]]][room] += _code_lines(path)
    return found


def _code_lines(path: Path) -> int:
    """Count the lines that hold a statement or a part of one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not _is_docstring(node):
            lines.add(node.lineno)
    return len(lines)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def picture() -> str:
    """Draw one row for each layer, the front ends on top: imports go down only."""
    rooms = read_rooms()
    parts: list[str] = []
    y = 34.0
    for layer in sorted(rooms, reverse=True):
        x = float(LEFT)
        top = y
        boxes = []
        for name, statements in sorted(rooms[layer].items(), key=lambda room: (-room[1], room[0])):
            label = f"{name} {_round(statements)}"
            width = len(label) * LETTER + 14
            if x + width > WIDTH - 12:
                x = float(LEFT)
                y += BOX + GAP
            boxes.append(
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX}" rx="4" class="room"/>'
                f'<text x="{x + 7:.0f}" y="{y + 17:.0f}">{escape(name)} '
                f'<tspan class="size">{_round(statements)}</tspan></text>'
            )
            x += width + GAP
        bottom = y + BOX
        parts.append(
            f'<rect x="8" y="{top - 6:.0f}" width="{WIDTH - 16}" height="{bottom - top + 12:.0f}" class="layer"/>'
            f'<text x="18" y="{top + 17:.0f}" class="name">{layer}  {escape(NAMES[layer])}</text>'
        )
        parts += boxes
        y = bottom + 18
    return FRAME.format(width=WIDTH, height=f"{y:.0f}", body="\n".join(parts))


def _round(statements: int) -> int:
    """Round up to hundreds, so that the picture changes only when a room really grows."""
    return -(-statements // 100) * 100


FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>The rooms of Handrail by layer; the figure is the number of statements, rounded up to hundreds</title>
<style>
text {{ font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2933; }}
.name {{ font-weight: bold; }} .size {{ fill: #7b8794; }}
.layer {{ fill: #f5f7fa; stroke: #cbd2d9; }} .room {{ fill: #ffffff; stroke: #9aa5b1; }}
</style>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<text x="18" y="20">Imports go down this picture only. Figures: statements, rounded up to hundreds.</text>
{body}
</svg>
"""


if __name__ == "__main__":
    Path(__file__).with_name("rooms.svg").write_text(picture(), encoding="utf-8")

"""Draw README's picture: some chapters of `handrail tour`, as a terminal shows them (`make picture`)."""

from __future__ import annotations

import os
import pty
import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 100
CHAPTERS = (3, 5)
_NORMAL = [0x3E4451, 0xF07178, 0xAAD94C, 0xFFB454, 0x59C2FF, 0xD2A6FF, 0x95E6CB, 0xCDD3DE]
THEME = TerminalTheme((17, 21, 28), (205, 211, 222), [(c >> 16, c >> 8 & 255, c & 255) for c in _NORMAL])
# No font is fetched from anywhere: whoever looks has one of these.
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>handrail tour: reads that are denied, and a write that asks with its diff</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def picture() -> str:
    """Run the tour in a terminal of its own and draw what it says."""
    shown = [chapter for chapter in re.split(r"\n\n(?=(?:\x1b\[[\d;]*m)*\d+)", _tour()) if _number(chapter) in CHAPTERS]
    console = Console(width=COLUMNS, record=True, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi("\n\n".join(shown)))
    return console.export_svg(title="handrail tour", theme=THEME, code_format=FRAME, unique_id="tour")


def _number(chapter: str) -> int:
    found = re.match(r"(?:\x1b\[[\d;]*m)*(\d+)", chapter)
    return int(found[1]) if found else 0


def _tour() -> str:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color", "TMPDIR": "/tmp"}  # noqa: S108
        os.execv(sys.executable, [sys.executable, "-m", "handrail", "tour", "--auto"])  # noqa: S606
    text = b""
    while True:
        try:
            text += os.read(terminal, 65536)
        except OSError:  # the tour has ended
            break
    os.waitpid(pid, 0)
    return re.sub(r"\x1b\[[?\d;]*[A-LN-Za-ln-z]", "", text.decode().replace("\r\n", "\n"))


if __name__ == "__main__":
    Path(__file__).with_name("tour.svg").write_text(picture(), encoding="utf-8")

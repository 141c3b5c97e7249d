"""What makes programs run outside the sandbox cannot be changed from inside it."""

from __future__ import annotations

from pathlib import Path

from behaviour._commands import need_sandbox, run, runtime
from laws.reference_policy import RUNS_PROGRAMS
from workspaces import below

CHANGE = """
for f in $(find . -type f); do { echo changed > $f; } 2>/dev/null; rm -f $f 2>/dev/null; done
for f in files/.* folders/.*; do mv -T $f $f.gone 2>/dev/null; done
echo end
"""


async def test_programs_cannot_change_what_makes_programs_run(work: Path) -> None:
    """Each name, as a file and as a folder, in a run where a person said yes; what lies beside it can be changed."""
    need_sandbox()
    for name in RUNS_PROGRAMS:
        for path in (work / "files" / name, work / "folders" / name / "inside"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("original")
    before = below(work)
    (work / "files/plain").write_text("original")
    async with runtime(work) as opened:
        outcome = await run(opened, CHANGE)
    assert (outcome.ok, outcome.data["stdout"]) == (True, "end\n")
    assert below(work) == before

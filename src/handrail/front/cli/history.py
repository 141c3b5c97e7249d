"""handrail history: what agents did before Handrail governed them, read as runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import JSON, harmless, print_json, run_async, unknown

if TYPE_CHECKING:
    from handrail.hooks.history import Imported

AGENTS = ("claude-code", "codex")
SHOWN = 10  # broken lines that are named


@click.group("history")
def command() -> None:
    """Read what agents did before, as runs: nothing is run.

    `handrail runs show`, `runs tree`, `runs search` and `policy explain --call` work on them.
    """


@command.command("import")
@click.argument("agent", metavar="AGENT")
@click.argument("path", required=False, type=click.Path(exists=True))
@JSON
def import_history(agent: str, path: str | None, **given: Any) -> int:
    """Read the transcripts of AGENT (claude-code, codex): all of this account, or those at PATH, a file or a folder.

    Each session becomes a run of its calls, with secrets hidden, and with the verdict that policy gives now. What is
    there already is not read twice.
    """
    from handrail.hooks.history import import_session
    from handrail.hooks.transcripts import find_transcripts, read_transcript
    from handrail.settings import paths

    if agent not in AGENTS:
        raise unknown("agent with transcripts", agent, AGENTS)
    files = _files(Path(path)) if path else find_transcripts(agent, paths.home_dir())
    if not files:
        sys.stderr.write(f"There are no transcripts of {agent} {'in ' + path if path else 'of this account'}.\n")
        return 1

    async def imported() -> dict[str, Imported]:
        return {str(file): await import_session(read_transcript(agent, file)) for file in files}

    found = run_async(imported())
    if given["as_json"]:
        print_json([_fields(file, item) for file, item in found.items()])
    else:
        _tell(found)
    return 0


def _files(path: Path) -> list[Path]:
    """List the transcripts at a path; those of subagents belong to the session beside their folder."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*.jsonl") if file.parent.name != "subagents")


def _fields(file: str, item: Imported) -> dict[str, Any]:
    broken = [{"file": name, "line": line, "why": why} for name, line, why in item.broken]
    return {
        "file": file, "run": item.run, "calls": item.calls, "known": item.known, "broken": broken,
        "problem": item.problem,
    }  # fmt: skip


def _tell(found: dict[str, Imported]) -> None:
    for file, item in found.items():
        if item.problem:
            sys.stdout.write(harmless(f"{file}: {item.problem}\n"))
            continue
        known = f", {item.known} known already" if item.known else ""
        calls = "1 call" if item.calls == 1 else f"{item.calls} calls"
        sys.stdout.write(harmless(f"{item.run}: {calls}{known}\n"))
    broken = [(name, line, why) for item in found.values() for name, line, why in item.broken]
    if not broken:
        return
    sys.stderr.write(f"{len(broken)} line{'' if len(broken) == 1 else 's'} could not be read; the rest is imported:\n")
    for name, line, why in broken[:SHOWN]:
        sys.stderr.write(harmless(f"  {name}:{line}: {why}\n"))
    if len(broken) > SHOWN:
        sys.stderr.write(f"  and {len(broken) - SHOWN} more; --json names all\n")

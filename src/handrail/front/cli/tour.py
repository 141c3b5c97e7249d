"""handrail tour: two minutes in a temporary workspace that show what the gate does."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from handrail.runtime import Runtime
    from handrail.words import Outcome

SECRET = "ghp_" + "".join("x7Qm2Kd9"[n % 8] for n in range(36))
PATCH = """*** Begin Patch
*** Update File: src/app.py
@@
-GREETING = "hello"
+GREETING = "good morning"
*** Add File: docs/usage.md
+# Usage
+Run `python src/app.py`.
*** End Patch
"""


@click.command("tour")
@click.option("--auto", is_flag=True, help="answer the approval by itself")
def command(auto: bool) -> int:
    """See it at work in two minutes, in a folder that is thrown away afterwards."""
    alone = auto or not (sys.stdin.isatty() and sys.stderr.isatty())
    with _own_place() as folder:
        return asyncio.run(Tour(folder, alone=alone).run())


@contextmanager
def _own_place() -> Iterator[Path]:
    """A workspace and a state folder of its own; the user's runs and ledger stay as they are."""
    with tempfile.TemporaryDirectory(prefix="handrail-tour-") as name:
        kept = {key: os.environ.get(key) for key in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
        os.environ |= {"XDG_STATE_HOME": f"{name}/state", "XDG_CONFIG_HOME": f"{name}/config"}
        try:
            work = Path(name, "project")
            _furnish(work)
            yield work
        finally:
            for key, value in kept.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value


def _furnish(work: Path) -> None:
    (work / "src").mkdir(parents=True)
    (work / "src" / "app.py").write_text('GREETING = "hello"\n\nprint(GREETING)\n')
    (work / "README.md").write_text("# A small project\n\nIt greets people.\n")
    (work / ".env").write_text("API_TOKEN=not-for-agents\n")
    lines = [f"2026-01-01T00:00:{n % 60:02d} worker {n % 7} handled request {n}" for n in range(4000)]
    lines[20] = f"2026-01-01T00:00:20 worker 6 called the forge with token {SECRET}"
    (work / "server.log").write_text("\n".join(lines) + "\n")


class Tour:
    """The stations, one after the other."""

    def __init__(self, work: Path, *, alone: bool) -> None:
        self._work, self._alone, self._out, self._failed = work, alone, console(), 0

    async def run(self) -> int:
        """Walk through all stations; the exit code tells whether each showed what it should."""
        from rich.panel import Panel

        from handrail.runtime import Runtime

        self._out.print(
            Panel(
                "An agent asks for tool calls. Handrail checks the arguments, decides, asks a person where it must,\n"
                "acts only inside the roots, hides secrets, and writes everything down, so that it can be undone.",
                title="[bold]handrail tour[/]",
                border_style="blue",
            )
        )
        how: dict[str, Any] = {"approver": self._answering()} if self._alone else {}
        settings = {"tools": {"enable": ["fs"]}}
        async with Runtime.open(self._work, config=settings, caller="tour", **how) as runtime:
            await self._stations(runtime)
        self._verify(runtime_folder := self._folder)
        self._out.print(
            f"\n[green bold]That was the tour.[/] Next: [bold]handrail init[/] in a project of yours, then "
            f"[bold]handrail call read_file path=README.md[/]. [dim]({runtime_folder.name} is thrown away)[/]"
        )
        return 1 if self._failed else 0

    async def _stations(self, runtime: Runtime) -> None:
        self._folder = runtime.parts.folder.path
        await self._read(runtime)
        await self._log(runtime)
        await self._denied(runtime)
        await self._write(runtime)
        patched = await self._patch(runtime)
        await self._undo(runtime, patched)
        self._tree()

    async def _read(self, runtime: Runtime) -> None:
        self._title("1", "A read beneath the root is allowed, and proven by a hash")
        self._show(await runtime.call("read_file", {"path": "README.md"}), lambda outcome: outcome.ok)

    async def _log(self, runtime: Runtime) -> None:
        self._title("2", "Long output is cut where it can be continued; secrets never get through")
        outcome = await runtime.call("read_file", {"path": "server.log", "limit": 40})
        good = outcome.ok and SECRET not in outcome.content and "***REDACTED***" in outcome.content
        lines = outcome.content.splitlines()
        self._lines([*lines[:2], "…", lines[20], "…", *lines[-1:]])
        self._verdict(outcome, good=good)

    async def _denied(self, runtime: Runtime) -> None:
        self._title("3", "What is out of bounds is denied, with the rule that says so")
        for path in (".env", "../../etc/passwd"):
            outcome = await runtime.call("read_file", {"path": path})
            self._show(outcome, lambda outcome: outcome.status == "denied")

    async def _write(self, runtime: Runtime) -> None:
        who = "the tour answers itself" if self._alone else "you answer"
        self._title("4", f"Overwriting a file asks first: a person sees the diff ({who})")
        args = {"path": "README.md", "content": "# A small project\n\nIt greets people, politely.\n", "mode": "overwrite"}
        outcome = await runtime.call("write_file", args)
        self._show(outcome, lambda outcome: outcome.ok or outcome.error.code == "APPROVAL_DENIED")

    async def _patch(self, runtime: Runtime) -> Outcome:
        self._title("5", "A patch over two files: all of it or nothing")
        outcome = await runtime.call("apply_patch", {"patch": PATCH})
        self._show(outcome, lambda outcome: outcome.ok)
        return outcome

    async def _undo(self, runtime: Runtime, patched: Outcome) -> None:
        self._title("6", "…and taken back, from the content kept before the change")
        outcome = await runtime.undo(patched.call_id)
        back = (self._work / "src" / "app.py").read_text().startswith('GREETING = "hello"')
        self._show(outcome, lambda outcome: outcome.ok and back)

    def _tree(self) -> None:
        from handrail.front.cli._tables import run_tree
        from handrail.store.reader import events

        self._title("7", "Everything is on record: handrail runs tree")
        self._out.print(run_tree(self._folder.name, events(self._folder)))

    def _verify(self, folder: Path) -> None:
        from handrail.store.reader import verify

        self._title("8", "…in a chain of hashes that shows any change: handrail runs verify")
        found = verify(folder)
        self._failed += not found.ok
        self._out.print(f"[green]whole[/]: {found.events} events" if found.ok else f"[red]changed[/]: {found.problem}")

    def _title(self, number: str, text: str) -> None:
        self._out.print(f"\n[bold blue]{number}[/] [bold]{text}[/]")

    def _show(self, outcome: Outcome, good: Callable[[Any], bool]) -> None:
        self._lines(outcome.content.splitlines()[:12])
        self._verdict(outcome, good=good(outcome))

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            style = {"+": "green", "-": "red"}.get(line[:1], "dim")
            self._out.print(f"  {line[:150]}", style=style, markup=False)

    def _verdict(self, outcome: Outcome, *, good: bool) -> None:
        self._failed += not good
        colour = {"ok": "green", "denied": "red", "pending": "yellow"}.get(outcome.status.value, "red")
        proof = outcome.evidence[0]
        self._out.print(
            f"  [{colour}]{outcome.status.value}[/] [dim]{outcome.decision} by {', '.join(outcome.rules)}; "
            f"evidence {proof.type} {(proof.sha256 or '')[:12]}; {outcome.duration_ms:.1f} ms[/]"
        )

    def _answering(self) -> Any:
        """Shows the request as a person would see it, and says yes once."""
        from handrail.approvals.show import lines, styled
        from handrail.ports import Reply, Request
        from handrail.testing import ScriptedApprover

        def answer(request: Request) -> Reply:
            self._out.print(styled(lines(request, request.created, min(100, self._out.width))))
            self._out.print("  [yellow]answer:[/] once")
            return Reply("granted", by="tour")

        return ScriptedApprover(answer)

"""The stations of the tour: each makes real calls, shows them, and checks that they ended as they should."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from handrail.approvals.show import visible
from handrail.front.cli._tables import DECISION, STATUS, arguments_line, coloured, plain, run_tree, took
from handrail.words import Outcome

if TYPE_CHECKING:
    from handrail.ports import Request
    from handrail.runtime import Runtime

SECRET = "ghp_" + "".join("x7Qm2Kd9"[n % 8] for n in range(36))
POLITE = "# A small project\n\nIt greets people, politely.\n"
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
WELCOME = (
    "An agent asks for tool calls. Handrail checks the arguments, decides, asks a person where it must, acts only "
    "inside the roots, hides secrets, and writes everything down, so that it can be undone."
)


def furnish(work: Path) -> None:
    """Make the small project that the tour works on."""
    (work / "src").mkdir(parents=True)
    (work / "src" / "app.py").write_text('GREETING = "hello"\n\nprint(GREETING)\n')
    (work / "README.md").write_text("# A small project\n\nIt greets people.\n")
    (work / ".env").write_text("API_TOKEN=not-for-agents\n")
    lines = [f"2026-01-01T00:00:{n % 60:02d} worker {n % 7} handled request {n}" for n in range(4000)]
    lines[20] = f"2026-01-01T00:00:20 worker 6 used token {SECRET}"
    (work / "server.log").write_text("\n".join(lines) + "\n")


def _first(most: int, lines: Sequence[str]) -> Sequence[str]:
    return lines if len(lines) <= most else [*lines[:most], "…"]


class Tour:
    """The stations, one after the other."""

    def __init__(self, work: Path, *, alone: bool) -> None:
        self._work, self._alone, self._number, self._failed = work, alone, 0, list[str]()
        width = min(Console().width, 100) if sys.stdout.isatty() else 80
        self._out = Console(highlight=False, emoji=False, width=width)

    async def run(self) -> int:
        """Walk through all stations; the exit code tells whether each showed what it should."""
        from handrail.runtime import Runtime

        self._out.print(Panel(WELCOME, title="[bold]handrail tour[/]", border_style="blue"))
        how: dict[str, Any] = {"approver": self._answering()} if self._alone else {}
        settings = {"tools": {"enable": ["fs", "exec"]}, "exec": {"workspace": "review"}}
        async with Runtime.open(self._work, config=settings, caller="tour", **how) as runtime:
            folder = runtime.parts.folder.path
            stations = (self._read, self._log, self._denied, self._slip, self._write, self._patch, self._commands)
            for station in stations:
                await station(runtime)
                await self._pause()
            self._tree(folder)
            await self._pause()
        self._verify(folder)
        return self._farewell()

    def _farewell(self) -> int:
        if self._failed:
            self._out.print(f"\n[red bold]Not as it should be:[/] {escape('; '.join(self._failed))}")
            return 1
        self._out.print("\n[green bold]That was the tour.[/] Now in a project of yours:")
        self._out.print("  handrail init\n  handrail call read_file path=README.md\n  handrail runs tree")
        return 0

    # ── stations ─────────────────────────────────────────────────────────────────────────────

    async def _read(self, runtime: Runtime) -> None:
        self._title("A read beneath the root is allowed, and proven by a hash")
        outcome = await self._call(runtime, "read_file", {"path": "README.md"})
        self._verdict(outcome, good=outcome.ok and "greets people" in outcome.content)

    async def _log(self, runtime: Runtime) -> None:
        self._title("Long output is cut where it can be continued; secrets never get through")
        outcome = await self._call(
            runtime,
            "read_file",
            {"path": "server.log", "limit": 40},
            pick=lambda lines: [*lines[19:22], "…", lines[-1]],
        )
        hidden = SECRET not in outcome.content and "REDACTED" in outcome.content
        self._verdict(outcome, good=outcome.ok and hidden and outcome.truncation is not None)

    async def _denied(self, runtime: Runtime) -> None:
        self._title("What is out of bounds is denied, with the rule that says so")
        for path in (".env", "../../../etc/passwd", ".ssh/id_rsa"):
            outcome = await self._call(runtime, "read_file", {"path": path})
            self._verdict(outcome, good=outcome.status == "denied")

    async def _slip(self, runtime: Runtime) -> None:
        self._title("A slip is answered with the call that would work")
        outcome = await self._call(runtime, "read_file", {"file_path": "src/app.py"})
        mended = outcome.error.next_call if outcome.error is not None else None
        self._verdict(outcome, good=mended is not None)
        if mended is not None:
            again = await self._call(runtime, mended["tool"], mended["args"])
            self._verdict(again, good=again.ok)

    async def _write(self, runtime: Runtime) -> None:
        who = "the tour answers itself" if self._alone else "you answer"
        self._title(f"Replacing a file asks first: a person sees the diff ({who})")
        outcome = await self._call(runtime, "write_file", {"path": "README.md", "content": POLITE, "mode": "overwrite"})
        changed = (self._work / "README.md").read_text() == POLITE
        refused = outcome.error is not None and outcome.error.code == "APPROVAL_DENIED"
        self._verdict(outcome, good=(outcome.ok and changed) or (refused and not changed))

    async def _patch(self, runtime: Runtime) -> None:
        self._title("A patch over two files is applied whole or not at all")
        patched = await self._call(runtime, "apply_patch", {"patch": PATCH})
        self._verdict(patched, good=patched.ok and (self._work / "docs" / "usage.md").is_file())
        self._title("And it is taken back, from the content kept before the change")
        self._say("[bold]→ handrail runs undo[/]")
        undone = await runtime.undo(patched.call_id)
        self._lines(undone.content.splitlines())
        back = (self._work / "src" / "app.py").read_text().startswith('GREETING = "hello"')
        self._verdict(undone, good=undone.ok and back and not (self._work / "docs").exists())

    async def _commands(self, runtime: Runtime) -> None:
        self._title("Commands run in a sandbox: some need no question, some are never run")
        shown = await self._call(runtime, "run_command", {"command": "grep -n GREETING src/*.py; cat .env || true"})
        if shown.error is not None and shown.error.code == "SANDBOX_UNAVAILABLE":
            self._say("[yellow]left out:[/] no sandbox fits this machine; `handrail doctor` says why")
            return
        self._verdict(shown, good=shown.decision == "allow" and "not-for-agents" not in shown.content)
        denied = await self._call(runtime, "run_command", {"command": "rm -rf / --no-preserve-root"})
        self._verdict(denied, good=denied.status == "denied")
        who = "the tour answers itself" if self._alone else "you answer"
        self._title(f"Another asks first, and its effect is shown as a diff before it is kept ({who})")
        line = {"command": "sed -i 's/hello/good evening/' src/app.py && python3 src/app.py"}
        changed = await self._call(runtime, "run_command", line, pick=lambda lines: _first(14, lines))
        kept = "good evening" in (self._work / "src" / "app.py").read_text()
        refused = changed.error is not None and changed.error.code == "APPROVAL_DENIED"
        self._verdict(changed, good=(changed.ok and kept) or (refused and not kept))

    def _tree(self, folder: Path) -> None:
        from handrail.store.reader import events

        self._title("Everything is on record")
        self._say("[bold]→ handrail runs tree[/]")
        self._out.print(run_tree(folder.name, events(folder), self._out.width))

    def _verify(self, folder: Path) -> None:
        from handrail.store.reader import verify

        self._title("In a chain of hashes that shows any change")
        self._say("[bold]→ handrail runs verify[/]")
        found = verify(folder)
        self._say(f"[green]whole[/]: {found.events} events" if found.ok else f"[red]changed[/]: {plain(found.problem)}")
        copy = folder.with_name("copy")
        shutil.copytree(folder, copy)
        journal = copy / "events.jsonl"
        journal.write_bytes(journal.read_bytes().replace(b'"decision":"deny"', b'"decision":"allow"', 1))
        changed = verify(copy)
        self._say("[dim]and in a copy where one word was changed, a deny into an allow:[/]")
        self._say(f"[red]changed[/]: {plain(changed.problem)}" if not changed.ok else "[green]whole[/]")
        if not found.ok or changed.ok:
            self._failed.append(f"station {self._number}")

    # ── showing ──────────────────────────────────────────────────────────────────────────────

    async def _call(
        self,
        runtime: Runtime,
        tool: str,
        args: Mapping[str, Any],
        pick: Callable[[list[str]], Sequence[str]] = lambda lines: _first(16, lines),
    ) -> Outcome:
        self._say(f"[bold]→ {tool}[/] {escape(arguments_line(args, self._out.width))}")
        outcome = await runtime.call(tool, args)
        text = outcome.content if outcome.error is None else f"{outcome.error.code}: {outcome.error.message}"
        self._lines(pick(text.splitlines()) if outcome.error is None else text.splitlines())
        return outcome

    def _title(self, text: str) -> None:
        self._number += 1
        self._out.print(f"\n[bold blue]{self._number}[/] [bold]{text}[/]")

    def _say(self, markup: str) -> None:
        line = Text.from_markup(f"  {markup}")
        line.truncate(self._out.width, overflow="ellipsis")
        self._out.print(line)

    def _lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            style = {"+": "green", "-": "red"}.get(line[:1], "dim")
            for folded in Text(visible(line), style).wrap(self._out, self._out.width - 4):
                self._out.print(Text("    ").append_text(folded))

    def _verdict(self, outcome: Outcome, *, good: bool) -> None:
        if not good:
            self._failed.append(f"station {self._number}: {outcome.status.value}")
        mark = "✔" if good else "✘ not as it should be:"
        decided = coloured(outcome.decision, DECISION) if outcome.rules else "not judged"
        rules = f" by {', '.join(outcome.rules)}" if outcome.rules else ""
        proof = f"{outcome.evidence[0].type} {(outcome.evidence[0].sha256 or '')[:8]}".rstrip()
        self._say(
            f"{mark} {coloured(outcome.status.value, STATUS)} [dim]·[/] {decided}[dim]{plain(rules)} · "
            f"{proof} · {took(outcome.duration_ms)}[/]"
        )

    async def _pause(self) -> None:
        """Wait for Enter, and hear what asks to end meanwhile."""
        import asyncio

        if self._alone:
            return
        self._out.print("\n[dim]Enter: go on[/] ", end="")
        loop, typed = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(sys.stdin)
        sys.stdin.readline()

    def _answering(self) -> Any:
        """Shows the request as a person would see it, and says yes once."""
        from handrail.approvals.show import lines, styled
        from handrail.ports import Reply
        from handrail.testing import ScriptedApprover

        def answer(request: Request) -> Reply:
            shown = styled(lines(request, request.created, self._out.width))
            self._out.print(shown, soft_wrap=True, end="")
            self._out.print("  [yellow]answer[/]   once")
            return Reply("granted", by="tour")

        return ScriptedApprover(answer)

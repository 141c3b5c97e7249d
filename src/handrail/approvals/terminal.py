"""Asking the person at the terminal: what will happen and why, then one question that only a whole line answers.

All that an approval is bound to and that is not as always stands on the card; `d` shows the rest.

Leaving is no answer: after the end of the input, a hang-up or Ctrl-C the request stays pending, and Ctrl-C interrupts
the program as it does anywhere else. A crash or cancelling while the question stands denies the request; only for
somebody who watches the requests of others that is no answer, too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from handrail.approvals import card, show
from handrail.approvals._tty import Terminal, open_terminal
from handrail.approvals.account import account
from handrail.ports import Answered, Clock, Reply, Request, SharedLedger
from handrail.words import Scope


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer a person can give."""

    word: str  # typed whole, or by its key
    key: str
    meaning: str
    scope: Scope = Scope.NONE  # NONE: a refusal


ONCE = Choice("once", "y", "once", Scope.CALL)
RUN = Choice("run", "r", "this run", Scope.RUN)
SESSION = Choice("session", "s", "runs of the next hours", Scope.SESSION)
ALWAYS = Choice("always", "a", "always", Scope.ALWAYS)
NO = Choice("no", "n", "no")
ADVICE = Choice("advice", "t", "no, tell it why")
LATER = Choice("later", "l", "later")  # it stays pending, for another time or another person
CHOICES = (ONCE, RUN, SESSION, ALWAYS, NO, ADVICE)
_DETAILS = ("d", "details")
_ALSO = {"yes": ONCE, "o": ONCE}
_MOST_ECHOED = 60  # characters of an answer that was not understood


class Ended(Exception):
    """The person ended the input instead of answering."""


def interrupt() -> None:
    """Do what Ctrl-C does while no question stands."""
    import signal

    signal.raise_signal(signal.SIGINT)


class TerminalApprover:
    """Asks at the terminal, one question at a time, and goes on when somebody answers elsewhere."""

    def __init__(
        self,
        ledger: SharedLedger,
        clock: Clock,
        stream_in: TextIO | None = None,
        stream_out: TextIO | None = None,
        *,
        watching: bool = False,
        interrupt: Callable[[], None] = interrupt,
    ) -> None:
        """Take where to ask; `watching` is for the requests of other processes, which may be left as they are."""
        self.ended = False  # somebody who watched has ended that
        self.elsewhere = False  # the last request was answered by somebody else, or by time
        self.last_call = False  # the run ends with the call that is asked for: nothing holds for the rest of it
        self.setting = show.Setting(home=os.path.expanduser("~"))  # of the next request
        self._interrupt = interrupt
        self._watching = watching
        self._ledger = ledger
        self._clock = clock
        self._streams = (stream_in, stream_out)
        self._turn = asyncio.Lock()
        self._late: set[str] = set()  # requests that nobody waits for any more, though they stay pending

    async def ask(self, request: Request) -> Reply:
        """Give the answer on record, whoever gave it; `pending` where there is no terminal."""
        return await self.ask_within(request, None)

    async def ask_within(self, request: Request, seconds: float | None) -> Reply:
        """Ask like `ask`; after so many seconds the question is withdrawn, and its request stays pending."""
        here = asyncio.ensure_future(self._ask_here(request))
        elsewhere = asyncio.ensure_future(self._ledger.wait(request.id, clock=self._clock))
        try:
            done, _ = await asyncio.wait((here, elsewhere), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            self.elsewhere = not here.done()
            if not done:
                self._late.add(request.id)
            if not done or (here.done() and not here.result()):
                return Reply("pending", Scope.NONE)
            return await elsewhere
        finally:
            here.cancel()
            elsewhere.cancel()
            await asyncio.gather(here, elsewhere, return_exceptions=True)
            self._late.discard(request.id)

    async def _ask_here(self, request: Request) -> bool:
        """Put the question and settle it; False where there is no terminal."""
        async with self._turn:
            terminal = open_terminal(*self._streams)
            if terminal is None:
                return False
            with terminal:
                reply = Reply("denied", Scope.NONE, f"{account()}, unanswered at the terminal")
                if self._watching:
                    reply = Reply("pending", Scope.NONE)
                try:
                    reply = await self._conversed(terminal, request)
                finally:
                    if request.id in self._late:
                        reply = Reply("pending", Scope.NONE)
                        terminal.say(
                            f"\nToo late: what asked does not wait any more, and {request.id} stays pending.\n"
                        )
                    self._settle(terminal, request, reply)
            if terminal.interrupted and reply.state == "pending" and not self._watching:
                self._interrupt()
        return reply.state != "pending"

    async def _conversed(self, terminal: Terminal, request: Request) -> Reply:
        choices = [choice for choice in CHOICES if choice is not RUN or not self.last_call]
        choices += [LATER] if self._watching else []
        try:
            return await converse(terminal, request, self._clock.now(), choices, self.setting)
        except Ended:
            self.ended = True
            if not self._watching:
                terminal.say(f"\nNot answered: {request.id} stays pending.\n")
            return Reply("pending", Scope.NONE)
        except OSError:  # the terminal is gone
            self.ended = True
            return Reply("pending", Scope.NONE)

    def _settle(self, terminal: Terminal, request: Request, reply: Reply) -> None:
        if reply.state == "pending":
            return
        try:
            self._ledger.answer(request.id, reply)
        except Answered as earlier:
            who = f" by {show.visible(earlier.by)}" if earlier.by else ""
            terminal.say(f"\n{request.id}: {earlier.state} already{who}; that counts.\n")


async def converse(
    terminal: Terminal,
    request: Request,
    now: float,
    choices: Sequence[Choice] = CHOICES,
    setting: show.Setting | None = None,
) -> Reply:
    """Show the request page by page, then ask until there is an answer; Ended where the person leaves."""
    by = _by()
    refusal = Reply("denied", Scope.NONE, by)
    width, rows = terminal.size
    # Where nothing can be named that a wider grant would cover, none is offered.
    widest = max(request.max_scope, Scope.CALL) if request.touches else Scope.CALL
    offered = {choice.word: choice for choice in choices if choice.scope <= widest}
    if widest is Scope.ALWAYS:  # then nobody needs some hours
        offered.pop(SESSION.word, None)
    answers = [(choice.key, choice.meaning, choice.scope > Scope.CALL) for choice in offered.values()]
    asked = [
        *card.card(request, width, setting or show.Setting(home=os.path.expanduser("~"))),
        *card.list_answers(request, [*answers, ("d", f"details of Approval {request.id}", False)], width),
    ]
    if not await _show_pages(terminal, asked, rows):
        return refusal
    while True:
        await terminal.write(f"Answer ({', '.join(offered)}): ")
        line = await _line(terminal)
        if line.lower() in _DETAILS:
            if not await _show_pages(terminal, show.lines(request, now, width), rows):
                return refusal
            continue
        choice = _chosen(line, offered)
        if choice is LATER:
            return Reply("pending", Scope.NONE)
        if choice is ADVICE:
            await terminal.write("Advice to the model: ")
            return Reply("denied", Scope.NONE, by, await _line(terminal))
        if choice is not None:
            return Reply("granted", choice.scope, by) if choice.scope else refusal
        await terminal.write(_not_understood(line, list(offered)))


async def confirm(terminal: Terminal, request: Request, now: float, meaning: str, *, wider: bool) -> bool:
    """Show the request page by page, then ask whether to grant it as `meaning` says; Ended where the person leaves."""
    width, rows = terminal.size
    if not await _show_pages(terminal, show.lines(request, now, width), rows):
        return False
    asked = [show.Line("", ""), show.Line("", meaning, "bold")]
    await terminal.write(_render(terminal, asked + (show.coverage(request, width) if wider else [])))
    while True:
        await terminal.write("Grant it? (yes, no): ")
        line = await _line(terminal)
        if line.lower() in ("y", "yes", "n", "no"):
            return line.lower() in ("y", "yes")
        await terminal.write(_not_understood(line, ["yes", "no"]))


async def _show_pages(terminal: Terminal, shown: list[show.Line], rows: int) -> bool:
    """Show all lines, a screen at a time; False when the person refuses on the way."""
    page = max(rows - 2, 8) if rows else len(shown)
    for start in range(0, len(shown), page):
        await terminal.write(_render(terminal, shown[start : start + page]))
        left = len(shown) - start - page
        if left <= 0:
            break
        await terminal.write(f"-- {left} more line{'' if left == 1 else 's'}; Enter: go on, e: all the rest, n: no -- ")
        line = await _line(terminal)
        if line.lower() in ("n", "no"):
            return False
        if line.lower() == "e":
            await terminal.write(_render(terminal, shown[start + page :]))
            break
    if page < len(shown):
        terminal.forget_typed()  # before the end was on the screen
    return True


async def _line(terminal: Terminal) -> str:
    line = await terminal.line()
    if line is None:
        raise Ended
    return line


def _chosen(line: str, offered: Mapping[str, Choice]) -> Choice | None:
    typed = line.lower()
    if typed in _ALSO:
        return _ALSO[typed]
    return next((choice for choice in offered.values() if typed in (choice.word, choice.key)), None)


def _not_understood(line: str, words: Sequence[str]) -> str:
    said = f"not understood: {show.visible(line[:_MOST_ECHOED])}; " if line else ""
    return f"{said}answer {', '.join(words[:-1])} or {words[-1]}\n"


def _render(terminal: Terminal, shown: list[show.Line]) -> str:
    if not terminal.coloured:
        return show.plain(shown)
    import io

    from rich.console import Console

    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=True, highlight=False, emoji=False, markup=False)
    console.print(show.styled(shown), soft_wrap=True, end="")
    return buffer.getvalue()


def _by() -> str:
    return f"{account()} at the terminal"

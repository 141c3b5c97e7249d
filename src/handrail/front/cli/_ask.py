"""A question of a task, asked at the terminal; an answer from elsewhere ends the asking."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from handrail.front.cli._common import harmless

if TYPE_CHECKING:
    from handrail.agent.inbox import Inbox
    from handrail.agent.tasks import PersonQuestion
    from handrail.approvals._tty import Terminal

POLL_SECONDS = 0.1


async def ask_here(inbox: Inbox, question: PersonQuestion) -> PersonQuestion:
    """Ask the person at this terminal; return the question with its answer, or without where they left."""
    from handrail.approvals._tty import open_terminal

    terminal = open_terminal(None, None)
    if terminal is None:
        return question
    with terminal:
        here = asyncio.ensure_future(_converse(inbox, terminal, question))
        elsewhere = asyncio.ensure_future(_answered(inbox, question.id))
        try:
            await asyncio.wait((here, elsewhere), return_when=asyncio.FIRST_COMPLETED)
        finally:
            here.cancel()
            elsewhere.cancel()
            await asyncio.gather(here, elsewhere, return_exceptions=True)
    return inbox.question(question.id)


async def _converse(inbox: Inbox, terminal: Terminal, question: PersonQuestion) -> None:
    from handrail.agent.inbox import QuestionAnswered
    from handrail.approvals.account import account
    from handrail.errors import Misuse

    choices = f" ({', '.join(question.choices)})" if question.choices else ""
    await terminal.write(f"\n{harmless(question.text)}{choices}\n")
    while True:
        await terminal.write("> ")
        line = await terminal.line()
        if line is None:
            await terminal.write("\nNot answered; the task waits.\n")
            return
        try:
            inbox.answer(question.id, line, account())
        except Misuse as misuse:
            await terminal.write(f"{misuse}\n")
        except QuestionAnswered:
            return
        else:
            return


async def _answered(inbox: Inbox, question_id: str) -> None:
    while inbox.question(question_id).answer is None:  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(POLL_SECONDS)

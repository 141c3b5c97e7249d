"""The contract of a commander: receive tasks and messages, send, ask, edit. No I/O here.

A commander runs in the supervisor. It never decides and never works: it writes tasks, messages and answers to questions
into the inbox, answers to approvals into the ledger, and follows `Inbox.notices` and the journals of the runs. What it
sends is addressed by id; where a message belongs is the `origin` of its task, as this commander wrote it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from handrail.words import Json


@dataclass(frozen=True, slots=True)
class Address:
    """Where a commander's messages go: a chat, a terminal. Kept as `origin` of a task."""

    commander: str  # its name
    place: str  # in its own terms, such as a chat's id
    person: str = ""  # who wrote, as the journal names them

    def to_json(self) -> dict[str, Json]:
        """Return the address as a task's `origin`."""
        return {"commander": self.commander, "place": self.place, "by": self.person}


@dataclass(frozen=True, slots=True)
class IncomingTask:
    """A new task; `key` is the same for the same message, so that one received twice is one task."""

    address: Address
    text: str
    key: str
    workspace: str = ""  # empty: the supervisor's
    queue: str = ""


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message to a task that runs or waits. It answers no question and approves nothing."""

    address: Address
    task: str
    text: str
    key: str


@dataclass(frozen=True, slots=True)
class IncomingAnswer:
    """An answer to one card, by the card's id: a choice of it, or text where the card takes text."""

    address: Address
    card: str  # the id of a question in the inbox or of a request in the ledger
    choice: str  # of the card's choices; empty where `text` answers
    text: str = ""  # advice with a no, or the answer to a question without choices
    reference: str = ""  # what the commander needs to react to this very press


Incoming = IncomingTask | IncomingMessage | IncomingAnswer


@dataclass(frozen=True, slots=True)
class Card:
    """Something a person decides or answers: an approval (`apr_…`) or a question (`qst_…`)."""

    id: str
    task: str
    title: str  # one line: what is asked
    text: str  # the whole of it, redacted; must reach the person before `choices` may be offered
    choices: Mapping[str, str] = field(default_factory=dict)  # by the word that answers: what is shown for it
    documents: Sequence[tuple[str, str]] = ()  # name and text of what does not fit a message, such as a whole diff


class Commander(Protocol):
    """One way to reach people."""

    name: str

    def receive(self) -> AsyncIterator[Incoming]:
        """Give what people write, for as long as the commander runs; a cut connection is the commander's to mend.

        What was given and not yet asked for the next of, is given again after a restart: keys join the doubles.
        """

    async def send(self, address: Address, text: str) -> str:
        """Send a message; return a reference to edit it by."""

    async def ask(self, address: Address, card: Card) -> str:
        """Send a card with its documents whole; return a reference to edit it by."""

    async def edit(self, address: Address, reference: str, text: str) -> None:
        """Replace a message or a card, whose buttons go with that; what is gone by now is passed over."""

    async def close(self) -> None:
        """Stop receiving and let go of connections."""

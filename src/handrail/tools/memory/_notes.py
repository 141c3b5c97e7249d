"""What the memory tools share: bounds of a note, refusing secrets, and how a change is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from handrail.errors import Code, Problem
from handrail.output.patterns import MARK
from handrail.ports import NoteKept, Secrets
from handrail.words import Answer, Evidence, Touch, TouchKind

Scope = Literal["workspace", "user"]
Content = Annotated[str, Field(min_length=1, max_length=32_768)]
Title = Annotated[str, Field(min_length=1, max_length=300)]
Tag = Annotated[str, Field(min_length=1, max_length=64)]
NoteId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\w.:-]+$")]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a note: stored, changed or deleted now, or waiting for a person."""

    id: str
    action: str
    scope: str
    status: Literal["stored", "candidate"]
    ref: str | None = None


def touch_of(scope: str) -> list[Touch]:
    """What writing touches: the memory of a scope."""
    return [Touch(TouchKind.MEMORY_WRITE, scope)]


def refuse_secrets(secrets: Secrets, texts: Iterable[str | None]) -> None:
    """Refuse what holds a secret, or the mark that stands where one was hidden; nothing has been stored then."""
    together = "\n".join(text for text in texts if text)
    if MARK in together:
        what = f"the mark {MARK}, which stands where a secret was hidden"
    elif secrets.text(together) != together:
        what = "what looks like a secret"
    else:
        return
    raise Problem(
        Code.POLICY_DENIED,
        f"Nothing was stored: the note holds {what}. Notes never hold secrets. Write it again without the value: "
        "say where the secret is kept (the name of a variable or file) instead.",
        reason="secret",
    )


def told(kept: NoteKept, action: str, scope: str) -> Answer[Kept]:
    """Say what became of a change."""
    if kept.candidate:
        text = (
            f"The change waits for a person ({action}, {scope}); until it is accepted, recall_memory does not show it."
        )
        how = f"A person accepts it with `handrail memory accept {kept.id}`."
        result = Kept(kept.id, action, scope, "candidate", f"run:{kept.ref}")
        return Answer(result, summary=text, content=f"{text} {how}", evidence=(Evidence("tool", kept.id, text),))
    done = {"create": "stored", "update": "changed", "delete": "deleted"}[action]
    text = f"Note {kept.id} {done} ({scope})."
    result = Kept(kept.id, action, scope, "stored")
    return Answer(result, summary=text, content=text, evidence=(Evidence("tool", kept.id, text),))

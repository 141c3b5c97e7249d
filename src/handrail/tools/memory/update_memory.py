"""update_memory: create, change or delete a note."""

from __future__ import annotations

from typing import Annotated, Literal

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Memory, NoteChange, Secrets
from handrail.tools.memory._notes import Content, Kept, NoteId, Scope, Title, refuse_secrets, told, touch_of
from handrail.words import Answer

Action = Literal["create", "update", "delete"]


@tool(risk="medium", permissions=["memory.write"], touches=lambda args: touch_of(args["scope"]), does="destroys")
async def update_memory(
    memory: Memory,
    secrets: Secrets,
    action: Action,
    title: Annotated[Title | None, "A short name"] = None,
    content: Annotated[Content | None, "What to remember"] = None,
    id: Annotated[NoteId | None, "The note to update or delete, as recall_memory gives it"] = None,  # noqa: A002
    scope: Annotated[Scope, "Where the note lives"] = "workspace",
) -> Answer[Kept]:
    """Create, update or delete a note for later runs. Never write secrets. A person may have to accept it first."""
    _check(action, title, content, id)
    refuse_secrets(secrets, [id, title, content])
    if action == "delete":
        title = content = None
    return told(await memory.write(NoteChange(action, id or "", content, title, scope)), action, scope)


def _check(action: str, title: str | None, content: str | None, note_id: str | None) -> None:
    """Refuse a change that does not say what it is about."""
    if action == "create":
        if content is None:
            raise _missing("content", "To create a note, say what to remember.")
        if note_id is not None:
            raise _missing("id", "A new note is given its id; leave `id` out, or use action `update`.")
        return
    if note_id is None:
        raise _missing("id", f"To {action} a note, name it; recall_memory gives the ids.")
    if action == "update" and title is None and content is None:
        raise _missing("content", "To update a note, give its new title or content.")


def _missing(field: str, text: str) -> Problem:
    return Problem(Code.INVALID_ARGS, f"{field}: {text}", field=field)

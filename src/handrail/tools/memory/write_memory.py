"""write_memory: leave a note for later runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from handrail.catalog import tool
from handrail.ports import Memory, NoteChange, Secrets
from handrail.tools.memory._notes import Content, Kept, Scope, Tag, refuse_secrets, told, touch_of
from handrail.words import Answer


@tool(risk="medium", permissions=["memory.write"], touches=lambda args: touch_of(args["scope"]))
async def write_memory(
    memory: Memory,
    secrets: Secrets,
    content: Annotated[Content, "What to remember, in full sentences"],
    scope: Annotated[Scope, "workspace: for this project; user: for all projects"] = "workspace",
    tags: Annotated[list[Tag] | None, Field(max_length=20)] = None,
) -> Answer[Kept]:
    """Leave a note for later runs. Never write secrets. A person may have to accept it first."""
    refuse_secrets(secrets, [content, *(tags or [])])
    change = NoteChange("create", content=content, scope=scope, tags=tuple(tags or ()))
    return told(await memory.write(change), "create", scope)

"""Notes in a service that speaks JSON over HTTP; every request goes through the network room.

POST {url}/search             {"query", "scope" (or null), "limit"}             -> {"notes": [note, …]}
POST {url}/notes              note without score                               -> note; the same id twice is one note
POST {url}/notes/{id}         {"scope", "title", "content", "tags", "updated"}  -> note; what is null stays
POST {url}/notes/{id}/delete  {"scope"}                                         -> anything

A note is {"id", "title", "content", "scope", "tags", "created", "updated", "score"}; 404: there is no such note.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from handrail.errors import Code, Problem
from handrail.ports import HttpRequest, Net, Note, NoteChange
from handrail.strict_json import loads

MAX_BYTES = 4 << 20  # of an answer
MAX_TEXT = 65_536  # characters of a note that are taken
_QUICK_BYTES = 64 * 1024
SCOPES = ("workspace", "user")
_ID = re.compile(r"[\w.:-]{1,200}")


class HttpMemory:
    """Satisfies `ports.MemoryProvider` over a service; bound to one call's network."""

    def __init__(self, net: Net, url: str, timeout_seconds: float = 10.0) -> None:
        self._net, self._url, self._seconds = net, url.rstrip("/"), timeout_seconds

    async def search(self, query: str, scope: str | None, limit: int) -> Sequence[Note]:
        """Give the notes that the service finds, in its order."""
        answer = await self._post("/search", {"query": query, "scope": scope, "limit": limit})
        notes = answer.get("notes") if isinstance(answer, Mapping) else None
        if not isinstance(notes, list):
            raise self._strange("it holds no list `notes`")
        found = (self._note(item) for item in notes[:limit])
        return [note for note in found if scope in (None, note.scope)]

    async def add(self, note: Note) -> Note:
        """Keep a new note under the id it brings."""
        fields = {
            "id": note.id,
            "title": note.title,
            "content": note.content,
            "scope": note.scope,
            "tags": list(note.tags),
            "created": note.created,
            "updated": note.updated,
        }
        return self._note(await self._post("/notes", fields))

    async def change(self, change: NoteChange, now: float) -> Note:
        """Put new text in place of what a note says."""
        tags = None if change.tags is None else list(change.tags)
        fields = {
            "scope": change.scope,
            "title": change.title,
            "content": change.content,
            "tags": tags,
            "updated": now,
        }
        return self._note(await self._post(f"/notes/{_quoted(change.id)}", fields, change.id))

    async def remove(self, note_id: str, scope: str) -> None:
        """Forget a note."""
        await self._post(f"/notes/{_quoted(note_id)}/delete", {"scope": scope}, note_id, read=False)

    async def close(self) -> None:
        """Nothing is held open."""

    async def _post(self, path: str, fields: Mapping[str, Any], note_id: str = "", *, read: bool = True) -> Any:
        request = HttpRequest(
            f"{self._url}{path}",
            "POST",
            {"Content-Type": "application/json", "Accept": "application/json"},
            orjson.dumps(fields),
            timeout_seconds=self._seconds,
            max_bytes=MAX_BYTES,
        )
        response = await self._net.fetch(request)
        if response.status == 404 and note_id:
            text = f"There is no note {note_id!r} in scope {fields.get('scope')!r}."
            raise Problem(Code.NOT_FOUND, text, id=note_id)
        if not 200 <= response.status < 300:
            text = (
                f"The memory service answered {response.status}; nothing is known to have been remembered or recalled."
            )
            raise Problem(Code.UPSTREAM_ERROR, text, status=response.status)
        if not read:
            return None
        try:
            # A few megabytes of brackets take seconds to read; the others go on meanwhile.
            if len(response.body) > _QUICK_BYTES:
                return await asyncio.to_thread(_read, response.body)
            return _read(response.body)
        except (ValueError, RecursionError) as error:
            raise self._strange(str(error)) from None

    def _note(self, item: Any) -> Note:
        if not isinstance(item, Mapping) or not isinstance(item.get("content"), str):
            raise self._strange("a note needs `id` and `content`")
        # It is shown beside the note's own words, and must be one that update_memory takes.
        if not isinstance(item.get("id"), str) or not _ID.fullmatch(item["id"]):
            raise self._strange("a note's `id` is 1 to 200 letters, digits and any of . : _ -")
        if (scope := item.get("scope") or "workspace") not in SCOPES:
            raise self._strange(f"a note's `scope` is one of {', '.join(SCOPES)}")
        tags = item.get("tags")
        return Note(
            item["id"],
            item["content"][:MAX_TEXT],
            _text(item.get("title"))[:300],
            scope,
            tuple(str(tag)[:64] for tag in tags[:20]) if isinstance(tags, list) else (),
            _number(item.get("created")),
            _number(item.get("updated")),
            _number(item.get("score")),
        )

    def _strange(self, why: str) -> Problem:
        return Problem(Code.UPSTREAM_ERROR, f"What the memory service answered cannot be read: {why}.", reason=why)


def _read(body: bytes) -> Any:
    return loads(body.decode("utf-8"))


def _quoted(note_id: str) -> str:
    """An id as one segment of a path; `..` stays a name."""
    return quote(note_id, safe="").replace(".", "%2E")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
    except OverflowError:  # a number with hundreds of digits
        return 0.0

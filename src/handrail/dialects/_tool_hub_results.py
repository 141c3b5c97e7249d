"""The results of the core/* tools in the document's fields."""

from __future__ import annotations

from typing import Any

from handrail.dialects._telling import excerpt
from handrail.words import Json, Outcome


def of_read(outcome: Outcome) -> Json:
    """Give a file's text within what a model is shown; of a large file its beginning, its hash and where it is."""
    data, path = outcome.data, outcome.evidence[0].ref
    where = f"the whole is {path}, sha256 {data['sha256']}"
    text = excerpt(data["text"], where)
    cut = outcome.truncation
    if text is data["text"] and not data["complete"] and cut is not None:
        text = f"{text.rstrip()}\n[truncated: {cut.shown} of {cut.total} {cut.by}; {where}]"
    return {"path": path, "text": text, "bytes": data["bytes"]}


def of_search(outcome: Outcome) -> Json:
    """Matches, a line each."""
    rows = outcome.data["matches"]
    told = {"matches": [{"file": row["file"], "lineNo": row["line"], "excerpt": row["text"]} for row in rows]}
    return {**told, **_next(outcome)}


def of_list(outcome: Outcome) -> Json:
    """Entries, and where they go on."""
    return {"entries": outcome.data["entries"], **_next(outcome)}


def _next(outcome: Outcome) -> dict[str, Json]:
    cursor = outcome.data.get("next_cursor")
    return {} if cursor is None else {"nextCursor": cursor}


def of_fetch(outcome: Outcome) -> Json:
    """An answer, or the page of it that fits; then where the whole is."""
    told = only("url", "status", "headers", "text", "bytes")(outcome)
    cut = outcome.truncation
    if outcome.data["complete"] or cut is None:
        return told
    more = ({"nextCursor": cut.next_cursor} if cut.next_cursor else {}) | _kept(outcome)
    where = "`cursor` goes on, downloadFile keeps it"
    if outcome.refs:
        what = "all that was taken" if cut.total is None else "the whole"
        where = f"{what} is {outcome.refs[-1].ref}"
    elif cut.total is None:
        where = "the response is larger than maxHttpBytes, downloadFile keeps it"
    return {**told, "text": f"{told['text'].rstrip()}\n[truncated; {where}]", **more}


def of_text(outcome: Outcome) -> Json:
    """A utility's text within what a model is shown; the whole is a file."""
    return {"text": excerpt(outcome.data["text"], _where(outcome))} | _kept(outcome)


def of_select(outcome: Outcome) -> Json:
    """A selected value; one that is too large as the beginning of its JSON, the whole is a file."""
    if not outcome.refs:
        return {"value": outcome.data["value"]}
    import orjson

    text = orjson.dumps(outcome.data["value"], option=orjson.OPT_INDENT_2).decode()
    return {"value": excerpt(text, _where(outcome)), **_kept(outcome)}


def _where(outcome: Outcome) -> str:
    whole = f"the whole is {outcome.refs[-1].ref}; " if outcome.refs else ""
    return f"{whole}keep long texts in files with core/fs.writeText"


def _kept(outcome: Outcome) -> dict[str, Json]:
    return {"fileRef": outcome.refs[-1].ref} if outcome.refs else {}


def of_download(outcome: Outcome) -> Json:
    """The file that was written."""
    data = outcome.data
    return {"destPath": data["path"], "bytes": data["bytes"], "sha256": data["sha256"]}


def of_now(outcome: Outcome) -> Json:
    """The time in three forms."""
    data = outcome.data
    return {"iso": data["iso"], "epochMs": data["epoch_ms"], "timezone": data["timezone"]}


def only(*names: str) -> Any:
    """The named fields as they are."""
    return lambda outcome: {name: outcome.data[name] for name in names}

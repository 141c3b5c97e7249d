"""The cursor of a file that is shown in part: what our read_file takes to go on, without the path."""

from __future__ import annotations

import json

from handrail.dialects._dialect import Args
from handrail.errors import Code, Problem

GOES_ON = ("offset", "limit", "column", "byte_offset", "byte_limit")


def goes_on(args: Args) -> Args:
    """The arguments that a cursor of read_file stands for."""
    cursor = args.pop("cursor", None)
    if cursor is None:
        return args
    try:
        part = json.loads(cursor)
    except (ValueError, RecursionError):
        part = None
    if not isinstance(part, dict) or not set(part) <= set(GOES_ON):
        raise Problem(Code.INVALID_ARGS, "`cursor` is none that was given for a file; leave it out to start over.")
    return {**args, **part}


def following(cursor: str | None) -> str | None:
    """The cursor that goes on with a file, from ours, which names the path once more; none where it leads nowhere."""
    try:
        part = json.loads(cursor or "{}")
    except ValueError:  # a secret in it was hidden
        return None
    return json.dumps({name: part[name] for name in GOES_ON if name in part}) if part else None


def as_cursor(args: Args) -> Args | None:
    """Our arguments in the document's: what names a part stands in the cursor."""
    part = {name: args[name] for name in GOES_ON if name in args}
    if set(args) - {"path", "keep", *part}:
        return None
    return {"path": args["path"], **({"cursor": json.dumps(part)} if part else {})}

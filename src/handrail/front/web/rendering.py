"""Pages from templates: everything is text unless a template of ours says otherwise; each page is JSON, too."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import Response

from handrail import __version__
from handrail.approvals.show import visible
from handrail.errors import Code
from handrail.front.web.access import access_of, service_of
from handrail.service.inbox import Refusal

HERE = Path(__file__).parent
STATIC = HERE / "static"
_MOST_FIELDS = 1000


class Absent(StrictUndefined):
    """What a template asks for and is not there: false where it is asked about, an error where it is shown."""

    def __bool__(self) -> bool:  # type: ignore[override]
        return False


def render(request: Request, template: str, view: dict[str, Any], *, status: int = 200) -> Response:
    """Answer with a page, or with what it shows as JSON where that was asked for."""
    if request.url.path.endswith(".json"):
        told = {name: value for name, value in view.items() if not name.startswith("_")}
        return Response(
            orjson.dumps(told, default=str, option=orjson.OPT_NON_STR_KEYS), status, media_type="application/json"
        )
    access = access_of(request)
    page = environment().get_template(template)
    text = page.render(
        **view,
        request=request,
        identity=access.identity,
        csrf="" if access.session is None else access.session.csrf,
        nonce=access.nonce,
        waiting=0 if access.identity is None else service_of(request).inbox.count_open(service_of(request).clock.now()),
        version=__version__,
    )
    return Response(text, status, media_type="text/html; charset=utf-8")


@cache
def environment() -> Environment:
    """Make the templates' environment: autoescaping is on for all of them."""
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=Absent,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "clear": clear,
        "lines": clear_lines,
        "ago": ago,
        "clock": clock,
        "took": took,
        "part": lambda text: quote(str(text), safe=""),
        "pretty": pretty,
        "size": size,
        "home": from_home,
        "tail": lambda text: str(text)[-12:],
    }
    found.globals["asset"] = asset
    return found


def clear(value: Any) -> str:
    """Write a text so that nothing in it hides, reorders or steers what is around it."""
    return visible(str(value))


def clear_lines(value: Any) -> str:
    """Write a text of several lines in the same way; lines stay lines."""
    return "\n".join(visible(line) for line in str(value).split("\n"))


def ago(seconds: float) -> str:
    """Say how long ago something was, or how long it will last, in the unit that people would say."""
    left = abs(time.time() - seconds)
    for unit, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if left >= unit:
            return f"{int(left // unit)} {word}"
    return f"{int(left)} s"


def clock(seconds: float) -> str:
    """Write a time as a machine reads it; the page shows it in the reader's own zone."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def took(ms: Any) -> str:
    """Say how long something took."""
    if not isinstance(ms, (int, float)):
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"


def size(count: float) -> str:
    """Say how many bytes something has."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def pretty(value: Any) -> str:
    """Write a JSON value over several lines."""
    import json

    return clear_lines(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def from_home(path: Any) -> str:
    """Write a path as people do: `~` for their own folder."""
    import os

    home, text = os.path.expanduser("~"), str(path)
    return f"~{text[len(home) :]}" if text == home or text.startswith(f"{home}/") else text


@cache
def asset(name: str) -> str:
    """Give the address of a file of ours; another content has another address."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


async def form_of(request: Request) -> dict[str, str]:
    """Read a form; of a field that comes twice the last counts."""
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except (ValueError, UnicodeDecodeError):
        raise Refusal(400, Code.INVALID_ARGS, "The form cannot be read.") from None
    return dict(pairs)

"""The server of `handrail mcp --http` with the tools, resources and prompts that the conformance suite asks for.

`python _conformance.py FOLDER` prints its address and serves until it is ended. What a tool of ours can do is a tool
of ours and goes through the gate; pictures, sampling and the like, which no tool of ours has, are answered beside it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import CallNext, ServerRequestContext

from handrail import Code, Problem, Screen, tool
from handrail.front.mcp.door import Door
from handrail.front.mcp.guard import Receive, Scope, Send, guard_for
from handrail.front.mcp.http import Front, application
from handrail.front.mcp.ongoing import Ongoing, Peer
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.wire import Params

TOKEN = "a-token-for-the-conformance-suite"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
CONTEXT: ContextVar[ServerRequestContext[Any, Any]] = ContextVar("context")


@tool(pure=True)
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool(pure=True)
async def test_error_handling() -> str:
    """Fail."""
    raise Problem(Code.IO_ERROR, "This tool intentionally returns an error for testing")


@tool(risk="low", permissions=("tool.use",))
async def test_tool_with_progress(screen: Screen) -> str:
    """Report progress three times."""
    for share in (0, 50, 100):
        screen.show({"content": f"Completed step {share} of 100", "level": "progress"})
        await asyncio.sleep(0.05)
    return "done"


OURS = (test_simple_text, test_error_handling, test_tool_with_progress)


def text(value: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": value}


def embedded(uri: str, value: str) -> dict[str, Any]:
    """A block that holds a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": value}}


CONTENT: dict[str, list[dict[str, Any]]] = {
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", '{"test":"data","value":123}'),
    ],
    "json_schema_2020_12_tool": [text("ok")],
}
NESTED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def titled(*names: str) -> list[dict[str, str]]:
    """Choices with titles."""
    return [{"const": name, "title": name.title()} for name in names]


FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "test_elicitation": (
        "Please answer",
        {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
    ),
    "test_elicitation_sep1034_defaults": (
        "Please review",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    ),
    "test_elicitation_sep1330_enums": (
        "Please choose",
        {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled("value1", "value2", "value3")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("value1", "value2", "value3")}},
        },
    ),
}
ASKING = frozenset({*FORMS, "test_sampling", "test_tool_with_logging"})  # these talk to the client on their way

RESOURCES: dict[str, dict[str, Any]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}
PROMPTS: dict[str, Callable[[Mapping[str, str]], list[dict[str, Any]]]] = {
    "test_simple_prompt": lambda _: [text("This is a simple prompt for testing.")],
    "test_prompt_with_arguments": lambda args: [
        text(f"Prompt with arguments: arg1='{args.get('arg1')}', arg2='{args.get('arg2')}'")
    ],
    "test_prompt_with_embedded_resource": lambda args: [
        embedded(args.get("resourceUri", ""), "Embedded resource content for testing."),
        text("Please process the embedded resource above."),
    ],
    "test_prompt_with_image": lambda _: [IMAGE, text("Please analyze the image above.")],
}
ARGUMENTS = {
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
}


class Everything(Door):
    """Our door with what the suite wants besides."""

    async def answer(self, peer: Peer, method: str, params: Params) -> dict[str, Any]:
        result = None
        if method == "resources/read":
            result = read(str(params.get("uri")))
        elif method == "prompts/get" and params.get("name") in PROMPTS:
            blocks = PROMPTS[params["name"]](params.get("arguments") or {})
            result = {"messages": [{"role": "user", "content": block} for block in blocks]}
        if result is None:
            result = await super().answer(peer, method, params)
        return {**result, **more(method, result)}

    async def call(self, ongoing: Ongoing, params: Params) -> dict[str, Any]:
        name = params["name"]
        if name in CONTENT:
            return {"content": CONTENT[name], "isError": False}
        if name in ASKING:
            return {"content": [text(await asked(name, params.get("arguments") or {}))], "isError": False}
        return await super().call(ongoing, params)


def read(uri: str) -> dict[str, Any] | None:
    """A resource of the suite."""
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
    if uri.startswith("test://template/"):
        name = uri.split("/")[3]
        data = f'{{"id":"{name}","templateTest":true,"data":"Data for ID: {name}"}}'
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": data}]}
    return None


def more(method: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """The suite's own entries in a list."""
    if method == "tools/list":
        plain = {"type": "object", "properties": {}, "additionalProperties": True}
        extra = [
            {"name": name, "description": name, "inputSchema": NESTED if name.startswith("json") else plain}
            for name in (*CONTENT, *sorted(ASKING))
        ]
        return {"tools": [*result["tools"], *extra]}
    if method == "resources/list":
        return {
            "resources": [*result["resources"], *({"uri": uri, "name": uri, "description": uri} for uri in RESOURCES)]
        }
    if method == "resources/templates/list":
        made = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
        return {"resourceTemplates": [*result["resourceTemplates"], made]}
    if method == "prompts/list":
        return {"prompts": [*result["prompts"], *map(prompt, PROMPTS)]}
    return {}


def prompt(name: str) -> dict[str, Any]:
    """The entry of a prompt."""
    arguments = [{"name": item, "description": item, "required": True} for item in ARGUMENTS.get(name, ())]
    return {"name": name, "description": name, "arguments": arguments}


async def asked(name: str, args: Mapping[str, Any]) -> str:
    """Talk to the client, as no tool of ours does."""
    context = CONTEXT.get()
    session, related = context.session, context.request_id
    if name in FORMS:
        message, properties = FORMS[name]
        schema = {"type": "object", "properties": properties, "required": []}
        answer = await session.elicit_form(str(args.get("message", message)), schema, related)
        return f"User response: action={answer.action}, content={answer.content}"
    if name == "test_sampling":
        content = types.TextContent(type="text", text=str(args.get("prompt")))
        made = await session.create_message(
            [types.SamplingMessage(role="user", content=content)], max_tokens=100, related_request_id=related
        )
        return f"LLM response: {made.content}"
    for says in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await session.send_log_message("info", says, related_request_id=related)
        await asyncio.sleep(0.05)
    return "logged"


class Suite(Front):
    """Our front with calls that talk to the client left to the SDK."""

    def _is_plain(self, peer: Peer, params: dict[str, Any]) -> bool:
        return params["name"] not in ASKING and super()._is_plain(peer, params)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Bring the token, which the suite cannot."""
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + TOKEN.encode())]}
        await super().__call__(scope, receive, send)


async def remember(context: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
    """Keep the request at hand for tools that talk to the client."""
    CONTEXT.set(context)
    return await call_next(context)


async def nothing(_: Any, __: Any) -> types.EmptyResult:
    """Do nothing."""
    return types.EmptyResult()


async def complete(_: Any, __: Any) -> types.CompleteResult:
    """Complete nothing."""
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


async def main(folder: str) -> None:
    """Serve until ended."""
    opening = Opening(folder, {"tools": {"enable": ["fs"]}}, tools=OURS)
    async with Everything(opening) as door:
        front, sdk = application(door, guard_for("127.0.0.1", TOKEN))
        sdk.server.middleware.append(remember)
        sdk.server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
        sdk.server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
        sdk.server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
        sdk.server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
        suite = Suite(door, front._sdk, front._guard)
        server = uvicorn.Server(uvicorn.Config(suite, "127.0.0.1", 0, log_level="warning", access_log=False))
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp", flush=True)
        await serving


if __name__ == "__main__":
    Path(sys.argv[1], "a.txt").write_text("one\n")
    asyncio.run(main(sys.argv[1]))

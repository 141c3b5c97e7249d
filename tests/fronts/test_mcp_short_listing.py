"""The list of tools of the coding preset: small, and true to what the tools answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import orjson
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from fronts._every_tool import everything, holds, offered
from fronts.mcp_process import HANDRAIL
from handrail.front.mcp.results import short_entry

MOST_BYTES = 20_000
CODING = {
    *("read_file", "list_dir", "find_files", "grep", "codebase_search", "read_lints", "read_media"),
    *("write_file", "edit_file", "apply_patch", "move_path", "make_dir"),
    *("run_command", "job_list", "job_read", "job_input", "job_stop"),
}


def connect(work: Path, *flags: str) -> Client:
    """Connect as a client does that starts the server itself."""
    server = StdioServerParameters(command=HANDRAIL, args=["mcp", *flags], cwd=str(work), env=dict(os.environ))
    return Client(stdio_client(server), mode="auto")


async def test_the_tools_of_the_coding_preset_take_at_most_20_kb(work: Path) -> None:
    """As they are sent, with all schemas; only what coding needs is listed."""
    async with connect(work, "--preset", "coding") as client:
        tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in await all_tools(client)]
    size = len(orjson.dumps({"tools": tools}))
    print(f"tools/list of the coding preset: {len(tools)} tools, {size} bytes")
    assert {tool["name"] for tool in tools} == CODING
    assert size <= MOST_BYTES
    assert all(tool["outputSchema"]["properties"] for tool in tools)


async def all_tools(client: Client) -> list[Any]:
    """Give the tools of all pages; one page holds them."""
    listed = await client.list_tools()
    assert listed.next_cursor is None
    return list(listed.tools)


async def test_what_every_tool_answers_fits_its_short_schema(work: Path, tmp_path: Path) -> None:
    """A client that validates takes each answer, and the schema names every part of it."""
    config = tmp_path / "settings.toml"
    async with everything(work, config) as calls:
        config.write_text(f'mcp.listing = "short"\n{config.read_text()}')
        async with connect(work, "--config", str(config)) as client:
            schemas = {tool.name: tool.output_schema or {} for tool in await all_tools(client)}
            assert set(schemas) == offered()
            for name, args, want in calls:
                result = await client.call_tool(name, args)
                data = result.structured_content
                assert data is not None, (name, result.content)
                jsonschema.validate(data, schemas[name])
                assert set(data) <= set(schemas[name]["properties"])
                assert holds(data, want), (name, data)


def test_a_short_entry_keeps_what_a_model_needs() -> None:
    """Names, descriptions, arguments and hints; of results the types."""
    nested = {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}], "title": "Inner", "default": None}
    schema = {
        "$defs": {"Inner": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "type": "object",
        "properties": {"text": {"type": "string", "title": "Text"}, "inner": nested, "any": {"title": "Any"}},
        "required": ["text"],
    }
    entry = {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": schema, "_meta": {"handrail/risk": "low"}}
    assert short_entry(entry) == {
        "name": "a",
        "inputSchema": {"type": "object"},
        "outputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "inner": {"type": ["object", "null"]}, "any": {}},
        },
    }

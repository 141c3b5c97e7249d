"""Every tool that a client can be offered: settings that enable them all, a workspace, one sensible call of each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Problem
from handrail.sandbox.choose import choose
from handrail.tools import builtin
from serving import serving
from tools._skill_desk import put_skill

# Everything is enabled, and nobody is asked: what is tried is that a client can call it.
SETTINGS = """
[tools]
enable = ["fs", "exec", "http", "memory", "skills", "delete_path"]
[http]
allowed_hosts = ["127.0.0.1:{port}"]
allowed_networks = ["127.0.0.0/8"]
[memory]
write_mode = "external"
"""
ALLOWED = ("fs.write", "fs.delete", "proc.exec", "git.write", "memory.write")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
ONE = sha256(b"one\n").hexdigest()
PATCH = "*** Begin Patch\n*** Add File: c.txt\n+three\n*** End Patch\n"
CAT = {"job": "job-1", "running": True}

# Tool, arguments, and what its structured content must hold (`@` is the server on loopback), in this order: later
# calls find what earlier ones made.
Called = tuple[str, dict[str, Any], dict[str, Any]]
CALLS: list[Called] = [
    ("read_file", {"path": "a.txt"}, {"text": "one\n", "sha256": ONE}),
    ("list_dir", {}, {"path": ".", "entries": [{"name": "a.txt", "size": 4}]}),
    ("stat_path", {"path": "a.txt"}, {"path": "a.txt", "type": "file", "size": 4}),
    ("hash_file", {"path": "a.txt"}, {"sha256": ONE, "bytes": 4}),
    ("read_media", {"path": "i.png"}, {"path": "i.png", "mime_type": "image/png"}),
    ("list_roots", {}, {"roots": [{"name": "workspace", "writable": True}]}),
    ("find_files", {"pattern": "*.txt"}, {"paths": ["a.txt"], "total": 1}),
    ("grep", {"pattern": "one"}, {"matches": [{"file": "a.txt", "line": 1, "text": "one"}]}),
    ("codebase_search", {"query": "one"}, {"places": [{"file": "a.txt", "text": "one"}]}),
    ("read_lints", {"paths": ["bad.py"]}, {"diagnostics": [{"file": "bad.py", "line": 1, "severity": "error"}]}),
    ("now", {}, {"timezone": "UTC"}),
    ("hash_text", {"text": "one\n"}, {"sha256": ONE, "bytes": 4}),
    ("json_select", {"expression": "a", "json": {"a": 1}}, {"value": 1}),
    ("render_template", {"template": "{{.}}", "data": 1}, {"text": "1"}),
    ("truncate_text", {"text": "abc", "max_chars": 10}, {"text": "abc", "truncated": False}),
    ("display", {"content": "hello"}, {"shown": True}),
    ("write_file", {"path": "b.txt", "content": "two\n"}, {"path": "b.txt", "bytes": 4, "created": True}),
    ("edit_file", {"path": "b.txt", "edits": [{"old": "two", "new": "2"}]}, {"path": "b.txt", "replacements": 1}),
    ("apply_patch", {"patch": PATCH}, {"files": [{"path": "c.txt", "operation": "add", "state": "applied"}]}),
    ("make_dir", {"path": "d"}, {"path": "d", "created": ["d"]}),
    ("move_path", {"source": "c.txt", "target": "d/c.txt"}, {"source": "c.txt", "target": "d/c.txt"}),
    ("delete_path", {"path": "b.txt", "confirm": True}, {"path": "b.txt", "removed": 1, "undoable": True}),
    ("run_command", {"command": "echo hi"}, {"exit_code": 0, "stdout": "hi\n"}),
    ("run_command", {"command": "cat", "background": True}, {"job": "job-1", "exit_code": None}),
    ("job_list", {}, {"jobs": [CAT]}),
    ("job_input", {"job": "job-1", "text": "hey\n"}, CAT),
    ("job_read", {"job": "job-1", "wait_seconds": 20}, {"text": "hey\n"}),
    ("job_stop", {"job": "job-1"}, {"job": "job-1", "running": False}),
    ("run_script", {"skill": "pdf", "script": "scripts/a.sh"}, {"exit_code": 0, "stdout": "ran\n"}),
    ("list_skills", {}, {"skills": [{"id": "pdf", "description": "About pdf."}]}),
    ("load_skill", {"skill_id": "pdf"}, {"id": "pdf", "text": "Do it.", "active": True}),
    ("write_memory", {"content": "Tea is at four."}, {"action": "create", "status": "stored"}),
    (
        "update_memory",
        {"action": "create", "title": "Milk", "content": "Milk first."},
        {"action": "create", "status": "stored"},
    ),
    ("recall_memory", {"query": "tea"}, {"notes": [{"content": "Tea is at four."}], "untrusted": True}),
    ("http_head", {"url": "@/x"}, {"url": "@/x", "status": 200}),
    ("http_fetch", {"url": "@/x"}, {"url": "@/x", "status": 200, "text": "hello"}),
    ("http_json", {"url": "@/j"}, {"json": {"a": 1}, "status": 200}),
    ("http_download", {"url": "@/x", "path": "x.bin"}, {"path": "x.bin", "bytes": 5}),
]


def offered() -> set[str]:
    """The names of all tools of ours that a client can be offered."""
    return {name for name, load in builtin().items() if load().offered}


def holds(content: Any, want: Any) -> bool:
    """Whether structured content has what is wanted: these fields of an object, a list that begins so."""
    if isinstance(want, dict):
        return all(name in content and holds(content[name], value) for name, value in want.items())
    if isinstance(want, list):
        return len(content) >= len(want) and all(holds(*pair) for pair in zip(content, want, strict=False))
    return bool(content == want)


@asynccontextmanager
async def everything(work: Path, config: Path) -> AsyncIterator[list[Called]]:
    """A workspace and settings for all tools, and a server to reach; gives the calls."""
    _need_sandbox(config.parent)
    (work / "a.txt").write_text("one\n")
    (work / "bad.py").write_text("def f(:\n")
    (work / "i.png").write_bytes(PNG)
    put_skill(work / ".agents/skills", "pdf", files={"scripts/a.sh": "echo ran\n"})
    async with serving() as server:
        server.on("/x", "hello")
        server.on("/j", '{"a": 1}', headers={"Content-Type": "application/json"})
        rules = "".join(f'[[rules]]\neffect = "allow"\ntouch = "{kind}"\n' for kind in ALLOWED)
        config.write_text(SETTINGS.format(port=server.port) + rules)
        here = server.url("").rstrip("/")
        yield [(tool, _at(here, args), _at(here, want)) for tool, args, want in CALLS]


def _at(here: str, values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: here + value[1:] if isinstance(value, str) and value.startswith("@") else value
        for name, value in values.items()
    }


def _need_sandbox(cache: Path) -> None:
    try:
        choose(backend="auto", min_tier="B", allow_unconfined=False, cache_dir=cache)
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)

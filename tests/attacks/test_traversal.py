"""Traversal strings against every path argument of every file, search and utility tool, through the whole runtime.

Every tool is enabled and a person says yes to everything, so only the workspace and the built-in rules stand between a
string and what lies outside. What lies there has content and names that no call mentions: none of it may show up.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks.test_traversal_resolve import DOTS, PREFIXES, SLASHES
from handrail import Outcome, Runtime
from handrail.catalog import Tool
from handrail.errors import Code
from handrail.store.reader import events, verify
from handrail.testing import ScriptedApprover
from handrail.words import Status, TouchKind

CANARY = "canary-6b1f09c2e7"
UNSAID = "never-named-41d8a3"  # a name outside that no string holds
PRE_IMAGE = "pre-image-5e0c77d1"
STRINGS = 300
AT_ONCE = 24

EVERYTHING = {
    "limits": {
        "max_calls": 10**9, "max_prompts": 10**9, "max_files_changed": 10**9, "max_bytes_written": 10**12,
        "max_bytes_read": 10**12, "max_wall_seconds": 10**6, "breaker_failures": 10**9, "max_repeats": 10**9,
    },
}  # fmt: skip
ENABLED = ("fs", "delete_path", "search", "util")
RUN_TRICKS = (
    "run:../events.jsonl", "run:events.jsonl", "run:./events.jsonl", "run:run.json", "run:grants.json", "run:archive/",
    "run:archive/images", "run:archive", "run:logs/tools.jsonl", "run:lock", "run:outcomes", "run:", "run:/", "run:.",
    "run:..", "run:../..", "run:observations/../events.jsonl", "run:observations/../../", "run:workspace/../archive",
    "run:observations/../archive/images", "run:observations/link", "RUN:observations", "run:Observations/../run.json",
    "run:observations/..", "run:workspace/../../..", "run:deliverables/../events.jsonl", "run:observations\\..\\lock",
    "run:observations/%2e%2e/events.jsonl", "run::observations", "run:run:observations", "run:workspace/run:../x",
    "./run:observations/../x", "run:checkpoint.json", "run:artifacts/../checkpoint.json", "run:sandbox", "run:~",
)  # fmt: skip


def strings(base: Path) -> list[str]:
    """All strings of the attack: each kind of trick in its own row, so that a sample takes some of each."""
    rows = [list(dict.fromkeys(row)) for row in _rows(base)]
    shuffled = [random.Random(number).sample(row, len(row)) for number, row in enumerate(rows)]
    mixed = [text for turn in itertools.zip_longest(*shuffled) for text in turn if text is not None]
    return list(dict.fromkeys(mixed))


def _rows(base: Path) -> Iterator[Iterator[str] | list[str]]:
    out = ("secret.txt", "work-more/secret.txt", "etc/passwd", "canaries/secret.txt", "work/../secret.txt", "")
    yield [slash.join([dots] * depth + [target.replace("/", slash)])
           for dots, slash, depth, target in itertools.product(DOTS, SLASHES, (1, 2, 3), out[:3])]  # fmt: skip
    yield [prefix + "../" * depth + target for prefix, depth, target in itertools.product(PREFIXES, range(8), out)]
    yield [prefix + "%2e%2e/" * depth + target for prefix, depth, target in itertools.product(PREFIXES, (1, 2), out)]
    yield [
        below + "../" * depth + target
        for below, depth, target in itertools.product(("a/b/c/", "link-in/", "a/self/" * 3, "no/"), range(12), out)
    ]
    links = ("link-out", "link-up", "deep-link", "a/b/c/link-abs", "link-file", "a/loop", "a/b/link-proc", "link-more")
    tails = ("", "/", "/.", "/..", "/secret.txt", "/../secret.txt", "/work-more/secret.txt", f"{base}/secret.txt")
    yield [link + tail for link, tail in itertools.product(links, tails)]
    ends = (".", "..", " ", ". ", "/", "//", "/.", "\t", "\n", "\0", "%00", "::$DATA", "~", "*", "\u200b", "\udcff")
    yield [
        f"{name}{end}" for name, end in itertools.product((".env", "../secret.txt", ".git/config", "file.txt"), ends)
    ]
    absolute = (f"{base}/secret.txt", f"{base}/work-more/secret.txt", f"{base}/work/../secret.txt", "/etc/hostname")
    yield [before + path for before, path in itertools.product(
        ("", "/", "//", "file:", "file://", "file://localhost", "/proc/self/root", "/proc/self/cwd/..", "~", "\\"),
        absolute)]  # fmt: skip
    yield RUN_TRICKS  # type: ignore[misc]
    yield [text * length for text in ("n", "ü", "../", "a/../", "./", "/") for length in (256, 1366, 4096, 70_000)]
    yield ["a/" * length for length in (200, 5000, 70_000)]
    yield [f"a{chr(number)}b/../../secret.txt" for number in range(0x21)]
    yield [".ENV", ".Env.local", "a/../.env", ".\u212aube/config", ".ssh/id_rsa", ".SSH/id_rsa", ".git/hooks/x",
           ".git/hooks/pre-commit",
           ".GIT/HOOKS/x", "a/.git/config", "\uff0essh/id_rsa", "handrail.toml", "HANDRAIL.toml"]  # fmt: skip


@pytest.fixture
def base(tmp_path: Path, work: Path) -> Path:
    """What lies outside: above, beside with the same beginning of the name, and far away; the workspace has links."""
    for name in ("", "work-more", "etc", "canaries"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for file in ("secret.txt", "passwd", UNSAID):
            (folder / file).write_text(f'{{"{CANARY}": "{CANARY}"}}\n')
    (work / "a/b/c").mkdir(parents=True)
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".ssh").mkdir()
    for name in (".env", ".ssh/id_rsa", ".git/hooks/pre-commit", "handrail.toml"):
        # Hooks and settings may be read, the others not even that.
        (work / name).write_text("# protected\n" if name.endswith(("toml", "commit")) else f"{CANARY}\n")
    (work / "file.txt").write_text("harmless\n")
    (work / "a/b/c/data.json").write_text('{"harmless": 1}\n')
    for name, target in {
        "link-in": "a/b", "link-out": "../canaries", "link-up": "a/../..", "deep-link": "link-in/../../link-out",
        "a/b/c/link-abs": str(tmp_path / "canaries"), "a/b/link-proc": "/proc/self/root", "a/self": ".",
        "a/loop": "../a/loop", "link-file": "../secret.txt", "link-more": "../work-more",
    }.items():  # fmt: skip
        (work / name).symlink_to(target)
    return tmp_path


def outside(base: Path) -> dict[str, str]:
    """Everything that no call may change, with the hash of its content."""
    kept = [path for path in base.rglob("*") if base / "work" not in path.parents]
    kept += [base / "work" / name for name in (".env", ".ssh/id_rsa", ".git/hooks/pre-commit", "handrail.toml")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in kept}


def patch_of(text: str) -> list[str]:
    """Patches that add, update, move and delete at a path, in both forms."""
    return [
        f"*** Begin Patch\n*** Add File: {text}\n+x\n*** End Patch\n",
        f"*** Begin Patch\n*** Delete File: {text}\n*** End Patch\n",
        f"*** Begin Patch\n*** Update File: file.txt\n*** Move to: {text}\n@@\n-harmless\n+moved\n*** End Patch\n",
        f"--- a/{text}\n+++ b/{text}\n@@ -1 +1 @@\n-harmless\n+x\n",
        f"--- /dev/null\n+++ {text}\n@@ -0,0 +1 @@\n+x\n",
        f"diff --git a/file.txt b/{text}\nrename from file.txt\nrename to {text}\n",
    ]


# Every argument that names a path or a set of paths, with the rest of a call that would work.
ATTACKED: dict[str, dict[str, Any]] = {
    "read_file.path": {},
    "write_file.path": {"content": "x"},
    "edit_file.path": {"edits": [{"old": "harmless", "new": "changed"}]},
    "apply_patch.patch": {},
    "delete_path.path": {"recursive": True, "confirm": True},
    "move_path.source": {"target": "a/moved"},
    "move_path.target": {"source": "file.txt", "overwrite": True},
    "make_dir.path": {},
    "list_dir.path": {"depth": 3, "hidden": True},
    "list_dir.ignore": {"depth": 10, "hidden": True},
    "list_dir.cursor": {"depth": 10, "hidden": True},
    "read_media.path": {},
    "list_roots.path": {},
    "stat_path.path": {},
    "hash_file.path": {},
    "find_files.path": {"pattern": "**", "hidden": True, "respect_ignore": False},
    "find_files.pattern": {"hidden": True, "respect_ignore": False},
    "find_files.cursor": {"pattern": "**", "hidden": True},
    "grep.path": {"pattern": "."},
    "grep.glob": {"pattern": "."},
    "grep.pattern": {},
    "grep.cursor": {"pattern": "."},
    "codebase_search.paths": {"query": "canary"},
    "json_select.path": {"expression": "@"},
    "render_template.template": {},
    "hash_text.text": {},
    "truncate_text.text": {"max_chars": 20},
    "now.timezone": {},
}
COSTLY = ("find_files", "grep", "codebase_search")  # each call starts a process


def asked(argument: str, text: str, number: int) -> tuple[str, dict[str, Any]]:
    """The call that puts a string into an argument."""
    tool, _, name = argument.partition(".")
    value: Any = text
    if name in ("ignore", "paths"):
        value = [text]
    elif name == "patch":
        value = patch_of(text)[number % 6]
    elif name == "template":
        value = "{{>" + text.replace("}", "") + "}}"
    return tool, {**ATTACKED[argument], name: value}


async def test_every_path_argument_of_every_tool_is_attacked(opens: Any, work: Path) -> None:
    """The table below names each argument that the tools declare as a path."""
    async with opens(enable=ENABLED) as runtime:
        tools: list[Tool] = [item for item in runtime.parts.catalog if item.toolset in ("fs", "search", "util")]
    declared = {
        f"{item.name}.{name}"
        for item in tools
        for name, mark in item.targets
        if mark.kind in (TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_DELETE)
    }
    assert declared - set(ATTACKED) == set()
    assert {item.name for item in tools} == {argument.partition(".")[0] for argument in ATTACKED}


def test_there_are_enough_strings(base: Path) -> None:
    """Thousands, and a sample has all kinds of tricks."""
    assert len(strings(base)) > 4000


@pytest.mark.slow
@pytest.mark.parametrize("argument", ATTACKED)
async def test_no_string_gets_out(opens: Any, base: Path, scale: int, own_user: Path, argument: str) -> None:
    """Nothing outside is shown or changed, nothing breaks, and each call has its outcome."""
    before, outcomes = outside(base), list[Outcome]()
    chosen = strings(base)
    if scale < 20:
        chosen = chosen[: STRINGS * scale]
    if argument.startswith(COSTLY) and scale < 20:
        chosen = chosen[: STRINGS * scale] if argument.endswith("path") else chosen[: STRINGS * scale // 3]
    async with opens(enable=ENABLED, config=EVERYTHING, approver=ScriptedApprover("once"), run_id="r") as runtime:
        digest = await _prepared(runtime)
        for first in range(0, len(chosen), AT_ONCE):
            calls = [asked(argument, text, number) for number, text in enumerate(chosen[first : first + AT_ONCE])]
            outcomes += await asyncio.gather(*(runtime.call(tool, args) for tool, args in calls))
        folder = runtime.parts.folder.path
    assert len(outcomes) == len(chosen)
    for text, outcome in zip(chosen, outcomes, strict=True):
        check(outcome, text, digest)
    assert outside(base) == before
    assert verify(folder).ok
    assert {name for name in (CANARY, UNSAID) if any(name.encode() in data for data in kept(own_user))} == set()
    assert Counter(event["kind"] for event in events(folder))["tool.started"] >= 1


async def _prepared(runtime: Runtime) -> str:
    """Put something worth stealing into the run's own folder, and give a text of its journal."""
    made = await runtime.call("write_file", {"path": "kept.txt", "content": PRE_IMAGE})
    gone = await runtime.call("edit_file", {"path": "kept.txt", "edits": [{"old": PRE_IMAGE, "new": "gone"}]})
    assert made.ok, made.content
    assert gone.ok, gone.content
    return str(next(iter(events(runtime.parts.folder.path)))["settings_digest"])


def check(outcome: Outcome, text: str, digest: str) -> None:
    """One outcome of the contract, without a bug of ours and without anything from outside."""
    told = json.dumps(outcome.to_dict())
    assert outcome.status in Status
    assert outcome.evidence
    assert outcome.error is None or (Code(outcome.error.code), text) != (Code.INTERNAL, text)
    assert [word for word in (CANARY, UNSAID, PRE_IMAGE, digest) if word in told] == [], text


@pytest.mark.parametrize("depth", [3, 255, 256, 300])
async def test_nothing_protected_is_moved_or_deleted_however_deep_it_lies(opens: Any, work: Path, depth: int) -> None:
    """A folder is taken away only when all below it was looked at."""
    deep = work.joinpath(*["d"] * depth, ".ssh")
    deep.mkdir(parents=True)
    (deep / "id_rsa").write_text(CANARY)
    async with opens(enable=ENABLED, config=EVERYTHING, approver=ScriptedApprover("once")) as runtime:
        moved = await runtime.call("move_path", {"source": "d", "target": "e"})
        deleted = await runtime.call("delete_path", {"path": "d", "recursive": True, "confirm": True})
    assert (moved.error.code, deleted.error.code) == ("PATH_PROTECTED", "PATH_PROTECTED")
    assert (deep / "id_rsa").read_text() == CANARY


async def test_an_endless_glob_does_not_hold_up_a_listing(opens: Any, base: Path) -> None:
    """What would take seconds to match is refused."""
    async with opens() as runtime:
        long = await runtime.call("list_dir", {"ignore": ["a/../" * 70_000]})
        many = await runtime.call("list_dir", {"ignore": ["*x*y"] * 1000})
    assert (long.error.code, many.error.code) == ("INVALID_ARGS", "INVALID_ARGS")


def kept(home: Path) -> Iterator[bytes]:
    """Everything the runtime wrote about itself."""
    return (path.read_bytes() for path in home.rglob("*") if path.is_file())

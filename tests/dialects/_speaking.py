"""A runtime that is spoken to in another system's words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail import Outcome, Runtime, dialects, preset
from handrail.store.reader import events


class Voice:
    """Speaks one dialect to one runtime; every answer is the dialect's envelope as JSON."""

    def __init__(self, runtime: Runtime, dialect: str) -> None:
        self.runtime, self.dialect = runtime, dialects.get(dialect)
        self.folder = runtime.parts.folder.path
        self.outcomes: list[Outcome] = []

    async def __call__(self, tool: str, args: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Make a call with arguments as keywords, or as a mapping where names are no Python names."""
        return await self.call(tool, {**(args or {}), **more})

    async def call(self, tool: str, args: Mapping[str, Any], **how: Any) -> Any:
        """Make a call with further keywords of `Runtime.call`."""
        outcome = await self.runtime.call(tool, args, **how)
        self.outcomes.append(outcome)
        return json.loads(json.dumps(outcome.to(self.dialect.name)))

    async def handle(self, message: Mapping[str, Any]) -> list[Any]:
        """Make the calls that a whole message asks for."""
        asked = self.dialect.messages(message).calls
        return [await self.call(one.tool, one.args, **one.keywords()) for one in asked]

    @property
    def last(self) -> Outcome:
        """The last outcome, in our words."""
        return self.outcomes[-1]

    def events(self) -> list[dict[str, Any]]:
        """What the journal says, in the dialect's words."""
        self.runtime.parts.journal.flush()
        return json.loads(json.dumps(list(self.dialect.events(events(self.folder)))))  # type: ignore[no-any-return]

    def journal(self) -> list[dict[str, Any]]:
        """What the journal says, in ours."""
        self.runtime.parts.journal.flush()
        return list(events(self.folder))

    def specs(self, *, every: bool = True) -> dict[str, dict[str, Any]]:
        """The tools as they are described, by name."""
        return {spec["name"]: spec for spec in self.runtime.tools(every=every)}


Speak = Callable[..., AbstractAsyncContextManager[Voice]]


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one settings mapping over another; rules are added, sections merged."""
    told = dict(base)
    for name, value in more.items():
        if name == "rules":
            told["rules"] = [*told.get("rules", []), *value]
        elif isinstance(value, Mapping):
            told[name] = {**told.get(name, {}), **value}
        else:
            told[name] = value
    return told


@pytest.fixture
def speak(work: Path) -> Speak:
    """Open a runtime on the workspace that speaks a dialect; `preset`, `config`, and keywords of `Runtime.open`."""

    @asynccontextmanager
    async def make(
        dialect: str, *, start: str | None = None, config: Mapping[str, Any] | None = None, **how: Any
    ) -> AsyncIterator[Voice]:
        settings = merged(preset(start) if start else {}, config or {})
        async with Runtime.open(work, config=settings, dialect=dialect, **how) as runtime:
            yield Voice(runtime, dialect)

    return make


OPEN = {"rules": [{"effect": "allow", "touch": "fs.*"}]}


def skill(work: Path, name: str = "pdf-form-filler", *, header: str = "", **scripts: str) -> Path:
    """Make a skill with scripts."""
    folder = work / ".agents" / "skills" / name
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Fills forms.\n{header}---\n\nUse the script.\n")
    for script, text in scripts.items():
        path = folder / "scripts" / script.replace("__", ".")
        path.write_text(text)
        path.chmod(0o755)
    return folder

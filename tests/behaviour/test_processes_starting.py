"""A call that is cut off while its program starts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime, until
from handrail.processes.running import Streams
from handrail.store.reader import events


async def test_cancelling_while_a_program_starts_tells_what_it_has_done(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have begun before anybody heard that it had."""
    need_sandbox()

    async def starting(*_: Any) -> None:
        (work / "up").touch()
        await asyncio.Event().wait()

    monkeypatch.setattr(Streams, "start", starting)
    async with runtime(work) as opened:
        call = asyncio.ensure_future(run(opened, "true"))
        await until((work / "up").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        told = [event.get("files_changed") for event in events(opened.parts.folder.path)]
    assert "up" in json.dumps(told)

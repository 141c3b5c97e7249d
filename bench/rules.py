"""A command in a workspace of 60,000 files under the coding preset's rules, against the same without any rule."""

from __future__ import annotations

import asyncio
import os
import tempfile
import tomllib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from common import interleaved, report

FOLDERS = 600
FILES = 100


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        work = Path(folder, "work")
        fill(work)
        from handrail import Runtime, presets

        named = Path(presets.__path__[0], "coding.toml")
        rules = tomllib.loads(named.read_text())["rules"]
        assert "**/secrets/**" in [rule["target"] for rule in rules]

        async with AsyncExitStack() as opened:

            async def prepared(rules: list[dict[str, Any]]) -> Any:
                config = {"tools": {"enable": ["exec"]}, "limits": {"max_repeats": 0}, "rules": rules}
                runtime = await opened.enter_async_context(Runtime.open(work, config=config, mode="headless"))

                async def call(_: int) -> None:
                    outcome = await runtime.call("run_command", {"command": "echo hi"})
                    assert outcome.ok, outcome.content

                return call

            contestants = {"rules = []": await prepared([]), "rules of the coding preset": await prepared(rules)}
            rows = await interleaved(contestants, rounds=7, batch=1)
        report(rows, hold="at most 1.3 times")


def fill(work: Path) -> None:
    """Make the files."""
    for number in range(FOLDERS):
        inner = work / f"package{number // 20}" / f"module{number % 20}"
        inner.mkdir(parents=True)
        for index in range(FILES):
            (inner / f"file{index}.py").write_text("x\n")


if __name__ == "__main__":
    asyncio.run(main())

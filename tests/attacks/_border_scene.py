"""Runs every probe at the border, through a runtime, as whoever runs this, and tells which got somewhere, as JSON.

A person who is asked says yes to everything. `python _border_scene.py <folder> <secret>`.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import threading
from pathlib import Path
from typing import Any

from handrail import Runtime
from handrail.testing import ScriptedApprover

sys.path.insert(0, str(Path(__file__).parent.parent))
from attacks._sandbox_probes import BATCH, BOUNDS, DESIGNED, PRELUDE
from attacks._sandbox_scene import RUNNER, TIGHT, Scene, judge, state

BORDER: dict[str, Any] = {"workspace": "review", "ask": "border", "sandbox": "native", "min_tier": "A", "hosts": "ask"}
BOUND = {
    "max_memory_bytes": TIGHT.memory_bytes,
    "max_processes": TIGHT.processes,
    "max_file_bytes": TIGHT.file_bytes,
    "max_open_files": TIGHT.open_files,
    "max_cpu_seconds": TIGHT.cpu_seconds,
    "max_scratch_bytes": TIGHT.scratch_bytes,
}
PYTHON = "python3 -I -S -c"
# Results go to a file: what is printed is redacted and cut, which could hide that a probe got somewhere.
PRINTED, WRITTEN = "print(json.dumps(results))", 'put(W + "/free/results", json.dumps(results))'


def opened(scene: Scene, approver: ScriptedApprover, **more: Any) -> Runtime:
    """Open a runtime with the rules of the scene."""
    config = {
        "tools": {"enable": ["exec"]},
        "exec": {**BORDER, **more},
        "workspace": {"read": [str(scene.read)]},
        "limits": {"max_repeats": 0, "max_output_bytes": 1 << 20, "max_output_lines": 10_000, "max_prompts": 1000},
        "rules": [{"effect": "deny", "touch": "fs.*", "target": ".state/**"}],
    }
    return Runtime.open(scene.work, config=config, approver=approver)


async def said_by(runtime: Runtime, code: str, *arguments: str) -> str:
    """Run Python code as a command; what it printed."""
    line = " ".join([PYTHON, *map(shlex.quote, (PRELUDE + code, *arguments))])
    outcome = await runtime.call("run_command", {"command": line, "timeout_seconds": 60})
    details = outcome.error.details if outcome.error is not None else {}
    data = outcome.data or {}
    if outcome.error is not None and outcome.error.code not in ("EXIT_NONZERO", "TIMEOUT"):
        raise SystemExit(f"{outcome.error.code}: {outcome.content[:2000]}")
    return f"{data.get('stdout', '')}{data.get('stderr', '')}{details.get('stdout', '')}{details.get('stderr', '')}"


async def probe(scene: Scene) -> tuple[dict[str, str], int]:
    """Run all probes of one program, then those that try to use too much, each by itself, all at once."""
    approver = ScriptedApprover(lambda _: "once")
    facts = json.dumps(scene.facts())
    async with opened(scene, approver) as runtime:
        batch = json.dumps({name: code for name, (_, code) in (BATCH | DESIGNED).items()})
        await said_by(runtime, RUNNER.replace(PRINTED, WRITTEN), facts, batch)
    said: dict[str, str] = json.loads((scene.work / "free/results").read_text())
    over = threading.Event()
    watching = threading.Thread(target=scene.watch.until, args=(over.is_set,), daemon=True)
    watching.start()
    async with opened(scene, approver, **BOUND) as runtime:
        texts = await asyncio.gather(*(said_by(runtime, code, facts) for _, code in BOUNDS.values()))
    over.set()
    watching.join()
    seen = scene.watch.told()
    said |= {name: text + seen.get(name, "") for name, text in zip(BOUNDS, texts, strict=True)}
    return said, len(approver.asked)


def main(place: Path, secret: str) -> None:
    """Print what came of each."""
    scene = Scene(place, secret, "A")
    try:
        before = {name: [state(path) for path in paths] for name, paths in scene.watched().items()}
        said, asked = asyncio.run(probe(scene))
        found = judge(scene, said, before)
    finally:
        scene.close()
    print(json.dumps({"found": found, "said": {name: text[-300:] for name, text in said.items()}, "asked": asked}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""Makes a home with toolchains and credentials in it, runs commands there, and prints what came of each, as JSON.

A program of its own, so that another user can run it: `python _toolchains_scene.py <folder>`, with HOME below it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from handrail import Runtime
from handrail.testing import ScriptedApprover

SECRET = "tok" + "en-5d1f7c"
HIDDEN = (
    ".pyenv/versions/3.99.0/pip.conf",
    ".pyenv/versions/3.99.0/lib/python3.99/.pypirc",
    ".nvm/versions/node/v99.0.0/etc/npmrc",
    ".nvm/versions/node/v99.0.0/lib/node_modules/npm/npmrc",
    ".sdkman/candidates/maven/9.9/conf/settings.xml",
    ".sdkman/candidates/gradle/9.9/gradle.properties",
    ".local/share/mise/installs/php/9.9/auth.json",
    ".asdf/installs/rust/9.9/.cargo/credentials.toml",
    ".deno/bin/credentials",
    ".asdf/installs/nodejs/9.9/lib/node_modules/npm/npmrc",
    ".sdkman/candidates/cloud/9.9/credentials.db",
    ".sdkman/candidates/cloud/9.9/credentials-prod",
)
NOT_SHOWN = (".cargo/credentials.toml", ".cargo/config.toml", "go/pkg/mod/x", ".local/bin/helper", ".ssh/id_ed25519")
PLAIN = ".pyenv/versions/3.99.0/lib/python3.99/site-packages/cloud/credentials.py"
TOOL = "#!/bin/sh\necho it runs\n"
LINES = {
    "tool": "ninety-nine",
    "rust": "cargo-ninety",
    "written": "touch {home}/.pyenv/versions/new; touch {home}/.cargo/bin/new",
    "plain": f"cat {{home}}/{PLAIN}",
    "missing": "helper",
    **{path: f"cat {{home}}/{path}" for path in (*HIDDEN, *NOT_SHOWN)},
}


def furnish(home: Path) -> None:
    """Put toolchains and secrets below a home."""
    for path in (*HIDDEN, *NOT_SHOWN):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(SECRET)
    (home / PLAIN).parent.mkdir(parents=True)
    (home / PLAIN).write_text("just = 'code'\n")
    for path in (".pyenv/versions/3.99.0/bin/ninety-nine", ".cargo/bin/cargo-ninety", ".local/bin/helper"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(TOOL)
        (home / path).chmod(0o755)
    (home / ".bun").mkdir()
    (home / ".bun/bin").symlink_to(home / ".ssh")


async def main(place: Path) -> None:
    """Print what each line gave."""
    home, work = Path(os.environ["HOME"]), place / "work"
    work.mkdir()
    furnish(home)
    os.environ["PATH"] = f"{home}/.pyenv/versions/3.99.0/bin:{home}/.cargo/bin:{home}/.local/bin:/usr/bin:/bin"
    settings = {"tools": {"enable": ["exec"]}, "exec": {"sandbox": "native", "min_tier": "A"}}
    told = {}
    async with Runtime.open(work, config=settings, approver=ScriptedApprover("once")) as opened:
        for name, line in LINES.items():
            outcome = await opened.call("run_command", {"command": line.format(home=home)})
            told[name] = [outcome.ok, outcome.content]
    print(json.dumps(told))


asyncio.run(main(Path(sys.argv[1])))

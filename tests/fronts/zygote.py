"""Real `handrail` processes without their start-up: a process that has imported everything forks one for each command.

What a fork inherits is code only; every command has its own streams, environment, locks and ledger connection.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Zygote:
    """Forks commands; closed with `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, argv: list[str], cwd: Path, env: dict[str, str], stdin: str = "") -> Ended:
        """Run `handrail` with these arguments, and wait for its end."""
        self._number += 1
        base = self._folder / f"{self._number}"
        base.with_suffix(".in").write_text(stdin)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([argv, str(cwd), env, str(base)]), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        return Ended(code, base.with_suffix(".out").read_text(), base.with_suffix(".err").read_text())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


# What commands import on their way, by the beginnings of names; what starts threads once imported is left to them.
_OURS = ("approvals", "dialects", "front.cli", "front.mcp.stdio", "policy", "runtime", "settings", "store", "tools")
_OTHERS: tuple[str, ...] = (
    "ahocorasick_rs",
    "hyperscan",
    "importlib.metadata",
    "pydantic.dataclasses",
    "pydantic.plugin._loader",
)
_OTHERS += ("re2", "rich.console", "rich.markup", "rich.panel", "rich.table", "rich.text", "rich.tree")


def _import_everything() -> None:
    """What is missing here, a command finds out by itself."""
    import handrail

    ours = (found.name for found in pkgutil.walk_packages(handrail.__path__, "handrail."))
    wanted = [name for name in ours if f"{name.removeprefix('handrail.')}.".startswith(tuple(f"{it}." for it in _OURS))]
    for name in (*wanted, *_OTHERS):
        with suppress(ImportError):
            importlib.import_module(name)


def _serve() -> None:
    _import_everything()
    for line in sys.stdin:
        argv, cwd, env, base = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(argv, cwd, env, base)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(argv: list[str], cwd: str, env: dict[str, str], base: str) -> None:
    """Be `handrail` with its own streams, as if it had just been started."""
    from handrail.front.cli import main

    os.dup2(os.open(f"{base}.in", os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{base}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["handrail", *argv]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()

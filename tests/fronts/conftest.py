"""The command line as a user has it: a workspace, a home of their own, processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fronts.zygote import Ended, Zygote


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Processes for the command line."""
    made = Zygote(tmp_path_factory.mktemp("streams"))
    yield made
    made.close()


class Cli:
    """`handrail` in a workspace."""

    def __init__(self, zygote: Zygote, work: Path, home: Path) -> None:
        self._zygote, self.work = zygote, work
        homes = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("state", "config", "cache")}
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "USER": "tester", **homes}
        if "PYTHONPATH" in os.environ:
            self.env["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def __call__(self, *argv: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Ended:
        """Run one command; whatever goes wrong, no traceback is shown."""
        ended = self._zygote.run(list(argv), cwd or self.work, {**self.env, **env}, stdin)
        assert "Traceback" not in ended.err, ended.err
        return ended

    def grant(self, request: str, *more: str) -> Ended:
        """Grant a request as a script does: by the digest that `show` prints."""
        shown = json.loads(self("approvals", "show", request, "--json").out)
        return self("approvals", "grant", request, "--digest", shown["grant_digest"], *more)

    def run_ids(self) -> list[str]:
        """The names of all runs there are."""
        folder = Path(self.env["XDG_STATE_HOME"], "handrail", "runs")
        return sorted(path.name for path in folder.glob("[!.]*"))


@pytest.fixture
def cli(zygote: Zygote, work: Path, own_user: Path) -> Cli:
    """The command line in a small project with writing enabled."""
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / ".env").write_text("TOKEN=1\n")
    made = Cli(zygote, work, own_user)
    user = Path(made.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    user.parent.mkdir(parents=True)
    user.write_text('tools.enable = ["fs", "delete_path"]\n')
    return made

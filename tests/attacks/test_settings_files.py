"""Settings files made to hang, crash or fool the start: a fault within seconds, and nothing starts without them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from handrail.errors import SettingsFault
from handrail.settings import load


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def opened(project: Path, text: str | bytes | None = None) -> None:
    """Load a project's settings."""
    if text is not None:
        (project / "handrail.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    load(project, environment={"HOME": str(project.parent)})


BOMBS = {
    "dotted": ".".join("a" * 400_000) + " = 1\n",
    "dotted header": "[" + ".".join("a" * 400_000) + "]\n",
    "dotted in a table": "x = {" + ".".join("a" * 400_000) + " = 1}\n",
    "arrays": "x = " + "[" * 400_000 + "]" * 400_000 + "\n",
    "unclosed arrays": "x = " + "[" * 900_000,
    "tables": "x = " + "{a = " * 150_000 + "1" + "}" * 150_000 + "\n",
    "unclosed text": 'x = """' + '"a' * 450_000,
    "unclosed text of escapes": 'x = "' + "\\\\" * 450_000,
    "one number": "x = " + "9" * 900_000 + "\n",
    "many rules": '[[rules]]\neffect="x"\n' * 1000,
    "too large": "#" * (1 << 20) + "\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_made_to_keep_a_parser_busy_is_refused_soon(project: Path, name: str) -> None:
    """Within seconds, as a fault and not as a crash."""
    started = time.monotonic()
    with pytest.raises(SettingsFault):
        opened(project, BOMBS[name])
    assert time.monotonic() - started < 5


def test_a_pipe_does_not_hold_the_start(project: Path) -> None:
    """Opening never waits for somebody to write."""
    os.mkfifo(project / "handrail.toml")
    with pytest.raises(SettingsFault, match="is not a file"):
        opened(project)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/tty", "/proc/self/mem", "."])
def test_a_link_to_something_that_is_no_file_is_refused(project: Path, target: str) -> None:
    """Devices and folders give neither endless bytes nor a hang."""
    (project / "handrail.toml").symlink_to(target)
    with pytest.raises(SettingsFault):
        opened(project)


@pytest.mark.parametrize("text", [b"\xff\xfe", b'mode = "\xc3\x28"', b"mode = \0", b'x = "\xed\xa0\x80"'])
def test_bytes_that_are_no_text_are_refused(project: Path, text: bytes) -> None:
    """With the line, and without showing more than one of them."""
    with pytest.raises(SettingsFault, match=r"^handrail\.toml:1: is not (UTF-8 text|TOML)"):
        opened(project, text)


def test_a_loop_of_links_is_refused(project: Path) -> None:
    """It cannot be read, so nothing starts as if it were not there."""
    (project / "handrail.toml").symlink_to("handrail.toml")
    with pytest.raises(SettingsFault, match="cannot be read"):
        opened(project)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(project: Path) -> None:
    """Its rules might have denied something."""
    (project / "handrail.toml").write_text("")
    (project / "handrail.toml").chmod(0)
    with pytest.raises(SettingsFault, match="cannot be read"):
        opened(project)

"""An editor that knows nothing of Handrail saves as fast as it can: none of its saves is overwritten unseen."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from workspaces import leftovers, sha, workspace

# Each save is a new file renamed over the old one. What it read must still hold its last save; else that was lost.
EDITOR = """
import os, sys, time
path, own = sys.argv[1:3]
number = lost = 0
print("saving", flush=True)
os.set_blocking(0, False)
while sys.stdin.buffer.read(1) is None:
    text = open(path).read()
    if f"editor {number}\\n" not in text:
        time.sleep(0.2)  # an exchange that is being taken back shows itself for a moment
        text = open(path).read()
        lost += f"editor {number}\\n" not in text
    number += 1
    with open(own, "w") as file:
        file.write(f"editor {number}\\n" + "".join(line for line in text.splitlines(True) if line.startswith("agent")))
    os.rename(own, path)
    time.sleep(0.0005)
print(number, lost, flush=True)
"""


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The editor at work on `ws/f`."""
    ws = Path(os.path.realpath(tmp_path)) / "ws"
    ws.mkdir()
    (ws / "f").write_text("editor 0\n")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", EDITOR, ws / "f", ws / "own"], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"saving\n"
        yield process
        process.kill()


def results(editor: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Stop the editor; how often it saved, and how many of its saves were lost."""
    assert editor.stdin is not None
    assert editor.stdout is not None
    editor.stdin.close()
    saved, lost = editor.stdout.read().split()
    return int(saved), int(lost)


async def test_no_save_of_another_program_is_overwritten_unseen(
    tmp_path: Path, editor: subprocess.Popen[bytes], scale: int
) -> None:
    """Each write is based on what is really there, or refused."""
    files, ws = workspace(Path(os.path.realpath(tmp_path))), tmp_path / "ws"
    call, until = files.bind("c", ()), time.monotonic() + 2 * scale
    written, refused, kept = 0, 0, set[str]()
    try:
        while time.monotonic() < until:
            place = files.resolve("f")
            data = (await call.read(place, 1 << 20)).data
            try:
                await call.write(place, data.split(b"agent")[0] + b"agent\n", expected_sha256=sha(data))
                written += 1
            except Problem as problem:
                refused += problem.code is Code.STALE_FILE
                kept |= {str(problem.details.get("kept", ""))} - {""}
    finally:
        await files.close()
    saved, lost = results(editor)
    assert (lost, set(leftovers(ws))) == (0, kept)
    assert min(saved, written, refused) > 0


def test_checking_the_hash_before_renaming_loses_saves(
    tmp_path: Path, editor: subprocess.Popen[bytes], scale: int
) -> None:
    """The negative control: compare, then rename, overwrites what came in between."""
    path, draft, until = tmp_path / "ws/f", tmp_path / "ws/draft", time.monotonic() + 2 * scale
    while time.monotonic() < until:
        data = path.read_bytes()
        draft.write_bytes(data.split(b"agent")[0] + b"agent\n")
        if path.read_bytes() == data:
            os.rename(draft, path)
    assert results(editor)[1] > 0

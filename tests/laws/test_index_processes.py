"""The index under several processes and kills: one file, whole, the same answers."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handrail.settings import paths
from searching import fill
from tools._searched import RANKING

ASKER = """
import asyncio, json, sys
from handrail import Runtime
class Quiet:
    def show(self, fields): pass
async def main():
    async with Runtime.open(sys.argv[1], config={}, screen=Quiet()) as runtime:
        print("open", flush=True)
        outcome = await runtime.call("codebase_search", {"query": "value_7 of the table"})
        places = [[place["file"], place["lines"]] for place in outcome.data["places"]]
        print(json.dumps([outcome.data["index"]["ranking"], outcome.data["index"]["files"], places]), flush=True)
asyncio.run(main())
"""


def asker(root: Path) -> subprocess.Popen[str]:
    """Another process that searches the same workspace."""
    return subprocess.Popen([sys.executable, "-c", ASKER, str(root)], stdout=subprocess.PIPE, text=True)


def whole(folder: Path) -> int:
    """How many files the index holds; it must be sound."""
    (path,) = folder.glob("*.db")
    db = sqlite3.connect(path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return int(db.execute("SELECT count(*) FROM files").fetchone()[0])
    finally:
        db.close()


@pytest.mark.slow
def test_processes_that_index_at_once_answer_alike(work: Path, scale: int) -> None:
    """Each file is in the one index once."""
    count = 300 * min(scale, 5)
    fill(work, {f"d{n % 7}/f{n}.py": f"def value_{n}():\n    return 'table'\n" for n in range(count)})
    askers = [asker(work) for _ in range(3)]
    answers = [process.communicate(timeout=120)[0].splitlines()[-1] for process in askers]
    assert len(set(answers)) == 1
    assert answers[0].startswith(f'["{RANKING}", {count}, [["d0/f7.py"')
    assert whole(paths.cache_dir() / "index") == count


@pytest.mark.slow
def test_a_kill_in_the_middle_leaves_an_index_that_goes_on(work: Path, scale: int) -> None:
    """What was taken in stays, what was not is taken in later."""
    chance, count = random.Random(5), 1200
    fill(work, {f"d{n % 7}/f{n}.py": f"def value_{n}():\n    return 'table'\n" * 20 for n in range(count)})
    for _ in range(2 * scale):
        process = asker(work)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        time.sleep(chance.random() * 0.4)  # somewhere in the work
        process.send_signal(signal.SIGKILL)
        process.communicate()
    answer = asker(work).communicate(timeout=120)[0].splitlines()[-1]
    assert answer.startswith(f'["{RANKING}", {count}, [["d0/f7.py"')
    assert whole(paths.cache_dir() / "index") == count

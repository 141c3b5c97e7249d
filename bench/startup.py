"""How long a command takes from start to end, in times of a Python that does nothing.

The commands take turns, each in a fresh process with its byte code ready; the medians are compared, by the clock on
the wall and by the processor's, which other programs on the machine disturb less.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROUNDS = int(os.environ.get("HANDRAIL_BENCH_ROUNDS", "20"))
BOUNDS = {"handrail --version": 5, "handrail call read_file": 20}  # in times of `python -c pass`


@dataclass(slots=True)
class Times:
    """What one command took, each time it was run."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def once(command: Sequence[str], work: Path, env: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; give the seconds on the wall and of the processor."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=work, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def commands() -> dict[str, list[str]]:
    """What is measured; the first is what the others are compared with."""
    handrail = str(Path(sys.executable).with_name("handrail"))
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "handrail --version": [handrail, "--version"],
        "handrail call read_file": [handrail, "call", "read_file", "path=README.md"],
        "handrail call grep": [handrail, "call", "grep", "pattern=hello"],
        "handrail tools": [handrail, "tools"],
        "handrail policy explain": [handrail, "policy", "explain", "read_file", "path=README.md"],
    }


def measured(folder: Path) -> dict[str, Times]:
    """Run all in turns in a project without settings of its own."""
    work = folder / "work"
    work.mkdir()
    (work / "README.md").write_text("# hello\n" * 20)
    homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "CONFIG", "CACHE")}
    env = {**os.environ, **homes}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    found = {name: Times() for name in commands()}
    for command in commands().values():  # once for the byte code
        once(command, work, env)
    for _ in range(ROUNDS):
        for name, command in commands().items():
            wall, processor = once(command, work, env)
            found[name].wall.append(wall)
            found[name].processor.append(processor)
    return found


def main() -> None:
    """Print a table, with the bound where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    bare = next(iter(found.values()))
    print(f"{'command':28} {'wall':>9} {'ratio':>7} {'processor':>10} {'ratio':>7}  bound")
    for name, times in found.items():
        wall, processor = median(times.wall), median(times.processor)
        ratios = f"{wall / median(bare.wall):6.1f}×", f"{processor / median(bare.processor):6.1f}×"
        bound = f"{BOUNDS[name]}×" if name in BOUNDS else ""
        print(f"{name:28} {wall * 1000:6.1f} ms {ratios[0]} {processor * 1000:7.1f} ms {ratios[1]}  {bound}")


if __name__ == "__main__":
    main()

"""Starting `/bin/true` in tier A against bubblewrap with an equal profile: alone, with a heap of 1 GiB, eight at once.

And the self-test that comes before the first program after a boot, of each way to confine.

Run it alone: `python bench/sandbox.py [rounds]`. All sides take turns, so that load on the machine hits all.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from handrail.sandbox import bubblewrap
from handrail.sandbox.backends import OFFERED, Offer
from handrail.sandbox.inside.bubble import FIRST_DATA
from handrail.sandbox.launching import Sandbox
from handrail.sandbox.plan import Plan
from handrail.sandbox.selftest import self_test

ROUNDS = 60
AT_ONCE = 8
GIB = 1 << 30
HOLD = 1.6
SELF_TEST_HOLD = 100  # milliseconds
FILTER = 60


def main() -> None:
    """Measure and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    program = shutil.which("bwrap")
    if program is None:
        sys.exit("bubblewrap is not installed")
    with tempfile.TemporaryDirectory() as folder:
        work = str(Path(folder).resolve())
        plan = Plan(read=(), write=(work,))
        peer = Peer(program, plan, work)
        tier_a, tier_b = OFFERED[0].make(), OFFERED[2].make()
        sides: dict[str, Callable[[], None]] = {
            "bubblewrap, equal profile": peer.run,
            "tier A, native": lambda: run(tier_a, plan, work),
            "tier B, native": lambda: run(tier_b, plan, work),
        }
        alone = medians(sides, rounds)
        heap = bytearray(GIB)
        heap[::4096] = b"x" * len(heap[::4096])
        full = medians({"tier A, native": sides["tier A, native"]}, rounds)
        del heap
        crowd = {name: partial(together, side) for name, side in list(sides.items())[:2]}
        at_once = medians(crowd, max(5, rounds // 6))
    tested = medians({f"{offer.backend} {offer.tier}": partial(tried, offer) for offer in OFFERED}, max(5, rounds // 3))
    missed = [*show(alone, full, at_once), *show_tested(tested)]
    if missed:
        sys.exit("; ".join(missed))


def tried(offer: Offer) -> None:
    """Make a sandbox and put it to the test, as the first use after a boot does."""
    sandbox = offer.make()
    found = self_test(offer, sandbox)
    sandbox.close()
    assert found.holds, found


class Peer:
    """Bubblewrap as one would call it by hand: the same view and filter; it has no Landlock and no limits to set."""

    def __init__(self, program: str, plan: Plan, work: str) -> None:
        spec = bubblewrap.specify(program, plan, ["/bin/true"], cwd=work, env={})
        words = [word.decode() for word in spec["bubble"]]
        self._argv = [*_lean(words[: words.index("--")]), "--seccomp", str(FILTER), "/bin/true"]
        self._data = [*spec["bubble_data"]]
        self._filter = spec["seccomp"]

    def run(self) -> None:
        """Start it and wait for it."""
        held = [_memory(data) for data in self._data]
        numbers = [*range(FIRST_DATA, FIRST_DATA + len(held)), FILTER]
        held.append(_memory(self._filter))
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in zip(held, numbers, strict=True)]
        pid = os.posix_spawn(self._argv[0], self._argv, {}, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
        for fd in held:
            os.close(fd)


def _lean(words: list[str]) -> list[str]:
    """Take out what only our own last steps need, and write small files as tier A does, not as a mount for each."""
    inside = str(Path(bubblewrap.__file__).parent / "inside")
    at = words.index(inside) - 1
    assert words[at : at + 3] == ["--ro-bind", inside, inside]
    return ["--file" if word == "--ro-bind-data" else word for word in words[:at] + words[at + 3 :]]


def _memory(data: bytes) -> int:
    """Hold data in a descriptor above those that bubblewrap is told of."""
    import fcntl

    low = os.memfd_create("data")
    fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(low)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def run(sandbox: Sandbox, plan: Plan, work: str) -> None:
    """Start a program in a sandbox and wait until nothing of it is left."""
    child = sandbox.spawn(plan, ["/bin/true"], cwd=work, env={"PATH": "/bin"}, stdin=0, stdout=1, stderr=2)
    ended = child.wait_blocking(30)
    assert ended is not None
    assert ended.exit_code == 0


def together(side: Callable[[], None]) -> None:
    """Run eight at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(side) for _ in range(AT_ONCE)]:
            done.result()


def medians(sides: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Give the median time of each side in milliseconds; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 2):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            if number >= 2:
                taken[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(times) for name, times in taken.items()}


def show(alone: dict[str, float], full: dict[str, float], at_once: dict[str, float]) -> list[str]:
    """Print the table; give what does not hold."""
    peer, ours = alone["bubblewrap, equal profile"], alone["tier A, native"]
    print(f"| start of `/bin/true` to its end | ms | against bubblewrap | to hold: {HOLD} |")
    print("|---|---|---|---|")
    for name, value in alone.items():
        print(f"| {name} | {value:.2f} | {value / peer:.2f} | |")
    heap = full["tier A, native"]
    print(f"| tier A, native, heap of 1 GiB | {heap:.2f} | {heap / ours:.2f} of itself without | |")
    crowd = at_once["bubblewrap, equal profile"]
    for name, value in at_once.items():
        print(f"| {AT_ONCE} at once: {name} | {value:.2f} | {crowd / value:.2f} times its throughput | |")
    return [f"tier A takes {ours / peer:.2f} times bubblewrap's time"] if ours > HOLD * peer else []


def show_tested(tested: dict[str, float]) -> list[str]:
    """Print the rows of the self-test; give what does not hold."""
    for name, value in tested.items():
        print(f"| self-test: {name} | {value:.1f} | | {SELF_TEST_HOLD} ms |")
    return [f"the self-test of {name} takes {value:.0f} ms" for name, value in tested.items() if value > SELF_TEST_HOLD]


if __name__ == "__main__":
    main()

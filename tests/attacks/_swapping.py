"""A second process that swaps pairs of paths as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
names = [os.fsencode(name) for name in sys.argv[1:]]
pairs = list(zip(names[::2], names[1::2]))
print("swapping", flush=True)
while os.getppid() != 1:
    for _ in range(1000):
        for first, second in pairs:
            libc.renameat2(-100, first, -100, second, 2)
"""


@contextmanager
def swapping(paths: Sequence[str | Path]) -> Iterator[None]:
    """Swap the first with the second, the third with the fourth and so on, as long as this is entered."""
    with subprocess.Popen([sys.executable, "-c", _SWAPPER, *paths], stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"swapping\n"
        try:
            yield
        finally:
            swapper.kill()

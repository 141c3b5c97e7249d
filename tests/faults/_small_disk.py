"""A file system of its own that is soon full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


@contextmanager
def small_disk_of(size_bytes: int, folder: Path) -> Iterator[Path]:
    """Mount one of some size below a folder; where that is not allowed see `missing`."""
    place = folder / "small"
    place.mkdir()
    mount(place, "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def mount(place: Path, *options: str) -> None:
    """Mount something; where that is not allowed see `missing`."""
    try:
        done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
    except OSError as error:
        missing(f"mount cannot be run here: {error}")
    if done.returncode:
        missing(f"nothing can be mounted here: {done.stderr.strip()}")


def missing(reason: str) -> NoReturn:
    """Skip a test for want of something that its machine has not, but fail where all of it is to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true: {reason}")
    pytest.skip(reason)


def fill(place: Path) -> Path:
    """Take all the room there is, and give the file that holds it."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler

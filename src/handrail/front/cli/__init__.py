"""The command line: one file a verb, imported when it is used."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `handrail`; the version is told without loading anything else."""
    _have_streams()
    if sys.argv[1:] in (["--version"], ["version"]):
        from handrail import __version__

        if not _said(f"handrail {__version__}\n"):
            os._exit(1)
        return
    if sys.argv[1:2] == ["hook"] and len(sys.argv) > 2:
        from handrail.hooks import client

        if sys.argv[2] in client.AGENTS:  # an agent waits for it before every tool
            client.main(sys.argv[2:])
    try:
        code = _run()
    except KeyboardInterrupt:
        code = 130
    _flush()
    # All is written and closed by now; taking the interpreter apart would take a good part of a short call's time.
    os._exit(code)


def _said(text: str) -> bool:
    """Write a text out; where that fails, say why, unless nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"handrail: stdout: {error.strerror}\n")
            sys.stderr.flush()
        return False
    return True


def _have_streams() -> None:
    """Put nothing where a stream is closed, so that no file that is opened later takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  stays open to the end


def _run() -> int:
    import gc

    from handrail.own_imports import OWN_IMPORTS

    OWN_IMPORTS.work_alone()
    OWN_IMPORTS.doubt_path()

    # Looking through all installed packages for plugins of pydantic is nothing for a command that ends at once.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Imports make no garbage worth looking for, and most commands end before there is any.
    gc.set_threshold(100_000, 50, 100)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a real file here
    from handrail.front.cli.root import run

    return run(sys.argv[1:])


def _flush() -> None:
    """Hand out what is still in buffers; a reader that is gone needs nothing more."""
    import contextlib

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()

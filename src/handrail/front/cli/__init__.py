"""The command line: one file a verb, imported when it is used."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `handrail`; the version is told without loading anything else."""
    if sys.argv[1:] in (["--version"], ["version"]):
        from handrail import __version__

        sys.stdout.write(f"handrail {__version__}\n")
        return
    from handrail.front.cli.root import run

    sys.exit(run(sys.argv[1:]))

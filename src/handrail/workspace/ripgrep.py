"""The Searcher that runs ripgrep.

Its walk is fast and can be raced, so it is trusted with nothing: Landlock keeps it inside the root, exclusions are
applied again to every path it names, and what is shown comes from handles that follow no link.

Sorting costs ripgrep its threads. So a sorted run gets a head start, in which a common pattern fills its page; then
a parallel run finds all there is of a rare one; a sorted run to the end is for what is neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from handrail.errors import Code, Problem
from handrail.queries import BadPattern, FileQuery, FilesFound, TextFound, TextQuery
from handrail.sandbox import landlock
from handrail.words import Exclusion, Place, PlaceKind
from handrail.workspace import rg_files
from handrail.workspace.access import READ, Access, problem_of
from handrail.workspace.beneath import FOLDER
from handrail.workspace.rg_arguments import BATCH, of_files, of_text, of_walk
from handrail.workspace.rg_output import HERE, Keeper, Lines, sorted_lines
from handrail.workspace.rg_process import End, Ground, find_program, run
from handrail.workspace.threads import Brake, Threads

HEAD_START_SECONDS = 0.008
_FLOOD_BYTES = 1 << 20  # of unsorted output that is kept before a sorted run is the better way


class Ripgrep:
    """Makes searchers, each bound to one call's exclusions. Close it to end its threads."""

    def __init__(self, access: Access, *, confined: bool | None = None, threads: int = 8) -> None:
        """Confine with Landlock where the kernel has it, unless told otherwise."""
        self._access = access
        self._confined = landlock.abi() > 0 if confined is None else confined
        self._threads = Threads(threads)

    def bind(self, excluded: Sequence[Exclusion]) -> BoundSearcher:
        """Give the searcher of one call."""
        return BoundSearcher(self._access, self._threads, self._confined, tuple(excluded))

    async def close(self) -> None:
        """End the threads; searches under way are finished first."""
        await self._threads.close()

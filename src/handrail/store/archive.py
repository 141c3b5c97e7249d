"""Former contents of files, as undo asks for them: kept with the run that changed them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from handrail.store.folders import check_run_id
from handrail.store.images import Images
from handrail.words import noun


@noun
class RunArchive:
    """Satisfies `ports.Archive` over the folders of all runs."""

    runs: Path

    async def load(self, run: str, sha256: str) -> bytes:
        """Give a former content; NOT_FOUND when it was not kept."""
        check_run_id(run)
        return await asyncio.to_thread(Images(self.runs / run / "archive", 0).load, sha256)

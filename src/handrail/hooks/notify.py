"""Telling people: a program of theirs is started when an agent waits for them, or has stopped."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

from handrail.sandbox.executables import why_refused

if TYPE_CHECKING:
    from handrail.settings import Loaded

log = logging.getLogger("handrail.hooks")
SECONDS = 20.0


class Notifier:
    """Starts what `notify.command` names; never holds anybody up."""

    def __init__(self, loaded: Loaded, writable: Sequence[str]) -> None:
        self._command = loaded.settings.notify.command
        self._writable = tuple(writable)

    def tell(self, news: Mapping[str, Any]) -> None:
        """Hand over one piece of news."""
        if not self._command:
            return
        if why := why_refused(self._command[0], self._writable):
            log.warning("notify.command: %s %s", self._command[0], why)
            return
        Thread(target=self._start, args=(json.dumps(news).encode(),), daemon=True).start()

    def _start(self, news: bytes) -> None:
        try:
            subprocess.run(  # what the operator's settings name
                self._command,
                input=news,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
                check=False,
                cwd="/",
            )
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("notify.command: %s", error)

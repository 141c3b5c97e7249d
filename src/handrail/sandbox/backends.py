"""The ways there are to confine programs, the strongest first, with what each does not hold."""

from __future__ import annotations

import os
from collections.abc import Callable

from handrail.sandbox import bubblewrap, landlock, supervised
from handrail.sandbox.bubblewrap import Bubblewrap
from handrail.sandbox.fork_server import ForkServer
from handrail.sandbox.launching import Confined, Sandbox
from handrail.sandbox.native import Native
from handrail.sandbox.plan import GAP_MEMORY
from handrail.sandbox.supervised import Supervised
from handrail.sandbox.unconfined import Unconfined
from handrail.words import noun

_SCRATCH = "the run's scratch folder is measured four times a second; files without a name are not counted in it"
_SOCKETS = "sockets and FIFOs that appear in the roots while a program runs can be reached by it"
_SEGMENTS = "System V shared memory that no process has attached is not counted"
_NO_LANDLOCK = "this kernel offers no Landlock: the view made of mounts and the filter stand alone"
_NOTHING = "nothing is confined: programs can do all that the runtime can"
_SCOPES_SINCE = 6


@noun
class Offer:
    """One way to confine programs."""

    tier: str
    backend: str
    kind: Callable[[ForkServer, Confined], Sandbox]
    gaps: Callable[[], tuple[str, ...]]
    program: str = ""  # the `bwrap` that settings name

    def confined(self) -> Confined:
        """Name it with its gaps on this machine."""
        return Confined(self.tier, self.backend, self.gaps())

    def make(self) -> Sandbox:
        """Give a sandbox with a fork server of its own, started when first needed."""
        return self.kind(ForkServer(), self.confined())


def _native_gaps() -> tuple[str, ...]:
    return (GAP_MEMORY, _SCRATCH, _SOCKETS, *_no_landlock())


def _no_landlock() -> tuple[str, ...]:
    return () if landlock.abi() else (_NO_LANDLOCK,)


def _bubblewrap_gaps() -> tuple[str, ...]:
    as_root = (bubblewrap.GAP_ROOT,) if os.geteuid() == 0 else ()
    measured = (GAP_MEMORY, _SEGMENTS, _SCRATCH, _SOCKETS)
    return (*measured, *_no_landlock(), bubblewrap.GAP_REVIEW, bubblewrap.GAP_SIGNALS, *as_root)


def _supervised_gaps() -> tuple[str, ...]:
    signals = () if landlock.abi() >= _SCOPES_SINCE else (supervised.GAP_SIGNALS,)
    as_root = (supervised.GAP_ROOT,) if os.geteuid() == 0 else ()
    return (*supervised.GAPS, *signals, *as_root)


OFFERED = (
    Offer("A", "native", Native, _native_gaps),
    Offer("A", "bwrap", Bubblewrap, _bubblewrap_gaps),
    Offer("B", "native", Supervised, _supervised_gaps),
)
UNCONFINED = Offer("none", "none", Unconfined, lambda: (_NOTHING,))

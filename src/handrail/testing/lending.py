"""Putting fakes where a runtime has its ports."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, cast

from handrail.errors import Misuse
from handrail.ports import INJECTED

if TYPE_CHECKING:
    from handrail.kernel import Kernel


def lend(kernel: Kernel, **fakes: Any) -> None:
    """Give tools these fakes, named like their ports (`Net=…`), from now on; before the tool's first call."""
    parts = kernel.parts
    for name, fake in fakes.items():
        if name not in INJECTED:
            raise Misuse(f"{name} is no port that a tool may ask for; there are {', '.join(sorted(INJECTED))}")
        if name in parts.shared:
            cast("MutableMapping[str, Any]", parts.shared)[name] = fake
        else:
            cast("MutableMapping[str, Any]", parts.ports)[name] = lambda work, fake=fake: fake  # noqa: ARG005
    if "Processes" in fakes:  # nothing is started, so nothing needs to be confined
        object.__setattr__(parts, "confinement", None)

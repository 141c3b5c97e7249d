"""Which tools a front end for a framework offers."""

from __future__ import annotations

from handrail.errors import Misuse
from handrail.runtime import Runtime
from handrail.words import Json


def of_toolset(runtime: Runtime, toolset: str | None) -> list[dict[str, Json]]:
    """Describe the enabled tools, all or those of one toolset; a name that stands for none is a mistake."""
    specs = [spec for spec in runtime.tools() if toolset in (None, spec["toolset"])]
    if not specs:
        raise Misuse(f"no tool of the toolset {toolset!r} is enabled; see `handrail tools list`")
    return specs

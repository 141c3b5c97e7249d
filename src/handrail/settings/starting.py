"""What is told to whoever opens a run; what finds it is loaded only where there may be something to tell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from handrail.settings.loading import Loaded

if TYPE_CHECKING:
    from handrail.catalog import Catalog


def at_start(loaded: Loaded, catalog: Catalog) -> tuple[str, ...]:
    """Say which names are no tool, and what allows everything."""
    settings = loaded.settings
    names = (*settings.tools.enable, *settings.tools.disable)
    allowed = (*settings.exec.allow, *settings.exec.allowed_hosts, *settings.http.allowed_hosts)
    if not allowed and not any(rule.effect == "allow" for rule in settings.rules):
        folders = toolset_folders() if names else ()
        if all(name in catalog or name in folders for name in names):
            return ()
    from handrail.settings.lint import enabled_names
    from handrail.settings.lint_broad import broad_lint

    found = [*enabled_names(loaded, catalog), *(item for item in broad_lint(loaded) if item.level != "note")]
    return tuple(f"{item.where}: {item.text}{f'; {item.fix}' if item.fix else ''}" for item in found)


def toolset_folders() -> list[str]:
    """The built-in toolsets, known without importing a tool."""
    import handrail.tools

    return sorted(
        entry.name for entry in os.scandir(handrail.tools.__path__[0]) if entry.name.isalpha() and entry.is_dir()
    )

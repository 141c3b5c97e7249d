"""Files that say whether an agent asks Handrail at all, below a project or the home. One table."""

from __future__ import annotations

HOOK_SETTINGS = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".gemini/policies",
)

"""Links that lead programs outside the sandbox to other files: to git's hooks, or to settings that programs run."""

from __future__ import annotations

from handrail.policy.patterns import folded
from handrail.policy.runs_elsewhere import NAMES
from handrail.policy.world import ASK, DENY, Repositories
from handrail.words import Finding

# Folders in which programs look for such a file: `.cargo` of `.cargo/config.toml`. A link in their place brings the
# file along without its name.
_FOLDERS = frozenset(
    "/".join(name.casefold().split("/")[:count]) for name in NAMES for count in range(1, name.count("/") + 1)
)


def judge_link(absolute: str, shown: str, known: Repositories) -> Finding | None:
    """Judge a link that is made, or moved to a name, by what lies below that name; None: nothing does."""
    path = f"{absolute.casefold()}/"
    if any(name.startswith(path) for name in (*folded(known.named), *folded(known.folders))):
        why = f"{shown} would be a link that leads git to other hooks, settings or records"
        return Finding("builtin", "builtin.repository", DENY, why, code="PATH_PROTECTED")
    if any(path.endswith(f"/{folder}/") for folder in _FOLDERS):
        why = f"{shown} would be a link in the place of a folder whose files make programs run outside the sandbox"
        return Finding("defaults", "defaults.runs-programs", ASK, why)
    return None

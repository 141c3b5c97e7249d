"""Confined files: resolve to a canonical place, open exactly that beneath the root's handle, change it atomically."""

from handrail.workspace.access import Images
from handrail.workspace.files import WorkspaceFiles

__all__ = ["Images", "WorkspaceFiles"]

"""The folders a run may touch, as open handles: every lookup starts at one of these, never at a path."""

from __future__ import annotations

import os
from collections.abc import Sequence

from handrail.errors import Code, Misuse, Problem
from handrail.words import Root

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Roots:
    """Roots and their handles. The first is the workspace: relative paths start there."""

    def __init__(self, roots: Sequence[Root]) -> None:
        if not roots:
            raise Misuse("a workspace needs at least one root")
        for root in roots:
            if not root.path.startswith("/") or os.path.normpath(root.path) != root.path:
                raise Misuse(f"root {root.name!r}: {root.path!r} is not absolute and canonical")
        self.all = tuple(roots)
        self.home = self.all[0]
        self._by_name = {root.name: root for root in reversed(self.all)}
        self._by_path = {root.path: root for root in reversed(self.all)}
        # A root inside another one: there the inner one speaks, so that a thing has one canonical place.
        self.nested = any(_lies_in(inner.path, outer.path) for inner in self.all for outer in self.all)
        self._handles: dict[str, int] = {}
        self._closed = False
        try:
            self.home_fd = self.handle(self.home)
            for root in self.all[1:]:
                if os.path.isdir(root.path):
                    self.handle(root)
        except BaseException:
            self.close()
            raise

    def handle(self, root: Root) -> int:
        """Give the open handle of a root; a run's folder that came later is opened when it is first needed."""
        found = self._handles.get(root.path)
        if found is not None:
            return found
        if self._closed:
            raise Misuse("the workspace is closed")
        if self._by_path.get(root.path) != root:
            raise Problem(Code.PATH_OUTSIDE_ROOTS, f"{root.path} is not a root of this run", roots=self.names())
        try:
            handle = os.open(root.path, _OPEN)
        except OSError as error:
            text = f"the root {root.path} cannot be opened: {error.strerror}"
            if root is self.home:
                raise Misuse(text) from None
            code = Code.NOT_FOUND if isinstance(error, FileNotFoundError) else Code.IO_ERROR
            raise Problem(code, text, errno=error.errno) from None
        self._handles[root.path] = handle
        return handle

    def named(self, name: str) -> Root | None:
        """The root of this name, as in `run:observations/3.txt`."""
        return self._by_name.get(name)

    def beneath(self, absolute: str) -> tuple[Root, str] | None:
        """The innermost root that holds an absolute path, and the rest of the path; purely by text."""
        here = absolute
        while True:
            root = self._by_path.get(here)
            if root is not None:
                return root, absolute[len(here) :].lstrip("/")
            if here in ("", "/"):
                return None
            here = here.rpartition("/")[0] or "/"

    def names(self) -> list[str]:
        """The roots as a caller may be told of them."""
        return [root.path if not root.name.startswith("run") else root.name for root in self.all]

    def close(self) -> None:
        """Close every handle; anything that uses one afterwards fails."""
        self._closed = True
        self.home_fd = -1
        while self._handles:
            os.close(self._handles.popitem()[1])


def _lies_in(inner: str, outer: str) -> bool:
    return inner != outer and inner.startswith(f"{outer.rstrip('/')}/")

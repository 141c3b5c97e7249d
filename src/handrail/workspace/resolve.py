"""From a path as text to its canonical place beneath a root, existing or not.

Only names and handles are used, never a path that the system would look up by itself: every step opens one name,
follows no link, and a link's text is walked by the same steps. What comes out is judged by policy and later opened
by exactly this name, so a wrong answer under a race is at worst a place that is then judged like any other.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from handrail.errors import Code, Problem
from handrail.words import Place, PlaceKind, Root
from handrail.workspace.beneath import HANDLE, Opener, open_fast, openat2
from handrail.workspace.roots import Roots

MAX_LINKS = 40
MAX_PATH_BYTES = 4095  # what the kernel takes, without the closing NUL
MAX_NAME_BYTES = 255
MAX_NAMES = 256  # deeper trees can be made but hardly listed, copied or deleted again by anyone

_IFMT = 0o170000
KINDS = {stat.S_IFREG: PlaceKind.FILE, stat.S_IFDIR: PlaceKind.DIRECTORY, stat.S_IFLNK: PlaceKind.LINK}
_DOTS = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")  # an empty name, `.` or `..` anywhere
# Control characters, and those that make a path look like another one to the person who is asked.
_MISSING = PlaceKind.MISSING
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def kind_of(mode: int) -> PlaceKind:
    """Name what a mode says stands there."""
    return KINDS.get(mode & _IFMT, PlaceKind.OTHER)


def check_text(path: str) -> None:
    """Refuse a path that no file could have or that would not be shown as it is."""
    if not path:
        raise Problem(Code.INVALID_ARGS, "The path is empty; `.` is the workspace itself.")
    if not (path.isascii() and path.isprintable()) and (bad := _UNUSABLE.search(path)):
        place = f"U+{ord(bad[0]):04X} at position {bad.start()}"
        text = f"The path holds {place}: NUL, control and direction characters and lone surrogates are refused."
        raise Problem(Code.INVALID_ARGS, text, position=bad.start())
    if len(path) <= MAX_NAME_BYTES // 4:
        return
    if len(path.encode()) > MAX_PATH_BYTES:
        raise Problem(Code.INVALID_ARGS, f"The path is longer than {MAX_PATH_BYTES} bytes.", max_bytes=MAX_PATH_BYTES)
    if path.count("/") >= MAX_NAMES:
        raise Problem(Code.INVALID_ARGS, f"The path has more than {MAX_NAMES} names.", max_names=MAX_NAMES)
    longest = max(len(name.encode()) for name in path.split("/"))
    if longest > MAX_NAME_BYTES:
        text = f"A name in the path is {longest} bytes long; {MAX_NAME_BYTES} is the most."
        raise Problem(Code.INVALID_ARGS, text, max_bytes=MAX_NAME_BYTES)


class Resolver:
    """Text to Place. The fast way is for clean paths in the workspace without links; all else is walked."""

    __slots__ = ("_absolute", "_home", "_open", "_quick", "_roots")

    def __init__(self, roots: Roots, opener: Opener, *, allow_absolute: bool) -> None:
        self._roots = roots
        self._open = opener
        self._absolute = allow_absolute
        self._quick = opener is open_fast and not roots.nested
        self._home = f"{roots.home.path.rstrip('/')}/"

    def resolve(self, path: str, follow: bool = True) -> Place:
        """Give the canonical place; INVALID_ARGS for unusable text, PATH_OUTSIDE_ROOTS for what lies outside."""
        check_text(path)
        name = self._plain(path)
        if not name:
            return self._slow(path, follow)
        try:
            if "/" not in name:
                status = os.lstat(name, dir_fd=self._roots.home_fd)
            else:
                handle = openat2(self._roots.home_fd, name, HANDLE)
                try:
                    status = os.fstat(handle)
                finally:
                    os.close(handle)
        except FileNotFoundError:  # and no link on the way to what is missing, which would be another error
            return Place(self._roots.home, name, _MISSING, path)
        except OSError:
            return self._slow(path, follow)
        kind = KINDS.get(status.st_mode & _IFMT, PlaceKind.OTHER)
        if kind is PlaceKind.LINK and follow:
            return self._slow(path, follow)
        return _place(self._roots.home, name, kind, path, status)

    def _plain(self, path: str) -> str:
        """The path beneath the workspace where the text says it without detours; empty where it must be walked."""
        name = path
        if path[0] == "/":
            if not self._absolute or not path.startswith(self._home):
                return ""
            name = path[len(self._home) :]
        walked = not self._quick or name.startswith(("run:", "/")) or name in ("", ".", "..") or _dotted(name)
        return "" if walked else name

    def _slow(self, path: str, follow: bool) -> Place:
        walk = _Walk(self._roots, self._open, path, follow)
        try:
            walk.start(allow_absolute=self._absolute)
            return walk.run()
        except OSError as error:
            code = Code.INVALID_ARGS if error.errno == errno.ENAMETOOLONG else Code.IO_ERROR
            raise Problem(code, f"{path}: {error.strerror}", errno=error.errno) from None
        finally:
            walk.close()


def _dotted(path: str) -> bool:
    """Whether a name in the path is empty, `.` or `..`."""
    odd = "//" in path or "/." in path or path[0] == "." or path[-1] == "/"
    return odd and "/" in path and _DOTS.search(path) is not None


def _place(root: Root, path: str, kind: PlaceKind, asked: str, status: os.stat_result) -> Place:
    return Place(root, path, kind, asked, status.st_size, status.st_mtime_ns, status.st_ino, status.st_nlink)


class _Walk:
    """One slow resolution: the names reached so far beneath a root, one handle, and the names still to go."""

    __slots__ = (
        "_asked",
        "_fd",
        "_follow",
        "_link",
        "_links",
        "_names",
        "_open",
        "_outside",
        "_root",
        "_roots",
        "_todo",
    )

    def __init__(self, roots: Roots, opener: Opener, asked: str, follow: bool) -> None:
        self._roots, self._open, self._asked, self._follow = roots, opener, asked, follow
        self._root: Root | None = roots.home
        self._names: list[str] = []
        self._fd = -1  # of the last name; -1: the root's own handle
        self._todo: list[str] = []  # the next name is the last
        self._outside: list[tuple[str, bool]] = []  # names from `/`, and whether each is known to be no link
        self._links = 0
        self._link = ""  # the last link followed, as shown

    def start(self, *, allow_absolute: bool) -> None:
        """Choose where the text begins."""
        path = self._asked
        if path.startswith("run:"):
            name, _, path = path.partition("/")
            self._root = self._roots.named(name)
            if self._root is None:
                text = f"There is no {name}; a file of the workspace that has such a name is reached as ./{self._asked}"
                raise Problem(Code.PATH_OUTSIDE_ROOTS, text, roots=self._roots.names())
        elif path.startswith("/"):
            if not allow_absolute and not self._in_further_root(path):
                raise self._absolute_refused()
            self._root = None
        self._todo = path.split("/")[::-1]

    def _in_further_root(self, path: str) -> bool:
        """Whether a path is named beneath a root that settings added: it has no other name."""
        clean = os.path.normpath(path)
        return any(
            clean == root.path or clean.startswith(f"{root.path}/")
            for root in self._roots.all
            if root.name == root.path
        )

    def run(self) -> Place:
        """Walk to the end."""
        while self._todo:
            name = self._todo.pop()
            if name in ("", "."):
                continue
            if self._root is None:
                self._step_outside(name)
            elif name == "..":
                if not self._step_up():
                    return self._missing(name)
            elif not self._step_in(name):
                return self._missing(name)
        if self._root is None:
            raise self._left("ends outside")
        status = os.fstat(self._here())
        return self._found(self._root, status)

    def close(self) -> None:
        """Let the handle go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _here(self) -> int:
        assert self._root is not None
        return self._fd if self._fd >= 0 else self._roots.handle(self._root)

    def _step_in(self, name: str) -> bool:
        """Go into a name or follow it; False when nothing is there."""
        try:
            fd = os.open(name, HANDLE, dir_fd=self._here())
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            is_link = stat.S_ISLNK(os.fstat(fd).st_mode)
            if is_link and (self._follow or any(rest not in ("", ".") for rest in self._todo)):
                self._follow_link(name, os.readlink("", dir_fd=fd))
                return True
            self._names.append(name)
            self._fd, fd = fd, self._fd
            if self._roots.nested:
                self._enter_nested()
            return True
        finally:
            if fd >= 0:
                os.close(fd)

    def _enter_nested(self) -> None:
        assert self._root is not None
        inner = self._roots.beneath(f"{self._root.path.rstrip('/')}/{'/'.join(self._names)}")
        if inner is not None and inner[0] != self._root:
            self.close()
            self._root, self._names = inner[0], inner[1].split("/") if inner[1] else []

    def _follow_link(self, name: str, target: str) -> None:
        assert self._root is not None
        self._links += 1
        self._link = self._root.shown("/".join([*self._names, name]))
        if self._links > MAX_LINKS:
            raise Problem(Code.PATH_OUTSIDE_ROOTS, f"{self._asked} runs through more than {MAX_LINKS} links; a circle?")
        self._todo.extend(target.split("/")[::-1])
        if target.startswith("/"):
            self.close()
            self._root, self._names, self._outside = None, [], []

    def _step_up(self) -> bool:
        """Go to the folder above; False where this is no folder."""
        assert self._root is not None
        if self._names:
            if not stat.S_ISDIR(os.fstat(self._here()).st_mode):
                return False
            self._names.pop()
            self.close()
            if self._names:
                self._fd = self._open(self._roots.handle(self._root), "/".join(self._names), HANDLE, 0)
            return True
        above = self._root.path.strip("/").split("/")[:-1]
        self._root, self._outside = None, [(name, True) for name in above]
        if not self._enter() and not self._links:
            raise self._left("leads out of the workspace")
        return True

    def _step_outside(self, name: str) -> None:
        """Take one name outside of every root: by text alone, nothing out there is looked at."""
        if name != "..":
            self._outside.append((name, False))
        elif self._outside and not self._outside.pop()[1]:
            raise self._left("leads outside")  # what stood there may have been a link: its parent is unknown
        self._enter()

    def _enter(self) -> bool:
        found = self._roots.beneath("/" + "/".join(name for name, _ in self._outside))
        if found is None:
            return False
        self._root, self._names, self._outside = found[0], [], []
        self._todo.extend(found[1].split("/")[::-1])
        return True

    def _missing(self, name: str) -> Place:
        """Give the place of what does not exist: the folder that does, and the rest as it was written."""
        assert self._root is not None
        rest = [name, *(part for part in reversed(self._todo) if part not in ("", "."))]
        if ".." in rest:
            text = (
                f"{self._asked}: `..` after something that is no folder cannot be resolved; write the path without it."
            )
            raise Problem(Code.INVALID_ARGS, text)
        return self._checked(self._root, "/".join([*self._names, *rest]), PlaceKind.MISSING, None)

    def _found(self, root: Root, status: os.stat_result) -> Place:
        return self._checked(root, "/".join(self._names), kind_of(status.st_mode), status)

    def _checked(self, root: Root, path: str, kind: PlaceKind, status: os.stat_result | None) -> Place:
        if self._links and path:
            check_text(path)  # a link's text may hold what a caller's may not
        if root is self._roots.home and path.startswith("run:") and self._roots.named(path.partition("/")[0]):
            text = f"{self._asked} would be shown as {path}, which names a file of the run; rename it."
            raise Problem(Code.INVALID_ARGS, text)
        if status is None:
            return Place(root, path, kind, self._asked)
        return _place(root, path, kind, self._asked, status)

    def _left(self, how: str) -> Problem:
        roots = self._roots.names()
        through = f" through the link {self._link}" if self._link else ""
        text = f"{self._asked} {how}{through}; allowed roots: {', '.join(roots)}"
        details = {"roots": roots, "link": self._link} if self._link else {"roots": roots}
        return Problem(Code.PATH_OUTSIDE_ROOTS, text, details=details)

    def _absolute_refused(self) -> Problem:
        roots = self._roots.names()
        text = f"{self._asked} is absolute; paths are relative to the workspace {self._roots.home.path}."
        found = self._roots.beneath(os.path.normpath(self._asked).replace("//", "/"))
        if found is None or found[0] is not self._roots.home:
            return Problem(Code.PATH_OUTSIDE_ROOTS, text, roots=roots)
        relative = found[1] or "."
        return Problem(Code.PATH_OUTSIDE_ROOTS, f"{text} Ask for {relative}", roots=roots, relative=relative)

"""Finder of git repositories beneath the roots, and of the files that their configs name.

No program is run for it: git itself would run what a config names. Configs are small files and read whole.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from stat import S_ISREG
from threading import RLock

from handrail.policy.repositories import DECIDING, READING_HOOKS, program_of, runs_while_reading
from handrail.policy.world import Repositories
from handrail.sandbox.looks import FOLDER, Look, Looks
from handrail.words import Root
from handrail.workspace.git_config import settings_of

MAX_ENTRIES = 200_000
_MAX_READ_ONLY = 20_000  # entries of the roots that are only read
MAX_REPOSITORIES = 1_000
_MAX_CONFIG_BYTES = 1 << 20
_MAX_ALL_CONFIGS_BYTES = 2 << 20  # of one look: a program can make a thousand repositories, each with a large config
_INCLUDE_BYTES = 1024  # what following one `include.path` counts for
_MAX_INCLUDES = 10
_MAX_HOOKS = 200  # files of one folder of hooks that are looked at for links
_GIT = ".git"
_NAMES = frozenset((_GIT, "head", "objects", "refs", "commondir"))
_INSIDE = ("modules", "worktrees")  # where a repository keeps further ones
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist"),
    *("p4-post-changelist", "p4-pre-submit", "post-index-change"),
)
Stamp = tuple[int, int, int, int] | None
Setting = tuple[str, str]


class RepositoryFinder:
    """Holds what was found in the write roots of a run, and looks again where something may have changed.

    Used from the event loop and from threads: one look at a time.
    """

    def __init__(self, roots: Sequence[Root], environment: Mapping[str, str], changed: Callable[[], object]) -> None:
        """`changed` gives a value that differs from the last one once a program has run."""
        self._roots = tuple(root.path for root in roots if root.writable)
        self._read_only = tuple(root.path for root in roots if not root.writable and not root.name.startswith("run:"))
        self._environment = environment
        self._changed = changed
        self._looks = Looks(lambda name: name.casefold() in _NAMES)
        self._alone = RLock()
        self._seen: object = None
        self._stamps: dict[str, Stamp] = {}
        self._found: Repositories | None = None
        self._looking: asyncio.Future[None] | None = None
        self._known: tuple[tuple[str, str], ...] = ()
        self.every: tuple[str, ...] = ()  # the folder of each repository, those called `.git` too

    @property
    def known(self) -> tuple[tuple[str, str], ...]:
        """The folder of each repository that was found, with its working tree; empty: it has none."""
        return self._known

    def first_look(self) -> Awaitable[None] | None:
        """Give what to wait for before the first decision: a large tree takes too long for the event loop.

        None once there was a look. Later ones list only folders that changed since.
        """
        return self._look_in_thread() if self._found is None else None

    async def _look_in_thread(self) -> None:
        """Wait for the one first look, however many calls come at once."""
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look_once())
        await asyncio.shield(self._looking)

    async def _look_once(self) -> None:
        seen = self._changed()
        with ThreadPoolExecutor(1) as pool:  # no thread is left behind
            await asyncio.get_running_loop().run_in_executor(pool, self.look)
        self._seen = seen

    def found(self) -> Repositories:
        """Give the repositories; the very same object while nothing has changed."""
        with self._alone:
            seen = self._changed()
            if self._found is None or seen != self._seen or self._is_stale():
                self._seen = seen
                return self.look()
            return self._found

    def expire(self) -> None:
        """Have the next `found` look again: the runtime itself kept what a program changed."""
        self._seen = object()

    def forget(self, folder: str) -> None:
        """Drop a repository that was undone; others count for the whole run, even where a program removes them."""
        with self._alone:
            self._known = tuple(pair for pair in self._known if pair[0] != folder)
            self.expire()

    def look(self) -> Repositories:
        """Look for repositories now."""
        with self._alone:
            search = _Search(self._roots, self._looks, dict(self._environment), self._read_only)
            found = search.run(self._known)
            self._known = search.known()
            self._stamps = search.stamps
            self.every = search.every()
            if self._found is None or found != self._found:
                self._found = found
            return self._found

    def _is_stale(self) -> bool:
        return any(_stamp(path) != stamp for path, stamp in self._stamps.items())


@dataclass(slots=True)
class _Search:
    """One look at all roots."""

    roots: tuple[str, ...]
    looks: Looks
    environment: dict[str, str]
    read_only: tuple[str, ...] = ()
    stamps: dict[str, Stamp] = field(default_factory=dict)
    _known: dict[tuple[str, str], None] = field(default_factory=dict)
    _folders: dict[str, None] = field(default_factory=dict)
    _named: dict[str, None] = field(default_factory=dict)
    _heads: dict[str, None] = field(default_factory=dict)
    _unread: dict[str, None] = field(default_factory=dict)
    _programs: dict[str, None] = field(default_factory=dict)
    _users: list[Setting] = field(default_factory=list)
    _room: int = MAX_ENTRIES
    _config_room: int = _MAX_ALL_CONFIGS_BYTES

    def run(self, known: Sequence[tuple[str, str]] = ()) -> Repositories:
        """Look at what is known, above each root, then below it.

        Repositories that a program made since come last, so that they use up no limit that protects earlier ones.
        """
        for path in user_files(self.environment):
            self._users += self._settings(path, "")
        for folder, worktree in known:
            if os.path.isdir(folder):
                self._add(folder, worktree or None)
        for root in self.roots:
            self._look_above(root)
        for root in self.roots:
            self._look_below(root)
        whole = self._room > 0
        self._room = _MAX_READ_ONLY
        for root in self.read_only:
            self._look_below(root)
        inside = tuple(f"{folder}/" for folder in self._folders)
        return Repositories(
            tuple(sorted(self._folders)),
            tuple(sorted(self._named)),
            tuple(sorted(self._heads)),
            tuple(sorted(self._unread)),
            tuple(sorted(self._programs)),
            whole=whole and self._room > 0 and len(self._known) < MAX_REPOSITORIES,
            trees=tuple(sorted({tree for _, tree in self._known if tree.startswith(inside)})),
        )

    def known(self) -> tuple[tuple[str, str], ...]:
        """List each repository with its working tree, in the order they were found."""
        return tuple(self._known)

    def every(self) -> tuple[str, ...]:
        """List the folder of each repository beneath a root."""
        return tuple(dict.fromkeys(folder for folder, _ in sorted(self._known) if self._is_beneath(folder)))

    def _look_above(self, root: str) -> None:
        """A root may lie inside a working tree, or inside a bare repository."""
        folder = root
        while folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
            path = os.path.join(folder, _GIT)
            self.stamps[path] = _stamp(path)
            if self.stamps[path] is not None:
                self._add_git(path, folder)
            elif all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs")):
                self._add(folder, None)
        path = os.path.join(root, _GIT)
        self.stamps[path] = _stamp(path)

    def _look_below(self, root: str) -> None:
        waiting = deque([root])
        while waiting and self._room > 0:
            folder = waiting.popleft()
            try:
                look = self.looks.at(folder)
            except OSError:
                continue
            self._room -= look.count
            waiting += [os.path.join(folder, name) for name in self._inspect(folder, look)]

    def _inspect(self, folder: str, look: Look) -> Iterator[str]:
        """Take in one folder, and list those in it that are to be looked at."""
        names = {name.casefold() for name, _ in look.suspects}
        skipped = {_GIT}
        if _is_repository(names):
            self._add(folder, None)
            skipped.add("objects")
        elif "head" in names:
            self._heads[folder] = None
        for name, kind in look.suspects:
            if name.casefold() == _GIT:
                self._add_git(os.path.join(folder, name), folder)
                if kind == FOLDER:
                    yield from (f"{name}/{inner}" for inner in _INSIDE)
        yield from (name for name in look.folders if name.casefold() not in skipped)

    def _add_git(self, path: str, worktree: str) -> None:
        """Take in what is called `.git`: a folder, a link to one, or a file that names one."""
        if os.path.isdir(path):
            self._add(os.path.realpath(path), worktree)
            return
        self.stamps[path] = _stamp(path)
        text = read_small(path)
        if text is None or not text.startswith("gitdir:"):
            self._unread[worktree] = None
            return
        named = text.removeprefix("gitdir:").strip()
        self._add(os.path.realpath(os.path.join(worktree, named)), worktree)

    def _add(self, folder: str, worktree: str | None) -> None:
        """Take in a repository, the one that it shares its config with, and what their configs name."""
        if (folder, worktree or "") in self._known or len(self._known) >= MAX_REPOSITORIES:
            return
        self._known[folder, worktree or ""] = None
        shared = folder
        pointer = os.path.join(folder, "commondir")
        self.stamps[pointer] = _stamp(pointer)
        if self.stamps[pointer] is not None:
            shared = os.path.realpath(os.path.join(folder, (read_small(pointer) or "").strip()))
        for path in (folder, shared):
            if f"/{_GIT}/" not in f"{path.casefold()}/" and (path in self.roots or self._is_beneath(path)):
                self._folders[path] = None
            self._name_linked(path)
        about = worktree or folder
        configs = (os.path.join(shared, "config"), os.path.join(folder, "config.worktree"))
        settings = [setting for path in configs for setting in self._settings(path, about)]
        self._programs |= {key: None for key, value in settings if runs_while_reading(key, value)}
        self._note_hook(os.path.join(shared, "hooks"))
        self._name_linked_hooks(os.path.join(shared, "hooks"))
        trees = [os.path.join(folder, value) for key, value in settings if key == "core.worktree"]
        for key, value in (*self._users, *settings):
            if key == "core.hookspath" and value:
                for base in (*trees, about, folder):
                    hooks = os.path.join(base, self._expanded(value))
                    self._name_hooks(hooks)
                    self._note_hook(hooks)
                    self._name_linked_hooks(hooks)
            elif key == "init.templatedir" and value:
                self._name(os.path.join(about, self._expanded(value)))
            elif program := program_of(key, value):
                for base in (*trees, about):
                    self._name_file(os.path.join(base, self._expanded(program)))

    def _note_hook(self, folder: str) -> None:
        """Take in hooks that git runs even when it only reads."""
        for name in READING_HOOKS:
            path = os.path.join(folder, name)
            self.stamps[path] = _stamp(path)
            if self.stamps[path] is not None:
                self._programs[f"the hook {name}"] = None

    def _settings(self, path: str, about: str, depth: int = 0, read: set[str] | None = None) -> list[Setting]:
        """List the settings of a config file and of all that it includes, whatever their conditions say.

        `read` holds the files that were read for this config. Another config reads a file that both include again:
        what it names is relative to each repository.
        """
        read = set() if read is None else read
        read.add(path)
        self.stamps[path] = _stamp(path)
        if self.stamps[path] is None:
            return []
        text = read_small(path) if self._config_room > 0 else None
        self._config_room -= len(text or "")
        try:
            if text is None or depth > _MAX_INCLUDES:
                raise ValueError("unreadable")
            found = settings_of(text)
        except ValueError:
            if about:
                self._unread[about] = None
            return []
        for key, value in [*found]:
            if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
                self._config_room -= _INCLUDE_BYTES
                if self._config_room < 0 and about:
                    self._unread[about] = None
                    return found
                for place in dict.fromkeys((path, os.path.realpath(path))):  # a config may be a link
                    included = os.path.join(os.path.dirname(place), self._expanded(value))
                    self._name(included)
                    if included not in read:
                        found += self._settings(included, about, depth + 1, read)
        return found

    def _expanded(self, value: str) -> str:
        home = self.environment.get("HOME", "")
        if value.startswith("~/") and home:
            return os.path.join(home, value[2:])
        return os.path.expanduser(value) if value.startswith("~") else value

    def _name_hooks(self, folder: str) -> None:
        """Protect a folder of hooks; of one that holds a root, the names of hooks alone."""
        folder = os.path.normpath(folder)
        if any(f"{root}/".startswith(f"{os.path.realpath(folder)}/") for root in self.roots):
            for name in HOOKS:
                self._name(os.path.join(folder, name))
        else:
            self._name(folder)

    def _name_linked(self, folder: str) -> None:
        """Protect what decides for a repository and lies elsewhere, behind a link."""
        for name in DECIDING:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                self._name_hooks(os.path.join(folder, os.readlink(path)))

    def _name_linked_hooks(self, folder: str) -> None:
        """Protect the files that hooks are links to."""
        try:
            with os.scandir(folder) as entries:
                links = [entry.path for entry, _ in zip(entries, range(_MAX_HOOKS), strict=False) if entry.is_symlink()]
        except OSError:
            return
        for path in links:
            self._name_file(os.path.join(folder, os.readlink(path)))

    def _name_file(self, path: str) -> None:
        """Protect a file that git runs; of a folder by that name nothing is known."""
        if not os.path.isdir(path):
            self._name(path)

    def _name(self, path: str) -> None:
        """Protect a path, as it is written and where links on the way to it point."""
        for spelling in (os.path.normpath(path), os.path.realpath(path)):
            if self._is_beneath(spelling):
                self._named[spelling] = None

    def _is_beneath(self, path: str) -> bool:
        return any(path.startswith(f"{root.rstrip('/')}/") for root in self.roots)


def _is_repository(names: set[str]) -> bool:
    """Whether git takes a folder with these names for a repository."""
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= names)


def user_files(environment: Mapping[str, str]) -> list[str]:
    """List the configs that hold for every repository of this machine and this user."""
    home = environment.get("HOME", "")
    own = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = [os.path.join(home, ".gitconfig"), os.path.join(own, "git", "config")]
    if given := environment.get("GIT_CONFIG_GLOBAL"):
        files = [given]
    return ["/etc/gitconfig", *(path for path in files if os.path.isabs(path))]


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not S_ISREG(found.st_mode):
        return (found.st_dev, found.st_ino, 0, 0)
    return (found.st_dev, found.st_ino, found.st_ctime_ns, found.st_mtime_ns)


def read_small(path: str) -> str | None:
    """Read a small regular file; None where it is something else or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if not S_ISREG(os.fstat(fd).st_mode):
            return None
        data = os.read(fd, _MAX_CONFIG_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    if len(data) > _MAX_CONFIG_BYTES:
        return None
    return os.fsdecode(data)

"""Builds the sandbox's own root out of held copies of folders, and masks what the plan protects in it."""

from __future__ import annotations

import os
import stat

from handrail.sandbox.inside import calls
from handrail.sandbox.inside.channel import Channel

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any

_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_LINKS = ((b"fd", b""), (b"stdin", b"/0"), (b"stdout", b"/1"), (b"stderr", b"/2"))
ON_DISK = "layers on disk"
_AREA = b"/tmp"  # covered by the new root until that is the root
Source = tuple[bytes, int, bool]  # where it goes, what is held, whether it may be changed


def hold_sources(spec: dict[str, Any], held: list[int]) -> list[Source]:
    """Hold a copy of everything that will be seen, while it can still be found; read-only unless it is for writing."""
    owned = iter(held)
    found: list[Source] = []
    for path, writable, mapped in spec["binds"]:
        if mapped and held:
            found.append((path, next(owned), writable))
            continue
        fd = calls.open_tree(path, deep=True)
        attributes = calls.ATTR_NOSUID | calls.ATTR_NODEV | (0 if writable else calls.ATTR_RDONLY)
        calls.set_attributes(fd, attributes, deep=True)
        found.append((path, fd, writable))
    for name in _DEVICES:
        fd = calls.open_tree(b"/dev/" + name, deep=False)
        calls.set_attributes(fd, calls.ATTR_NOSUID | calls.ATTR_NOEXEC, deep=False)
        found.append((b"/dev/" + name, fd, True))
    return found


def hold_layers(spec: dict[str, Any], held: list[int]) -> dict[bytes, int]:
    """Hold the folders on disk that take the changes, by the root that they cover; the other layers are in memory."""
    paths = [path for path in spec["layers"] if path]
    mapped = held[len(spec["owned"]) :]
    found = {}
    for path, root in zip(spec["layers"], spec["review"], strict=False):
        if path and mapped:
            found[root] = mapped[paths.index(path)]
        elif path:
            found[root] = calls.open_tree(path, deep=False)
            calls.set_attributes(found[root], calls.ATTR_NOSUID | calls.ATTR_NODEV, deep=False)
    return found


def build(spec: dict[str, Any], sources: list[Source], layers: dict[bytes, int], channel: Channel) -> None:
    """Put the new root together and make it the root."""
    area = _AREA if os.path.isdir(_AREA) else b"/usr"
    calls.mount(b"tmpfs", area, b"tmpfs", calls.NOSUID | calls.NODEV, b"mode=755,size=4m,nr_inodes=16k")
    os.umask(0o022)
    _fresh(area, spec["scratch"])
    for path, text in spec["files"]:
        _written(area + path, text)
    for path, target in spec["links"]:
        _folders(os.path.dirname(area + path))
        os.symlink(target, area + path)
    for path, fd, writable in sources:
        _place(area + path, fd)
        if writable and spec["review"] and path in spec["review"]:
            _layer(area, path, spec, layers.get(path), channel)
        os.close(fd)
    calls.mount(b"proc", area + b"/proc", b"proc", calls.NOSUID | calls.NODEV | calls.NOEXEC)
    if spec["review"]:
        _hand_out_layers(area, channel)
    calls.pivot(area)
    for path in (b"/proc/sys", b"/proc/sysrq-trigger", b"/proc/irq", b"/proc/bus", b"/proc/fs"):
        if os.path.lexists(path):
            _bound_again(path, calls.ATTR_RDONLY)


def _fresh(area: bytes, scratch: int) -> None:
    """Make the folders that begin empty."""
    size = b"mode=1777,size=%d,nr_inodes=256k" % scratch
    for name in (b"/tmp", b"/proc", b"/dev"):
        os.mkdir(area + name)
    quiet = calls.NOSUID | calls.NODEV
    calls.mount(b"tmpfs", area + b"/tmp", b"tmpfs", quiet, size)
    calls.mount(b"tmpfs", area + b"/dev", b"tmpfs", calls.NOSUID | calls.NOEXEC, b"mode=755,size=64k,nr_inodes=64")
    os.mkdir(area + b"/dev/shm")
    os.mkdir(area + b"/dev/pts")
    calls.mount(b"tmpfs", area + b"/dev/shm", b"tmpfs", quiet, size)
    terminals = b"newinstance,ptmxmode=0666,mode=620"
    calls.mount(b"devpts", area + b"/dev/pts", b"devpts", calls.NOSUID | calls.NOEXEC, terminals)
    os.symlink(b"pts/ptmx", area + b"/dev/ptmx")
    for name, which in _LINKS:
        os.symlink(b"/proc/self/fd" + which, area + b"/dev/" + name)


def _place(path: bytes, fd: int) -> None:
    """Put a held copy at its path in the new root."""
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        _folders(path)
    else:
        _written(path, b"")
    calls.move_to(fd, path)


def _folders(path: bytes) -> None:
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        return
    except FileNotFoundError:
        _folders(os.path.dirname(path))
        os.mkdir(path, 0o755)


def _written(path: bytes, text: bytes, mode: int = 0o644) -> None:
    flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, mode)
    except FileNotFoundError:
        _folders(os.path.dirname(path))
        fd = os.open(path, flags, mode)
    if text:
        os.write(fd, text)
    os.close(fd)


# ── the layer that changes go to ─────────────────────────────────────────────────────────────


def _layer(area: bytes, path: bytes, spec: dict[str, Any], disk: int | None, channel: Channel) -> None:
    """Cover a folder by a layer of its own: what is below shows through and is never changed."""
    index = spec["review"].index(path)
    layers = area + b"/.layers"
    stage = channel.stage
    if not os.path.isdir(layers):
        os.mkdir(layers)
        size = b"mode=755,size=%d,nr_inodes=256k" % spec["scratch"]
        calls.mount(b"tmpfs", layers, b"tmpfs", calls.NOSUID | calls.NODEV, size)
    ours = layers + b"/%d" % index
    os.mkdir(ours)
    target = area + path
    if disk is None:
        os.mkdir(ours + b"/upper")
        os.mkdir(ours + b"/work")
        os.chmod(ours + b"/upper", stat.S_IMODE(os.stat(target).st_mode))
    else:
        channel.stage = ON_DISK
        calls.move_to(disk, ours)
        os.close(disk)
    for root, name, text, mode, time, folders in spec["indexes"]:
        if root == path:
            _write_index(ours + b"/upper/", name, text, mode, time, folders)
    if _is_empty(target):  # nothing shows through: the upper folder is all there is to see, and much sooner mounted
        held = calls.open_tree(ours + b"/upper", deep=False)
        calls.set_attributes(held, calls.ATTR_NOSUID | calls.ATTR_NODEV, deep=False)
        calls.move_to(held, target)
        os.close(held)
        channel.stage = stage
        return
    # Volatile: what is kept is synced when it is kept, and nothing else needs to be.
    options = b"lowerdir=.,upperdir=%s/upper,workdir=%s/work,userxattr,volatile" % (ours, ours)
    os.chdir(target)  # a path with colons or commas cannot be written into the options
    try:
        calls.mount(b"overlay", target, b"overlay", calls.NOSUID | calls.NODEV, options)
    finally:
        os.chdir(b"/")
    channel.stage = stage


def _is_empty(folder: bytes) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _write_index(
    upper: bytes, name: bytes, text: bytes, mode: int, time: int, folders: list[tuple[bytes, int]]
) -> None:
    """Write a prepared index of git into a layer before it is mounted; its folders have the modes of those below."""
    for folder, _ in folders:
        if not os.path.isdir(upper + folder):
            os.mkdir(upper + folder, 0o700)
    fd = os.open(upper + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    view = memoryview(text)
    while view:
        view = view[os.write(fd, view) :]
    os.fchmod(fd, mode)
    os.utime(fd, ns=(time, time))
    os.close(fd)
    for folder, mode_below in reversed(folders):
        os.chmod(upper + folder, mode_below)


def _hand_out_layers(area: bytes, channel: Channel) -> None:
    """Let the runtime hold the layers beyond the sandbox's life, and take them out of the program's sight."""
    channel.stage = "layers for review"
    fd = os.open(area + b"/.layers", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    channel.send(("layers",), fd)
    os.close(fd)
    calls.detach(area + b"/.layers")
    os.rmdir(area + b"/.layers")


# ── masks ────────────────────────────────────────────────────────────────────────────────────


def mask(spec: dict[str, Any]) -> None:
    """Hide, lock or pin paths, the shorter first; each must still be what the runtime saw."""
    if not spec["masks"]:
        return
    os.mkdir(b"/.hidden", 0o755)
    os.mkdir(b"/.hidden/folder", 0o555)
    _written(b"/.hidden/file", b"", 0o000)
    roots = [path for path, _, ours in spec["binds"] if ours]
    for path, how in spec["masks"]:
        if how != "hide":
            _bound_again(path, calls.ATTR_RDONLY if how == "lock" else 0)
        elif inner := [root for root in roots if root.startswith(path + b"/")]:
            _hide_around(path, inner)
        else:
            _hide(path)


def _hide(path: bytes) -> None:
    target = calls.open_path(path)
    try:
        folder = stat.S_ISDIR(os.fstat(target).st_mode)
        _cover(target, b"/.hidden/folder" if folder else b"/.hidden/file", deep=False)
    finally:
        os.close(target)


def _hide_around(path: bytes, inner: list[bytes]) -> None:
    """Hide a folder that holds roots of the plan, and show those again at their places."""
    target = calls.open_path(path)
    area = b"/.hidden/around"
    os.mkdir(area)
    try:
        calls.mount(b"tmpfs", area, b"tmpfs", calls.NOSUID | calls.NODEV, b"mode=755,size=64k,nr_inodes=256")
        for root in inner:
            held = calls.open_tree(root, deep=True)
            _place(area + root[len(path) :], held)
            os.close(held)
        _cover(target, area, deep=True)
        calls.detach(area)
    finally:
        os.rmdir(area)
        os.close(target)


def _cover(target: int, by: bytes, *, deep: bool) -> None:
    """Put a folder or file of ours over what a program must not see."""
    cover = calls.open_tree(by, deep=deep)
    calls.set_attributes(cover, calls.ATTR_RDONLY | calls.ATTR_NOSUID | calls.ATTR_NODEV, deep=False)
    calls.move_onto(cover, target)
    os.close(cover)


def _bound_again(path: bytes, attributes: int) -> None:
    """Make a path a mount of its own: it can then be neither renamed nor removed, and be read-only by itself."""
    target = calls.open_path(path)
    try:
        copy = calls.open_tree(b"", deep=True, at=target)
        if attributes:
            calls.set_attributes(copy, attributes, deep=True)
        calls.move_onto(copy, target)
        os.close(copy)
    finally:
        os.close(target)

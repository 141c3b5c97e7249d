"""System calls that Python does not wrap, by ctypes. Each raises OSError with the errno of the call."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_mount = _libc.mount
_mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_long = ctypes.c_long

# By machine: clone, pivot_root, keyctl, capset, seccomp.
NUMBERS = {"x86_64": (56, 155, 250, 126, 317), "aarch64": (220, 41, 219, 91, 277)}
_CLONE, _PIVOT_ROOT, _KEYCTL, _CAPSET, _SECCOMP = NUMBERS.get(os.uname().machine, (-1,) * 5)
# The same on every machine.
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE, _OPENAT2, _MOUNT_SETATTR = 428, 429, 436, 437, 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_CLONE_PIDFD = 0x1000
NOSUID, NODEV, NOEXEC, BIND, REC, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC, ATTR_IDMAP = 1, 2, 4, 8, 0x100000
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_RESOLVE_STRICT = 0x04 | 0x02  # no links, no magic links
PDEATHSIG, DUMPABLE, CAPBSET_DROP, SUBREAPER, NO_NEW_PRIVS, CAP_AMBIENT = 1, 4, 24, 36, 38, 47
_LAST_CAPABILITY = 63


def syscall(number: int, *arguments: object) -> int:
    """Make a system call with whole registers; numbers are handed over as longs."""
    result = int(_syscall(_long(number), *(_long(item) if isinstance(item, int) else item for item in arguments)))
    return _checked(result, f"system call {number}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, first: int, second: int = 0) -> int:
    """Change something about the calling process."""
    return _checked(int(_prctl(option, first, second, 0, 0)), f"prctl {option}")


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces; give the child's id and a descriptor of it, or (0, -1) in the child.

    Unlike `os.fork`, nothing of the interpreter is told: the caller must have one thread only.
    """
    handle = ctypes.c_int(-1)
    pid = syscall(_CLONE, flags | _CLONE_PIDFD | 17, 0, ctypes.byref(handle), 0, 0)
    return pid, handle.value


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def set_hostname(name: bytes) -> None:
    """Name the machine as seen in this namespace."""
    _checked(_libc.sethostname(name, ctypes.c_size_t(len(name))), "sethostname")


def mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    """Mount the old way."""
    _checked(_mount(source, target, kind, flags, data), f"mount {os.fsdecode(target)}")


def detach(target: bytes) -> None:
    """Take a mount away, at once for new users of the path."""
    _checked(_libc.umount2(target, ctypes.c_int(2)), f"umount {os.fsdecode(target)}")


def open_tree(path: bytes, *, deep: bool, at: int = _AT_FDCWD) -> int:
    """Copy a mount, whole or alone, and hold it by a descriptor."""
    empty = 0 if path else _AT_EMPTY_PATH
    flags = 1 | os.O_CLOEXEC | empty | (_AT_RECURSIVE if deep else 0)
    try:
        return syscall(_OPEN_TREE, at, path, flags)
    except OSError as error:
        raise OSError(error.errno, f"open_tree {os.fsdecode(path)}: {os.strerror(error.errno or 0)}") from None


def set_attributes(fd: int, attributes: int, *, deep: bool, users: int = 0) -> None:
    """Make a held mount read-only, without devices, or seen with other owners."""
    wanted = b"".join(part.to_bytes(8, "little") for part in (attributes, 0, 0, users))
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if deep else 0)
    syscall(_MOUNT_SETATTR, fd, b"", flags, wanted, len(wanted))


def move_to(fd: int, path: bytes) -> None:
    """Put a held mount at a path."""
    try:
        syscall(_MOVE_MOUNT, fd, b"", _AT_FDCWD, path, 4)
    except OSError as error:
        raise OSError(error.errno, f"move_mount {os.fsdecode(path)}: {os.strerror(error.errno or 0)}") from None


def move_onto(fd: int, target: int) -> None:
    """Put a held mount on what another descriptor names."""
    syscall(_MOVE_MOUNT, fd, b"", target, b"", 4 | 0x40)


def open_path(path: bytes) -> int:
    """Open a path that has no link anywhere in it, for naming it only."""
    how = b"".join(part.to_bytes(8, "little") for part in (os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_STRICT))
    try:
        return syscall(_OPENAT2, _AT_FDCWD, path, how, len(how))
    except OSError as error:
        raise OSError(error.errno, f"openat2 {os.fsdecode(path)}: {os.strerror(error.errno or 0)}") from None


def pivot(folder: bytes) -> None:
    """Make a mounted folder the root and let go of the old one."""
    os.chdir(folder)
    syscall(_PIVOT_ROOT, b".", b".")
    detach(b".")
    os.chdir(b"/")


def close_range(first: int, last: int) -> None:
    """Close every descriptor between two numbers, both included."""
    syscall(_CLOSE_RANGE, first, last, 0)


def close_from(first: int) -> None:
    """Close every descriptor from a number on."""
    close_range(first, 0xFFFFFFFF)


def new_keyring() -> None:
    """Leave the session's keyring for an empty one; where the kernel has none, there is nothing to leave."""
    try:
        syscall(_KEYCTL, 1, None)
    except OSError as error:
        if error.errno != 38:
            raise


def drop_capabilities() -> None:
    """Give up every capability, also those that a program could get back by executing a file."""
    for number in range(_LAST_CAPABILITY):
        if _prctl(CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # the last one is behind us, or there is none to drop with
    _prctl(CAP_AMBIENT, 4, 0, 0, 0)
    syscall(_CAPSET, (0x20080522).to_bytes(4, "little") + bytes(4), bytes(24))


def limit(resource: int, amount: int) -> None:
    """Bound a resource for good; never above what there was."""
    now = (ctypes.c_ulong * 2)()
    _checked(_libc.getrlimit(ctypes.c_int(resource), now), "getrlimit")
    least = min(amount, now[1])
    _checked(_libc.setrlimit(ctypes.c_int(resource), (ctypes.c_ulong * 2)(least, least)), f"setrlimit {resource}")


def landlock(handled: bytes, rules: list[tuple[bytes, int]]) -> None:
    """Enter a domain that gives rights below paths; a path that is not there gives none."""
    ruleset = syscall(_LANDLOCK_CREATE, handled, len(handled), 0)
    for path, rights in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = rights.to_bytes(8, "little") + fd.to_bytes(4, "little")
        syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0)
        os.close(fd)
    syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def filter_calls(program: bytes) -> None:
    """Let a filter judge every system call from here on."""
    held = ctypes.create_string_buffer(program, len(program))
    address = ctypes.addressof(held)
    header = (len(program) // 8).to_bytes(8, "little") + address.to_bytes(8, "little")
    syscall(_SECCOMP, 1, 0, header)


def loopback_up() -> None:
    """Switch on the loopback of a new network namespace."""
    fd = _checked(_libc.socket(2, 2 | os.O_CLOEXEC, 0), "socket")
    request = b"lo".ljust(16, b"\0") + (0x41).to_bytes(2, "little") + bytes(22)
    try:
        _checked(_libc.ioctl(fd, ctypes.c_ulong(0x8914), request), "switch on loopback")
    finally:
        os.close(fd)

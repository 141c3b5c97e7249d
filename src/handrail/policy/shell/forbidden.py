"""What no rule allows: destroying the machine, its disks or its users' homes, and downloads that are run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import normpath

from handrail.policy.shell.bombs import BOMB, multiplies
from handrail.policy.shell.model import Reading

_ROOTS = re.compile(r"/+\.?\*?|/+(?:\.\./*)+\*?|~/?\*?|~[a-z_][\w-]*/?\*?|\$\{?HOME\}?/?\*?")
_SYSTEM = re.compile(
    r"/+(?:bin|boot|dev|etc|home|lib|lib32|lib64|opt|proc|root|run|sbin|srv|sys|usr|var|Users|System|Library)/*\*?"
)
_DISK = re.compile(r"/dev/(?:[shv]d[a-z]|xvd|nvme|mmcblk|mapper/|dm-|md[0-9]|loop|disk|mem|kmem|port|sda)\S*")
_DISK_TOOLS = re.compile(
    r"mkfs(?:\..+)?|mke2fs|mkswap|wipefs|fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|blkdiscard|shred|badblocks|hdparm|"
    r"cryptsetup|pvcreate|vgremove|lvremove|zpool|mdadm|nvme|format"
)
_WHATEVER = re.compile(r"mkfs(?:\..+)?|mke2fs|blkdiscard|wipefs")
_POWERSHELL = re.compile(
    r"(?:power)?pwsh(?:-preview)?(?:\.exe)?|powershell(?:\.exe)?|powershell_ise(?:\.exe)?", re.IGNORECASE
)
_DOWNLOAD = re.compile(
    r"\biex\b|invoke-expression|downloadstring|downloadfile|downloaddata|invoke-webrequest|\biwr\b|invoke-restmethod|"
    r"\birm\b|net\.webclient|httpclient|start-bitstransfer|-e(?:nc(?:odedcommand)?|c)?\b\s+[A-Za-z0-9+/=]{16,}",
    re.IGNORECASE,
)
_CMD = re.compile(r"(?:cmd|command|start|conhost|wsl|wt)(?:\.exe)?", re.IGNORECASE)
_INTERPRETERS = re.compile(r"(?:perl|python|pypy|ruby|php|lua|node|nodejs|deno|bun|tclsh)[0-9.]*")
_FORKING = re.compile(
    r"fork(?:\(\))?\s+while\s+(?:fork|1|true)\b|(?:while[\s(]{1,4}(?:1|True|true)|for\s*\(\s*;\s*;\s*\)|\bloop)[):\s{(]{1,5}"
    r"(?:do\s)?\s{0,4}(?:os\.|pcntl_|Process\.)?fork"
)
# Written to when they stand in any place but the first; what is read comes first.
_WRITERS = re.compile(
    r"cp|mv|install|truncate|cat|sponge|rsync|ddrescue|dd_rescue|xfs_copy|e2image|qemu-img|bmaptool|partclone\..+"
)
_DD = frozenset({"dd", "dcfldd", "dc3dd", "sg_dd"})
_NAMED = re.compile(
    r"(?<![\w.-])(?:rm|find|dd|ddrescue|chmod|chown|chgrp|mkfs\S*|mke2fs|blkdiscard|wipefs|shred|tee|cp|mv|cat)(?![\w-])"
)
_PARTS = re.compile(r"[;&|()`\n{}]+")


def forbidden(words: Sequence[str], text: str = "") -> str | None:
    """Why a command is denied whatever rules say."""
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1].rsplit("\\", 1)[-1]
    rest = [_bare(word) for word in words[1:]]
    if name == "rm":
        return _removes(rest)
    if name in ("chmod", "chown", "chgrp"):
        return _opens(name, rest)
    if name in _DD:
        disk = next((word for word in rest if word.startswith("of=") and _DISK.match(_bare(word[3:]))), None)
        return f"{name} would overwrite {disk[3:]}" if disk else None
    if _DISK_TOOLS.fullmatch(name):
        return _on_disk(name, rest)
    if disk := _written(name, rest):
        return f"{name} would write to {disk}"
    if why := _downloads_or_forks(name, f"{' '.join(rest)} {text}"):
        return why
    if name == "find" and ("-delete" in rest or "rm" in rest) and any(_is_root(word) for word in rest[:3]):
        return "find would delete all that the machine or a home holds"
    return None


def forbidden_line(line: str, reading: Reading) -> str | None:
    """Why a line as a whole is denied whatever rules say."""
    if reading.bomb or multiplies(line):
        return BOMB
    if disk := next((path for path in reading.writes if _DISK.fullmatch(_bare(path))), None):
        return f"the line would write to {disk}"
    if any(_goes_to_a_root(part.words) for part in reading.parts):
        emptied = next((part for part in reading.parts if _empties_here(part.words)), None)
        if emptied is not None:
            return f"{emptied.text} would empty a root"
    return next((why for part in reading.parts if (why := forbidden(part.words, part.text))), None)


def may_be_forbidden(line: str) -> bool:
    """Whether a line that is not understood names, in whatever quotes, what may be forbidden."""
    text = re.sub(r"[\"'\\]", "", line)
    if _POWERSHELL.search(text) and _DOWNLOAD.search(text):
        return True
    for piece in _PARTS.split(text) if _NAMED.search(text) or "/dev/" in text else ():
        words = [_bare(word) for word in re.split(r"[\s<>]+", piece)]
        aimed = any(_is_root(word) or _DISK.match(word.removeprefix("of=")) for word in words)
        if aimed and (_NAMED.search(piece) or ">" in piece):
            return True
    return False


def _downloads_or_forks(name: str, said: str) -> str | None:
    powershell = _POWERSHELL.fullmatch(name) or (_CMD.fullmatch(name) and _POWERSHELL.search(said))
    if powershell and _DOWNLOAD.search(said):
        return "PowerShell would run or fetch what it downloads"
    return BOMB if _INTERPRETERS.fullmatch(name) and _FORKING.search(said) else None


def _written(name: str, rest: Sequence[str]) -> str | None:
    """The disk that a command writes to by its place among the words."""
    named = [word for word in rest if not word.startswith("-")]
    if _WRITERS.fullmatch(name) and not (name in ("cat", "truncate") and len(named) == 1):
        named = named[1:]
    elif name not in ("tee", "cat", "truncate"):
        return None
    return next((word for word in named if _DISK.fullmatch(word)), None)


def _goes_to_a_root(words: Sequence[str]) -> bool:
    if words[:1] not in (("cd",), ("pushd",)):
        return False
    named = [word for word in words[1:] if not word.startswith("-")]
    return len(words) == 1 or any(_is_root(_bare(word)) for word in named)


def _empties_here(words: Sequence[str]) -> bool:
    if not any(word in ("*", ".", "./*", ".*", "./", "..") for word in words[1:]):
        return False
    name = words[0].rsplit("/", 1)[-1]
    deletes = name == "find" and ("-delete" in words or "rm" in words)
    return deletes or (name in ("rm", "chmod", "chown", "chgrp") and _deep(words))


def _bare(word: str) -> str:
    """A word as written, without quotes, and a path in its shortest form."""
    text = word.replace('"', "").replace("'", "")
    return f"/{normpath(text).lstrip('/')}" if text.startswith("/") else text


def _is_root(word: str) -> bool:
    return bool(_ROOTS.fullmatch(word) or _SYSTEM.fullmatch(word))


def _removes(rest: Sequence[str]) -> str | None:
    target = next((word for word in rest if not word.startswith("-") and _is_root(word)), None)
    return f"rm would remove all of {target}" if target and _deep(rest) else None


def _deep(words: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-[a-qs-zA-QS-Z]*[rR][a-zA-Z]*|--r\w*|--no-preserve-root", word) for word in words)


def _opens(name: str, rest: Sequence[str]) -> str | None:
    deep = any(re.fullmatch(r"-[a-zA-QS-Z]*R[a-zA-Z]*|--recursive", word) for word in rest)
    target = next((word for word in rest if _is_root(word)), None)
    return f"{name} would change all of {target}" if deep and target else None


def _on_disk(name: str, rest: Sequence[str]) -> str | None:
    disk = next((word for word in rest if _DISK.match(word)), None)
    if disk is not None:
        return f"{name} would destroy {disk}"
    named = [word for word in rest if not word.startswith("-")]
    return f"{name} makes or wipes file systems" if _WHATEVER.fullmatch(name) and named else None

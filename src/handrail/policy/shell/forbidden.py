"""What no rule allows: destroying the machine, its disks or its users' homes, and downloads that are run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from posixpath import normpath

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
_DEFINED = re.compile(r"\([ \t]{0,9}\)|\bfunction[ \t]+[^\s;&|(){}]{1,64}")
_NAME_BEFORE = re.compile(r"([^\s;&|(){}]{1,64})[ \t]*\Z")
_BODY = 512  # signs of a function's body that are looked at
_MANY = 200  # functions in a line that are looked at; a line with any asks
_FORKING = re.compile(r"fork\s+while\s+fork|while[\s(]{1,4}(?:1|True|true)[):\s{]{1,5}(?:os\.)?fork|\$0\s*[|&]+\s*\$0")


def forbidden(words: Sequence[str], text: str = "") -> str | None:
    """Why a command is denied whatever rules say."""
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    rest = [_bare(word) for word in words[1:]]
    if name == "rm":
        return _removes(rest)
    if name in ("chmod", "chown", "chgrp"):
        return _opens(name, rest)
    if name == "dd":
        disk = next((word for word in rest if word.startswith("of=") and _DISK.match(word[3:])), None)
        return f"dd would overwrite {disk[3:]}" if disk else None
    if _DISK_TOOLS.fullmatch(name):
        return _on_disk(name, rest)
    if _POWERSHELL.fullmatch(name) and _DOWNLOAD.search(f"{' '.join(rest)} {text}"):
        return "PowerShell would run or fetch what it downloads"
    if name in ("tee", "cp", "mv", "truncate", "cat") and any(_DISK.fullmatch(word) for word in rest[-1:]):
        return f"{name} would write to {rest[-1]}"
    if name == "find" and ("-delete" in rest or "rm" in rest) and any(_is_root(word) for word in rest[:3]):
        return "find would delete all that the machine or a home holds"
    return None


def forbidden_line(line: str, reading: Reading) -> str | None:
    """Why a line as a whole is denied whatever rules say."""
    if _FORKING.search(line) or any(_starts_itself(found) for found in islice(_DEFINED.finditer(line), _MANY)):
        return "the line starts itself again and again: a fork bomb"
    if disk := next((path for path in reading.writes if _DISK.fullmatch(path)), None):
        return f"the line would write to {disk}"
    if any(
        part.words[:1] == ("cd",) and any(_is_root(_bare(word)) for word in part.words[1:]) for part in reading.parts
    ):
        emptied = next((part for part in reading.parts if _empties_here(part.words)), None)
        if emptied is not None:
            return f"{emptied.text} would empty a root"
    return next((why for part in reading.parts if (why := forbidden(part.words, part.text))), None)


def _empties_here(words: Sequence[str]) -> bool:
    here = [word for word in words[1:] if word in ("*", ".", "./*", ".*", "./", "..")]
    return bool(here) and words[0].rsplit("/", 1)[-1] == "rm" and _deep(words)


def _bare(word: str) -> str:
    """A word as written, without quotes, and a path in its shortest form."""
    text = word.replace('"', "").replace("'", "")
    return normpath(text) if text.startswith("/") and not text.startswith("/dev/") else text


def _is_root(word: str) -> bool:
    return bool(_ROOTS.fullmatch(word) or _SYSTEM.fullmatch(word))


def _removes(rest: Sequence[str]) -> str | None:
    target = next((word for word in rest if not word.startswith("-") and _is_root(word)), None)
    return f"rm would remove all of {target}" if target and _deep(rest) else None


def _deep(words: Sequence[str]) -> bool:
    return any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r\w*|--no-preserve-root", word) for word in words)


def _opens(name: str, rest: Sequence[str]) -> str | None:
    deep = any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", word) for word in rest)
    target = next((word for word in rest if _is_root(word)), None)
    return f"{name} would change all of {target}" if deep and target else None


def _on_disk(name: str, rest: Sequence[str]) -> str | None:
    disk = next((word for word in rest if _DISK.match(word)), None)
    if disk is not None:
        return f"{name} would destroy {disk}"
    named = [word for word in rest if not word.startswith("-")]
    return f"{name} makes or wipes file systems" if _WHATEVER.fullmatch(name) and named else None


def _starts_itself(found: re.Match[str]) -> bool:
    """Whether a function starts itself in the background or in a pipe."""
    before = found[0] if found[0][0] != "(" else found.string[max(0, found.start() - 80) : found.start()]
    named = _NAME_BEFORE.search(before)
    if named is None:
        return False
    name = rf"(?<![\w:.-]){re.escape(named[1])}(?![\w:.-])"
    body = found.string[found.end() : found.end() + _BODY]
    return re.search(rf"{name}[ \t]*(?:\|[ \t]*&?[ \t]*{name}|&(?!&))", body) is not None

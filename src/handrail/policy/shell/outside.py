"""Commands that an agent runs itself, outside the sandbox: what they may show, and what they must not name.

Inside the sandbox a command that only reads is harmless, since what it must not see is not there. Outside it is. So a
harmless command asks where it may show the environment, protected files or anything beyond its folder, and the files
that it names are judged like those of any tool. A line that calls Handrail, or names its files, the hook settings of an
agent or key material, is denied. It is a door, not a wall: a program that hides what it does is not found out here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from handrail.policy.hook_names import HOOK_SETTINGS
from handrail.policy.patterns import protects
from handrail.policy.repositories import PATTERNS as REPOSITORY
from handrail.policy.shell.harmless import harmless
from handrail.policy.shell.model import Reading
from handrail.words import noun

_SETTINGS = ("handrail.toml",)
OWN_NAMES = (".local/state/handrail", ".config/handrail", ".cache/handrail")
_SHOWS_ENVIRONMENT = frozenset({"printenv", "env", "ps"})
_PRINTS_WORDS = frozenset(
    {"echo", "printf", ":", "true", "false", "seq", "sleep", "exit", "return", "break", "continue"}
)
_SCRIPTED = frozenset({"sed", "awk", "mawk", "gawk", "jq", "grep", "egrep", "fgrep", "rg"})
_RUNS_OTHERS = frozenset({"xargs"})
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--(?:dereference-)?recursive|--directories=.*|-d")
_UNHIDDEN = re.compile(r"-[a-zA-Z0-9]*[u.][a-zA-Z0-9.]*|--(?:hidden|unrestricted|no-ignore.*|files-from.*|search-zip)")
_OF_ENVIRONMENT = re.compile(r"\benv\b|\$ENV|\bENVIRON\b|\$__prog_args")
_GIVES_SCRIPT = re.compile(r"-[a-zA-Z]*[ef].*|--(?:expression|regexp|file|from-file)(?:=.*)?")
_STREAM = re.compile(r"/dev/(?:null|stdin|stdout|stderr|zero|tty|fd/[0-9]+)")
_PIECES = re.compile(r"[:=,@<>|;&()\"'`{}\[\]]+|\s+")
_HOME = re.compile(r"(?:~[\w.-]*|\$\{?HOME\}?)/")
_CODE = re.compile(r"\b(?:import|from)\s+handrail\b|\bhandrail\.(?:front|runtime|store|hooks|settings|approvals)\b")
_RUNNERS = frozenset(
    {"uvx", "pipx", "uv", "npx", "sudo", "env", "nohup", "setsid", "exec", "command", "xargs", "watch"}
)
_ENDERS = frozenset({"kill", "pkill", "killall", "systemctl", "fuser"})
_OF_USER = frozenset({"--global", "--system"})
# Below the home, or anywhere outside the roots.
_CREDENTIALS = (
    *(".codex/auth.json", ".claude/.credentials.json", ".gemini/oauth_creds.json", ".config/gh", ".npmrc", ".pip"),
    *(".config/pip", ".docker", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml"),
)
_TAKES = frozenset({"rm", "rmdir", "mv", "shred", "chmod", "chown", "chgrp", "find", "rsync"})
_MOST_READ = 64
_MOST_PLACES = 16


def why_shown(words: Sequence[str]) -> str:
    """Say why a command that is harmless in the sandbox asks outside it; empty where it does not."""
    name = posixpath.basename(words[0])
    rest = words[1:]
    if name in _SHOWS_ENVIRONMENT and (name != "env" or len(words) == 1):
        return f"{name} shows the environment, which may hold secrets"
    if name in _RUNS_OTHERS or (name == "find" and any(word.startswith("-exec") for word in rest)):
        return f"which files {name} hands on is not known"
    if name in ("jq", "awk", "gawk", "mawk") and any(map(_OF_ENVIRONMENT.search, rest)):
        return f"{name} shows the environment, which may hold secrets"
    if name in _PRINTS_WORDS:
        return ""
    if name in ("grep", "egrep", "fgrep", "diff") and any(map(_RECURSIVE.fullmatch, rest)):
        return f"{name} reads all below a folder, also files that are protected"
    if name == "rg" and any(map(_UNHIDDEN.fullmatch, rest)):
        return "rg reads hidden files, also those that are protected"
    return _why_beyond(name, [*_named(words)])


def _why_beyond(name: str, named: Sequence[str]) -> str:
    if name == "cd" and not named:
        return "cd leaves the folder"
    for word in named:
        path = word.rpartition("=")[2] if word.startswith("-") else word
        if _STREAM.fullmatch(path):
            continue
        if path.startswith(("/", "~")) or re.match(r"-[a-zA-Z]+[/~]", path) or ".." in path.split("/"):
            return f"{path} may lie outside the roots"
        if "{" in path or any(part.startswith(".") and _is_glob(part) for part in path.split("/")):
            return f"which files {path} stands for is not known"
        if not path.isprintable():
            return "one of its words cannot be shown"
    return "it names more files than are looked at" if len(named) > _MOST_READ else ""


def read_by(reading: Reading, cwd: str) -> Iterator[str]:
    """List the files that harmless commands of a line name, from every folder that the line may stand in."""
    places = [cwd]
    for part in reading.parts:
        if not part.words or not harmless(part.words):
            continue
        name = posixpath.basename(part.words[0])
        named = [word for word in _named(part.words) if _is_file(word)]
        if name == "cd":
            places += [f"{place}/{target}" for place in places for target in named[:1]]
            places = places[:_MOST_PLACES]
        elif name not in _PRINTS_WORDS:
            yield from (f"{place}/{word}" for place in places for word in named[:_MOST_READ])


def written_at_home(reading: Reading) -> Iterator[str]:
    """List where a line writes below the home by `~` or `$HOME`; the shell knows the folder, and it is no root."""
    yield from (f"/~/{_HOME.sub('', path, count=1)}" for path in reading.writes if _HOME.match(path))
    for part in reading.parts:
        if part.words[:2] == ("git", "config") and not _OF_USER.isdisjoint(part.words):
            yield "/~/.gitconfig"


def emptied_elsewhere(reading: Reading) -> Iterator[str]:
    """List the folders outside that a line goes to before it removes things; relative ones from its own folder on."""
    removes = any(part.words[:1] in (("rm",), ("find",)) and len(part.words) > 1 for part in reading.parts)
    for part in reading.parts if removes else ():
        target = part.words[1] if part.words[:1] == ("cd",) and len(part.words) > 1 else ""
        if target.startswith(("/", "~", "$HOME", "${HOME}")):
            yield target if target.startswith("/") else "/~"
        elif ".." in target.split("/"):
            yield target


def leaves_too_often(reading: Reading) -> bool:
    """Say whether a line changes its folder more often than is followed."""
    moves = sum(part.words[:1] == ("cd",) for part in reading.parts)
    return moves > 4  # the folders that the line may stand in double with each


@noun
class Guarded:
    """What commands outside the sandbox must not name."""

    own: tuple[str, ...]  # Handrail's folders
    roots: tuple[str, ...]  # folders that tools may write
    protecting: Callable[[str], str | None]  # gives the pattern that keeps tools from reading a file, if one does


def why_denied(words: Sequence[str], line: str, guarded: Guarded) -> str:
    """Say why a command outside the sandbox is denied whatever rules on commands say; empty where it is not."""
    texts = words or line.split()
    if _calls_handrail(texts) or any(map(_CODE.search, texts)):
        return "it calls Handrail, which answers to people and not to the agent that it governs"
    if not harmless(words) and (why := _why_destroyed(texts, guarded.roots)):
        return why
    for text in texts:
        whole = not any(sign.isspace() for sign in text)
        for piece in filter(None, (text, *_PIECES.split(text)) if whole else _PIECES.split(text)):
            if why := _why_named(piece, guarded.own, whole=whole) or _why_credential(piece, guarded.roots):
                return why
            if whole and (pattern := guarded.protecting(_below_home(piece))):
                return f"{piece} is protected ({pattern})"
    return ""


def _why_destroyed(words: Sequence[str], roots: Sequence[str]) -> str:
    """Say what a command that is not harmless would take away or change that no tool may."""
    takes = posixpath.basename(words[0]) in _TAKES if words else False
    for word in words[1:]:
        path = posixpath.normpath(word) if word else ""
        if takes and path.startswith("/") and any(f"{root}/".startswith(f"{path.rstrip('/')}/") for root in roots):
            return f"{word} is a root or holds one"
        if takes and posixpath.basename(path) == ".git":
            return f"{word} holds a repository's history, hooks and config"
        if protects(_SETTINGS, path):
            return f"{word} holds settings of Handrail; people edit it"
        if protects(REPOSITORY, path):
            return f"{word} makes git run programs"
    return ""


def _calls_handrail(words: Sequence[str]) -> bool:
    name = posixpath.basename(words[0]) if words else ""
    if name == "handrail" or re.search(r"(?:^|/)handrail/hooks/client\.py$", " ".join(words[:4])):
        return True
    named = [word for word in words[1:] if re.fullmatch(r"(?:\S*/)?handrail(?:[\[=<>~!@.]\S*)?", word)]
    if name in _RUNNERS or name in _ENDERS or re.fullmatch(r"(?:python|pypy)[0-9.]*", name):
        return bool(named)
    return False


def _below_home(piece: str) -> str:
    return _HOME.sub("", piece.removeprefix("file://"), count=1)


def _why_named(piece: str, own: Sequence[str], *, whole: bool) -> str:
    from handrail.policy.builtin import KEY_MATERIAL

    path = _below_home(piece)
    if any(f"{piece}/".startswith(f"{folder}/") for folder in own) or protects(OWN_NAMES, path):
        return f"{piece} belongs to Handrail itself"
    if protects(HOOK_SETTINGS, path):
        return f"{piece} says whether the agent asks Handrail; people edit it"
    # In a text with blanks a bare name is a word as often as a file.
    if ("/" in piece or whole) and (pattern := protects(KEY_MATERIAL, path)):
        return f"{piece} is key material ({pattern})"
    return ""


def _why_credential(piece: str, roots: Sequence[str]) -> str:
    """Say that a file outside the roots holds credentials, by its name."""
    outside = piece.startswith("/") or _HOME.match(piece) is not None
    if not outside or any(f"{piece}/".startswith(f"{root}/") for root in roots):
        return ""
    pattern = protects(_CREDENTIALS, _below_home(piece))
    return f"{piece} holds credentials ({pattern})" if pattern else ""


def names_key(text: str) -> bool:
    """Say whether a text is the path of key material."""
    from handrail.policy.builtin import KEY_MATERIAL

    plain = "/" in text and len(text) <= 4096 and text.isprintable()
    return plain and protects(KEY_MATERIAL, _below_home(text)) is not None


def _named(words: Sequence[str]) -> Iterator[str]:
    """List the words of a command that may name files, options with values among them."""
    name = posixpath.basename(words[0])
    rest = list(words[1:])
    if name in _SCRIPTED and not any(map(_GIVES_SCRIPT.fullmatch, rest)):
        first = next((at for at, word in enumerate(rest) if not word.startswith("-")), None)
        if first is not None:
            del rest[first]  # the script or pattern
    for word in rest:
        if not word.startswith("-") or "/" in word or "~" in word:
            yield word


def _is_file(word: str) -> bool:
    """Say whether a word can be looked up as the name of a file beneath the folder at hand."""
    usable = word.isprintable() and all(len(part.encode()) <= 255 for part in word.split("/"))
    return usable and not word.startswith(("-", "/", "~")) and not _is_glob(word) and len(word) < 2000


def _is_glob(word: str) -> bool:
    return any(sign in word for sign in "*?[")

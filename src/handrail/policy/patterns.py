"""How a pattern meets a target: paths, hosts, command words. Pure, and the same for rules and exclusions.

Paths are matched by segments: `*` and `?` stay inside one, `**` crosses any number of them. A pattern that ends
in `/` means all that lies below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from handrail.words import Exclusion, Root


@lru_cache(maxsize=4096)
def _path_regex(pattern: str, covers_below: bool, any_case: bool) -> re.Pattern[str]:
    pattern = f"{pattern}**" if pattern.endswith("/") else pattern
    below = "(?:/.*)?" if covers_below else ""
    return re.compile(f"(?s:{_translated(pattern)}{below})", re.IGNORECASE if any_case else 0)


def _translated(pattern: str) -> str:
    parts, rest = [], pattern
    while rest:
        if rest.startswith("**/"):
            parts.append("(?:[^/]*/)*")
            rest = rest[3:]
        elif rest == "/**":
            parts.append("(?:/.*)?")
            rest = ""
        elif rest.startswith("**"):
            parts.append(".*")
            rest = rest.lstrip("*")
        elif rest[0] == "*":
            parts.append("[^/]*")
            rest = rest[1:]
        elif rest[0] == "?":
            parts.append("[^/]")
            rest = rest[1:]
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            body = rest[1:end].replace("\\", "\\\\")
            parts.append(f"(?!/)[{'^' + body[1:] if body[0] in '!^' else body}]")
            rest = rest[end + 1 :]
        else:
            parts.append(re.escape(rest[0]))
            rest = rest[1:]
    return "".join(parts)


def path_matches(pattern: str, path: str, *, covers_below: bool = False, any_case: bool = False) -> bool:
    """Whether a path beneath a root fits; with `covers_below` a match of a folder is a match of all in it."""
    return _path_regex(pattern, covers_below, any_case).fullmatch(path) is not None


def name_matches(pattern: str, path: str) -> bool:
    """Whether a protecting pattern covers a path: at any depth, in any case, with all that lies below.

    A pattern with a slash inside it is anchored nowhere either: `.git/hooks` covers `sub/.git/hooks/x`.
    """
    return _path_regex(f"**/{pattern.rstrip('/')}", True, True).fullmatch(path) is not None


@lru_cache(maxsize=64)
def _any_name(patterns: tuple[str, ...]) -> re.Pattern[str]:
    every = "|".join(_translated(pattern.rstrip("/")) for pattern in patterns if not pattern.startswith("!"))
    return re.compile(f"(?s:(?:.*/)?(?:{every or '(?!)'})(?:/.*)?)", re.IGNORECASE)


def protects(patterns: tuple[str, ...], path: str) -> str | None:
    """The first protecting pattern that covers a path, unless a later `!pattern` takes it back."""
    if _any_name(patterns).fullmatch(path) is None:
        return None
    found: str | None = None
    for pattern in patterns:
        if pattern.startswith("!"):
            found = None if found and name_matches(pattern[1:], path) else found
        elif found is None and name_matches(pattern, path):
            found = pattern
    return found


def excluded(exclusions: Sequence[Exclusion], root: Root, path: str) -> Exclusion | None:
    """The exclusion that covers a path beneath a root, if any."""
    for item in exclusions:
        if item.root and item.root != root.name:
            continue
        if _covers(item.pattern, root, path, item.any_case, True) and not any(
            _covers(pattern, root, path, item.any_case, False) for pattern in item.except_for
        ):
            return item
    return None


def _covers(pattern: str, root: Root, path: str, any_case: bool, below: bool) -> bool:
    """`//x` is a path of the machine, `/x` is anchored at the root, any other stands at any depth."""
    if pattern.startswith("//"):
        return _path_regex(pattern[1:], below, any_case).fullmatch(f"{root.path}/{path}") is not None
    if pattern.startswith("/"):
        return _path_regex(pattern[1:], below, any_case).fullmatch(path) is not None
    return _path_regex(f"**/{pattern}", True, any_case).fullmatch(path) is not None


def could_match_below(pattern: str, folder: str) -> bool:
    """Whether a path beneath a folder could fit a pattern; never a wrong no."""
    if not folder:
        return True
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    if fixed == pattern:  # no wildcard: below only if it stands there, or covers the folder
        return pattern.rstrip("/").startswith(f"{folder}/") or path_matches(pattern, folder, covers_below=True)
    return fixed.startswith(f"{folder}/") or f"{folder}/".startswith(fixed)


def host_matches(pattern: str, target: str) -> bool:
    """Whether `host:port` fits `name[:port]`; `*.` stands for subdomains; without a port 80 and 443 are meant."""
    name, _, port = pattern.lower().rpartition(":") if re.search(r":(\d+|\*)$", pattern) else (pattern.lower(), "", "")
    host, _, target_port = target.lower().rpartition(":")
    if port not in ("*", target_port) and not (port == "" and target_port in ("80", "443")):
        return False
    if name == "*":
        return True
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) > len(name) - 1
    return host.rstrip(".") == name.rstrip(".")


def words_match(pattern: str, words: Sequence[str], *, prefix: bool = False) -> bool:
    """Whether a command's words fit; a last `*` frees the words that follow, another stands for one word.

    With `prefix` (rules that ask or deny) further words never take a command out of the rule's reach, and the
    program may be named by its path.
    """
    wanted = pattern.split()
    if not wanted or not words:
        return False
    free = wanted[-1] == "*" and len(wanted) > 1
    wanted = wanted[:-1] if free else wanted
    if len(words) < len(wanted) or (len(words) > len(wanted) and not (free or prefix)):
        return False
    heads = [words[0].rsplit("/", 1)[-1] if prefix else words[0], *words[1:]]
    return all(ours in ("*", theirs) for ours, theirs in zip(wanted, heads, strict=False))

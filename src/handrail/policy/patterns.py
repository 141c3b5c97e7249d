"""How a pattern meets a target: paths, hosts, command words. Pure, and the same for rules and exclusions.

Paths are matched by segments: `*` and `?` stay inside one, `**` crosses any number of them. A pattern that ends
in `/` means the folder and all that lies below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from handrail.globs import Piece, regex_of
from handrail.words import Exclusion, Root

_TOKEN = re.compile(
    r"(?P<deep>(?<![^/])(?:\*\*/)+)"  # `**/` where a segment begins
    r"|(?P<tail>(?:/\*\*)+\Z)"  # `/**` at the end
    r"|(?P<cross>\*\*+)"
    r"|(?P<star>\*)"
    r"|(?P<one>\?)"
    r"|(?P<set>\[[!^]?(?:\][^\]]*|[^\]]+)\])"
    r"|(?P<text>.)",
    re.DOTALL,
)
_SEGMENT = re.compile(r"(?:(?<=/)|\A)(?:\[[!^]?(?:\][^\]]*|[^\]]+)\]|[^/])*")
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)
_WILD = re.compile(r"[*?\[]")
_PORT = re.compile(r"(?P<name>\[[^\]]*\]|[^:]*)(?::(?P<port>\d+|\*))?")


# ── paths ────────────────────────────────────────────────────────────────────────────────────


def path_matches(pattern: str, path: str, *, covers_below: bool = False, any_case: bool = False) -> bool:
    """Whether a path beneath a root fits; with `covers_below` a match of a folder is a match of all in it."""
    return _path_regex(pattern, covers_below, any_case).fullmatch(path) is not None


def first_covered(target: str, root: Root, paths: Iterable[str]) -> str | None:
    """The first of many paths beneath a root that fits a rule's target, or lies in something that does."""
    fits = _path_regex(target, True, False).fullmatch
    if target.startswith(("/", "run:")):
        return next((path for path in paths if fits(rule_path(target, root, path))), None)
    return next((path for path in paths if fits(path)), None)


def literal(path: str) -> str:
    """Write a path as a pattern that matches only itself."""
    return _WILD.sub(r"[\g<0>]", path)


def takes_all_below(pattern: str) -> bool:
    """Whether a pattern that matches a folder surely matches everything in it; never a wrong yes."""
    return pattern.endswith(("**", "**/*", "/"))


def could_match_below(pattern: str, folder: str) -> bool:
    """Whether a path beneath a folder could fit a pattern, or lies in something that does; never a wrong no."""
    if not folder:
        return True
    wanted = _segments(pattern)
    here = {0}  # the segments of the pattern that the next name could meet
    for name in folder.split("/"):
        here |= {index + 1 for index in sorted(here) if index < len(wanted) and wanted[index] == "**"}
        if len(wanted) in here or any(_meets_anything(wanted[index], name) for index in here):
            return True
        here = {
            index if wanted[index] == "**" else index + 1
            for index in here
            if wanted[index] == "**" or path_matches(wanted[index], name)
        }
    return bool(here)


def _segments(pattern: str) -> list[str]:
    """Take a pattern apart at its slashes, each run of `**` as one; a slash at the end means all below."""
    pattern = f"{pattern}**" if pattern.endswith("/") else pattern
    parts = [found[0] for found in _SEGMENT.finditer(pattern)]
    return [part for index, part in enumerate(parts) if part != "**" or index == 0 or parts[index - 1] != "**"]


def _meets_anything(segment: str, name: str) -> bool:
    """Whether a segment such as `a**b` begins like a name, so that its `**` can take in whatever follows."""
    before, mark, _ = segment.partition("**")
    return bool(mark) and segment != "**" and path_matches(f"{before}*", name)


@lru_cache(maxsize=4096)
def _path_regex(pattern: str, covers_below: bool, any_case: bool) -> re.Pattern[str]:
    below = "(?:/.*)?" if covers_below else ""
    return re.compile(f"(?s:{_translated(pattern)}{below})", re.IGNORECASE if any_case else 0)


def _translated(pattern: str) -> str:
    """Give the regular expression of a pattern, one that never tries the same text twice."""
    pattern = f"{pattern}**" if pattern.endswith("/") else pattern
    tokens = [(str(token.lastgroup), token[0]) for token in _TOKEN.finditer(pattern)]
    end = "(?:/.*)?" if tokens and tokens[-1][0] == "tail" else ""
    return regex_of(_piece(kind, text) for kind, text in (tokens[:-1] if end else tokens)) + end


def _piece(kind: str, text: str) -> Piece:
    return (kind, "") if kind in ("deep", "cross", "star") else ("fixed", _one(kind, text))


def _one(kind: str, text: str) -> str:
    if kind == "one":
        return "[^/]"
    return _set(text[1:-1]) if kind == "set" else re.escape(text)


def _set(body: str) -> str:
    """Write `[a-z_]` and `[!a]` so that no sign in them means anything else; a range that is empty holds nothing."""
    negated = len(body) > 1 and body[0] in "!^"
    held = ""
    for first, last, single in _RANGE.findall(body[1:] if negated else body):
        if single:
            held += re.escape(single)
        elif first <= last:
            held += f"{re.escape(first)}-{re.escape(last)}"
    if not held:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{held}]"


# ── protected names and exclusions ───────────────────────────────────────────────────────────


def name_matches(pattern: str, path: str) -> bool:
    """Whether a protecting pattern covers a path: at any depth, in any case, with all that lies below.

    A pattern with a slash inside it is anchored nowhere either: `.git/hooks` covers `sub/.git/hooks/x`. One that
    begins with a slash is anchored at the root.
    """
    return _name_regex(pattern).fullmatch(path) is not None


def protects(patterns: tuple[str, ...], path: str) -> str | None:
    """The first protecting pattern that covers a path, unless a later `!pattern` takes it back."""
    if _any_name(patterns).search(f"/{path}") is None:
        return None
    found: str | None = None
    for pattern in patterns:
        if pattern.startswith("!"):
            found = None if found and excepts(pattern[1:], path) else found
        elif found is None and name_matches(pattern, path):
            found = pattern
    return found


def could_protect(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Give a quick look at many paths, which never misses one that a protecting pattern covers."""
    search = _any_name(patterns).search
    return lambda path: search(f"/{path}") is not None


def excepts(pattern: str, path: str) -> bool:
    """Whether what takes a name back covers a path: like the name it takes back, but exactly where it is anchored."""
    return path_matches(pattern[1:], path) if pattern.startswith("/") else name_matches(pattern, path)


def excluded(exclusions: Sequence[Exclusion], root: Root, path: str) -> Exclusion | None:
    """The exclusion that covers a path beneath a root, if any."""
    for item in exclusions:
        if item.root and item.root != root.name:
            continue
        if _covers(item.pattern, root, path, item.any_case, True) and not any(
            # What a rule allows it allows to the letter, in this case only.
            _covers(pattern, root, path, not pattern.startswith("/"), False)
            for pattern in item.except_for
        ):
            return item
    return None


def could_exclude(exclusions: Iterable[Exclusion], root: Root) -> Callable[[str], bool]:
    """Give one test of a path for many exclusions, which never misses one that `excluded` would find."""
    beneath: list[str] = []
    elsewhere: list[Exclusion] = []
    for item in exclusions:
        if item.pattern.startswith(("//", "/run:")):
            elsewhere.append(item)
        else:
            anchored = item.pattern.startswith("/")
            beneath.append(_translated(item.pattern[1:] if anchored else f"**/{item.pattern}"))
    fits = re.compile(f"(?s:(?:{'|'.join(beneath) or '(?!)'})(?:/.*)?)", re.IGNORECASE).fullmatch
    if not elsewhere:
        return lambda path: fits(path) is not None
    return lambda path: fits(path) is not None or excluded(elsewhere, root, path) is not None


def last_name(pattern: str) -> str:
    """Give a regular expression that fits the last name of every path that fits a pattern."""
    segment = _segments(pattern)[-1]
    if "**" not in segment:
        return _translated(segment)
    return ".*" if "[" in segment else f".*{_translated(segment.rpartition('**')[2])}"


def machine_path(root: Root, path: str) -> str:
    """The path in the machine's own terms."""
    return f"{root.path.rstrip('/')}/{path}" if path else root.path


@lru_cache(maxsize=64)
def folded(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Spell folders as they are compared: in any case, whole names alone."""
    return tuple(f"{folder.rstrip('/')}/".casefold() for folder in folders)


def rule_path(target: str, root: Root, path: str) -> str:
    """What a rule's target is matched against: the machine's path, the `run:` path, or the path beneath its root."""
    if target.startswith("/"):
        return machine_path(root, path)
    return root.shown(path).rstrip("/") if target.startswith("run:") else path


def _covers(pattern: str, root: Root, path: str, any_case: bool, below: bool) -> bool:
    """`//x` is a path of the machine, `/run:x` one of the run, `/x` is anchored, any other stands at any depth."""
    if pattern.startswith("/"):
        target = pattern[1:]
        return _path_regex(target, below, any_case).fullmatch(rule_path(target, root, path)) is not None
    return _path_regex(f"**/{pattern}", True, any_case).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _name_regex(pattern: str) -> re.Pattern[str]:
    pattern = pattern.rstrip("/")
    return _path_regex(pattern[1:] if pattern.startswith("/") else f"**/{pattern}", True, True)


@lru_cache(maxsize=64)
def _any_name(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Fit every path that one of many names could cover."""
    every = "|".join(_translated(pattern.strip("/")) for pattern in patterns if not pattern.startswith("!"))
    return re.compile(f"(?s:/(?:{every or '(?!)'})(?:/|\\Z))", re.IGNORECASE)


# ── hosts and commands ───────────────────────────────────────────────────────────────────────


def host_matches(pattern: str, target: str, *, any_port: bool = False) -> bool:
    """Whether `host:port` fits `name[:port]`; `*.` stands for subdomains.

    Without a port 80 and 443 are meant; with `any_port` (rules that ask or deny) all are.
    """
    written, port = _named_port(pattern) or (pattern, "")
    host, target_port = host_and_port(target)
    if target_port == "" and not any_port:  # where a call leads to must be known to be allowed
        return False
    if port not in ("*", target_port) and not (port == "" and (any_port or target_port in ("80", "443"))):
        return False
    name = _host(written)
    if written == "*" or (name == "*" and any_port):  # `*.` and the like: never an allowance, always a prohibition
        return True
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) > len(name) - 1
    return host == name


def host_and_port(target: str) -> tuple[str, str]:
    """Take `host:port` apart, the host in one spelling: lower case, no brackets, no dot at the end."""
    # An IPv6 address may come without brackets; what follows the last colon is the port all the same.
    name, port = _named_port(target) or target.rsplit(":", 1)
    return _host(name), port


def _named_port(text: str) -> tuple[str, str] | None:
    found = _PORT.fullmatch(text)
    return (found["name"], found["port"] or "") if found is not None else None


def _host(name: str) -> str:
    if not name.isascii():
        return _international(name)
    name = name.strip("[]").rstrip(".").lower()
    if ":" not in name:
        return name
    from ipaddress import AddressValueError, IPv6Address

    try:
        address = IPv6Address(name)
    except AddressValueError:
        return name
    return str(address.ipv4_mapped or address)


def _international(name: str) -> str:
    """Give a name as it is looked up, so that a rule may spell it as people do."""
    from handrail.urls import canonical_host

    wild, plain = ("*.", name[2:]) if name.startswith("*.") else ("", name)
    try:
        return wild + canonical_host(plain)
    except ValueError:
        return name


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
    first = {"*", words[0], words[0].rsplit("/", 1)[-1]} if prefix else {"*", words[0]}
    return wanted[0] in first and all(
        ours in ("*", theirs) for ours, theirs in zip(wanted[1:], words[1:], strict=False)
    )

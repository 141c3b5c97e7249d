"""Toolchains below the home that programs may read: a closed table of folders that hold programs and libraries.

Only what is installed is shown, never what a tool keeps for its user: `~/.cargo` whole holds a registry's token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from handrail.policy.builtin import KEY_MATERIAL
from handrail.words import noun

_FOLDERS = (
    ".pyenv/versions",
    ".local/share/uv/python",
    ".nvm/versions/node",
    ".config/nvm/versions/node",
    ".local/share/fnm/node-versions",
    ".fnm/node-versions",
    ".asdf/installs",
    ".local/share/mise/installs",
    ".rustup/toolchains",
    ".rustup/update-hashes",  # without which rustup's `cargo` does not start
    ".cargo/bin",
    ".goenv/versions",
    ".gvm/gos",
    ".local/go",
    ".deno/bin",
    ".bun/bin",
    ".sdkman/candidates",
)
_PATTERNS = ("sdk/go*",)  # where `golang.org/dl` puts go
_FILES = (".rustup/settings.toml",)  # names the toolchain that `cargo` stands for
# What tools keep settings with passwords and tokens in; hidden in every folder that is shown.
CREDENTIAL_FILES = (
    "npmrc",
    ".npmrc",
    "pip.conf",
    ".pypirc",
    "settings.xml",
    "gradle.properties",
    "auth.json",
    "credentials*",
    ".credentials*",
)
# Files of packages that are called like credentials: code, and pages about it.
CODE_NAMES = tuple(
    f"credentials*{ending}"
    for ending in (
        *(".py", ".pyc", ".pyi", ".so", ".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".map", ".go", ".rs", ".rb"),
        *(".php", ".java", ".class", ".c", ".h", ".lua", ".pl", ".pm", ".tcl", ".html", ".md", ".rst", ".1", ".gz"),
    )
)


@noun
class Toolchains:
    """What of a home is shown to every program."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()  # where, to what


def find_toolchains(home: str) -> Toolchains:
    """Look for the table's folders below a home; one that is a link is shown where it leads, and as a link."""
    folders: dict[str, None] = {}
    links: dict[str, str] = {}
    base = os.path.realpath(home)
    if base == "/" or not os.path.isdir(base):
        return Toolchains()
    for path in _candidates(base):
        real = os.path.realpath(path)
        if not os.path.isdir(real) or f"{base}/".startswith(f"{real}/") or _holds_keys(real, base):
            continue
        folders[real] = None
        if real != path:
            links[path] = real
    files = [path for path in (f"{base}/{name}" for name in _FILES) if _is_plain_file(path)]
    return Toolchains(tuple(folders), tuple(files), tuple(links.items()))


def _candidates(base: str) -> Iterator[str]:
    for name in _FOLDERS:
        yield f"{base}/{name}"
    for pattern in _PATTERNS:
        yield from sorted(map(str, Path(base).glob(pattern)))


def _holds_keys(folder: str, base: str) -> bool:
    """Whether a folder that a link of the table leads to is, holds or lies in key material of the home."""
    for name in KEY_MATERIAL:
        if "*" not in name:
            kept = f"{base}/{name}/"
            if kept.startswith(f"{folder}/") or f"{folder}/".startswith(kept):
                return True
    return False


def _is_plain_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)

"""How far a yes to a command reaches beyond its exact line: a closed table, and one function that reads it. Pure.

A command that is not in the table is granted as the exact line alone. So are shells, interpreters that are given code,
programs that run other programs, and programs that delete or send.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from handrail.policy.pattern_options import apart, leads_out
from handrail.words import Touch

# One row a pattern. NAME stands for one plain word, which is kept as it is; a last `*` frees all words that follow.
TABLE = tuple(
    tuple(row.split())
    for row in (
        "pytest *",
        "python -m pytest *",
        "python3 -m pytest *",
        "python -m unittest *",
        "python3 -m unittest *",
        "ruff check *",
        "ruff format *",
        "mypy *",
        "black *",
        "isort *",
        "flake8 *",
        "npm test",
        "npm run NAME",
        "pnpm test",
        "pnpm run NAME",
        "yarn test",
        "yarn run NAME",
        "bun test",
        "bun run NAME",
        "tsc *",
        "eslint *",
        "prettier *",
        "jest *",
        "vitest *",
        "make",
        "make NAME",
        "just NAME",
        "cargo build *",
        "cargo check *",
        "cargo clippy *",
        "cargo fmt *",
        "cargo test *",
        "go build *",
        "go fmt *",
        "go test *",
        "go vet *",
        "git add *",
        "git commit *",
    )
)
# Never more than the exact line, whatever the table says; a test holds that no row begins with one of these, but for
# an interpreter that is given the name of a module.
NEVER = frozenset(
    name
    for names in (
        "sh bash dash ash zsh ksh mksh fish csh tcsh busybox toybox",
        "python python2 python3 node deno ruby perl php lua awk gawk mawk nawk sed Rscript java",
        "sudo doas su pkexec env xargs find parallel nohup nice timeout time watch exec eval source . command",
        "rm rmdir shred unlink dd mv truncate chmod chown ln",
        "curl wget ssh scp sftp rsync nc ncat socat telnet ftp docker podman kubectl",
        "npx bunx uvx pipx pip pip3 uv poetry",
    )
    for name in names.split()
)
_INTERPRETERS = frozenset({"python", "python3"})
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*")
# Folders whose programs are meant when their names are: of the system, and of a project's own environment.
_FOLDER = re.compile(r"(?:(?:\./)?(?:\.venv|venv)/bin/|(?:\./)?node_modules/\.bin/|(?:/usr)?(?:/local)?/bin/)?")


def pattern_of(words: Sequence[str], inside: Sequence[str] = ()) -> str:
    """Give the pattern that a command may be granted as; empty where only its exact line may be granted.

    `inside` are the folders beneath which its absolute paths may lie.
    """
    if not words:
        return ""
    folder, name = _parted(words[0])
    if _FOLDER.fullmatch(folder) is None or _wraps(words):
        return ""
    called = [name, *words[1:]]
    row = next((row for row in TABLE if _fits(row, called)), None)
    if row is None:
        return ""
    if row[-1] != "*":
        return folder + " ".join(called[: len(row)])
    if apart(called, len(row) - 1, inside):
        return ""
    return folder + " ".join([*called[: len(row) - 1], "*"])


def pattern_of_touch(touch: Touch, inside: Sequence[str] = ()) -> str:
    """Give the pattern of a command that a call would run; empty where it is not fully understood."""
    return "" if touch.doubt or touch.skill is not None else pattern_of(touch.words, inside)


def leaves_roots(touches: Sequence[Touch], inside: Sequence[str]) -> bool:
    """Say whether a line may go to a folder outside some folders: there, a pattern says nothing of what would run."""
    return any(
        touch.words[:1] == ("cd",) and not (len(touch.words) == 2 and _is_inside(touch.words[1], inside))
        for touch in touches
    )


def _is_inside(folder: str, inside: Sequence[str]) -> bool:
    """Say whether a folder is surely beneath some folders: `-`, an empty word or a variable may be anywhere."""
    return re.fullmatch(r"[\w./][\w./ @+-]*", folder) is not None and not leads_out(folder, inside)


def _parted(word: str) -> tuple[str, str]:
    name = posixpath.basename(word)
    return word[: len(word) - len(name)], name


def _fits(row: Sequence[str], words: Sequence[str]) -> bool:
    fixed = row[:-1] if row[-1] == "*" else row
    if len(words) < len(fixed) or (len(words) > len(fixed) and row[-1] != "*"):
        return False
    return all(
        _PLAIN.fullmatch(word) is not None if wanted == "NAME" else wanted == word
        for wanted, word in zip(fixed, words, strict=False)
    )


def _wraps(words: Sequence[str]) -> bool:
    """Say whether a command runs another one, or is one that is never granted but as the exact line."""
    from handrail.policy import shell
    from handrail.policy.shell.arguments import hidden_program

    name = posixpath.basename(words[0])
    if name in NEVER and not (name in _INTERPRETERS and len(words) > 2 and words[1] == "-m"):
        return True
    return shell.wraps(words) or hidden_program(words) != ""

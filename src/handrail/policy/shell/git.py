"""What git does by its arguments: what changes a repository, and what cannot run a program it finds in its settings."""

from __future__ import annotations

import re
from collections.abc import Sequence

_VALUED = frozenset(
    [
        "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix",
        "--attr-source", "--shallow-file",
    ]
)  # fmt: skip
_WRITING = frozenset(
    [
        "add",
        "am",
        "apply",
        "archive",
        "bisect",
        "branch",
        "bundle",
        "checkout",
        "checkout-index",
        "cherry-pick",
        "clean",
        "clone",
        "commit",
        "commit-tree",
        "config",
        "fast-import",
        "fetch",
        "filter-branch",
        "filter-repo",
        "fmt-merge-msg",
        "format-patch",
        "gc",
        "hash-object",
        "init",
        "lfs",
        "maintenance",
        "merge",
        "merge-file",
        "merge-index",
        "mktag",
        "mktree",
        "mv",
        "notes",
        "pack-objects",
        "pack-refs",
        "prune",
        "pull",
        "push",
        "rebase",
        "receive-pack",
        "reflog",
        "remote",
        "repack",
        "replace",
        "rerere",
        "reset",
        "restore",
        "revert",
        "rm",
        "send-pack",
        "sparse-checkout",
        "stash",
        "submodule",
        "svn",
        "switch",
        "symbolic-ref",
        "tag",
        "update-index",
        "update-ref",
        "update-server-info",
        "worktree",
        "write-tree",
    ]
)
_READING = {  # forms of commands above that change nothing
    "branch": re.compile(r"(?:--show-current|-a|-r|-v|-vv|--all|--remotes|--list|--contains|--merged|--no-merged| )*"),
    "config": re.compile(
        r"(?:--(?:global|system|local|worktree|show-origin|show-scope|name-only|null|includes|bool|int|path) |-z )*"
        r"(?:--get|--get-all|--get-regexp|--get-urlmatch|--list|-l)(?: .*)?"
    ),
    "notes": re.compile(r"(?:list|show)(?: .*)?"),
    "reflog": re.compile(r"(?:show(?: .*)?)?"),
    "remote": re.compile(r"(?:-v|--verbose)?|(?:(?:-v|--verbose) )?(?:show|get-url)(?: .*)?"),
    "stash": re.compile(r"(?:list|show)(?: .*)?"),
    "symbolic-ref": re.compile(r"(?:--short |-q )*HEAD"),
    "tag": re.compile(r"(?:(?:-l|--list|-n[0-9]*|--contains)(?: .*)?)?"),
    "worktree": re.compile(r"list(?: .*)?"),
    "submodule": re.compile(r"(?:status(?: .*)?)?"),
    "bisect": re.compile(r"(?:log|view)(?: .*)?"),
}
# These read references and settings, not the index, nor objects: nothing that is set up in a repository is run.
_CALM = {
    "version": re.compile(r"(?:--build-options)?"),
    "branch": re.compile(r"--show-current"),
    "remote": re.compile(r"-v|--verbose|get-url [\w.-]+|"),
    "config": re.compile(r"(?:(?:--local|--global|--show-origin) )?(?:--list|-l|--get(?:-all)? [\w.-]+)"),
    "symbolic-ref": re.compile(r"(?:(?:--short|-q) )*HEAD"),
    "rev-parse": re.compile(
        r"(?:--show-toplevel|--show-prefix|--show-cdup|--git-dir|--absolute-git-dir|--git-common-dir"
        r"|--is-inside-work-tree|--is-inside-git-dir|--is-bare-repository|(?:--abbrev-ref |--verify |-q )*HEAD)"
    ),
}


# Options of subcommands that name a program or have git run one.
_RUNNING = tuple(
    f"--{name}"
    for name in (
        "upload-pack", "receive-pack", "exec", "extcmd", "ext-diff", "textconv", "open-files-in-pager", "tool",
    )
)  # fmt: skip
_OTHERS = frozenset({"--text"})  # complete by themselves


def shortened(text: str, options: Sequence[str]) -> bool:
    """Whether a word is one of these long options, in full or cut short, with a value or without."""
    name = text.partition("=")[0]
    return (
        len(name) > 2
        and name.startswith("--")
        and name not in _OTHERS
        and any(option.startswith(name) for option in options)
    )


def subcommand(texts: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The options before the subcommand, the subcommand, and what follows: `("status", before, after)`."""
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if texts[at] in _VALUED else 1
    if at >= len(texts):
        return "", list(texts[1:]), []
    return texts[at], list(texts[1:at]), list(texts[at + 1 :])


def writes(texts: Sequence[str]) -> list[str]:
    """The subcommand, if it changes the repository or one elsewhere."""
    if not texts or texts[0].rsplit("/", 1)[-1] != "git":
        return []
    name, _, after = subcommand(texts)
    if name not in _WRITING:
        return []
    reading = _READING.get(name)
    return [] if reading is not None and reading.fullmatch(" ".join(after)) else [name]


def calm(texts: Sequence[str]) -> bool:
    """Whether a git command runs nothing, whatever the repository's settings say."""
    name, before, after = subcommand(texts)
    if not name:
        return before in (["--version"], ["-v"])
    known = _CALM.get(name)
    return (
        all(option in ("--no-pager", "-P") for option in before)
        and known is not None
        and known.fullmatch(" ".join(after)) is not None
    )


# These show what a repository holds. They run a program only where the repository's own settings name one.
_SHOWING = frozenset(["status", "log", "diff", "show", "rev-parse", "ls-files", "blame", "describe"])
_LISTING = {
    "branch": re.compile(
        r"(?:-a|-r|-v|-vv|-av|-avv|-i|--all|--remotes|--no-color|--(?:color|column|abbrev)=\w*"
        r"|--sort=-?(?:refname|(?:author|committer|creator)date|v(?:ersion)?:refname|HEAD)| )*"
        r"(?:(?:-l|--list|--contains|--no-contains|--merged|--no-merged|--points-at)(?: [^- ][^ ]*)*)?"
    ),
    "stash": re.compile(r"list(?: (?:-[0-9]+|--oneline|--stat|--date=[\w-]+))*"),
}
_GPG = re.compile(r"%[-+ ]?G")  # of a format: checks signatures, which runs gpg
# Options by which they write a file or run a program all the same.
_NOT_SHOWING = tuple(
    f"--{name}"
    for name in (
        "output", "ext-diff", "textconv", "show-signature", "remerge-diff", "diff-merges", "dd", "alternate-refs",
        "exec-path", "open-files-in-pager",
    )
)  # fmt: skip


def reads(texts: Sequence[str]) -> bool:
    """Whether a git command only shows what a repository holds, unless settings of that repository name programs."""
    if not texts or texts[0].rsplit("/", 1)[-1] != "git" or calm(texts):
        return False
    name, before, after = subcommand(texts)
    if not all(option in ("--no-pager", "-P") for option in before):
        return False
    listing = _LISTING.get(name)
    if listing is not None:
        return listing.fullmatch(" ".join(after)) is not None
    return name in _SHOWING and not any(shortened(text, _NOT_SHOWING) or _GPG.search(text) for text in _options(after))


def _options(texts: Sequence[str]) -> list[str]:
    """Give the words up to `--`."""
    return list(texts[: texts.index("--")]) if "--" in texts else list(texts)


def pushes(texts: Sequence[str]) -> bool:
    """Whether a command is `git push` to another machine: one to a folder needs no credentials."""
    if not texts or texts[0].rsplit("/", 1)[-1] != "git":
        return False
    name, _, after = subcommand(texts)
    target = next((text for text in after if not text.startswith("-")), "")
    return name == "push" and not target.startswith(("/", "./", "../", "file:"))


def runs_programs(texts: Sequence[str]) -> str:
    """Why git may run a program that its arguments name or hide; empty where it does not."""
    name, before, after = subcommand(texts)
    for option in before:
        if re.match(r"-c\Z|--(?:exec-path|config-env|git-dir|work-tree|namespace)", option):
            return f"git {option} may make git run other programs"
    for text in after:
        if shortened(text, _RUNNING):
            return f"git {name} {text} runs another program"
        if "::" in text and name in ("clone", "fetch", "pull", "push", "remote", "ls-remote", "submodule", "archive"):
            return f"git {name} {text} names a program as transport"
    if name == "rebase" and any(re.match(r"-[a-z]*x|-[a-z]*i", text) or text == "--interactive" for text in after):
        return "git rebase may run other programs"
    if name == "grep" and any(re.match(r"-[a-zA-Z]*O", text) for text in after):
        return "git grep -O runs a pager"
    hidden = {"filter-branch", "difftool", "mergetool", "instaweb", "send-email", "daemon", "shell", "web--browse"}
    if name in hidden or (name == "submodule" and "foreach" in after) or (name == "bisect" and "run" in after):
        return f"git {name} runs other programs"
    if name and name not in _WRITING and name not in _KNOWN:
        return f"git {name} is no command of git: it may stand for anything"
    return ""


_KNOWN = frozenset(
    [
        "annotate",
        "blame",
        "cat-file",
        "check-attr",
        "check-ignore",
        "check-mailmap",
        "check-ref-format",
        "cherry",
        "count-objects",
        "describe",
        "diff",
        "diff-files",
        "diff-index",
        "diff-tree",
        "difftool",
        "for-each-ref",
        "fsck",
        "get-tar-commit-id",
        "grep",
        "help",
        "log",
        "ls-files",
        "ls-remote",
        "ls-tree",
        "merge-base",
        "merge-tree",
        "mergetool",
        "name-rev",
        "patch-id",
        "range-diff",
        "rev-list",
        "rev-parse",
        "shortlog",
        "show",
        "show-branch",
        "show-index",
        "show-ref",
        "status",
        "stripspace",
        "var",
        "verify-commit",
        "verify-pack",
        "verify-tag",
        "version",
        "whatchanged",
        "interpret-trailers",
        "column",
        "mailinfo",
        "mailsplit",
        "request-pull",
        "cvsserver",
    ]
)

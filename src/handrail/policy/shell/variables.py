"""Variables: which may be set without changing how programs run."""

from __future__ import annotations

import re

# Handed to a program these change what it prints, never what it runs. Any other name asks.
_CALM = frozenset(
    [
        "TZ",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CI",
        "COLUMNS",
        "LINES",
        "NODE_ENV",
        "RUST_BACKTRACE",
        "VERBOSE",
        "DEBUG",
    ]
)
# Other character sets have signs that hold a backslash or a pipe: the shell would read the line in another way.
_LOCALE = re.compile(r"LC_[A-Z]+|LANG|LANGUAGE")
_CALM_LOCALE = re.compile(r"(?:C|POSIX|[a-z]{2}_[A-Z]{2}(?=\.)|C(?=\.))?(?:\.(?:UTF-8|utf-?8))?")
# A variable of the shell alone is anything that neither bash nor a program gives a meaning.
_OWN = re.compile(r"[a-z_][a-z0-9_]*[a-z0-9]|[a-z]|[A-Z][A-Z0-9_]*")
_MEANT = re.compile(
    r"""(?x) (?: BASH | LD_ | GIT_ | PYTHON | PERL | RUBY | NODE_ | NPM_ | npm_ | JAVA | JDK | GCONV | DYLD_ | LUA | PHP
    | SSH | GPG | LESS | MAN | PIP_ | UV_ | CARGO | RUST | GO[A-Z]* \Z | MAKE | COMP_ | HIST | HOST | OS | PS[0-9] \Z
    | GEM_
    | BUNDLE | RIPGREP | GREP_ | TAR_ | AWK | POSIX | LOCPATH | NLSPATH | TERM | XDG_ | CC \Z | CXX | CFLAGS | LDFLAGS
    | PKG_ | CMAKE | DOCKER | KUBE | AWS_ | SUDO | SYSTEMD | GREP | ZIP | UNZIP | GZIP | XZ | RSYNC | CVS | SVN | HG
    | BAT_ | DELTA | FZF | JQ | MYSQL | PG[A-Z]+ | POETRY | VIRTUAL | CONDA | R_ | TCL | EMACS | VIM | DIRENV | ASDF ).*
    | PATH | ENV | IFS | CDPATH | HOME | PWD | OLDPWD | SHELL | SHELLOPTS | SHLVL | GLOBIGNORE | GLOBSORT | FIGNORE
    | IGNOREEOF | INPUTRC | MAIL | MAILCHECK | MAILPATH | OPTARG | OPTERR | OPTIND | PROMPT_COMMAND | PROMPT_DIRTRIM
    | PAGER | EDITOR | VISUAL | BROWSER | FCEDIT | RANDOM | SRANDOM | SECONDS | LINENO | EPOCHSECONDS | EPOCHREALTIME
    | EUID | UID | PPID | GROUPS | DIRSTACK | FUNCNAME | FUNCNEST | PIPESTATUS | MAPFILE | READLINE_.* | REPLY | COPROC
    | TIMEFORMAT | TMOUT | TMPDIR | TEMP | TMP | CHILD_MAX | EXECIGNORE | EMACS | histchars | auto_resume | MACHTYPE
    | USER | LOGNAME | NODE | SHELL | COMSPEC | .*_PROXY | .*_proxy | ARGV0 | .*_COMMAND | .*_PAGER | .*_EDITOR"""
)


def changes_programs(name: str, value: str) -> bool:
    """Whether a variable handed to a program may change what it runs; unknown names may."""
    if _LOCALE.fullmatch(name):
        return _CALM_LOCALE.fullmatch(value) is None
    return name not in _CALM


def changes_shell(name: str, value: str) -> bool:
    """Whether a variable set in the shell itself has a meaning for bash or for programs."""
    if not changes_programs(name, value):
        return False
    if _LOCALE.fullmatch(name):
        return True
    return _OWN.fullmatch(name) is None or _MEANT.fullmatch(name) is not None

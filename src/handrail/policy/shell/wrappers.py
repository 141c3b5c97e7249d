"""Commands that run other commands: what they run, by their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from handrail.policy.shell.model import Sure, Word
from handrail.policy.shell.scripts import file_doubt
from handrail.policy.shell.variables import changes_programs

Words = Sequence[Word]


class Inner(NamedTuple):
    """What a wrapper runs: commands with their words, lines for a shell, and why that may not be all."""

    commands: tuple[list[Word], ...] = ()
    lines: tuple[tuple[str, bool], ...] = ()  # the line, and whether plain sh reads it
    doubt: str = ""
    plain: bool = True  # adds nothing of its own: as harmless as what it runs


class Form(NamedTuple):
    """How a wrapper's options look: letters and names that take a value, and operands before the command."""

    letters: str = ""
    names: tuple[str, ...] = ()
    operands: int = 0
    plain: bool = False
    flags: str = ""  # letters of options without a value; others are in doubt
    switches: tuple[str, ...] = ()  # names of options without a value


NOTHING = Inner()
_FORMS = {
    "nice": Form("n", ("adjustment",), plain=True),
    "nohup": Form(),  # writes a file where its output is a terminal
    "timeout": Form(
        "ks", ("kill-after", "signal"), 1, plain=True, flags="v", switches=("foreground", "preserve-status")
    ),
    "time": Form("", (), plain=True, flags="pv"),
    "stdbuf": Form("ioe", ("input", "output", "error"), plain=True),
    "ionice": Form("cn", ("class", "classdata"), plain=True, flags="t"),
    "setsid": Form(flags="cfw"),
    "sudo": Form("ugpCDhRrtTU", ("user", "group", "chdir", "chroot", "prompt", "host"), flags="AbEHnPSikKvls"),
    "doas": Form("uC", flags="nsL"),
    "chroot": Form("", ("userspec", "groups"), 1),
    "unshare": Form("SGRwl", ("setuid", "setgid", "root", "wd", "map-users"), flags="imnpuUCTfrc"),
    "nsenter": Form("tSGrw", ("target", "setuid", "setgid"), flags="amuinpCUTFZ"),
    "strace": Form("aeEIoOpPsSuUXb", ("output", "trace", "env"), flags="cCdDfFhiknqrtTvVwxyYzZ"),
    "ltrace": Form("aAeElnopsSuxXF", ("output",), flags="bcCfiLrtTVw"),
    "exec": Form("a", flags="cl"),
    "builtin": Form(),
    "coproc": Form(),
    "taskset": Form("", (), 1, flags="acp"),
    "chrt": Form("TPD", (), 1, flags="abdfiormRp"),
    "numactl": Form("CNmipl", ("cpunodebind", "membind"), flags="alH"),
    "prlimit": Form("p", (), flags=""),
    "fakeroot": Form("lisbf", flags="u"),
    "catchsegv": Form(),
    "valgrind": Form("", flags="vqd"),
    "npx": Form("pc", ("package", "call"), flags="yq"),
    "bunx": Form(),
    "uvx": Form("", ("from", "with", "python")),
    "torsocks": Form(),
    "proxychains": Form("f", flags="q"),
    "xvfb-run": Form("efnpsw", flags="al"),
    "dbus-run-session": Form(),
    "runcon": Form("turlc", (), 1),
    "setarch": Form("", (), 1, flags="vRFZLXBIST3"),
    "i386": Form(flags="vR"),
    "i686": Form(flags="vR"),
    "uname26": Form(flags="vR"),
    "x86_64": Form(flags="vR"),
    "choom": Form("np"),
    "uclampset": Form("mMp", flags="asR"),
    "linux64": Form(flags="vR"),
    "linux32": Form(flags="vR"),
    "winpty": Form(),
    "rlwrap": Form(),
    "busybox": Form(),
    "toybox": Form(),
    "chpst": Form("uUbdonlmfPpe", flags="vV0123"),
    "pkexec": Form("", ("user",)),
    "firejail": Form(),
    "faketime": Form("", (), 1, flags="fm"),
    "cgexec": Form("g"),
    "systemd-run": Form("pMHuEG", ("unit", "property", "slice"), flags="qtPdrG"),
    "start-stop-daemon": Form("xpPsnucgNIkdra", flags="SKTHbqvmo"),
    "tini": Form("ep", flags="gsvw"),
    "dumb-init": Form("r", flags="cv"),
    "gosu": Form("", (), 1),
    "su-exec": Form("", (), 1),
    "setpriv": Form(),
    "capsh": Form(),
}
_RUNS = {  # a first word (or two) after which a command follows
    "poetry": ("run",),
    "pipenv": ("run",),
    "uv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "bundle": ("exec",),
    "npm": ("exec",),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "bun": ("x",),
    "mise": ("exec", "x"),
    "perf": ("stat", "record", "trace"),
    "direnv": ("exec",),
    "conda": ("run",),
}
_SHELLS = frozenset(["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "fish", "csh", "tcsh"])
_INPUT = _SHELLS | {"source", "."}
_MANY = 4  # texts that stand for what comes in


def unwrap(words: Words) -> Inner:
    """What a command runs besides itself."""
    name = _name(words[0])
    if special := _SPECIAL.get(name):
        return special(words)
    if name in _SHELLS:
        return _shell(words, name)
    if form := _FORMS.get(name):
        return _formed(words, form)
    if name in _RUNS and len(words) > 2 and words[1].text in _RUNS[name]:
        skipped = [word for word in words[2:] if not word.text.startswith("-") or word.text == "--"]
        commands = [item for item in skipped if item.text != "--"]
        return Inner((commands,), plain=False) if commands else NOTHING
    return NOTHING


def wraps(texts: Sequence[str]) -> bool:
    """Whether a command with these words runs something besides itself, or may."""
    if not texts or texts[0].rsplit("/", 1)[-1] not in _WRAPPERS:
        return False
    return unwrap([Word(text, Sure.LITERAL, 0, 0) for text in texts]) != NOTHING


def takes_input(words: Words, inner: Inner) -> bool:
    """Whether a command is a shell that may read lines from its input."""
    return _name(words[0]) in _INPUT and not inner.lines


def runs_by_argument(texts: Sequence[str]) -> str:
    """Why a command that is no wrapper by nature may run a program that its arguments name; empty where it does not."""
    from handrail.policy.shell.arguments import hidden_program

    return hidden_program(texts)


def _name(word: Word) -> str:
    return word.text.rsplit("/", 1)[-1]


def _after_options(words: Words, form: Form) -> tuple[int, str]:
    """Where the operands start, and the option that is not known."""
    at = 1
    odd = ""
    while at < len(words):
        text = words[at].text
        if text == "--":
            return at + 1, odd
        if words[at].sure not in (Sure.LITERAL, Sure.SAFE):
            return at, text
        if not text.startswith("-") or text == "-":
            return at, odd
        if text.startswith("--"):
            name, equals, _ = text[2:].partition("=")
            at += 1 if equals or name not in form.names else 2
            known = name in form.names or (name in form.switches and not equals)
            odd = odd or ("" if known else text)
            continue
        step, fits = _short(text, form)
        odd = odd or ("" if fits else text)
        at += step
    return at, odd


def _short(text: str, form: Form) -> tuple[int, bool]:
    """How many words a cluster of letters takes, and whether all are known."""
    for index, letter in enumerate(text[1:], 1):
        if letter in form.letters:
            return (1 if index < len(text) - 1 else 2), True
        if letter not in form.flags:
            return 1, text[1:].isdigit()
    return 1, True


def _formed(words: Words, form: Form) -> Inner:
    at, odd = _after_options(words, form)
    rest = list(words[at + form.operands :])
    if rest and rest[0].text == "!":
        rest = rest[1:]
    doubt = f"{_name(words[0])} with {odd} is not followed" if odd else ""
    return Inner((rest,), doubt=doubt, plain=form.plain and not odd) if rest else Inner(doubt=doubt, plain=False)


def _env(words: Words) -> Inner:
    at, odd = _after_options(words, Form("uC", ("unset", "chdir"), flags="0v"))
    # Nor are -i and -u: without a PATH a shell looks for programs in a default one, which may hold the current folder.
    unset = next((word.text for word in words[1:at] if re.match(r"-[a-zA-Z0-9]*u|--u", word.text)), "")
    doubt = f"env with {odd or unset} is not followed" if odd or unset else ""
    while at < len(words) and (found := re.match(r"([^=]*)=", words[at].text)):
        if changes_programs(found[1], words[at].text[found.end() :]):
            doubt = doubt or f"setting {found[1]} may change what programs run"
        at += 1
    rest = list(words[at:])
    lines: tuple[tuple[str, bool], ...] = ()
    for index, word in enumerate(words[1:], 1):
        if word.text in ("-S", "--split-string") and index + 1 < len(words):
            lines = ((words[index + 1].text, True),)
        elif found := re.match(r"-[a-zA-Z]*S(.+)|--split-string=(.+)", word.text, re.DOTALL):
            lines = ((found[1] or found[2], True),)
    return Inner((rest,) if rest else (), lines, doubt)


def _shell(words: Words, name: str) -> Inner:
    """A shell with a line in its arguments."""
    at = 1
    doubt = "" if name in ("sh", "bash", "dash") else f"{name} reads lines in its own way"
    while at < len(words) and words[at].sure is Sure.LITERAL and re.match(r"[-+].", words[at].text):
        text = words[at].text
        if text in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            doubt = doubt or ("" if words[at + 1 : at + 2] and words[at + 1].text == "pipefail" else f"{name} {text}")
            at += 2
        elif re.fullmatch(r"-[abd-z]*c[a-z]*", text):
            calm_flags = re.fullmatch(r"-[eux]*c[eux]*", text) is not None
            return _with_line(words, at + 1, name, doubt or ("" if calm_flags else f"{name} {text} reads more"))
        else:
            doubt = doubt or ("" if re.fullmatch(r"-[eux]+", text) else f"{name} with {text} is not followed")
            at += 1
    doubt = doubt or file_doubt([word.text for word in words]) or f"{name} runs what a file or its input says"
    return Inner(doubt=doubt, plain=False)


def _with_line(words: Words, at: int, name: str, doubt: str) -> Inner:
    if at >= len(words):
        return Inner(doubt=f"{name} -c without a line", plain=False)
    line = words[at]
    if line.sure is not Sure.LITERAL:
        doubt = doubt or f"what {line.text} stands for is not known"
    if re.match(r"[-+]", line.text):
        doubt = doubt or f"{name} takes options after -c"
    return Inner(lines=((line.text, name != "bash"),), doubt=doubt, plain=not doubt)


def _joined(words: Words, start: int, doubt: str = "") -> Inner:
    """A command that puts its words together and has a shell read them."""
    rest = words[start:]
    if any(word.sure is not Sure.LITERAL for word in rest):
        doubt = doubt or "what is evaluated is not known"
    line = " ".join(word.text for word in rest)
    return Inner(lines=((line, False),) if line else (), doubt=doubt, plain=False)


def _eval(words: Words) -> Inner:
    return _joined(words, 2 if words[1:2] and words[1].text == "--" else 1, "eval reads its words once more")


def _watch(words: Words) -> Inner:
    at, _ = _after_options(words, Form("nq", ("interval",), flags="bcdegptwx"))
    return _joined(words, at, "watch hands its words to a shell")


def _source(words: Words) -> Inner:
    doubt = file_doubt([word.text for word in words]) or f"{words[0].text} runs what a file says"
    return Inner(doubt=doubt, plain=False)


def _trap(words: Words) -> Inner:
    at = 2 if words[1:2] and words[1].text == "--" else 1
    if at >= len(words) or words[at].text in ("-", "", "-p", "-l"):
        return NOTHING
    return _joined(words[: at + 1], at, "trap runs a line later")


def _flagged(*flags: str) -> Callable[[Words], Inner]:
    """A command whose option carries a line for a shell."""

    def read(words: Words) -> Inner:
        for index, word in enumerate(words[1:], 1):
            clustered = re.fullmatch(r"-[a-z]*c", word.text) is not None
            if (word.text in flags or clustered) and index + 1 < len(words):
                return _joined(words[: index + 2], index + 1, f"{words[0].text} hands a line to a shell")
        return Inner(doubt=f"{words[0].text} runs a shell", plain=False)

    return read


def _flock(words: Words) -> Inner:
    for index, word in enumerate(words[1:], 1):
        if word.text in ("-c", "--command") and index + 1 < len(words):
            return _joined(words[: index + 2], index + 1, "flock hands a line to a shell")
    return _formed(words, Form("wE", ("timeout", "conflict-exit-code"), 1, flags="eFnosuxv"))


def _ssh(words: Words) -> Inner:
    at, _ = _after_options(words, Form("bcDEeFIiJLlmOopQRSWw", flags="46AaCfGgKkMNnqsTtVvXxYy"))
    return _joined(words, at + 1, f"{words[0].text} runs elsewhere")


def _parallel(words: Words) -> Inner:
    rest = [word for word in words[1:] if not word.text.startswith("-")]
    inner = rest[: next((index for index, word in enumerate(rest) if word.text.startswith(":::")), len(rest))]
    unknown = Word("{}", Sure.ANY, 0, 0)
    return Inner(([*inner, unknown],) if inner else (), doubt="parallel makes lines of its input", plain=False)


def _xargs(words: Words) -> Inner:
    form = Form(
        "EILPadns", ("arg-file", "delimiter", "max-args", "max-procs"), 0, True, "0rtx", ("null", "no-run-if-empty")
    )
    at, odd = _after_options(words, form)
    doubt = f"xargs with {odd} is not followed" if odd else ""
    rest = list(words[at:])
    if not rest:
        return Inner(doubt=doubt)
    if replaced := frozenset(_replacements(words[1:at])):
        every = len(replaced) > _MANY  # only the last counts, and looking for each in each word would take long
        known = [not every and not any(text in word.text for text in replaced) for word in rest]
        rest = [Word(item.text, item.sure if kept else Sure.ANY, 0, 0) for item, kept in zip(rest, known, strict=True)]
    # Options may undo one another: what comes in is added in any case.
    return Inner(([*rest, Word("{}", Sure.ANY, 0, 0)],), doubt=doubt)


def _replacements(options: Words) -> Iterator[str]:
    """The texts that stand for what comes in."""
    for index, word in enumerate(options):
        if found := re.match(r"-[a-zA-Z0-9]*I(.*)|--replace(?:=(.*))?|-i(.*)", word.text):
            given = found[1] or found[2] or found[3]
            following = options[index + 1].text if index + 1 < len(options) else "{}"
            yield given or (following if "I" in word.text else "{}")


def _find(words: Words) -> Inner:
    commands, doubt = [], ""
    at = 1
    while at < len(words):
        if words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(words) and not _ends(words[end - 1].text, words[end].text):
                end += 1
            if end >= len(words):
                doubt = "find with an -exec that does not end"
            inner = [
                Word(word.text, Sure.SAFE, 0, 0) if word.text == "{}" else _embedded(word)
                for word in words[at + 1 : end]
            ]
            commands.append(inner)
            at = end
        at += 1
    return Inner(tuple(item for item in commands if item), doubt=doubt)


def _ends(before: str, text: str) -> bool:
    """Whether a command of find ends here: a plus ends it only after the braces."""
    return text == ";" or (text == "+" and before == "{}")


def _embedded(word: Word) -> Word:
    return Word(word.text, Sure.ANY, 0, 0) if "{}" in word.text else word


def _command(words: Words) -> Inner:
    """`command -v` only tells where a program is."""
    return NOTHING if len(words) > 1 and words[1].text in ("-v", "-V") else _formed(words, Form(plain=True, flags="p"))


_SPECIAL: dict[str, Callable[[Words], Inner]] = {
    "command": _command,
    "env": _env,
    "xargs": _xargs,
    "find": _find,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "watch": _watch,
    "flock": _flock,
    "ssh": _ssh,
    "script": _flagged("-c", "--command"),
    "su": _flagged("-c", "--command"),
    "runuser": _flagged("-c", "--command"),
    "sg": _flagged("-c"),
    "parallel": _parallel,
}

_WRAPPERS = frozenset([*_SPECIAL, *_SHELLS, *_FORMS, *_RUNS])

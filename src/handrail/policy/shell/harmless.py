"""Commands that are plainly harmless inside the sandbox: they read and print, and run nothing.

A command is looked up by its bare name; what its arguments may be is said by one entry each. What is not known not to
write or to run anything is not here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from handrail.policy.shell import git, wrappers
from handrail.policy.shell.model import Sure, Word
from handrail.policy.shell.programs import awk, printf, sed

Words = Sequence[Word]
_BARE = re.compile(r"(?:/usr)?/bin/")
# Whatever follows these, they print: no option writes a file or runs a program.
_ANY = frozenset(
    [
        ":",
        "true",
        "false",
        "echo",
        "pwd",
        "cd",
        "cat",
        "head",
        "tail",
        "wc",
        "ls",
        "nl",
        "tac",
        "cut",
        "tr",
        "paste",
        "comm",
        "fold",
        "fmt",
        "expand",
        "unexpand",
        "od",
        "stat",
        "du",
        "df",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "id",
        "whoami",
        "uname",
        "nproc",
        "uptime",
        "free",
        "tty",
        "seq",
        "sleep",
        "md5sum",
        "sha1sum",
        "sha224sum",
        "sha256sum",
        "sha384sum",
        "sha512sum",
        "b2sum",
        "cksum",
        "sum",
        "cmp",
        "grep",
        "egrep",
        "fgrep",
        "jq",
        "printenv",
        "groups",
        "users",
        "logname",
        "arch",
        "numfmt",
        "factor",
        "tsort",
        "base64",
        "base32",
        "pathchk",
        "dir",
        "vdir",
        "exit",
        "break",
        "continue",
        "return",
        "rev",
        "column",
        "hexdump",
        "strings",
    ]
)
_OPTIONS = {  # options by one pattern each, operands of any kind
    "sort": r"-[bdfghiMnRrVcCmsuz]+|-[kt].*|-[bdfghiMnRrVsuz]+[kt].*|"
    r"--(?:reverse|unique|numeric-sort|version-sort|stable)",
    "diff": r"-[abBcdeEiNpqrstTuwyZ]+|-[UC]?[0-9]+|--(?:brief|unified|recursive|side-by-side|color|stat)(?:=[\w-]+)?",
    "file": r"-[bhikLNprs0]+|--(?:brief|mime|mime-type|mime-encoding)",
    "tree": r"-[adfilpshugDFrtvxACSnqN]+|-[LIP]|--(?:dirsfirst|noreport|gitignore|prune|du|charset=[\w-]+)",
    "date": r"-[uRI]+|-d|-r|--(?:utc|iso-8601|rfc-3339|date|reference)(?:=.*)?|\+.*",
    "which": r"-a|--all",
    "type": r"-[aftpP]+",
    "ps": r"-[aAdefFlLTuwHNxCpGoUt]+|--(?:forest|sort|no-headers)(?:=[\w,+-]+)?",
    "shuf": r"-[erz]+|-[in][0-9-]+",
    "xxd": r"-[abCeEipu]+|-[clogs][0-9x]+",
    "rg": r"-[abcFhHiIlLnNoPqsSuUvVwxp0.]+|-[ABCEgmMjtTedfr].*|-[abcFhHiIlLnNoPqsSuUvVwx0]+[ABCegmtT].*|"
    r"--(?!pre|hostname-bin|search-zip)[a-z-]+(?:=.*)?",
    "locale": r"-[ackm]+",
    "who": r"-[abdHlmpqrstTuw]+",
    "lsblk": r"-[abdfilmnoprStz]+",
    "lscpu": r"-[abceJpxy]+",
    "wait": r"-n",
}
_OPTION = {name: re.compile(pattern) for name, pattern in _OPTIONS.items()}
_VERSIONED = frozenset(
    [
        "python",
        "python3",
        "node",
        "gcc",
        "g++",
        "cc",
        "make",
        "bash",
        "rg",
        "jq",
        "sed",
        "grep",
        "tar",
        "perl",
        "ruby",
        "find",
        "cmake",
        "java",
    ]
)
_FIND = re.compile(
    r"""(?x) -(?: a?newer(?:[aBcm][aBcmt])? | [acm](?:min|time) | depth | maxdepth | mindepth | empty | false | true
    | fstype
    | gid | group | i?l?name | inum | i?path | i?wholename | i?regex | regextype | links | mount | xdev | nogroup
    | nouser
    | perm | print0? | prune | quit | readable | writable | executable | samefile | size | type | xtype | uid | used
    | user | daystart | follow | noleaf | warn | nowarn | ls | printf | a | and | o | or | not | H | L | P | O[0-3]
    | exec | execdir | context | regextype ) | [!(),;+]"""
)
_UNIQ = re.compile(r"-[cdDiuz]+|-[fsw][0-9]+|--(?:count|repeated|unique|ignore-case)")
_SHELLS = 3  # times that a line within a line may name a shell, or what is spelt like one
_MANY, _DEEP = 256, 8  # words of a wrapper, and wrappers among them; each wrapper looks at all of the words
_READ = re.compile(r"-[rs]+|[a-z_][a-z0-9_]*[a-z0-9]|[a-z]")
_UNARY = frozenset(
    [
        "-b",
        "-c",
        "-d",
        "-e",
        "-f",
        "-g",
        "-h",
        "-k",
        "-L",
        "-n",
        "-p",
        "-r",
        "-s",
        "-S",
        "-u",
        "-w",
        "-x",
        "-z",
        "-O",
        "-G",
        "-N",
    ]
)
_BINARY = frozenset(["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"])
_DOUBLE = frozenset(["-f", "-d", "-e", "-s", "-r", "-x", "-w", "-L", "-h", "-n", "-z", "=", "==", "!=", "!"])


def harmless(words: Sequence[str]) -> bool:
    """Whether a command, by its words, plainly only reads and prints inside the sandbox."""
    return bool(words) and calm_for_any([Word(text, Sure.LITERAL, 0, 0) for text in words])


def shadowed_name(words: Sequence[str], shadowed: Sequence[str]) -> str:
    """Give the name by which a command would run a program of the workspace's own; empty where it does not."""
    names = (words[0], _HELPERS.get(words[0].rsplit("/", 1)[-1], ""))
    return next((name for name in names if name in shadowed), "")


def calm_for_any(words: Words) -> bool:
    """Whether a command is harmless for every value of its unknown words; wrappers without end are not."""
    try:
        return calm(words)
    except RecursionError:
        return False


def calm(words: Words) -> bool:
    """Whether a command is harmless for every value that its unknown words may have."""
    if words[0].sure is not Sure.LITERAL:
        return False
    name = _BARE.sub("", words[0].text) if words[0].text.startswith("/") else words[0].text
    if name in _ANY:
        return True
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    if len(words) == 2 and name in _VERSIONED and words[1].sure is Sure.LITERAL and words[1].text == "--version":
        return True
    allowed = _OPTION.get(name)
    return allowed is not None and _options_fit(words[1:], allowed)


def _options_fit(words: Words, allowed: re.Pattern[str]) -> bool:
    """Whether every word that is or may be an option is one that is allowed."""
    for before, word in zip((None, *words), words, strict=False):
        if word.sure is Sure.LITERAL and word.text == "--" and _ends_options(before):
            return True
        if word.sure in (Sure.ONE, Sure.ANY):
            return False
        # A dash alone is an operand, and options may still follow it.
        optional = word.sure is Sure.LITERAL and word.text[:1] in ("-", "+") and word.text != "-"
        if optional and not allowed.fullmatch(word.text):
            return False
    return True


def _ends_options(before: Word | None) -> bool:
    """Whether `--` after this word ends the options: it must not be the value of one."""
    return before is None or (before.sure is Sure.LITERAL and before.text in ("-n", "-i", "-in", "-ni", "-rn"))


def _literal(words: Words) -> bool:
    return all(word.sure is Sure.LITERAL for word in words)


def _wraps(words: Words) -> bool:
    """A wrapper that adds nothing is as harmless as what it runs."""
    if len(words) > _DEEP and (len(words) > _MANY or sum([word.text in _WRAPPERS for word in words]) > _DEEP):
        return False
    inner = wrappers.unwrap(words)
    return (
        inner.plain
        and not inner.doubt
        and bool(inner.commands or inner.lines)
        and all(calm(command) for command in inner.commands)
        and all(_line_calm(line) for line in inner.lines)
    )


def _line_calm(inner: tuple[str, bool]) -> bool:
    from handrail.policy.shell.reading import line_calm

    # A shell in a shell in a shell is not plain, and each would be read twice as often as the one around it.
    return inner[0].count("sh") <= _SHELLS and line_calm(inner[0], sh=inner[1])


def _find(words: Words) -> bool:
    for word in words[1:]:
        if word.sure in (Sure.ONE, Sure.ANY):
            return False
    inner = wrappers.unwrap(words)
    own = _outside_exec(words)
    return (
        not inner.doubt
        and all(_FIND.fullmatch(text) for text in own if text[:1] in ("-", "(", ")", "!", ","))
        and all(calm(command) for command in inner.commands)
    )


def _outside_exec(words: Words) -> list[str]:
    """The words of find itself, without the commands it runs."""
    own, skipping = [], False
    for index, word in enumerate(words[1:], 1):
        if skipping:
            skipping = not (word.text == ";" or (word.text == "+" and words[index - 1].text == "{}"))
            continue
        own.append(word.text)
        skipping = word.text in ("-exec", "-execdir")
    return own


def _git(words: Words) -> bool:
    """What reads is harmless unless the repository's settings name programs; that is asked elsewhere."""
    texts = [word.text for word in words]
    if _literal(words):
        return git.calm(texts) or git.reads(texts)
    # Words that never start with a dash are no options, nor is what follows two dashes.
    end = next((at for at, word in enumerate(words) if word.sure is Sure.LITERAL and word.text == "--"), len(words))
    return all(word.sure in (Sure.LITERAL, Sure.SAFE) for word in words[:end]) and git.reads(texts)


def _uniq(words: Words) -> bool:
    """The second operand of uniq is a file to write."""
    operands = [word.text for word in words[1:] if not _UNIQ.fullmatch(word.text)]
    return _literal(words) and (not operands or (len(operands) == 1 and operands[0][:1] not in ("-", "+")))


def _test(words: Words) -> bool:
    """Only forms in which no operand can become an operator that evaluates."""
    inner = list(words[1:])
    if words[0].text == "[":
        if not inner or inner[-1].text != "]" or inner[-1].sure is not Sure.LITERAL:
            return False
        inner.pop()
    if inner and inner[0].text == "!" and inner[0].sure is Sure.LITERAL:
        inner = inner[1:]
    if any(word.sure is Sure.ANY for word in inner):
        return False
    if len(inner) == 1:
        return inner[0].sure is not Sure.SAFE
    if len(inner) == 2:
        return inner[0].sure is Sure.LITERAL and inner[0].text in _UNARY and inner[1].sure is not Sure.SAFE
    return len(inner) == 3 and inner[1].sure is Sure.LITERAL and inner[1].text in _BINARY


def _double_test(words: Words) -> bool:
    return words[-1].text == "]]" and all(
        word.text in _DOUBLE for word in words[1:-1] if word.text[:1] in ("-", "=", "!", "<", ">")
    )


def _read(words: Words) -> bool:
    return _literal(words) and all(_READ.fullmatch(word.text) for word in words[1:])


def _command(words: Words) -> bool:
    """`command -v` tells where a program is; else it runs one."""
    if len(words) > 1 and words[1].text in ("-v", "-V"):
        return words[1].sure is Sure.LITERAL
    return _wraps(words)


def _no_operands(words: Words) -> bool:
    return len(words) == 1


def _env(words: Words) -> bool:
    return len(words) == 1 or _wraps(words)


def _set(words: Words) -> bool:
    from handrail.policy.shell.arguments import hidden_program

    return _literal(words) and len(words) > 1 and not hidden_program([word.text for word in words])


def _xargs(words: Words) -> bool:
    inner = wrappers.unwrap(words)
    return not inner.doubt and (not inner.commands or _wraps(words))


def _one_file(words: Words) -> bool:
    return len(words) <= 2 and all(word.sure is Sure.LITERAL and word.text[:1] != "-" for word in words[1:])


def _xxd(words: Words) -> bool:
    """The second operand of xxd is a file to write."""
    operands = [word.text for word in words[1:] if not _OPTION["xxd"].fullmatch(word.text)]
    return _literal(words) and len(operands) <= 1 and all(text[:1] != "-" for text in operands)


def _date(words: Words) -> bool:
    """An operand of date without a plus sets the clock."""
    rest = iter(words[1:])
    for word in rest:
        if word.sure is not Sure.LITERAL:
            return False
        if word.text in ("-d", "-r", "--date", "--reference"):
            next(rest, None)
        elif not _OPTION["date"].fullmatch(word.text):
            return False
    return True


_SPECIAL: dict[str, Callable[[Words], bool]] = {
    "git": _git,
    "find": _find,
    "uniq": _uniq,
    "xxd": _xxd,
    "date": _date,
    "test": _test,
    "[": _test,
    "[[": _double_test,
    "read": _read,
    "command": _command,
    "printf": printf,
    "sed": sed,
    "awk": awk,
    "mawk": awk,
    "gawk": awk,
    "env": _env,
    "hostname": _no_operands,
    "cal": _no_operands,
    "jobs": _no_operands,
    "zcat": _one_file,
    "set": _set,
    "xargs": _xargs,
    **dict.fromkeys(("nice", "timeout", "time", "stdbuf", "ionice", "sh", "bash", "dash"), _wraps),
}
_BUILTINS = frozenset([":", "cd", "exit", "break", "continue", "return", "type", "wait", "read", "set", "[["])
# Programs that harmless ones run in turn.
_HELPERS = {"zcat": "gzip", "egrep": "grep", "fgrep": "grep", "xargs": "echo"}
# Every name that is looked for in the folders of PATH when a harmless command runs.
LOOKED_UP = frozenset([*_ANY, *_SPECIAL, *_OPTIONS, *_VERSIONED, *_HELPERS.values()]) - _BUILTINS
_WRAPPERS = frozenset([name for name, judge in _SPECIAL.items() if judge in (_command, _env, _find, _wraps, _xargs)])

"""Lines made to be slow to judge: each costs what it is long, since the event loop waits for the judge."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator

import pytest

from attacks._shell_gate import judged, unasked
from handrail.policy.rules import Rule
from handrail.policy.shell import forbidden, harmless, read_line, reading
from handrail.policy.shell.model import MAX_BYTES
from handrail.policy.shell.programs import _SED, _SUBSTITUTE
from handrail.tools.exec._line import fine_codes
from handrail.words import Decision

Build = Callable[[int], str]  # a line of at most so many bytes
BOUND = 100  # times the cost of a plain line; what was mended took thousands, or never ended
DEPTH = "ABCDEFGHIJK"


def filled(head: str, piece: str | Callable[[int], str], tail: str = "") -> Build:
    """A line with a piece as often as there is room for it."""

    def build(size: int) -> str:
        pieces, room, number = [], size - len(head) - len(tail), 0
        while (room := room - len(made := piece if isinstance(piece, str) else piece(number))) >= 0:
            pieces.append(made)
            number += 1
        return f"{head}{''.join(pieces)}{tail}"

    return build


LISTS = filled("", "ls;")


def halves(one: Build, other: Build, between: str = "") -> Build:
    """A line of two lines."""
    return lambda size: f"{one(size // 2 - 9)}{between}{other(size // 2)}"


def nested(opened: str, closed: str, inner: Build = LISTS, part: int = 1) -> Build:
    """A line in a line in a line."""

    def build(size: int) -> str:
        text = inner((size - 400) // part)
        for name in reversed(DEPTH):
            text = f"{opened.format(name)}{text}{closed.format(name)}"
        return text

    return build


def deep(tail: str, piece: str) -> Build:
    """What is done in a folder far below."""
    return lambda size: filled(f"cd {'a/' * (size // 16)} && {tail}", piece)(size)


CLUSTERS = {
    f"{name} -{letter}": filled(f"{name} -", letter, "! / x")
    for name in ("rm", "chmod", "sh", "env", "xargs", "tar", "sort", "sed", "set", "git", "make", "npm", "rake", "task")
    for letter in "cRrSIo"
}
LINES: dict[str, Build] = {
    "spaces of sed": filled("sed -n '", " ", "k' f"),
    "signs of sed": filled("sed '1", "! ", "k' f"),
    "scripts of sed": filled("sed ", "-e p "),
    "options of sed": filled("sed ", "-n "),
    "parts of sed": filled("sed '", "s/a/b/;", "k' f"),
    "spaces of awk": filled("awk 'NR", " ", "k' f"),
    "fronts of awk": filled("awk '", "NR==1&&", "' f"),
    "options of awk": filled("awk ", "-F a ", "1"),
    "options of date": filled("date ", "-d x "),
    "options of git": filled("git ", "-P ", "version"),
    "options of set": filled("set ", "-e ", "z"),
    "variables of cmake": filled("cmake -DCMAKE_PROJECT_", "_INCLUDE", "! ."),
    "one text of xargs": halves(filled("xargs ", "-Ia "), filled("", "x ")),
    "texts of xargs": halves(filled("xargs ", lambda at: f"-I{at:x} "), filled("", "x ")),
    "empty quotes": halves(filled("echo ", '""'), filled("", "$x")),
    "empty single quotes": halves(filled("echo ", "''"), filled("", "*")),
    "braces": filled("echo ", "{"),
    "braces and quotes": filled("echo {", "a'b'"),
    "globs": filled("ls ", "*"),
    "variables": filled("ls ", "$x"),
    "open braces": filled("ls ", "${a"),
    "here-documents": filled("", lambda at: f"cat <<A{at}\nA{at}\n"),
    "here-documents at once": halves(
        filled("cat ", lambda at: f"<<A{at:06} "), filled("", lambda at: f"A{at:06}\n"), between="\n"
    ),
    "tabs of a here-document": filled("cat <<-A\n", "\t", "\nA\n"),
    "here-documents for two": nested("sh <<{0} | sh\n", "\n{0}\n"),
    "shells in substitutions": nested('bash -c "$(', ')"'),
    "small shells in substitutions": nested('bash -c "$(', ')"', lambda _: "ls"),
    "shells not understood": lambda _: 'bash -c "$(' * 30 + "ls" + ')"' * 30 + ";;",
    "evaluated": nested('eval "$(', ')"'),
    "a quarter evaluated": nested('eval "$(', ')"', part=4),
    "piped to shells": nested('echo "$(', ')" | sh'),
    "eval": filled("", "eval "),
    "a quarter of eval": lambda size: filled("", "eval ")(size // 4),
    "find": filled("", "find -exec ", "\\;"),
    "shells of find": filled("find . ", "-exec sh -c 'ls|cat' {} + "),
    "sudo": filled("", "sudo "),
    "env": filled("", "env " * 250 + "ls;"),
    "xargs": filled("", "xargs " * 250 + "ls;"),
    "nice": filled("", "nice " * 250 + "ls;"),
    "parallel": filled("", "parallel "),
    "split by env": filled("", "env -S "),
    "folders": filled("", "cd a && ", "ls"),
    "folders and back": filled("", lambda at: f"cd {at:x} && cd .. && ", "ls"),
    "files in a deep folder": deep("tee ", "x "),
    "redirects in a deep folder": deep("ls ", ">x "),
    "commands": filled("", lambda at: f"a{at:x};"),
    "wrapped commands": filled("", lambda at: f"nice a{at:x};"),
    "commands of env": filled("", lambda at: f"env a=b c{at:x};"),
    "evaluated commands": filled("", lambda at: f"eval a{at:x};"),
    "wrappers in wrappers": filled("", lambda at: f"timeout 5 xargs cat {at:x};"),
    "commands of shells": filled("", lambda at: f"sh -c 'a{at:x}';"),
    "files": filled("tee ", lambda at: f"{at:x} "),
    "functions": filled("", lambda at: f"f{at:x}(){{ f{at + 1:x}|f{at + 2:x}; }};"),
    "not understood": filled("", "rm;", "`"),
    "quotes": filled("", '"$('),
    "negations": filled("", "! "),
    "lines that are not understood": filled("", "sh -c '" + "( " * 1000 + "';"),
}


def cost(line: str) -> float:
    """The processor's time for all that is made of a line before it runs, and of its exit code."""
    reading._cached.cache_clear()
    reading._cached_long.cache_clear()
    began = time.process_time()
    judged(line)
    fine_codes(line)
    return time.process_time() - began


@pytest.fixture(scope="module")
def plain() -> float:
    """What a plain line of full length costs."""
    line = filled("echo ", "word ")(MAX_BYTES)
    return min(cost(line) for _ in range(4))


@pytest.mark.parametrize("name", LINES)
def test_a_line_four_times_as_long_costs_four_times_as_much(name: str, plain: float, scale: int) -> None:
    """And not sixteen times, nor all the ways in which lines stand within lines: whatever it is made of."""
    build, size = LINES[name], MAX_BYTES if scale > 1 else MAX_BYTES // 8
    assert len(build(size).encode()) <= size
    short = build(size // 4)
    long = build(size)
    # 7 for four times the length. A nested line has a fixed frame, so its long form may be over four times as long.
    times = 7 * max(len(long) / len(short) / 4, 1)
    part = cost(short)
    whole = cost(long)
    assert whole < BOUND * plain
    for _ in range(8):  # other processes may slow either of the two: the quickest of each counts
        if whole <= times * part + plain:
            break
        part = min(part, cost(short), cost(short))
        whole = min(whole, cost(long))
    assert whole <= times * part + plain


def test_no_cluster_of_letters_costs_many_times_what_a_plain_line_does(plain: float) -> None:
    """For programs of every kind, with letters that are looked for."""
    costs = {name: cost(build(MAX_BYTES)) for name, build in CLUSTERS.items()}
    assert [name for name, found in costs.items() if found >= 20 * plain] == []


# ── and they are read as before ──────────────────────────────────────────────────────────────

ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\[^\n])*/I?)"
SED = re.compile(
    rf"[ \n;]*(?:{ADDRESS}(?:,(?:\+?[0-9]+|{ADDRESS}))?)?[ ]*!?[ ]*"
    rf"(?:[pdPDhHgGxnNl=]|[qQ][0-9]*|{_SUBSTITUTE})[ ]*(?:[;\n]+|\Z)"
)


def random_texts(signs: str, count: int) -> Iterator[str]:
    """Short texts of these signs."""
    rng = random.Random(20_260_201)
    for _ in range(count):
        yield "".join(rng.choices(signs, k=rng.randrange(9)))


def test_a_script_of_sed_is_read_as_by_trying_everything() -> None:
    """What was given away for speed is nothing that fits."""
    for text in random_texts(" \n;!1,$/p\\sIk", 40_000):
        ours, plain = _SED.match(text), SED.match(text)
        assert (ours and ours.span()) == (plain and plain.span()), text


def test_letters_in_a_cluster_are_found_as_by_trying_everything() -> None:
    """`rm`, `chmod` and a shell see their letter wherever it stands."""
    for text in random_texts("rRcax-!", 4_000):
        option = f"-{text}"
        deep = re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r\w*|--no-preserve-root", option) is not None
        opens = re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", option) is not None
        takes = re.fullmatch(r"-[a-z]*c[a-z]*", option) is not None
        assert _denied(("rm", option, "/")) is deep
        assert _denied(("chmod", option, "/")) is opens
        assert (("ls",) in [part.words for part in read_line(f"bash '{option}' ls").parts]) is takes


def _denied(words: tuple[str, ...]) -> bool:
    return forbidden(words) is not None


# ── what is not read again, or not at all, still asks ────────────────────────────────────────


def test_a_line_that_would_be_read_too_often_asks_whatever_rules_say() -> None:
    """What is not looked at may be forbidden."""
    rule = Rule(Decision.ALLOW, "rules.1", "proc.exec")
    assert not unasked(LINES["here-documents for two"](MAX_BYTES), rule)
    assert not unasked(LINES["sudo"](MAX_BYTES), rule)
    assert unasked(nested("sh <<{0} | sh\n", "\n{0}\n", lambda _: "ls")(0), rule)


def test_a_wrapper_in_a_few_wrappers_stays_harmless() -> None:
    """Only many of them do not."""
    assert harmless(("env", "nice", "timeout", "5", "xargs", "nice", "grep", "time"))
    assert not harmless((*["nice"] * 9, "ls"))


def test_a_rule_for_a_goal_does_not_let_the_line_run_it_in_another_folder() -> None:
    """`cd` is harmless by itself, and says where the makefile comes from."""
    rule = Rule(Decision.ALLOW, "rules.1", "proc.exec", "make test")
    lines = ["make test", "cd sub && make test", "cd .. && make test", "command cd ..; make test"]
    assert [unasked(line, rule) for line in lines] == [True, True, False, False]


@pytest.mark.parametrize(
    "line",
    [
        "bash -c bash <<< ls; bash -c bash <<< 'rm -rf /'",
        "echo ls | sh -c sh; echo 'rm -rf /' | sh -c sh",
        "bash -c 'cd a; bash' <<< ls; bash -c 'cd a; bash' <<< 'dd of=/dev/sda if=a'",
        "bash -c 'bash; ls' <<< 'rm -rf /'",
        "sh -c 'fi; do nice rm -rf /'",
        f"{'nice ' * 14}rm -rf /",
    ],
)
def test_what_was_read_before_hides_nothing_that_is_forbidden(line: str) -> None:
    """A shell reads its own input, however often the line that starts it stands there; pieces are not read."""
    everything = [Rule(Decision.ALLOW, f"rules.{touch}", f"{touch}.*") for touch in ("proc", "fs", "git")]
    assert judged(line, *everything).decision is Decision.DENY


@pytest.mark.parametrize(
    "line",
    [
        "sh -c sh; echo 'git push' | sh -c sh",
        f"bash -c 'case a in a) true;; esac; : {'x' * 2100}; nice git push'",
        f"eval 'a=(1 2); : {'x' * 2100}; timeout 5 git push'",
    ],
)
def test_what_was_read_before_hides_nothing_that_a_rule_denies(line: str) -> None:
    """A piece of a line that is not understood is no command whose own commands were read."""
    everything = [Rule(Decision.ALLOW, f"rules.{touch}", f"{touch}.*") for touch in ("proc", "fs", "git")]
    denied = Rule(Decision.DENY, "rules.no", "proc.exec", "git push")
    assert judged(line, *everything, denied).decision is Decision.DENY

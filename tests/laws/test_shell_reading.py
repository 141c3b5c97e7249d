"""What a line of shell is read as: its commands, the files it writes, and what is in doubt."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.policy.shell import Part, Reading, forbidden_line, harmless, read_line


def words(line: str) -> list[tuple[str, ...]]:
    """The words of every part."""
    return [part.words for part in read_line(line).parts]


def test_a_plain_line_is_read_whole() -> None:
    """Pipes and lists give one part each, without quotes."""
    parts = (
        Part(("grep", "-n", "a b", "src"), "grep -n 'a b' src"),
        Part(("head", "-3"), "head -3"),
        Part(("cd", "out"), "cd out"),
    )
    read = Reading(parts, taken=frozenset(part.words for part in parts))
    assert read_line("grep -n 'a b' src | head -3 && cd out") == read


COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "": [],
    "  # nothing but a comment": [],
    "x=1": [],
    "a; b\nc & d": [("a",), ("b",), ("c",), ("d",)],
    "(a; b) | { c; }": [("a",), ("b",), ("c",)],
    "if a; then b; elif c; then d; else e; fi": [("a",), ("b",), ("c",), ("d",), ("e",)],
    "while a; do b; done; until c; do d; done": [("a",), ("b",), ("c",), ("d",)],
    "for x in 1 2; do a; done": [("a",)],
    "! a": [("a",)],
    'echo "x $(a)"': [("echo", '"x $(a)"'), ("a",)],
    "diff <(a) <(b)": [("diff", "<(a)", "<(b)"), ("a",), ("b",)],
    "env -u X nice -n 5 a b": [
        ("env", "-u", "X", "nice", "-n", "5", "a", "b"),
        ("nice", "-n", "5", "a", "b"),
        ("a", "b"),
    ],
    "sudo -u me timeout 5 a": [("sudo", "-u", "me", "timeout", "5", "a"), ("timeout", "5", "a"), ("a",)],
    "bash -c 'a | b'": [("bash", "-c", "a | b"), ("a",), ("b",)],
    "xargs -n 1 a": [("xargs", "-n", "1", "a"), ("a", "{}")],
    "find . -exec a {} \\; -exec b {} +": [
        ("find", ".", "-exec", "a", "{}", ";", "-exec", "b", "{}", "+"),
        ("a", "{}"),
        ("b", "{}"),
    ],
    "a \\\n  b": [("a", "b")],
    "a 'b'\"c\"d": [("a", "bcd")],
    "cat <<'E'\n$(a)\nE\nb": [("cat",), ("b",)],
    "é ü": [("é", "ü")],
}


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_a_line_is_found(line: str) -> None:
    """In the order of the line, wrappers before what they wrap."""
    reading = read_line(line)
    assert sorted(part.words for part in reading.parts) == sorted(COMMANDS[line])
    assert reading.doubt == ""


@pytest.mark.parametrize(
    "line",
    [
        "a() { b; }",
        "case x in x) b;; esac",
        "a `b`",
        "$'a'",
        "a <<E\n$(b)\nE",
        "((x++))",
        "a[1]=b",
        "a=(b)",
        "coproc b",
        "a (b",
        "a 'b",
        'a "b',
        "a |",
        "a && ",
        "a ;; b",
        "a\r\nb",
        "a\u00a0b",
        "a \x00 b",
        "echo $((x))",
        "echo ${x@P}",
        "echo ${!x}",
        "[[ -v x ]]",
        "[[ a -eq b ]]",
        "sh -c '[[ a ]]'",
        "a {x}> y",
        "a\\\nb",
        "cat <<E",
        "\ud800",
        "ls " + "x" * 70_000,
    ],
)
def test_what_is_not_read_exactly_is_in_doubt(line: str) -> None:
    """The line asks as a whole."""
    assert read_line(line).doubt


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("a > x", ("x",)),
        ("a >> x 2> y", ("x", "y")),
        ("a &> x", ("x",)),
        ("> x", ("x",)),
        ("a > -", ("-",)),
        ("(a) > x", ("x",)),
        ("a > /dev/null 2>&1", ()),
        ("a > /tmp/x", ("/tmp/x",)),
        ("a > /tmp/../etc/x", ("/etc/x",)),
        ("a > /etc/x", ("/etc/x",)),
        ("cd sub && a > x", ("sub/x",)),
        ("cd sub; a > x", ("sub/x", "x")),
        ("cd sub && cd .. && a > x", ("x",)),
        ("a | tee x y", ("x", "y")),
        ("bash -c 'cd sub && a > x'", ("sub/x",)),
        ("dd if=a of=b", ("b",)),
        ("sort -o x y", ("x",)),
        ("cat <<'E' > x\ny\nE", ("x",)),
        ("a < x", ()),
    ],
)
def test_what_a_line_writes_is_named(line: str, writes: tuple[str, ...]) -> None:
    """Relative to where the line starts; streams and private places are left out."""
    assert read_line(line).writes == writes


@pytest.mark.parametrize("line", ["a > $x", "a > src/*", "a > ~/x", "cd $x; a > y", "cd; a > y", "a > /dev/tcp/h/1"])
def test_a_target_that_is_not_known_is_in_doubt(line: str) -> None:
    """Nobody can judge a write to somewhere."""
    reading = read_line(line)
    assert reading.doubt or any(part.doubt for part in reading.parts)


def test_what_a_line_reads_is_named() -> None:
    """Input redirects count as reads."""
    assert read_line("cd a && wc -l < b").reads == ("a/b",)


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("git commit -m x && git push", ("commit", "push")),
        ("git -C sub commit", ("commit",)),
        ("sudo git tag v1", ("tag",)),
        ("git status; git log; git diff; git branch; git tag -l; git stash list; git config --get x", ()),
        ("bash -c 'git reset --hard'", ("reset",)),
        ("git config --global core.pager x", ("config",)),
        ("git config --local core.hooksPath x", ("config",)),
        ("git config --show-origin a.b c", ("config",)),
        ("git config -f --get a.b c", ("config",)),
        ("git config --comment --get a.b c", ("config",)),
        ("git config --global --list; git config --local --get a.b; git config --null --show-scope -l", ()),
        ("git remote -v add evil u", ("remote",)),
        ("git remote -v set-url origin u", ("remote",)),
        ("git remote --verbose update", ("remote",)),
        ("git remote; git remote -v; git remote -v show o; git remote get-url o; git remote --verbose", ()),
        ("git submodule --quiet add u", ("submodule",)),
        ("git submodule; git submodule status --recursive", ()),
        ("git --attr-source HEAD push", ("push",)),
        ("git branch -v new; git tag -f v1; git stash -q; git notes --ref=x add", ("branch", "tag", "stash", "notes")),
        (
            "git worktree add x; git update-ref -d HEAD; git symbolic-ref -q HEAD x",
            ("worktree", "update-ref", "symbolic-ref"),
        ),
    ],
)
def test_what_changes_a_repository_is_named(line: str, writes: tuple[str, ...]) -> None:
    """Also within wrappers."""
    assert read_line(line).git_writes == writes


@pytest.mark.parametrize(
    "line", ["git submodule --quiet foreach make", "git submodule foreach make", "git bisect run x"]
)
def test_what_git_runs_for_each_is_in_doubt(line: str) -> None:
    """Wherever the options stand."""
    assert "runs other programs" in read_line(line).parts[0].doubt


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "GIT_DIR", "BASH_ENV", "IFS", "PS4", "RANDOM", "PYTHONPATH", "HOME"]
)
@pytest.mark.parametrize("form", ["{}=x ls", "{}=x; ls", "for {} in a; do ls; done", "env {}=x ls"])
def test_variables_that_change_how_programs_run_are_in_doubt(name: str, form: str) -> None:
    """However they are set."""
    assert any(part.doubt for part in read_line(form.format(name)).parts)


def test_variables_of_the_line_itself_are_not() -> None:
    """Names that mean nothing to bash, and those that only change what is printed."""
    line = "n=1; NAME=x; LC_ALL=C sort a; TZ=UTC date; while IFS= read -r line; do echo $line; done"
    assert [part for part in read_line(line).parts if part.doubt] == []


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab $(){}[]<>|&;\"'`\\\n#*?~!=-cde./\t\r0é\u2003\x00") | st.characters(), max_size=60))
def test_reading_never_raises(line: str) -> None:
    """Nor does judging what was read."""
    reading = read_line(line)
    forbidden_line(line, reading)
    assert all(isinstance(harmless(part.words), bool) for part in reading.parts)


def test_signs_beyond_ascii_do_not_end_the_process() -> None:
    """The grammar's scanner would look them up outside its table; read in a process of its own."""
    line = '\u0151#ac{*#=U.0?\U000779d1[~?$\n/&{\U000db56f "$~>?*&d<&~>0'
    code = f"from handrail.policy.shell.reading import read_anew; print(bool(read_anew({line!a}).doubt))"
    done = subprocess.run(
        [sys.executable, "-c", f"for _ in range(50): exec({code!r})"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, [b"True"])


LONG = [
    "$(",
    "(",
    "a|",
    "a;",
    "<<a ",
    "nice ",
    "env ",
    "cd a; ",
    "f(){ f;",
    "eval ",
    "find -exec ",
    "{a,",
    "bash -c '",
    "if ",
]


@pytest.mark.parametrize("piece", LONG)
def test_reading_takes_a_bounded_time(piece: str) -> None:
    """Also where a line is made to be slow."""
    line = (piece * 65_536)[:65_536]
    start = time.process_time()  # other programs take none of it
    reading = read_line(line)
    forbidden_line(line, reading)
    for part in reading.parts:
        harmless(part.words)
    assert time.process_time() - start < 10
    assert reading.doubt


def test_the_last_of_many_parts_is_judged_as_the_first() -> None:
    """No number of commands hides one."""
    reading = read_line("ls; " * 3000 + "zapper")
    assert ("zapper",) in [part.words for part in reading.parts]

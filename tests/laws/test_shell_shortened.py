"""Options cut short, options behind a dash, and a PATH taken away: none is taken for harmless or covered by a rule."""

from __future__ import annotations

import pytest

from handrail.policy.shell import harmless, read_line
from handrail.tools.exec._line import touches_of_line


def calm(line: str) -> bool:
    """Whether a line would run without asking and without a rule."""
    reading = read_line(line)
    return not reading.doubt and all(not part.doubt and harmless(part.words) for part in reading.parts)


@pytest.mark.parametrize(
    "line",
    [
        "sort - --co=./x a",
        "sort - -o out a",
        "shuf - -o out a",
        "tree - -o out",
        "file - -C -m a",
        "env -i bash -c tree",
        "env -u PATH bash -c tree",
        "env -uPATH bash -c tree",
        "env --unset=PATH bash -c tree",
        "env -vi tree",
    ],
)
def test_a_line_that_could_run_or_write_something_of_the_workspace_is_not_harmless(line: str) -> None:
    """A dash alone ends no options, and a shell without a PATH may look into the current folder."""
    assert not calm(line)


@pytest.mark.parametrize("line", ["sort - a", "sort - -n a", "diff - b", "env TZ=UTC date", "sort -n -- -a"])
def test_a_dash_for_the_input_stays_harmless(line: str) -> None:
    """What is mended does not ask about what was fine."""
    assert calm(line)


@pytest.mark.parametrize(
    "line",
    [
        "tar cf x a --checkpoint-=exec=./x",
        "tar xf x --to-=./x",
        "split --fil=./x a",
        "wget --exec=x http://a",
        "git grep --open=./x y",
        "git fetch --upload-p=./x",
        "git diff --ext-d",
        "git log --textc",
        "git rebase --ex=./x",
    ],
)
def test_a_long_option_cut_short_is_doubted_like_the_whole_one(line: str) -> None:
    """A rule that allows the command does not cover a part in doubt."""
    assert [bool(part.doubt) for part in read_line(line).parts] == [True]


@pytest.mark.parametrize("line", ["git diff --text a", "git log --oneline -5", "git diff --stat", "tar tf x --totals"])
def test_an_option_of_its_own_is_not_taken_for_a_shortened_one(line: str) -> None:
    """A rule such as `git diff *` still covers it."""
    assert [part.doubt for part in read_line(line).parts] == [""]


@pytest.mark.parametrize(
    ("env", "doubted"),
    [
        ({"LC_ALL": "ja_JP.SJIS"}, True),
        ({"LANG": "zh_CN.GBK"}, True),
        ({"LANGUAGE": "../../work"}, True),
        ({"TERM": "/ws/terminal"}, True),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8", "TERM": "xterm-256color", "TZ": "Europe/Berlin"}, False),
        ({"PYTHONHASHSEED": "0", "CI": "1"}, False),
    ],
)
def test_a_locale_in_which_bash_reads_the_line_in_another_way_is_doubted(env: dict[str, str], doubted: bool) -> None:
    """In some character sets a sign holds a backslash; a path would name a file to be read."""
    touches = touches_of_line({"command": "ls", "cwd": ".", "env": env})
    assert any(touch.doubt for touch in touches) is doubted

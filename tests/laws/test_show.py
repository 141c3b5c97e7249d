"""How a request is shown: whole, behind the gutter, and with nothing that a terminal would obey."""

from __future__ import annotations

import io
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from approving import NOW, asking
from handrail.approvals import show
from handrail.approvals.card import card, list_answers
from handrail.approvals.show import FOLDED, GUTTER, Line, Setting, coverage, lines, plain, styled, visible
from handrail.output.diffs import file_diffs
from handrail.policy.grants import EXACT

ANY_TEXT = (
    st.text(st.characters())
    | st.text("\x1b[]0;?hlmJ\r\n\t\b\x07\x9b\u202e\u200b a1")
    | st.text("\u200d\ufe0f\ufe0e\u20e3👩🏽💻⚠1a")
)
# The joiner of an emoji: the one character that a terminal must be given to draw it, and only there.
JOINED = "(?<=[👩💻⚠][\ufe0f🏽])\u200d(?=[👩💻⚠])|(?<=[👩💻⚠])\u200d(?=[👩💻⚠])"


@given(ANY_TEXT)
def test_no_character_that_a_terminal_obeys_is_left(text: str) -> None:
    """Control, format, surrogate, private and unassigned characters and odd spaces are written out."""
    assert re.sub(JOINED, "", visible(text)).isprintable()


@given(ANY_TEXT)
def test_what_is_plain_to_see_stays_as_it_is(text: str) -> None:
    """Nothing is hidden either: every character is there, as itself or as its number."""
    back = re.sub(r"<U\+([0-9A-F]{4,6})>", lambda found: chr(int(found[1], 16)), visible(text).replace("→   ", "\t"))
    assert back == text


INVISIBLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010), 0x2800),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, 0xFFF0, 0xFFF8),
    *(0x1BCA0, 0x1BCA3, 0x1D173, 0x1D17A, 0xE0000, 0xE0001, 0xE007F, *range(0xE0100, 0xE01F0), 0xE0FFF),
]


@pytest.mark.parametrize("code", INVISIBLE, ids=hex)
def test_what_is_drawn_as_nothing_is_written_out(code: int) -> None:
    """Two names that look the same on a screen would be two files."""
    assert visible(f"notes{chr(code)}.txt") == f"notes<U+{code:04X}>.txt"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[H", "<U+001B>[2J<U+001B>[H"),
        ("a\rb\x08", "a<U+000D>b<U+0008>"),
        ("\x9b31m", "<U+009B>31m"),
        ("user\u202etxt.exe", "user<U+202E>txt.exe"),
        ("pay\u200bpal\u00a0\ufeff", "pay<U+200B>pal<U+00A0><U+FEFF>"),
        ("\u3164\u2800", "<U+3164><U+2800>"),
        ("\udc80", "<U+DC80>"),
        ("\U000e0041", "<U+E0041>"),
        ("z" + "\u0301" * 5, "z" + "\u0301" * 3 + "<U+0301>" * 2),
        ("\tü 日本 👍", "→   ü 日本 👍"),
    ],
)
def test_tricks_become_visible(text: str, shown: str) -> None:
    """Painting, reordering, hiding and stacking."""
    assert visible(text) == shown


WHOLE_EMOJI = ["⚠️ stop", "☎️", "❤️‍🔥", "👨‍👩‍👧‍👦", "👩🏽‍💻", "🏳️‍🌈", "🧑‍⚕️", "🇩🇪", "1️⃣", "#️⃣", "a⚠️b"]


@pytest.mark.parametrize("text", WHOLE_EMOJI)
def test_an_emoji_stays_whole(text: str) -> None:
    """What only says how it is drawn, or joins it, hides nothing."""
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay\ufe0fpal", "pay<U+FE0F>pal"),
        ("pay\ufe0epal", "pay<U+FE0E>pal"),
        ("a\u200db", "a<U+200D>b"),
        ("\ufe0f⚠", "<U+FE0F>⚠"),
        ("⚠ \ufe0f", "⚠ <U+FE0F>"),
        ("⚠\ufe0f\ufe0f", "⚠\ufe0f<U+FE0F>"),
        ("⚠\ufe0f\ufe0e", "⚠\ufe0f<U+FE0E>"),
        ("⚠\ufe00⚠\U000e0100", "⚠<U+FE00>⚠<U+E0100>"),
        ("1\ufe0f2", "1<U+FE0F>2"),
        ("v1\ufe0f.txt", "v1<U+FE0F>.txt"),
        ("a\ufe0f\u20e3", "a<U+FE0F>\u20e3"),
        ("─\ufe0f日\ufe0f", "─<U+FE0F>日<U+FE0F>"),
        ("👩\u200dx", "👩<U+200D>x"),
        ("x\u200d👩", "x<U+200D>👩"),
        ("\u200d👩\u200d", "<U+200D>👩<U+200D>"),
        ("👩\u200d\u200d👩", "👩<U+200D><U+200D>👩"),
        ("👩\u200d1", "👩<U+200D>1"),
        ("👩 \u200d 👩", "👩 <U+200D> 👩"),
        ("🏽\u200d👩", "🏽<U+200D>👩"),
        ("👩\u200b👩\u200c👩\u2060👩", "👩<U+200B>👩<U+200C>👩<U+2060>👩"),
        ("👩\u202e👩\u2066", "👩<U+202E>👩<U+2066>"),
        ("🏴\U000e0067\U000e007f", "🏴<U+E0067><U+E007F>"),
        ("⚠\ufe0f" + "\u0301" * 4, "⚠\ufe0f" + "\u0301" * 2 + "<U+0301>" * 2),
        ("🇩\ufe0f🇪\u200d👩", "🇩<U+FE0F>🇪<U+200D>👩"),
        ("\U0001fac8\ufe0f", None),
        ("run©\ufe0f", "run©<U+FE0F>"),
        ("☎\ufe0e", "☎<U+FE0E>"),
        ("ℹ\u200dℹ", "ℹ<U+200D>ℹ"),
        ("⚠\u200d⚠", "⚠<U+200D>⚠"),
    ],
)
def test_what_belongs_to_no_emoji_is_written_out(text: str, shown: str | None) -> None:
    """In words, doubled, at the ends, behind what is no base or is not drawn: each would hide a difference."""
    if shown is None:  # newer than the tables of some Pythons: then neither is shown
        shown = text if text[0].isprintable() else "<U+1FAC8><U+FE0F>"
    assert visible(text) == shown


def test_a_request_reads_like_this() -> None:
    """The whole picture, once."""
    request = asking(
        id="apr_abc",
        digest="0123456789abcdef0123",
        reason="defaults.replace: a file is there",
        params={"path": "a.txt", "content": "one\ntwo", "n": [1, {"k k": None}], "empty": {}},
        impact={"reads": [], "writes": ["a.txt"]},
        diff="--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n-zero\n+one\n+two\n",
    )
    assert plain(lines(request, NOW)) == (
        "Approval apr_abc\n"
        "  tool     write_file 1.0.0, high risk\n"
        "  why      defaults.replace: a file is there\n"
        "  asked by cli, run run-1, in /home/a\n"
        "  digest   0123456789abcdef\n"
        "  expires  at 2023-11-14 22:28:20 UTC, in 15 min 0 s\n"
        "  arguments\n"
        '  │ path: "a.txt"\n'
        "  │ content: text of 2 lines, 7 characters, no newline at the end\n"
        "  │   ┃ one\n"
        "  │   ┃ two\n"
        "  │ n:\n"
        "  │   0: 1\n"
        "  │   1:\n"
        '  │     "k k": null\n'
        "  │ empty: {}\n"
        "  writes\n"
        "  │ a.txt\n"
        "  changes\n"
        "  │ --- a/a.txt\n"
        "  │ +++ b/a.txt\n"
        "  │ @@ -1 +1,2 @@\n"
        "  │ -zero\n"
        "  │ +one\n"
        "  │ +two\n"
    )
    assert plain(coverage(request)) == "  │ write_file: fs.write a.txt\n"


def test_a_call_without_arguments_shows_that() -> None:
    """An empty set of arguments is said, not left out."""
    assert "  arguments\n  │ {}\n" in plain(lines(asking(params={}), NOW))


FOREIGN = ANY_TEXT.filter(bool)
PLAIN = re.compile(r"[\w./*@+:=,-]+( |\Z)", re.ASCII)


@given(FOREIGN, FOREIGN, st.integers(24, 120))
def test_foreign_text_never_starts_a_line_and_no_line_is_wider_than_the_screen(
    text: str, name: str, width: int
) -> None:
    """Whatever a call says stands behind our gutter, so it cannot paint a question of its own."""
    request = replace(
        asking(id="apr_abc", reason=text, caller=name, workspace=text, run_id=name, tool=name, diff=text),
        params={name: text, "deep": [[[{name: [text]}]]]},
        impact={"writes": [text]},
        touches=((name, text),),
    )
    ours = {"Approval apr_abc", "  arguments", "  writes", "  changes"}
    labels = ("  tool     ", "  why      ", "  asked by ", "  digest   ", "  expires  ", "         ┊ ", GUTTER, FOLDED)
    of_cards = (" why   ", "     ┊ ", " in    ", " ┊ ", " ")
    asked = list_answers(request, [("y", "once", False), ("r", "this run", True)], width)
    for line in [*lines(request, NOW, width), *card(request, width), *asked, *coverage(request, width)]:
        assert line.before in (*labels, *of_cards) or line.text in {*ours, "  this run covers"}
        assert cell_len(line.before + line.text) <= width
        if line.before == " " and not line.text.startswith("y once"):  # the head: what is not plain stands in quotes
            assert line.text.startswith(('"', "r this run")) or PLAIN.match(line.text)


@given(ANY_TEXT, st.integers(24, 120))
def test_folding_loses_nothing(text: str, width: int) -> None:
    """The pieces of a folded line make up the line."""
    whole = [line.before + line.text for line in lines(asking(diff=text or "x"), NOW)]
    again: list[str] = []
    for line in lines(asking(diff=text or "x"), NOW, width):
        if "┊" in line.before:
            again[-1] += line.text
        else:
            again.append(line.before + line.text)
    assert again == whole


@given(ANY_TEXT)
def test_styles_add_colour_and_nothing_else(text: str) -> None:
    """Rich neither reads markup out of a request nor passes on an escape but its own colours."""
    shown = [Line(GUTTER, visible(text), "green"), Line("", "[bold]:smile:[/bold]")]
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=True, color_system="standard", width=20)
    console.print(styled(shown), soft_wrap=True, end="", highlight=False)
    assert re.sub(r"\x1b\[[0-9;]*m", "", buffer.getvalue()) == plain(shown)


def test_a_value_of_a_megabyte_is_shown_in_full() -> None:
    """Long is no reason to cut."""
    value = "ö" * 1_000_000
    shown = lines(asking(params={"v": value}), NOW, 80)
    assert "".join(line.text for line in shown).count("ö") == len(value)


def test_every_character_is_counted_at_least_as_wide_as_a_terminal_draws_it() -> None:
    """A line that the terminal had to wrap would start without a gutter."""
    shown = [chr(code) for code in range(0x20, 0x30000) if visible(chr(code)) == chr(code)]
    assert [char for char in shown if cell_len(char) > show._cells(char)] == []
    assert [char for char in shown if unicodedata.east_asian_width(char) in "WFA" and show._cells(char) < 2] == []


DIFF = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+two!\n three\n"


def test_the_card_shows_what_changes_and_why() -> None:
    """Defaults, what the diff shows and the lines around a change are left out; all other arguments are there."""
    request = asking(
        id="apr_abc",
        reason="a.txt exists",
        params={"path": "a.txt", "content": "one\ntwo!\nthree\n", "mode": "overwrite", "mkdirs": True},
        impact={"reads": ["a.txt"], "writes": ["a.txt", "b.txt"]},
        aside=("content", "mkdirs"),
        diff=DIFF,
    )
    assert plain(card(request)) == (
        " write_file  cli in /home/a\n"
        '  │ path: "a.txt"\n'
        '  │ mode: "overwrite"\n'
        "  writes\n"
        "  │ b.txt\n"
        "  │ -two\n"
        "  │ +two!\n"
        " why   a.txt exists\n"
    )


NEW = "--- /dev/null\n+++ b/.github/ci.yml\n@@ -0,0 +1,1 @@\n+on: push\n"
GONE = "--- a/old.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-it said this\n"


def test_several_files_are_shown_by_their_names_and_changed_lines() -> None:
    """Once: the diff names what is written. That a program ended well is as always."""
    line = "mkdir .github && echo 'on: push' > .github/ci.yml"
    request = asking(
        id="apr_abc",
        tool="run_command",
        reason="a forge runs it",
        params={"command": line},
        impact={
            "reads": ["a.txt"],
            "writes": [".github", ".github/ci.yml", "a.txt", "mode-only"],
            "runs": ["mkdir .github", "evil"],
            "ended": ["exit code 0"],
        },
        diff=f"new folder .github\n{NEW}{DIFF}",
        touches=(("fs.write", ".github"), ("fs.write", ".github/ci.yml"), ("fs.write", "a, b")),
    )
    assert plain(card(request)) == (
        " run_command  cli in /home/a\n"
        f"  │ {line}\n"
        "  writes\n"
        "  │ mode-only\n"
        "  runs\n"
        "  │ mkdir .github\n"
        "  │ evil\n"
        "  │ new folder .github\n"
        "  │ new .github/ci.yml\n"
        "  │ +on: push\n"
        "  │ changed a.txt\n"
        "  │ -two\n"
        "  │ +two!\n"
        " why   a forge runs it\n"
    )
    assert plain(coverage(request)) == (
        "  │ run_command: fs.write .github\n  │ run_command: fs.write .github/ci.yml\n  │ run_command: fs.write a, b\n"
    )


def test_of_files_that_are_deleted_the_names_are_shown() -> None:
    """Side by side where they are many and plain; what stood in them is one key away. A failure is no usual end."""
    names = [f"data{number}.txt" for number in range(30)]
    diff = "".join(GONE.replace("old.txt", name) for name in names) + "removed folder d\n"
    request = asking(
        params={"command": "rm *"}, impact={"deletes": [*names, "d"], "failed": ["exit code 1"]}, diff=diff
    )
    text = plain(card(request, 80))
    assert (text.count("\n") <= 12, "it said this" in text, "exit code 1" in text) == (True, False, True)
    assert [name for name in (*names, "d") if name not in text.split()] == []
    assert max(map(len, text.splitlines())) <= 80
    strange = replace(request, impact={"deletes": [*names[:3], "a  b", "c, d"]}, diff="")
    assert plain(card(strange, 80)).count("  │ ") == 6


@pytest.mark.parametrize(
    "diff",
    [
        f"{NEW}{GONE}".replace("-it said this", "-it said this\n--- a/x\n+++ /dev/null"),
        f"{NEW}{DIFF}[the diff is cut: 9 of 90 lines]\n",
        f"{NEW}[and 7 more changes]\n",
        f"{NEW}{DIFF.replace('+two!', '+two … [12 more characters]')}",
        f"{NEW}+++ b/other\n",
        f"\x1b[2J{NEW}",
    ],
)
def test_a_diff_that_is_not_whole_is_shown_as_it_is(diff: str) -> None:
    """Nothing is left out of what cannot be taken apart, and all targets are listed."""
    targets = [".github/ci.yml", "old.txt", "a.txt"]
    request = asking(params={}, impact={"writes": targets, "deletes": ["old.txt"]}, diff=diff)
    text = plain(card(request))
    assert [line for line in diff.splitlines() if visible(line) not in text] == []
    assert [name for name in targets if f"  │ {name}\n" not in text] == []


def test_words_of_a_file_hide_no_target() -> None:
    """A line that speaks of a folder is no folder."""
    diff = NEW.replace("+on: push", "+new folder secret.yml") + DIFF
    assert "  │ secret.yml\n" in plain(card(asking(params={}, impact={"writes": ["secret.yml", "other"]}, diff=diff)))


def test_the_card_says_its_place_its_asker_and_short_paths() -> None:
    """Which of how many, whether the asker runs, and paths from the person's home; words stay whole."""
    request = asking(id="apr_abc", workspace="/home/ann/shop", reason="it is " + "very " * 20 + "long")
    shown = card(request, 60, Setting("2 of 4", True, "/home/ann"))
    assert [line.text for line in shown[:2]] == [
        "2 of 4",
        f"write_file  a.txt{'cli in ~/shop':>41}",
    ]
    assert shown[2].before == " gone  "
    why = [line.text for line in shown if "very" in line.text]
    assert ("".join(why), len(why) > 1) == (request.reason, True)
    assert {text.split()[-1] for text in why} == {"very", "long"}


def test_a_grant_for_an_exact_line_says_so() -> None:
    """In words, not by its digest."""
    request = asking(tool="run_command", touches=((EXACT, "0123abcd"),))
    (line,) = coverage(request)
    assert line.text.startswith("run_command: exactly this line")
    assert "0123abcd" not in line.text


def changed_lines(diff: str) -> list[str] | None:
    """Give the changed lines of a whole diff of one file."""
    files = file_diffs(diff)
    return [*files[0].lines] if files is not None and len(files) == 1 and files[0].path else None


@pytest.mark.parametrize(
    ("diff", "changed"),
    [
        (DIFF, ["-two", "+two!"]),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a\n+++ b\n", ["--- a", "+++ b"]),
        ("--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n", ["-a", "\\ No newline at end of file"]),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n",
         ["@@ -1 +1 @@", "-a", "+b", "@@ -9 +9 @@", "-c", "+d"]),
        (DIFF + DIFF.replace("a.txt", "b.txt"), None),
        (DIFF + "[7 of 9 lines of this diff shown]\n", None),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n", None),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b … [12 more characters]\n", None),
        ("moved a to b", None),
        ("", None),
    ],
)  # fmt: skip
def test_only_a_whole_diff_of_one_file_is_shortened(diff: str, changed: list[str] | None) -> None:
    """The counts of its hunks say where it ends, so that no line of a file passes for a part of the diff."""
    assert changed_lines(diff) == changed

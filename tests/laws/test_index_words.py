"""Laws of splitting code into words and parts: nothing is lost, names are found in all their spellings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.index.grammars import marks_by_grammar, parser_for
from handrail.index.parts import MAX_LINES, Mark, assigned, marks_of, parts_of
from handrail.index.words import Splitter, names_of, terms_of
from handrail.index.words import parts_of as split

WORDS = st.lists(st.sampled_from(["read", "file", "hash", "user", "id", "html"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("fileHash", ["file", "hash", "filehash"]),
        ("file_hash", ["file", "hash", "filehash"]),
        ("FILE_HASH", ["file", "hash", "filehash"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("parseHTML", ["parse", "html", "parsehtml"]),
        ("sha256", ["sha", "256", "sha256"]),
        ("__init__", ["init"]),
        ("x", ["x"]),
        ("größe", ["gr", "öß", "e", "größe"]),
        ("_", []),
    ],
)
def test_a_name_is_its_parts_and_itself(name: str, parts: list[str]) -> None:
    """However it is written."""
    assert split(name) == parts


@given(WORDS)
def test_all_spellings_of_a_name_have_the_same_words(words: list[str]) -> None:
    """Snake, camel, Pascal and constant case."""
    snake = "_".join(words)
    camel = words[0] + "".join(word.title() for word in words[1:])
    spellings = [snake, camel, camel[0].upper() + camel[1:], snake.upper()]
    assert len({frozenset(split(name)) for name in spellings}) == 1


@given(st.text(max_size=200))
def test_any_text_is_split_into_words_in_lower_case(text: str) -> None:
    """The same way each time, with whatever was met before."""
    splitter = Splitter()
    first = splitter.text(text)
    assert splitter.text(text) == first == Splitter().text(text)
    assert first == first.lower() or not text.isascii()


def test_a_question_is_its_telling_words() -> None:
    """Small words go, unless there are no others; names that are spelled out are known."""
    assert terms_of("Where is the path of a run resolved?") == ["path", "run", "resolved"]
    assert terms_of("how is it") == ["how", "is", "it"]
    assert terms_of("???") == []
    assert names_of("what does Runtime.open do with read_file, please") == {"runtime.open", "open", "readfile"}


# ── parts ────────────────────────────────────────────────────────────────────────────────────

LINES = st.lists(
    st.sampled_from(
        [
            "",
            "    ",
            "x = 1",
            "def a():",
            "    def b(self):",
            "class C:",
            "        def d():",
            "# note",
            "@deco",
            "    y",
        ]
    ),
    max_size=250,
)


@given(LINES, st.sampled_from(["py", "md", "json", "sh", "js", ""]))
@settings(deadline=None)
def test_every_line_that_says_something_is_in_exactly_one_part(lines: list[str], extension: str) -> None:
    """Parts follow each other, begin and end with such a line, and are bounded."""
    text = "\n".join(lines)
    parts = parts_of(text, extension)
    inside = [number for part in parts for number in range(part.start, part.end + 1)]
    assert inside == sorted(set(inside))
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= set(inside)
    for part in parts:
        assert lines[part.start - 1].strip()
        assert lines[part.end - 1].strip()
        assert part.end - part.start < MAX_LINES


@given(st.text(max_size=300), st.sampled_from(["py", "c", "sql", "go", "md", "sh"]))
@settings(deadline=None)
def test_any_text_has_parts(text: str, extension: str) -> None:
    """Nothing makes it fail, and marks lie within the text."""
    for mark in marks_of(text, extension):
        assert 0 <= mark.line <= text.count("\n")
    parts_of(text, extension, marks_by_grammar(text, extension))


@pytest.mark.parametrize(
    ("extension", "text", "symbols"),
    [
        (
            "py",
            "import x\n\n\nclass A:\n    def b(self):\n        pass\n\n\nasync def c():\n    pass\n",
            ["", "A", "A.b", "c"],
        ),
        ("py", '"""\nclass of things\ntype of it\n"""\nX = 1\n', [""]),
        ("js", "export class A {\n  b() {}\n}\nexport async function c() {}\nconst d = (x) => x\n", ["A", "c", "d"]),
        ("go", "package x\n\nfunc (r *T) Name(a int) error {\n}\n\ntype User struct {\n}\n", ["", "Name", "User"]),
        ("rs", "pub fn a() {}\n\nimpl Foo for Bar {\n    pub(crate) fn b() {}\n}\n", ["a", "Foo", "Foo.b"]),
        ("c", "static int add(int a, int b) {\n  return a;\n}\n", ["add"]),
        ("sh", "set -e\n\nbuild() {\n  make\n}\n", ["", "build"]),
        ("md", "intro\n\n# One\n\ntext\n\n## Two\n", ["", "One", "Two"]),
        ("toml", "a = 1\n[tool.x]\nb = 2\n", ["", "tool.x"]),
        ("sql", "CREATE TABLE users (\n id int\n);\n", ["users"]),
        ("json", '{"a": 1}', [""]),
    ],
)
def test_definitions_are_parts_of_their_own(extension: str, text: str, symbols: list[str]) -> None:
    """By how their lines look, in the languages people write."""
    assert [part.symbol for part in parts_of(text, extension)] == symbols


def test_comments_and_decorators_go_with_what_they_are_about() -> None:
    """They stand above it."""
    text = "x = 1\n\n# why\n@deco\ndef a():\n    pass\n"
    assert [tuple(part) for part in parts_of(text, "py")] == [(1, 1, ""), (3, 6, "a")]


def test_what_a_part_assigns_is_known() -> None:
    """Constants and tables are found by their names."""
    assert assigned("MAX_LINES = 80\n_x: int = 2\n    inner = 1\nconst table = {}\nif a == b:\n") == [
        "MAX_LINES",
        "table",
    ]


def test_a_grammar_finds_definitions_where_it_is_installed() -> None:
    """As the one for shell is; a language without one is read by its lines."""
    text = "set -e\nif true; then\n  x() { :; }\nfi\nfunction build {\n  echo 'fake() {'\n}\ndeploy() { :; }\n"
    assert marks_by_grammar(text, "sh") == [Mark(2, 0, "x", 3), Mark(4, 0, "build", 7), Mark(7, 0, "deploy", 8)]
    assert marks_by_grammar("x", "unknown") is None


def test_definitions_found_by_any_installed_grammar_have_names() -> None:
    """Whatever languages are installed beside shell."""
    samples = {
        "py": "class A:\n    def b(self):\n        pass\n",
        "go": "package x\nfunc A() {}\n",
        "js": "class A {}\n",
    }
    for extension, text in samples.items():
        marks = marks_by_grammar(text, extension)
        if parser_for(extension) is not None:
            assert marks is not None
            assert marks[0].name == "A"
        else:
            assert marks is None


def test_long_lines_take_no_longer_than_they_are_long() -> None:
    """No pattern goes wild on text that was made for it."""
    import time

    for text in ("a" * 500_000, "(" * 200_000, "def " * 100_000, "int " * 100_000, " " * 500_000, "x=" * 200_000):
        began = time.process_time()
        marks_of(text, "c")
        parts_of(text, "py")
        assigned(text)
        Splitter().text(text)
        assert time.process_time() - began < 3.0, text[:10]

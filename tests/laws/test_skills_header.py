"""What SKILL.md says of itself: strict where a guess could open something, lenient where people write differently."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import skills_ref
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handrail.skills.header import MAX_FILE_BYTES, MAX_HEADER_BYTES, Header, read_header, split_names


def skill_md(*lines: str, body: str = "Do it.") -> bytes:
    """A SKILL.md of a good name and description with further header lines."""
    head = "\n".join(("name: pdf", "description: Reads PDFs.", *lines))
    return f"---\n{head}\n---\n{body}\n".encode()


def plain(**more: object) -> Header:
    """The header that `skill_md` gives without further lines."""
    return Header(**{"name": "pdf", "description": "Reads PDFs.", "body": "Do it.", **more})  # type: ignore[arg-type]


def test_a_header_is_read_whole() -> None:
    """Every field of the specification, and what the skill asks for."""
    found = read_header(
        skill_md(
            "license: MIT",
            "compatibility: needs poppler",
            "metadata:",
            "  author: me",
            '  version: "1.0"',
            "allowed-tools: read_file Bash(git:*)",
            "permissions: [net.connect]",
        )
    )
    assert found == plain(
        license="MIT",
        compatibility="needs poppler",
        metadata={"author": "me", "version": "1.0"},
        allowed_tools=("read_file", "Bash(git:*)"),
        permissions=("net.connect", "Bash(git:*)"),
    )


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("allowed-tools: Read Write", ("Read", "Write")),
        ("allowed-tools: Read, Write", ("Read", "Write")),
        ("allowed-tools: Read,Write,", ("Read", "Write")),
        ("allowed-tools: [Read, Write]", ("Read", "Write")),
        ("allowed-tools: [\"Read\", 'Write']", ("Read", "Write")),
        ("allowed-tools:\n  - Read\n  - Write", ("Read", "Write")),
        ("allowed-tools:\n- Read\n- Write", ("Read", "Write")),
        ('allowed-tools: "Read, Write"', ("Read", "Write")),
        ("allowed-tools: >\n  Read\n  Write", ("Read", "Write")),
        ("allowed-tools: Bash(git add:*) Bash(git commit -m, x)", ("Bash(git add:*)", "Bash(git commit -m, x)")),
        ("allowed-tools: Read Read", ("Read",)),
        ("allowed-tools:\tRead\tWrite", ("Read", "Write")),
        ("allowed_tools: Read", ("Read",)),
        ("Allowed-Tools: Read", ("Read",)),
        ("allowedTools: Read", ("Read",)),
        ("allowed-tools: []", ()),
        ('allowed-tools: ""', ()),
        ("allowed-tools:", ()),
        ("allowed-tools: ~", ()),
        ("allowed-tools: null", ()),
        ("allowed-tools: yes", ("yes",)),
    ],
)
def test_allowed_tools_are_read_however_they_are_written(line: str, tools: tuple[str, ...]) -> None:
    """Lists, commas, spaces, quotes; a field that is there and empty allows nothing."""
    found = read_header(skill_md(line))
    assert (found.allowed_tools, found.problems) == (tools, ())


def test_a_missing_field_does_not_narrow() -> None:
    """None is not the empty list."""
    assert read_header(skill_md()) == plain()


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + skill_md(),
        skill_md().replace(b"\n", b"\r\n"),
        skill_md().replace(b"\n", b"\r"),
        b"\n\n" + skill_md(),
        skill_md().replace(b"---\n", b"---  \t\n"),
        skill_md().replace(b"name: ", b"name:   "),
        skill_md().replace(b"name: pdf", b'name: "pdf"'),
        skill_md().replace(b"name: pdf", b"# a comment\nname: pdf"),
        skill_md().replace(b"name: pdf", b"Name: pdf"),
    ],
    ids=["bom", "crlf", "cr", "blank lines", "spaces", "wide", "quotes", "comment", "capital"],
)
def test_the_same_header_written_differently_is_the_same(data: bytes) -> None:
    """What editors and systems do to a text says nothing."""
    assert read_header(data) == plain()


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("description: a --- b", "a --- b"),
        ("description: |\n  a\n  ---\n  b", "a\n---\nb"),
        ('description: "a: b --- c"', "a: b --- c"),
        ("description: 2026-01-01", "2026-01-01"),
        ("description: 1.50", "1.50"),
        ("description: >-\n  a\n  b", "a b"),
        ("description: \u202ea\u2066b\x1b[31m", "ab[31m"),
    ],
)
def test_a_description_is_taken_as_it_stands(written: str, description: str) -> None:
    """Dashes do not end it, dates and numbers stay text, what would steer a terminal is taken out."""
    data = skill_md().replace(b"description: Reads PDFs.", written.replace("\x1b", "").encode())
    found = read_header(data)
    assert (found.description, found.problems) == (description, ())


def test_free_text_with_a_colon_is_read_and_remarked() -> None:
    """Invalid YAML that many write; only fields that decide nothing are mended."""
    data = skill_md("license: see: LICENSE").replace(b"Reads PDFs.", b"Use when: it's a PDF")
    found = read_header(data)
    assert (found.description, found.license) == ("Use when: it's a PDF", "see: LICENSE")
    assert found.problems == ()
    assert [text.partition(" (")[0] for text in found.remarks] == ["not quite YAML, read all the same"]


BROKEN = {
    "no header": (b"# PDF\n", "first line must be `---`"),
    "empty": (b"", "first line must be `---`"),
    "text before": (b"x\n" + skill_md(), "first line must be `---`"),
    "no end": (b"---\nname: pdf\ndescription: x\n", "has no end"),
    "no name": (b"---\ndescription: x\n---\n", "no `name`"),
    "no description": (b"---\nname: pdf\n---\n", "no `description`"),
    "empty name": (b"---\nname:\ndescription: x\n---\n", "`name` is empty"),
    "empty description": (b"---\nname: pdf\ndescription: ' '\n---\n", "`description` is empty"),
    "name is a list": (b"---\nname: [a]\ndescription: x\n---\n", "`name` must be text"),
    "name with a slash": (b"---\nname: ../x\ndescription: x\n---\n", "`name` holds '/'"),
    "name with a colon": (b"---\nname: 'user:x'\ndescription: x\n---\n", "`name` holds ':'"),
    "long name": (b"---\nname: " + b"a" * 65 + b"\ndescription: x\n---\n", "`name` has 65 characters"),
    "no mapping": (b"---\n- a\n---\n", "must be a mapping"),
    "plain text": (b"---\nhello\n---\n", "must be a mapping"),
    "no fields": (b"---\n---\n", "no `name`"),
    "twice": (skill_md("name: other"), "`name` twice"),
    "twice, differently": (skill_md("allowed-tools: []", "allowed_tools: Read"), "`allowed-tools` twice"),
    "twice, quoted": (skill_md('"name": other'), "`name` twice"),
    "alias": (skill_md("license: &a x", "compatibility: *a"), "anchors and aliases"),
    "anchor alone": (skill_md("license: &a x"), "anchors and aliases"),
    "merge": (skill_md("<<: {allowed-tools: Read}", "metadata: {<<: &a {x: y}}"), "anchors and aliases"),
    "tag": (skill_md("license: !!python/object/apply:os.system ['true']"), "tags such as"),
    "local tag": (skill_md("license: !x y"), "tags such as"),
    "two documents": (skill_md("--- x"), "more than one document"),
    "not YAML": (skill_md("license: [a"), "not valid YAML"),
    "tools not YAML": (skill_md("allowed-tools: a: b"), "not valid YAML"),
    "tools by alias": (skill_md("allowed-tools: *"), "not valid YAML"),
    "tools in a mapping": (skill_md("allowed-tools: {Read: true}"), "`allowed-tools` must be"),
    "tools nested": (skill_md("allowed-tools: [[Read]]"), "`allowed-tools` must be"),
    "tools unbalanced": (skill_md("allowed-tools: Bash(git"), "parentheses"),
    "tools unbalanced back": (skill_md("allowed-tools: Bash)git("), "parentheses"),
    "too many tools": (skill_md("allowed-tools: " + " ".join(f"a{n}" for n in range(201))), "201 names"),
    "metadata as text": (skill_md("metadata: x"), "`metadata` must be"),
    "deep": (skill_md("metadata: " + "[" * 20 + "]" * 20), "nested more than"),
    "UTF-16": (skill_md().decode().encode("utf-16"), "UTF-16"),
    "Latin-1": (skill_md().replace(b"Reads", b"R\xe9ads"), "not UTF-8 (byte"),
    "NUL": (skill_md(body="a\0b"), "NUL"),
    "long header": (skill_md("license: " + "x" * MAX_HEADER_BYTES), "over 16384 bytes"),
    "long file": (skill_md(body="x" * MAX_FILE_BYTES), "over 1048576 bytes"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_header_that_cannot_be_trusted_is_a_problem(case: str) -> None:
    """Fails closed, and says what is wrong."""
    data, says = BROKEN[case]
    found = read_header(data)
    assert any(says in text for text in found.problems), found


@pytest.mark.parametrize(
    "bomb",
    ["[" * 60_000, "{a: " * 15_000, "? " * 30_000, "- " * 30_000, "a: b\n" * 12_000, "&a [*a, " * 7000, "'" * 60_000],
)
def test_no_header_takes_long(bomb: str) -> None:
    """Within its size nothing makes the reader slow."""
    began = time.process_time()
    assert read_header(f"---\n{bomb}\n---\n".encode()).problems
    assert time.process_time() - began < 2


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: f"---\n{text}\n---\n".encode())))
@example(b"---\n\x85\n---\n")
@example(b"---\n? a\n: b\n---\n")
def test_reading_never_raises(data: bytes) -> None:
    """Whatever stands there is a header or a problem; a name is always safe to show and to compare."""
    found = read_header(data)
    assert found.problems or (found.name and found.description and not set(found.name) & set(" :/\n"))


@given(
    st.lists(st.from_regex(r"[A-Za-z_]{1,8}(\([a-z:* ,]{0,8}\))?", fullmatch=True), max_size=6),
    st.sampled_from([" ", ",", ", "]),
)
def test_names_survive_being_joined(names: list[str], between: str) -> None:
    """Splitting is the inverse of joining, whatever stands between them."""
    assert split_names(between.join(names)) == names


# ── the reference implementation ─────────────────────────────────────────────────────────────

AGREED = {
    "plain": [],
    "all fields": ["license: MIT", "compatibility: any", "metadata:", "  author: me", "allowed-tools: Read Write"],
    "folded": ["compatibility: >-", "  one", "  two"],
    "quoted": ['license: "MIT: yes"'],
}


@pytest.mark.parametrize("case", AGREED)
def test_the_reference_reads_the_same(case: str, tmp_path: Path) -> None:
    """Where the reference implementation takes a skill, we read the same out of it."""
    folder = tmp_path / "pdf"
    folder.mkdir()
    data = skill_md(*AGREED[case])
    (folder / "SKILL.md").write_bytes(data)
    theirs, ours = skills_ref.read_properties(folder), read_header(data)
    assert skills_ref.validate(folder) == []
    assert (theirs.name, theirs.description) == (ours.name, ours.description)
    assert (theirs.license or "", theirs.compatibility or "") == (ours.license, ours.compatibility)
    assert dict(theirs.metadata or {}) == dict(ours.metadata)
    assert (theirs.allowed_tools or "").split() == list(ours.allowed_tools or ())
    assert ours.problems == ours.remarks == ()


@pytest.mark.parametrize("case", ["no header", "no end", "no name", "no description", "twice", "tag", "not YAML"])
def test_the_reference_refuses_what_we_refuse(case: str, tmp_path: Path) -> None:
    """We are never the more trusting one where a header is broken."""
    folder = tmp_path / "pdf"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(BROKEN[case][0])
    assert skills_ref.validate(folder) != []


def test_where_the_reference_differs(tmp_path: Path) -> None:
    """It refuses lists in brackets, and cuts a header at any `---`; both are common, and clear."""
    folder = tmp_path / "pdf"
    folder.mkdir()
    for line in ("allowed-tools: [Read]", "compatibility: a --- b"):
        data = skill_md(line)
        (folder / "SKILL.md").write_bytes(data)
        assert read_header(data).problems == ()
        try:
            cut = skills_ref.read_properties(folder).compatibility
        except skills_ref.SkillError:
            continue
        assert cut == "a"


@pytest.mark.parametrize("unit", [" x\n", "a: b\n", "- a\n", "[", "'a' "], ids=repr)
def test_a_hundred_large_headers_are_read_in_seconds(unit: str) -> None:
    """All headers of a workspace are read before one of its skills is found."""
    began = time.process_time()
    for number in range(100):
        text = f"---\nname: s{number}\ndescription: x\nlicense: |\n" + unit * (MAX_HEADER_BYTES // len(unit) - 20)
        read_header(f"{text}\n---\nbody".encode())
    assert time.process_time() - began < 5

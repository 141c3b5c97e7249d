"""Laws of text in files: what is decoded is encoded to the same bytes, and every part leads to the next."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail.errors import Code, Problem
from handrail.ports import Limits
from handrail.tools.fs._bytes import ask_for, text_range
from handrail.tools.fs._excerpt import Window, render, select, tail_start
from handrail.tools.fs._scan import Scan
from handrail.tools.fs._text import (
    BOMS,
    Decoded,
    body_of,
    bom_of,
    count_lines,
    decode,
    encode,
    ending_of,
    is_binary,
    kind_of,
    lines_and_eol,
    lines_of,
    plain_text,
)
from unhidden import Open

ENCODINGS = [(b"", "utf-8"), *BOMS]
# Line breaks of every kind, and signs that other programs take for line breaks.
signs = st.sampled_from(
    ["\n", "\r", "\r\n", "a", "b", "é", "語", "😀", " ", "\t", "\x0b", "\x0c", "\x85", "\u2028", "\x1c"]
)
texts = st.lists(signs, max_size=60).map("".join)
encodings = st.sampled_from(ENCODINGS)


def tried(data: bytes) -> Decoded | Problem:
    """Decode, or give why that cannot be."""
    try:
        return decode(data, "f")
    except Problem as problem:
        return problem


@given(texts)
def test_lines_end_at_line_breaks_and_nowhere_else(text: str) -> None:
    """Lines are what a plain pattern finds, and together they are the text."""
    found = lines_of(text)
    assert found == re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    assert "".join(found) == text
    assert [body_of(line) + ending_of(line) for line in found] == found


@given(texts)
def test_lines_and_endings_are_counted_as_they_stand(text: str) -> None:
    """The count is that of the lines, the name that of the endings found."""
    lines = lines_of(text)
    endings = {ending_of(line) for line in lines} - {""}
    names = {"\n": "lf", "\r\n": "crlf", "\r": "cr"}
    eol = "none" if not endings else names[endings.pop()] if len(endings) == 1 else "mixed"
    assert lines_and_eol(text) == (len(lines), eol)


@given(texts, encodings)
def test_what_is_decoded_is_encoded_to_the_same_bytes(text: str, kind: tuple[bytes, str]) -> None:
    """Decoding takes nothing away that encoding does not put back."""
    bom, encoding = kind
    data = bom + text.encode(encoding)
    assume(bom or not is_binary(data))
    found = decode(data, "f")
    assert (found.text, found.encoding, found.bom) == (text, encoding, bom)
    assert encode(found.text, found.encoding, found.bom) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_a_named_problem(data: bytes) -> None:
    """Nothing is guessed: either the same bytes come back, or the problem is NOT_TEXT or BAD_ENCODING."""
    found = tried(data)
    if isinstance(found, Problem):
        assert found.code in (Code.NOT_TEXT, Code.BAD_ENCODING)
        return
    assert encode(found.text, found.encoding, found.bom) == data


@given(st.binary(max_size=200) | texts.map(str.encode))
def test_the_short_way_of_decoding_agrees_with_the_long_one(data: bytes) -> None:
    """Where the quick look gives a text, decoding gives the same."""
    text = plain_text(data)
    if text is not None:
        assert decode(data, "f") == Decoded(text, "utf-8", b"")


@given(texts, st.integers(0, 60))
def test_the_first_byte_that_does_not_fit_is_named(text: str, at: int) -> None:
    """A stray byte is reported at its offset."""
    good = text.encode()
    at = min(at, len(good))
    while at < len(good) and good[at] & 0xC0 == 0x80:
        at += 1
    assume(not is_binary(good))
    with pytest.raises(Problem) as caught:
        decode(b"text: " + good[:at] + b"\xff" + good[at:], "f")
    assert (caught.value.code, caught.value.details["byte_offset"]) == (Code.BAD_ENCODING, 6 + at)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "PNG image"),
        (b"\x7fELF\x02\x01\0", "ELF program"),
        (b"PK\x03\x04\x14\0", "ZIP archive or Office document"),
        (b"SQLite format 3\0", "SQLite database"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "WebP image"),
        (b"\0\0\0\x18ftypmp42", "MP4 or similar media"),
        (b"name" + b"\0" * 253 + b"ustar", "tar archive"),
        ("plain words".encode("utf-16-le"), "what looks like UTF-16-LE text without a byte order mark"),
        ("plain words".encode("utf-16-be"), "what looks like UTF-16-BE text without a byte order mark"),
        (b"\x01\x02\0\x03", "binary data"),
    ],
)
def test_binary_files_are_named_by_their_first_bytes(data: bytes, kind: str) -> None:
    """A binary file is not text; its type and first bytes are told."""
    assert kind_of(data) == kind
    with pytest.raises(Problem) as caught:
        decode(data, "f")
    assert caught.value.code is Code.NOT_TEXT
    assert caught.value.details == {"size": len(data), "type": kind, "first_bytes": data[:32].hex(" ")}


def test_many_control_bytes_make_a_file_binary_and_few_do_not() -> None:
    """Colours and page feeds are text, a stream of control bytes is not."""
    assert decode(b"\x1b[31mred\x1b[0m\f\x07 and more than ten others", "f").encoding == "utf-8"
    with pytest.raises(Problem) as caught:
        decode(b"ab\x01\x02\x03\x04cd", "f")
    assert caught.value.code is Code.NOT_TEXT


@pytest.mark.parametrize(
    ("data", "code", "offset"),
    [
        (b"\xff\xfea\x00b", Code.BAD_ENCODING, 4),
        (b"\xff\xfea\x00\x00\xd8b\x00", Code.BAD_ENCODING, 4),
        (b"\xfe\xff\x00a\xdc\x00", Code.BAD_ENCODING, 4),
        (b"\xef\xbb\xbfab\xff", Code.BAD_ENCODING, 5),
        (b"\xff\xfe\x00\x00\x00\x00\x11\x00", Code.BAD_ENCODING, 4),
        (b"\xff\xfea\x00\x00\x00", Code.NOT_TEXT, None),
        (b"\xef\xbb\xbfa\x00", Code.NOT_TEXT, None),
    ],
)
def test_a_mark_of_an_encoding_is_held_to(data: bytes, code: Code, offset: int | None) -> None:
    """Bytes that do not fit the encoding their mark names are located from the start of the file."""
    found = tried(data)
    assert isinstance(found, Problem)
    assert (found.code, found.details.get("byte_offset")) == (code, offset)


def test_half_a_character_cannot_be_written() -> None:
    """A lone surrogate is refused with its place."""
    with pytest.raises(Problem) as caught:
        encode("ab\ud800c")
    assert (caught.value.code, caught.value.details) == (Code.INVALID_ARGS, {"position": 2})


# ── files that are read in chunks ────────────────────────────────────────────────────────────


def _scanned(data: bytes, size: int, line: int = 1, column: int = 1) -> Scan:
    scan = Scan(data[:4], "f", line, column)
    for start in range(0, len(data), size):
        scan.feed(data[start : start + size])
    scan.finish()
    return scan


@given(texts, encodings, st.integers(1, 9))
def test_a_file_read_in_chunks_is_what_it_is_as_a_whole(text: str, kind: tuple[bytes, str], size: int) -> None:
    """Hash, lines and endings do not depend on where chunks end."""
    bom, encoding = kind
    data = bom + text.encode(encoding)
    scan = _scanned(data, size)
    assert (scan.bytes, scan.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (scan.total_lines, scan.eol) == lines_and_eol(text)
    assert (scan.bom, scan.encoding) == bom_of(data)
    if text:
        assert scan.last_line_at == len(data) - len(lines_of(text)[-1].encode(encoding))


@given(texts.filter(bool), encodings, st.integers(1, 9), st.data())
def test_a_line_and_column_is_found_at_its_byte(text: str, kind: tuple[bytes, str], size: int, draw: Any) -> None:
    """The byte of a character is found whatever the encoding; past a line's end its length is told."""
    bom, encoding = kind
    lines = lines_of(text)
    line = draw.draw(st.integers(1, len(lines)))
    body = body_of(lines[line - 1])
    column = draw.draw(st.integers(1, len(body) + 3))
    scan = _scanned(bom + text.encode(encoding), size, line, column)
    if column > max(1, len(body)):
        assert (scan.position, scan.line_chars) == (None, len(body))
    else:
        before = "".join(lines[: line - 1]) + body[: column - 1]
        assert (scan.position, scan.line_chars) == (len(bom) + len(before.encode(encoding)), None)


@given(texts, st.integers(1, 5), st.integers(1, 20))
def test_a_bad_byte_is_found_in_any_chunk(text: str, size: int, at: int) -> None:
    """The offset of a byte that does not fit is that in the file, not in the chunk."""
    data = text.encode()[: at * 3]
    good = data.decode("utf-8", "ignore").encode()
    with pytest.raises(Problem) as caught:
        _scanned(good + b"\xff tail", size)
    assert (caught.value.code, caught.value.details["byte_offset"]) == (Code.BAD_ENCODING, len(good))


# ── parts that lead on ───────────────────────────────────────────────────────────────────────


@given(texts.filter(bool), encodings, st.integers(1, 30), st.integers(2, 6), st.integers(1, 12))
def test_byte_ranges_lead_through_the_whole_file(
    text: str, kind: tuple[bytes, str], limit: int, lines: int, chars: int
) -> None:
    """Each range ends where the next one starts; together they are the text."""
    bom, encoding = kind
    data = bom + text.encode(encoding)
    limits = Limits(max_output_lines=lines, max_line_chars=chars)
    seen, offset = "", 0
    while offset < len(data):
        start, size = ask_for(offset, limit, limits)
        part = text_range(data[start : start + size], start, offset, limit, encoding, bom, limits, "f")
        assert part.end > offset or (offset < len(bom) and part.text == "")
        seen, offset = seen + part.text, max(part.end, offset + 1)
        assert all(len(body_of(line)) <= chars + 2 for line in lines_of(part.text))
    assert seen == text


@given(texts.filter(bool), st.integers(2, 6), st.integers(1, 4))
def test_lines_lead_through_the_whole_file(text: str, most: int, limit: int) -> None:
    """Each part names the line that the next one starts with; together they are the text."""
    limits = Limits(max_output_lines=most, max_line_chars=400)
    lines, seen, line = lines_of(text), "", 1
    while True:
        window = Window(text, sum(map(len, lines[: line - 1])), line, 1, True)
        chosen = select(window, limit, 1, limits, "f")
        seen += render(window, chosen.pieces, Open())
        if chosen.next_line is None:
            break
        assert chosen.next_line == chosen.end + 1
        line = chosen.next_line
    assert seen == text


@given(st.text("abcé語", min_size=1, max_size=900), st.integers(250, 400))
def test_columns_lead_through_a_long_line(line: str, most: int) -> None:
    """A cut line names the column that it goes on at; together the pieces are the line."""
    limits = Limits(max_line_chars=most)
    text, seen, column = f"first\n{line}\nlast\n", "", 1
    while True:
        window = Window(text, 6, 2, 1, True)
        chosen = select(window, 1, column, limits, "f")
        shown = render(window, chosen.pieces, Open())
        assert len(shown.removesuffix("\n")) <= most
        piece = shown.removesuffix("\n").split(" … [line 2 goes on: ")[0]
        seen += piece
        if chosen.cut is None:
            break
        assert chosen.cut == (2, column + len(piece))
        column = chosen.cut[1]
    assert seen == line


@given(texts, st.integers(1, 9), st.integers(2, 9))
def test_the_tail_starts_at_a_line_and_ends_at_the_end(text: str, count: int, most: int) -> None:
    """The last lines are whole lines, as many as were asked for and fit."""
    at, shown = tail_start(text, count, Limits(max_output_lines=most), "f")
    lines = lines_of(text)
    wanted = min(count, most - 1, len(lines))
    assert (text[at:], shown) == ("".join(lines[len(lines) - wanted :]), wanted)
    assert count_lines(text[at:]) == wanted

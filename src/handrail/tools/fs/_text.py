"""Text as bytes hold it: strict decoding, line endings, and what a file is when it is no text. Pure."""

from __future__ import annotations

import io
import re

from handrail.errors import Code, Problem
from handrail.output.redact import MARK
from handrail.words import noun

QUICK_SAMPLE = 256  # no control byte in these: text
SAMPLE = 8192  # bytes that decide whether a file without NUL is binary
_FEW_CONTROLS, _MOST_CONTROLS = 3, 0.1  # so many are text whatever the size; above this share none is

# The longer mark first: the BOM of UTF-32-LE begins with that of UTF-16-LE.
BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_BOM_STARTS = frozenset(bom[0] for bom, _ in BOMS)
_TEXT_BYTES = bytes({*range(32, 127), *range(128, 256), *b"\b\t\n\f\r\x1b"})

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive or Office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\x00asm", "WebAssembly module"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"OggS", "Ogg media"),
    (b"fLaC", "FLAC audio"),
    (b"ID3", "MP3 audio"),
    (b"wOF2", "WOFF2 font"),
    (b"\x93NUMPY", "NumPy array"),
    (b"PAR1", "Parquet table"),
)


@noun
class Decoded:
    """A file's text, and what is needed to turn it into the very same bytes again."""

    text: str
    encoding: str
    bom: bytes = b""


def bom_of(data: bytes) -> tuple[bytes, str]:
    """Give the byte order mark at the start and the encoding it names; UTF-8 without one."""
    if data[:1] and data[0] in _BOM_STARTS:
        for bom, encoding in BOMS:
            if data.startswith(bom):
                return bom, encoding
    return b"", "utf-8"


def plain_text(data: bytes) -> str | None:
    """Decode a small UTF-8 file without BOM or control bytes; None: `decode` must look closer."""
    if data.translate(None, _TEXT_BYTES) or (data and data[0] in _BOM_STARTS):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def decode(data: bytes, shown: str) -> Decoded:
    """Decode strictly; NOT_TEXT for binary data, BAD_ENCODING with the place of the first byte that does not fit."""
    bom, encoding = bom_of(data)
    if not bom and is_binary(data):
        raise not_text(data, len(data), shown)
    try:
        text = data.decode() if not bom else data[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise bad_encoding(error, encoding, error.start + len(bom), shown) from None
    if bom and "\0" in text:
        raise not_text(data, len(data), shown)
    return Decoded(text, encoding, bom)


def encode(text: str, encoding: str = "utf-8", bom: bytes = b"") -> bytes:
    """Give the bytes of a text; INVALID_ARGS where it holds half a character."""
    try:
        return bom + text.encode(encoding)
    except UnicodeEncodeError as error:
        raise Problem(
            Code.INVALID_ARGS,
            f"The text holds U+{ord(text[error.start]):04X} at character {error.start + 1}: half of a surrogate pair, "
            "which no encoding can write. Send the whole character.",
            position=error.start,
        ) from None


def is_binary(data: bytes) -> bool:
    """Whether bytes without a BOM are no text: a NUL anywhere, or many control bytes at the start."""
    if b"\0" in data:
        return True
    if not data[:QUICK_SAMPLE].translate(None, _TEXT_BYTES):
        return False
    sample = data[:SAMPLE]
    return len(sample.translate(None, _TEXT_BYTES)) > max(_FEW_CONTROLS, len(sample) * _MOST_CONTROLS)


_TEXT_RUN = re.compile(rb"(?!ftyp[\x20-\x7e]{4}(?![\x21-\x7e]))[\x21-\x7e]{8,}")  # a media file names its kind so


def not_text(head: bytes, size: int, shown: str) -> Problem:
    """Say what a binary file is, as far as its first bytes tell."""
    kind = kind_of(head)
    return Problem(
        Code.NOT_TEXT,
        f"{shown} is not text but {kind}, {size} bytes.",
        next_call={"tool": "hash_file", "args": {"path": shown}},
        size=size,
        type=kind,
        first_bytes=first_bytes(head),
    )


def first_bytes(head: bytes) -> str:
    """The beginning of a file in hexadecimal; text in it, which may be a secret's, is left out."""
    shown = _TEXT_RUN.sub(lambda run: b"\0" * len(run[0]), head[:48])[:32]  # a run may go on where the shown part ends
    pairs = zip(head[:32], shown, strict=True)
    return " ".join(".." if now == 0 and was != 0 else f"{was:02x}" for was, now in pairs)


def bad_encoding(error: UnicodeDecodeError, encoding: str, offset: int, shown: str) -> Problem:
    """Say where the bytes stop fitting their encoding."""
    byte = error.object[error.start]
    hint = "" if encoding != "utf-8" else " It may be in an older encoding such as windows-1252 or latin-1."
    return Problem(
        Code.BAD_ENCODING,
        f"{shown} is not valid {encoding.upper()}: byte 0x{byte:02x} at offset {offset} does not fit "
        f"({error.reason}).{hint}",
        encoding=encoding,
        byte_offset=offset,
        byte=f"{byte:02x}",
    )


def kind_of(head: bytes) -> str:
    """Guess what a binary file is by its first bytes."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF":
        return {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}.get(head[8:12], "RIFF media")
    if head[4:8] == b"ftyp":
        return "MP4 or similar media"
    if head[257:262] == b"ustar":
        return "tar archive"
    even, odd = head[0:SAMPLE:2].count(0), head[1:SAMPLE:2].count(0)
    if abs(even - odd) * 3 > len(head[:SAMPLE]):
        return f"what looks like UTF-16-{'BE' if even > odd else 'LE'} text without a byte order mark"
    return "binary data"


def lines_of(text: str) -> list[str]:
    r"""Split at \n, \r\n and lone \r, and nowhere else; each line keeps its ending."""
    return list(io.StringIO(text, newline=""))


def lines_and_eol(text: str) -> tuple[int, str]:
    """Count lines (a last one without an ending counts too) and name their endings."""
    lf = text.count("\n")
    if "\r" not in text:
        return lf + (text != "" and text[-1] != "\n"), "lf" if lf else "none"
    crlf = text.count("\r\n")
    cr = text.count("\r") - crlf
    return lf + cr + (text[-1] not in "\r\n"), eol_name(lf - crlf, crlf, cr)


def count_lines(text: str) -> int:
    """Count lines; a last one without an ending counts too."""
    return lines_and_eol(text)[0]


def ending_of(line: str) -> str:
    """Give the ending of one line."""
    if line.endswith("\r\n"):
        return "\r\n"
    return line[-1:] if line.endswith(("\n", "\r")) else ""


def body_of(line: str) -> str:
    """Give one line without its ending."""
    ending = ending_of(line)
    return line[: -len(ending)] if ending else line


def eol_name(lf: int, crlf: int, cr: int) -> str:
    """Name the line endings by how many there are of each: lf, crlf, cr, mixed or none."""
    found = [name for name, count in (("lf", lf), ("crlf", crlf), ("cr", cr)) if count]
    return found[0] if len(found) == 1 else ("mixed" if found else "none")


def fold_endings(text: str) -> str:
    r"""Write every line ending as \n."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def refuse_marks(before: str, after: str, shown: str) -> None:
    """INVALID_ARGS where a change would write the mark of a hidden value into a file."""
    if MARK in after and after.count(MARK) > before.count(MARK):
        raise Problem(
            Code.INVALID_ARGS,
            f"The new text holds {MARK}, which stands where a secret value was hidden from you; writing it to {shown} "
            "would destroy that value. Change the file with edit_file and leave the lines with hidden values out of "
            "`old` and `new`.",
            marker=MARK,
        )

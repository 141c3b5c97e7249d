"""read_media: bytes as base64, unless a secret stands in them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.tools.fs.read_media import Media, read_media
from handrail.words import Evidence
from tools._fakes import Desk, desk_at

KEY = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
KNOWN = "correct-horse-battery-staple"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An empty workspace, and one value that is known to be secret."""
    async with desk_at(tmp_path, known=(KNOWN,)) as desk:
        yield desk


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("a.JPEG", "image/jpeg"),
        ("a.svg", "image/svg+xml"),
        ("a.mp3", "audio/mpeg"),
        ("d.e/a.pdf", "application/pdf"),
        ("a.bin", "application/octet-stream"),
        ("a", "application/octet-stream"),
        (".png", "application/octet-stream"),
    ],
)
async def test_a_file_is_given_whole_with_the_type_its_name_says(desk: Desk, name: str, kind: str) -> None:
    """Its bytes, their number and their hash."""
    data = bytes(range(256))
    desk.put(name, data)
    answer = await desk.call(read_media, path=name)
    digest = hashlib.sha256(data).hexdigest()
    assert answer.data == Media(name, kind, 256, digest, base64.b64encode(data).decode())
    assert answer.evidence == (Evidence("file", name, f"{name}: {kind}, 256 bytes", digest),)
    assert answer.data.base64 not in str(answer.content)


HOLDING = {
    "a token": f"x = {KEY}\n".encode(),
    "a token between other bytes": bytes(range(128, 256)) + KEY.encode() + bytes(range(128, 256)),
    "a known value": f"\x00\x01{KNOWN}\x02".encode(),
    "a token in two bytes a letter": KEY.encode("utf-16-le"),
    "a token in two bytes a letter, with a mark": KEY.encode("utf-16"),
    "a key": b"\xff-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n\xff",
}


@pytest.mark.parametrize("name", HOLDING)
async def test_what_holds_a_secret_is_refused(desk: Desk, name: str) -> None:
    """Nothing can be hidden in bytes; read_file can hide it in text."""
    desk.put("a.bin", HOLDING[name])
    problem = await desk.problem(read_media, path="a.bin")
    assert (problem.code, problem.next_call) == (
        Code.POLICY_DENIED,
        {"tool": "read_file", "args": {"path": "a.bin"}},
    )


async def test_bytes_whose_base64_is_a_secret_are_refused(desk: Desk) -> None:
    """Short ones: a key in raw bytes must not come out in the spelling that is known."""
    known = "correcthorsebatterystaple1234567"
    desk.put("known.bin", base64.b64decode(known))
    async with desk_at(desk.folder, known=(known,)) as knowing:
        assert (await knowing.problem(read_media, path="known.bin")).code is Code.POLICY_DENIED


async def test_noise_that_looks_like_a_token_by_chance_is_given_in_lines(desk: Desk) -> None:
    """Large files of noise hold such places; they are given whole all the same."""
    noise = random.Random(7).randbytes(30_000)
    chance = base64.b64decode("AAA/cio" + "97GdN7wwDBXxHne9id8B9F4m57fKHNQY" + "/")
    desk.put("a.png", noise + chance)
    answer = await desk.call(read_media, path="a.png")
    assert (base64.b64decode(answer.data.base64), "\n" in answer.data.base64) == (noise + chance, True)


async def test_packed_noise_is_given(desk: Desk) -> None:
    """What images are made of."""
    data = gzip.compress(random.Random(1).randbytes(300_000))
    desk.put("a.gz", data)
    assert base64.b64decode((await desk.call(read_media, path="a.gz")).data.base64) == data


async def test_what_is_no_file_or_too_large_is_refused(desk: Desk) -> None:
    """A folder, nothing, and more than may be read."""
    (desk.folder / "d").mkdir()
    (desk.folder / "large.png").write_bytes(b"x" * (desk.limits.max_read_bytes + 1))
    problems = [await desk.problem(read_media, path=path) for path in ("d", "x.png", "large.png")]
    assert [problem.code for problem in problems] == [Code.NOT_A_FILE, Code.NOT_FOUND, Code.FILE_TOO_LARGE]

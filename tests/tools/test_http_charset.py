"""The charset of a text that names none: told by its letters, and said to be a guess."""

from __future__ import annotations

import pytest

from conftest import Opens
from handrail.tools.http._charset import decode
from handrail.tools.http._guessing import _SAMPLE, _sample, guessed
from serving import http_settings, serving

RUSSIAN = "Привет, мир! Это обычный текст на русском языке, в котором есть несколько предложений.\n"
GREEK = "Καλημέρα κόσμε, αυτό είναι ένα συνηθισμένο ελληνικό κείμενο για έλεγχο.\n"
SIMPLE = "你好，世界！这是一段普通的中文文本，用来检查编码检测是否正确。今天天气很好。\n"
TRADITIONAL = "你好，世界！這是一段普通的中文文本，用來檢查編碼偵測是否正確。今天天氣很好。\n"
JAPANESE = "こんにちは、世界。これは文字コードの検出を確かめるための普通の日本語の文章です。\n"
KOREAN = "안녕하세요, 세계. 이것은 문자 인코딩 감지를 확인하기 위한 평범한 한국어 문장입니다.\n"
WESTERN = "Größe überprüft – alles läuft “gut”. Déjà vu à la française, señor; São Paulo, blåbærgrød.\n"
TEXTS = [
    ("windows-1251", RUSSIAN),
    ("koi8-r", RUSSIAN),
    ("windows-1253", GREEK),
    ("gb18030", SIMPLE),
    ("big5", TRADITIONAL),
    ("cp932", JAPANESE),
    ("euc-jp", JAPANESE),
    ("euc-kr", KOREAN),
    ("windows-1252", WESTERN),
    ("windows-1252", "café"),
    ("windows-1252", "It’s a “test” — only"),
]


@pytest.mark.parametrize(("name", "text"), TEXTS)
@pytest.mark.parametrize("markup", ["", "<html><head><title>x</title></head><body><p>"], ids=["plain", "page"])
def test_letters_tell_the_charset(name: str, text: str, markup: str) -> None:
    """Also of a page whose beginning is markup, and of a text with a long plain beginning."""
    for before in ("", "plain words\n" * 5000):
        for times in (1, 500):
            whole = f"{before}{markup}{text * times}"
            found, charset = decode(whole.encode(name), "text/plain")
            assert (found, charset.name, charset.by) == (whole, name, "guess")


@pytest.mark.parametrize(("name", "text"), [row for row in TEXTS if " " in row[1] or "\n" in row[1]])
def test_a_sample_has_no_half_characters(name: str, text: str) -> None:
    """Half a character would rule its charset out; wherever the sample ends."""
    for shift in range(8):
        sample = _sample(("x" * shift + "\n" + text * 2000).encode(name))
        assert len(sample) <= _SAMPLE
        assert sample.decode(name).endswith(tuple(" \n.,!"))


@pytest.mark.parametrize("body", [b"\xff", b"\x81\x8d\x8f\x90\x9d" * 9, bytes(range(128, 256)) * 200, b"\x80" * 70_000])
def test_what_fits_nothing_is_read_all_the_same(body: bytes) -> None:
    """As the one charset that was always meant where none was named."""
    assert decode(body, "text/plain")[1].by == "guess"
    assert guessed(b"\xff") == "windows-1252"


async def test_a_guess_is_said_to_be_one(opens: Opens) -> None:
    """A text whose charset is named, or that is UTF-8, is no guess."""
    async with serving() as server:
        server.on("/guess", RUSSIAN.encode("windows-1251"), headers={"Content-Type": "text/plain"})
        server.on("/named", RUSSIAN.encode("koi8-r"), headers={"Content-Type": "text/plain; charset=koi8-r"})
        server.on("/utf8", RUSSIAN.encode(), headers={"Content-Type": "text/plain"})
        async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
            paths = ("/guess", "/named", "/utf8")
            outcomes = [await runtime.call("http_fetch", {"url": server.url(path)}) for path in paths]
    assert [outcome.data["text"] for outcome in outcomes] == [RUSSIAN] * 3
    assert [outcome.data["encoding"] for outcome in outcomes] == ["windows-1251", "koi8-r", "utf-8"]
    said = "no charset is named, and it is no UTF-8; read as windows-1251, by its looks"
    assert [outcome.warnings for outcome in outcomes] == [(said,), (), ()]

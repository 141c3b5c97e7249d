"""Laws of redaction: what is hidden does not depend on the engine, on slicing, on chunking or on doing it twice.

Longer than 500 lines because all laws share the same texts and redactors.
"""

import base64
import json
import os
import random
import threading
from typing import Any, Literal
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engines import DATABASE
from handrail.output.engines import has_hyperscan
from handrail.output.redact import (
    CONTEXT,
    KINDS,
    MARK,
    Redactor,
    SecretKind,
    database_fingerprint,
    known_values,
    secret_name,
)

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
KNOWN = ("hunter2hunter2", 'correct horse, "staple"\'s', "Ünï-cödé-1234", "line one\nline two\nline three")
LONG = "sk" + "".join(random.Random(5).choices("ABCDEFabcdef0123456789+/", k=150))
PLAIN = Redactor((*KNOWN, LONG), engine="plain")
FAST = Redactor((*KNOWN, LONG), database=DATABASE, engine="fast" if DATABASE else "plain")
ENGINES = pytest.mark.parametrize("redactor", [PLAIN, FAST], ids=["plain", "fast"])

laws = settings(max_examples=150 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))

FILLERS = st.one_of(
    st.sampled_from([" ", "\n", "=", '"', "'", "**", "\t", "password=", "token: ", 'secret = "', "Bearer ", "://u:"]),
    st.sampled_from(["@host", "-----BEGIN RSA PRIVATE KEY-----", MARK, "***", "REDACTED", "é漢😀", "\r\n", "hello"]),
    st.text(max_size=20),
    st.text(st.sampled_from("abcXYZ019_-/+=.:,;{}()$<>"), max_size=40),
)
SECRETS = st.one_of(st.sampled_from([kind.example for kind in KINDS]), st.sampled_from([*KNOWN, LONG]))
TEXTS = st.lists(st.one_of(FILLERS, FILLERS, SECRETS), max_size=12).map("".join)


def wrapped(text: str, width: int = 76) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width)) + "\n"


@laws
@given(TEXTS)
def test_both_engines_hide_the_same(text: str) -> None:
    """The fast engine is only faster."""
    assert FAST.spans(text) == PLAIN.spans(text)


@laws
@given(TEXTS)
def test_redacting_twice_changes_nothing(text: str) -> None:
    """The mark and what stands around it never match again."""
    once = FAST.text(text)
    assert FAST.text(once) == once
    assert FAST.clean(once)


@laws
@given(TEXTS)
def test_spans_are_sorted_apart_and_inside(text: str) -> None:
    """Spans never touch, and `text` replaces exactly them."""
    spans = FAST.spans(text)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    assert all(a < b for a, b in spans)
    assert edges[1:-1] == sorted(set(edges[1:-1]))
    assert edges[-1] >= edges[-2]
    shown = [text[edges[at] : edges[at + 1]] for at in range(0, len(edges), 2)]
    assert FAST.text(text) == MARK.join(shown)
    assert FAST.clean(text) == (not spans)


@laws
@given(TEXTS)
def test_no_known_value_is_left(text: str) -> None:
    """Whatever stands around it, a known value is gone."""
    shown = FAST.text(text).replace(MARK, "\0")
    assert not any(value in shown for value in (*KNOWN, LONG))


@laws
@given(TEXTS, st.data())
def test_a_slice_shows_nothing_the_whole_hides(text: str, data: st.DataObject) -> None:
    """A slice is shown as it is shown inside the whole."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    shown = "".join(
        text[at] for at in range(start, end) if not any(first <= at < last for first, last in FAST.spans(text))
    )
    excerpt = FAST.excerpt(text[:start], text[start:end], text[end:])
    if "REDACTED" not in text:  # beside part of a mark, nobody can tell where the mark begins
        assert excerpt.replace(MARK, "") == shown
    assert (excerpt == text[start:end]) == (len(shown) == end - start)


@laws
@given(TEXTS, st.lists(st.integers(1, 30), min_size=1))
def test_every_chunking_of_a_stream_equals_the_whole(text: str, sizes: list[int]) -> None:
    """Secrets across chunk borders are found."""
    for redactor in (FAST, PLAIN):
        stream = redactor.stream()
        parts: list[str] = []
        at = 0
        while at < len(text):
            size = sizes[len(parts) % len(sizes)]
            parts.append(stream.feed(text[at : at + size]))
            at += size
        assert "".join([*parts, stream.finish()]) == redactor.text(text)


@settings(max_examples=15 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(), st.integers(100, 9000), st.booleans())
def test_a_long_stream_equals_the_whole(seed: int, size: int, newlines: bool) -> None:
    """Also past every window, with and without line ends."""
    text = long_text(seed, newlines)
    stream = FAST.stream()
    parts = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*parts, stream.finish()]) == FAST.text(text)


def long_text(seed: int, newlines: bool) -> str:
    """Make 150 KB of words with secrets in between."""
    source = random.Random(seed)
    examples = [kind.example for kind in KINDS if newlines or "\n" not in kind.example]
    parts = []
    for _ in range(2000):
        parts.append("".join(source.choices("abcdefg hijklmnop qrst", k=60)))
        parts.append(source.choice([" ", "\n"] if newlines else [" ", ", "]))
        if source.random() < 0.05:
            parts += [" ", source.choice([*examples, *KNOWN[:3], wrapped(LONG)]), " "]
    return "".join(parts)


@ENGINES
def test_a_stream_without_line_ends_keeps_little(redactor: Redactor) -> None:
    """Memory is bounded: only a window is held back."""
    stream = redactor.stream()
    piece = "lorem ipsum dolor sit amet " * 4000
    for _ in range(20):
        stream.feed(piece)
        assert len(stream._text) <= 4 * CONTEXT + len(piece)
    assert len(stream.finish()) <= 4 * CONTEXT


def test_a_stream_shows_whole_lines_at_once() -> None:
    """A reader who follows along does not wait for a window to fill."""
    assert FAST.stream().feed("one\ntwo\nthr") == "one\ntwo\n"


@pytest.mark.parametrize("offset", range(0, 3000, 101))
def test_a_secret_is_found_wherever_a_stream_without_line_ends_is_cut(offset: int) -> None:
    """What is held back is longer than any secret."""
    secret = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "a1" * 1000 + ".b2b2b2"
    text = "-" * (2 * CONTEXT - offset) + " " + secret + " " + "-" * 3 * CONTEXT
    stream = FAST.stream()
    parts = [stream.feed(text[at : at + 1000]) for at in range(0, len(text), 1000)]
    assert "".join([*parts, stream.finish()]) == text.replace(secret, MARK)


def test_a_stream_waits_to_see_whether_a_key_block_follows() -> None:
    """The first line of a block may be no more than a mention."""
    text = "-----BEGIN RSA " + "PRIVATE KEY-----\nis how one begins, says the manual.\n"
    stream = FAST.stream()
    assert stream.feed(text[:32]) == ""
    assert stream.feed(text[32:]) == text


def test_a_stream_holds_back_what_may_be_the_start_of_a_broken_spelling() -> None:
    """A known value that goes on after a line end is hidden from its beginning."""
    encoded = base64.b64encode(LONG.encode()).decode()
    stream = FAST.stream()
    assert stream.feed(f"one\na {encoded[:40]}\n") == "one\n"
    assert stream.feed("other\n") == f"a {encoded[:40]}\nother\n"


@pytest.mark.parametrize("value", [*KNOWN, LONG, "abcdefgh", "ключ-от-всего"])
@pytest.mark.parametrize("lead", ["", "x", "xy", "xyz"])
@ENGINES
def test_a_known_value_is_hidden_in_every_spelling(redactor: Redactor, value: str, lead: str) -> None:
    """Plain, base64 at every alignment, hex, URL-quoted, JSON-escaped, and wrapped over lines."""
    hiding = Redactor([value], engine="plain", kinds=()) if redactor is PLAIN else Redactor([value], database=DATABASE)
    data = value.encode()
    padded = lead.encode() + data + b"!tail"
    spellings = {
        "plain": (value, f"{lead} {value}!"),
        "hex": (data.hex(), padded.hex()),
        "HEX": (data.hex().upper(), padded.hex().upper()),
        "url": (quote(value), f"?q={quote(value)}&x=1"),
        "url whole": (quote(value, safe=""), f"?q={quote(value, safe='')}&x=1"),
        "json": (json.dumps(value)[1:-1], json.dumps({"a": lead + value})),
        "json utf-8": (json.dumps(value, ensure_ascii=False)[1:-1], json.dumps([value], ensure_ascii=False)),
        "base64": (core(data, 0), base64.b64encode(data).decode()),
        "base64 shifted": (core(data, len(lead)), base64.b64encode(padded).decode()),
        "base64 url": (core(data, len(lead), b"-_"), base64.urlsafe_b64encode(padded).decode()),
    }
    for name, (needle, text) in spellings.items():
        assert needle in text, name
        assert needle not in hiding.text(text), name
        assert not hiding.clean(text), name


def core(data: bytes, skip: int, altchars: bytes = b"+/") -> str:
    """Return the base64 characters that depend on `data` alone, `skip` bytes into a text."""
    skip %= 3
    encoded = base64.b64encode(b"\0" * skip + data, altchars)
    return encoded[-(-8 * skip // 6) : 8 * (skip + len(data)) // 6].decode()


@pytest.mark.parametrize("lead", range(0, 80, 7))
@pytest.mark.parametrize("width", [60, 64, 76])
@ENGINES
def test_an_encoding_broken_over_lines_is_hidden(redactor: Redactor, lead: int, width: int) -> None:
    """`base64` and `xxd -p` wrap their output; so do mail and PEM."""
    for value in (LONG, KNOWN[0]):
        secret = b"-" * lead + value.encode() + b"-" * 9
        for encoded, needle in (
            (base64.b64encode(secret).decode(), core(value.encode(), lead)),
            (secret.hex(), value.encode().hex()),
        ):
            shown = redactor.text(wrapped(encoded, width)).replace("\n", "")
            assert needle not in shown
            assert MARK in shown


@ENGINES
def test_a_key_block_is_hidden_to_its_end_or_as_far_as_the_window_goes(redactor: Redactor) -> None:
    """Without its end a block hides what follows; text that only names one is left."""
    body = "\n".join("MIIEpAIBAAKCAQEA" + "q" * 48 for _ in range(20))
    begin, end = "-----BEGIN RSA " + "PRIVATE KEY-----\n", "\n-----END RSA " + "PRIVATE KEY-----"
    assert redactor.text(f"a\n{begin}{body}{end}\nb") == f"a\n{MARK}\nb"
    assert redactor.text(f"a\n{begin}{body}") == f"a\n{MARK}"
    assert redactor.text(f"a\n{begin}") == f"a\n{MARK}"
    named = f'if "{begin.strip()}" in text: raise ValueError(text)\nb'
    assert redactor.text(named) is named


def test_a_slice_of_a_key_block_is_hidden() -> None:
    """The part before the slice tells that it is one."""
    lines = [
        "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
        *["b3BlbnNzaC1rZXktdjEAAAAA" * 2] * 300,
        "-----END OPENSSH PRIVATE KEY-----",
    ]
    text = "\n".join(lines)
    assert FAST.excerpt(text[:9000], text[9000:9100], "") == MARK
    assert FAST.excerpt(text[:9000], text[9000:9100], text[9100:]) == MARK


def test_values_are_redacted_inside_and_out() -> None:
    """Strings, keys, lists and tuples; a secretly named pair is hidden whole."""
    secret = KNOWN[0]
    value = {
        "list": [1, secret, None],
        "tuple": (f"x {secret}", True),
        secret: {"deep": [{"a": secret}]},
        "password": "short",
        "pin_password": [12345678, True, None],
        "X_TOKEN": "abc",
        "Authorization": "Bearer x",
        "apiKey": ["one", 2, ["three", {"four": secret}]],
        "next_page_token": "cursor",
        "token_count": "12",
        "password_set": True,
    }
    assert FAST.value(value) == {
        "list": [1, MARK, None],
        "tuple": (f"x {MARK}", True),
        MARK: {"deep": [{"a": MARK}]},
        "password": MARK,
        "pin_password": [MARK, True, None],
        "X_TOKEN": MARK,
        "Authorization": MARK,
        "apiKey": [MARK, 2, [MARK, {"four": MARK}]],
        "next_page_token": "cursor",
        "token_count": "12",
        "password_set": True,
    }


@pytest.mark.parametrize(
    "value", ["text", 3, None, ["a", {"b": ("c", 1.5)}], {"password": MARK, "a": "b"}, {"token": ""}]
)
def test_a_clean_value_comes_back_as_the_same_object(value: object) -> None:
    """Nothing is copied where nothing is hidden."""
    assert FAST.value(value) is value


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@laws
@given(JSON)
def test_redacting_a_value_twice_changes_nothing(value: object) -> None:
    """A redacted value is clean: it comes back as the same object."""
    once = FAST.value(value)
    assert FAST.value(once) is once


def test_known_values_come_from_secret_names() -> None:
    """Names decide; short, harmless and path-like values are left out."""
    environment = {
        "GITHUB_TOKEN": "abcdefgh1",
        "APP_SECRET": "sssssssss1",
        "OPENAI_API_KEY": "kkkkkkkkk2",
        "DEPLOY_KEY": "dddddddd3",
        "PGPASSWORD": "pppppppp4",
        "AWS_CREDENTIALS": "cccccccc5",
        "DATABASE_URL": "postgres://me:p%40ssw0rd-long@db/app",
        "CACHE_URL": "redis://:br[ck]t-long@cache:6379/0",
        "QUEUE_URL": "amqp://me:one[bracket@[::1]:5672/",
        "SHORT_TOKEN": "abc",
        "USE_TOKEN": "true",
        "SSH_AUTH_SOCK": "/run/user/1000/keyring/ssh",
        "TOKEN_FILE_SECRET": "/run/secrets/token",
        "HOME": "/home/someone",
        "EDITOR": "some-long-editor",
    }
    assert known_values(environment, ["extra-value", "tiny"]) == {
        *("abcdefgh1", "sssssssss1", "kkkkkkkkk2", "dddddddd3", "pppppppp4", "cccccccc5"),
        *("p%40ssw0rd-long", "p@ssw0rd-long", "br[ck]t-long", "one[bracket", "extra-value"),
    }


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((name, True) for name in ("password", "DB_PASSWORD", "apiKey", "api-key", "X_TOKEN", "client_secret")),
        *((name, True) for name in ("Authorization", "Proxy-Authorization", "Set-Cookie", "accessToken", "secret")),
        *((name, False) for name in ("tokens", "max_tokens", "next_token", "nextPageToken", "pad_token", "author")),
        *((name, False) for name in ("path", "primary_key", "tokenizer", "password_file", "secretary", "key")),
    ],
)
def test_names_tell_secrets(name: str, secret: bool) -> None:
    """Pairs with such names are hidden whole."""
    assert secret_name(name) is secret


def test_the_mark_is_never_a_known_value() -> None:
    """Values that are part of the mark, or touch its edge, do not eat it."""
    redactor = Redactor([MARK, "REDACTED", "***REDACTED", "***abcdefgh", "abcdefgh***"], engine="plain")
    once = redactor.text(f"abcdefgh {MARK}abcdefgh")
    assert once == f"{MARK} {MARK}{MARK}"
    assert redactor.text(once) == once


def test_hiding_a_value_does_not_complete_another() -> None:
    """The mark ends with a star; a known value that starts with one is not found across its edge."""
    redactor = Redactor(["*abcdefghi", "topsecret99"], engine="plain")
    once = redactor.text("topsecret99abcdefghi")
    assert redactor.text(once) == once


@ENGINES
def test_a_value_hidden_in_part_is_hidden_whole(redactor: Redactor) -> None:
    """What stands beside a known value in the same field is part of the secret, even if it looks like a placeholder."""
    assert redactor.text(f'password = "{KNOWN[0]}-example"') == f'password = "{MARK}"'


@ENGINES
def test_a_value_longer_than_the_window_is_hidden_up_to_a_whole_character(redactor: Redactor) -> None:
    """Offsets are characters even where a match ends inside one."""
    for pad in ("", "a"):
        text = f'password = "{pad}{"éàü9" * 2000}'
        ((start, end),) = redactor.spans(text)
        assert start == text.index('"') + 1
        assert redactor.text(text) == text[:start] + MARK + text[end:]


def test_own_kinds_can_be_added() -> None:
    """A kind is data; one without keywords works too."""
    ours = SecretKind("acme", r"acme-[0-9]{6}", ("acme-",), "acme-123456")
    bare = SecretKind("ticket", r"TICKET[A-Z]{8}", (), "TICKETABCDEFGH")
    for engine in ("plain", "fast") if DATABASE else ("plain",):
        redactor = Redactor(kinds=[*KINDS, ours, bare], engine=engine)
        assert redactor.text("id acme-482915, TICKETQWERTZUI") == f"id {MARK}, {MARK}"


@pytest.mark.skipif(DATABASE is None, reason="needs hyperscan")
def test_the_database_holds_no_known_value_and_has_a_stable_name() -> None:
    """It is kept on disk, so it must be the same whatever the environment holds."""
    assert DATABASE is not None
    Redactor(KNOWN, database=DATABASE).text(KNOWN[0])
    assert not any(value.encode() in DATABASE for value in KNOWN)
    assert database_fingerprint() == database_fingerprint()
    assert database_fingerprint() != database_fingerprint(KINDS[1:])


@pytest.mark.skipif(DATABASE is None, reason="needs hyperscan")
@pytest.mark.parametrize("database", [b"", b"garbage", (DATABASE or b"")[:-100], (DATABASE or b"")[:5000] + b"x" * 99])
def test_a_damaged_database_is_compiled_anew(database: bytes) -> None:
    """A cache file that cannot be read costs a second, never a secret."""
    few = [kind for kind in KINDS if kind.shape != "token"]
    redactor = Redactor(kinds=few, database=database, engine="fast")
    assert redactor.text("a APP_TOKEN=aB3dE6gH9jK2") == f"a APP_TOKEN={MARK}"


@ENGINES
def test_one_redactor_serves_many_threads(redactor: Redactor) -> None:
    """Scratch space is not shared."""
    text = "some words " * 500 + KNOWN[0] + " and more"
    results: set[str] = set()

    def work() -> None:
        results.update(redactor.text(text) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {text.replace(KNOWN[0], MARK)}


@laws
@given(st.text())
def test_any_text_at_all_is_taken(text: str) -> None:
    """Lone surrogates, NUL and control characters included."""
    odd = f"\ud800{text}\x00 {KNOWN[0]}\udfff"
    assume(KNOWN[0] not in text)
    assert KNOWN[0] not in PLAIN.text(odd)
    assert FAST.spans(odd) == PLAIN.spans(odd)


@pytest.mark.parametrize("prefix", ["AKIA", "ASIA"])
@pytest.mark.parametrize("engine", ["fast", "plain"])
def test_text_that_shows_one_secret_after_the_other_takes_few_passes(
    prefix: str, engine: Literal["fast", "plain"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is hidden must not cost a look at the whole text for each of its parts."""
    if engine == "fast" and not has_hyperscan():
        pytest.skip("needs the extra [fast]")
    redactor = Redactor((), engine=engine)
    passes = 0
    spans = redactor._confirmer.spans

    def counted(*args: Any) -> Any:
        nonlocal passes
        passes += 1
        return spans(*args)

    monkeypatch.setattr(redactor._confirmer, "spans", counted)
    assert redactor.text(prefix * 500).count(prefix) == 0
    assert passes <= 20


@pytest.mark.parametrize("text", ["Ж{}", '{{"ключ":{}}}', '"{}"\n'])
def test_a_known_value_may_be_long_in_every_spelling(text: str) -> None:
    """However long it becomes where it is written in a URL, in JSON or in HTML."""
    value = "".join(text.format(number) for number in range(900))
    redactor = Redactor((value,), database=DATABASE)
    for spelling in (value, quote(value, safe=""), json.dumps(value)[1:-1]):
        assert spelling not in redactor.text(f"before {spelling} after"), spelling[:40]
    assert redactor.text("nothing of it") == "nothing of it"

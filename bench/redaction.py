"""How fast secrets are found: MB/s of log text never seen before, and what one call pays for clean text."""

import random
import re
import time
from dataclasses import dataclass

from handrail.output.redact import Redactor, compile_database

MEGABYTE = 1_000_000
KNOWN = tuple(f"known-value-{number}-{number * 7919:x}" for number in range(5))


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure, and what it must hold."""

    name: str
    value: float
    unit: str
    hold: str


# Each field is filled with something new on every line: {w} a word, {n} a number, {h8} hex digits, {b86} base64.
_LINES = (
    "{t} INFO  [worker-{n}] request finished method=GET path=/api/v1/{w}/{n} status=200 duration_ms={n}",
    "{t} DEBUG connection pool: {n} idle, {n} busy, host=db-{n}.{w}.internal:5432",
    '10.{n}.{n}.7 - - [{t}] "POST /{w}?page={n} HTTP/1.1" 302 {n} "https://www.{w}.org/{w}" "Mozilla/5.0 (X11)"',
    "{t} WARN  retry {n} of 5 for job {h8}-{h4}-{h4}-{h4}-{h12}: {w} is not ready yet",
    '  File "/usr/lib/python3.11/site-packages/{w}/{w}.py", line {n}, in {w}_{w}',
    "commit {h40} ({w}/{w}): {w} the {w} of every {w}",
    '{{"level":"info","ts":{n},"caller":"{w}/{w}.go:{n}","msg":"{w} {w}","trace_id":"{h32}","tokens":{n}}}',
    "npm http fetch GET 200 https://registry.npmjs.org/{w} {n}ms (cache hit) integrity sha512-{b86}==",
    "test_{w}_{w} PASSED [{n}%] {w} {w} {w} {w}",
)
_FIELD = re.compile(r"\{([a-z])([0-9]*)\}")
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def run(megabytes: int = 8) -> list[Row]:
    """Measure both engines; each text is scanned once, so nothing is fast for having been seen."""
    database = compile_database()
    rows = []
    if database is not None:
        fast = Redactor(KNOWN, database=database, engine="fast")
        rows += [*_rows("fast", fast, megabytes, "50+"), *_calls(fast)]
    return [*rows, *_rows("plain", Redactor(KNOWN, engine="plain"), megabytes, "10+")]


def _rows(name: str, redactor: Redactor, megabytes: int, hold: str) -> list[Row]:
    redactor.text("warm up password=" + "aB3dE6gH9j")
    texts = [_log(seed, MEGABYTE) for seed in range(megabytes)]
    begin = time.perf_counter()
    for text in texts:
        redactor.text(text)
    whole = time.perf_counter() - begin
    stream = redactor.stream()
    begin = time.perf_counter()
    for text in texts:
        for at in range(0, len(text), 65536):
            stream.feed(text[at : at + 65536])
    stream.finish()
    chunks = time.perf_counter() - begin
    return [
        Row(f"redact, {name} engine", megabytes / whole, "MB/s", hold),
        Row(f"redact a stream, {name} engine", megabytes / chunks, "MB/s", hold),
    ]


def _calls(redactor: Redactor, calls: int = 20_000) -> list[Row]:
    rows = []
    for size, hold in ((100, "about 1"), (1000, "at most 4")):
        texts = [text for seed in range(20) if (text := _log(100 + seed, size)[:size])]
        begin = time.perf_counter()
        for _ in range(calls // len(texts)):
            for text in texts:
                redactor.clean(text)
        spent = (time.perf_counter() - begin) / calls * 1e6
        rows.append(Row(f"clean, {size} characters, fast engine", spent, "µs", hold))
    return rows


def _log(seed: int, size: int) -> str:
    source = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(_FIELD.sub(lambda field: _fill(source, field[1], int(field[2] or 0)), source.choice(_LINES)))
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _fill(source: random.Random, kind: str, size: int) -> str:
    match kind:
        case "t":
            return f"2025-{source.randrange(1, 13):02}-{source.randrange(1, 29):02}T12:{source.randrange(60):02}:00Z"
        case "w":
            return "".join(
                source.choice("bcdfglmnprst") + source.choice("aeiou") for _ in range(source.randrange(2, 5))
            )
        case "h":
            return f"{source.getrandbits(size * 4):0{size}x}"
        case "b":
            return "".join(source.choices(_BASE64, k=size))
        case _:
            return str(source.randrange(1000))


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:40} {row.value:10.2f} {row.unit:5} (hold: {row.hold})")

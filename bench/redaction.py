"""How fast secrets are found: MB/s of log text never seen before, and what one call pays for clean text."""

import random
import time
from collections.abc import Callable
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


_LINES: tuple[Callable[[random.Random], str], ...] = (
    lambda r: (
        f"{_stamp(r)} INFO  [worker-{r.randrange(16)}] request finished method=GET path=/api/v1/{_word(r)}/{r.randrange(10**6)} status=200 duration_ms={r.randrange(900)}"
    ),
    lambda r: (
        f"{_stamp(r)} DEBUG connection pool: {r.randrange(40)} idle, {r.randrange(40)} busy, host=db-{r.randrange(9)}.{_word(r)}.internal:5432"
    ),
    lambda r: (
        f'10.{r.randrange(255)}.{r.randrange(255)}.7 - - [{_stamp(r)}] "POST /{_word(r)}?page={r.randrange(99)} HTTP/1.1" 302 {r.randrange(10**5)} "https://www.{_word(r)}.org/{_word(r)}" "Mozilla/5.0 (X11; Linux x86_64)"'
    ),
    lambda r: (
        f"{_stamp(r)} WARN  retry {r.randrange(5)} of 5 for job {_hex(r, 8)}-{_hex(r, 4)}-4{_hex(r, 3)}-a{_hex(r, 3)}-{_hex(r, 12)}: {_word(r)} is not ready yet"
    ),
    lambda r: (
        f'  File "/usr/lib/python3.11/site-packages/{_word(r)}/{_word(r)}.py", line {r.randrange(900)}, in {_word(r)}_{_word(r)}'
    ),
    lambda r: f"commit {_hex(r, 40)} ({_word(r)}/{_word(r)}): {_word(r)} the {_word(r)} of every {_word(r)}",
    lambda r: (
        f'{{"level":"info","ts":{r.randrange(10**10)},"caller":"{_word(r)}/{_word(r)}.go:{r.randrange(900)}","msg":"{_word(r)} {_word(r)}","trace_id":"{_hex(r, 32)}","tokens":{r.randrange(4000)}}}'
    ),
    lambda r: (
        f"npm http fetch GET 200 https://registry.npmjs.org/{_word(r)} {r.randrange(900)}ms (cache hit) integrity sha512-{_base64(r, 86)}=="
    ),
    lambda r: f"test_{_word(r)}_{_word(r)} PASSED [{r.randrange(100)}%] {_word(r)} {_word(r)} {_word(r)} {_word(r)}",
)


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
        lines.append(source.choice(_LINES)(source))
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _stamp(source: random.Random) -> str:
    return f"2025-{source.randrange(1, 13):02}-{source.randrange(1, 29):02}T{source.randrange(24):02}:{source.randrange(60):02}:{source.randrange(60):02}Z"


def _word(source: random.Random) -> str:
    return "".join(source.choice("bcdfglmnprst") + source.choice("aeiou") for _ in range(source.randrange(2, 5)))


def _hex(source: random.Random, size: int) -> str:
    return f"{source.getrandbits(size * 4):0{size}x}"


def _base64(source: random.Random, size: int) -> str:
    return "".join(source.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=size))


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:40} {row.value:10.2f} {row.unit:5} (hold: {row.hold})")

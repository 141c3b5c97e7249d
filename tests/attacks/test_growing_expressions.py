"""JMESPath made to take all memory, all time or the event loop: from a few kilobytes, with every function there is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Opens
from handrail.errors import Code
from handrail.selecting import MAX_RESULT_BYTES, QUICK_WORK, ExpressionError, Work, WorkError, search
from handrail.tools.util import json_select as module
from handrail.tools.util.json_select import Selected, json_select
from searching import Searching, fill
from serving import Server, http_settings, serving
from workspaces import refused

LITTLE = 1024 * 1024  # of work


def times(count: int) -> str:
    """The input in a list, many times over."""
    return f"[{','.join('@' * count)}]"


TEXT, NUMBERS = "y" * 12_000, list(range(3000))
BOMBS: list[tuple[Any, str]] = [
    (TEXT, f"length(join('', {times(100)}) | join('', {times(100)}))"),
    (TEXT, f"length(join('{'x' * 3000}', {times(400)}))"),
    (NUMBERS, f"length({times(100)}[] | {times(100)}[])"),
    (NUMBERS, f"length({times(100)}[] | {times(100)}[] | sort(@))"),
    (NUMBERS, f"length({times(100)}[] | {times(100)}[] | reverse(@))"),
    (NUMBERS, f"length({times(100)}[] | {times(100)}[] | map(&[@], @))"),
    (NUMBERS, f"length({times(100)}[] | {times(100)}[] | [::-1])"),
    (NUMBERS, f"{times(40)}[] | [].{times(300)} | [] | length(@)"),
    ({f"k{number}": number for number in range(1000)}, "|".join(["merge(" + ",".join("@" * 100) + ")"] * 18)),
    (NUMBERS, "(" + "|".join(["[@, @]"] * 40) + ") == (" + "|".join(["[@, @]"] * 40) + ")"),
    (NUMBERS, "contains(" + "|".join(["[@, @]"] * 40) + ", (" + "|".join(["[@, @]"] * 39) + "))"),
    (NUMBERS, f"[{'|'.join(['[@, @]'] * 40)}] | sort(@)"),
    (NUMBERS, f"[{'|'.join(['[@, @]'] * 40)}] | sum(@)"),
    (NUMBERS, f"[{'|'.join(['[@, @]'] * 40)}] | to_string(@)"),
    (NUMBERS, f"max_by({times(400)}, &[{'|'.join(['[@, @]'] * 40)}])"),
    (NUMBERS, "|".join(["[@, @]"] * 40)),
    (["x" * 3000 + "a", "x" * 3000 + "b"], f"{times(200)}[] | {times(200)}[] | sort(@) | length(@)"),
    (["x" * 3000 + "a", "x" * 3000 + "b"], f"{times(200)}[] | {times(200)}[] | sort_by(@, &@) | length(@)"),
    (["x" * 3000 + "a", "x" * 3000 + "b"], f"{times(200)}[] | {times(200)}[] | max(@)"),
    (NUMBERS, f"length({times(300)}[] | {times(300)}[])"),
]
IDS = [f"{number}" for number in range(len(BOMBS))]


@pytest.mark.parametrize(("value", "expression"), BOMBS, ids=IDS)
def test_what_grows_is_refused_before_it_has_grown(value: Any, expression: str) -> None:
    """Whatever function or operator makes it grow, and also where a message would write it out."""
    assert len(expression) <= 4096
    with pytest.raises(ExpressionError) as told:
        search(expression, value, Work(LITTLE))
    assert len(str(told.value)) < 1000


def test_what_grows_takes_little_memory() -> None:
    """With as much work as a call may do, in a process that cannot have more than a gigabyte."""
    program = (
        "import json, resource, sys\n"
        "from handrail.selecting import ExpressionError, search\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "for value, expression in json.load(sys.stdin):\n"
        "    try: search(expression, value)\n"
        "    except ExpressionError: print('refused')\n"
    )
    heavy = [bomb for number, bomb in enumerate(BOMBS) if number in (0, 2, 4, 5, 13, 15, 19)]
    ran = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(heavy), capture_output=True, text=True, check=False
    )
    assert (ran.stdout.split(), ran.stderr) == (["refused"] * len(heavy), "")


@pytest.mark.parametrize(("value", "expression"), BOMBS, ids=IDS)
async def test_the_event_loop_does_little_of_it(
    tmp_path: Path, value: Any, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small input is looked at in the loop only as far as that is soon done; the rest is left to a thread."""
    here, done = threading.get_ident(), list[int]()

    class Counted(Work):
        def __init__(self, left: int = LITTLE) -> None:
            super().__init__(left)

        @classmethod
        def on(cls, size: int) -> Work:
            return cls()

        def spend(self, amount: int) -> None:
            super().spend(amount)
            done.append(amount if threading.get_ident() == here else 0)

    monkeypatch.setattr(module, "Work", Counted)
    async with Searching(tmp_path) as call:
        problem = await refused(call.call(json_select, json=value, expression=expression))
    assert problem.code is Code.INVALID_ARGS
    assert sum(done) <= QUICK_WORK


@pytest.mark.parametrize("expression", [f"join('', {times(100)})", f"to_string({times(100)})"])
def test_a_text_is_made_within_its_bound(expression: str) -> None:
    """A megabyte, however much work is left."""
    with pytest.raises(ExpressionError, match="makes a text of more than"):
        search(f"length({expression})", TEXT)


def test_the_work_in_the_event_loop_is_some_thousand_steps() -> None:
    """Each part of an expression counts each time it is evaluated."""
    with pytest.raises(WorkError):
        search(f"[*].{times(10)}", NUMBERS, Work(QUICK_WORK))
    work = Work(QUICK_WORK)
    assert search("[?@ > `2997`]", list(range(500)), work) == []
    assert 0 <= work.left < QUICK_WORK - 500 * 48


def test_an_evaluation_ends_soon_when_nobody_waits_for_it() -> None:
    """So that calls past their deadline leave no thread behind that others wait for."""
    work, ended = Work(1 << 60), list[type[Exception]]()

    def evaluate() -> None:
        try:
            search("|".join([f"{times(9)}[].{times(9)}[]"] * 9), NUMBERS, work)
        except WorkError as error:
            ended.append(type(error))

    thread = threading.Thread(target=evaluate, daemon=True)
    thread.start()
    work.stop()
    thread.join(20)
    assert (thread.is_alive(), ended) == (False, [WorkError])


async def test_calls_past_their_deadline_do_not_starve_the_next(opens: Opens, work: Path) -> None:
    """As many as there are threads, each with more to do than time for it."""
    (work / "l.json").write_text(json.dumps(list(range(8000))))
    bomb = {
        "path": "l.json",
        "expression": "[*].[@, @, @, @, @, @, @, @, @, @, @, @, @, @, @, @, @][]|" * 3 + "length(@)",
    }
    async with opens(config={"limits": {"timeout_seconds": 1}}) as runtime:
        await asyncio.gather(*(runtime.call("json_select", bomb) for _ in range(8)))
        outcome = await runtime.call("render_template", {"template": "{{a}}" + "x" * 200_000, "data": {"a": 1}})
    assert outcome.error is None


async def test_what_is_asked_of_a_large_file_is_answered(tmp_path: Path) -> None:
    """The bound is for what grows, not for what is large."""
    people = [{"name": f"n{number}", "age": number % 90, "note": "x" * 40} for number in range(60_000)]
    fill(tmp_path, {"a.json": json.dumps(people)})
    async with Searching(tmp_path) as call:
        old = await call.call(json_select, path="a.json", expression="length([?age > `80`].{n: name, a: age})")
        first = await call.call(json_select, path="a.json", expression="sort_by(@, &name)[0].name")
        count = await call.call(json_select, path="a.json", expression="length(@)")
    assert [answer.data for answer in (old, first, count)] == [
        Selected(sum(person["age"] > 80 for person in people)),  # type: ignore[operator]
        Selected("n0"),
        Selected(60_000),
    ]


# ── http_json ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


async def test_what_is_picked_from_an_answer_is_bounded_too(server: Server, opens: Opens) -> None:
    """INVALID_ARGS with how to mend it, for each of them."""
    found = []
    settings = http_settings(f"127.0.0.1:{server.port}")
    async with opens(config=settings, mode="headless") as runtime:
        for number, (value, expression) in enumerate(BOMBS[:6]):
            server.on(f"/{number}", json.dumps(value))
            outcome = await runtime.call("http_json", {"url": server.url(f"/{number}"), "select": expression})
            found.append(outcome.error.code if outcome.error else f"{number} is answered")
    assert found == ["INVALID_ARGS"] * 6


def test_a_result_may_be_as_large_as_the_input_but_not_grow_beyond_it() -> None:
    """A large answer may be taken whole."""
    large = ["x" * 1024] * (MAX_RESULT_BYTES // 1024)
    assert search("@", large) is large
    with pytest.raises(ExpressionError, match="gives more than"):
        search("[@, @]", large)


def test_what_looks_at_a_large_input_some_times_is_answered() -> None:
    """The bound is on growing, not on the input."""
    assert search("[?@ > `5`] | length(@)", list(range(400_000)), Work.on(3_000_000)) == 399_994


def test_a_result_that_is_deep_counts_as_it_is_written() -> None:
    """Blanks before each line multiply: a small value a hundred levels down is a large text."""
    deep = "|".join(["[@, @]"] * 12 + ["[@]"] * 200)
    with pytest.raises(ExpressionError):
        search(deep, 1, Work(1 << 20))

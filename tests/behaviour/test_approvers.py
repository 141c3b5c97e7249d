"""The ways to ask a person, the terminal's over a real pseudo-terminal.

Longer than 500 lines because every answer, and every way to leave without one, is tried with the same person.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from approving import FOR_RUN, NO, NOW, YES, asking
from handrail.approvals.elsewhere import LedgerApprover
from handrail.approvals.none import NoApprover
from handrail.approvals.terminal import TerminalApprover
from handrail.ports import Approver, Reply, Request
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
from handrail.words import Scope
from terminals import Person

QUESTION = "Answer ("


@pytest.fixture
def clock() -> FixedClock:
    """Time that stands still."""
    return FixedClock(NOW)


@pytest.fixture
def ledger(tmp_path: Path, clock: FixedClock) -> Iterator[SqliteLedger]:
    """An empty ledger."""
    made = SqliteLedger(tmp_path / "ledger.db", clock)
    yield made
    made.close()


@pytest.fixture
def person() -> Iterator[Person]:
    """Somebody at a large terminal."""
    made = Person()
    yield made
    made.leaves()


@pytest.fixture
def approver(ledger: SqliteLedger, clock: FixedClock, person: Person) -> TerminalApprover:
    """Asks that person."""
    return TerminalApprover(ledger, clock, person.stream, person.stream)


def asks(approver: Approver, request: Request) -> asyncio.Task[Reply]:
    """Put a question; a test that hangs on it fails."""

    async def answered() -> Reply:
        async with asyncio.timeout(20):
            return await approver.ask(request)

    return asyncio.create_task(answered())


def user() -> str:
    """Whose terminal it is."""
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


# ── none, and elsewhere ──────────────────────────────────────────────────────────────────────


async def test_where_nobody_can_be_asked_the_request_stays_open() -> None:
    """At once."""
    assert await NoApprover().ask(asking()) == Reply("pending", Scope.NONE)


@pytest.mark.parametrize("answer", [YES, FOR_RUN, NO])
async def test_an_answer_given_elsewhere_is_the_answer(ledger: SqliteLedger, clock: FixedClock, answer: Reply) -> None:
    """Through the ledger, with who gave it and when."""
    made = ledger.request(asking(), {})
    asked = asks(LedgerApprover(ledger, clock), made)
    await asyncio.to_thread(ledger.answer, made.id, answer)
    assert await asked == replace(answer, at=NOW, scope=Scope.NONE if answer is NO else answer.scope)


@pytest.mark.parametrize(("wait_seconds", "state"), [(None, "expired"), (5000, "expired"), (60, "pending")])
async def test_waiting_for_elsewhere_ends_with_patience_or_expiry(
    ledger: SqliteLedger, clock: FixedClock, wait_seconds: float | None, state: str
) -> None:
    """Whichever comes first."""
    made = ledger.request(asking(), {})
    asked = asks(LedgerApprover(ledger, clock, wait_seconds), made)
    await asyncio.sleep(0)
    clock.advance(60 if state == "pending" else 900)
    assert (await asked).state == state


# ── the terminal ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("typed", "reply"),
    [
        ("o\n", Reply("granted", Scope.CALL)),
        ("once\n", Reply("granted", Scope.CALL)),
        (" O \n", Reply("granted", Scope.CALL)),
        ("r\n", Reply("granted", Scope.RUN)),
        ("run\n", Reply("granted", Scope.RUN)),
        ("n\n", Reply("denied", Scope.NONE)),
        ("t\nuse b.txt, ü\n", Reply("denied", Scope.NONE, advice="use b.txt, ü")),
        ("t\n\n", Reply("denied", Scope.NONE)),
        ("y\n", Reply("granted", Scope.CALL)),
        ("Yes\n", Reply("granted", Scope.CALL)),
        ("\nyess\nx\ns\nn\n", Reply("denied", Scope.NONE)),
    ],
)
async def test_what_is_typed_is_the_answer_on_record(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover, typed: str, reply: Reply
) -> None:
    """A whole line, one of the words offered, or a yes; anything else is asked again."""
    made = ledger.request(asking(max_scope=Scope.RUN), {})
    before = person.mode()
    asked = asks(approver, made)
    await person.sees(QUESTION)
    person.types(typed)
    answer = await asked
    assert answer == replace(reply, by=f"{user()} at the terminal", at=NOW)
    assert ledger.find(made.id).reply == answer
    assert person.mode() == before


async def test_what_is_not_understood_is_told(ledger: SqliteLedger, person: Person, approver: TerminalApprover) -> None:
    """With the words that would be, and nothing in it that the terminal obeys."""
    asked = asks(approver, ledger.request(asking(max_scope=Scope.CALL), {}))
    await person.sees(QUESTION)
    person.types("maybe \x1b[2J\n")
    await person.sees("not understood: maybe <U+001B>[2J; answer once, no or advice\r\n")
    person.types("\n")
    await person.sees("\nanswer once, no or advice\r\n")
    person.types("n\n")
    assert (await asked).state == "denied"


@pytest.mark.parametrize(
    ("keys", "interrupted", "rows"),
    [
        *((keys, count, rows) for keys, count in (("\x03", 1), ("o\x03", 1), ("\x04", 0)) for rows in (200, 10)),
        *(("t\nuse b.txt\x03", 1, 200), ("t\n\x04", 0, 200)),
    ],
)
async def test_leaving_is_no_answer(
    ledger: SqliteLedger, clock: FixedClock, keys: str, interrupted: int, rows: int
) -> None:
    """At the question, on the pages before it and in advice after it: the request stays open, and Ctrl-C does what it
    does elsewhere.
    """
    person, seen = Person(rows=rows), list[list[object]]()
    approver = TerminalApprover(
        ledger, clock, person.stream, person.stream, interrupt=lambda: seen.append(person.mode())
    )
    before = person.mode()
    made = ledger.request(asking(diff="a line\n" * 20), {})
    asked = asks(approver, made)
    await person.sees("n: no --" if rows == 10 else QUESTION)
    person.types(keys)
    assert await asked == Reply("pending", Scope.NONE)
    assert ledger.find(made.id).state == "pending"
    assert seen == [before] * interrupted
    await person.sees(f"Not answered: {made.id} stays pending.")
    person.leaves()


async def test_a_run_that_ends_with_the_call_is_not_offered(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """A grant for the rest of it would be for nothing; one for other runs is not."""
    approver.last_call = True
    asked = asks(approver, ledger.request(asking(), {}))
    await person.sees("Answer (once, session, no, advice): ")
    person.types("r\n")
    await person.sees("not understood: r;")
    person.types("n\n")
    assert (await asked).state == "denied"


@pytest.mark.parametrize(
    ("most", "touches", "words"),
    [
        (Scope.CALL, (("fs.write", "a.txt"),), "once, no, advice"),
        (Scope.RUN, (("fs.write", "a.txt"),), "once, run, no, advice"),
        (Scope.SESSION, (("fs.write", "a.txt"),), "once, run, session, no, advice"),
        (Scope.ALWAYS, (("fs.write", "a.txt"),), "once, run, always, no, advice"),
        (Scope.SESSION, (), "once, no, advice"),
    ],
)
async def test_no_more_is_offered_than_may_be_granted(
    ledger: SqliteLedger,
    person: Person,
    approver: TerminalApprover,
    most: Scope,
    touches: tuple[tuple[str, str], ...],
    words: str,
) -> None:
    """A wider grant only where allowed and where what it covers can be named."""
    made = ledger.request(asking(max_scope=most, touches=touches), {})
    asked = asks(approver, made)
    await person.sees(f"Answer ({words}): ")
    assert ("this run: write_file a.txt" in person.seen) == ("run" in words)
    person.types("r\n")
    if "run" in words:
        assert (await asked).scope is Scope.RUN
        return
    await person.sees(QUESTION, times=2)
    person.types("n\n")
    assert (await asked).state == "denied"


@pytest.mark.parametrize("when", ["before", "during"])
async def test_a_terminal_that_hangs_up_answers_nothing(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover, when: str
) -> None:
    """Also when it is gone before the question is put."""
    made = ledger.request(asking(), {})
    if when == "before":
        person.hangs_up()
    asked = asks(approver, made)
    if when == "during":
        await person.sees(QUESTION)
        person.hangs_up()
    assert (await asked).state == "pending"
    assert ledger.find(made.id).state == "pending"


async def test_what_was_typed_before_the_question_is_no_answer(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """Keys pressed for something else approve nothing."""
    person.types("o\no\n")
    made = ledger.request(asking(), {})
    asked = asks(approver, made)
    await person.sees(QUESTION)
    person.types("n\n")
    assert (await asked).state == "denied"


@pytest.mark.parametrize("answer", [FOR_RUN, NO])
async def test_an_answer_from_elsewhere_ends_the_question(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover, answer: Reply
) -> None:
    """The person is told, the terminal is put back, and the next question can be asked."""
    before = person.mode()
    made = ledger.request(asking(), {})
    asked = asks(approver, made)
    await person.sees(QUESTION)
    ledger.answer(made.id, answer)
    assert (await asked).by == answer.by
    await person.sees(f"{made.id}: {answer.state} already by {answer.by}; that counts.")
    assert person.mode() == before
    again = asks(approver, ledger.request(asking("d2"), {}))
    await person.sees(QUESTION, times=2)
    person.types("o\n")
    assert (await again).state == "granted"


async def test_a_question_ends_when_the_request_expires(
    ledger: SqliteLedger, clock: FixedClock, person: Person, approver: TerminalApprover
) -> None:
    """Nobody can answer it any more, and the person is told."""
    made = ledger.request(asking(), {})
    asked = asks(approver, made)
    await person.sees(QUESTION)
    clock.advance(900)
    assert (await asked).state == "expired"
    await person.sees(f"{made.id}: expired already; that counts.")


async def test_questions_are_put_one_after_another(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """And one that is answered elsewhere while it queues is never shown."""
    made = [ledger.request(asking(str(number)), {}) for number in range(3)]
    asked = [asks(approver, request) for request in made]
    await person.sees(QUESTION)
    ledger.answer(made[1].id, NO)
    assert (await asked[1]).by == "bob"
    assert (person.seen.count(QUESTION), made[2].id in person.seen) == (1, False)
    person.types("o\n")
    assert (await asked[0]).state == "granted"
    await person.sees(QUESTION, times=2)
    person.types("n\n")
    assert (await asked[2]).state == "denied"
    assert [request.id in person.seen for request in made] == [True, False, True]


async def test_cancelling_refuses_and_puts_the_terminal_back(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """A question that nobody waits for any more cannot be answered with yes."""
    before = person.mode()
    made = ledger.request(asking(), {})
    asked = asks(approver, made)
    await person.sees(QUESTION)
    assert person.mode() != before
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert person.mode() == before
    assert ledger.find(made.id).state == "denied"


class Unshowable:
    """A value that breaks whoever looks at it."""

    def __repr__(self) -> str:
        raise RuntimeError("broken")


async def test_a_question_that_nobody_waits_for_any_more_is_withdrawn_and_stays_pending(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """Cancelling denies; the end of the patience does not. The person is told, and may still answer elsewhere."""
    made = ledger.request(asking(), {})
    before = person.mode()
    async with asyncio.timeout(20):
        asked = asyncio.create_task(approver.ask_within(made, 0.5))
        await person.sees(QUESTION)
        assert await asked == Reply("pending", Scope.NONE)
    await person.sees(f"{made.id} stays pending")
    assert person.mode() == before
    assert ledger.find(made.id).state == "pending"
    assert ledger.answer(made.id, YES) is not None


async def test_a_question_that_was_never_shown_in_time_stays_pending(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """Another one was on the screen; the next question is put all the same."""
    first, second = (ledger.request(asking(f"d{number}"), {}) for number in (1, 2))
    asked = asks(approver, first)
    await person.sees(QUESTION)
    assert (await approver.ask_within(second, 0.1)).state == "pending"
    person.types("y\n")
    assert (await asked).state == "granted"
    assert ledger.find(second.id).state == "pending"


async def test_a_crash_while_asking_is_a_refusal_on_record(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """The fault is raised too; nothing is granted and the terminal is put back."""
    before = person.mode()
    made = ledger.request(asking(), {})
    with pytest.raises(RuntimeError, match="broken"):
        await approver.ask(replace(made, params={"x": Unshowable()}))
    assert ledger.find(made.id).state == "denied"
    assert person.mode() == before


async def test_escape_sequences_in_a_request_never_reach_the_terminal(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """A call cannot clear the screen and paint a harmless question: only our own colours arrive."""
    paint = "\x1b[2J\x1b[H\x1b]0;title\x07\x9b1A\rAnswer (once): \x1b[8m\u202e"
    hostile: Request = asking(
        reason=paint,
        params={"path": paint, paint: paint + "\n" + paint},
        impact={"writes": [paint]},
        diff=f"--- a\n+++ b\n+{paint}\n",
        touches=(("fs.write", paint),),
    )
    asked = asks(approver, ledger.request(hostile, {}))
    await person.sees("\nAnswer (")
    person.types("n\n")
    await asked
    left = re.sub(r"\x1b\[[0-9;]*m", "", person.seen).replace("\r\n", "\n").replace("\n", "")
    assert left.isprintable()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", person.seen)
    assert len(re.findall(r"^Answer \(", plain, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("keys", "state"), [("\n", "granted"), ("e\n", "granted"), ("n\n", "denied"), ("\x04", "pending")]
)
async def test_a_long_request_is_shown_page_by_page_and_in_full(
    ledger: SqliteLedger, clock: FixedClock, keys: str, state: str
) -> None:
    """Nothing is asked before all was shown; refusing is possible on the way."""
    person = Person(columns=60, rows=24)
    approver = TerminalApprover(ledger, clock, person.stream, person.stream)
    diff = "".join(f"+line {number} {'x' * 80}.\n" for number in range(50))
    asked = asks(approver, ledger.request(asking(diff=diff), {}))
    pages = 0
    while not asked.done() and QUESTION not in person.seen:
        pages += 1
        await person.sees("; Enter: go on", times=pages)
        assert QUESTION not in person.seen
        person.types(keys)
        if keys != "\n":
            break
        left = int(re.findall(r"-- (\d+) more line", person.seen)[-1])
        if left <= 22:
            break
    if state == "granted":
        await person.sees(QUESTION)
        shown = re.sub(r"\x1b\[[0-9;]*m", "", person.seen)
        assert [f"+line {number} " in shown for number in range(50)] == [True] * 50
        assert shown.count("x") >= 50 * 80
        person.types("o\n")
    assert (await asked).state == state
    person.leaves()


async def test_an_answer_that_is_typed_before_the_end_was_seen_is_none(ledger: SqliteLedger, clock: FixedClock) -> None:
    """Typed ahead on the first page, a yes only turns pages; the answer is what is typed after the last one."""
    person = Person(columns=60, rows=24)
    approver = TerminalApprover(ledger, clock, person.stream, person.stream)
    diff = "".join(f"+line {number}\n" for number in range(60))
    asked = asks(approver, ledger.request(asking(diff=diff), {}))
    await person.sees("more lines; Enter: go on")
    person.types("y\ny\ny\ny\ny\ny\ny\ny\n")
    await person.sees(QUESTION)
    assert not (await asyncio.wait((asked,), timeout=0.3))[0]
    assert "+line 59" in person.seen
    person.types("n\n")
    assert (await asked).state == "denied"
    person.leaves()


async def test_a_slow_terminal_does_not_hold_up_the_event_loop(
    ledger: SqliteLedger, person: Person, approver: TerminalApprover
) -> None:
    """While it takes nothing more, other work goes on; then it gets all of it."""
    made = ledger.request(asking(diff="".join(f"+{'y' * 999}\n" for _ in range(300))), {})
    asked = asks(approver, made)
    await person.sees(" more lines; ")
    person.types("e\n")
    for _ in range(100):
        await asyncio.sleep(0)
    assert person.seen.count("y") < 299_000
    await person.sees(QUESTION)
    assert person.seen.count("y") >= 299_700
    person.types("n\n")
    assert (await asked).state == "denied"


# ── the terminal a process belongs to ────────────────────────────────────────────────────────

PROGRAM = """
import asyncio, fcntl, sys, termios
from handrail.approvals.terminal import TerminalApprover
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
if len(sys.argv) > 3:
    fcntl.ioctl(int(sys.argv[3]), termios.TIOCSCTTY, 0)
clock = FixedClock(float(sys.argv[2]))
ledger = SqliteLedger(sys.argv[1], clock)
reply = asyncio.run(TerminalApprover(ledger, clock).ask(ledger.pending(clock.now())[0]))
print(reply.state, reply.scope.word)
"""


def program(ledger: SqliteLedger, *handles: int) -> subprocess.Popen[str]:
    """Ask in a process of its own session, with nothing but pipes for streams."""
    command = [sys.executable, "-c", PROGRAM, ledger.path, str(NOW), *map(str, handles)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, start_new_session=True, pass_fds=handles, text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def test_without_a_terminal_the_request_stays_open(ledger: SqliteLedger) -> None:
    """Pipes are not a person."""
    made = ledger.request(asking(), {})
    with program(ledger) as process:
        assert process.communicate(timeout=20) == ("pending none\n", "")
    assert ledger.find(made.id).state == "pending"


@pytest.mark.parametrize(("typed", "said"), [("r\n", "granted run\n"), ("\x04", "pending none\n")])
async def test_the_question_goes_to_the_terminal_of_the_process_whatever_its_streams_are(
    ledger: SqliteLedger, person: Person, typed: str, said: str
) -> None:
    """Redirected output cannot hide it, and what was typed ends it."""
    ledger.request(asking(), {})
    with program(ledger, person.stream.fileno()) as process:
        await person.sees(QUESTION)
        person.types(typed)
        assert await asyncio.to_thread(process.communicate, timeout=20) == (said, "")

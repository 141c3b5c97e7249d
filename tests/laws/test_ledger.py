"""What the ledger promises of requests, answers and grants."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from approving import FOR_RUN, NO, NOW, YES, asking, granted
from handrail.errors import Misuse
from handrail.ports import Answered, Recorded, Reply
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
from handrail.words import Grant, Scope

# ── requests ────────────────────────────────────────────────────────────────────────────────────


def test_a_request_comes_back_whole_with_an_id_to_type_and_a_way_to_replay_it(ledger: SqliteLedger) -> None:
    """Nothing of a request is lost on the way through the file."""
    made = ledger.request(asking(diff="+\udc80\x00ü"), {"path": "a.txt"})
    replay = {
        "command": f"handrail call --approval {made.id}",
        "request": {"tool": "write_file", "approval": made.id},
    }
    assert re.fullmatch("apr_[a-z2-7]{10}", made.id)
    assert made == asking(id=made.id, diff="+\udc80\x00ü", replay=replay)
    assert ledger.find(made.id) == Recorded(made, "pending", None)
    assert ledger.pending(NOW) == (made,)


@pytest.mark.parametrize("answer", [None, YES], ids=["pending", "granted"])
def test_a_repeated_call_gives_the_request_that_is_open(ledger: SqliteLedger, answer: Reply | None) -> None:
    """Asking again neither prompts anew nor loses a grant that was given meanwhile."""
    first = ledger.request(asking(), {})
    if answer is not None:
        ledger.answer(first.id, answer)
    assert ledger.request(asking(call_id="c2"), {}) == first
    assert ledger.request(asking("d2"), {}).id != first.id


@pytest.mark.parametrize("end", ["denied", "expired", "used", "revoked"])
def test_a_closed_request_is_asked_anew(ledger: SqliteLedger, clock: FixedClock, end: str) -> None:
    """What was refused, ran out, was used or was taken back is a new question."""
    first = ledger.request(asking(), {})
    grant = ledger.answer(first.id, NO if end == "denied" else YES) if end != "expired" else None
    if end == "used":
        assert grant is not None
        assert ledger.use(grant, NOW)
    if end == "revoked":
        assert ledger.revoke(first.id)
    clock.advance(901 if end == "expired" else 0)
    assert ledger.request(asking(now=clock.now()), {}).id != first.id


def test_the_first_answer_counts_and_the_second_is_told_who_gave_it(ledger: SqliteLedger) -> None:
    """A late yes does not lift an earlier no."""
    made = ledger.request(asking(), {})
    assert ledger.answer(made.id, NO) is None
    with pytest.raises(Answered) as late:
        ledger.answer(made.id, YES)
    assert (late.value.request_id, late.value.state, late.value.by, late.value.at) == (made.id, "denied", "bob", NOW)
    assert ledger.find(made.id) == Recorded(made, "denied", replace(NO, scope=Scope.NONE, at=NOW))
    assert ledger.granted("d1", NOW) is None


def test_an_answer_at_the_moment_of_expiry_is_too_late(ledger: SqliteLedger, clock: FixedClock) -> None:
    """A request lives strictly before its expiry."""
    made = ledger.request(asking(), {})
    clock.advance(900)
    assert ledger.find(made.id).state == "expired"
    with pytest.raises(Answered) as late:
        ledger.answer(made.id, YES)
    assert (late.value.state, late.value.by, late.value.at) == ("expired", "", NOW + 900)
    assert ledger.pending(clock.now()) == ()


@pytest.mark.parametrize(
    "reply",
    [
        *(Reply("pending"), Reply("expired"), Reply("yes"), Reply("granted", uses=0), Reply("granted", uses=2**63)),
        *(Reply("granted", expires=end) for end in (float("nan"), float("inf"), float("-inf"), 1e300)),
    ],
)
def test_only_yes_and_no_are_answers(ledger: SqliteLedger, reply: Reply) -> None:
    """A state that no person can choose is refused and leaves the request open."""
    made = ledger.request(asking(), {})
    with pytest.raises(Misuse):
        ledger.answer(made.id, reply)
    assert ledger.find(made.id).state == "pending"


def test_an_unknown_id_is_a_key_error_everywhere(ledger: SqliteLedger) -> None:
    """Before and after the file exists."""
    for _ in range(2):
        for act in (ledger.find, ledger.args, ledger.revoke, lambda name: ledger.answer(name, YES)):
            with pytest.raises(KeyError):
                act("apr_none")
        ledger.request(asking(), {})


# ── grants ──────────────────────────────────────────────────────────────────────────────────────


def test_a_grant_for_the_call_is_used_once_and_matches_only_its_digest(ledger: SqliteLedger) -> None:
    """One yes is one call."""
    grant = granted(ledger, asking())
    assert grant == Grant(
        grant.id,
        grant.request,
        Scope.CALL,
        "write_file",
        "d1",
        (("fs.write", "a.txt"),),
        "run-1",
        NOW + 900,
        1,
        "ann",
        NOW,
    )
    assert ledger.granted("d1", NOW) == grant
    assert (ledger.granted("d2", NOW), ledger.grants("run-1", NOW, "/home/a")) == (None, ())
    assert [ledger.use(grant, NOW) for _ in range(3)] == [True, False, False]
    assert ledger.granted("d1", NOW) is None
    assert ledger.find(grant.request).state == "used"


@pytest.mark.parametrize(
    ("asked", "most", "given"),
    [
        (Scope.SESSION, Scope.RUN, Scope.RUN),
        (Scope.RUN, Scope.CALL, Scope.CALL),
        (Scope.SESSION, Scope.SESSION, Scope.SESSION),
        (Scope.CALL, Scope.SESSION, Scope.CALL),
        (Scope.NONE, Scope.RUN, Scope.CALL),
        (Scope.SESSION, Scope.NONE, Scope.CALL),
    ],
)
def test_no_answer_gives_more_than_the_request_allows(
    ledger: SqliteLedger, asked: Scope, most: Scope, given: Scope
) -> None:
    """The scope is narrowed, and both the grant and the record say to what."""
    grant = granted(ledger, asking(max_scope=most), Reply("granted", asked, uses=3))
    reply = ledger.find(grant.request).reply
    assert reply is not None
    assert (grant.scope, reply.scope) == (given, given)
    assert grant.uses_left == 3


def test_wider_targets_come_only_from_what_the_person_confirmed(ledger: SqliteLedger) -> None:
    """Without patterns a wider grant covers the request's own targets; for the call alone patterns mean nothing."""
    patterns = (("fs.write", "docs/**"),)
    assert granted(ledger, asking("1"), FOR_RUN).touches == (("fs.write", "a.txt"),)
    assert granted(ledger, asking("2"), replace(FOR_RUN, patterns=patterns)).touches == patterns
    assert granted(ledger, asking("3"), replace(YES, patterns=patterns)).touches == (("fs.write", "a.txt"),)


@pytest.mark.parametrize(
    ("scope", "run_id", "workspace", "in_force"),
    [
        (Scope.RUN, "run-1", "/home/a", True),
        (Scope.RUN, "run-1", "", True),
        (Scope.RUN, "run-2", "/home/a", False),
        (Scope.RUN, "run-1", "/home/b", False),
        (Scope.SESSION, "run-1", "/home/a", True),
        (Scope.SESSION, "run-2", "/home/a", True),
        (Scope.SESSION, "run-1", "/home/b", False),
        (Scope.SESSION, "run-1", "", False),
        (Scope.CALL, "run-1", "/home/a", False),
    ],
)
def test_a_wider_grant_is_in_force_where_it_was_given(
    ledger: SqliteLedger, scope: Scope, run_id: str, workspace: str, in_force: bool
) -> None:
    """A run's grant stays in its run, a session's in its workspace."""
    grant = granted(ledger, asking(), Reply("granted", scope))
    assert ledger.grants(run_id, NOW, workspace) == ((grant,) if in_force else ())


def test_a_session_grant_without_a_workspace_is_in_force_nowhere(ledger: SqliteLedger) -> None:
    """No name is not a name that two workspaces can share."""
    granted(ledger, asking(workspace=""), Reply("granted", Scope.SESSION))
    assert ledger.grants("run-1", NOW, "") == ()


def test_a_wider_grant_lets_the_exact_call_run_once_from_another_run(ledger: SqliteLedger) -> None:
    """A replay makes its own run; after that one use the digest lifts nothing outside the grant's run."""
    grant = granted(ledger, asking(), FOR_RUN)
    assert ledger.granted("d1", NOW) == grant
    assert ledger.use(grant, NOW)
    assert ledger.granted("d1", NOW) is None
    assert ledger.grants("run-1", NOW, "/home/a") == (grant,)
    assert [ledger.use(grant, NOW) for _ in range(3)] == [True, True, True]


def test_counted_uses_run_out(ledger: SqliteLedger) -> None:
    """A grant for two uses is used twice."""
    grant = granted(ledger, asking(), replace(FOR_RUN, uses=2))
    assert [ledger.use(grant, NOW) for _ in range(3)] == [True, True, False]
    assert ledger.grants("run-1", NOW, "/home/a") == ()


@pytest.mark.parametrize(
    ("reply", "lasts"),
    [(YES, 900), (FOR_RUN, 8 * 3600), (replace(FOR_RUN, expires=NOW + 5), 5), (replace(YES, expires=NOW + 5), 5)],
)
def test_every_grant_ends(ledger: SqliteLedger, clock: FixedClock, reply: Reply, lasts: int) -> None:
    """At its expiry a grant is neither found nor usable, and its request is closed."""
    grant = granted(ledger, asking(), reply)
    clock.advance(lasts - 1)
    assert ledger.granted("d1", clock.now()) == grant
    clock.advance(1)
    assert ledger.granted("d1", clock.now()) is None
    assert ledger.grants("run-1", clock.now(), "/home/a") == ()
    assert not ledger.use(grant, clock.now())
    assert [record.state for record in ledger.list()] == ["expired"]


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("by_request", [False, True])
def test_a_grant_taken_back_lifts_nothing(ledger: SqliteLedger, used: bool, by_request: bool) -> None:
    """Also one in use, and also when the holder still has it in hand."""
    grant = granted(ledger, asking(), FOR_RUN)
    if used:
        assert ledger.use(grant, NOW)
    assert ledger.revoke(grant.request if by_request else grant.id, by="eve")
    assert not ledger.use(grant, NOW)
    assert (ledger.granted("d1", NOW), ledger.grants("run-1", NOW, "/home/a")) == (None, ())
    assert ledger.find(grant.request).state == ("used" if used else "denied")
    assert not ledger.revoke(grant.id)


def test_list_tells_requests_by_state(ledger: SqliteLedger) -> None:
    """Oldest first; without a state, all of them."""
    made = [ledger.request(asking(str(number), NOW + number), {}) for number in range(3)]
    ledger.answer(made[1].id, NO)
    assert [record.request for record in ledger.list()] == made
    assert [record.request for record in ledger.list(["pending"])] == [made[0], made[2]]
    assert [record.state for record in ledger.list(["denied", "used"])] == ["denied"]

"""What a grant covers, and what it does not."""

from __future__ import annotations

from handrail.policy import decide
from laws.calls import ALLOW, ASK, HIGH, grant, reach, rule, world


def test_a_grant_to_ask_a_host_is_none_to_send_it_anything() -> None:
    """The other way round it covers both."""
    asks, sends = (reach("example.org:443", unsafe=unsafe) for unsafe in (False, True))
    rules = (rule(ASK, "net.connect", "*"),)
    covered = {
        (given, kind): decide((touch,), world(HIGH, *rules, allowed_hosts=("example.org",), grants=(held,))).decision
        for given in ("net.connect", "net.connect.unsafe")
        for kind, touch in (("asks", asks), ("sends", sends))
        for held in [grant(touches=((given, "example.org:443"),))]
    }
    assert covered == {
        ("net.connect", "asks"): ALLOW,
        ("net.connect", "sends"): ASK,
        ("net.connect.unsafe", "asks"): ALLOW,
        ("net.connect.unsafe", "sends"): ALLOW,
    }

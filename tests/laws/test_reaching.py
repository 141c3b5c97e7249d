"""Which commands reach out, and where."""

from __future__ import annotations

import pytest

from handrail.policy.reaching import hosts_of, reaches_out


@pytest.mark.parametrize(
    ("line", "out", "hosts"),
    [
        ("curl https://example.org/x", True, ["example.org:443"]),
        ("/usr/bin/wget http://u:p@Example.org:8080/x?y", True, ["example.org:8080"]),
        ("git -C d clone https://a.example/b.git ssh://git@b.example/c", True, ["a.example:443", "b.example:22"]),
        ("git push", True, []),
        ("pip install requests", True, []),
        ("npm ci", True, []),
        ("curl http://[::1]:8000/", True, ["::1:8000"]),
        ("curl file:///etc/passwd", True, []),
        ("git status", False, []),
        ("npm test", False, []),
        ("ls", False, []),
        ("", False, []),
    ],
)
def test_a_command_is_known_by_its_program_and_its_addresses(line: str, out: bool, hosts: list[str]) -> None:
    """By its first words, whatever the path of the program; hosts come from addresses alone."""
    assert (reaches_out(line.split()), hosts_of(line.split())) == (out, hosts)

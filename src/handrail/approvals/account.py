"""The account that answers: from the system's own table, never from the environment, which anybody can set."""

from __future__ import annotations

import os


def account() -> str:
    """Give the name of the account that this process runs under; its number where it has no name."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"

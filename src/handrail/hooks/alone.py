"""One hook decided in its own process: where there is no daemon, or none comes up."""

from __future__ import annotations

import os
import sys

# Nothing for Handrail comes from a folder that no installer made; said before anything else is loaded.
from handrail.own_imports import OWN_IMPORTS

OWN_IMPORTS.doubt_path()

from handrail.hooks import client  # noqa: E402


def decide(agent: str, event: str, data: bytes, seconds: float) -> bytes:
    """Answer one payload, and let its run go again."""
    import asyncio

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    return asyncio.run(_decide(agent, event, data, seconds))


async def _decide(agent: str, event: str, data: bytes, seconds: float) -> bytes:
    from handrail.hooks.answering import answer
    from handrail.hooks.sessions import Sessions

    sessions = Sessions()
    try:
        return await answer(sessions, agent, data, event, seconds, os.getpid())
    finally:
        await sessions.close()


def main(words: list[str]) -> None:
    """Answer the payload on the standard input; what fails is denied."""
    import gc
    import logging

    gc.disable()  # the process ends before there is garbage worth looking for
    logging.getLogger("handrail").setLevel(logging.CRITICAL)
    agent, event, seconds = words[0], words[1] if words[1] != "-" else "", float(words[2])
    data = b""
    try:
        data = client.read_input()
        told = decide(agent, event, data, seconds)
    except BaseException as error:  # noqa: BLE001  whatever happens, the agent must be told no
        reason = f"{client.UNREACHED} ({type(error).__name__})"
        told = client.denial(agent, event or client.guess_event(agent, data), reason)
    client.put(told)


if __name__ == "__main__":
    main(sys.argv[1:])

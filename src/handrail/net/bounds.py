"""How much one request may take, as settings say it."""

from __future__ import annotations

from handrail.words import noun

MIB = 1024 * 1024
MAX_REDIRECTS = 5


@noun
class NetBounds:
    """The bounds of every request of a run."""

    max_bytes: int = 5 * MIB  # of a body, decompressed
    max_download_bytes: int = 100 * MIB
    timeout_seconds: float = 15.0
    max_retries: int = 2
    retry_post: bool = False
    rate_per_minute: int = 0  # of one host; 0: no bound
    max_connections: int = 16
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    spill_large: bool = True
    user_agent: str = "handrail"
    ca_file: str | None = None

"""What can go wrong with a request, in the words of problems."""

from __future__ import annotations

import os

import aiohttp

from handrail.errors import Code, Problem
from handrail.net.bodies import Cut
from handrail.net.gate import Unresolved, not_public
from handrail.net.transport import Unvetted
from handrail.urls import Url

Failures = (aiohttp.ClientError, OSError, Cut)


def problem_of(error: Exception, url: Url) -> tuple[Problem, bool]:
    """The problem of a failed request, and whether trying again could help."""
    host = url.host
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _upstream(host, f"{host} has no certificate for its name: {error.certificate_error}"), False
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _upstream(host, f"{host} speaks no TLS that can be trusted: {error.os_error}"), False
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, Unvetted):
        return not_public(host, host, str(cause)), False
    if isinstance(cause, Unresolved):
        return _upstream(host, str(cause)), True
    if isinstance(error, aiohttp.ClientConnectorError):
        return _upstream(host, f"{url.authority} cannot be reached: {_reason(error.os_error)}"), True
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return _upstream(host, f"{host} closed the connection without an answer"), True
    if isinstance(error, aiohttp.ClientResponseError):
        return _malformed(error, host), False
    if isinstance(error, (aiohttp.ClientPayloadError, Cut)):
        return _upstream(host, f"The body from {host} is not whole: {_missing(error)}"), True
    return _upstream(host, f"{host} failed: {_first_line(error)}"), True


def _reason(error: OSError) -> str:
    """What the system says; the words of the client's library beside it tell a person nothing."""
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error) or "it was closed"


def _missing(error: Exception) -> str:
    """Why a body ended early."""
    text = _first_line(error)
    if "ContentLengthError" in text:
        return "the connection was closed before all of the length that was said had come"
    if "TransferEncodingError" in text:
        return "the connection was closed before the last of its parts had come"
    return text


def _malformed(error: aiohttp.ClientResponseError, host: str) -> Problem:
    text = _first_line(error.message)
    if "Got more than" in text or "Too many" in text:
        return Problem(Code.HTTP_TOO_LARGE, f"The headers from {host} are too large.", host=host)
    return _upstream(host, f"{host} does not answer in HTTP: {text.rstrip(':')}")


def _upstream(host: str, text: str) -> Problem:
    return Problem(Code.UPSTREAM_ERROR, f"{text.rstrip('.')}.", host=host)


def _first_line(error: object) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    # What a host sent may be quoted in it, a credential too: it is told whole, so that it can be hidden, or not at all.
    return text if len(text) <= 300 else text.partition(":")[0][:300]

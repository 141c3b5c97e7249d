"""Reading a journal without owning the run: its events, whether its chain holds, heads kept elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Code, RunFault
from handrail.ports import Progress
from handrail.store import checkpoint
from handrail.store.chain import Break, Mark, batches, last_whole, open_events, seq_of, walk
from handrail.store.private import read_private, write_atomic


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a journal is what was written."""

    ok: bool  # nothing was changed, as far as can be told
    events: int  # that fit the chain
    head: str  # "seq:sha256" of the last of them
    problem: str = ""  # what is wrong; also said of a torn tail, which is no tampering
    line: int | None = None  # where
    torn_bytes: int = 0  # left by a crash behind the last whole line


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the events one after the other, up to a torn tail; whether they can be believed, `verify` tells."""
    fd = _open(folder)
    try:
        for lines, _ in batches(fd, 0):
            for line in lines:
                try:
                    event = orjson.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event
    finally:
        os.close(fd)


def verify(folder: Path, head: str | None = None, *, progress: Progress | None = None) -> Verification:
    """Find any line that was changed, removed or inserted; with a head kept earlier also what was cut or rewritten.

    `head` is what `head_of` gave at some earlier time, or the bare sha256 of a line. The run's own checkpoint vouches
    for lines, too: what it knows and the journal lacks is lost.
    """
    seq, digest = _parse_head(head)
    met = [0] if digest == Mark().head else []
    known = checkpoint.load(folder)  # before the journal: a run that goes on is ahead of it, never behind
    vouched = Mark() if known is None else known.mark
    heads: list[str] = []

    def visit(event: dict[str, Any], line_hash: str) -> None:
        if line_hash == digest:
            met.append(event["seq"])
        if event["seq"] == vouched.seq:
            heads.append(line_hash)

    fd = _open(folder)
    try:
        mark, broken = walk(fd, Mark(), None, visit if digest or vouched.seq else None, progress)
    finally:
        os.close(fd)
    if broken is not None and not broken.torn:
        return Verification(False, mark.seq, mark.text, broken.reason, mark.seq + 1)
    if digest and (not met or seq not in (None, met[0])):
        return _missing_head(mark, seq, digest)
    if vouched.seq and heads != [vouched.head]:
        return _contradicted(mark, vouched)
    return _whole(mark, broken)


def _contradicted(mark: Mark, vouched: Mark) -> Verification:
    """A checkpoint is written only behind durable lines, so a journal that lacks them was cut or rewritten."""
    if vouched.seq > mark.seq:
        problem = f"the checkpoint knows {vouched.seq} events, but the journal ends after {mark.seq}: events were lost"
        return Verification(False, mark.seq, mark.text, problem, mark.seq + 1)
    problem = f"line {vouched.seq} is not the one that the checkpoint knows: the journal was rewritten"
    return Verification(False, mark.seq, mark.text, problem, vouched.seq)


def _whole(mark: Mark, torn: Break | None) -> Verification:
    if torn is None:
        return Verification(True, mark.seq, mark.text)
    return Verification(
        True, mark.seq, mark.text, f"a crash left a torn end: {torn.reason}", mark.seq + 1, torn_bytes=torn.bytes
    )


def _missing_head(mark: Mark, seq: int | None, digest: str) -> Verification:
    if seq is not None and seq > mark.seq:
        problem = f"the kept head is line {seq}, but the journal ends at line {mark.seq}: lines were cut off"
        return Verification(False, mark.seq, mark.text, problem, mark.seq + 1)
    if seq is not None:
        problem = f"line {seq} is not the one whose head was kept: the journal was rewritten"
        return Verification(False, mark.seq, mark.text, problem, seq)
    problem = f"no line has the kept head {digest[:12]}…: the journal was cut or rewritten"
    return Verification(False, mark.seq, mark.text, problem)


def _parse_head(head: str | None) -> tuple[int | None, str]:
    if head is None:
        return None, ""
    match = re.fullmatch(r"(?:([0-9]{1,18}):)?([0-9a-f]{64})", head.strip().lower())
    if match is None:
        raise RunFault(Code.INVALID_ARGS, f"{head!r} is not a head: give what `runs verify` printed, seq:sha256.")
    return None if match[1] is None else int(match[1]), match[2]


def head_of(folder: Path) -> str:
    """Give the head of a journal as it is now, to keep elsewhere; it is cheap and believes what is there."""
    fd = _open(folder)
    try:
        line = last_whole(fd)
    finally:
        os.close(fd)
    return Mark().text if line is None else Mark(seq_of(line), sha256(line).hexdigest()).text


def keep_head(folder: Path, target: Path) -> str:
    """Keep the head in a file elsewhere; refused when the journal does not hold the one that was kept before."""
    if target.exists():
        found = check_head(folder, target)
        if not found.ok:
            raise RunFault(Code.JOURNAL_UNAVAILABLE, f"The head in {target} stays as it is: {found.problem}.")
    head = head_of(folder)
    write_atomic(target, [orjson.dumps({"run": folder.name, "head": head}), b"\n"])
    return head


def check_head(folder: Path, target: Path) -> Verification:
    """Verify a journal against the head that `keep_head` put into a file."""
    try:
        kept = orjson.loads(read_private(target))
        head, run = kept["head"], kept["run"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "holds no head"
        advice = "Name the file that `handrail runs verify --keep FILE` wrote for this run"
        raise RunFault(Code.NOT_FOUND, f"{target} {why}. {advice}.") from error
    if run != folder.name:
        raise RunFault(Code.INVALID_ARGS, f"{target} holds the head of run {run}, not of {folder.name}.")
    return verify(folder, head)


def _open(folder: Path) -> int:
    try:
        return open_events(folder)
    except OSError as error:
        raise RunFault(
            Code.NOT_FOUND, f"There is no journal to read in {folder}: {error.strerror}.", errno=error.errno
        ) from error

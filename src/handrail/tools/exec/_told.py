"""What is told of a program that ran, whoever started it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from handrail.errors import Code, Problem
from handrail.output.redact import MARK
from handrail.ports import Captured, Finished
from handrail.words import Answer, Evidence, Ref, Truncation

_SHORT = 200  # characters of a command that a summary repeats


@dataclass(frozen=True, slots=True)
class Stream:
    """Where the whole of a stream is, and how much that is."""

    bytes: int
    lines: int
    cut: bool
    ref: str | None


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended, what it wrote and what it changed."""

    exit_code: int | None
    signal: str | None
    stdout: str
    stderr: str
    timed_out: bool
    cwd: str
    seconds: float
    files_changed: list[str]
    stdout_info: Stream | None = None
    stderr_info: Stream | None = None
    diff: str = ""  # of a reviewed change
    not_kept: str = ""  # which changes were not kept, and why
    job: str | None = None  # of a program in the background
    pid: int | None = None


def outcome_of(done: Finished, command: str, cwd: str, limit_seconds: float, fine: frozenset[int]) -> Answer[Any]:
    """The answer for a program that ended well; raises TIMEOUT or EXIT_NONZERO, with all it wrote, for another."""
    answer = _answer(done, command, cwd)
    if done.timed_out or done.flooded or done.overfull or done.exit_code not in fine:
        raise _problem(done, command, limit_seconds, answer)
    return answer


def short(command: str) -> str:
    """A command as a summary names it."""
    line = command.strip().partition("\n")[0]
    return line if len(line) <= _SHORT and line == command.strip() else f"{line[:_SHORT]} …"


def _answer(done: Finished, command: str, cwd: str) -> Answer[ProgramResult]:
    result = ProgramResult(
        exit_code=done.exit_code,
        signal=done.signal,
        stdout=done.stdout.text,
        stderr=done.stderr.text,
        timed_out=done.timed_out,
        cwd=cwd,
        seconds=done.seconds,
        files_changed=list(done.changed),
        stdout_info=_info(done.stdout),
        stderr_info=_info(done.stderr),
        diff=done.diff,
        not_kept=done.unkept,
    )
    said = f"{_ended(done)} in {done.seconds:g} s{_changed(done)}"
    evidence = Evidence("process", short(command), f"{_ended(done)}, {done.confined}".rstrip(", "))
    return Answer(
        result,
        said,
        _first_line(done, command) + _content(done, said),
        (evidence,),
        _truncation(done),
        _refs(done),
        (command,),
        done.warnings,
        done.exit_code,
    )


def _changed(done: Finished) -> str:
    """Say what was changed; of caches that are made again only how many files."""
    count = len(done.changed) - done.caches
    names = done.changed[: min(count, 5)]
    told = f"; {count} changed: {', '.join(names)}{' …' if count > 5 else ''}" if count else ""
    return f"{told}; {done.caches} in caches" if done.caches else told


def _info(stream: Captured) -> Stream:
    return Stream(stream.bytes, stream.lines, stream.cut, stream.ref.ref if stream.ref else None)


def _ended(done: Finished) -> str:
    if done.timed_out:
        return "timed out"
    if done.flooded:
        return "ended for writing too much"
    if done.overfull:
        return "ended for filling its scratch folder"
    return f"exit code {done.exit_code}" if done.exit_code is not None else f"ended by {done.signal}"


def _content(done: Finished, said: str) -> str:
    """What a model reads: the output first, how it ended last."""
    out, err = done.stdout.text, done.stderr.text
    parts = [_closed(out)] if out else []
    if err:
        parts.append(f"[stderr]\n{_closed(err)}")
    if done.diff:
        parts.append(f"[kept changes]\n{_closed(done.diff)}")
    shown = "".join(parts)
    if (done.stdout.hidden or done.stderr.hidden) and MARK not in shown:
        said += f"; in what is not shown, secrets are hidden as {MARK}"
    return f"{shown}[{said}]"


def _first_line(done: Finished, command: str) -> str:
    """Say first what kept the command from a host, and which of its changes were not kept."""
    held = f"`{short(command)}` {done.unanswered}\n" if done.unanswered else ""
    return f"{held}{done.unkept}\n" if done.unkept else held


def _closed(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _refs(done: Finished) -> tuple[Ref, ...]:
    return tuple(stream.ref for stream in (done.stdout, done.stderr) if stream.ref is not None)


def _truncation(done: Finished) -> Truncation | None:
    for stream in (done.stdout, done.stderr):
        if stream.cut:
            ref = stream.ref.ref if stream.ref is not None else None
            if stream.by_lines:
                return Truncation("lines", max(0, stream.text.count("\n") - 1), stream.lines, ref=ref)
            return Truncation("bytes", min(len(stream.text.encode()), stream.bytes), stream.bytes, ref=ref)
    return None


def _problem(done: Finished, command: str, limit_seconds: float, answer: Answer[ProgramResult]) -> Problem:
    """Say how it failed and keep what it wrote."""
    if done.timed_out:
        code, text = Code.TIMEOUT, f"`{short(command)}` did not end within {limit_seconds:g} s; all it started is gone."
    elif done.flooded:
        code, text = (
            Code.EXIT_NONZERO,
            f"`{short(command)}` was ended: it wrote more than exec.kill_output_bytes. Write less, or into a file.",
        )
    elif done.overfull:
        why = "its scratch folder held more than exec.max_scratch_bytes, or its changes more than exec.max_layer_bytes"
        code, text = Code.EXIT_NONZERO, f"`{short(command)}` was ended: {why}. Write less, or into the workspace."
    elif done.exit_code is None:
        code, text = Code.EXIT_NONZERO, f"`{short(command)}` was ended by {done.signal}."
    else:
        code, text = Code.EXIT_NONZERO, f"`{short(command)}` ended with exit code {done.exit_code}."
    if done.unanswered:
        text = f"`{short(command)}` {done.unanswered} {text}"
    elif done.reasons:
        reason = done.reasons[0]
        text = f"{reason[:1].upper()}{reason[1:].rstrip('.')}. {text}"
    if done.unkept:
        text = f"{done.unkept} {text}"
    problem = Problem(
        code,
        text,
        exit_code=done.exit_code,
        signal=done.signal,
        timed_out=done.timed_out,
        stdout=done.stdout.text,
        stderr=done.stderr.text,
        files_changed=list(done.changed),
        refs=[ref.ref for ref in _refs(done)],
    )
    problem.answer = answer
    return problem

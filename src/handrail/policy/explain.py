"""Why a call is judged as it is, and the smallest change that would have it judged otherwise. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handrail.policy import decide
from handrail.policy.edits import Case, Edit, edits
from handrail.policy.world import World
from handrail.words import Decision, Finding, How, Touch, Verdict

MAX_TRIES = 400  # decisions that a search may take before it goes straight on with the first change that is there


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that would have the call allowed, or at least asked for."""

    text: str
    setting: str
    toml: str
    flips_to: Decision
    edits: tuple[Edit, ...]

    def apply(self, case: Case) -> Case:
        """Give the call's touches and its world after the change."""
        for edit in self.edits:
            case = edit.apply(case)
        return case


@dataclass(frozen=True, slots=True)
class _Try:
    """Some changes, and how the call is judged after them."""

    edits: tuple[Edit, ...]
    case: Case
    verdict: Verdict

    def further(self) -> Iterator[_Try]:
        """Each change that could lift what is still in the way."""
        against = [item for item in self.verdict.findings if item.decision is self.verdict.decision]
        if any(_lifted_by_nothing(item) for item in against):
            return
        for edit in edits(self.case, against):
            case = edit.apply(self.case)
            yield _Try((*self.edits, edit), case, decide(*case))


def smallest_change(touches: Sequence[Touch], world: World, verdict: Verdict) -> Suggestion | None:
    """Find the fewest changes that make a verdict milder; None where no setting does.

    Each is tried by deciding again, so what is suggested is what happens.
    """
    if verdict.decision is Decision.ALLOW or not touches:
        return None
    found = _search(_Try((), (tuple(touches), world), verdict))
    return suggestion(found.edits, found.verdict.decision) if found is not None else None


def _search(start: _Try) -> _Try | None:
    """Look breadth first; when that grows too wide, go on with the first change of each step."""
    level, tries = [start], 0
    while level and tries <= MAX_TRIES:
        following = []
        for here in level:
            for further in here.further():
                if further.verdict.decision < start.verdict.decision:
                    return further
                following.append(further)
                tries += 1
        level = following
    return _straight_on(start) if level else None


def _straight_on(here: _Try) -> _Try | None:
    wanted = here.verdict.decision
    for _ in range(len(here.case[0]) + len(here.verdict.findings)):
        further = next(here.further(), None)
        if further is None or further.verdict.decision < wanted:
            return further
        here = further
    return None


def suggestion(chosen: Sequence[Edit], flips_to: Decision) -> Suggestion:
    """Put single changes together to one that is told as a whole."""
    return Suggestion(
        text="; ".join(edit.text for edit in chosen),
        setting=", ".join(dict.fromkeys(edit.setting for edit in chosen)),
        toml=_joined([edit.toml for edit in chosen]),
        flips_to=flips_to,
        edits=tuple(chosen),
    )


def _joined(texts: Sequence[str]) -> str:
    """Put changes together as tables, which may stand below any other; a later value of a key holds."""
    rules = [text for text in texts if text.startswith("[[")]
    lines = [line for text in texts if text not in rules for line in text.splitlines()]
    comments = [line for line in lines if line.startswith("#")]
    sections: dict[str, dict[str, str]] = {}
    for line in lines:
        if line not in comments:
            name, _, value = line.partition(" = ")
            section, _, key = name.partition(".")
            sections.setdefault(section, {})[key] = f"{key} = {value}"
    tables = ["\n".join([f"[{section}]", *keys.values()]) for section, keys in sections.items()]
    return "\n".join([*dict.fromkeys(comments), *tables, *rules])


def _lifted_by_nothing(finding: Finding) -> bool:
    return finding.source == "builtin" and finding.rule != "builtin.confirm"


# ── telling it ───────────────────────────────────────────────────────────────────────────────


def explain_lines(
    tool: str,
    touches: Sequence[Touch],
    verdict: Verdict,
    change: Suggestion | None,
    shown: Sequence[str] | None = None,
) -> list[str]:
    """Tell a verdict to a person: touches, findings with rule and place, the decision, the smallest change.

    `shown` are the lines of the change's TOML as they fit into the files there are; without it, as they stand.
    """
    lines = [f"{tool}: {verdict.decision.word}", ""]
    for index, touch in enumerate(touches):
        lines.append(f"  {touch.kind} {_target(touch)}")
        said = [item for item in verdict.findings if item.touch == index and item.source != "grants"]
        lines += [_line(item, item is verdict.deciding) for item in said]
    lines += [f"    + {item.why}" for item in verdict.findings if item.source == "grants"]
    if not touches:
        lines += [_line(item, True) for item in verdict.findings]
    if verdict.excluded:
        lines += ["", f"  left out below: {_left_out(verdict)}"]
    if verdict.decision is Decision.ASK:
        lines += ["", f"  a person can approve it for at most: this {verdict.scope.word}"]
    if verdict.decision is not Decision.ALLOW:
        lines += ["", *_change(verdict, change, shown)]
    return lines


def _line(finding: Finding, decides: bool) -> str:
    where = f" ({finding.where})" if finding.where else ""
    return f"    {'>' if decides else ' '} {finding.decision.word:<5} {finding.rule}{where}: {finding.why}"


def _target(touch: Touch) -> str:
    manner = f", {touch.how.value}" if touch.how is not How.PLAIN else ""
    state = f" ({touch.place.kind.value}{manner})" if touch.place is not None else ""
    return f"{touch.shown}{' and all below' if touch.deep else ''}{state}"


def _left_out(verdict: Verdict) -> str:
    """Name what rules and settings leave out, and count what always is."""
    named = [item for item in verdict.excluded if not item.rule.startswith("builtin.")]
    fixed = len(verdict.excluded) - len(named)
    shown = [f"{item.pattern.removeprefix('/')} ({item.rule})" for item in named]
    return ", ".join([*shown, *([f"{fixed} names of keys and own files"] if fixed else [])])


def _change(verdict: Verdict, change: Suggestion | None, shown: Sequence[str] | None) -> list[str]:
    if change is None:
        fixed = any(_lifted_by_nothing(item) for item in verdict.findings)
        return ["  no setting lifts this" if fixed else "  no change of settings that is known here would alter this"]
    told = {Decision.ALLOW: "allowed", Decision.ASK: "asked for"}[change.flips_to]
    lines = change.toml.splitlines() if shown is None else shown
    if all(line.startswith("#") for line in change.toml.splitlines()):
        lines = ()  # the text above says the same
    return [f"  to have it {told}: {change.text}", *(f"      {line}" for line in lines)]

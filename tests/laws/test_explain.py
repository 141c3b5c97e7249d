"""The smallest change that alters a verdict: what is promised happens, and where none is found there is none."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from handrail.policy import World, decide
from handrail.policy.explain import Suggestion, explain_lines, smallest_change
from handrail.policy.rules import Rule
from handrail.policy.world import ToolFacts
from handrail.words import Decision, How, Place, PlaceKind, Risk, Root, Touch, TouchKind
from laws import worlds
from laws.calls import (
    ALLOW,
    ASK,
    DATA,
    DENY,
    FILE,
    HIGH,
    LOW,
    OBSERVATIONS,
    SCRATCH,
    delete,
    grant,
    reach,
    read,
    rule,
    run,
    use,
    world,
    write,
)

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
Case = tuple[tuple[Touch, ...], World]


def suggested(*touches: Touch, there: World) -> Suggestion | None:
    return smallest_change(touches, there, decide(touches, there))


@pytest.mark.parametrize(
    ("touch", "there", "setting", "toml", "flips_to"),
    [
        (write("a"), {"enable": frozenset()}, "tools.enable", '[tools]\nenable = ["write_file"]', ALLOW),
        (
            write("a", kind=FILE),
            {"enable": frozenset({"exec"})},
            "tools.enable",
            '[tools]\nenable = ["exec", "write_file"]',
            ASK,
        ),
        (write("a"), {"disable": frozenset({"fs", "http"})}, "tools.disable", '[tools]\ndisable = ["http"]', ALLOW),
        (delete("a", confirmed=False), {}, "call", "", ASK),
        (read("a"), {"permissions": frozenset({"fs.write"})}, "call", "", ALLOW),
        (read("a"), {"skill_name": "s", "skill_tools": frozenset()}, "allowed-tools", "", ALLOW),
        (
            reach("api.org:8443"),
            {"allowed_hosts": ("x.org",)},
            "http.allowed_hosts",
            '[http]\nallowed_hosts = ["x.org", "api.org:8443"]',
            ALLOW,
        ),
        (reach("::1:443"), {}, "http.allowed_hosts", '[http]\nallowed_hosts = ["[::1]:443"]', ALLOW),
        (Touch(TouchKind.FS_READ, "../x/a.md"), {}, "workspace.read", '[workspace]\nread = ["/data", "/x"]', ALLOW),
        (
            Touch(TouchKind.FS_WRITE, "/out/a.md"),
            {},
            "workspace.write",
            '[workspace]\nwrite = ["/more", "/out"]\nallow_absolute = true',
            ALLOW,
        ),
        (Touch(TouchKind.FS_READ, "/ws/src/a"), {}, "call", "", ALLOW),
        (
            Touch(TouchKind.FS_READ, "/data/a"),
            {},
            "workspace.allow_absolute",
            "[workspace]\nallow_absolute = true",
            ALLOW,
        ),
        (
            write("a", root=DATA),
            {},
            "workspace.write",
            '[workspace]\nwrite = ["/data", "/more"]\nread = []',
            ALLOW,
        ),
        (
            write("docs/a*.md", kind=FILE),
            {},
            "rules",
            '[[rules]]\neffect = "allow"\ntouch = "fs.write"\ntarget = "docs/a[*].md"',
            ALLOW,
        ),
        (read(".env"), {}, "rules", '[[rules]]\neffect = "allow"\ntouch = "fs.read"\ntarget = ".env"', ALLOW),
        (
            delete("d", below=("d/x",), root=SCRATCH),
            {},
            "rules",
            '[[rules]]\neffect = "allow"\ntouch = "fs.delete"\ntarget = "run:workspace/d/**"',
            ALLOW,
        ),
        (
            run("git commit -m x"),
            {},
            "rules",
            '[[rules]]\neffect = "allow"\ntouch = "proc.exec"\ntarget = "git commit -m x"',
            ALLOW,
        ),
        (use("mine"), {}, "rules", '[[rules]]\neffect = "allow"\ntouch = "tool.use"\ntarget = "mine"', ALLOW),
        (
            read("s/a"),
            {"rules": (rule(DENY, "fs.read", "s"),)},
            "rules",
            "# without the rule at handrail.toml:11",
            ALLOW,
        ),
        (
            read("s/.env"),
            {"rules": (rule(DENY, "fs.read", "s"),)},
            "rules",
            '# in the rule at handrail.toml:11: effect = "ask"',
            ASK,
        ),
    ],
)
def test_the_smallest_change_is_named_with_its_setting_and_toml(
    touch: Touch, there: dict[str, Any], setting: str, toml: str, flips_to: Decision
) -> None:
    """One change of one setting, or of the call, the least far-reaching that helps."""
    found = suggested(touch, there=world(HIGH, **there))
    assert found is not None
    assert (found.setting, found.toml, found.flips_to) == (setting, toml, flips_to)


def test_a_command_whose_words_hold_blanks_gets_a_rule_that_matches_it() -> None:
    """A word that a pattern cannot write stands as `*`."""
    touch = Touch(TouchKind.PROC_EXEC, "git commit -m 'a b'", words=("git", "commit", "-m", "a b"))
    found = suggested(touch, there=world(HIGH))
    assert found is not None
    assert tomllib.loads(found.toml)["rules"][0]["target"] == "git commit -m *"


def test_a_bulk_change_is_allowed_by_raising_the_bound() -> None:
    """One setting instead of a rule for each file."""
    found = suggested(*(write(f"f{number}") for number in range(25)), there=world(HIGH))
    assert found is not None
    assert (found.toml, found.flips_to) == ("[limits]\nbulk_files = 25", ALLOW)


def test_several_changes_are_named_together_where_one_is_not_enough() -> None:
    """As tables, so that the text can stand below whatever a file holds."""
    found = suggested(write(".env"), there=world(HIGH, enable=frozenset()))
    places = [Touch(TouchKind.FS_WRITE, f"/out{number}/a") for number in range(2)]
    roots = suggested(*places, there=world(HIGH))
    many = suggested(*(write(f"f{number}", kind=FILE) for number in range(9)), there=world(HIGH))
    assert found is not None
    assert roots is not None
    assert many is not None
    assert tomllib.loads(roots.toml) == {"workspace": {"write": ["/more", "/out0", "/out1"], "allow_absolute": True}}
    assert tomllib.loads(f'[[rules]]\neffect = "deny"\n{roots.toml}')["workspace"]["allow_absolute"] is True
    assert tomllib.loads(found.toml) == {
        "tools": {"enable": ["write_file"]},
        "rules": [{"effect": "allow", "touch": "fs.write", "target": ".env"}],
    }
    assert [item["target"] for item in tomllib.loads(many.toml)["rules"]] == [f"f{number}" for number in range(9)]


@pytest.mark.parametrize(
    "touches",
    [
        (read(".ssh/x"),),
        (write(".git/hooks/x"),),
        (delete("", below=()),),
        (reach("169.254.169.254:80"),),
        (write("a", root=OBSERVATIONS),),
        (Touch(TouchKind.FS_READ, "src/link-that-leads-out"),),
        (Touch(TouchKind.FS_READ, "run:archive/x"),),
        (Touch(TouchKind.FS_WRITE, "/a.md"),),
        (read("a"), read("id_rsa")),
        (),
    ],
)
def test_what_no_setting_lifts_gets_no_suggestion(touches: tuple[Touch, ...]) -> None:
    """Built-in denials, the run's own folders, links, the whole machine as a root, and silence."""
    assert suggested(*touches, there=world(HIGH, allowed_hosts=("*:*",))) is None


def test_naming_a_host_is_enough_for_a_tool_that_is_enabled_by_it() -> None:
    """Of another toolset the tool has to be enabled, too."""
    http, other = ToolFacts("http_fetch", "http", Risk.MEDIUM), ToolFacts("crawl", "mine", Risk.MEDIUM)
    found = suggested(reach("x.org:443"), there=world(http, enable=frozenset({"fs"})))
    both = suggested(reach("x.org:443"), there=world(other, enable=frozenset({"fs"})))
    assert found is not None
    assert both is not None
    assert (found.toml, found.flips_to) == ('[http]\nallowed_hosts = ["x.org:443"]', ALLOW)
    assert tomllib.loads(both.toml) == {
        "tools": {"enable": ["crawl", "fs"]},
        "http": {"allowed_hosts": ["x.org:443"]},
    }


def test_making_a_root_that_is_there_is_suggested_by_its_whole_path() -> None:
    """Beneath itself it has no name; every other write stays as it was."""
    root = Root("workspace", "/ws", writable=True)
    make = Touch(TouchKind.FS_WRITE, ".", how=How.MAKE, place=Place(root, "", PlaceKind.DIRECTORY))
    found = suggested(make, there=world(HIGH, roots=(root,), skill_folders=("/ws",)))
    assert found is not None
    assert (tomllib.loads(found.toml)["rules"][0]["target"], found.flips_to) == ("/ws", ALLOW)


def test_what_is_allowed_needs_no_suggestion() -> None:
    """Also where a grant made it so."""
    touch = write("a", kind=FILE)
    assert suggested(read("a"), there=world(LOW)) is None
    assert suggested(touch, there=world(HIGH, grants=(grant(touch),))) is None


# ── the law ──────────────────────────────────────────────────────────────────────────────────


def single_changes(case: Case) -> Iterator[Case]:
    """Every change of one setting or of the call, by brute force, far-reaching ones too."""
    touches, there = case
    tool = there.tool
    yield tuple(replace(touch, confirmed=True) for touch in touches), there
    values: list[dict[str, Any]] = [
        {"permissions": None},
        {"skill_tools": None},
        {"bulk_files": 10**6},
        {"max_undo_bytes": 10**12},
        {"protected": ()},
        {"allowed_hosts": ("*:*",)},
        *({"enable": there.enable | {name}} for name in (tool.name, tool.toolset)),
        *({"disable": there.disable - names} for names in ({tool.name}, {tool.toolset}, {tool.name, tool.toolset})),
        *({"rules": (*there.rules, Rule(ALLOW, "new", touch.kind.value))} for touch in touches),
        *({"rules": tuple(item for item in there.rules if item is not out)} for out in there.rules),
    ]
    for effect in (ALLOW, ASK):
        for out in there.rules:
            if not (out.narrows and effect is ALLOW):
                changed = tuple(replace(item, effect=effect) if item is out else item for item in there.rules)
                values.append({"rules": changed})
    yield from ((touches, replace(there, **value)) for value in values)
    yield from changed_roots(case)


def changed_roots(case: Case) -> Iterator[Case]:
    touches, there = case
    for root in there.roots:
        if root.name == root.path:
            wider = replace(root, writable=True)
            moved = tuple(
                replace(touch, place=replace(touch.place, root=wider))
                if touch.place and touch.place.root == root
                else touch
                for touch in touches
            )
            yield moved, replace(there, roots=tuple(wider if item == root else item for item in there.roots))
    elsewhere = Root("/elsewhere", "/elsewhere", True)
    for index, touch in enumerate(touches):
        if touch.place is None and touch.target == "/elsewhere/x":
            kind = PlaceKind.DIRECTORY if touch.deep else PlaceKind.FILE
            inside = replace(touch, place=Place(elsewhere, "x", kind), below=() if touch.deep else None)
            yield (*touches[:index], inside, *touches[index + 1 :]), replace(there, roots=(*there.roots, elsewhere))


@pytest.mark.parametrize("part", range(4))
def test_suggestions_hold_and_none_is_missed(part: int) -> None:
    """Whenever one is given, applying it gives what it promises; whenever none is, no single change helps either."""
    given = 0
    for number in range(part, 1_200 * SCALE, 4):
        touches, there = worlds.situation(Random(number))
        if any(touch.place is not None and touch.place.root not in there.roots for touch in touches):
            continue  # a place beneath no root of its world cannot come from settings
        verdict = decide(touches, there)
        found = smallest_change(touches, there, verdict)
        if found is not None:
            given += 1
            assert decide(*found.apply((touches, there))).decision is found.flips_to < verdict.decision
            tomllib.loads(found.toml)
        elif verdict.decision is not ALLOW:
            helped = [case for case in single_changes((touches, there)) if decide(*case).decision < verdict.decision]
            assert helped == [], (touches, there)
    assert given > 100 * SCALE


# ── telling it ───────────────────────────────────────────────────────────────────────────────


def told(*touches: Touch, there: World) -> str:
    verdict = decide(touches, there)
    return "\n".join(explain_lines(there.tool.name, touches, verdict, smallest_change(touches, there, verdict)))


def test_an_explanation_tells_touches_findings_verdict_and_change() -> None:
    """One block that reads from what is touched to what would change it."""
    deny = rule(DENY, "fs.write", "docs/", why="the docs are generated")
    there = world(HIGH, rule(ALLOW, "fs.write", "**", 2), deny)
    assert told(write("docs/a.md", How.EDIT, FILE), write("b"), there=there) == (
        "write_file: deny\n"
        "\n"
        "  fs.write docs/a.md (file, edit)\n"
        "      allow rules.2 (handrail.toml:12): the rule at handrail.toml:12 says allow\n"
        "    > deny  rules.1 (handrail.toml:11): the docs are generated\n"
        "  fs.write b (missing, replace)\n"
        "      allow rules.2 (handrail.toml:12): the rule at handrail.toml:12 says allow\n"
        "\n"
        "  to have it allowed: take out the rule at handrail.toml:11"
    )


def test_an_explanation_of_an_ask_says_how_far_an_approval_may_reach() -> None:
    """The widest scope stands before the change of settings that would spare the question."""
    assert told(delete("a"), there=world(HIGH)).splitlines()[3:] == [
        "    > ask   defaults.delete: deleting is for people to confirm",
        "",
        "  a person can approve it for at most: this call",
        "",
        "  to have it allowed: add a rule that allows fs.delete of a",
        "      [[rules]]",
        '      effect = "allow"',
        '      touch = "fs.delete"',
        '      target = "a"',
    ]


def test_an_explanation_of_a_deep_read_names_what_is_left_out() -> None:
    """Rules and settings by name, what is always left out by number."""
    there = world(LOW, rule(DENY, "fs.read", "secrets/"), own_paths=())
    lines = told(read("", deep=True), there=there).splitlines()
    assert lines[0] == "read_file: allow"
    assert lines[-1].startswith("  left out below: secrets/ (rules.1), .env* (defaults.protected), ")


def test_an_explanation_says_when_nothing_lifts_a_denial() -> None:
    """Built-in denials and unknown ways out are told apart; silence and grants are told, too."""
    touch = write("a", kind=FILE)
    assert told(read(".ssh/x"), there=world(LOW)).endswith("  no setting lifts this")
    link = Touch(TouchKind.FS_READ, "link")
    assert told(link, there=world(LOW)).endswith("  no change of settings that is known here would alter this")
    assert "the call states nothing that can be judged" in told(there=world(LOW))
    assert "    + approved by ann (run)" in told(touch, there=world(HIGH, grants=(grant(touch),)))

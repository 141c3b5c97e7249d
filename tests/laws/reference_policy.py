"""A second evaluator of policy, to compare the real one with: slow, small, and right by reading.

It is written from the sentences of the policy alone and shares no code with the one it checks, only the nouns. The
comments are the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from handrail.policy import World, shell
from handrail.policy.rules import Rule
from handrail.words import Decision, Grant, How, Place, PlaceKind, Risk, Root, Scope, Touch

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
FILES = ("fs.read", "fs.write", "fs.delete")
# The policy's own names, as far as the worlds that are compared hold any.
KEYS = (".ssh", ".gnupg", ".aws", ".netrc", ".config/gcloud", "id_rsa")
GIT = ("hooks", "config", "commondir")
# Editors, forges, shells and agents run programs because of what stands in these.
RUNS_PROGRAMS = (
    *(".mcp.json", ".claude", ".cursor", ".agents/skills", ".vscode", ".idea", ".devcontainer", ".envrc"),
    *(".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".husky", ".pre-commit-config.yaml"),
    *(".gitattributes", ".gitmodules", ".npmrc"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile"),
)
METADATA = ("169.254.169.254", "metadata.google.internal")
Said = tuple[Decision, str]  # what one source says, and the code if that decides


def judge(touches: Sequence[Touch], world: World) -> Said:
    """Deny beats ask beats allow, over all touches; a grant lifts ask, never deny; silence denies."""
    said = [item for touch in judged(touches) for item in said_of(touch, world, changed(touches) > world.bulk_files)]
    if not said:
        return DENY, "POLICY_DENIED"
    decision = max(decision for decision, _ in said)
    code = next(code for verdict, code in said if verdict is decision)
    if decision is ASK and any(in_force(grant, touches, world) for grant in world.grants):
        return ALLOW, code
    return decision, code


def said_of(touch: Touch, world: World, bulk: bool) -> Iterator[Said]:
    """What is fixed may deny, and only deny; else the strictest rule; the default where no rule speaks of all of it."""
    fixed = [(DENY, code) for code in denials(touch, world)]
    ruled = [rule for rule in world.rules if about(rule, touch, world) and (whole(rule, touch) or part(rule, touch))]
    yield from fixed
    # Who undoes is a person, and need not be asked, but by a rule that names the tool for it.
    spared = [undone(touch, world) and rule.tool is None and rule.effect is ASK for rule in ruled]
    yield from ((ALLOW if no else rule.effect, rule_code(touch)) for rule, no in zip(ruled, spared, strict=True))
    if not fixed and not any(whole(rule, touch) and not rule.narrows for rule in ruled):
        yield default(touch, world, bulk)


def left_out(touch: Touch, world: World, path: str) -> bool:
    """A deep read leaves out what a read of it alone would not be allowed; what was approved for all is approved."""
    assert touch.place is not None
    approved = [replace(r, effect=ALLOW) if about(r, touch, world) and whole(r, touch) else r for r in world.rules]
    # An approval is for the folder: a rule that was asked for it holds for all below, as it stood in the question.
    rules = tuple(replace(r, target=None) if old is not r else r for r, old in zip(approved, world.rules, strict=True))
    entry = replace(touch, deep=False, place=Place(touch.place.root, path, PlaceKind.FILE))
    return judge([entry], replace(world, rules=rules, grants=()))[0] is not ALLOW


def scope(touches: Sequence[Touch], world: World) -> Scope:
    """Never wider than one call for shells and deletion; a moved file is not deleted."""
    for touch in touches:
        if touch.kind == "proc.exec" or (touch.kind == "fs.delete" and (touch.how != "move" or touch.deep)):
            return Scope.CALL
    return world.max_scope


# ── what is fixed ────────────────────────────────────────────────────────────────────────────


def denials(touch: Touch, world: World) -> Iterator[str]:
    place, writes = touch.place, touch.kind in ("fs.write", "fs.delete")
    if place is not None:
        yield from own_or_keys(touch, place, world)
        if writes:
            yield from root_or_repository(touch, place, world)
    if touch.kind == "net.connect" and split_host(touch.target)[0] in METADATA:
        yield "HOST_NOT_ALLOWED"
    if touch.kind == "proc.exec" and shell.forbidden(touch.words, touch.target) is not None:
        yield "COMMAND_NOT_ALLOWED"
    # Outside the roots, hosts not allowed.
    if touch.kind in FILES and (place is None or place.root not in world.roots or (writes and not place.root.writable)):
        yield "PATH_OUTSIDE_ROOTS"
    if touch.kind == "net.connect" and not any(
        host(item, touch.target, every_port=False) for item in world.allowed_hosts
    ):
        yield "HOST_NOT_ALLOWED"
    # The tool is not enabled.
    tool = world.tool
    disabled = tool.name in world.disable or tool.toolset in world.disable
    by_set = tool.toolset in world.enable and not tool.ask_first
    offered = tool.risk is Risk.LOW or tool.given or tool.internal or tool.name in world.enable or by_set
    if disabled or not offered:
        yield "POLICY_DENIED"
    # Not in the active skill's allowed-tools; list_skills, load_skill and display stay callable.
    stays: tuple[str, ...] = ("list_skills", "load_skill", "display")
    stays = (*stays, tool.name) if tool.internal else stays  # undo is a person's to call
    called = tool.name
    if called == "agent_tool":  # a tool of the agent's own, by the name it has there
        called, stays = touch.target, ()
    if world.skill_tools is not None and called not in world.skill_tools and called not in stays:
        yield "POLICY_DENIED"
    # A call may name permissions: touches beyond them are denied.
    if world.permissions is not None and touch.kind != "tool.use" and touch.kind.value not in world.permissions:
        yield "POLICY_DENIED"
    if not touch.confirmed:
        yield "POLICY_DENIED"


def own_or_keys(touch: Touch, place: Place, world: World) -> Iterator[str]:
    """Handrail's own files, but for the folders a run holds for its tools; key material anywhere on the machine."""
    path = on_machine(place.root, place.path)
    scratch = any(place.root.path == f"{own}/{world.run_id}/workspace" for own in world.own_paths)
    if not place.root.name.startswith("run:") and not scratch:
        for own in world.own_paths:
            holds_own = touch.deep and touch.kind != "fs.read" and own.startswith(f"{path}/")
            if f"{path}/".startswith(f"{own}/") or holds_own:
                yield "PATH_PROTECTED"
    if has_name(KEYS, path):
        yield "PATH_PROTECTED"


def root_or_repository(touch: Touch, place: Place, world: World) -> Iterator[str]:
    """Destroying a root; what is not known below; repository hooks and config, settings, key material, also below."""
    path = on_machine(place.root, place.path)
    stays = (touch.kind, touch.how) == ("fs.write", "make") and place.kind is PlaceKind.DIRECTORY  # it is there
    if not stays and (place.path == "" or any(root.path.startswith(f"{path}/") for root in world.roots)):
        yield "PATH_PROTECTED"
    if (touch.deep or touch.how == "move") and touch.below is None and place.kind is PlaceKind.DIRECTORY:
        yield "PATH_PROTECTED"
    for inner in (path, *(on_machine(place.root, item) for item in touch.below or ())):
        parts = inner.lower().split("/")
        after_git = parts[parts.index(".git") + 1 :] if ".git" in parts else []
        if parts[-1] == ".git" or set(after_git) & set(GIT) or "handrail.toml" in parts or has_name(KEYS, inner):
            yield "PATH_PROTECTED"


def has_name(names: Sequence[str], path: str) -> bool:
    return any(f"/{name}/" in f"/{path}/".lower() for name in names)


# ── rules ────────────────────────────────────────────────────────────────────────────────────


def about(rule: Rule, touch: Touch, world: World) -> bool:
    """All given fields must match; rules against reading hold for moving away, too.

    What a person undoes is on record: no deny holds for it but one that names the tool for it.
    """
    if undone(touch, world) and rule.tool is None and rule.effect is DENY:
        return False
    kinds = [touch.kind.value]
    if touch.how == "move" and rule.effect is not ALLOW:
        kinds.append("fs.read")
    families = [f"{kind.split('.')[0]}.*" for kind in kinds]
    return (
        rule.touch in (None, *kinds, *families)
        and rule.tool in (None, world.tool.name)
        and rule.skill in (None, world.skill_name)
        and rule.caller in (None, world.caller)
    )


def undone(touch: Touch, world: World) -> bool:
    return touch.how == "undo" and world.tool.internal


def whole(rule: Rule, touch: Touch) -> bool:
    """Whether a rule speaks of all that is touched: an allow to the letter, the others with all that lies below."""
    target, restricts = rule.target, rule.effect is not ALLOW
    if target is None:
        return True
    if touch.kind in FILES:
        if touch.place is None or (touch.deep and not restricts and not target.endswith(("**", "/", "**/*"))):
            return False
        path = seen_by(target, touch.place)
        return glob_or_folder(target, path) if restricts else glob(target, path)
    if touch.kind == "net.connect":
        return host(target, touch.target, every_port=restricts)
    if touch.kind == "proc.exec":
        return command(target.split(), list(touch.words), restricts) and (restricts or not touch.doubt)
    return glob(target, touch.target)


def part(rule: Rule, touch: Touch) -> bool:
    """For writing and deleting, an ask or deny of something below holds for the folder; unseen, of what could be."""
    if rule.effect is ALLOW or not touch.deep or touch.kind not in ("fs.write", "fs.delete") or touch.place is None:
        return False
    assert rule.target is not None
    if touch.below is not None:
        inner = [replace(touch.place, path=path) for path in touch.below]
        return any(glob_or_folder(rule.target, seen_by(rule.target, place)) for place in inner)
    folder = seen_by(rule.target, touch.place)
    return could_be_below(rule.target, "" if folder == "." else folder)


def seen_by(target: str, place: Place) -> str:
    """The path of the machine for `/…`, that of the run for `run:…`, else the path beneath its root."""
    if target.startswith("/"):
        return on_machine(place.root, place.path)
    return place.shown.rstrip("/") if target.startswith("run:") else place.path


def on_machine(root: Root, path: str) -> str:
    return f"{root.path}/{path}" if path else root.path


def rule_code(touch: Touch) -> str:
    return {"net.connect": "HOST_NOT_ALLOWED", "proc.exec": "COMMAND_NOT_ALLOWED"}.get(
        touch.kind.value, "POLICY_DENIED"
    )


def host(pattern: str, target: str, *, every_port: bool) -> bool:
    """`name[:port]` with `*.`; without a port 80 and 443, or every one for rules that restrict."""
    (name, port), (there, there_port) = split_host(pattern), split_host(target)
    right_port = port in ("*", there_port) or (port == "" and (every_port or there_port in ("80", "443")))
    return right_port and (name in ("*", there) or (name.startswith("*.") and there.endswith(name[1:])))


def split_host(text: str) -> tuple[str, str]:
    name, colon, port = text.rpartition(":")
    name, port = (name, port) if colon and (port.isdigit() or port == "*") else (text, "")
    return name.strip("[]").rstrip(".").lower(), port


def command(wanted: list[str], words: list[str], restricts: bool) -> bool:
    """Words, the last `*` free; what restricts cannot be escaped by further words or by a program's path."""
    if restricts and words and "/" not in wanted[0]:
        words = [words[0].split("/")[-1], *words[1:]]
    if len(wanted) > 1 and wanted[-1] == "*":
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    if restricts:
        words = words[: len(wanted)]
    return len(words) == len(wanted) and all(ours in ("*", word) for ours, word in zip(wanted, words, strict=True))


# ── defaults ─────────────────────────────────────────────────────────────────────────────────


def default(touch: Touch, world: World, bulk: bool) -> Said:
    place = touch.place
    if place is None:
        quiet = touch.kind == "net.connect" and not touch.unsafe
        low = touch.kind == "tool.use" and world.tool.risk is Risk.LOW
        harmless = touch.kind == "proc.exec" and world.confined and not touch.doubt and shell.harmless(touch.words)
        return (ALLOW if quiet or low or harmless else ASK), "POLICY_DENIED"
    paths = [place.path, *(touch.below or ())]
    if any(protected(world.protected, path) for path in paths):
        return DENY, "PATH_PROTECTED"
    return (ASK if asks(touch, place, paths, world, bulk) else ALLOW), "POLICY_DENIED"


def asks(touch: Touch, place: Place, paths: list[str], world: World, bulk: bool) -> bool:
    """Reading is allowed; deleting asks, and writing over a file, in bulk, too large to undo, or what runs programs."""
    if touch.kind == "fs.read" or (touch.how is How.UNDO and world.tool.internal):
        return False
    return (
        bulk
        or any(has_name(RUNS_PROGRAMS, path) for path in paths)
        or any(in_skills(place, touch, folder) for folder in world.skill_folders)
        or (place.kind is PlaceKind.FILE and place.size > world.max_undo_bytes)
        or (touch.kind == "fs.delete" and touch.how != "move")
        or (touch.how == "replace" and place.kind is not PlaceKind.MISSING)
    )


def may(kind: str, touch: Touch) -> bool:
    """A grant to send covers asking, too; one to ask covers nothing that sends."""
    return kind == f"{touch.kind}.unsafe" or (kind == touch.kind and not touch.unsafe)


def in_skills(place: Place, touch: Touch, folder: str) -> bool:
    """A change in a folder of skills, or one that takes the folder along."""
    here, there = place.absolute.lower().split("/"), folder.lower().split("/")
    return here[: len(there)] == there or (touch.deep and there[: len(here)] == here)


def protected(patterns: Sequence[str], path: str) -> bool:
    """Names at any depth, in any case, with all below; `!` takes a name out again."""
    found = False
    for pattern in patterns:
        name, parts = pattern.removeprefix("!").lower(), path.lower().split("/")
        if any(glob_or_folder(name, "/".join(parts[start:])) for start in range(len(parts))):
            found = not pattern.startswith("!")
    return found


def changed(touches: Sequence[Touch]) -> int:
    return sum(1 + len(touch.below or ()) for touch in touches if touch.kind in ("fs.write", "fs.delete"))


def judged(touches: Sequence[Touch]) -> Iterator[Touch]:
    """What is moved arrives with all that lies in it."""
    sources = [
        (touch.place.path, touch.below) for touch in touches if touch.how == "move" and touch.place and touch.below
    ]
    for touch in touches:
        arrives = (
            [touch.place.path + item[len(path) :] for path, below in sources for item in below] if touch.place else []
        )
        if touch.kind == "fs.write" and arrives:
            touch = replace(touch, deep=True, below=(*(touch.below or ()), *arrives))
        yield touch


# ── grants ───────────────────────────────────────────────────────────────────────────────────


def in_force(grant: Grant, touches: Sequence[Touch], world: World) -> bool:
    """Not expired, uses left, the same tool; for one exact call, or for this run's (any run's) same touches."""
    if world.now >= grant.expires or grant.uses_left == 0 or grant.tool != world.tool.name:
        return False
    if grant.scope > scope(touches, world) or grant.scope is Scope.NONE:
        return False
    if grant.scope is Scope.CALL:
        return bool(world.digest) and grant.digest == world.digest
    if grant.scope is Scope.RUN and grant.run_id != world.run_id:
        return False
    return all(
        any(may(kind, touch) and glob(target.rstrip("/"), touch.shown.rstrip("/")) for kind, target in grant.touches)
        for touch in touches
    )


# ── globs, sign by sign ──────────────────────────────────────────────────────────────────────


def glob(pattern: str, path: str) -> bool:
    return fits(plain(pattern), path, True)


def glob_or_folder(pattern: str, path: str) -> bool:
    parts = path.split("/")
    return any(glob(pattern, "/".join(parts[:count])) for count in range(1, len(parts) + 1))


def could_be_below(pattern: str, folder: str) -> bool:
    return folder == "" or glob_or_folder(pattern, folder) or fits(plain(pattern), f"{folder}/", True, begins=True)


def plain(pattern: str) -> str:
    """A slash at the end means all below; two `**` say no more than one."""
    pattern = f"{pattern}**" if pattern.endswith("/") else pattern
    while "**/**" in pattern:
        pattern = pattern.replace("**/**", "**")
    return pattern


@cache
def fits(pattern: str, path: str, start: bool, *, begins: bool = False) -> bool:
    """Whether a path fits a pattern; with `begins`, whether any path that begins so does."""
    if begins and (not path or pattern.startswith("**")):
        return True
    if pattern == "/**":  # the folder itself and all below
        return path == "" or path[0] == "/"
    if start and pattern.startswith("**/"):  # any number of whole segments
        after = [0, *(index + 1 for index, sign in enumerate(path) if sign == "/")]
        return any(fits(pattern[3:], path[index:], True, begins=begins) for index in after)
    if pattern.startswith("**"):
        return any(fits(pattern.lstrip("*"), path[index:], False, begins=begins) for index in range(len(path) + 1))
    if pattern[:1] == "*":
        inside = path != "" and path[0] != "/" and fits(pattern, path[1:], False, begins=begins)
        return inside or fits(pattern[1:], path, False, begins=begins)
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "[" and (end := pattern.find("]", 2)) > 0:
        met, rest = path[0] != "/" and among(pattern[1:end], path[0]), pattern[end + 1 :]
    else:
        met, rest = (path[0] != "/" if pattern[0] == "?" else path[0] == pattern[0]), pattern[1:]
    return met and fits(rest, path[1:], pattern[0] == "/", begins=begins)


def among(body: str, sign: str) -> bool:
    if body[0] == "!" and len(body) > 1:
        return not among(body[1:], sign)
    if len(body) >= 3 and body[1] == "-":
        return body[0] <= sign <= body[2] or (len(body) > 3 and among(body[3:], sign))
    return sign == body[0] or (len(body) > 1 and among(body[1:], sign))

"""A second evaluator of policy, to compare the real one with: slow, small, and right by reading.

It is written from the sentences of the policy alone and shares no code with the one it checks, only the nouns. The
comments are the sentences. Longer than 500 lines because it is one evaluator, read from its top to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from handrail.policy import World, shell
from handrail.policy.rules import Rule
from handrail.policy.shell import git
from handrail.words import Decision, Grant, How, Place, PlaceKind, Risk, Root, Scope, Touch

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
FILES = ("fs.read", "fs.write", "fs.delete")
# The policy's own names, as far as the worlds that are compared hold any.
KEYS = (".ssh", ".gnupg", ".aws", ".netrc", ".config/gcloud", "id_rsa")
GIT = ("hooks", "config", "config.worktree", "commondir", "gitdir")
# Editors, forges, shells and agents run programs because of what stands in these.
FORGES = (
    *(".appveyor.yml", ".azure-pipelines", ".build.yml", ".buildkite", ".builds", ".circleci", ".cirrus.yml"),
    *(".drone.yml", ".forgejo/workflows", ".gitea/workflows", ".github/actions", ".github/workflows"),
    *(".gitlab-ci.yml", ".gitlab/ci", ".semaphore", ".teamcity", ".travis.yml", ".woodpecker", ".woodpecker.yaml"),
    *(".woodpecker.yml", "Jenkinsfile", "appveyor.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml"),
    *("cloudbuild.yaml",),
)  # what they read lies in no package that was installed
RUNS_PROGRAMS = (
    *FORGES,
    *(".mcp.json", ".claude", "CLAUDE.md", "AGENTS.md", ".agents/skills", ".codex", ".cursor", ".gemini", ".kiro"),
    *(".roo", ".windsurf", ".vscode", ".idea", ".zed", ".helix", ".devcontainer", "*.code-workspace", ".exrc"),
    *(".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".gitattributes", ".gitmodules", ".gitconfig"),
    *(".config/git", ".hg/hgrc", ".husky", ".githooks", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml"),
    *(".lefthook.yml", ".lefthook.yaml", ".npmrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".pnpmfile.cjs"),
    *("bunfig.toml", ".cargo/config.toml", ".cargo/config", "mise.toml", ".mise.toml", ".envrc", ".gdbinit"),
    *(".lldbinit", ".pdbrc", ".Rprofile", ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish", ".config/systemd"),
    *(".local/share/systemd", ".config/autostart", "Library/LaunchAgents", ".local/bin"),
)
PATTERNS: dict[tuple[str, ...], str] = {
    ("npm", "test"): "npm test"
}  # of the commands that the worlds hold, those that may be granted as such
METADATA = ("169.254.169.254", "metadata.google.internal")
Said = tuple[Decision, str]  # what one source says, and the code if that decides


def judge(touches: Sequence[Touch], world: World) -> Said:
    """Deny beats ask beats allow, over all touches; a grant lifts ask, never deny; silence denies."""
    if any(touch.how == "background" for touch in touches) and world.border:
        world = replace(world, border=False, reviewed=False)  # works on the workspace itself
    bulk = many(touches, world)
    said = [item for touch in judged(touches) for item in said_of(touch, touches, world, bulk)]
    said += [item for touch in touches for item in said_of_link(touch, touches, world)]
    if not said:
        return DENY, "POLICY_DENIED"
    decision = max(decision for decision, _ in said)
    code = next(code for verdict, code in said if verdict is decision)
    if decision is ASK and any(in_force(grant, touches, world) for grant in world.grants):
        return ALLOW, code
    return decision, code


def said_of(touch: Touch, touches: Sequence[Touch], world: World, bulk: bool) -> Iterator[Said]:
    """At the border, what a line would change is not asked for before it runs: its changes are judged."""
    said = list(said_by_all(touch, touches, world, bulk))
    changes = touch.kind in ("fs.write", "fs.delete", "git.write") and any(item.kind == "proc.exec" for item in touches)
    if world.border and changes and max(decision for decision, _ in said) is ASK:
        said = [(ALLOW, "POLICY_DENIED")]
    yield from said


def said_of_link(touch: Touch, touches: Sequence[Touch], world: World) -> Iterator[Said]:
    """A link that is moved to where git, or a program that runs what it finds, looks below."""
    links = [item for item in touches if item.how == "move" and item.place and item.place.kind is PlaceKind.LINK]
    if not links or touch.kind != "fs.write" or touch.place is None:
        return
    path = on_machine(touch.place.root, touch.place.path)
    if any(beneath(name, path) for name in (*world.repositories.named, *world.repositories.folders)):
        yield DENY, "PATH_PROTECTED"
    parts = path.lower().split("/")
    for name in RUNS_PROGRAMS:
        names = name.lower().split("/")
        if any(parts[-count:] == names[:count] for count in range(1, len(names))):
            yield ASK, "POLICY_DENIED"


def said_by_all(touch: Touch, touches: Sequence[Touch], world: World, bulk: bool) -> Iterator[Said]:
    """What is fixed denies, or asks for a host; else the strictest rule; the default where no rule speaks of it all."""
    fixed = [(DENY, code) for code in denials(touch, world)]
    fixed += [(ASK, "HOST_NOT_ALLOWED")] if unlisted(touch, world) and asked_for(touch, world) else []
    ruled = [rule for rule in world.rules if about(rule, touch, world) and (whole(rule, touch) or part(rule, touch))]
    yield from fixed
    # Who undoes is a person, and need not be asked, but by a rule that names the tool for it.
    spared = [undone(touch, world) and rule.tool is None and rule.effect is ASK for rule in ruled]
    yield from ((ALLOW if no else rule.effect, rule_code(touch)) for rule, no in zip(ruled, spared, strict=True))
    if not fixed and not any(whole(rule, touch) and not rule.narrows for rule in ruled):
        yield (ALLOW, "POLICY_DENIED") if git_named(touch, touches, world) else default(touch, world, bulk)


def left_out(touch: Touch, world: World, path: str) -> bool:
    """A deep read leaves out what a read of it alone would not be allowed; what was approved for all is approved."""
    assert touch.place is not None
    approved = [replace(r, effect=ALLOW) if about(r, touch, world) and whole(r, touch) else r for r in world.rules]
    # An approval is for the folder: a rule that was asked for it holds for all below, as it stood in the question.
    rules = tuple(replace(r, target=None) if old is not r else r for r, old in zip(approved, world.rules, strict=True))
    entry = replace(touch, deep=False, unsafe=False, place=Place(touch.place.root, path, PlaceKind.FILE))
    return judge([entry], replace(world, rules=rules, grants=()))[0] is not ALLOW


def scope(touches: Sequence[Touch], world: World) -> Scope:
    """Never wider than one call for deletion, and for what runs outside the sandbox; a moved file is not deleted."""
    for touch in touches:
        if touch.kind == "fs.delete" and (touch.how != "move" or touch.deep):
            return Scope.CALL
        if touch.kind in ("fs.write", "fs.delete") and more_than_work(touch, world):
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
    if unlisted(touch, world) and not asked_for(touch, world):
        yield "HOST_NOT_ALLOWED"
    # The tool is not enabled.
    tool = world.tool
    disabled = tool.name in world.disable or tool.toolset in world.disable
    by_set = tool.toolset in world.enable and not tool.ask_first
    offered = tool.risk is Risk.LOW or tool.given or tool.internal or tool.name in world.enable or by_set
    if disabled or not offered:
        yield "POLICY_DENIED"
    # Not in the active skill's allowed-tools; list_skills, load_skill and display stay callable.
    # A tool of the program's own that took one of these names over does not.
    stays: tuple[str, ...] = () if tool.given else ("list_skills", "load_skill", "display")
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


def unlisted(touch: Touch, world: World) -> bool:
    return touch.kind == "net.connect" and not any(
        host(item, touch.target, every_port=False) for item in world.allowed_hosts
    )


def asked_for(touch: Touch, world: World) -> bool:
    """Settings ask for hosts, and it is an address or a name of several parts that is not reserved for inner ones."""
    name = split_host(touch.target)[0]
    inner = ("localhost", "local", "internal", "arpa", "alt", "invalid", "onion")
    return world.asks_hosts and (":" in name or ("." in name and name.rsplit(".", 1)[1] not in inner))


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
        new = touch.how == "repository" and inner == path  # with all of its repository, and running no programs
        removed = touch.how == "undo" and touch.kind == "fs.delete" and inner == path  # made by a recorded call
        inside = [parts[at + 1 :] for at, name in enumerate(parts) if name == ".git" and not new and not removed]
        if any(not rest or runs_programs(rest) for rest in inside):
            yield "PATH_PROTECTED"
        if "handrail.toml" in parts or has_name(KEYS, inner):
            yield "PATH_PROTECTED"
        # What existing configs name, and the same names in repositories that are not called `.git`.
        if removed:
            continue
        if any(beneath(inner, named) for named in world.repositories.named):
            yield "PATH_PROTECTED"
        for folder in world.repositories.folders:
            rest = inner[len(folder) + 1 :].lower().split("/") if beneath(inner, folder) else []
            if inner.lower() == folder.lower() or runs_programs(rest):
                yield "PATH_PROTECTED"


def runs_programs(names: Sequence[str]) -> bool:
    """Hooks, config and pointers of a repository, of its worktrees and of submodules; not branches of that name."""
    rest = [*names[2:]] if names[:1] == ["worktrees"] else [*names]
    return rest[:1] != [] and (rest[0] in GIT or (rest[0] == "modules" and any(name in GIT for name in rest)))


def beneath(path: str, folder: str) -> bool:
    return f"{path}/".lower().startswith(f"{folder}/".lower())


def of_a_repository(path: str, world: World) -> bool:
    """Below `.git` or what stands for it; what makes a folder look like one; where a config could not be read."""
    known = world.repositories
    parts = path.lower().split("/")
    halves = [f"{folder}/{name}" for folder in known.heads for name in ("objects", "refs", "commondir")]
    in_tree = any(beneath(path, tree) for tree in known.trees)  # a working tree within a repository's folder
    return (
        ".git" in parts
        or parts[-1] == "head"
        or any(beneath(path, at) for at in (*halves, *known.unread))
        or (not in_tree and any(beneath(path, at) for at in known.folders))
    )


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
        and rule.risk in (None, world.tool.risk.value)
        and rule.environment in (None, world.environment)
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
        if touch.doubt and not restricts:  # only the same words, where the doubt is the script that they name
            return script_doubt(touch.words) == touch.doubt and target.split() == list(touch.words)
        return command(target.split(), list(touch.words), restricts)
    return glob_or_folder(target, touch.target) if restricts else glob(target, touch.target)


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


def script_doubt(words: Sequence[str]) -> str:
    """What is said of a shell with a script; nothing where it has another first argument, or none."""
    shell_name, *rest = words or ("",)
    shell_name = shell_name if shell_name in (".", "source") else shell_name.split("/")[-1]
    if shell_name in ("sh", "bash", "dash"):
        while rest and rest[0] in ("-e", "-u", "-x"):
            rest = rest[1:]
    elif shell_name not in (".", "source"):
        return ""
    named = rest and rest[0][0] not in "-+" and "*" not in words
    return f"{shell_name} runs what the file {rest[0]} says" if named else ""


def git_named(touch: Touch, touches: Sequence[Touch], world: World) -> bool:
    """A rule that allows a git command by its subcommand allows what that command writes, if each such has one."""
    commands = [item for item in touches if item.kind == "proc.exec" and git_changes(item.words) == touch.target]
    if touch.kind != "git.write" or not commands:
        return False
    rules = [rule for rule in world.rules if rule.effect is ALLOW and rule.touch == "proc.exec" and rule.target]
    naming = [rule for rule in rules if git_changes((rule.target or "").split()) == touch.target]
    return all(any(about(rule, item, world) and whole(rule, item) for rule in naming) for item in commands)


def git_changes(words: Sequence[str]) -> str:
    """The subcommand, as far as the worlds that are compared hold any."""
    return words[1] if len(words) > 1 and words[0].split("/")[-1] == "git" and words[1] in ("push", "commit") else ""


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
        low = touch.kind == "tool.use" and world.tool.risk is Risk.LOW and not touch.unsafe
        plain = touch.kind == "proc.exec" and world.confined and touch.skill is None
        plain = plain and (world.border or not touch.doubt)
        if plain and git.pushes(touch.words):
            return DENY, "COMMAND_NOT_ALLOWED"
        harmless = touch.kind == "proc.exec" and world.confined and not touch.doubt and shell.harmless(touch.words)
        # At the border a line runs, also one that is not understood, unless rules restrict lines.
        free = touch.kind == "proc.exec" and world.border and touch.skill is None
        free = free and not (touch.doubt and any(restricts_lines(rule, world) for rule in world.rules))
        runs = (harmless or free) and not touch.unsafe
        return (ALLOW if quiet or low or runs else ASK), "POLICY_DENIED"
    paths = [place.path, *(touch.below or ())]
    # The lists of all layers add up: a `!` takes out what its own list put in.
    if any(protected(names, path) for names in (world.protected, *world.further_protected) for path in paths):
        return DENY, "PATH_PROTECTED"
    return (ASK if touch.unsafe or asks(touch, place, paths, world, bulk) else ALLOW), "POLICY_DENIED"


def asks(touch: Touch, place: Place, paths: list[str], world: World, bulk: bool) -> bool:
    """Reading is allowed; deleting asks, and writing over a file, in bulk, too large to undo, or what runs programs."""
    if touch.kind == "fs.read" or (touch.how is How.UNDO and world.tool.internal):
        return False
    if world.border and world.changes:
        return change_asks(touch, place, paths, world, bulk)
    return (
        bulk
        or any(has_name(RUNS_PROGRAMS, path) for path in paths)
        or any(of_a_repository(on_machine(place.root, path), world) for path in paths)
        or any(in_skills(place, touch, folder) for folder in world.skill_folders)
        or (place.kind is PlaceKind.FILE and place.size > world.max_undo_bytes)
        or (touch.kind == "fs.delete" and touch.how != "move")
        or (touch.how == "replace" and place.kind is not PlaceKind.MISSING and not (world.border and touch.known))
    )


def change_asks(touch: Touch, place: Place, paths: list[str], world: World, bulk: bool) -> bool:
    """A change of a program asks where it cannot be undone, hides something, or makes programs run elsewhere."""
    names = [name for name in RUNS_PROGRAMS if touch.effect != "cache" or name not in FORGES]
    if any(has_name(names, path) for path in paths):
        return True
    if any(in_skills(place, touch, folder) for folder in world.skill_folders) or touch.effect in ("hides", "on-path"):
        return True
    record = touch.effect == "git-record"
    if not record and any(of_a_repository(on_machine(place.root, path), world) for path in paths):
        return True
    if touch.effect == "cache":
        return False
    large = place.kind is PlaceKind.FILE and place.size > world.max_undo_bytes
    return touch.effect == "lost" or large or (bulk and touch.kind == "fs.delete")


def restricts_lines(rule: Rule, world: World) -> bool:
    """A rule that asks or denies for some lines: what is in doubt could be one of them."""
    kinds = (None, "proc.exec", "proc.*")
    return (
        rule.effect is not ALLOW
        and rule.target is not None
        and rule.touch in kinds
        and rule.tool in (None, world.tool.name)
    )


def many(touches: Sequence[Touch], world: World) -> bool:
    """More files than a person is not asked for; of a program's changes only deletions count, and no caches."""
    if world.border and world.changes:
        gone = [touch for touch in touches if touch.kind == "fs.delete" and touch.effect != "cache"]
        return len(gone) > world.bulk_files
    return changed(touches) > world.bulk_files


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
    if any(touch.kind == "net.connect" and touch.words for touch in touches):  # the same line, host and port
        return bool(world.digest) and grant.digest == world.digest
    scripts = [touch for touch in touches if touch.kind == "proc.exec" and touch.skill is not None]
    if scripts and ("proc.exec", "**") not in grant.touches:  # the same script with the same content and arguments
        return bool(world.digest) and grant.digest == world.digest
    if any(touch.kind == "proc.exec" for touch in touches) and not scripts:
        # Of a command line, all that would ask must be covered; a command by its own pattern, and by no other text.
        bulk = many(touches, world)
        told = [max(said for said, _ in said_of(touch, touches, world, bulk)) for touch in judged(touches)]
        asked = [touch for touch, said in zip(touches, told, strict=True) if said is ASK]
        runs = [touch for touch in asked if touch.kind == "proc.exec"]
        if any(touch.doubt or ("proc.exec", PATTERNS.get(touch.words, "")) not in grant.touches for touch in runs):
            return False
        touches = [touch for touch in asked if touch.kind != "proc.exec"]
    return all(
        any(may(kind, touch) and reached(target, touch, world) for kind, target in grant.touches) for touch in touches
    )


def reached(target: str, touch: Touch, world: World) -> bool:
    """The target that was shown; any target never means deleting, nor what is more than ordinary work."""
    if target == "**":
        return touch.kind != "fs.delete" and not more_than_work(touch, world)
    return glob(target.rstrip("/"), touch.shown.rstrip("/"))


def more_than_work(touch: Touch, world: World) -> bool:
    place = touch.place
    if place is None or touch.kind == "fs.read":
        return False
    paths = [place.path, *(touch.below or ())]
    return (
        any(has_name(RUNS_PROGRAMS, path) for path in paths)
        or any(of_a_repository(on_machine(place.root, path), world) for path in paths)
        or any(in_skills(place, touch, folder) for folder in world.skill_folders)
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

"""Random worlds and calls for the laws of policy: small vocabularies, so that rules, names and targets often meet."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from handrail.policy import ToolFacts, World
from handrail.policy.patterns import literal
from handrail.policy.rules import Rule
from handrail.policy.world import Repositories
from handrail.words import Decision, Effect, Grant, How, Mode, Place, PlaceKind, Risk, Root, Scope, Touch, TouchKind

ORDINARY = ("src", "docs", "a.py", "b.md", "x", "build", "secrets", "K.pem", "we*rd[1]", "a b")
SPECIAL = (
    *(
        ".env",
        ".ENV",
        ".env.example",
        ".ssh",
        ".SSH",
        ".git",
        "hooks",
        "config",
        "commondir",
        "HEAD",
        "refs",
        ".github",
        "workflows",
    ),
    *("handrail.toml", "id_rsa", ".config", "gcloud", ".claude", ".agents", "skills", ".agent", "runs"),
)
NAMES = (*ORDINARY * 8, *SPECIAL)
SEGMENTS = (
    "*",
    "**",
    "**",
    "*.py",
    "s*",
    "?",
    "[a-d]*",
    "[!s]*",
    ".e*",
    "*c*",
    "s**c",
    "we[*]rd[[]1]",
    *ORDINARY,
    *SPECIAL,
)
HOSTS = (
    "api.example.org",
    "EXAMPLE.org",
    "x.example.org.",
    "evil.org",
    "169.254.169.254",
    "::1",
    "10.0.0.7",
    "nexus",
    "a.local",
)
HOST_PATTERNS = (
    "*",
    "*:*",
    "example.org",
    "*.example.org",
    "*.EXAMPLE.org:8080",
    "evil.org",
    "evil.org:*",
    "[::1]",
    "10.0.0.7:80",
)
PORTS = ("80", "443", "8080")
WORDS = ("git", "diff", "push", "rm", "-rf", "/bin/rm", "./x", "npm", "test", "a", "ls", "cat", "/")
_HOWS = (How.PLAIN, How.REPLACE, How.EDIT, How.MAKE, How.REPOSITORY)
WORKSPACE = Root("workspace", "/ws", True)
ROOTS = (
    Root("/data", "/data", False),
    Root("/more/.config", "/more/.config", True),
    Root("/ws/docs", "/ws/docs", True),
    Root("run:observations", "/state/runs/r1/observations", False),
    Root("run:workspace", "/state/runs/r1/workspace", True),
)
REPOSITORIES = (
    Repositories(),
    Repositories(),
    Repositories(folders=("/ws/a",), named=("/ws/src/hooks", "/ws/docs/x")),
    Repositories(folders=("/ws",), trees=("/ws/src", "/ws/a")),
    Repositories(folders=("/ws/d", "/more/.config/a"), heads=("/ws", "/ws/src")),
    Repositories(unread=("/ws/docs",)),
)
TOOLS = (
    ToolFacts("read_file", "fs", Risk.LOW),
    ToolFacts("write_file", "fs", Risk.HIGH),
    ToolFacts("delete_path", "fs", Risk.HIGH, ask_first=True),
    ToolFacts("run_command", "exec", Risk.MEDIUM),
    ToolFacts("mine", "user", Risk.HIGH, given=True),
    ToolFacts("undo_changes", "fs", Risk.HIGH, internal=True),
    ToolFacts("display", "talk", Risk.LOW),
)
TOUCHES = (
    None,
    None,
    "fs.read",
    "fs.write",
    "fs.delete",
    "fs.*",
    "fs.*",
    "net.connect",
    "net.*",
    "proc.exec",
    "tool.use",
    "git.*",
)


def some(random: Random, chance: float) -> bool:
    return random.random() < chance


def path(random: Random, most: int = 3) -> str:
    return "/".join(random.choice(NAMES) for _ in range(random.randint(1, most)))


def pattern(random: Random, near: str = "") -> str:
    """A path pattern; with `near`, one made from a path by replacing, dropping and adding segments."""
    parts = near.split("/") if near and some(random, 0.7) else path(random).split("/")
    parts = parts[: random.randint(1, len(parts))] + [random.choice(SEGMENTS)] * some(random, 0.3)
    parts = [random.choice(SEGMENTS) if some(random, 0.3) else part.replace("*", "[*]") for part in parts]
    before = random.choice(("", "", "", "", "**/", "/ws/", "/data/", "run:workspace/", "run:observations/"))
    return before + "/".join(parts) + random.choice(("", "", "", "/", "/**"))


def target(random: Random, touch: str | None, near: Touch | None) -> str:
    if touch in ("net.connect", "net.*"):
        return random.choice(HOST_PATTERNS)
    if touch == "proc.exec":
        words = list(near.words) if near and near.words else [random.choice(WORDS) for _ in range(2)]
        words = [random.choice((*WORDS, "*")) if some(random, 0.2) else word for word in words]
        return " ".join(words[: random.randint(1, len(words))] + ["*"] * some(random, 0.3))
    if touch == "tool.use":
        return random.choice(("mine", "m*", "**"))
    return pattern(random, random.choice((near.place.path, *(near.below or ()))) if near and near.place else "")


def rule(random: Random, number: int, asked: tuple[Touch, ...]) -> Rule:
    near = random.choice(asked) if asked and some(random, 0.8) else None
    touch = near.kind.value if near and some(random, 0.6) else random.choice(TOUCHES)
    effect = random.choice(tuple(Decision))
    return Rule(
        effect,
        f"rules.{number}",
        touch,
        target(random, touch, near) if some(random, 0.95) else None,
        tool=random.choice((*(None,) * 6, "write_file", "read_file")),
        skill="skill" if some(random, 0.1) else None,
        caller="cli" if some(random, 0.1) else None,
        where=f"handrail.toml:{number}",
        narrows=effect is not Decision.ALLOW and some(random, 0.3),
        risk=random.choice((*(None,) * 6, "low", "medium", "high")),
        environment=random.choice((*(None,) * 8, "ci", "production")),
    )


def place(random: Random, world: World) -> Place:
    root = random.choice((WORKSPACE, WORKSPACE, *world.roots, *ROOTS[: some(random, 0.05) * 2]))
    where = path(random) if some(random, 0.96) else ""
    kinds = (PlaceKind.FILE, PlaceKind.FILE, PlaceKind.DIRECTORY, PlaceKind.MISSING, PlaceKind.LINK)
    return Place(root, where, random.choice(kinds), where, random.choice((0, 10, 2000)))


def file_touch(random: Random, world: World) -> Touch:
    kind = random.choice(
        (TouchKind.FS_READ, TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_WRITE, TouchKind.FS_DELETE)
    )
    where = place(random, world) if some(random, 0.97) else None
    if kind is not TouchKind.FS_READ and where is not None and not where.root.writable and some(random, 0.8):
        where = replace(where, root=WORKSPACE)
    deep = some(random, 0.4)
    below = None
    if deep and where is not None and kind is not TouchKind.FS_READ and some(random, 0.9):
        below = tuple(f"{where.path}/{path(random)}".lstrip("/") for _ in range(random.randint(0, 3)))
    return Touch(
        kind,
        where.path if where else "/elsewhere/x",
        deep,
        # Reading puts nothing back: no tool states that.
        random.choice((*_HOWS, How.PLAIN if kind is TouchKind.FS_READ else How.UNDO)),
        confirmed=some(random, 0.98),
        unsafe=some(random, 0.05),
        place=where,
        below=below,
    )


def touch(random: Random, world: World) -> Touch:
    if some(random, 0.7):
        return file_touch(random, world)
    kind = random.choice(tuple(TouchKind)[3:])
    if kind is TouchKind.NET_CONNECT:
        target = f"{random.choice(HOSTS)}:{random.choice(PORTS)}"
        return Touch(kind, target, unsafe=some(random, 0.4))
    if kind is TouchKind.TOOL_USE and some(random, 0.3):
        return Touch(kind, "mine", unsafe=True)
    if kind is TouchKind.PROC_EXEC:
        words = tuple(random.choice(WORDS) for _ in range(random.randint(1, 4)))
        doubt = "an expansion" if some(random, 0.2) else ""
        # An unsafe command is one that an agent runs itself: tests/hooks compares those.
        return Touch(kind, " ".join(words), words=words, doubt=doubt)
    return Touch(kind, random.choice(("mine", "notes")))


def move(random: Random, world: World) -> tuple[Touch, ...]:
    source = place(random, world)
    folder = source.kind is PlaceKind.DIRECTORY
    below = tuple(f"{source.path}/{path(random)}".lstrip("/") for _ in range(random.randint(0, 3))) if folder else None
    target = replace(place(random, world), kind=PlaceKind.MISSING)
    return (
        Touch(TouchKind.FS_DELETE, source.path, folder, How.MOVE, place=source, below=below),
        Touch(TouchKind.FS_WRITE, target.path, False, How.REPLACE, place=target),
    )


def script(random: Random) -> tuple[Touch, ...]:
    """A shell with a script, in doubt for that reason or for another one."""
    name = random.choice(("bash", "sh", "source", ".", "/bin/bash"))
    options = ["-e"] if name.endswith("sh") and some(random, 0.2) else []
    words = (name, *options, random.choice(("case.sh", "d/e.sh")), *["a"] * some(random, 0.3))
    own = f"{name.split('/')[-1]} runs what the file {words[1 + len(options)]} says"
    doubt = own if some(random, 0.8) else random.choice(("an expansion", f"{own}, in d"))
    return (Touch(TouchKind.PROC_EXEC, " ".join(words), words=words, doubt=doubt),)


def git(random: Random) -> tuple[Touch, ...]:
    """Git commands that write, and what they write."""
    names = [random.choice(("push", "commit")) for _ in range(random.randint(1, 2))]
    commands = [("git", name, *["a"] * some(random, 0.5)) for name in names]
    doubts = ["an expansion" if some(random, 0.1) else "" for _ in names]
    runs = [
        Touch(TouchKind.PROC_EXEC, " ".join(words), words=words, doubt=doubt)
        for words, doubt in zip(commands, doubts, strict=True)
    ]
    return (*runs, *(Touch(TouchKind.GIT_WRITE, name) for name in dict.fromkeys(names)))


def touches(random: Random, world: World) -> tuple[Touch, ...]:
    if some(random, 0.08):
        return random.choice((script, git))(random)
    if some(random, 0.1):
        return move(random, world)
    return tuple(touch(random, world) for _ in range(random.choice((*(1,) * 12, 2, 2, 3, 0))))


def grant(random: Random, asked: tuple[Touch, ...], world: World) -> Grant:
    targets = [(f"{item.kind.value}{'.unsafe' * some(random, 0.3)}", literal(item.shown)) for item in asked]
    if some(random, 0.25):
        targets = [(item.kind.value, random.choice((pattern(random), "**", f"{item.shown}/x"))) for item in asked]
    return Grant(
        f"g{random.randint(0, 99)}",
        "request",
        random.choice((*tuple(Scope), Scope.CALL, Scope.RUN)),
        world.tool.name if some(random, 0.9) else "another",
        random.choice(("digest", "digest", "other", "")),
        tuple(targets),
        random.choice(("r1", "r1", "r2")),
        random.choice((50.0, 100.0, 101.0, 1e9, 1e9)),
        random.choice((None, None, 0, 1, 5)),
    )


def world(random: Random) -> World:
    skilled = some(random, 0.15)
    narrowed = (frozenset[str](), frozenset({"fs.read"}), frozenset({"fs.read", "fs.write"}))
    return World(
        random.choice(TOOLS),
        roots=(WORKSPACE, *(root for root in ROOTS if some(random, 0.4))),
        enable=frozenset(name for name in ("fs", "exec", "delete_path", "write_file") if some(random, 0.85)),
        disable=frozenset(name for name in ("fs", "read_file", "mine") if some(random, 0.02)),
        protected=random.choice(((".env*", "!.env.example"), (), ("secrets/", ".env*"), ("s*", "!src", "x", "!src/x"))),
        skill_folders=random.choice(((), ("/ws/a",), ("/ws/d/e", "/data"), ("/ws",))),
        repositories=random.choice(REPOSITORIES),
        own_paths=random.choice(((), ("/state/runs", "/ws/.agent/runs"), ("/state", "/ws/b*d", "/ws/x"))),
        allowed_hosts=tuple(item for item in HOST_PATTERNS if some(random, 0.4)),
        asks_hosts=some(random, 0.3),
        mode=random.choice(tuple(Mode)),
        skill_name="skill" if skilled else None,
        skill_tools=frozenset(tool.name for tool in TOOLS if some(random, 0.8)) if skilled else None,
        permissions=random.choice(narrowed) if some(random, 0.06) else None,
        caller=random.choice(("python", "cli")),
        digest=random.choice(("digest", "digest", "")),
        now=100.0,
        run_id="r1",
        max_scope=random.choice((Scope.CALL, Scope.RUN, Scope.SESSION)),
        max_undo_bytes=1000,
        bulk_files=random.choice((2, 20, 20)),
        confined=some(random, 0.8),
        reviewed=some(random, 0.2),
        further_protected=random.choice(((), (), (), (("x", "!.env"),), (("a*", "!a"), ("!secrets", "d")))),
        environment=random.choice(("", "ci", "production")),
    )


def situation(random: Random) -> tuple[tuple[Touch, ...], World]:
    """One call and the world it is made in."""
    bare = world(random)
    asked = touches(random, bare)
    rules = tuple(rule(random, number, asked) for number in range(random.choice((0, 1, 2, 3, 4, 8))))
    grants = tuple(grant(random, asked, bare) for _ in range(random.choice((0, 1, 3))))
    return at_the_border(random, asked, replace(bare, rules=rules, grants=grants))


def at_the_border(random: Random, asked: tuple[Touch, ...], found: World) -> tuple[tuple[Touch, ...], World]:
    """Some worlds where programs run without a question, and some where their changes are judged."""
    kind = random.choice(("", "", "before", "changes"))
    if not kind:
        return asked, found
    found = replace(found, border=True, reviewed=True, changes=kind == "changes")
    if kind == "changes":
        return tuple(changed(random, touch) for touch in asked), found
    background = random.random() < 0.2
    return tuple(begun(random, touch, background) for touch in asked), found


def changed(random: Random, touch: Touch) -> Touch:
    if touch.kind not in (TouchKind.FS_WRITE, TouchKind.FS_DELETE):
        return touch
    return replace(touch, effect=random.choice(tuple(Effect)), doubt="a.txt")


def begun(random: Random, touch: Touch, background: bool) -> Touch:
    if touch.kind is TouchKind.PROC_EXEC and background:
        return replace(touch, how=How.BACKGROUND)
    return replace(touch, known=random.random() < 0.5) if touch.how is How.REPLACE else touch

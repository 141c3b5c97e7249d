"""Every setting: its type, default, meaning, and how an untrusted project's value meets the ones below it.

What belongs here: the shape of settings. What does not: where values come from.
Longer than 400 lines because all settings stand in one place, in the order of the reference page.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import BaseModel, ConfigDict, Field, Strict
from typing_extensions import TypedDict

from handrail.words import Decision, Mode, Scope

if TYPE_CHECKING:
    from handrail.policy.rules import Rule

TEXT = r"^[^\x00-\x1f\x7f]+$"
HOST = r"^(\*|(\*\.)?[^\s/*:@\[\]]+|\[[0-9A-Fa-f:.]+\])(:([0-9]{1,5}|\*))?$"
NETWORK = r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$"
NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
MIB = 1024 * 1024

Text = Annotated[str, Field(pattern=TEXT, max_length=4096)]
Host = Annotated[str, Field(pattern=HOST, max_length=300)]
Network = Annotated[str, Field(pattern=NETWORK, max_length=64)]
Name = Annotated[str, Field(pattern=NAME, max_length=128)]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=2**53)]  # 0: no bound
Positive = Annotated[int, Strict(), Field(ge=1, le=2**53)]
Seconds = Annotated[float, Strict(), Field(gt=0, le=10**9)]
SecondsOrNone = Annotated[float, Strict(), Field(ge=0, le=10**9)]  # 0: no bound, or no waiting


class Meets(StrEnum):
    """What an untrusted project's value may do to the value of the layers below it."""

    SHORTER = "shorter"  # keeps only what both lists have
    LONGER = "longer"  # adds to a list that forbids
    LOWER = "lower"
    HIGHER = "higher"
    STRICTER = "stricter"  # moves towards the strict end of `order`
    RULES = "rules"  # adds rules that ask or deny
    IGNORED = "ignored"  # nothing, until a person trusts the file


def key(default: Any, meets: Meets, says: str, *, order: tuple[Any, ...] = (), unbounded: bool = False) -> Any:
    """Declare a setting; `order` runs from loose to strict, `unbounded` says that 0 is no bound."""
    return Field(
        default, description=says, json_schema_extra={"meets": meets, "order": list(order), "unbounded": unbounded}
    )


class Section(BaseModel):
    """One table of the settings: unknown keys are errors, nothing changes after loading."""

    # Building is put off so that a call without settings files pays for no validator.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class WorkspaceSettings(Section):
    """The folders a run may touch."""

    root: Text = key(
        ".",
        Meets.IGNORED,  # as the next two: rules and protected names are told from the roots, so moving one moves them
        'The folder that tools work in; "run:workspace" for a fresh one in each run\'s folder; '
        "`{run_id}` in it stands for the run's name, and that folder is made.",
    )
    allow_absolute: Flag = key(
        False,
        Meets.STRICTER,
        "Whether tools take absolute paths, which must still lie beneath a root.",
        order=(True, False),
    )
    protected: tuple[Text, ...] = key(
        (".env*", "!.env.example"),
        Meets.LONGER,
        "Names that tools neither read nor change, at any depth and in any case; `!` takes a name out again.",
    )
    read: tuple[Text, ...] = key((), Meets.IGNORED, "Further folders that tools may read.")
    write: tuple[Text, ...] = key((), Meets.IGNORED, "Further folders that tools may read and write.")


class ToolSettings(Section):
    """Which tools are offered."""

    enable: tuple[Text, ...] = key(
        (), Meets.SHORTER, "Tools or toolsets to offer beyond the low-risk tools, which are always offered."
    )
    disable: tuple[Text, ...] = key(
        (), Meets.LONGER, "Tools or toolsets that are never offered, whatever enables them."
    )
    repair: Flag = key(
        True,
        Meets.STRICTER,
        "Whether small slips in arguments are mended (and reported) instead of refused.",
        order=(True, False),
    )


class ExecSettings(Section):
    """Programs that tools start."""

    sandbox: Literal["auto", "native", "bwrap", "none"] = key(
        "auto",
        Meets.STRICTER,
        "How programs are confined: the best way found here, a named one, or not at all.",
        order=("none", "native", "bwrap", "auto"),
    )
    allow_unconfined: Flag = key(
        False, Meets.STRICTER, 'Whether `sandbox = "none"` is taken; it is refused otherwise.', order=(True, False)
    )
    min_tier: Literal["A", "B"] = key(
        "B", Meets.STRICTER, "The least confinement: A demands namespaces, B is Landlock and seccomp.", order=("B", "A")
    )
    workspace: Literal["direct", "review"] = key(
        "direct",
        Meets.STRICTER,
        "Whether programs change the workspace itself, or a layer that is kept or dropped once its diff was judged.",
        order=("direct", "review"),
    )
    allowed_hosts: tuple[Host, ...] = key(
        (), Meets.SHORTER, "Hosts that programs may reach through the runtime's own proxy; none: no network."
    )
    timeout_seconds: Annotated[float, Strict(), Field(gt=0, le=600)] = key(
        120.0, Meets.LOWER, "The time limit of a command that names none."
    )
    pass_env: tuple[Name, ...] = key(
        (), Meets.SHORTER, "Environment variables that programs are given; secret-looking names never are."
    )
    allow: tuple[Text, ...] = key(
        (), Meets.SHORTER, "Commands that run without asking, as words: `npm test`, `git diff *`."
    )
    deny: tuple[Text, ...] = key((), Meets.LONGER, "Commands that never run, as words.")
    max_memory_bytes: Positive = key(4096 * MIB, Meets.LOWER, "Memory of one program and all it starts.")
    max_processes: Positive = key(512, Meets.LOWER, "Processes that one program may have at once.")
    max_file_bytes: Positive = key(1024 * MIB, Meets.LOWER, "The largest file that a program may write.")
    max_open_files: Positive = key(4096, Meets.LOWER, "Files that one process may hold open.")
    max_cpu_seconds: Positive = key(900, Meets.LOWER, "Processor time of one process.")
    max_scratch_bytes: Positive = key(
        512 * MIB, Meets.LOWER, "Space in /tmp, in /dev/shm and in the run's scratch folder, each."
    )
    max_jobs: Positive = key(16, Meets.LOWER, "Programs in the background at once.")
    kill_output_bytes: Positive = key(1024 * MIB, Meets.LOWER, "Output at which a program is ended; its ends are kept.")


class HttpSettings(Section):
    """What may be reached over the network."""

    allowed_hosts: tuple[Host, ...] = key(
        (), Meets.SHORTER, "Hosts that tools may reach: `name`, `name:port` or `*.name`; without a port 80 and 443."
    )
    allowed_networks: tuple[Network, ...] = key(
        (), Meets.SHORTER, "Inner networks that may be reached all the same, as `10.1.0.0/16`."
    )
    blocked_networks: tuple[Network, ...] = key((), Meets.LONGER, "Further networks that may not be reached.")
    max_bytes: Positive = key(
        5 * MIB, Meets.LOWER, "How large a response may be, decompressed; a call may ask for less."
    )
    max_download_bytes: Positive = key(100 * MIB, Meets.LOWER, "How large a download may be; a call may ask for less.")
    timeout_ms: Annotated[int, Strict(), Field(ge=1000, le=60000)] = key(
        15000, Meets.LOWER, "The time limit of a request that names none, redirects and retries included."
    )
    max_retries: Annotated[int, Strict(), Field(ge=0, le=10)] = key(
        2, Meets.LOWER, "How often a failed GET or HEAD is tried again."
    )
    retry_post: Flag = key(
        False, Meets.STRICTER, "Whether a POST with an idempotency key may be tried again.", order=(True, False)
    )
    user_agent: Text = key(
        "handrail", Meets.IGNORED, "What requests say they come from; without a `/` the version is added."
    )
    spill_large: Flag = key(
        True, Meets.STRICTER, "Whether a large body is kept whole in the run's folder.", order=(True, False)
    )
    rate_per_minute: Count = key(0, Meets.LOWER, "Requests a minute to one host.", unbounded=True)
    max_connections: Positive = key(16, Meets.LOWER, "Requests at once.")
    ca_file: Text | None = key(None, Meets.IGNORED, "Certificates to trust instead of the system's.")
    credentials: dict[Host, Text] = key(
        {},
        Meets.IGNORED,
        "Credentials by host, never shown to a model: `env:NAME`, `file:PATH` or `python:module:function`; "
        "the value is sent as `Authorization` unless it names its header (`X-Api-Key: …`).",
    )


class SkillSettings(Section):
    """Where skills are found."""

    folders: tuple[Text, ...] = key(
        (".agents/skills", ".claude/skills"), Meets.SHORTER, "Folders of skills, relative to the workspace."
    )
    user: Flag = key(True, Meets.STRICTER, "Whether the user's own skills are offered, too.", order=(True, False))


class MemorySettings(Section):
    """What is remembered across runs."""

    enabled: Flag = key(True, Meets.STRICTER, "Whether notes can be recalled and written at all.", order=(True, False))
    provider: Literal["sqlite", "http"] = key(
        "sqlite", Meets.IGNORED, "Where notes live: files in the user's state folder, or a service."
    )
    write_mode: Literal["disabled", "candidate", "external"] = key(
        "candidate",
        Meets.STRICTER,
        "What writing does: it is not offered, it waits for a person to accept, or it reaches the provider at once.",
        order=("external", "candidate", "disabled"),
    )
    url: Text | None = key(
        None, Meets.IGNORED, 'The service of `provider = "http"`, as `https://notes.example.org/v1`.'
    )
    timeout_seconds: Annotated[float, Strict(), Field(gt=0, le=60)] = key(
        10.0, Meets.LOWER, "The time limit of one request to the service."
    )


class LinterText(TypedDict):
    """One linter of the operator's, by the language it is for."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    files: NotRequired[tuple[Text, ...]]
    format: NotRequired[Literal["gcc", "json"]]
    input: NotRequired[Literal["stdin", "path"]]
    exit_codes: NotRequired[tuple[int, ...]]


class SearchSettings(Section):
    """The index of codebase_search."""

    index: Flag = key(
        True, Meets.STRICTER, "Whether an index is kept in the user's cache folder; without one, grep answers.",
        order=(True, False),
    )  # fmt: skip
    max_file_bytes: Positive = key(MIB, Meets.LOWER, "Files larger than this are not indexed.")
    max_files: Positive = key(100_000, Meets.LOWER, "How many files of one workspace are indexed.")
    vectors: Literal["auto", "on", "off"] = key(
        "auto",
        Meets.STRICTER,
        "Whether an embedding helps to rank: where it is installed, always (with a warning where it is not), never.",
        order=("on", "auto", "off"),
    )


class ApprovalSettings(Section):
    """How people are asked."""

    max_scope: Literal["call", "run", "session"] = key(
        "run",
        Meets.STRICTER,
        "The widest scope a person may grant: this call, this run, or across runs.",
        order=("session", "run", "call"),
    )
    expiry_seconds: Seconds = key(900.0, Meets.LOWER, "How long a request can be answered.")
    wait_seconds: SecondsOrNone = key(
        300.0, Meets.LOWER, "How long a call waits for its answer before it ends as pending; 0 does not wait."
    )

    @property
    def widest(self) -> Scope:
        """`max_scope` as policy compares it."""
        return Scope[self.max_scope.upper()]


class McpSettings(Section):
    """The server that `handrail mcp` is."""

    trust_client_approval: Flag = key(
        False,
        Meets.STRICTER,
        "Whether a client's own answer to a form counts as approval; it is recorded as given by `mcp-client`.",
        order=(True, False),
    )
    wait_seconds: SecondsOrNone = key(
        25.0,
        Meets.LOWER,
        "How long a call waits for its approval before it ends as pending, `approvals.wait_seconds` at most; "
        "clients give up on long calls.",
    )
    page_size: Positive = key(100, Meets.IGNORED, "How many tools, resources or prompts one page of a list has.")


class LimitSettings(Section):
    """How much one call and one run may use; a budget of 0 is no bound."""

    timeout_seconds: Seconds = key(30.0, Meets.LOWER, "The deadline of every call whose tool has none of its own.")
    max_read_bytes: Positive = key(
        5 * MIB, Meets.LOWER, "How large a file may be to be read whole; a call may ask for less."
    )
    max_output_lines: Positive = key(2000, Meets.LOWER, "How many lines a model is shown of one result.")
    max_output_bytes: Positive = key(51200, Meets.LOWER, "How many bytes a model is shown of one result.")
    bulk_files: Positive = key(20, Meets.LOWER, "A call that changes more files than this asks first.")
    max_calls: Count = key(0, Meets.LOWER, "Budget of a run: calls attempted.", unbounded=True)
    max_wall_seconds: SecondsOrNone = key(
        0.0, Meets.LOWER, "Budget of a run: seconds since it was started.", unbounded=True
    )
    max_bytes_read: Count = key(0, Meets.LOWER, "Budget of a run: bytes read from files.", unbounded=True)
    max_bytes_written: Count = key(0, Meets.LOWER, "Budget of a run: bytes written to files.", unbounded=True)
    max_files_changed: Count = key(0, Meets.LOWER, "Budget of a run: files changed.", unbounded=True)
    max_processes: Count = key(0, Meets.LOWER, "Budget of a run: processes started.", unbounded=True)
    max_prompts: Count = key(100, Meets.LOWER, "Budget of a run: times a person is asked.", unbounded=True)
    max_repeats: Count = key(
        5, Meets.LOWER, "How often the same call may give the same answer before it is stopped.", unbounded=True
    )
    breaker_failures: Count = key(
        5, Meets.LOWER, "After this many failures in a row a tool is not tried for a while.", unbounded=True
    )
    breaker_seconds: Seconds = key(30.0, Meets.HIGHER, "How long a tool that keeps failing is not tried.")
    rate: dict[Name, Positive] = key({}, Meets.LOWER, "Calls a minute, by tool.", unbounded=True)
    concurrency: dict[Name, Positive] = key({}, Meets.LOWER, "Calls at once, by tool.", unbounded=True)


class UndoSettings(Section):
    """What is kept so that changes can be taken back."""

    max_bytes: Count = key(256 * MIB, Meets.IGNORED, "How many bytes of former content are kept for one run.")
    max_file_bytes: Count = key(
        32 * MIB, Meets.IGNORED, "A change of a file larger than this cannot be taken back, so it asks first."
    )


class RedactionSettings(Section):
    """What is hidden beyond the secrets that are known by shape."""

    patterns: dict[Name, Text] = key({}, Meets.IGNORED, "Further patterns to hide, as `name = regular expression`.")
    known: tuple[Text, ...] = key(
        (), Meets.IGNORED, "Further environment variables whose values are hidden wherever they appear."
    )


Touches = Literal[
    "fs.read",
    "fs.write",
    "fs.delete",
    "proc.exec",
    "net.connect",
    "git.write",
    "memory.write",
    "tool.use",
    "fs.*",
    "proc.*",
    "net.*",
    "git.*",
    "memory.*",
    "tool.*",
]


class RuleText(Section):
    """One `[[rules]]` entry as it is written; all given fields must match."""

    effect: Literal["allow", "ask", "deny"] = Field(description="What the rule says: allow, ask or deny.")
    touch: Touches | None = key(None, Meets.RULES, "The kind of touch it is about, or a family such as `fs.*`.")
    target: Text | None = key(
        None, Meets.RULES, "What is touched: a path as glob, a host, or the words of a command; none: everything."
    )
    tool: Text | None = key(None, Meets.RULES, "The tool it is about.")
    skill: Text | None = key(None, Meets.RULES, "The active skill it is about.")
    caller: Text | None = key(None, Meets.RULES, "The front end it is about.")
    why: str = key("", Meets.RULES, "What the model and the person are told.")
    matches: tuple[str, ...] = key((), Meets.RULES, "Targets that the rule must match, checked when it is loaded.")
    misses: tuple[str, ...] = key((), Meets.RULES, "Targets that the rule must not match, checked when it is loaded.")


class RuleEntry(RuleText):
    """A rule in force, with where it stands."""

    id: str = ""
    where: str = ""
    narrows: bool = False  # from an untrusted project: it may make a decision stricter, never replace a default

    def rule(self) -> "Rule":
        """Give the rule as policy knows it."""
        from handrail.policy.rules import Rule

        return Rule(
            effect=Decision[self.effect.upper()],
            id=self.id,
            touch=self.touch,
            target=self.target,
            tool=self.tool,
            skill=self.skill,
            caller=self.caller,
            why=self.why,
            where=self.where,
            matches=self.matches,
            misses=self.misses,
            narrows=self.narrows,
        )


class Written(Section):
    """What one layer may say."""

    mode: Mode = key(
        Mode.INTERACTIVE,
        Meets.STRICTER,
        "Whether a person can be asked (interactive) or asking is a refusal (headless).",
        order=(Mode.INTERACTIVE, Mode.HEADLESS),
    )
    runs_dir: Text | None = key(None, Meets.IGNORED, "The folder of runs; none: the user's state folder.")
    workspace: WorkspaceSettings = WorkspaceSettings.model_construct()
    tools: ToolSettings = ToolSettings.model_construct()
    exec: ExecSettings = ExecSettings.model_construct()
    http: HttpSettings = HttpSettings.model_construct()
    skills: SkillSettings = SkillSettings.model_construct()
    memory: MemorySettings = MemorySettings.model_construct()
    search: SearchSettings = SearchSettings.model_construct()
    lints: dict[Name, LinterText] = key(
        {},
        Meets.IGNORED,
        'Linters by language: `go = {command = ["gofmt", "-e"], files = ["*.go"], format = "gcc"}`; '
        "`{path}` in a command stands for the file's path.",
    )
    approvals: ApprovalSettings = ApprovalSettings.model_construct()
    mcp: McpSettings = McpSettings.model_construct()
    limits: LimitSettings = LimitSettings.model_construct()
    undo: UndoSettings = UndoSettings.model_construct()
    redaction: RedactionSettings = RedactionSettings.model_construct()
    rules: tuple[RuleText, ...] = key((), Meets.RULES, "The operator's rules, in all layers together.")


class Settings(Written):
    """The settings in force: paths absolute, rules with their places."""

    rules: tuple[RuleEntry, ...] = ()

    @property
    def enabled(self) -> frozenset[str]:
        """Tools and toolsets that are offered beyond the low-risk ones; naming a host offers those that reach it."""
        return frozenset(self.tools.enable) | ({"http"} if self.http.allowed_hosts else set())


class Key(NamedTuple):
    """One setting, as reference pages and merging need it."""

    name: str  # "limits.timeout_seconds"
    type: str
    default: Any
    meets: Meets
    says: str
    order: tuple[Any, ...] = ()
    unbounded: bool = False


def keys() -> tuple[Key, ...]:
    """All settings but rules, in the order of the file."""
    return _KEYS


def rule_keys() -> tuple[Key, ...]:
    """The fields of one rule."""
    return tuple(_key(f"rules.{name}", field) for name, field in RuleText.model_fields.items())


def _keys() -> Iterator[Key]:
    for name, field in Written.model_fields.items():
        if isinstance(field.default, Section):
            for inner, inner_field in type(field.default).model_fields.items():
                yield _key(f"{name}.{inner}", inner_field)
        elif name != "rules":
            yield _key(name, field)


def _key(name: str, field: Any) -> Key:
    extra = field.json_schema_extra or {"meets": Meets.RULES, "order": (), "unbounded": False}
    default = None if field.is_required() else field.default
    return Key(
        name,
        _type_name(field.annotation),
        default,
        extra["meets"],
        field.description or "",
        tuple(extra["order"]),
        extra["unbounded"],
    )


_TYPE_NAMES = {"tuple": "list", "dict": "table", "bool": "boolean", "int": "integer", "float": "number"}


def _type_name(annotation: Any) -> str:
    """Name a type in the words of TOML."""
    text = str(getattr(annotation, "__origin__", annotation))
    if "Literal" in text:
        return " | ".join(str(item) for item in annotation.__args__)
    if annotation is Mode:
        return " | ".join(Mode)
    return next((name for mark, name in _TYPE_NAMES.items() if mark in text), "text")


_KEYS = tuple(_keys())
BY_NAME = {item.name: item for item in _KEYS}
SECTIONS = tuple(name for name, field in Written.model_fields.items() if isinstance(field.default, Section))

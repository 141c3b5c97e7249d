"""Every setting: its type, default, meaning, and how an untrusted project's value meets the ones below it.

What belongs here: the shape of settings. What does not: where values come from.
Longer than 500 lines because all settings stand in one place, in the order of the reference page.
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
_PATH = "absolute, and not beneath a folder that tools may write"
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
        "Names that tools neither read nor change, at any depth and in any case. The lists of all layers add up; "
        "`!` takes out what the same list put in.",
    )
    read: tuple[Text, ...] = key((), Meets.IGNORED, "Further folders that tools may read.")
    write: tuple[Text, ...] = key((), Meets.IGNORED, "Further folders that tools may read and write.")


class ToolSettings(Section):
    """Which tools are offered."""

    enable: tuple[Text, ...] = key(
        (), Meets.SHORTER, "Tools or toolsets to offer beyond the low-risk tools, which are always offered."
    )
    disable: tuple[Text, ...] = key(
        (), Meets.LONGER, "Tools or toolsets that are never offered, whatever enables them; all layers add up."
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
    ask: Literal["unless-allowed", "border"] = key(
        "unless-allowed",
        Meets.STRICTER,
        "When a person is asked about a command: unless a rule allows it, or only for what it would take through the "
        "border: hosts, and changes that cannot be undone or run programs elsewhere. `border` needs tier A and "
        '`workspace = "review"`; without them commands are asked for as ever.',
        order=("border", "unless-allowed"),
    )
    allowed_hosts: tuple[Host, ...] = key(
        (), Meets.SHORTER, "Hosts that programs may reach through the runtime's own proxy; none: no network."
    )
    hosts: Literal["refuse", "ask"] = key(
        "refuse",
        Meets.STRICTER,
        "What happens when a program reaches for a host that `exec.allowed_hosts` does not name: it is refused, or "
        "a person is asked while the connection waits; `ask` needs tier A.",
        order=("ask", "refuse"),
    )
    allowed_sockets: tuple[Text, ...] = key(
        (),
        Meets.SHORTER,
        "UNIX sockets and FIFOs that programs may use: paths or globs beneath the roots, or whole paths elsewhere.",
    )
    timeout_seconds: Annotated[float, Strict(), Field(gt=0, le=600)] = key(
        120.0, Meets.LOWER, "The time limit of a command or script that names none."
    )
    pass_env: tuple[Name, ...] = key(
        (), Meets.SHORTER, "Environment variables that programs are given; secret-looking names never are."
    )
    allow: tuple[Text, ...] = key(
        (), Meets.SHORTER, "Commands that run without asking, as words: `npm test`, `git diff *`."
    )
    deny: tuple[Text, ...] = key((), Meets.LONGER, "Commands that never run, as words; all layers add up.")
    max_memory_bytes: Positive = key(4096 * MIB, Meets.LOWER, "Memory of one program and all it starts.")
    max_processes: Positive = key(512, Meets.LOWER, "Processes that one program may have at once.")
    max_file_bytes: Positive = key(1024 * MIB, Meets.LOWER, "The largest file that a program may write.")
    max_open_files: Positive = key(4096, Meets.LOWER, "Files that one process may hold open.")
    max_cpu_seconds: Positive = key(900, Meets.LOWER, "Processor time of one process.")
    max_scratch_bytes: Positive = key(
        512 * MIB, Meets.LOWER, "Space in /tmp, in /dev/shm and in the run's scratch folder, each."
    )
    max_cache_bytes: Annotated[int, Strict(), Field(ge=0, le=2**53)] = key(
        2048 * MIB,
        Meets.LOWER,
        "Space for the package caches of a workspace, which are emptied when they have grown beyond it; 0: none.",
    )
    max_layer_bytes: Positive = key(
        4096 * MIB,
        Meets.LOWER,
        "Space on disk for what one program changes before it is kept; in memory `max_scratch_bytes` is the bound.",
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
    blocked_networks: tuple[Network, ...] = key(
        (), Meets.LONGER, "Further networks that may not be reached; all layers add up."
    )
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
    narrow: Flag = key(
        False,
        Meets.STRICTER,
        "Whether an active skill's `allowed-tools` refuses every other tool; without it the list neither opens nor "
        "closes anything.",
        order=(False, True),
    )
    script_folders: tuple[Text, ...] = key(
        ("scripts",),
        Meets.SHORTER,
        "Folders of a skill whose programs `run_script` may run, relative to the skill; `.` is the skill's own folder "
        "with all below.",
    )


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


class ProgramSettings(Section):
    """Paths of programs that Handrail starts itself, where they are not to be searched for."""

    bwrap: Text | None = key(None, Meets.IGNORED, f"The path of bubblewrap; {_PATH}.")
    rg: Text | None = key(None, Meets.IGNORED, f"The path of ripgrep; {_PATH}.")
    ruff: Text | None = key(None, Meets.IGNORED, f"The path of ruff; {_PATH}.")

    def named(self) -> dict[str, str]:
        """Give the paths that are set, by the program's name."""
        return {name: path for name, path in dict(self).items() if path is not None}


class ApprovalSettings(Section):
    """How people are asked."""

    max_scope: Literal["call", "run", "session", "always"] = key(
        "run",
        Meets.STRICTER,
        "The widest scope a person may grant: this call, this run, across runs for some hours, "
        "or in this workspace until it is removed.",
        order=("always", "session", "run", "call"),
    )
    run_covers: Literal["target", "tool"] = key(
        "target", Meets.STRICTER, "What a yes for the run covers: the same tool with the same targets, or with any.",
        order=("tool", "target"),
    )  # fmt: skip
    expiry_seconds: SecondsOrNone = key(
        86400.0,
        Meets.LOWER,
        "How long a request can be answered; 0: until its run or a person ends it.",
        unbounded=True,
    )
    park: Flag = key(
        True,
        Meets.STRICTER,
        "Whether a call that ended as pending is made by `handrail serve` once it is granted. Its request then stays "
        "after its run where the service runs, or where settings say this.",
        order=(True, False),
    )
    four_eyes: Flag = key(
        False, Meets.STRICTER, "Whether a person's own calls must be answered by somebody else.", order=(False, True)
    )
    wait_seconds: SecondsOrNone = key(
        300.0, Meets.LOWER, "How long a call waits for its answer before it ends as pending; 0 does not wait."
    )
    keep_after_run: Flag = key(
        False,
        Meets.STRICTER,
        "Whether requests that nobody answered can still be answered once their run has ended; "
        "those of `handrail call` always can.",
        order=(True, False),
    )
    max_pending: Positive = key(100, Meets.LOWER, "How many requests of one run may wait for an answer.")
    max_pending_bytes: Positive = key(
        16 * MIB, Meets.LOWER, "How many bytes the requests of one run that wait for an answer may take."
    )
    notify: Text | None = key(
        None,
        Meets.IGNORED,
        "How a person is told of a new request: `bell`, or a command such as `notify-send Handrail '{text}'` "
        "(`{text}`, `{id}` and `{workspace}` are filled in; no shell). A project's file takes `bell` alone.",
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
    listing: Literal["whole", "short"] = key(
        "whole",
        Meets.IGNORED,
        "How tools are listed: whole, or in less of a model's context: results by the names and types of their parts "
        "alone, and without version, toolset and risk.",
    )


class HookSettings(Section):
    """The agents that ask Handrail through their own hooks: `handrail hook`."""

    ask: Literal["native", "inbox"] = key(
        "native",
        Meets.STRICTER,
        "Who puts a question to the person: the agent itself where people see its question, or `handrail approvals`. "
        "Where nobody would see the agent's question, it is always the latter.",
        order=("native", "inbox"),
    )
    allow: Flag = key(
        False,
        Meets.STRICTER,
        "Whether an allowed call skips the agent's own question, too; without it Handrail is silent and the agent "
        "asks as it would alone.",
        order=(True, False),
    )


class NotifySettings(Section):
    """How people are told that an agent waits for them, or has stopped; `handrail serve` tells of requests."""

    command: tuple[Text, ...] = key(
        (),
        Meets.IGNORED,
        "A program and its arguments, started with one JSON object on its input: `agent`, `event`, `message`, "
        f"`workspace`, `run`. Its path is {_PATH}.",
    )
    ntfy: Text | None = key(
        None,
        Meets.IGNORED,
        "The address of a topic of ntfy or a server that speaks the same, as `https://ntfy.example.org/topic`. It is "
        "told the tool, the workspace's name and a link, and nothing else.",
    )
    ntfy_token_env: Name | None = key(None, Meets.IGNORED, "The variable that holds the access token of that server.")
    after_seconds: SecondsOrNone = key(
        3.0, Meets.IGNORED, "How long a request waits before anybody is told: who sits there answers first."
    )


class ServedWorkspace(TypedDict):
    """One folder that callers of the service may work in, by the name they give."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    path: Text
    roles: NotRequired[tuple[Text, ...]]


class ServeSettings(Section):
    """The service that `handrail serve` is."""

    workspaces: dict[Name, ServedWorkspace] = key(
        {},
        Meets.IGNORED,
        'Folders that callers may name: `app = {path = "/srv/app", roles = ["caller"]}`; `roles` are roles or names of '
        "identities, none: every caller.",
    )
    idle_seconds: Seconds = key(600.0, Meets.IGNORED, "After how long without a call a caller's run is closed.")
    login_attempts: Positive = key(10, Meets.IGNORED, "Failed logins a minute from one address before it has to wait.")


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


class AgentSettings(Section):
    """Handrail's own agent: its model, and what stops it."""

    provider: Literal["pydantic-ai", "json", "scripted"] = key(
        "pydantic-ai",
        Meets.IGNORED,
        "How models are reached: with function calling, by one JSON object a response, or as a script tells.",
    )
    model: Text | None = key(None, Meets.IGNORED, "The model, as Pydantic AI names it: `openai:gpt-5`.")
    max_turns: Count = key(50, Meets.LOWER, "How often a model is asked in one task.", unbounded=True)
    max_wall_seconds: SecondsOrNone = key(
        3600.0, Meets.LOWER, "How long a task works; waiting for a person is not counted.", unbounded=True
    )
    max_tokens: Count = key(0, Meets.LOWER, "Tokens of one task, sent and received.", unbounded=True)
    max_tool_calls: Count = key(500, Meets.LOWER, "Tool calls of one task.", unbounded=True)
    model_retries: Annotated[int, Strict(), Field(ge=0, le=20)] = key(
        3, Meets.LOWER, "How often a model that failed is asked again, after a while each time."
    )
    context_bytes: Annotated[int, Strict(), Field(ge=10_000, le=2**40)] = key(
        400_000, Meets.LOWER, "How much a model is sent at once; beyond it old results become their summary."
    )
    instructions: Text | None = key(None, Meets.IGNORED, "A file of further instructions to the model.")
    approval_seconds: SecondsOrNone = key(
        0.0, Meets.LOWER, "How long requests and grants of tasks hold; 0: until they are answered.", unbounded=True
    )


class UndoSettings(Section):
    """What is kept so that changes can be taken back."""

    max_bytes: Count = key(256 * MIB, Meets.IGNORED, "How many bytes of former content are kept for one run.")
    max_file_bytes: Count = key(
        32 * MIB, Meets.IGNORED, "A change of a file larger than this cannot be taken back, so it asks first."
    )
    keep_days: Count = key(30, Meets.IGNORED, "For how many days `runs prune` leaves what undo needs; 0: for ever.")


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
    risk: Literal["low", "medium", "high"] | None = key(None, Meets.RULES, "The risk of the tools it is about.")
    environment: Name | None = key(
        None, Meets.RULES, "The environment it is about: the `environment` that settings name at start."
    )
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
            risk=self.risk,
            environment=self.environment,
        )


class Written(Section):
    """What one layer may say."""

    mode: Mode = key(
        Mode.INTERACTIVE,
        Meets.STRICTER,
        "Whether a person can be asked (interactive) or asking is a refusal (headless).",
        order=(Mode.INTERACTIVE, Mode.HEADLESS),
    )
    environment: Annotated[str, Field(pattern=r"^([A-Za-z][A-Za-z0-9_.-]*)?$", max_length=128)] = key(
        "",
        Meets.IGNORED,
        "The name of where this runs, such as `ci` or `production`: rules with the same `environment` count.",
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
    programs: ProgramSettings = ProgramSettings.model_construct()
    approvals: ApprovalSettings = ApprovalSettings.model_construct()
    mcp: McpSettings = McpSettings.model_construct()
    hooks: HookSettings = HookSettings.model_construct()
    notify: NotifySettings = NotifySettings.model_construct()
    serve: ServeSettings = ServeSettings.model_construct()
    limits: LimitSettings = LimitSettings.model_construct()
    agent: AgentSettings = AgentSettings.model_construct()
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

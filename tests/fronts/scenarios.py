"""What every front end must do alike: settings, files, calls, and how each call must end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Args = Mapping[str, Any]

OK, FAILED, DENIED, PENDING = "ok", "failed", "denied", "pending"


@dataclass(frozen=True, slots=True)
class Do:
    """One call, and how it must end: status, code, decision."""

    tool: str
    args: Args = field(default_factory=dict)
    status: str = OK
    code: str | None = None
    decision: str = "allow"
    key: str | None = None
    permissions: str | None = None
    skill: str | None = None
    shows: str = ""  # stands in the content
    hides: str = ""  # does not


@dataclass(frozen=True, slots=True)
class Answer:
    """A person elsewhere answers the last request."""

    word: str = "grant"


@dataclass(frozen=True, slots=True)
class Replay:
    """The last request is replayed by its id."""

    status: str = OK
    code: str | None = None
    decision: str = "ask"


@dataclass(frozen=True, slots=True)
class Edit:
    """Somebody changes a file behind Handrail's back."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The whole of the last cut output is read through its `run:` name."""

    shows: str


@dataclass(frozen=True, slots=True)
class Undo:
    """All that the run changed is taken back."""

    status: str = OK
    code: str | None = None


Step = Do | Answer | Replay | Edit | Rest | Undo


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workspace, what is done in it, and what it looks like afterwards."""

    name: str
    steps: tuple[Step, ...]
    settings: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str | None] = field(default_factory=dict)  # None: nothing is there
    volatile: bool = False  # the answer holds the time

    def __str__(self) -> str:
        return self.name


FS = 'tools.enable = ["fs", "delete_path"]\n'
A = {"a.txt": "one\ntwo\nthree\n"}
SECRET = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
LONG = {"template": "{{#n}}{{.}} of many\n{{/n}}", "data": {"n": list(range(1, 401))}}
OVERWRITE = {"path": "a.txt", "content": "new\n", "mode": "overwrite"}
READ_A = Do("read_file", {"path": "a.txt"}, shows="two")
ASKED = Do("write_file", OVERWRITE, PENDING, "APPROVAL_REQUIRED", "ask")
PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-two
+TWO
*** Add File: made/b.txt
+fresh
*** End Patch
"""


def bad(tool: str, args: Args, code: str = "INVALID_ARGS", **more: Any) -> Do:
    """A call that fails before anything is judged."""
    return Do(tool, args, FAILED, code, "deny", **more)


def fails(tool: str, args: Args, code: str, **more: Any) -> Do:
    """A call that is allowed and fails."""
    return Do(tool, args, FAILED, code, "allow", **more)


def denied(tool: str, args: Args, code: str = "POLICY_DENIED", **more: Any) -> Do:
    """A call that policy denies."""
    return Do(tool, args, DENIED, code, "deny", **more)


TOOLS = (
    Scenario("read a file", (READ_A,), files=A),
    Scenario(
        "read some lines",
        (Do("read_file", {"path": "a.txt", "offset": 2, "limit": 1}, shows="two", hides="three"),),
        files=A,
    ),
    Scenario("read what is not there", (fails("read_file", {"path": "b.txt"}, "NOT_FOUND"),), files=A),
    Scenario("read a folder", (fails("read_file", {"path": "d"}, "NOT_A_FILE"),), files={"d/x": ""}),
    Scenario("read what is no text", (fails("read_file", {"path": "z"}, "NOT_TEXT"),), files={"z": "a\0b" * 50}),
    Scenario("list a folder", (Do("list_dir", {"depth": 2}, shows="d/x"),), files={"d/x": "1", ".env": "S=1"}),
    Scenario("look at a file", (Do("stat_path", {"path": "a.txt"}, shows="14"),), files=A),
    Scenario("hash a file", (Do("hash_file", {"path": "a.txt"}),), files=A),
    Scenario(
        "find files",
        (Do("find_files", {"pattern": "*.txt", "respect_ignore": False}, shows="d/b.txt"),),
        files={**A, "d/b.txt": "", "c.md": ""},
    ),
    Scenario("search in files", (Do("grep", {"pattern": "^t"}, shows="three"),), files=A),
    Scenario("search with a broken pattern", (fails("grep", {"pattern": "("}, "INVALID_ARGS"),), files=A),
    Scenario("tell the time", (Do("now", {}),), volatile=True),
    Scenario("tell the time nowhere", (fails("now", {"timezone": "Mars/Base"}, "INVALID_ARGS"),)),
    Scenario("hash a text", (Do("hash_text", {"text": "héllo"}),)),
    Scenario("pick from JSON", (Do("json_select", {"expression": "a[0]", "json": {"a": [7]}}, shows="7"),)),
    Scenario(
        "pick from a JSON file",
        (Do("json_select", {"expression": "n", "path": "d.json"}, shows="5"),),
        files={"d.json": '{"n": 5}'},
    ),
    Scenario(
        "fill a template", (Do("render_template", {"template": "hi {{n}}", "data": {"n": "Ada"}}, shows="hi Ada"),)
    ),
    Scenario("shorten a text", (Do("truncate_text", {"text": "abcdefghij" * 9, "max_chars": 20}),)),
    Scenario("show something", (Do("display", {"content": "**hello**", "level": "success"}),)),
    Scenario("write a new file", (Do("write_file", {"path": "d/n.txt", "content": "x"}),), FS, after={"d/n.txt": "x"}),
    Scenario(
        "write over a file without asking for it",
        (Do("write_file", {"path": "a.txt", "content": "x"}, FAILED, "ALREADY_EXISTS", "ask"),),
        FS,
        A,
        A,
    ),
    Scenario(
        "append",
        (Do("write_file", {"path": "a.txt", "content": "4\n", "mode": "append"}),),
        FS,
        A,
        {"a.txt": "one\ntwo\nthree\n4\n"},
    ),
    Scenario(
        "edit a file",
        (Do("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}),),
        FS,
        A,
        {"a.txt": "one\n2\nthree\n"},
    ),
    Scenario(
        "edit what does not stand there",
        (fails("edit_file", {"path": "a.txt", "edits": [{"old": "zwei", "new": "2"}]}, "NO_MATCH"),),
        FS,
        A,
        A,
    ),
    Scenario(
        "apply a patch",
        (Do("apply_patch", {"patch": PATCH}),),
        FS,
        A,
        {"a.txt": "one\nTWO\nthree\n", "made/b.txt": "fresh\n"},
    ),
    Scenario(
        "apply half a patch",
        (fails("apply_patch", {"patch": PATCH.replace("-two", "-zwei")}, "NO_MATCH"),),
        FS,
        A,
        {**A, "made": None},
    ),
    Scenario(
        "move a file",
        (Do("move_path", {"source": "a.txt", "target": "d/b.txt"}),),
        FS,
        A,
        {"a.txt": None, "d/b.txt": "one\ntwo\nthree\n"},
    ),
    Scenario("make a folder", (Do("make_dir", {"path": "p/q"}),), FS, after={"p": ""}),
)

GATES = (
    Scenario("an unknown tool", (bad("read_fil", {"path": "a.txt"}, "UNKNOWN_TOOL"),), files=A),
    Scenario("a missing argument", (bad("read_file", {}),)),
    Scenario("a misnamed argument", (bad("read_file", {"file_path": "a.txt"}),), files=A),
    Scenario("an argument of the wrong type", (bad("read_file", {"path": "a.txt", "limit": [1]}),), files=A),
    Scenario("a slip that is mended", (Do("read_file", {"path": "a.txt", "limit": None}, shows="three"),), files=A),
    Scenario(
        "a slip that may not be mended",
        (bad("read_file", {"path": "a.txt", "limit": None}),),
        "tools.repair = false\n",
        A,
    ),
    Scenario("a path outside", (denied("read_file", {"path": "../../etc/passwd"}, "PATH_OUTSIDE_ROOTS"),)),
    Scenario("an absolute path", (denied("read_file", {"path": "/etc/passwd"}, "PATH_OUTSIDE_ROOTS"),)),
    Scenario("a protected file", (denied("read_file", {"path": ".env"}, "PATH_PROTECTED"),), files={".env": "S=1"}),
    Scenario(
        "key material", (denied("read_file", {"path": ".ssh/id_rsa"}, "PATH_PROTECTED"),), files={".ssh/id_rsa": "k"}
    ),
    Scenario("a tool that is not enabled", (denied("write_file", {"path": "n", "content": "x"}),), after={"n": None}),
    Scenario(
        "a tool that is disabled", (denied("read_file", {"path": "a.txt"}),), 'tools.disable = ["read_file"]\n', A
    ),
    Scenario(
        "a rule that denies",
        (denied("read_file", {"path": "a.txt"}),),
        '[[rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "*.txt"\n',
        A,
    ),
    Scenario(
        "a rule that allows",
        (READ_A, Do("write_file", OVERWRITE)),
        FS + '[[rules]]\neffect = "allow"\ntouch = "fs.write"\ntarget = "a.txt"\n',
        A,
        {"a.txt": "new\n"},
    ),
    Scenario("deleting without confirming", (denied("delete_path", {"path": "a.txt"}),), FS, A, A),
    Scenario(
        "permissions that narrow",
        (denied("write_file", {"path": "n", "content": "x"}, permissions="fs.read"),),
        FS,
        after={"n": None},
    ),
    Scenario("a skill that nobody knows", (denied("read_file", {"path": "a.txt"}, skill="unknown"),), files=A),
    Scenario(
        "a budget that is used up",
        (READ_A, denied("hash_file", {"path": "a.txt"}, "BUDGET_EXHAUSTED")),
        "limits.max_calls = 1\n",
        A,
    ),
    Scenario(
        "secrets in output",
        (Do("read_file", {"path": "s.txt"}, shows="REDACTED", hides=SECRET),),
        files={"s.txt": f"token {SECRET}\n"},
    ),
    Scenario(
        "output that is cut, and its rest",
        (Do("render_template", LONG, shows="run:observations/"), Rest("400 of many")),
        "limits.max_output_lines = 50\n",
    ),
)

HEADLESS = 'mode = "headless"\n'
APPROVALS = (
    Scenario("a question that nobody answers", (READ_A, ASKED), HEADLESS + FS, A, A),
    Scenario("the same question twice", (READ_A, ASKED, ASKED), HEADLESS + FS, A, A),
    Scenario(
        "granted elsewhere, then repeated",
        (READ_A, ASKED, Answer(), Do("write_file", OVERWRITE, decision="ask")),
        HEADLESS + FS,
        A,
        {"a.txt": "new\n"},
    ),
    Scenario(
        "granted elsewhere, then replayed by id",
        (READ_A, ASKED, Answer(), Replay()),
        HEADLESS + FS,
        A,
        {"a.txt": "new\n"},
    ),
    Scenario("replayed before it is granted", (READ_A, ASKED, Replay(DENIED, "APPROVAL_DENIED")), HEADLESS + FS, A, A),
    Scenario(
        "replayed twice",
        (READ_A, ASKED, Answer(), Replay(), Replay("refused", "APPROVAL_DENIED")),
        HEADLESS + FS,
        A,
        {"a.txt": "new\n"},
    ),
    Scenario(
        "denied elsewhere, then replayed",
        (READ_A, ASKED, Answer("deny"), Replay("refused", "APPROVAL_DENIED")),
        HEADLESS + FS,
        A,
        A,
    ),
    Scenario(
        "granted, but the file changed since",
        (READ_A, ASKED, Answer(), Edit("a.txt", "other\n"), Replay(DENIED, "APPROVAL_DENIED")),
        HEADLESS + FS,
        A,
        {"a.txt": "other\n"},
    ),
    Scenario(
        "deleting asks",
        (
            Do("delete_path", {"path": "a.txt", "confirm": True}, PENDING, "APPROVAL_REQUIRED", "ask"),
            Answer(),
            Replay(),
        ),
        HEADLESS + FS,
        A,
        {"a.txt": None},
    ),
    Scenario(
        "a file that this run has not read",
        (Do("write_file", OVERWRITE, FAILED, "STALE_FILE", "ask"),),
        HEADLESS + FS,
        A,
        A,
    ),
    Scenario(
        "a file that changed since it was read",
        (
            READ_A,
            Edit("a.txt", "other\n"),
            fails(
                "edit_file",
                {"path": "a.txt", "edits": [{"old": "two", "new": "2"}], "expected_sha256": "0" * 64},
                "STALE_FILE",
            ),
        ),
        FS,
        A,
        {"a.txt": "other\n"},
    ),
)

KEYED = {"path": "k.txt", "content": "x\n", "mode": "append"}
RUNS = (
    Scenario(
        "a key makes a call happen once",
        (
            Do("write_file", {**KEYED, "mode": "create"}, key="k1"),
            Do("write_file", {**KEYED, "mode": "create"}, key="k1"),
        ),
        FS,
        after={"k.txt": "x\n"},
    ),
    Scenario(
        "a key with other arguments",
        (
            Do("write_file", {**KEYED, "mode": "create"}, key="k1"),
            bad("write_file", {"path": "o.txt", "content": "y"}, key="k1"),
        ),
        FS,
        after={"o.txt": None},
    ),
    Scenario(
        "everything is taken back",
        (Do("apply_patch", {"patch": PATCH}), Do("write_file", {"path": "n/m.txt", "content": "x"}), Undo()),
        FS,
        A,
        {**A, "made": None, "n": None},
    ),
    Scenario(
        "what changed since is not taken back",
        (
            Do("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}),
            Edit("a.txt", "mine\n"),
            Undo(FAILED, "STALE_FILE"),
        ),
        FS,
        A,
        {"a.txt": "mine\n"},
    ),
)

PYTHON = {"a.py": "import os\n\n\ndef answer() -> int:\n    return 42 +\n"}
ELSEWHERE = {"url": "https://example.org/"}


def _enabled(toolset: str) -> str:
    return f'tools.enable = ["{toolset}"]\n'


SETS = (
    Scenario("run a command", (Do("run_command", {"command": "echo hello"}, shows="hello"),), _enabled("exec")),
    Scenario("a host that is not allowed", (denied("http_fetch", ELSEWHERE, "HOST_NOT_ALLOWED"),), _enabled("http")),
    Scenario("recall nothing", (Do("recall_memory", {"query": "x"}, shows="No note fits"),), _enabled("memory")),
    Scenario("list skills", (Do("list_skills", {}, shows="no skills"),)),
    Scenario("lint a file", (Do("read_lints", {"paths": ["a.py"]}, shows="a.py:5:"),), files=PYTHON),
    Scenario("search by meaning", (Do("codebase_search", {"query": "the answer"}, shows="a.py"),), files=PYTHON),
)

ALL = (*TOOLS, *GATES, *APPROVALS, *RUNS, *SETS)

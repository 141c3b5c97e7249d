"""The shipped fakes are what their ports say, and a user's tool works on them through the real gate."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from handrail import (
    Code,
    Misuse,
    Outcome,
    Place,
    Problem,
    Reaches,
    Reads,
    ReadsBelow,
    Runs,
    Runtime,
    Tool,
    ports,
    testing,
    tool,
)
from handrail.ports import (
    Clock,
    HttpRequest,
    Index,
    Journal,
    Linters,
    LintLook,
    Memory,
    Net,
    Note,
    NoteChange,
    Passage,
    Processes,
    Program,
    Screen,
    Skills,
)
from handrail.testing import (
    FixedClock,
    ListedIndex,
    MemoryJournal,
    MemoryNotes,
    MemorySkills,
    RecordingScreen,
    ScriptedApprover,
    ScriptedLinters,
    ScriptedNet,
    ScriptedProcesses,
    lend,
)
from handrail.words import PlaceKind, Root

ROOT = Root("workspace", "/w", writable=True)
FILE = Place(ROOT, "src/a.py", PlaceKind.FILE)

# The types say it to the type checker, the names below to whoever runs the tests.
CLOCK: Clock = FixedClock()
JOURNAL: Journal = MemoryJournal()
SCREEN: Screen = RecordingScreen()
PROCESSES: Processes = ScriptedProcesses()
NET: Net = ScriptedNet({})
SKILLS: Skills = MemorySkills({})
MEMORY: Memory = MemoryNotes()
INDEX: Index = ListedIndex()
LINTERS: Linters = ScriptedLinters()
FAKES = {
    "Clock": CLOCK,
    "Journal": JOURNAL,
    "Screen": SCREEN,
    "Processes": PROCESSES,
    "Net": NET,
    "Skills": SKILLS,
    "Memory": MEMORY,
    "Index": INDEX,
    "Linters": LINTERS,
    "Approver": ScriptedApprover(),
}


def missing(port: type, fake: object) -> list[str]:
    """The methods of a port that a fake lacks or takes other arguments for."""
    wrong = []
    for name, method in vars(port).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        own = getattr(type(fake), name, None)
        if own is None or list(inspect.signature(own).parameters) != list(inspect.signature(method).parameters):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize(("name", "fake"), FAKES.items(), ids=FAKES)
def test_every_fake_has_all_that_its_port_has(name: str, fake: object) -> None:
    """With the same arguments, in the same order."""
    assert missing(getattr(ports, name), fake) == []


def test_a_fake_that_lacks_a_method_is_noticed() -> None:
    """The check above can fail."""
    assert missing(Net, FixedClock()) == ["fetch", "arrived", "gathered", "download", "keep", "kept"]


def test_every_port_that_reaches_out_of_a_test_has_a_fake() -> None:
    """The others a runtime has for itself: files of a temporary folder and their roots, redaction, limits."""
    own = {"Workspace", "Searcher", "Secrets", "Places", "Limits", "Roots", "Spill", "Archive"}
    assert ports.INJECTED - own == {name for name in FAKES if name in ports.INJECTED}


async def called(folder: Path, made: Tool, args: dict[str, Any], config: Any = None, **fakes: Any) -> Outcome:
    """Call a user's tool through the gate, on fakes."""
    approver = ScriptedApprover("once")
    async with Runtime.open(folder, config=config or {}, tools=[made], approver=approver) as runtime:
        lend(runtime.kernel, **fakes)
        return await runtime.call(made.name, args)


async def test_a_tool_runs_programs_that_are_only_told(tmp_path: Path) -> None:
    """Nothing is started, and what would have been is kept."""

    @tool()
    async def version(processes: Processes, argv: Runs) -> str:
        """Ask a program for its version."""
        return (await processes.run(Program(tuple(argv)))).stdout.text

    programs = ScriptedProcesses("tool 1.2\n")
    config = {"exec": {"sandbox": "none"}}  # as on a machine that can confine nothing
    args = {"argv": ["no-such-program", "--version"]}
    outcome = await called(tmp_path, version, args, config, Processes=programs)
    assert (outcome.data, [program.argv for program in programs.ran]) == (
        "tool 1.2\n",
        [("no-such-program", "--version")],
    )


async def test_a_tool_reaches_hosts_that_are_only_told(tmp_path: Path) -> None:
    """Policy still judges the host: only what settings allow gets as far as the fake."""

    @tool()
    async def fetched(net: Net, url: Reaches) -> str:
        """Fetch a text."""
        return (await net.fetch(HttpRequest(url))).body.decode()

    net = ScriptedNet({"https://api.example.org/v": "42", "https://evil.example/": "no"})
    config = {"http": {"allowed_hosts": ["api.example.org"]}}
    good = await called(tmp_path, fetched, {"url": "https://api.example.org/v"}, config, Net=net)
    bad = await called(tmp_path, fetched, {"url": "https://evil.example/"}, config, Net=net)
    assert bad.error is not None
    assert (good.data, bad.error.code, [request.url for request in net.asked]) == (
        "42",
        "HOST_NOT_ALLOWED",
        ["https://api.example.org/v"],
    )


async def test_a_tool_reads_skills_and_notes_that_are_only_told(tmp_path: Path) -> None:
    """Two ports at once."""

    @tool(pure=True)
    async def advice(skills: Skills, memory: Memory, about: str) -> list[str]:
        """Say what skills and notes know."""
        skill = skills.find(about)
        skills.activate(skill)
        notes = await memory.recall(about, None, 5)
        return [skills.body(skill), *(note.content for note in notes)]

    skills = MemorySkills({"release": "Tag it."})
    notes = MemoryNotes(Note("1", "We release on Mondays."), Note("2", "We lint with ruff."))
    outcome = await called(tmp_path, advice, {"about": "release"}, Skills=skills, Memory=notes)
    assert (outcome.data, skills.activated) == (["Tag it.", "We release on Mondays."], ["release"])


async def test_a_tool_asks_an_index_and_linters_that_are_only_told(tmp_path: Path) -> None:
    """The passages given are those below the place asked for."""

    @tool()
    async def checked(index: Index, linters: Linters, below: ReadsBelow, path: Reads) -> list[str]:
        """Search, then lint."""
        found, _ = await index.search("users", [below], 5, lambda done, total: None)
        linter = linters.find(path.shown)
        assert linter is not None
        finished = await linters.run(linter, path, b"x = 1\n")
        return [*(passage.symbol for passage in found), finished.stdout.text]

    (tmp_path / "a.py").write_text("x = 1\n")
    root = Root("workspace", str(tmp_path.resolve()), writable=True)
    inside = Passage(Place(root, "a.py", PlaceKind.FILE), 1, 1, "create_user", 2.0)
    outside = Passage(FILE, 1, 1, "other", 1.0)
    linters = ScriptedLinters("a.py:1:1: warning: x")
    args = {"below": ".", "path": "a.py"}
    outcome = await called(tmp_path, checked, args, Index=ListedIndex(inside, outside), Linters=linters)
    assert (outcome.data, linters.checked) == (
        ["create_user", "a.py:1:1: warning: x"],
        [("a.py", b"x = 1\n")],
    )


async def test_what_is_no_port_cannot_be_lent(tmp_path: Path) -> None:
    """A slip in the name would otherwise leave the real one in place."""
    async with Runtime.open(tmp_path, config={}) as runtime:
        with pytest.raises(Misuse, match="Network is no port"):
            lend(runtime.kernel, Network=NET)


async def test_answers_follow_the_script_and_the_last_answers_on() -> None:
    """Texts, codes, functions and problems."""
    programs = ScriptedProcesses("one", 3, lambda program: program.argv[0], Problem(Code.NOT_FOUND, "gone"))
    ends = [await programs.run(Program(("echo",))) for _ in range(3)]
    assert [(end.stdout.text, end.exit_code) for end in ends] == [("one", 0), ("", 3), ("echo", 0)]
    for _ in range(2):
        with pytest.raises(Problem, match="gone"):
            await programs.run(Program(("echo",)))


async def test_a_scripted_job_lives_until_it_is_stopped() -> None:
    """Reading never repeats bytes, as with a real one."""
    programs = ScriptedProcesses("ready\n")
    job = (await programs.start(Program(("server",)))).job
    first = await programs.read_job(job, None, 0)
    again = await programs.read_job(job, None, 0)
    await programs.write_job(job, b"quit\n")
    stopped = await programs.stop_job(job)
    assert (first.text, again.text, programs.inputs, stopped.running, programs.jobs()) == (
        "ready\n",
        "",
        {job: b"quit\n"},
        False,
        (stopped,),
    )
    with pytest.raises(Problem, match="no job"):
        await programs.stop_job("job_9")


async def test_a_scripted_download_hands_a_success_on_and_nothing_else() -> None:
    """As `Net` promises."""
    missing_page = ports.HttpResponse("u", 404, {}, b"gone", "192.0.2.1")
    net = ScriptedNet({"https://a.example/f": b"data", "https://a.example/g": missing_page})
    pieces: list[bytes] = []

    async def write(piece: bytes) -> None:
        pieces.append(piece)

    done = await net.download(HttpRequest("https://a.example/f"), write)
    lost = await net.download(HttpRequest("https://a.example/g"), write)
    assert (done.status, done.body, done.bytes, lost.status, lost.body, pieces) == (
        200,
        b"",
        4,
        404,
        b"gone",
        [b"data"],
    )
    with pytest.raises(Problem, match="no answer for"):
        await net.fetch(HttpRequest("https://b.example/"))


def test_skills_in_memory_stay_in_their_folder() -> None:
    """A resource that leads out is refused, one that is not there is named."""
    skills = MemorySkills({"notes": "x"}, {"notes": {"scripts/a.py": b"1"}})
    skill = skills.find("notes")
    assert skills.place(skill, "scripts/a.py").absolute == "/skills/notes/scripts/a.py"
    assert [file.path for file in skills.files(skill)] == ["scripts/a.py"]
    codes = []
    for resource in ("../a", "/etc/passwd", "b"):
        with pytest.raises(Problem) as caught:
            skills.read(skill, resource)
        codes.append(caught.value.code)
    assert codes == [Code.PATH_OUTSIDE_ROOTS, Code.PATH_OUTSIDE_ROOTS, Code.NOT_FOUND]


async def test_notes_are_changed_at_once_or_wait() -> None:
    """As `memory.write_mode` has it."""
    notes, waiting = MemoryNotes(), MemoryNotes(candidates=True)
    kept = await notes.write(NoteChange("create", content="a"))
    await notes.write(NoteChange("update", kept.id, title="t"))
    assert notes.notes == {kept.id: Note(kept.id, "a", "t")}
    await notes.write(NoteChange("delete", kept.id))
    asked = await waiting.write(NoteChange("create", content="a"))
    assert (notes.notes, waiting.notes, asked.candidate, len(waiting.waiting)) == ({}, {}, True, 1)
    with pytest.raises(Problem, match="no note"):
        await notes.write(NoteChange("update", "x"))


async def test_scripted_linters_remember_a_look() -> None:
    """What was found before can be compared with."""
    linters = ScriptedLinters(before={"src/a.py": b"old"})
    look = LintLook("h", (("E1",),))
    linters.looked(FILE, look)
    assert (linters.last(FILE), await linters.former(FILE), linters.find("a.txt")) == (look, b"old", None)


def test_all_that_is_shipped_is_named() -> None:
    """What users import stands in `__all__`, and the other way round."""
    assert set(testing.__all__) == {*(type(fake).__name__ for fake in FAKES.values()), "lend"}

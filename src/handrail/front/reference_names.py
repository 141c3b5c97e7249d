"""What the reference page of the Python API tells of, in the order in which a reader needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """One chapter: what is said at its head, and the names it explains."""

    title: str
    says: str
    names: str  # with blanks between them; "Runtime.call" stands apart from its class
    module: str = "handrail"  # where a program imports them from


GROUPS = (
    Group(
        "Opening a runtime",
        "One runtime is one run: its journal, its grants, its idempotency keys. Settings are those of\n"
        '[the reference](settings.md), as a mapping by section: `config={"tools": {"enable": ["fs"]}}`.',
        "Runtime Runtime.open Runtime.run_id Runtime.add Runtime.on_display preset",
    ),
    Group(
        "Calling",
        "The names of tools, their arguments and what their `data` holds: [tools](tools.md). With a model:\n"
        "[connect a model](../how-to/connect-a-model.md).",
        "Runtime.call Runtime.call_from Runtime.tools Runtime.undo",
    ),
    Group(
        "Outcomes",
        "What does not fit one answer comes page by page: as long as there is an `outcome.truncation` whose\n"
        "`next_cursor` is not None, the same call with that as `cursor` gives the next page\n"
        "([an example](../how-to/http.md#page-by-page)); `read_file` has the next call's arguments\n"
        "there. `outcome.to_dict()` is all of it as JSON values.",
        "Outcome Status",
    ),
    Group(
        "Parts of an outcome",
        "Nobody needs to import them; for annotations they are in `handrail.words` (`Evidence` in `handrail`, too).",
        "Truncation ErrorInfo Evidence Ref Change",
        "handrail.words",
    ),
    Group(
        "Approvals",
        "How a person is asked, and where: [approve](../how-to/approve.md). A call that ended as `pending` has its\n"
        'request in `outcome.error.details["approval"]`; once that is granted (`handrail approvals grant ID`), the\n'
        "same call runs, or one with `approval=ID`.",
        "Approver Request Reply Grant Scope",
    ),
    Group(
        "Asking without running",
        "How a call would be judged, and by what: [write rules](../how-to/write-rules.md). `how` is what\n"
        "`Runtime.explanation` takes by name.",
        "Runtime.explain Runtime.explanation Runtime.preview Runtime.digest Runtime.policy Explanation Verdict Finding "
        "Decision Touch TouchKind How Call",
    ),
    Group(
        "Your own tools",
        "A typed `async def` with `@tool()`: [add a tool](../how-to/add-a-tool.md).",
        "tool Tool Risk at Place Answer register_lambda",
    ),
    Group(
        "Types of arguments",
        "They say what a call of your tool touches.",
        "Reads ReadsItself ReadsBelow Writes Edits Deletes DeletesBelow Runs Reaches",
    ),
    Group(
        "Ports",
        "What a tool needs from outside: a parameter of one of these types is handed in, bound to the call, and is no\n"
        "argument.",
        "Workspace Searcher Places Processes Net HttpRequest Skills Memory Index Linters Secrets Limits Spill Clock "
        "Screen",
    ),
    Group(
        "What ports take and give",
        "In `handrail.ports`, and two more ports: `Roots` and `Archive`.",
        "Content Stat Entry Listing Stream Sink Program Finished Captured JobState JobOutput HttpResponse Skill "
        "SkillFile Note NoteChange NoteKept Passage IndexState Linter LintLook Spool Roots Archive",
        "handrail.ports",
    ),
    Group(
        "Errors",
        "A tool raises `Problem`: it becomes an outcome that the model reads. A `Fault` reaches the program alone:\n"
        "`Misuse` from any use of the API, `SettingsFault` and `RunFault` from entering `Runtime.open(…)`. What each\n"
        "code means: [error codes](errors.md).",
        "Problem Code Fault Misuse SettingsFault RunFault",
    ),
    Group(
        "Testing",
        "In `handrail.testing`: fakes to put in the place of what reaches out of a test, behind the real gate\n"
        "([test a tool](../how-to/add-a-tool.md#test-it)).",
        "lend ScriptedNet ScriptedProcesses ScriptedLinters ScriptedApprover FixedClock RecordingScreen MemorySkills "
        "MemoryNotes ListedIndex MemoryJournal",
        "handrail.testing",
    ),
    Group(
        "Pydantic AI",
        "In `handrail.pydantic_ai`; needs `pip install 'handrail[agent]'`. How: [agents](../how-to/agents.md).",
        "HandrailToolset Governance APPROVAL",
        "handrail.pydantic_ai",
    ),
    Group(
        "OpenAI Agents",
        "In `handrail.openai_agents`; needs `pip install openai-agents`. How: [agents](../how-to/agents.md).",
        "tools",
        "handrail.openai_agents",
    ),
    Group(
        "LangChain",
        "In `handrail.langchain`; needs `pip install langchain-core`. How: [agents](../how-to/agents.md).",
        "tools",
        "handrail.langchain",
    ),
)

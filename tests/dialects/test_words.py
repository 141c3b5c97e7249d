"""What holds for every dialect: it translates, and does nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects._speaking import Speak, skill
from handrail import Code, Misuse, Outcome, Problem, Runtime, dialects, preset
from handrail.catalog import Catalog
from handrail.dialects._dialect import Word, encoded
from handrail.dialects._usual import USUAL
from handrail.tools import builtin
from handrail.versions import adapt

FOREIGN = [name for name in dialects.names() if name != "native"]
CATALOG = Catalog(lazy=builtin())


def words() -> Iterator[tuple[str, Word]]:
    """Every word of every dialect."""
    for name in FOREIGN:
        for word in dialects.get(name).words.values():
            yield name, word


EVERY = [pytest.param(name, word, id=f"{name}:{word.name}") for name, word in words()]


def sample(schema: dict[str, Any]) -> Any:
    """The least that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "object":
        return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [sample(schema.get("items", {}))]
    if schema.get("format") == "uri":
        return "https://example.org/"
    return {"string": "scripts/a", "integer": schema.get("minimum", 1), "number": 1, "boolean": True, "null": None}[
        kind
    ]


@pytest.mark.parametrize(("dialect", "word"), EVERY)
def test_every_word_stands_for_a_tool_of_ours_and_its_arguments_fit(dialect: str, word: Word) -> None:
    """What a word makes of the least it takes is what the tool takes."""
    args = sample(dict(word.args))
    if word.name == "apply_patch":
        args = {"patch_text": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n"}
    if word.ours == "job_read" or word.ours == "job_stop":
        args = {"job": "job-1"}
    if word.ours == "recall_memory":
        args = {"query": "x"}
    heard = dialects.get(dialect).heard(word.name, args)
    parsed, mended = CATALOG.get(word.ours).parse(heard.args, repair=False)
    assert set(heard.args) <= set(parsed)
    assert mended == ()


@pytest.mark.parametrize(("dialect", "word"), EVERY)
def test_every_word_refuses_what_its_schema_does_not_name(dialect: str, word: Word) -> None:
    """Nothing slips past a dialect into a tool."""
    with pytest.raises(Problem) as error:
        dialects.get(dialect).heard(word.name, {**sample(dict(word.args)), "surplus": 1})
    assert (error.value.code, error.value.details["errors"][0]["field"]) == (Code.INVALID_ARGS, "surplus")


@pytest.mark.parametrize(("dialect", "word"), EVERY)
def test_what_is_heard_can_be_said_again(dialect: str, word: Word) -> None:
    """Into our words and back: the same call, or none."""
    spoken = dialects.get(dialect)
    heard = spoken.heard(word.name, sample(dict(word.args)))
    parsed = CATALOG.get(word.ours).parse(heard.args, repair=False)[0] if word.ours not in HARD else heard.args
    said = word.said(json.loads(json.dumps(parsed, default=vars)))
    if said is not None:
        again = spoken.heard(word.name, said)
        assert {**again.args, **{k: v for k, v in heard.args.items() if k not in again.args}} == {
            **heard.args,
            **again.args,
        }


HARD = ("apply_patch", "job_read", "job_stop", "edit_file")


@pytest.mark.parametrize("name", FOREIGN)
def test_every_code_has_a_name(name: str) -> None:
    """One table a dialect, whole."""
    assert list(dialects.get(name).errors) == list(Code)


def test_names_are_unique_also_when_encoded() -> None:
    """What an API gives back means one tool."""
    for name in FOREIGN:
        spoken = dialects.get(name).words
        assert len({encoded(word) for word in spoken}) == len(spoken)


@pytest.mark.parametrize("tool", sorted(USUAL))
def test_what_is_usual_is_what_the_catalog_says(tool: str) -> None:
    """The table of defaults is held against the tools."""
    schema = CATALOG.get(tool).spec()["args_schema"]
    found = {
        name: field.get("default")
        for name, field in schema["properties"].items()
        if name not in schema.get("required", ()) and "default" in field
    }
    told = {name: value for name, value in USUAL[tool].items() if name in found}
    assert (set(USUAL[tool]) - set(schema["properties"]), told) == (set(), {name: found[name] for name in told})


def test_an_unknown_dialect_is_a_misuse_that_names_those_there_are(work: Path) -> None:
    """For a runtime, a call and an outcome."""
    for use in (lambda: dialects.get("klingon"), lambda: Runtime.open(work, dialect="klingon")):
        with pytest.raises(Misuse, match="there are native, skills-agent, clude"):
            use()


async def test_an_unknown_dialect_of_a_call_is_a_misuse(speak: Speak) -> None:
    """Nothing is run."""
    async with speak("native") as say:
        for use in (say.runtime.call("now", {}, dialect="klingon"),):
            with pytest.raises(Misuse):
                await use
        await say("now")
        with pytest.raises(Misuse):
            say.last.to("klingon")


@pytest.mark.parametrize("name", FOREIGN)
async def test_an_unknown_tool_names_the_near_ones_of_the_dialect(speak: Speak, name: str) -> None:
    """Never one of another dialect."""
    async with speak(name) as say:
        first = next(iter(say.dialect.words))
        await say(first[:-1] + "x")
    assert say.last.error is not None
    assert (say.last.error.code, set(say.last.error.details["near"]) <= set(say.dialect.words)) == (
        "UNKNOWN_TOOL",
        True,
    )
    assert first in say.last.error.details["near"]


async def test_a_tool_of_ours_is_not_called_by_its_name_in_a_dialect_without_it(speak: Speak) -> None:
    """A dialect is no second way in: what it does not list cannot be called in it."""
    async with speak("kgent", config={"tools": {"enable": ["exec", "fs"]}}) as say:
        told = [await say(name, {}) for name in ("run_command", "edit_file", "stat_path")]
    assert [result["error"]["code"] for result in told] == ["UNKNOWN_TOOL"] * 3


async def test_equal_words_of_two_dialects_are_not_taken_for_each_other(speak: Speak, work: Path) -> None:
    """The memo of read-only calls knows whose words they were."""
    (work / "a.txt").write_text("x")
    async with speak("native") as say:
        for name in ("kgent", "skills-agent", "clude", "native", "kgent"):
            await say.call("read_file", {"path": "a.txt"}, dialect=name)
        told = [event.get("dialect", "native") for event in say.journal() if event["kind"] == "tool.started"]
    assert told == ["kgent", "skills-agent", "clude", "native", "kgent"]


async def test_the_journal_keeps_our_call_and_what_the_caller_wrote(speak: Speak, work: Path) -> None:
    """Both, so that nobody has to guess."""
    (work / "a.txt").write_text("x")
    async with speak("tool-hub") as say:
        await say("core/fs.sha256", path="a.txt")
        started = next(event for event in say.journal() if event["kind"] == "tool.started")
    assert (started["tool"], started["args"], started["dialect"], started["asked"]) == (
        "hash_file", {"path": "a.txt"}, "tool-hub", {"tool": "core/fs.sha256", "args": {"path": "a.txt"}},
    )  # fmt: skip


async def test_what_the_caller_wrote_is_redacted_and_cut(speak: Speak) -> None:
    """The journal's laws hold for foreign words, too."""
    secret = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
    async with speak("tool-hub") as say:
        await say("core/util.hash.sha256Text", text=f"{secret} {'x' * 100_000}")
        await say(f"core {secret}", {})
        text = json.dumps(say.journal())
    assert (secret in text, len(text) < 30_000, secret in json.dumps(say.last.to("tool-hub"))) == (False, True, False)


async def test_slips_are_mended_in_a_dialect_as_in_ours(speak: Speak, work: Path) -> None:
    """Where settings mend; the warning speaks the document's names."""
    (work / "a.txt").write_text("one\ntwo\n")
    async with speak("clude") as say:
        told = await say("read_file", path="a.txt", offset="2", limit=None)
    assert (told["payload"]["text"], say.last.warnings) == (
        "two\n", ("`offset` came as text and is read as a number", "`limit` was null and is taken as not given"),
    )  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
async def test_every_outcome_has_an_envelope(speak: Speak, work: Path, name: str) -> None:
    """Also one of a call in our own words, and of a tool that the dialect does not know."""
    (work / "a.txt").write_text("x")
    async with speak("native", config={"tools": {"enable": ["fs"]}}, mode="headless") as say:
        for tool, args in (
            ("read_file", {"path": "a.txt"}),
            ("stat_path", {"path": "a.txt"}),
            ("write_file", {"path": "b", "content": "x"}),
            ("write_file", {"path": "a.txt", "content": "y", "mode": "overwrite", "expected_sha256": "*"}),
            ("grep", {"pattern": "("}),
            ("nothing", {}),
            ("hash_text", {"text": "x"}),
        ):
            outcome = await say.runtime.call(tool, args)
            assert json.loads(json.dumps(outcome.to(name)))
        again = list(dialects.get(name).events(say.journal()))
    assert json.loads(json.dumps(again))


# ── versions ─────────────────────────────────────────────────────────────────────────────────


@given(st.text(max_size=20) | st.from_regex(r"[0-5](\.[0-9]){0,2}", fullmatch=True), st.integers(0, 5))
def test_a_version_is_taken_only_when_its_major_is_ours_or_older_with_an_adapter(asked: str, ours: int) -> None:
    """Whatever text comes, it is taken, adapted or refused; never anything else."""
    adapters = {1: lambda args: {**args, "adapted": True}}
    first = asked.partition(".")[0]
    major = int(first) if first.isascii() and first.isdigit() else -1
    if major == ours:
        assert adapt("tool", asked, f"{ours}.2.0", adapters, {"a": 1}) == ({"a": 1}, ())
    elif major == 1 and major < ours:
        args, warnings = adapt("tool", asked, f"{ours}.2.0", adapters, {"a": 1})
        assert (args, len(warnings)) == ({"a": 1, "adapted": True}, 1)
    else:
        with pytest.raises(Problem) as error:
            adapt("tool", asked, f"{ours}.2.0", adapters, {"a": 1})
        assert error.value.code is Code.UNSUPPORTED_VERSION


def test_a_newer_major_is_refused_even_with_an_adapter_registered() -> None:
    """Adapters lead forward only."""
    with pytest.raises(Problem, match=r"spoken: 1\.0\.0, 2\.x"):
        adapt("tool", "2.0", "1.0.0", {2: dict}, {})


def test_arguments_that_an_adapter_cannot_read_are_invalid() -> None:
    """An adapter that trips over them is no bug of the runtime."""
    with pytest.raises(Problem) as error:
        adapt("tool", "1", "2.0.0", {1: lambda args: {"path": args["file"]}}, {})
    assert error.value.code is Code.INVALID_ARGS


def test_an_outcome_that_named_its_tool_is_told_under_that_name() -> None:
    """Where two words stand for one tool of ours, the one that was asked with counts."""
    entries = {"entries": [{"name": "a", "type": "file", "size": 1, "mtime": "x"}], "next_cursor": None}
    outcome = Outcome("1", "list_dir", "1.0.0", "ok", "", "", entries, None, ())  # type: ignore[arg-type]
    texts = [
        replace(outcome, asked=name).to("mcp-filesystem")["content"][0]["text"]
        for name in ("list_directory", "list_directory_with_sizes", "directory_tree")
    ]
    assert (texts[0], texts[1].splitlines()[0], json.loads(texts[2])) == (
        "[FILE] a", f"[FILE] {'a':<30} {'1 B':>10}", [{"name": "a", "type": "file"}],
    )  # fmt: skip


async def test_a_suggested_call_is_in_the_words_of_the_dialect(speak: Speak, work: Path) -> None:
    """What would work is said with the document's tool and argument names."""
    (work / "sub").mkdir()
    async with speak("tool-hub") as say:
        told = await say("core/fs.searchText", root=f"{work}/sub", query="x", glob="*.py")
    assert told["error"]["details"]["next_call"] == {
        "tool": "core/fs.searchText",
        "args": {"root": "sub", "query": "x", "glob": "*.py"},
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([word for _, word in words()]), st.data())
def test_whatever_a_model_writes_is_heard_or_refused(word: Word, data: st.DataObject) -> None:
    """No argument of any shape gets further than a Problem."""
    names = st.sampled_from([*word.args["properties"], "surplus"])
    args: Any = data.draw(st.dictionaries(names, JSON, max_size=6) | JSON)
    for repair in (True, False):
        try:
            heard, _ = word.heard(args, repair=repair)
        except Problem as problem:
            assert problem.code is Code.INVALID_ARGS  # noqa: PT017
        else:
            assert isinstance(heard, dict)


@pytest.mark.parametrize("tool", [None, 7, ["read_file"], {"name": "x"}, "", "\ud800", "a" * 100_000])
@pytest.mark.parametrize("name", FOREIGN)
async def test_whatever_a_model_names_is_an_unknown_tool(speak: Speak, name: str, tool: Any) -> None:
    """Also what is no text at all."""
    async with speak(name) as say:
        outcome = await say.runtime.call(tool, {})
    assert outcome.error is not None
    assert outcome.error.code == "UNKNOWN_TOOL"


WRONG: list[dict[str, Any]] = [
    {},
    {"tool": 7, "name": 7},
    {"tool": "x", "name": "x", "args": [1], "params": [1], "arguments": [1], "tool_calls": 7},
]


@pytest.mark.parametrize("name", dialects.names())
@pytest.mark.parametrize("message", WRONG, ids=["nothing", "no name", "no object"])
def test_a_message_that_asks_for_no_call_is_invalid(name: str, message: dict[str, Any]) -> None:
    """Never anything else than a Problem that says what is needed."""
    with pytest.raises(Problem) as error:
        dialects.get(name).messages(message)
    assert error.value.code is Code.INVALID_ARGS


@pytest.mark.parametrize("name", FOREIGN)
def test_a_write_without_its_text_cannot_be_said(name: str) -> None:
    """A suggestion whose text was too long to repeat is left out; that is no error."""
    assert dialects.get(name).said({"tool": "write_file", "args": {"path": "a", "mode": "overwrite"}}) is None


async def test_a_skill_may_name_its_tools_in_any_dialect(speak: Speak, work: Path) -> None:
    """`allowed-tools` in another system's words narrows to the same tools of ours."""
    skill(work, header="allowed-tools: ls core/fs.sha256 bash nonsense\n")
    (work / "a.txt").write_text("x")
    async with speak("native", config={"skills": {"narrow": True}}) as say:
        told = [
            await say.call(tool, {"path": "a.txt" if tool != "list_dir" else "."}, skill="pdf-form-filler")
            for tool in ("list_dir", "hash_file", "read_file")
        ]
    assert [result["ok"] for result in told] == [True, True, False]


@pytest.mark.parametrize("planted", ["sandbox/one", "sandbox"])
async def test_a_folder_of_the_run_that_is_a_link_is_refused(work: Path, tmp_path: Path, planted: str) -> None:
    """A link under the name of a run, planted by whoever wrote the project, makes nothing outside a root."""
    outside = tmp_path / "outside"
    (outside / "one").mkdir(parents=True)
    (work / planted).parent.mkdir(exist_ok=True)
    if planted == "sandbox/one":
        (work / planted).symlink_to(outside)
        with pytest.raises(Misuse, match="is a link"):
            await Runtime.open(work, config=preset("tool-hub"), run_id="one").__aenter__()
        return
    (work / "handrail.toml").write_text('workspace.root = "sandbox/{run_id}"\n')
    (work / planted).symlink_to(outside)
    async with Runtime.open(work, run_id="one") as runtime:
        assert Path(runtime.kernel.parts.workspace) == work

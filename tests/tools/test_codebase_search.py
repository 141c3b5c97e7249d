"""codebase_search: the places that answer a question, of what the call may see, as they are now."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail.index.desk import RACY_NS
from handrail.testing import RecordingScreen
from searching import fill
from tools._questions import ENOUGH, OWN, PYDANTIC
from tools._searched import CODE, DENY, HIDDEN, RANKING, answered, files_of, index_folder, old, search

# ── how well it answers ──────────────────────────────────────────────────────────────────────


async def test_questions_about_this_project_find_their_file() -> None:
    """At least 16 of 20 in the first five, by words alone."""
    root = Path(handrail.__file__).parents[2]
    assert all((root / file).is_file() for _, files in OWN for file in files)
    found = await answered(root, OWN, "off")
    assert len(found) >= ENOUGH, [question for question, _ in OWN if question not in found]


async def test_questions_about_an_installed_package_find_their_file() -> None:
    """The same of a package that somebody else wrote."""
    import pydantic

    found = await answered(Path(pydantic.__file__).parent, PYDANTIC, "off")
    assert len(found) >= ENOUGH, [question for question, _ in PYDANTIC if question not in found]


# ── what is found ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("query", ["create user account", "createUserAccount", "create_user_account", "creating users"])
async def test_names_are_found_however_they_are_written(opens: Any, work: Path, query: str) -> None:
    """In parts, in camel or snake case, in another form of the word."""
    fill(work, CODE)
    async with opens() as runtime:
        best = (await search(runtime, query)).data["places"][0]
    assert best.pop("score") > 0
    assert best == {
        "file": "app/users.py",
        "lines": [4, 6],
        "text": 'def createUserAccount(name):\n    """Add a person."""\n    return name',
        "symbol": "createUserAccount",
    }


async def test_a_definition_comes_before_its_tests_and_its_guide(opens: Any, work: Path) -> None:
    """Unless the question is about them."""
    fill(work, CODE)
    async with opens() as runtime:
        plain = files_of(await search(runtime, "send a message"))
        about = files_of(await search(runtime, "test of send_message"))
    assert plain[0] == "app/mail.py"
    assert about[0] == "tests/test_mail.py"


async def test_paths_say_what_is_in_a_file(opens: Any, work: Path) -> None:
    """A file is found by its name even where its text says nothing of it."""
    fill(work, {"billing/invoice_printer.py": "x = 1\n", "other.py": "y = 2\n"})
    async with opens() as runtime:
        assert files_of(await search(runtime, "invoice printer")) == ["billing/invoice_printer.py"]


async def test_a_search_keeps_to_its_paths(opens: Any, work: Path) -> None:
    """Folders and files; what else is indexed does not show."""
    fill(work, CODE)
    async with opens() as runtime:
        await search(runtime, "send message")
        assert files_of(await search(runtime, "send message", paths=["docs", "tests/test_mail.py"])) == [
            "tests/test_mail.py",
            "docs/guide.md",
        ]
        missing = await runtime.call("codebase_search", {"query": "x", "paths": ["doc"]})
    assert missing.error is not None
    assert (missing.error.code, missing.error.details["near"]) == ("NOT_FOUND", ["docs"])


async def test_nothing_that_fits_is_an_answer(opens: Any, work: Path) -> None:
    """Also of an empty workspace, and for signs that mean something to the engine."""
    async with opens() as runtime:
        for query in ("zebra", '"', "a AND (", "symbol:x", "*", "???"):
            assert (await search(runtime, query)).data["places"] == []
        fill(work, CODE)
        outcome = await search(runtime, "zebra")
    assert (outcome.summary, outcome.data["places"]) == ("Nothing fits 'zebra'.", [])


# ── freshness ────────────────────────────────────────────────────────────────────────────────


async def test_only_what_changed_is_read_again(opens: Any, work: Path) -> None:
    """A new run finds the index of the last one; changes, new files and removed ones show at once."""
    old(fill(work, CODE))
    async with opens() as runtime:
        first = await search(runtime, "send message")
        assert (first.data["index"]["files"], first.data["index"]["updated"]) == (4, 4)
    async with opens() as runtime:
        again = await search(runtime, "send message")
        assert (again.data["index"]["files"], again.data["index"]["updated"]) == (4, 0)
        assert again.content.endswith(f"[{RANKING.capitalize()} index: 4 files, up to date]")
        (work / "app/mail.py").write_text("class Pigeon:\n    def fly(self):\n        return 1\n")
        (work / "app/new.py").write_text("def walk_home():\n    return 2\n")
        (work / "docs/guide.md").unlink()
        assert files_of(await search(runtime, "pigeon fly")) == ["app/mail.py"]
        assert files_of(await search(runtime, "walk home")) == ["app/new.py"]
        assert files_of(await search(runtime, "send message")) == ["tests/test_mail.py"]
    assert again.data["index"]["ranking"] == RANKING


async def test_a_change_that_keeps_size_and_date_is_found_while_it_is_recent(opens: Any, work: Path) -> None:
    """A file that was changed right before it was read may change again within the same tick of its clock."""
    path = work / "a.py"
    path.write_text("def alpha(): pass\n")
    ahead = time.time_ns() + 60 * 10**9  # recent for a minute, however slow the machine is
    os.utime(path, ns=(ahead, ahead))
    async with opens() as runtime:
        await search(runtime, "alpha")
        before = path.stat()
        assert before.st_mtime_ns > runtime.parts.clock.now() * 1e9 - RACY_NS
        with path.open("r+") as file:
            file.write("def omega(): pass\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert files_of(await search(runtime, "omega")) == ["a.py"]


async def test_the_index_keeps_words_and_no_text(opens: Any, work: Path) -> None:
    """What is shown is read from the files at that moment, under the rules of that moment."""
    fill(work, CODE)
    async with opens() as runtime:
        await search(runtime, "send message")
    (database,) = index_folder().glob("*.db")
    data = database.read_bytes()
    assert b"def send_message" not in data
    assert b"Add a person" not in data


async def test_a_long_first_index_tells_the_person_how_far_it_is(opens: Any, work: Path) -> None:
    """Once it takes longer than a moment."""
    from handrail.testing import FixedClock

    class Running(FixedClock):
        """A clock on which every look takes a second."""

        def monotonic(self) -> float:
            self.advance(1.0)
            return super().monotonic()

    fill(work, {f"f{number}.py": f"value_{number} = 1\n" for number in range(600)})
    screen = RecordingScreen()
    async with opens(screen=screen, clock=Running()) as runtime:
        await search(runtime, "value")
    assert screen.shown[0] == {
        "content": "Indexing: 256 of 600 files",
        "level": "progress",
        "title": "codebase_search",
    }


async def test_an_index_that_needs_more_time_answers_with_what_it_has(
    opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how many files wait, and the next search goes on."""
    from handrail.index.shelf import Bounds

    old(fill(work, {f"f{number}.py": f"value_{number} = 1\n" for number in range(600)}))
    async with opens() as runtime:
        await search(runtime, "anything", paths=["f0.py"])
        shelf = runtime.parts.faculties._shelf
        assert shelf is not None
        shelf.bounds = Bounds(seconds=-1.0)
        first = await search(runtime, "value")
        assert (first.data["index"]["updated"], first.data["index"]["waiting"]) == (256, 343)
        assert "343 more wait to be indexed" in first.content
        second = await search(runtime, "value")
        assert (second.data["index"]["updated"], second.data["index"]["waiting"]) == (256, 87)


# ── what may be seen ─────────────────────────────────────────────────────────────────────────


async def test_what_policy_or_ignore_rules_leave_out_is_never_shown(opens: Any, work: Path) -> None:
    """Also when the index knows it, because an earlier run was allowed to see it."""
    (work / ".git").mkdir()
    fill(work, HIDDEN)
    async with opens() as runtime:
        assert files_of(await search(runtime, "zebra")) == ["open/plan.py", "private/plan.py"]
    async with opens(config=DENY) as runtime:
        outcome = await search(runtime, "zebra")
        assert files_of(outcome) == ["open/plan.py"]
        assert "private" not in str(outcome.to_dict())
        denied = await runtime.call("codebase_search", {"query": "zebra", "paths": ["private"]})
        assert not denied.ok
    async with opens() as runtime:
        assert files_of(await search(runtime, "zebra")) == ["open/plan.py", "private/plan.py"]


async def test_no_link_leads_out(opens: Any, work: Path, tmp_path: Path) -> None:
    """Neither a file's nor a folder's."""
    fill(tmp_path / "outside", {"secret.py": "def zebra_outside(): pass\n"})
    fill(work, {"a.py": "def zebra_inside(): pass\n"})
    (work / "link.py").symlink_to(tmp_path / "outside/secret.py")
    (work / "folder").symlink_to(tmp_path / "outside")
    async with opens() as runtime:
        assert files_of(await search(runtime, "zebra")) == ["a.py"]


async def test_secrets_reach_neither_the_answer_nor_the_index(opens: Any, work: Path) -> None:
    """They are hidden where they are shown, and a question for one finds nothing: the index is no oracle."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    body = "\n".join(["MIIEowIBAAKCAQEA" + "qWe1" * 12 for _ in range(6)])
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    fill(
        work,
        {"a.py": f"def connect():\n    key = '{token}'\n    return key\n", "b.txt": f"zebra\n{pem}after the key\n"},
    )
    async with opens() as runtime:
        shown = await search(runtime, "connect")
        oracle = await search(runtime, token)
        below = await search(runtime, "after")
    assert files_of(shown) == ["a.py"]
    assert token not in str(shown.to_dict())
    assert oracle.data["places"] == []
    assert files_of(below) == ["b.txt"]
    assert "qWe1" not in str(below.to_dict())
    for path in Path(os.environ["XDG_CACHE_HOME"]).rglob("index/*"):
        assert token[4:].lower().encode() not in path.read_bytes().lower()


async def test_the_index_lies_outside_the_workspace_for_its_owner_alone(opens: Any, work: Path) -> None:
    """In the cache folder, which no tool reaches."""
    fill(work, CODE)
    before = sorted(path for path in work.rglob("*"))
    async with opens(config={"workspace": {"allow_absolute": True, "read": ["/"]}}) as runtime:
        await search(runtime, "mail")
        (database,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("index/*.db")
        refused = await runtime.call("read_file", {"path": str(database)})
    assert sorted(path for path in work.rglob("*")) == before
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    assert refused.error is not None
    assert refused.error.code == "PATH_PROTECTED"


async def test_large_binary_and_strange_files_are_passed_over(opens: Any, work: Path) -> None:
    """And counted where they are not searched."""
    fill(work, CODE | {"big.txt": "zebra " * 300_000, "b.bin": b"\0zebra\xff" * 10, "l1.py": b"zebra = '\xe4\xff'\n"})
    (work / os.fsdecode(b"n\xe4me.py")).write_text("def zebra_name(): pass\n")
    os.mkfifo(work / "pipe.py")
    async with opens() as runtime:
        outcome = await search(runtime, "zebra")
    assert sorted(files_of(outcome)) == ["l1.py", "n\\xe4me.py"]
    assert outcome.data["index"]["skipped"] == 1


async def test_more_files_than_the_index_may_cover_are_told(opens: Any, work: Path) -> None:
    """What is left out is not left out in silence."""
    fill(work, {f"f{number}.py": "zebra = 1\n" for number in range(5)})
    async with opens(config={"search": {"max_files": 3}}) as runtime:
        outcome = await search(runtime, "zebra")
        whole = await search(runtime, "zebra", paths=["f4.py"])
    assert (outcome.data["index"]["files"], len(outcome.warnings)) == (3, 1)
    assert "search.max_files" in outcome.warnings[0]
    assert (files_of(whole), whole.warnings) == (["f4.py"], ())


async def test_a_long_line_is_cut_after_it_was_hidden(opens: Any, work: Path) -> None:
    """In the data as in the text; the whole stays reachable."""
    fill(work, {"min.js": "function zebra() {" + "x" * 500_000 + "}\n"})
    async with opens() as runtime:
        outcome = await search(runtime, "zebra")
    assert outcome.data["places"][0]["text"] == "function zebra() {" + "x" * 282 + "…"


async def test_the_runs_own_folders_are_searched_without_a_file(opens: Any, work: Path) -> None:
    """They go with the run, and so does their index."""
    fill(work, CODE)
    async with opens() as runtime:
        fill(runtime.parts.folder.workspace, {"draft.py": "def zebra_draft(): pass\n"})
        outcome = await search(runtime, "zebra draft", paths=["run:workspace"])
    assert files_of(outcome) == ["run:workspace/draft.py"]
    assert list(index_folder().glob("*.db")) == []


async def test_two_calls_at_once_take_turns(opens: Any, work: Path) -> None:
    """Each file is read once."""
    import asyncio

    old(fill(work, CODE))
    async with opens() as runtime:
        found = await asyncio.gather(*(search(runtime, query) for query in ("send", "message", "user")))
    assert sorted(item.data["index"]["updated"] for item in found) == [0, 0, 4]

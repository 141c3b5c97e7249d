"""Settings in a project: nobody lifts what they say by taking a link away, and no tool writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.errors import SettingsFault
from handrail.settings import load, trust_store
from handrail.settings.files import way_to

DENY = '[[{table}rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "priv/**"\n'


@pytest.fixture(params=["the file", "a folder on the way"])
def link(request: pytest.FixtureRequest, work: Path) -> str:
    """A project whose settings lie elsewhere; gives the link."""
    (work / "priv").mkdir()
    (work / "priv/a.txt").write_text("private\n")
    if request.param == "the file":
        (work / "conf").mkdir()
        (work / "conf/py.toml").write_text(DENY.format(table="tool.handrail."))
        (work / "pyproject.toml").symlink_to("conf/py.toml")
        return "pyproject.toml"
    (work / "v1").mkdir()
    (work / "v1/h.toml").write_text(DENY.format(table=""))
    (work / "cur").symlink_to("v1")
    (work / "handrail.toml").symlink_to("cur/h.toml")
    return "cur"


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("move_path", {"source": "{link}", "target": "gone"}),
        ("delete_path", {"path": "{link}", "confirm": True}),
        ("write_file", {"path": "{link}", "content": "", "mode": "overwrite", "expected_sha256": "*"}),
    ],
)
async def test_no_tool_takes_a_link_to_settings_away(work: Path, link: str, tool: str, args: dict[str, object]) -> None:
    """Nor writes through it; what they deny stays denied."""
    given = {name: link if value == "{link}" else value for name, value in args.items()}
    before = sorted(os.listdir(work))
    allow = [{"effect": "allow", "tool": tool, "touch": "fs.*"}]
    async with Runtime.open(work, flags={"tools.enable": ["fs"], "rules": allow}, mode="headless") as runtime:
        taken = await runtime.call(tool, given)
    async with Runtime.open(work, mode="headless") as runtime:
        read = await runtime.call("read_file", {"path": "priv/a.txt"})
    assert taken.error is not None
    code = "NOT_A_FILE" if (tool, link) == ("write_file", "cur") else "PATH_PROTECTED"
    assert (taken.error.code, sorted(os.listdir(work))) == (code, before), taken.content
    assert read.error is not None
    assert read.error.code == "POLICY_DENIED"


@pytest.mark.parametrize("after", ["nothing", "another file", "a link that leads nowhere"])
def test_what_a_link_led_to_counts_until_the_next_start(work: Path, link: str, after: str) -> None:
    """A program can take a link away; a running server goes on with what it knew, and warns from the start."""
    first = load(work, environment=os.environ)
    name = "pyproject.toml" if link == "pyproject.toml" else "handrail.toml"
    warning = f"{name}: is a link that leads to settings, which a program can take away; put the file itself there"
    assert first.warnings == (warning,)
    (work / link).unlink()
    if after == "another file":
        (work / link).write_text("")
    elif after != "nothing":
        (work / link).symlink_to("nowhere")
    second = load(work, environment=os.environ, former=first)
    third = load(work, environment=os.environ, former=second)
    assert [rule.target for rule in third.settings.rules] == ["priv/**"]
    assert "a link on the way to it has changed" in third.fault


def test_every_link_on_the_way_is_named(tmp_path: Path) -> None:
    """With what stands before it resolved, and the file itself last; a loop ends."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("")
    (tmp_path / "up").symlink_to("a/b/..")
    (tmp_path / "one").symlink_to(tmp_path / "up/b")
    (tmp_path / "loop").symlink_to("loop")
    top = os.path.realpath(tmp_path)
    assert way_to(tmp_path / "one/file") == (f"{top}/one", f"{top}/up", f"{top}/a/b/file")
    assert way_to(tmp_path / "a/b/file") == (f"{top}/a/b/file",)
    assert way_to(tmp_path / "nothing") == (f"{top}/nothing",)
    assert set(way_to(tmp_path / "loop")[:-1]) == {f"{top}/loop"}


def test_a_file_full_of_faults_is_told_in_few_words(work: Path) -> None:
    """Whoever can write it must not keep the server busy with it."""
    (work / "handrail.toml").write_text("".join(f"key_{number} = 1\n" for number in range(30_000)))
    with pytest.raises(SettingsFault) as told:
        load(work, environment=os.environ)
    lines = str(told.value).splitlines()
    assert (len(lines), lines[-1]) == (21, "and 29980 more")


@pytest.mark.parametrize(("sound", "looked_at"), [(19, True), (20, False)])
def test_few_patterns_that_are_not_taken_are_compiled(work: Path, sound: int, looked_at: bool) -> None:
    """An untrusted file may not set them: its mistakes are told as far as a person would make them."""
    lines = [*(f'p{number} = "x"' for number in range(sound)), 'broken = "("']
    (work / "handrail.toml").write_text("\n".join(["[redaction.patterns]", *lines, ""]))
    if looked_at:
        with pytest.raises(SettingsFault, match="is no regular expression"):
            load(work, environment=os.environ)
    else:
        assert "`redaction.patterns` is for a trusted file to set" in load(work, environment=os.environ).warnings[0]


TABLE = '[project]\nname = "x"\n\n["tool".\'handrail\'.limits]\nmax_calls = 1\n'
PLANTED: dict[str, dict[str, Any]] = {
    "write_file": {"path": "pyproject.toml", "content": TABLE, "mode": "overwrite", "expected_sha256": "*"},
    "edit_file": {"path": "pyproject.toml", "edits": [{"old": "# end", "new": "[tool.handrail]"}]},
    "apply_patch": {
        "patch": "--- a/pyproject.toml\n+++ b/pyproject.toml\n@@ -3 +3 @@\n-# end\n+[tool.handrail]\n",
        "dry_run": False,
    },
    "move_path": {"source": "mine.toml", "target": "pyproject.toml", "overwrite": True},
}


@pytest.mark.parametrize("tool", PLANTED)
async def test_no_tool_makes_settings_of_a_file_that_held_none(tmp_path: Path, tool: str) -> None:
    """However its table is written; what names us in another place may be written."""
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "x"\n# end\n')
    (tmp_path / "mine.toml").write_text(TABLE)
    rules = [{"effect": "allow", "touch": "fs.*", "target": "**"}]
    harmless = {"path": "pyproject.toml", "edits": [{"old": "# end", "new": 'dependencies = ["handrail"]'}]}
    config = {"tools.enable": ["fs"], "rules": rules}
    async with Runtime.open(tmp_path, config=config, mode="headless") as runtime:
        for path in ("pyproject.toml", "mine.toml"):
            await runtime.call("read_file", {"path": path, "whole": True})
        planted = await runtime.call(tool, PLANTED[tool])
        held = project.read_text()
        written = await runtime.call("edit_file", harmless)
    assert planted.error is not None
    assert (planted.error.code, held) == ("PATH_PROTECTED", '[project]\nname = "x"\n# end\n'), planted.content
    assert written.ok, written.content
    assert '"handrail"' in project.read_text()


@pytest.mark.parametrize("trusted", [False, True])
def test_a_file_that_nobody_trusts_takes_the_place_of_no_table(work: Path, trusted: bool) -> None:
    """A program can make an empty handrail.toml again and again; once a person trusts it, it stands alone."""
    table, own = work / "pyproject.toml", work / "handrail.toml"
    table.write_text(DENY.format(table="tool.handrail."))
    trust_store(os.environ).trust(table)
    first = load(work, environment=os.environ)
    own.write_text("limits.max_calls = 7\n")
    if trusted:
        trust_store(os.environ).trust(own)
    for former in (None, first):
        loaded = load(work, environment=os.environ, former=former)
        assert [rule.target for rule in loaded.settings.rules] == ([] if trusted else ["priv/**"])
        assert (loaded.settings.limits.max_calls, loaded.warnings) == (7, ())
    own.write_text("broken")
    kept = load(work, environment=os.environ, former=load(work, environment=os.environ, former=first))
    assert [rule.target for rule in kept.settings.rules] == ["priv/**"]

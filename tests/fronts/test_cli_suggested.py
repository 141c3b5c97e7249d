"""What the command line suggests: every command can be run as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from behaviour._commands import need_sandbox
from fronts.conftest import Cli


def _tried(err: str, mark: str = "  try: ") -> list[str]:
    """The words of the command that is suggested, without the program's own name."""
    line = next(line for line in err.splitlines() if line.startswith(mark))
    return shlex.split(line.removeprefix(mark))[1:]


def test_a_suggested_command_keeps_the_options(cli: Cli, tmp_path: Path) -> None:
    """It works in the same place, under the same settings and in the same run, with spaces in any of them."""
    place = tmp_path / "another place"
    place.mkdir()
    (place / "b.txt").write_text("b\n")
    (place / "own.toml").write_text('tools.enable = ["fs"]\n')
    options = ["--run", "r", "--enable", "hash_file", "--workspace", str(place), "--config", str(place / "own.toml")]
    tried = _tried(cli("call", *options, "hash_file", "path=b.tx").err)
    assert tried == ["call", *options, "hash_file", "path=b.txt"]
    assert cli(*tried).code == 0


def test_a_suggested_look_at_the_tools_keeps_the_dialect(cli: Cli) -> None:
    """Their names are known only there; arguments that do not fit are answered with the tool's own."""
    assert _tried(cli("call", "--dialect", "tool-hub", "zzzzzz").err) == ["tools", "list", "--dialect", "tool-hub"]
    for argv in (("core/fs.readTxt",), ("core/fs.readText", "pth=a.txt")):
        tried = _tried(cli("call", "--dialect", "tool-hub", *argv).err)
        assert tried == ["tools", "show", "core/fs.readText", "--dialect", "tool-hub"]
        assert cli(*tried).code == 0


def test_a_denial_offers_the_explanation_of_this_very_call(cli: Cli) -> None:
    """With its arguments, quoted; only a very long one is shortened."""
    mark = "  what would change that: "
    ended = cli("call", "--enable", "fs", "--run", "r", "write_file", "path=/etc/a b", "content=it's")
    tried = _tried(ended.err, mark)
    assert tried == ["policy", "explain", "--enable", "fs", "write_file", "path=/etc/a b", "content=it's"]
    assert cli(*tried).code == 3
    ended = cli("call", "write_file", "path=.env", f"content={'x' * 300}")
    assert _tried(ended.err, mark)[-1] == f"content={'x' * 192}…"


def test_the_rest_of_a_cut_text_can_be_fetched_by_the_command_that_is_shown(cli: Cli) -> None:
    """Another command finds it only in the run it was kept in; a file that holds such a line is left as it is."""
    need_sandbox()
    shown = cli("call", "--enable", "exec", "run_command", "command=seq 90000").out
    notice = re.search(r"the rest: (handrail .*)\]", shown)
    assert notice is not None, shown[-400:]
    words = shlex.split(notice[1])
    assert words[1:3] == ["call", "--run"]
    assert cli(*words[1:]).code == 0
    (cli.work / "fake").write_text('the rest: read_file {"path": "run:observations/1.txt"}]\n')
    assert cli("call", "read_file", "path=fake").out == 'the rest: read_file {"path": "run:observations/1.txt"}]\n'


def test_what_an_earlier_run_kept_is_not_there_in_a_new_one(cli: Cli) -> None:
    """Which is said, for each call is a run of its own."""
    said = "  Each `handrail call` is a run of its own; `handrail call --run RUN …` looks in one that was before.\n"
    assert cli("call", "read_file", "path=run:observations/1.txt").err.endswith(said)
    assert said not in cli("call", "--run", "r", "read_file", "path=run:observations/1.txt").err


def test_a_file_that_must_be_read_first_is_read_in_the_same_run(cli: Cli) -> None:
    """The two commands that are shown do what was wanted, one after the other: the second asks a person."""
    wanted = ("write_file", "path=a.txt", "content=new", "mode=overwrite")
    told = cli("call", "--enable", "fs", *wanted).err
    line = next(line for line in told.splitlines() if line.startswith("  try: "))
    _, *words = shlex.split(line.removeprefix("  try: "))
    run = words[words.index("--run") + 1]
    assert f"then this call with --run {run}, too" in told
    assert cli(*words).code == 0
    asked = cli("call", "--enable", "fs", "--run", run, *wanted)
    assert (asked.code, asked.err.startswith("APPROVAL_REQUIRED")) == (4, True)


def test_an_unknown_kind_of_touch_is_told_with_the_nearest(cli: Cli) -> None:
    """Instead of a call that is permitted nothing; a dialect's own kinds are known in it."""
    ended = cli("call", "--permissions", "fs.raed", "read_file", "path=a.txt")
    assert (ended.code, ended.err.splitlines()[-1].startswith("Error: There is no kind of touch 'fs.raed'")) == (
        2,
        True,
    )
    assert ended.err.endswith("Did you mean fs.read?\n")
    assert cli("call", "--permissions", "fs.read, fs.write", "read_file", "path=a.txt").code == 0
    theirs = ["call", "--dialect", "tool-hub", "--permissions", "read:fs", "core/fs.readText", "path=a.txt"]
    assert cli(*theirs).code == 0

"""From text to place: what comes out is canonical, beneath a root, and what the system itself would find."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import Code, Problem
from handrail.words import Place, PlaceKind, Root
from handrail.workspace import WorkspaceFiles

NAMES = ["a", "b", "f.txt", "in", "up", "out", "abs", "other", "loop", "dangling", "chain", "missing", "..", ".", ""]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with links of every kind, a second root, and things outside."""
    base = Path(os.path.realpath(tmp_path_factory.mktemp("resolve")))
    for folder in ("ws/a/b", "more/deep", "outside"):
        (base / folder).mkdir(parents=True)
    for file in ("ws/f.txt", "ws/a/f.txt", "ws/a/b/f.txt", "more/deep/m.txt", "outside/f.txt"):
        (base / file).write_text(file)
    links = {
        "ws/in": "a/b",
        "ws/a/up": "..",
        "ws/a/b/up": "../../a",
        "ws/out": "../outside",
        "ws/a/out": str(base / "outside"),
        "ws/abs": str(base / "ws/a"),
        "ws/other": str(base / "more/deep"),
        "ws/a/other": "../../more",
        "ws/loop": "loop",
        "ws/dangling": "a/new.txt",
        "ws/a/dangling": "../../outside/new.txt",
        "ws/chain": "in/up",
        "more/back": "../ws/a",
        "ws/side": "../outside/../ws/f.txt",
        "ws/odd": "a\nb",
        "ws/hop0": "f.txt",
        **{f"ws/hop{number}": f"hop{number - 1}" for number in range(1, 41)},
    }
    for name, target in links.items():
        (base / name).symlink_to(target)
    return base


@pytest.fixture(scope="module", params=["openat2", "walk"])
def files(ground: Path, request: pytest.FixtureRequest) -> Iterator[WorkspaceFiles]:
    """The workspace, once with each way to open."""
    made = WorkspaceFiles(roots_of(ground), images=None, locks_dir=None, opener=request.param)
    yield made
    asyncio.run(made.close())


def roots_of(ground: Path) -> list[Root]:
    """The workspace and a second root beside it."""
    return [Root("workspace", str(ground / "ws"), True), Root(str(ground / "more"), str(ground / "more"), False)]


def beneath_a_root(ground: Path, real: str) -> bool:
    """Whether a real path lies in a root."""
    return any(f"{real}/".startswith(f"{root.path}/") for root in roots_of(ground))


paths = (
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=7)
    .map("/".join)
    .filter(lambda text: text[:1] not in ("", "/"))
)


@given(paths)
@settings(max_examples=400, deadline=None)
def test_a_place_is_where_the_system_itself_would_look(files: WorkspaceFiles, ground: Path, path: str) -> None:
    """A resolved place is the real path; a path that really leads outside is refused."""
    real = os.path.realpath(ground / "ws" / path)
    try:
        place = files.resolve(path)
    except Problem:
        return
    assert place.absolute == real
    assert beneath_a_root(ground, real)
    assert (place.kind is PlaceKind.MISSING) == (not os.path.lexists(place.absolute))


@given(paths)
@settings(max_examples=200, deadline=None)
def test_a_path_without_dots_is_refused_only_for_leading_out(files: WorkspaceFiles, ground: Path, path: str) -> None:
    """Nothing that lies in a root is out of reach as long as the text takes no step up and no endless link."""
    real = os.path.realpath(ground / "ws" / path)
    if ".." in path.split("/") or "loop" in path or not beneath_a_root(ground, real):
        return
    assert files.resolve(path).absolute == real


@given(paths)
@settings(max_examples=200, deadline=None)
def test_resolving_what_was_resolved_changes_nothing(files: WorkspaceFiles, path: str) -> None:
    """A canonical path is its own canonical path, and holds no link, `.`, `..` or empty name."""
    try:
        place = files.resolve(path)
    except Problem:
        return
    if place.root.name != "workspace" or not place.path:
        return
    again = files.resolve(place.path)
    assert facts(again) == facts(place)
    assert not {"", ".", ".."} & set(place.path.split("/"))


@given(paths)
@settings(max_examples=200, deadline=None)
def test_both_ways_to_open_resolve_alike(ground: Path, files: WorkspaceFiles, path: str) -> None:
    """The fallback gives the same places and the same refusals."""
    answers = []
    for opener in ("openat2", "walk"):
        other = WorkspaceFiles(roots_of(ground), images=None, locks_dir=None, opener=opener)
        try:
            answers.append(facts(other.resolve(path)))
        except Problem as problem:
            answers.append((problem.code.value, problem.message))
        finally:
            other._handles.close()
    assert answers[0] == answers[1]


@given(paths, st.booleans(), st.sampled_from(["/", "//", "/./", "/../ws/", "/a/../"]))
@settings(max_examples=300, deadline=None)
def test_an_absolute_path_is_the_same_place_as_the_relative_one(
    ground: Path, path: str, follow: bool, between: str
) -> None:
    """Where absolute paths are taken: quickly or walked, with links and detours, twice in a row."""
    answers = list[object]()
    for opener in ("openat2", "walk"):
        other = WorkspaceFiles(roots_of(ground), allow_absolute=True, images=None, locks_dir=None, opener=opener)
        for asked in (path, f"{ground}/ws{between}{path}", f"{ground}/ws{between}{path}"):
            try:
                place = other.resolve(asked, follow)
                answers.append((facts(place), place.path, place.root, place.asked == asked))
            except Problem as problem:
                answers.append((problem.code, problem.message.replace(f"{ground}/ws{between}", "")))
        other._handles.close()
    assert answers[:3] == answers[3:]
    assert answers[1] == answers[2]
    if between == "/":
        assert answers[0] == answers[1] or ".." in path


def facts(place: Place) -> tuple[str, str]:
    """What a place says, as text; without how it was asked for."""
    return place.shown, f"{place.kind} {place.size} {place.mtime_ns} {place.inode} {place.links}"


REFUSED = {
    "an empty text": ("", Code.INVALID_ARGS),
    "NUL": ("a\0b", Code.INVALID_ARGS),
    "NUL at the end": ("f.txt\0", Code.INVALID_ARGS),
    "a newline": ("a\nb", Code.INVALID_ARGS),
    "an escape": ("a\x1b[2J", Code.INVALID_ARGS),
    "DEL": ("a\x7f", Code.INVALID_ARGS),
    "a C1 control": ("a\x85b", Code.INVALID_ARGS),
    "a direction override": ("txt.\u202egpj", Code.INVALID_ARGS),
    "a lone surrogate": ("a\udcff", Code.INVALID_ARGS),
    "a name too long": ("n" * 256, Code.INVALID_ARGS),
    "a name too long in bytes": ("ü" * 128, Code.INVALID_ARGS),
    "a path too long": ("abc/" * 1024, Code.INVALID_ARGS),
    "a path too deep": ("d/" * 256, Code.INVALID_ARGS),
    "a step above": ("..", Code.PATH_OUTSIDE_ROOTS),
    "a step above and back": ("../ws/f.txt", Code.PATH_OUTSIDE_ROOTS),
    "a step above later": ("a/../../outside/f.txt", Code.PATH_OUTSIDE_ROOTS),
    "up after nothing": ("missing/../f.txt", Code.INVALID_ARGS),
    "up after a file": ("f.txt/../f.txt", Code.INVALID_ARGS),
    "a link outside": ("out/f.txt", Code.PATH_OUTSIDE_ROOTS),
    "an absolute link outside": ("a/out/f.txt", Code.PATH_OUTSIDE_ROOTS),
    "a dangling link outside": ("a/dangling", Code.PATH_OUTSIDE_ROOTS),
    "a link that steps up outside": ("side", Code.PATH_OUTSIDE_ROOTS),
    "a link to a name that is no text": ("odd", Code.INVALID_ARGS),
    "one link too many": ("hop40", Code.PATH_OUTSIDE_ROOTS),
    "a link to itself": ("loop", Code.PATH_OUTSIDE_ROOTS),
    "an absolute path": ("/etc/passwd", Code.PATH_OUTSIDE_ROOTS),
    "the root of all": ("/", Code.PATH_OUTSIDE_ROOTS),
    "a run's folder where there is none": ("run:observations/1.txt", Code.PATH_OUTSIDE_ROOTS),
}


@pytest.mark.parametrize(("path", "code"), REFUSED.values(), ids=REFUSED)
def test_a_text_that_cannot_be_a_place_is_refused(files: WorkspaceFiles, path: str, code: Code) -> None:
    """Unusable text is INVALID_ARGS, leading outside is PATH_OUTSIDE_ROOTS."""
    with pytest.raises(Problem) as caught:
        files.resolve(path)
    assert caught.value.code is code


RESOLVED = {
    "a file": ("f.txt", "f.txt", PlaceKind.FILE),
    "a file below": ("a/b/f.txt", "a/b/f.txt", PlaceKind.FILE),
    "the root": (".", ".", PlaceKind.DIRECTORY),
    "odd slashes": (".//a/./b//", "a/b", PlaceKind.DIRECTORY),
    "up inside": ("a/b/../f.txt", "a/f.txt", PlaceKind.FILE),
    "a link": ("in/f.txt", "a/b/f.txt", PlaceKind.FILE),
    "a link to a folder above": ("a/up/f.txt", "f.txt", PlaceKind.FILE),
    "links after links": ("chain/b/f.txt", "a/b/f.txt", PlaceKind.FILE),
    "an absolute link inside": ("abs/f.txt", "a/f.txt", PlaceKind.FILE),
    "up from where a link led": ("in/../f.txt", "a/f.txt", PlaceKind.FILE),
    "as many links as there may be": ("hop39", "f.txt", PlaceKind.FILE),
    "a dangling link": ("dangling", "a/new.txt", PlaceKind.MISSING),
    "nothing": ("missing", "missing", PlaceKind.MISSING),
    "nothing below nothing": ("a/missing/x/y", "a/missing/x/y", PlaceKind.MISSING),
    "nothing below a file": ("f.txt/x", "f.txt/x", PlaceKind.MISSING),
    "a home sign": ("~/x", "~/x", PlaceKind.MISSING),
    "encoded dots": ("%2e%2e/x", "%2e%2e/x", PlaceKind.MISSING),
    "backslashes": ("..\\x", "..\\x", PlaceKind.MISSING),
    "three dots": (".../x", ".../x", PlaceKind.MISSING),
}


@pytest.mark.parametrize(("path", "shown", "kind"), RESOLVED.values(), ids=RESOLVED)
def test_a_text_resolves_to_its_canonical_place(files: WorkspaceFiles, path: str, shown: str, kind: PlaceKind) -> None:
    """Each kind of path gives the one place it stands for."""
    place = files.resolve(path)
    assert (place.shown, place.kind, place.asked) == (shown, kind, path)


def test_a_link_may_lead_into_another_root(files: WorkspaceFiles, ground: Path) -> None:
    """The place then belongs to that root, whichever way the link is written."""
    assert files.resolve("other/m.txt").shown == f"{ground}/more/deep/m.txt"
    assert files.resolve("a/other/deep/m.txt").root.name == f"{ground}/more"
    assert files.resolve("a/other/back/f.txt").shown == "a/f.txt"


def test_a_link_at_the_end_can_be_left_alone(files: WorkspaceFiles) -> None:
    """Without following, the link itself is the place; links before it are still followed."""
    assert [files.resolve(path, follow=False).kind for path in ("out", "loop", "in/up", "in/f.txt")] == [
        PlaceKind.LINK,
        PlaceKind.LINK,
        PlaceKind.LINK,
        PlaceKind.FILE,
    ]
    assert files.resolve("in/up", follow=False).shown == "a/b/up"


def test_a_link_that_leads_outside_is_named(files: WorkspaceFiles, ground: Path) -> None:
    """The refusal says which link it was, and what the roots are."""
    with pytest.raises(Problem) as caught:
        files.resolve("a/up/out/f.txt")
    assert caught.value.details == {"roots": [f"{ground}/ws", f"{ground}/more"], "link": "out"}


def test_an_absolute_path_is_refused_with_the_relative_one_that_works(files: WorkspaceFiles, ground: Path) -> None:
    """Where absolute paths are not allowed, the refusal names the way that is."""
    with pytest.raises(Problem) as caught:
        files.resolve(f"{ground}/ws/a/f.txt")
    assert caught.value.details["relative"] == "a/f.txt"


async def test_absolute_paths_resolve_beneath_any_root_where_they_are_allowed(ground: Path) -> None:
    """Allowed or not, outside of the roots stays outside."""
    files = WorkspaceFiles(roots_of(ground), allow_absolute=True, images=None, locks_dir=None)
    try:
        assert files.resolve(f"{ground}/ws/a/../f.txt").shown == "f.txt"
        assert files.resolve(f"{ground}/more/deep/m.txt").root.name == f"{ground}/more"
        for path in ("/", "/etc/passwd", f"{ground}/outside/f.txt", f"{ground}/ws/../outside", f"{ground}/wsx"):
            with pytest.raises(Problem, match="allowed roots"):
                files.resolve(path)
    finally:
        await files.close()


async def test_run_paths_resolve_beneath_their_own_roots(tmp_path: Path) -> None:
    """`run:` names a root; it neither leaves it nor hides a file of the workspace that looks like one."""
    for folder in ("ws/run:observations", "obs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "obs/3.txt").write_text("3")
    roots = [Root("workspace", str(tmp_path / "ws"), True), Root("run:observations", str(tmp_path / "obs"), False)]
    files = WorkspaceFiles(roots, images=None, locks_dir=None)
    try:
        assert files.resolve("run:observations/3.txt").shown == "run:observations/3.txt"
        assert files.resolve("./run:x").kind is PlaceKind.MISSING
        for path in ("run:observations/../x", "run:archive/x", "./run:observations/3.txt"):
            with pytest.raises(Problem):
                files.resolve(path)
    finally:
        await files.close()


async def test_a_root_inside_another_one_speaks_for_what_lies_in_it(tmp_path: Path) -> None:
    """A thing has one canonical place, whichever way it is asked for."""
    (tmp_path / "ws/vendor/lib").mkdir(parents=True)
    (tmp_path / "ws/vendor/lib/x.py").write_text("x")
    roots = [Root("workspace", str(tmp_path / "ws"), True), Root("vendor", str(tmp_path / "ws/vendor"), False)]
    files = WorkspaceFiles(roots, allow_absolute=True, images=None, locks_dir=None)
    try:
        for path in ("vendor/lib/x.py", "vendor/../vendor/lib/x.py", f"{tmp_path}/ws/vendor/lib/x.py"):
            place = files.resolve(path)
            assert (place.root.name, place.path) == ("vendor", "lib/x.py")
        assert files.resolve("vendor/..").shown == "."
    finally:
        await files.close()

"""Laws of matching: paths by segments, names that protect, hosts, command words."""

from __future__ import annotations

import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.policy.patterns import (
    could_match_below,
    excluded,
    host_matches,
    literal,
    name_matches,
    path_matches,
    protects,
    takes_all_below,
    words_match,
)
from handrail.words import Exclusion, Root
from laws import reference_policy as reference

PIECES = ["a", "b", "ab", ".e", "*", "*", "**", "?", "/", "/", "/", "[ab]", "[!a]", "[a-b]", "[*]", "-", "B"]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)
PATHS = st.lists(st.text("abB.*-[", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join)
NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
ANY_PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
ROOT = Root("workspace", "/ws", True)
FURTHER = Root("/data", "/data", False)
OBSERVATIONS = Root("run:observations", "/state/runs/r/observations", False)


# ── paths ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**", "src/b/a.py", True),
        ("src/**", "src", True),
        ("src/**", "srcs", False),
        ("src/", "src/b/a.py", True),
        ("src/", "src", True),
        ("src/", "srcs/a", False),
        ("src", "src/a", False),
        ("**", "", True),
        ("**", "a/b/c", True),
        ("*", "a/b", False),
        ("**/a", "a", True),
        ("**/a", "x/y/a", True),
        ("**/a", "xa", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "ab", False),
        ("a**b", "a/x/b", True),
        ("a**/b", "ax/y/b", True),
        ("a**/b", "ab", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a[/]c", "a/c", False),
        ("a[!b]c", "a/c", False),
        ("a[!b]c", "axc", True),
        ("a[^b]c", "abc", False),
        ("a[b-d]", "ac", True),
        ("a[d-b]", "ac", False),
        ("a[!d-b]", "ac", True),
        ("a[]]", "a]", True),
        ("a[", "a[", True),
        ("a[]", "a[]", True),
        ("a.c", "abc", False),
        ("a\nb", "a\nb", True),
        ("*", "a\nb", True),
        ("SRC", "src", False),
    ],
)
def test_a_path_fits_by_segments(pattern: str, path: str, fits: bool) -> None:
    """`*` and `?` stay inside a segment, `**` crosses, a slash at the end takes all below."""
    assert path_matches(pattern, path) is fits


@given(PATTERNS, PATHS)
def test_paths_are_matched_as_the_naive_matcher_does(pattern: str, path: str) -> None:
    """The compiled form takes exactly the paths that a sign-by-sign reading of the pattern takes."""
    assert path_matches(pattern, path) is reference.glob(pattern, path)
    assert path_matches(pattern, path, covers_below=True) is reference.glob_or_folder(pattern, path)


@given(st.one_of(st.text(max_size=20), st.text("[]!^-*?/ab&|~\\", max_size=12)), ANY_PATHS)
def test_any_text_is_a_pattern(pattern: str, path: str) -> None:
    """No pattern raises or warns, whatever signs it is made of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path_matches(pattern, path, covers_below=True)
        could_match_below(pattern, path)
        name_matches(pattern, path)


@given(ANY_PATHS, ANY_PATHS)
def test_a_literal_matches_only_itself(path: str, other: str) -> None:
    """Wildcards in a real name stand for themselves."""
    assert path_matches(literal(path), path)
    assert path_matches(literal(path), other) is (path == other)


@pytest.mark.parametrize("name", ["a*", "a?", "a[b]", "a[!b]", "[", "[[]", "**", "a]b", "[*]", "!x", "a-b", "^", "\\"])
def test_a_literal_of_a_name_with_signs_misses_what_the_signs_would_take(name: str) -> None:
    """Neither a neighbour that the wildcard would take nor one below is covered."""
    assert path_matches(literal(name), name)
    assert [other for other in ("ab", "aa", "ac", "b", "x", "a/b") if path_matches(literal(name), other)] == []


@given(PATTERNS, PATHS, PATHS)
def test_could_match_below_never_gives_a_wrong_no(pattern: str, folder: str, rest: str) -> None:
    """Whenever something below a folder is covered, that it could be was said before."""
    if path_matches(pattern, f"{folder}/{rest}", covers_below=True):
        assert could_match_below(pattern, folder)


@pytest.mark.parametrize(
    ("pattern", "folder", "could"),
    [
        ("src/*.py", "src", True),
        ("src/*.py", "src/a", False),
        ("src/a.py", "lib", False),
        ("src", "src/a/b", True),
        ("src/", "src", True),
        ("**/x", "deep/down", True),
        ("a*/x", "abc", True),
        ("a*/x", "bbc", False),
        ("a**z/q", "axx/y", True),
        ("a**z/q", "b", False),
        ("/ws/src/**", "/ws", True),
        ("/ws/src/**", "/wt", False),
        ("run:workspace/x", "run:workspace", True),
        ("anything", "", True),
        ("[a/b]/c", "a", True),
    ],
)
def test_could_match_below_says_no_where_nothing_can(pattern: str, folder: str, could: bool) -> None:
    """A folder is held back only by rules that could be about something in it."""
    assert could_match_below(pattern, folder) is could


@given(PATTERNS, PATHS, PATHS)
def test_takes_all_below_never_gives_a_wrong_yes(pattern: str, folder: str, rest: str) -> None:
    """A pattern that is said to take all below a folder it matches does take it."""
    if takes_all_below(pattern) and path_matches(pattern, folder):
        assert path_matches(pattern, f"{folder}/{rest}")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 20 + "b", "a" * 255),
        ("**/a/" * 12 + "b", "a/" * 2000 + "c"),
        ("a**" * 15 + "b", "a/" * 2000),
        ("**/*a*a*a*/" * 6 + "b", ("a" * 20 + "/") * 200 + "c"),
        ("*" * 50 + "b", "a" * 4000),
        ("?*" * 30 + "/b", "a" * 255 + "/c"),
        ("[a-z]*" * 20 + "!", "a" * 255),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    """A rule of an unknown project and a path of a model's making cannot hang a decision between them."""
    began = time.process_time()
    for covers_below in (False, True):
        path_matches(pattern, path, covers_below=covers_below)
    name_matches(pattern, path)
    could_match_below(pattern, path)
    assert time.process_time() - began < 2


# ── protected names ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("patterns", "path", "found"),
    [
        ((".env*",), ".env", ".env*"),
        ((".env*",), "a/b/.ENV.local", ".env*"),
        ((".env*",), ".env.d/inner/file", ".env*"),
        ((".env*",), "x.env", None),
        ((".env*", "!.env.example"), "a/.env.example", None),
        ((".env*", "!.env.example"), ".Env.Example", None),
        ((".env*", "!.env.example", ".env.example"), ".env.example", ".env.example"),
        (("!.env.example", ".env*"), ".env.example", ".env*"),
        (("secrets/",), "a/secrets/x", "secrets/"),
        (("secrets/",), "a/secrets", "secrets/"),
        ((".git/hooks",), "sub/.git/hooks/pre-commit", ".git/hooks"),
        ((".git/hooks",), "sub/.git/x/hooks", None),
        (("/private",), "private/x", "/private"),
        (("/private",), "sub/private/x", None),
        (("x*", "!/a/xy"), "a/xy", None),
        (("x*", "!/a/xy"), "b/xy", "x*"),
        (("x*", "!/a/xy"), "a/XY", "x*"),
        ((), ".env", None),
        (("a", "b"), "x/b/a", "a"),
    ],
)
def test_names_protect_at_any_depth_and_in_any_case(patterns: tuple[str, ...], path: str, found: str | None) -> None:
    """A protecting name covers all below it; a later `!` takes it back, a leading slash anchors it."""
    assert protects(patterns, path) == found


PROTECTING = st.sampled_from([".e*", "!.ee", "a", "!a/b", "B*", "!b", "*", "/a", "!/a/a", "a/b", "[ab]", "ab/"])


@given(
    st.lists(PROTECTING, max_size=4).map(tuple),
    st.lists(st.sampled_from(["a", "b", "A", ".e", ".EE", "ab"]), min_size=1).map("/".join),
)
def test_protected_names_are_left_out_exactly_where_they_protect(patterns: tuple[str, ...], path: str) -> None:
    """The same names, read as exclusions of a walk, cover the same paths."""
    items = []
    for index, pattern in enumerate(patterns):
        if not pattern.startswith("!"):
            later = tuple(item[1:] for item in patterns[index + 1 :] if item.startswith("!"))
            items.append(Exclusion(pattern, "defaults.protected", except_for=later))
    assert (excluded(items, ROOT, path) is not None) is (protects(patterns, path) is not None)


@pytest.mark.parametrize(
    ("item", "root", "path", "covered"),
    [
        (Exclusion(".ssh", "r"), ROOT, "home/.SSH/key", True),
        (Exclusion("/src/a", "r", any_case=False), ROOT, "src/a/b", True),
        (Exclusion("/src/a", "r", any_case=False), ROOT, "SRC/a", False),
        (Exclusion("/src/a", "r", any_case=False), ROOT, "x/src/a", False),
        (Exclusion("//data/x", "r"), FURTHER, "x/y", True),
        (Exclusion("//data/x", "r"), ROOT, "x/y", False),
        (Exclusion("//etc/x", "r"), Root("/", "/", False), "etc/x", True),
        (Exclusion("/run:observations/3.txt", "r"), OBSERVATIONS, "3.txt", True),
        (Exclusion("/run:observations/3.txt", "r"), ROOT, "3.txt", False),
        (Exclusion("/x", "r", root="/data"), ROOT, "x", False),
        (Exclusion("/x", "r", root="/data"), FURTHER, "x", True),
        (Exclusion(".env*", "r", except_for=("/.env.test",)), ROOT, ".env.test", False),
        (Exclusion(".env*", "r", except_for=("/.env.test",)), ROOT, ".ENV.test", True),
        (Exclusion(".env*", "r", except_for=("/.env.test",)), ROOT, "sub/.env.test", True),
        (Exclusion(".env*", "r", except_for=(".env.example",)), ROOT, "sub/.ENV.example", False),
    ],
)
def test_an_exclusion_covers_what_its_pattern_says(item: Exclusion, root: Root, path: str, covered: bool) -> None:
    """Names stand at any depth, `/x` at the root, `//x` on the machine, `/run:x` in the run; exceptions are exact."""
    assert excluded([item], root, path) == (item if covered else None)


# ── hosts and commands ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "target", "fits", "restricts"),
    [
        ("example.org", "example.org:443", True, True),
        ("example.org", "example.org:80", True, True),
        ("example.org", "example.org:8080", False, True),
        ("example.org:8080", "example.org:8080", True, True),
        ("example.org:8080", "example.org:443", False, False),
        ("example.org:*", "example.org:1", True, True),
        ("Example.ORG", "eXample.org.:443", True, True),
        ("*.example.org", "a.b.example.org:443", True, True),
        ("*.example.org", "a.example.org.:443", True, True),
        ("*.example.org", "example.org:443", False, False),
        ("*.example.org", "badexample.org:443", False, False),
        ("*", "anything:443", True, True),
        ("*", "anything:22", False, True),
        ("*:*", "anything:22", True, True),
        ("[::1]", "::1:443", True, True),
        ("[::1]:8080", "::1:8080", True, True),
        ("[::1]:8080", "[::1]:8080", True, True),
        ("::1", "::1:443", True, True),
        ("[fd00:0::1]", "fd00::1:443", True, True),
        ("10.0.0.1", "::ffff:10.0.0.1:443", True, True),
        ("example.org", "example.org", False, True),
    ],
)
def test_hosts_fit_by_name_and_port(pattern: str, target: str, fits: bool, restricts: bool) -> None:
    """A name without a port means 80 and 443 to allow, and every port to restrict."""
    assert (host_matches(pattern, target), host_matches(pattern, target, any_port=True)) == (fits, restricts)


@pytest.mark.parametrize(
    ("pattern", "words", "allows", "restricts"),
    [
        ("npm test", "npm test", True, True),
        ("npm test", "npm test --watch", False, True),
        ("npm test", "npm", False, False),
        ("git diff *", "git diff", True, True),
        ("git diff *", "git diff a b", True, True),
        ("git diff *", "git push", False, False),
        ("git * x", "git a x", True, True),
        ("git * x", "git a y", False, False),
        ("rm", "rm -rf /", False, True),
        ("rm", "/bin/rm -rf /", False, True),
        ("rm", "./rm", False, True),
        ("rm", "rmdir x", False, False),
        ("/bin/rm", "/bin/rm x", False, True),
        ("./deploy.sh", "./deploy.sh", True, True),
        ("/bin/rm", "rm x", False, False),
        ("*", "ls", True, True),
        ("*", "ls -l", False, True),
        ("* *", "ls -l", True, True),
        ("", "ls", False, False),
        ("ls", "", False, False),
    ],
)
def test_commands_fit_by_words(pattern: str, words: str, allows: bool, restricts: bool) -> None:
    """An allow takes exactly its words; a rule that restricts is not escaped by further words or a program's path."""
    assert (words_match(pattern, words.split()), words_match(pattern, words.split(), prefix=True)) == (
        allows,
        restricts,
    )

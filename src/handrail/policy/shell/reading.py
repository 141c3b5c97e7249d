"""Put the reading of a line together: its commands, what they wrap, and the files that redirects name."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from functools import lru_cache

from handrail.policy.shell import files, git, make, wrappers
from handrail.policy.shell.bombs import multiplies
from handrail.policy.shell.elsewhere import looks_around
from handrail.policy.shell.forbidden import forbidden_line, may_be_forbidden
from handrail.policy.shell.harmless import calm_for_any, harmless
from handrail.policy.shell.model import (
    MAX_BROKEN_BYTES,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_READ_BYTES,
    MAX_TREE_BYTES,
    NotUnderstoodError,
    Part,
    Reading,
    Simple,
    Sure,
    Word,
)
from handrail.policy.shell.places import Places, in_loop, moving
from handrail.policy.shell.scan import Scanner
from handrail.policy.shell.scripts import file_doubt, file_of
from handrail.policy.shell.tree import Tree
from handrail.policy.shell.variables import changes_programs, changes_shell

_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]")
_HERE = ("",)
_EXPANDS = re.compile(r"[$`]|[<>]\(")
_PIECES = re.compile(r"[;&|()`\n{}$]+|[<>]\(")


def read_line(line: str) -> Reading:
    """Read a line of bash. Never raises; what is not fully understood carries its doubt."""
    return _cached(line) if len(line) <= 4096 else _cached_long(line)


def read_anew(line: str) -> Reading:
    """Read a line without looking whether it was read before."""
    whole = _Whole(line)
    whole.line(line, Places())
    found = whole.reading()
    # What is denied as a whole is stated as a whole: its commands may each be fine.
    whole.doubts(forbidden_line(line, found) or "")
    return found if found.doubt == whole.doubt else whole.reading()


_cached = lru_cache(maxsize=256)(read_anew)
_cached_long = lru_cache(maxsize=4)(read_anew)  # while one call is judged, which asks for it more than once


def line_calm(line: str, *, sh: bool) -> bool:
    """Whether a line for a shell only runs what is harmless, and writes nothing."""
    whole = _Whole(line)
    whole.line(line, Places(), sh=sh, depth=1)
    return not whole.doubt and not whole.writes and all(not part.doubt and harmless(part.words) for part in whole.parts)


class _Whole:
    """All that has been found in a line and in the lines within it."""

    def __init__(self, line: str) -> None:
        self.parts: dict[Part, None] = {}
        self.writes: dict[str, None] = {}
        self.replaced: set[str] = set()  # those of `writes` that are more than folders being made
        self.reads: dict[str, None] = {}
        self.git_writes: dict[str, None] = {}
        self.scripts: dict[str, None] = {}
        self.doubt = ""
        self.bomb = False
        self.unseen = ""
        self.taken: set[tuple[str, ...]] = set()
        self.expands: set[tuple[str, ...]] = set()
        self.reads_input = False  # the command being read has a shell that takes lines from its input
        # How much is read at most: the line at some depths, but not what stands in it again and again.
        self.room = min(MAX_READ_BYTES, 4096 + 8 * len(line))
        self.seen: dict[tuple[object, ...], bool] = {}  # lines within the line, and whether a shell in them reads on

    def reading(self) -> Reading:
        files_and_git = (
            tuple(self.writes),
            frozenset(self.writes) - self.replaced,
            tuple(self.reads),
            tuple(self.git_writes),
        )
        parts = tuple([self._with_written_script(part) for part in self.parts]) if self.scripts else tuple(self.parts)
        scripts = tuple(self.scripts)
        known = (frozenset(self.taken), frozenset(self.expands))
        return Reading(parts, *files_and_git, self.doubt, self.bomb, self.unseen, *known, scripts=scripts)

    def _with_written_script(self, part: Part) -> Part:
        """Doubt a script that the line writes itself: its content is not the one that is there now."""
        if part.doubt == "" or part.doubt != file_doubt(part.words):
            return part
        if posixpath.normpath(file_of(part.words)) not in [posixpath.normpath(path) for path in self.writes]:
            return part
        return replace(part, doubt=f"{part.doubt}, and the line writes that file")

    def doubts(self, why: str) -> None:
        self.doubt = self.doubt or why

    def _too_much(self, size: int, depth: int) -> bool:
        """Whether what is to be read is nested too deeply, or too much with all that was read before."""
        self.room -= size
        return depth > MAX_DEPTH or self.room < 0

    # ── lines ────────────────────────────────────────────────────────────────────────────────

    def line(self, line: str, places: Places, *, sh: bool = False, depth: int = 0) -> None:
        """Take a line: both readers must find the same commands in it, or the whole is in doubt."""
        try:
            source = line.encode()
        except UnicodeEncodeError:
            self.doubts("the line is no valid text")
            source = line.encode("utf-8", "replace")
            line = source.decode()
        if len(source) > MAX_BYTES or self._too_much(len(source), depth):
            self.unseen = f"the line is longer than {MAX_BYTES} bytes or nested too deeply"
            self.doubts(self.unseen)
            return
        self.bomb = self.bomb or multiplies(line)
        if odd := _ODD.search(line):
            self.doubts(f"the line holds the sign U+{ord(odd[0]):04X}")
        try:
            scanner = Scanner(source.decode("latin-1"), sh=sh)
            found = scanner.read()
        except (NotUnderstoodError, RecursionError) as error:
            self._not_understood(line, source, str(error) or "nested too deeply", places, depth)
            return
        if len(source) > MAX_TREE_BYTES:
            self.doubts(f"the line is longer than {MAX_TREE_BYTES} bytes and was read by one reader only")
        else:
            tree = Tree(source, starts_alone=True)
            if tree.broken or tree.functions or tree.spans() != _spans(found):
                self._not_understood(line, source, "two readers see different commands in the line", places, depth)
        if scanner.leaves and (depth or scanner.leaves == "loop"):
            self.doubts("jobs in the background are started in a loop or by a line within the line")
        before, reads = None, False
        goes_on = scanner.loops and any(in_loop(simple.scope) and moving(simple) for simple in found)
        for index, simple in enumerate(found):
            _decode(simple)
            if goes_on and in_loop(simple.scope):
                places.lose()
            after = found[index + 1] if index + 1 < len(found) else None
            self.reads_input = False
            self._simple(simple, source, places, after, depth)
            if self.reads_input:
                self._input(simple, before if simple.joint in ("|", "|&") else None, places, depth)
            reads, before = reads or self.reads_input, simple
        self.reads_input = reads

    def _not_understood(self, line: str, source: bytes, why: str, places: Places, depth: int) -> None:
        """Name every command that may be in the line, so that rules that deny can see it."""
        self.doubts(why)
        self.bomb = self.bomb or (_SHELLS.search(line) is not None and multiplies(re.sub(r"[\"'\\]", "", line)))
        if may_be_forbidden(line):
            self.unseen = self.unseen or f"it may hold a forbidden command, and is not understood: {why}"
        if len(source) <= MAX_BROKEN_BYTES:
            tree = Tree(source)
            for simple in tree.commands:
                simple.doubts.append(why)
                self._simple(simple, source, places, None, depth)
            for redirect in tree.redirects:
                self._file(files.redirected(redirect), places, None)
        for piece in _PIECES.split(line):
            words = [word.strip("\"'\\") for word in piece.split()]
            first = next((at for at, word in enumerate(words) if "=" not in word and word not in _LEADING), len(words))
            if words[first:]:
                self.parts.setdefault(Part(tuple(words[first:]), piece.strip(), why))

    def _input(self, simple: Simple, before: Simple | None, places: Places, depth: int) -> None:
        """Take the lines that a shell is given in the line itself: here-documents, and what is echoed to it."""
        given = [*(before.redirects if before else ()), *simple.redirects]
        lines = [item.body or item.target.text for item in given if item.operator.startswith("<<")]
        if before is not None and before.words and before.words[0].text in ("echo", "printf"):
            lines.append(" ".join(word.text for word in before.words[1:] if not word.text.startswith("-")))
        for line in lines:
            self._inner_line(line, places.copy(), depth=depth + 1)

    # ── commands ─────────────────────────────────────────────────────────────────────────────

    def _simple(self, simple: Simple, source: bytes, places: Places, after: Simple | None, depth: int) -> None:
        text = source[simple.start : simple.end].decode("utf-8", "replace")
        for redirect in simple.redirects:
            self._file(files.redirected(redirect), places, simple)
        _assignments(simple)
        if simple.words and simple.kind != "for":
            self._command(simple.words, text, places, "; ".join(simple.doubts), depth)
            places.follow(simple, after)
        elif simple.doubts:
            self.parts.setdefault(Part((), text, "; ".join(simple.doubts)))

    def _command(self, words: list[Word], text: str, places: Places, doubt: str, depth: int) -> None:
        """One command with the words it would get, and what it runs in turn."""
        inner = wrappers.unwrap(words)
        self.reads_input = self.reads_input or wrappers.takes_input(words, inner)
        texts = tuple([word.text for word in words])
        unknown = next((word for word in words if word.sure is not Sure.LITERAL), None)
        if not doubt and unknown is not None and not calm_for_any(words):
            doubt = f"what {unknown.text} stands for is not known"
        doubt = doubt or inner.doubt or wrappers.runs_by_argument(texts)
        if not doubt and (places.may_be != _HERE or not places.known):
            doubt = _away(words, places)
        if doubt and doubt == file_doubt(texts):
            doubt = self._script(texts, places, depth)
        self.parts.setdefault(Part(texts, text, doubt))
        if any(word.sure is not Sure.LITERAL and _EXPANDS.search(word.text) for word in words):
            self.expands.add(texts)
        if depth < MAX_DEPTH or inner == wrappers.NOTHING:
            self.taken.add(texts)
        self.git_writes.update(dict.fromkeys(git.writes(texts)))
        for write in files.written(words):
            self._file(write, places, None)
        for commands in inner.commands:
            text = " ".join([word.text for word in commands])
            if self._too_much(len(text), depth):
                self.unseen = "commands within commands are nested too deeply"
                self.doubts(self.unseen)
            elif commands:
                self._command(commands, text, places, "", depth + 1)
        for line, sh in inner.lines:
            self._inner_line(line, places.copy(), sh=sh, depth=depth + 1)

    def _script(self, texts: tuple[str, ...], places: Places, depth: int) -> str:
        """Note the file that a shell is given to run; return the doubt, another one where the file may be another."""
        if depth or places.may_be != _HERE or not places.known:
            return f"{file_doubt(texts)}, in a folder that another command may choose"
        self.scripts[file_of(texts)] = None
        return file_doubt(texts)

    def _inner_line(self, line: str, places: Places, *, sh: bool = False, depth: int) -> None:
        """Take a line within the line, once: what stands in it may stand there in more than one way."""
        key, before = (line, places.may_be, places.known, sh, depth), self.reads_input
        if key not in self.seen:
            self.reads_input = False
            self.line(line, places, sh=sh, depth=depth)
            self.seen[key] = self.reads_input
        self.reads_input = before or self.seen[key]

    def _file(self, found: files.Found | None, places: Places, simple: Simple | None) -> None:
        if found is None:
            return
        paths, doubt = places.resolve(found.path)
        if doubt := found.doubt or doubt:
            self.doubts(doubt) if simple is None else simple.doubts.append(doubt)
        kept = self.writes if found.writes else self.reads
        kept.update(dict.fromkeys(path for path in paths if not files.is_stream(path)))
        if not found.makes:
            self.replaced.update(paths)


_SHELLS = re.compile(r"\b(?:[a-z]*sh|eval|source|trap)\b|(?<!\S)\.\s")
_LEADING = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "while",
        "until",
        "do",
        "for",
        "case",
        "select",
        "function",
        "coproc",
        "time",
        "!",
        "in",
    ]
)


def _spans(found: list[Simple]) -> list[tuple[int, ...]]:
    spans = []
    for item in found:
        if item.words and item.kind in ("command", "test"):
            # The grammar takes brackets as one thing.
            words = item.words[:1] if item.words[0].text in ("[", "[[") else item.words
            spans.append((item.start, *[word.start for word in words]))
    spans.sort()
    return spans


def _away(words: list[Word], places: Places) -> str:
    """Why a program may run what stands in another folder than the one at hand; empty where it does not."""
    name = words[0].text.rsplit("/", 1)[-1]
    if not places.are_elsewhere() or not (name in make.NAMES or looks_around(name)):
        return ""
    return f"{name} takes code from elsewhere: the line may have left the folder that it starts in"


def _decode(simple: Simple) -> None:
    """Give back to the words the signs that were seen as bytes."""
    if all(word.text.isascii() for word in simple.words):
        return
    simple.words = [
        Word(word.text.encode("latin-1").decode("utf-8", "replace"), word.sure, word.start, word.end)
        for word in simple.words
    ]


def _assignments(simple: Simple) -> None:
    """Doubt what sets a variable that changes how programs run."""
    for name, value in simple.assigned:
        if simple.words and simple.kind != "for":
            split_of_read = name == "IFS" and simple.words[0].text == "read"
            changes = changes_programs(name, value.text) and not split_of_read
        else:
            changes = changes_shell(name, value.text)
        if changes:
            simple.doubts.append(f"setting {name} may change what programs run")

"""Read a line exactly, or say that it is not understood: the part of bash's grammar that daily lines are made of.

Anything outside raises NotUnderstoodError. Positions are bytes: the text is UTF-8 seen as Latin-1.
"""

from __future__ import annotations

import re

from handrail.policy.shell.model import MAX_DEPTH, NotUnderstoodError, Redirect, Simple, Sure, Word
from handrail.policy.shell.scan_word import read_word

_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||;;&?|;&|\|&|&>>|&>|<<<|<<-?|<>|<&|>>|>&|>\||[|&;()<>\n]")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_NUMBER = re.compile(r"[0-9]+(?=[<>])")
_KEYWORD = re.compile(r"(?:[a-z]+|[{}!]|\[\[|\]\])(?=[ \t\n;&|()<>]|\Z)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECTS = frozenset({"<", ">", ">>", ">|", "<<", "<<-", "<<<", "&>", "&>>", ">&", "<&", "<>"})
_OPENERS = frozenset({"if", "while", "until", "for", "{", "!", "[["})
_INNER = frozenset({"then", "do", "else", "elif", "done", "fi", "}"})
_UNREAD = frozenset({"case", "esac", "select", "function", "coproc", "in", "]]"})
_NOT_IN_SH = frozenset({"&>", "&>>", "|&", "<<<"})
_DOUBLE_BRACKET = frozenset({"-f", "-d", "-e", "-s", "-r", "-x", "-w", "-L", "-h", "-n", "-z", "=", "==", "!=", "!"})


class Scanner:
    """One pass over one line, with the simple commands found so far."""

    def __init__(self, source: str, *, sh: bool = False) -> None:
        self.source = source
        self.at = 0
        self.sh = sh
        self.found: list[Simple] = []
        self.scope: tuple[str, ...] = ()
        self.pending: list[tuple[Simple, int]] = []  # here-documents whose body starts at the next newline
        self.serial = 0
        self.loops = False
        self.leaves = ""  # "job" where something is left in the background, "loop" where that is in a loop

    def read(self) -> list[Simple]:
        """Read the whole line."""
        self.read_list("")
        if self.at < len(self.source):
            raise NotUnderstoodError("something stands after the end of a command")
        if self.pending:
            raise NotUnderstoodError("a here-document without its end")
        return self.found

    # ── lists and compounds ──────────────────────────────────────────────────────────────────

    def read_list(self, joint: str) -> None:
        """Commands with `;`, `&`, `&&`, `||`, `|` and newlines between, up to what closes the list."""
        while True:
            self._blank_lines()
            if not self._command(joint):
                if joint in ("&&", "||", "|", "|&"):
                    raise NotUnderstoodError("an operator without a command after it")
                return
            operator = self._operator()
            if operator not in (";", "&", "&&", "||", "|", "|&", "\n"):
                return
            if operator == "&" and self.leaves != "loop":
                self.leaves = "loop" if any(label.startswith("loop") for label in self.scope) else "job"
            self._take(operator)
            joint = operator

    def _command(self, joint: str) -> bool:
        """One command; False where none starts here."""
        operator = self._operator()
        if operator == "(":
            if self.source.startswith("((", self.at):
                raise NotUnderstoodError("arithmetic")
            self._take("(")
            self._within(f"({self.number()}", ")")
            return self._redirects_after(joint)
        if operator and operator not in _REDIRECTS:
            return False
        keyword = self._keyword()
        if keyword in _INNER or (not operator and self.at >= len(self.source)):
            return False
        if keyword in _UNREAD:
            raise NotUnderstoodError(f"{keyword} is not followed")
        if keyword in _OPENERS:
            return self._compound(keyword, joint)
        self._simple(joint)
        return True

    def _compound(self, keyword: str, joint: str) -> bool:
        if keyword == "[[":
            self._test(joint)
            return True
        self.at += len(keyword)
        if keyword == "!":
            self._skip()
            if not self._command("!"):
                raise NotUnderstoodError("! without a command")
            return True
        if keyword == "{":
            self._within(f"{{{self.number()}", "}")
        elif keyword == "if":
            self._if()
        else:
            self.loops = True
            if keyword == "for":
                self._for(joint)
            else:
                self._within(f"loop{self.number()}", "do", close=False)
            self.expect("do")
            self._within(f"loop{self.number()}", "done")
        return self._redirects_after(joint)

    def _if(self) -> None:
        label = f"if{self.number()}"
        self._within(label, "then", close=False)
        self.expect("then")
        while True:
            self._within(label, "", close=False)
            keyword = self._keyword()
            if keyword == "elif":
                self.expect("elif")
                self._within(label, "then", close=False)
                self.expect("then")
                continue
            if keyword == "else":
                self.expect("else")
                self._within(label, "fi", close=False)
            self.expect("fi")
            return

    def _for(self, joint: str) -> None:
        self._skip()
        name = _NAME.match(self.source, self.at)
        if name is None:
            raise NotUnderstoodError("an arithmetic loop")
        simple = Simple(self.at, joint, self.scope, "for")
        simple.assigned.append((name[0], Word(name[0], Sure.LITERAL, *name.span())))
        self.at = name.end()
        self.found.append(simple)
        self._blank_lines()
        if self._keyword() == "in":
            self.expect("in")
            self._skip()
            while not self._operator():
                if self.at >= len(self.source):
                    raise NotUnderstoodError("a loop without its end")
                simple.words.append(self._word())
                self._skip()
        simple.end = self.at
        if self._operator() == ";":
            self._take(";")
        self._blank_lines()

    def _test(self, joint: str) -> None:
        """Double brackets, only with operators that evaluate nothing."""
        if self.sh:
            raise NotUnderstoodError("sh has no [[")
        simple = Simple(self.at, joint, self.scope, "test")
        simple.words.append(Word("[[", Sure.LITERAL, self.at, self.at + 2))
        self.at += 2
        self._skip()
        while True:
            operator = self._operator()
            if operator in ("&&", "||"):
                self._take(operator)
            elif operator or self.at >= len(self.source):
                raise NotUnderstoodError("a test that is not followed")
            else:
                word = self._word()
                simple.words.append(word)
                if word.text == "]]" and word.sure is Sure.LITERAL and self.source[word.start] == "]":
                    break
                bare = self.source[word.start : word.end] == word.text
                if bare and word.text[0] in "-=!<>" and word.text not in _DOUBLE_BRACKET:
                    raise NotUnderstoodError(f"{word.text} may evaluate what it compares")
            self._skip()
        simple.end = self.at
        self.found.append(simple)
        self._skip()

    def _within(self, label: str, closer: str, *, close: bool = True) -> None:
        if len(self.scope) > MAX_DEPTH:
            raise NotUnderstoodError("nested too deeply")
        outer, self.scope = self.scope, (*self.scope, label)
        before = len(self.found)
        self.read_list("")
        self.scope = outer
        if len(self.found) == before:
            raise NotUnderstoodError("a compound without commands")
        if close:
            self.expect(closer)

    def expect(self, closer: str) -> None:
        if closer == ")":
            if self._operator() != ")":
                raise NotUnderstoodError("a parenthesis is not closed")
            self._take(")")
            return
        if self._keyword() != closer:
            raise NotUnderstoodError(f"{closer} is missing")
        self.at += len(closer)

    def _redirects_after(self, joint: str) -> bool:
        """Redirects behind a compound count as a command without words."""
        self._skip()
        simple = Simple(self.at, joint, self.scope, "after")
        while self._redirect(simple):
            pass
        if simple.redirects:
            simple.end = self.at
            self.found.append(simple)
        if not self._operator() and self.at < len(self.source) and self._keyword() not in _INNER:
            raise NotUnderstoodError("something stands after the end of a compound")
        return True

    def number(self) -> int:
        self.serial += 1
        return self.serial

    # ── simple commands ──────────────────────────────────────────────────────────────────────

    def _simple(self, joint: str) -> None:
        simple = Simple(self.at, joint, self.scope)
        self.found.append(simple)
        while True:
            if self._redirect(simple):
                continue
            if self._operator() or self.at >= len(self.source):
                break
            if not simple.words and (assigned := _ASSIGNED.match(self.source, self.at)):
                self._assignment(simple, assigned)
            else:
                simple.words.append(self._word())
            simple.end = self.at
            self._skip()
        if self._operator() == "(":
            raise NotUnderstoodError("a function definition or a pattern with parentheses")

    def _assignment(self, simple: Simple, assigned: re.Match[str]) -> None:
        start = self.at
        if self.sh and "+" in assigned[0]:
            raise NotUnderstoodError("sh has no +=")
        self.at = assigned.end()
        if self.at < len(self.source) and self.source[self.at] not in " \t\n;&|()<>":
            value = self._word(assigned=True)
        elif self.source.startswith("(", self.at):
            raise NotUnderstoodError("an array")
        else:
            value = Word("", Sure.LITERAL, self.at, self.at)
        simple.assigned.append((assigned[1], Word(value.text, value.sure, start, self.at)))

    def _redirect(self, simple: Simple) -> bool:
        """Take one redirect, with its number; False where none stands here."""
        number = _NUMBER.match(self.source, self.at)
        operator = self._operator_at(number.end() if number else self.at)
        if operator not in _REDIRECTS or self._process(number is None):
            return False
        if self.at and self.source[self.at - 1] == "}":
            raise NotUnderstoodError("a descriptor in a variable")
        if self.sh and operator in _NOT_IN_SH:
            raise NotUnderstoodError(f"sh has no {operator}")
        self.at = (number.end() if number else self.at) + len(operator)
        self._skip()
        if self._operator() or self.at >= len(self.source):
            raise NotUnderstoodError("a redirect without its target")
        target = self._word()
        simple.redirects.append(Redirect(operator, target))
        if operator.startswith("<<") and operator != "<<<":
            self.pending.append((simple, len(simple.redirects) - 1))
        simple.end = self.at
        self._skip()
        return True

    def _process(self, bare: bool) -> bool:
        return bare and self.source.startswith(("<(", ">("), self.at)

    def _bodies(self) -> None:
        """Take the bodies of here-documents, which start after the newline just taken."""
        for simple, index in self.pending:
            redirect = simple.redirects[index]
            raw = self.source[redirect.target.start : redirect.target.end]
            if redirect.target.sure is not Sure.LITERAL or not re.fullmatch(r"'?\"?\\?[A-Za-z0-9_]+\"?'?", raw):
                raise NotUnderstoodError("a here-document with an odd end")
            start, end = self._end(redirect.target.text, tabs=redirect.operator == "<<-")
            body = self.source[self.at : start]
            if raw == redirect.target.text and re.search(r"[$`\\]", body):
                raise NotUnderstoodError("a here-document with expansions")
            simple.redirects[index] = Redirect(redirect.operator, redirect.target, body)
            # The newline that ends the body also ends the list, as the one before it did.
            self.at = end
        self.pending = []

    def _end(self, name: str, *, tabs: bool) -> tuple[int, int]:
        """Where the line that ends a here-document starts and ends."""
        start = self.at
        while start < len(self.source):
            end = self.source.find("\n", start) + 1 or len(self.source)
            line = self.source[start:end].removesuffix("\n")
            if (line.lstrip("\t") if tabs else line) == name:
                return start, end
            start = end
        raise NotUnderstoodError("a here-document without its end")

    # ── tokens ───────────────────────────────────────────────────────────────────────────────

    def _operator(self) -> str:
        return self._operator_at(self.at)

    def _operator_at(self, at: int) -> str:
        found = _OPERATOR.match(self.source, at)
        if found is None or (found[0] in "<>" and self.source.startswith(("<(", ">("), at)):
            return ""
        return found[0]

    def _take(self, operator: str) -> None:
        self.at += len(operator)
        if operator == "\n" and self.pending:
            self._bodies()
        self._skip()

    def _skip(self) -> None:
        if blank := _BLANK.match(self.source, self.at):
            if blank[0][0] == "\\" and self.at and self.source[self.at - 1] not in " \t\n":
                raise NotUnderstoodError("a line that goes on within a word")
            self.at = blank.end()
        # A # starts a comment only where a word could start.
        if self.source.startswith("#", self.at) and (self.at == 0 or self.source[self.at - 1] in " \t\n;&|()<>"):
            self.at = _COMMENT.match(self.source, self.at).end()  # type: ignore[union-attr]

    def _blank_lines(self) -> None:
        self._skip()
        while self.source.startswith("\n", self.at):
            self._take("\n")

    def _keyword(self) -> str:
        """The bare word here, if it could be a keyword."""
        self._skip()
        found = _KEYWORD.match(self.source, self.at)
        return found[0] if found else ""

    def _word(self, *, assigned: bool = False) -> Word:
        return read_word(self, assigned=assigned)

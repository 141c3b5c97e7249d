"""Small programs in arguments: scripts of sed and awk and formats of printf that cannot write or run anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.policy.shell.model import Sure, Word

Words = Sequence[Word]
_ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\[^\n])*/I?)"
_PIECE = r"(?:[^{0}\\\n]|\\[^\n])*"
_SUBSTITUTE = "|".join(
    rf"s{sign}{_PIECE.format(sign)}{sign}{_PIECE.format(sign)}{sign}[gpiI0-9]*" for sign in (r"/", r"\|", "#", ",", "@")
)
_SED = re.compile(
    rf"[ \n;]*+(?:{_ADDRESS}(?:,(?:\+?[0-9]+|{_ADDRESS}))?)?[ ]*+(?:![ ]*+)?"
    rf"(?:[pdPDhHgGxnNl=]|[qQ][0-9]*|{_SUBSTITUTE})[ ]*(?:[;\n]+|\Z)"
)
_SED_FLAGS = re.compile(r"-[nErusz]+|--(?:quiet|silent|regexp-extended|separate|null-data|posix|sandbox)")
# Comparisons may stand before the braces; elsewhere > would be a file.
_AWK_FRONT = re.compile(r"\s*(?:NR|FNR|NF|\$[0-9]+|length)\s*(?:%\s*[0-9]+\s*)?[<>=!]=?\s*[0-9]+(?:\s*&&\s*)?")
_AWK_BAD = re.compile(r"[>@`|]|\\[\n\r]|getline|system|close|fflush|[^\x20-\x7e\n\t]")


def sed(words: Words) -> bool:
    """Scripts of line addresses, printing, deleting and substituting alone."""
    rest = iter(words[1:])
    scripts: list[str] = []
    operands = 0
    for word in rest:
        if word.sure in (Sure.ONE, Sure.ANY):
            return False
        if word.sure is Sure.LITERAL and word.text in ("-e", "--expression"):
            script = next(rest, None)
            if script is None or script.sure is not Sure.LITERAL:
                return False
            scripts.append(script.text)
        elif word.sure is Sure.LITERAL and word.text.startswith("-") and word.text != "-":
            if not _SED_FLAGS.fullmatch(word.text):
                return False
        else:
            operands += 1
            if operands == 1 and not any(item.text in ("-e", "--expression") for item in words):
                if word.sure is not Sure.LITERAL:
                    return False
                scripts.append(word.text)
    return bool(scripts) and all(_sed_script(script) for script in scripts)


def _sed_script(script: str) -> bool:
    at = 0
    while at < len(script):
        found = _SED.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return bool(script)


def sed_scripts_plain(texts: Sequence[str]) -> bool:
    """Whether all scripts of a sed command, also of one that edits in place, only print, delete and substitute."""
    rest = [text for text in texts[1:] if not re.fullmatch(r"-i[.\w]*|--in-place(?:=[.\w]+)?|-[nErsz]*i", text)]
    return sed([Word(text, Sure.LITERAL, 0, 0) for text in (texts[0], *rest)])


def awk(words: Words) -> bool:
    """Programs that print to the output alone."""
    rest = iter(words[1:])
    word = next(rest, None)
    while word is not None and word.sure is Sure.LITERAL and word.text.startswith("-"):
        if word.text in ("-F", "-v"):
            value = next(rest, None)
            if value is None or value.sure is not Sure.LITERAL:
                return False
        elif not re.fullmatch(r"-F.+", word.text, re.DOTALL):
            return False
        word = next(rest, None)
    if word is None or word.sure is not Sure.LITERAL:
        return False
    at = 0
    while front := _AWK_FRONT.match(word.text, at):
        at = front.end()
    return _AWK_BAD.search(word.text[at:].replace("||", "")) is None


def printf(words: Words) -> bool:
    """Formats that are known, and store nothing in a variable."""
    if len(words) < 2 or words[1].sure is not Sure.LITERAL:
        return False
    return not words[1].text.startswith("-") and re.search(r"%[^a-zA-Z%]*[hlLqjzt]*n", words[1].text) is None

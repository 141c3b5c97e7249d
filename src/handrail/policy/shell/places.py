"""Where a line stands: `cd` is followed as long as it is literal."""

from __future__ import annotations

from posixpath import normpath

from handrail.policy.shell.elsewhere import is_elsewhere
from handrail.policy.shell.model import Simple, Sure, Word

_MANY, _LONG = 8, 1024
_MOVERS = frozenset({"cd", "pushd", "popd"})
_BEFORE = frozenset({"command", "builtin", "time"})  # the shell itself goes where what follows them goes
_MAY_MOVE = _MOVERS | _BEFORE


class Places:
    """The folders that the line may be in, relative to where it starts; empty when that is not known."""

    __slots__ = ("chain", "known", "may_be")

    def __init__(self, may_be: tuple[str, ...] = ("",), known: bool = True) -> None:
        self.may_be = may_be
        self.known = known
        self.chain: tuple[str, ...] = ()  # where it may be as well once the chain of && ends

    def copy(self) -> Places:
        may_be = (*self.may_be, *self.chain)
        return Places(may_be, self.known) if len(may_be) <= _MANY else Places(known=False)

    def resolve(self, path: str) -> tuple[tuple[str, ...], str]:
        """The paths that one stands for, and why they may be wrong."""
        if path.startswith("/"):
            return (normpath(path),), ""
        doubt = "" if self.known else f"the folder that {path} is in is not known"
        return tuple([_beneath(place, path) for place in self.may_be]), doubt

    def follow(self, simple: Simple, after: Simple | None) -> None:
        """Go where a command goes."""
        if not self.known:
            return
        if simple.words[0].text in _MAY_MOVE and (words := moving(simple)):
            self._move(words, simple.scope)
        if self.chain and (after is None or after.joint != "&&"):
            self.may_be = tuple(dict.fromkeys((*self.may_be, *self.chain)))
            self.chain = ()
        if len(self.may_be) > _MANY or len(self.chain) > _MANY or sum(map(len, self.may_be)) > _LONG:
            self.lose()

    def lose(self) -> None:
        """Stand in a folder that is not known."""
        self.known, self.may_be, self.chain = False, ("",), ()

    def are_elsewhere(self) -> bool:
        """Whether the line may have left the folder it starts in, upwards or to somewhere else."""
        return not self.known or any(place != "" and is_elsewhere(place) for place in self.may_be)

    def _move(self, moving: list[Word], scope: tuple[str, ...]) -> None:
        words = [word for word in moving[1:] if word.text not in ("-P", "-L", "--")]
        literal = moving[0].text == "cd" and len(words) == 1 and words[0].sure is Sure.LITERAL
        if not literal or in_loop(scope) or words[0].text in ("-", "") or words[0].text.startswith("-"):
            self.lose()
            return
        target = words[0].text
        self.chain = tuple(dict.fromkeys((*self.chain, *self.may_be)))
        moved = target if target.startswith("/") else None
        self.may_be = tuple(normpath(moved or (f"{place}/{target}" if place else target)) for place in self.may_be)


def moving(simple: Simple) -> list[Word]:
    """The words by which a command takes the shell to another folder; none where it does not."""
    words = simple.words
    if words and words[0].text in _BEFORE:
        named = [at for at, word in enumerate(words) if word.text not in _BEFORE and not word.text.startswith("-")]
        words = words[named[0] :] if named else []
    return words if words and words[0].text in _MOVERS else []


def in_loop(scope: tuple[str, ...]) -> bool:
    """Whether a command may run again after what stands behind it."""
    return any(label.startswith("loop") for label in scope)


def _beneath(place: str, path: str) -> str:
    if "/" in path or path in ("", ".", ".."):
        return normpath(f"{place}/{path}" if place else path)
    return path if place in ("", ".") else f"{place.rstrip('/')}/{path}"

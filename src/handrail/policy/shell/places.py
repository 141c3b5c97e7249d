"""Where a line stands: `cd` is followed as long as it is literal."""

from __future__ import annotations

from posixpath import normpath

from handrail.policy.shell.model import Simple, Sure

_MANY, _LONG = 8, 8192
_MOVERS = frozenset({"cd", "pushd", "popd"})


class Places:
    """The folders that the line may be in, relative to where it starts; empty when that is not known."""

    __slots__ = ("chain", "known", "may_be")

    def __init__(self, may_be: tuple[str, ...] = ("",), known: bool = True) -> None:
        self.may_be = may_be
        self.known = known
        self.chain: tuple[str, ...] = ()  # where it may be as well once the chain of && ends

    def copy(self) -> Places:
        return Places((*self.may_be, *self.chain), self.known)

    def resolve(self, path: str) -> tuple[tuple[str, ...], str]:
        """The paths that one stands for, and why they may be wrong."""
        if path.startswith("/"):
            return (normpath(path),), ""
        doubt = "" if self.known else f"the folder that {path} is in is not known"
        return tuple(normpath(f"{place}/{path}" if place else path) for place in self.may_be), doubt

    def follow(self, simple: Simple, after: Simple | None) -> None:
        """Go where a command goes."""
        if not self.known:
            return
        if simple.words[0].text in _MOVERS:
            self._move(simple)
        if self.chain and (after is None or after.joint != "&&"):
            self.may_be = tuple(dict.fromkeys((*self.may_be, *self.chain)))
            self.chain = ()
        if len(self.may_be) > _MANY or sum(map(len, self.may_be)) > _LONG:
            self.known, self.may_be, self.chain = False, ("",), ()

    def _move(self, simple: Simple) -> None:
        words = [word for word in simple.words[1:] if word.text not in ("-P", "-L", "--")]
        literal = simple.words[0].text == "cd" and len(words) == 1 and words[0].sure is Sure.LITERAL
        looped = any(label.startswith("loop") for label in simple.scope)
        if not literal or looped or words[0].text in ("-", "") or words[0].text.startswith("-"):
            self.known, self.may_be, self.chain = False, ("",), ()
            return
        target = words[0].text
        self.chain = tuple(dict.fromkeys((*self.chain, *self.may_be)))
        moved = target if target.startswith("/") else None
        self.may_be = tuple(normpath(moved or (f"{place}/{target}" if place else target)) for place in self.may_be)

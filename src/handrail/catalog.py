"""`@tool`, the types by which a signature says what it touches, and the catalog.

What belongs here: turning a typed function into a Tool (schema, touches, parsing). What does not: running it.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from handrail.arguments import Parameter, Shape, short
from handrail.errors import Code, Misuse, Problem
from handrail.loading import loaded, those_that_load, warn_of_second
from handrail.ports import is_port
from handrail.spelling import nearest
from handrail.words import Answer, How, Json, Place, Risk, Touch, TouchKind, changes_world, noun

Function = Callable[..., Coroutine[Any, Any, Any]]
E = TypeVar("E", bound=StrEnum)


@noun
class Touching:
    """Marks an argument as the target of a touch."""

    kind: TouchKind
    deep: bool = False
    how: How = How.PLAIN
    follow: bool = True


Reads = Annotated[Place, Touching(TouchKind.FS_READ)]  # a path to read; links are followed beneath the roots
ReadsItself = Annotated[Place, Touching(TouchKind.FS_READ, follow=False)]  # the link, not what it points to
ReadsBelow = Annotated[Place, Touching(TouchKind.FS_READ, deep=True)]  # a folder with all that lies below it
Writes = Annotated[Place, Touching(TouchKind.FS_WRITE, how=How.REPLACE)]  # a file that is written whole
Edits = Annotated[Place, Touching(TouchKind.FS_WRITE, how=How.EDIT)]  # a file of which a part is changed
Deletes = Annotated[Place, Touching(TouchKind.FS_DELETE, follow=False)]  # what is removed; a link itself
DeletesBelow = Annotated[Place, Touching(TouchKind.FS_DELETE, deep=True, follow=False)]  # all below it, too
Runs = Annotated[list[str], Touching(TouchKind.PROC_EXEC)]  # the words of a command
Reaches = Annotated[str, Touching(TouchKind.NET_CONNECT)]  # a URL


def at(path: str) -> Place:
    """Write the default of a path argument: `path: ReadsBelow = at(".")`."""
    return path  # type: ignore[return-value]  # the kernel hands the tool a resolved Place in its stead


@noun
class Tool:
    """A typed function with a name, schemas, risk and declared touches."""

    name: str
    toolset: str  # under which settings enable it
    version: str
    description: str  # the function's docstring
    risk: Risk
    function: Function
    targets: tuple[tuple[str, Touching], ...]  # argument name, what it touches
    injected: tuple[tuple[str, type], ...]  # parameter name, port
    touches_of: Callable[[Mapping[str, Any]], Sequence[Touch]] | None
    pure: bool  # it touches nothing
    permissions: tuple[TouchKind, ...]  # what a call may touch
    side_effects: str  # none | reads | writes | deletes | runs | network
    timeout_seconds: float | None  # None: what settings say
    max_bytes: int  # of `data` as JSON
    offered: bool  # listed to a model
    shape: Shape  # reads arguments and gives the schemas
    changing: bool  # whether a call of it may change the world
    ask_first: bool = False  # enabled only by its own name, never by its toolset
    single_paths: frozenset[str] = frozenset()  # arguments that are one path each, never a list of them
    does: Literal["reads", "destroys"] | None = None  # to what is there, where its touches alone do not say it
    preview: Function | None = None  # reads only; gives the diff that a person is shown before approving
    previewed: tuple[str, ...] = ()  # arguments whose whole effect that diff shows
    adapters: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)

    def parse(self, args: Mapping[str, Json], *, repair: bool = True) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Check arguments strictly, fill our defaults; INVALID_ARGS names field, expectation and what came."""
        try:
            return self.shape.parse(args, repair)
        except Problem as problem:
            renamed = problem.details.pop("next_args", None)
            problem.next_call = None if renamed is None else {"tool": self.name, "args": renamed}
            raise

    def touches(self, args: Mapping[str, Any]) -> tuple[Touch, ...]:
        """State what a call with these parsed arguments will touch: pure, before anything is resolved."""
        if self.touches_of is not None:
            return tuple(self.touches_of(args)) or (Touch(TouchKind.TOOL_USE, self.name),)
        found = [touch for name, mark in self.targets for touch in _touches_of_value(mark, args[name])]
        return tuple(found) or (Touch(TouchKind.TOOL_USE, self.name),)

    def spec(self) -> dict[str, Json]:
        """Describe the tool for function-calling APIs."""
        return {
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "toolset": self.toolset,
            "risk": self.risk.value,
            "args_schema": self.shape.args_schema(),
            "return_schema": self.shape.result_schema(),
            "required_permissions": [kind.value for kind in self.permissions],
            "side_effects": "deletes" if (self.does, self.side_effects) == ("destroys", "none") else self.side_effects,
        }


def _touches_of_value(mark: Touching, value: Any) -> Iterator[Touch]:
    if value is None:
        return
    if mark.kind is TouchKind.PROC_EXEC:
        yield Touch(mark.kind, " ".join(value), words=tuple(value))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _touches_of_value(mark, item)
    elif mark.kind is TouchKind.NET_CONNECT:
        yield Touch(mark.kind, host_and_port(value))
    else:
        yield Touch(mark.kind, value, mark.deep, mark.how, mark.follow)


def host_and_port(url: str) -> str:
    """Name the host and port that a URL reaches, in the spelling that is dialled; INVALID_ARGS where it names none."""
    from handrail.urls import reached

    return reached(url)


# ── @tool ────────────────────────────────────────────────────────────────────────────────────

_SIDE_EFFECTS = {
    TouchKind.FS_READ: "reads",
    TouchKind.FS_WRITE: "writes",
    TouchKind.FS_DELETE: "deletes",
    TouchKind.PROC_EXEC: "runs",
    TouchKind.NET_CONNECT: "network",
    TouchKind.GIT_WRITE: "writes",
    TouchKind.MEMORY_WRITE: "writes",
    TouchKind.TOOL_USE: "none",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(**options: Any) -> Callable[[Function], Tool]: ...


def tool(  # type: ignore[misc]  # the second overload stands for all options below
    function: Function | None = None,
    /,
    *,
    risk: str | Risk | None = None,  # none: low for what only reads files or is pure, else high
    name: str | None = None,  # none: the function's
    toolset: str | None = None,  # none: "user"
    version: str = "1.0.0",  # of its arguments; calls may name it
    touches: Callable[[Mapping[str, Any]], Sequence[Touch]] | None = None,  # of the parsed arguments; pure
    permissions: Sequence[str | TouchKind] | None = None,  # the kinds that `touches` may state
    pure: bool = False,  # it touches nothing
    changing: bool = False,  # it changes what may be called
    timeout_seconds: float | None = None,  # none: what settings say
    max_bytes: int = 1024 * 1024,  # of `data` as JSON; more is kept in the run's folder
    offered: bool = True,  # listed to a model
    ask_first: bool = False,  # enabled only by its own name, never by its toolset
    does: Literal["reads", "destroys"] | None = None,  # told to clients, decides nothing
    preview: Function | None = None,  # gives the diff that a person is shown before approving
    previewed: Sequence[str] = (),  # arguments whose whole effect that diff shows
    adapters: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,  # by older major version
) -> Tool | Callable[[Function], Tool]:
    """Turn a typed async function into a tool.

    Arguments of type `Reads`, `Writes`, … say what a call touches; a tool whose touches depend on more gives
    `touches`, a pure function of the parsed arguments, and `permissions`, the kinds it may state. A tool that
    declares neither is taken for high-risk and changing unless it is marked `pure`; so is one that declares `tool.use`,
    which says nothing of what it does, unless `risk` says otherwise. `str` metadata of an annotated argument is its
    description. `preview` takes the tool's own parameters and gives the diff that a person is shown before approving;
    it only reads. `changing` is for a tool that changes what may be called and nothing in the world.
    """

    def make(function: Function) -> Tool:
        declared = _declared(function, name, touches, permissions, pure=pure)
        declared |= _weigh(declared, risk, pure=pure, changing=changing)
        declared |= {"does": does, "previewed": tuple(previewed)}
        return Tool(
            **declared,
            toolset=toolset or _toolset_of(function),
            version=version,
            touches_of=touches,
            pure=pure,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
            offered=offered,
            ask_first=ask_first,
            preview=preview,
            adapters=adapters or {},
        )

    return make if function is None else make(function)


def _declared(
    function: Function, given: str | None, touches: object, permissions: Any, *, pure: bool
) -> dict[str, Any]:
    """What the function itself says of the tool: name, description, schemas, touches."""
    name = given or function.__name__
    if not _NAME.fullmatch(name):
        raise Misuse(f"tool name {name!r}: use a-z, 0-9 and _, starting with a letter, at most 64 characters")
    if not inspect.iscoroutinefunction(function):
        raise Misuse(f"tool {name}: write it as `async def`")
    parameters, targets, injected, result = _signature(name, function)
    kinds = _permissions(name, targets, touches, permissions, pure)
    _check_programs(name, function, injected, kinds)
    changes = not kinds or any(changes_world(Touch(kind, "", unsafe=kind is TouchKind.NET_CONNECT)) for kind in kinds)
    return {
        "name": name,
        "function": function,
        "description": inspect.cleandoc(function.__doc__ or "").split("\n\nArgs:")[0],
        "targets": targets,
        "injected": injected,
        "permissions": kinds,
        "side_effects": _strongest(kinds) if kinds else ("none" if pure else "unknown"),
        "shape": Shape(name, parameters, result),
        "changing": changes and not pure,
        "single_paths": frozenset(p.name for p in parameters if "list" not in str(p.annotation)),
    }


def _signature(
    name: str, function: Function
) -> tuple[list[Parameter], tuple[tuple[str, Touching], ...], tuple[tuple[str, type], ...], Any]:
    hints = get_type_hints(function, include_extras=True)
    parameters, targets, injected = [], [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Misuse(f"tool {name}: *{parameter.name} cannot be described to a model; name each argument")
        if (hint := hints.get(parameter.name)) is None:
            raise Misuse(f"tool {name}: argument {parameter.name} needs a type")
        if is_port(hint):
            injected.append((parameter.name, hint))
            continue
        mark, description, plain = _read_hint(hint)
        if mark is not None:
            targets.append((parameter.name, mark))
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        parameters.append(Parameter(parameter.name, plain, default, description))
    result = hints.get("return", Any)
    if get_origin(result) is Answer:
        result = get_args(result)[0]
    return parameters, tuple(targets), tuple(injected), result


def _read_hint(hint: Any) -> tuple[Touching | None, str, Any]:
    """Find the touch mark and description in a type, and the type as a model sees it (paths are text)."""
    if get_origin(hint) is Annotated:
        base, *metadata = get_args(hint)
        mark, description, plain = _read_hint(base)
        kept = [item for item in metadata if not isinstance(item, (str, Touching))]
        mark = next((item for item in metadata if isinstance(item, Touching)), mark)
        description = next((item for item in metadata if isinstance(item, str)), description)
        return mark, description, Annotated[plain, *kept] if kept else plain
    if hint is Place:
        from pydantic import Field

        return None, "", Annotated[str, Field(min_length=1, max_length=4096)]
    if get_origin(hint) in (Union, types.UnionType):
        read = [_read_hint(item) for item in get_args(hint)]
        plain = Union[tuple(item[2] for item in read)]  # noqa: UP007
        return next((r[0] for r in read if r[0]), None), next((r[1] for r in read if r[1]), ""), plain
    if get_origin(hint) is list and (args := get_args(hint)):
        mark, description, plain = _read_hint(args[0])
        return mark, description, list[plain]  # type: ignore[valid-type]
    return None, "", hint


def _permissions(
    name: str,
    targets: tuple[tuple[str, Touching], ...],
    touches: object,
    given: Sequence[str | TouchKind] | None,
    pure: bool,
) -> tuple[TouchKind, ...]:
    if touches is not None and given is None:
        raise Misuse(f"tool {name}: a tool with its own touches function names the kinds in `permissions`")
    if pure and (targets or given):
        raise Misuse(f"tool {name}: a pure tool touches nothing")
    kinds = {mark.kind for _, mark in targets} | {_known(TouchKind, kind) for kind in given or ()}
    return tuple(sorted(kinds))


def _check_programs(
    name: str, function: Function, injected: Iterable[tuple[str, type]], kinds: tuple[TouchKind, ...]
) -> None:
    """Refuse a tool that could start programs which policy is never told of; ours that only look after jobs may."""
    starts = any(port.__name__ == "Processes" for _, port in injected)
    if starts and TouchKind.PROC_EXEC not in kinds and not function.__module__.startswith("handrail.tools.exec."):
        raise Misuse(
            f"tool {name}: it takes Processes, so it must say what it runs: an argument of type Runs, or `touches` "
            'that state it and permissions=("proc.exec",)'
        )


def _known(words: type[E], word: str) -> E:
    """Read one of our words as a program writes it."""
    try:
        return words(word)
    except ValueError:
        raise Misuse(f"{word!r} is none of {', '.join(words)}") from None


def _risk_of(kinds: Iterable[TouchKind], *, pure: bool) -> Risk:
    """Give a tool the risk that its declarations prove: `tool.use` says nothing of what a tool does."""
    reads = set(kinds) == {TouchKind.FS_READ}
    return Risk.LOW if pure or reads else Risk.HIGH


def _weigh(declared: dict[str, Any], risk: str | Risk | None, *, pure: bool, changing: bool) -> dict[str, Any]:
    """Weigh what a tool declares: its risk, and whether its calls may change anything."""
    kinds = declared["permissions"]
    found = _risk_of(kinds, pure=pure) if risk is None else _known(Risk, risk)
    unproven = TouchKind.TOOL_USE in kinds and found is Risk.HIGH
    return {"risk": found, "changing": declared["changing"] or changing or unproven}


def _strongest(kinds: Iterable[TouchKind]) -> str:
    order = ("none", "reads", "network", "writes", "deletes", "runs")
    return max((_SIDE_EFFECTS[kind] for kind in kinds), key=order.index, default="none")


def _toolset_of(function: Function) -> str:
    parts = function.__module__.split(".")
    return parts[2] if parts[:2] == ["handrail", "tools"] and len(parts) > 3 else "user"


# ── the catalog ──────────────────────────────────────────────────────────────────────────────


class Catalog:
    """The tools of a runtime, by unique name; built-in ones are loaded when they are first used."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        lazy: Mapping[str, Callable[[], Tool]] | None = None,
        more: Callable[[], Mapping[str, Callable[[], Tool]]] | None = None,
    ) -> None:
        """Take tools, `lazy` ones to load when first used, and `more` to look for when one is missed."""
        self._tools: dict[str, Tool] = {}
        self._lazy: dict[str, Callable[[], Tool]] = dict(lazy or {})
        self._more = more
        self._warned: set[str] = set()
        for item in tools:
            self.add(item)

    def add(self, item: Tool) -> None:
        """Register a tool; a second one of the same name is an error."""
        if not isinstance(item, Tool):
            raise Misuse(f"{getattr(item, '__name__', item)!r} is no tool: put @tool() above it")
        if item.name in self._tools or item.name in self._lazy:
            raise Misuse(
                f"a tool named {item.name!r} is registered already; names are unique. Rename yours; a built-in tool "
                f'gives its name up where settings disable it: tools.disable = ["{item.name}"]'
            )
        self._tools[item.name] = item

    def get(self, name: str) -> Tool:
        """Give a tool; UNKNOWN_TOOL names the nearest ones."""
        if not isinstance(name, str):
            raise Problem(Code.UNKNOWN_TOOL, f"A tool is named by a text, not by {short(name)}.", near=[])
        if (found := self._tools.get(name)) is not None:
            return found
        if name not in self._lazy:
            self._look_for_more()
        if (load := self._lazy.get(name)) is None:
            near = [item for item in nearest(name[:100], self.names(), 3, 0.4) if self._is_offered(item)]
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise Problem(Code.UNKNOWN_TOOL, f"There is no tool {short(name)}.{hint}", near=near)
        found = self._tools[name] = loaded(name, load, Tool)
        return found

    def _is_offered(self, name: str) -> bool:
        try:
            return self.get(name).offered
        except Exception:  # noqa: BLE001  another package's tool that cannot be loaded is no help
            return False

    def _look_for_more(self) -> None:
        more, self._more = self._more, None
        for name, load in (more() if more is not None else {}).items():
            if name in self:
                warn_of_second(name, load)
            else:
                self._lazy[name] = load

    def names(self) -> list[str]:
        """All names, sorted."""
        self._look_for_more()
        return sorted({*self._tools, *self._lazy})

    def __iter__(self) -> Iterator[Tool]:
        return those_that_load(self.names(), self.get, self._warned)

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._lazy

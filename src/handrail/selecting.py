"""JMESPath with bounds: no expression makes a small input grow without end, or goes on when nobody waits any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from handrail import strict_json

MAX_TEXT_BYTES = 1024 * 1024
MAX_RESULT_BYTES = 16 * 1024 * 1024  # unless the input was larger
MAX_WORK = 16 * 1024 * 1024
QUICK_WORK = 64 * 1024  # what may hold up the event loop: some milliseconds
_LOOKS = 32
_STEP = 16  # for evaluating one part of an expression once
_REFERENCE = 8


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated; the text goes on after "The expression"."""

    def __init__(self, text: str, position: int | None = None) -> None:
        super().__init__(text)
        self.position = position


class WorkError(ExpressionError):
    """An expression that does more than it may."""

    def __init__(self) -> None:
        super().__init__(
            "does too much for an input of this size: pick a field or a slice such as [:100] of it first, "
            "and repeat `@` and the like less often"
        )


class Work:
    """What an evaluation may still do, counted roughly in bytes handled. May be stopped from another thread."""

    __slots__ = ("_stopped", "left")

    def __init__(self, left: int = MAX_WORK) -> None:
        self.left, self._stopped = left, False

    @classmethod
    def on(cls, size: int) -> Work:
        """What may be done with an input of so many bytes: some looks at each of them, however large it is."""
        return cls(max(MAX_WORK, _LOOKS * size))

    def spend(self, amount: int) -> None:
        """Take from it before something is done; WorkError where not enough is left."""
        self.left -= amount
        if self.left < 0 or self._stopped:
            raise WorkError

    def stop(self) -> None:
        """Let the next step be the last."""
        self._stopped = True


def search(expression: str, value: Any, work: Work | None = None) -> Any:
    """Evaluate; ExpressionError with the place, WorkError where it would do too much."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    work = work or Work.on(size_of(value, 1 << 62))
    try:
        found = _interpreter()(work).visit(jmespath.compile(expression).parsed, value)
    except JMESPathError as error:
        raise _told(error, expression) from None
    except RecursionError:
        raise ExpressionError("is nested too deeply") from None
    except ExpressionError:
        raise
    except (
        ValueError,
        TypeError,
        OverflowError,
    ) as error:  # what the evaluator does not foresee: [::0], max_by of a mix
        raise ExpressionError(f"cannot be evaluated: {error}") from None
    work.spend(size := written_size(found, min(work.left, MAX_WORK)))
    if size > MAX_RESULT_BYTES and written_size(found, given := written_size(value, 1 << 62)) > given:
        raise ExpressionError(f"gives more than {MAX_RESULT_BYTES} bytes; select less")
    try:
        strict_json.check(found)
    except ValueError as error:
        raise ExpressionError(f"gives what no answer can hold ({error}); to_string() makes a text of it") from None
    return found


def size_of(value: Any, enough: int) -> int:
    """How long a value is as JSON; counting stops soon after `enough`."""
    size, todo = 0, [value]
    while todo and size <= enough:
        item = todo.pop()
        if isinstance(item, dict):
            size += 2 + sum(len(key) + 4 if isinstance(key, str) else 8 for key in item)
            todo += item.values()
        elif isinstance(item, list):
            size += 2 + len(item)
            todo += item
        else:
            size += len(item) + 2 if isinstance(item, str) else 4
    return size


def written_size(value: Any, enough: int) -> int:
    """How long a value is as JSON with two blanks a level before each line; counting stops soon after `enough`."""
    size, todo = 0, [(value, 1)]
    while todo and size <= enough:
        item, depth = todo.pop()
        if isinstance(item, (dict, list)):
            size += 4 + 2 * depth * (len(item) + 1)
            if isinstance(item, dict):
                size += sum(len(key) + 4 if isinstance(key, str) else 8 for key in item)
            todo += [(inner, depth + 1) for inner in (item.values() if isinstance(item, dict) else item)]
        else:
            size += len(item) + 4 if isinstance(item, str) else 6
    return size


def _told(error: Any, expression: str) -> ExpressionError:
    position = getattr(error, "lex_position", getattr(error, "lexer_position", None))
    if position is None:
        if size_of(getattr(error, "current_value", None), 200) > 200:
            error.current_value = "a long one"  # written out, it could take any room
        return ExpressionError(f"cannot be evaluated: {error}")
    text = str(error).split("\n", 1)[0].rstrip(":")
    place = min(position, len(expression)) if position >= 0 else len(expression)
    return ExpressionError(
        f"cannot be read: {text} (position {place}, before {expression[place : place + 20]!r})", place
    )


# ── evaluating ───────────────────────────────────────────────────────────────────────────────


@cache
def _interpreter() -> Callable[[Work], Any]:
    from jmespath import visitor

    class Counting(visitor.TreeInterpreter):  # type: ignore[misc]
        """The standard interpreter; every step is counted before it is done."""

        def __init__(self, work: Work) -> None:
            super().__init__(visitor.Options(custom_functions=_functions()(work)))
            self._work, self._spend = work, work.spend
            compares = visitor.TreeInterpreter.COMPARATOR_FUNC
            self.COMPARATOR_FUNC = {name: partial(self._compared, compare) for name, compare in compares.items()}

        def _compared(self, compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
            if isinstance(left, (str, list, dict)) and left.__class__ is right.__class__:
                self._spend(size_of(left, self._work.left))
            return compare(left, right)

        def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
            self._spend(_STEP)
            return super().visit(node, *args, **kwargs)

        def visit_slice(self, node: Any, value: Any) -> Any:
            self._spend(_REFERENCE * len(value) if isinstance(value, list) else 0)
            return super().visit_slice(node, value)

        def visit_flatten(self, node: Any, value: Any) -> Any:
            base = self.visit(node["children"][0], value)
            if isinstance(base, list):
                self._spend(_REFERENCE * sum(len(item) if isinstance(item, list) else 1 for item in base))
            return super().visit_flatten({"children": [{"type": "literal", "value": base, "children": []}]}, value)

    return Counting


@cache
def _functions() -> Callable[[Work], Any]:
    from jmespath import functions

    class Bounded(functions.Functions):  # type: ignore[misc]
        """The standard functions; what they go through is counted, and texts stay within a bound."""

        def __init__(self, work: Work) -> None:
            self._work = work

        def call_function(self, function_name: str, resolved_args: list[Any]) -> Any:
            for arg in resolved_args:
                self._work.spend(_cost(function_name, arg, self._work.left))
            return super().call_function(function_name, resolved_args)

        @functions.signature({"types": []})  # type: ignore[untyped-decorator]
        def _func_to_string(self, arg: Any) -> str:
            if isinstance(arg, str):
                return arg
            _need_room(size_of(arg, MAX_TEXT_BYTES))
            import json

            return json.dumps(arg, separators=(",", ":"), default=str)

        @functions.signature({"types": ["string"]}, {"types": ["array-string"]})  # type: ignore[untyped-decorator]
        def _func_join(self, separator: str, array: list[str]) -> str:
            size = sum(map(len, array)) + len(separator) * len(array)
            _need_room(size)
            self._work.spend(size)
            return separator.join(array)

        def _create_key_func(self, expref: Any, allowed_types: Any, function_name: Any) -> Any:
            key_of = super()._create_key_func(expref, allowed_types, function_name)

            def counted(item: Any) -> Any:
                key = key_of(item)
                self._work.spend(len(key) if isinstance(key, str) else 0)
                return key

            return counted

    return Bounded


_AT_ONCE = frozenset({"length", "type", "not_null", "to_array"})
_INSIDE = frozenset({"contains", "max", "min", "sort", "join", "to_string"})  # look at what a list holds, too


def _cost(function: str, arg: Any, enough: int) -> int:
    """What a function goes through of one argument."""
    if function in _AT_ONCE or not isinstance(arg, (str, list, dict)):
        return 0
    if isinstance(arg, str):
        return len(arg)
    times = len(arg).bit_length() if function in ("sort", "sort_by") else _REFERENCE
    return len(arg) * times + (size_of(arg, enough) if function in _INSIDE else 0)


def _need_room(size: int) -> None:
    if size > MAX_TEXT_BYTES:
        raise ExpressionError(f"makes a text of more than {MAX_TEXT_BYTES} bytes; make it of less")

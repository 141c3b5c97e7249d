"""JMESPath with bounds: no expression can make a small input grow without end."""

from __future__ import annotations

from typing import Any, Protocol

from handrail.output.known import secret_name
from handrail.output.patterns import MARK

MAX_GROWTH = 10_000
MAX_TEXT_BYTES = 1024 * 1024


class Hides(Protocol):
    """Redaction, as far as it is needed here."""

    def text(self, text: str) -> str:
        """Hide what must be hidden."""


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated; the text goes on after "The expression"."""

    def __init__(self, text: str, position: int | None = None) -> None:
        super().__init__(text)
        self.position = position


def search(expression: str, value: Any) -> Any:
    """Evaluate; ExpressionError with the place."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        compiled = jmespath.compile(expression)
        if _growth(compiled.parsed) > MAX_GROWTH:
            raise ExpressionError(f"repeats its input more than {MAX_GROWTH} times over")
        return compiled.search(value, jmespath.Options(custom_functions=_functions()))
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


def hidden(value: Any, secrets: Hides, *, named: bool = False) -> Any:
    """Hide secrets before an expression can turn them round, take them apart or out of the field that names them."""
    if isinstance(value, str):
        return MARK if named and value.strip() else secrets.text(value)
    if isinstance(value, list):
        return [hidden(item, secrets, named=named) for item in value]
    if isinstance(value, dict):
        return {secrets.text(key): hidden(item, secrets, named=secret_name(key)) for key, item in value.items()}
    return value


def _told(error: Any, expression: str) -> ExpressionError:
    position = getattr(error, "lex_position", getattr(error, "lexer_position", None))
    if position is None:
        return ExpressionError(f"cannot be evaluated: {error}")
    text = str(error).split("\n", 1)[0].rstrip(":")
    place = min(position, len(expression)) if position >= 0 else len(expression)
    return ExpressionError(
        f"cannot be read: {text} (position {place}, before {expression[place : place + 20]!r})", place
    )


def _growth(node: dict[str, Any]) -> int:
    """How often the result can hold the same part of the input: each list or object of choices multiplies it."""
    growth, todo = 1, [node]
    while todo:
        item = todo.pop()
        if item["type"] in ("multi_select_list", "multi_select_dict"):
            growth *= max(1, len(item["children"]))
        todo += [child for child in item["children"] if isinstance(child, dict)]
    return growth


def _functions() -> Any:
    from jmespath import functions

    class Bounded(functions.Functions):  # type: ignore[misc]
        """The standard functions; texts made from values stay within a bound."""

        @functions.signature({"types": []})  # type: ignore[untyped-decorator]
        def _func_to_string(self, arg: Any) -> str:
            if isinstance(arg, str):
                return arg
            if size_of(arg, MAX_TEXT_BYTES) > MAX_TEXT_BYTES:
                raise ExpressionError(f"makes a text of more than {MAX_TEXT_BYTES} bytes")
            import json

            return json.dumps(arg, separators=(",", ":"), default=str)

    return Bounded()


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

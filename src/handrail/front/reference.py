"""The reference pages, written from the code: `python -m handrail.front.reference --write docs/reference`."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any

HEAD = "<!-- Written from the code by `make docs`; edit the code instead. -->\n"


def tools() -> Iterator[str]:
    """Every tool a model can be offered."""
    from handrail.catalog import Catalog
    from handrail.tools import builtin

    yield "# Tools\n"
    yield "Names are the same in rules, journal, command line and function-calling APIs. Low-risk tools are always\n"
    yield "offered; the others once `tools.enable` names them or their toolset (`delete_path` only by its own name).\n"
    catalog = [tool for tool in Catalog(lazy=builtin()) if tool.offered]
    for toolset in sorted({tool.toolset for tool in catalog}):
        yield f"\n## {toolset}\n"
        for tool in (item for item in catalog if item.toolset == toolset):
            spec = tool.spec()
            touched = ", ".join(f"`{kind}`" for kind in spec["required_permissions"]) or "nothing"
            yield f"\n### {tool.name}\n\n{tool.description}\n\n"
            yield f"Version {tool.version}, {tool.risk.value} risk, touches {touched}.\n\n"
            yield from _arguments(spec["args_schema"])
            yield f"\nGives: {_fields(spec['return_schema'])}.\n"


def _arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| argument | type | default | |\n|---|---|---|---|\n"
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else f"`{_default(field)}`"
        yield f"| `{name}` | {_type(field, schema)} | {default} | {_cell(field.get('description', ''))} |\n"


def _default(field: Mapping[str, Any]) -> str:
    import json

    return json.dumps(field.get("default"))


def _type(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{item}`" for item in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "anyOf" in field:
        kinds = [_type(item, schema) for item in field["anyOf"] if item.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in field:
        target = schema.get("$defs", {}).get(field["$ref"].rsplit("/", 1)[-1], {})
        return "{" + ", ".join(target.get("properties", {})) + "}"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), schema)}"
    return str(field.get("type", "any JSON value"))


def _fields(schema: Mapping[str, Any]) -> str:
    names = list(schema.get("properties", {}))
    return ", ".join(f"`{name}`" for name in names) if names else str(schema.get("type", "any JSON value"))


def errors() -> Iterator[str]:
    """Every code an outcome can carry."""
    from handrail.errors import FACTS

    yield "# Error codes\n\nA closed list. `retryable` says that the same call may work later.\n\n"
    yield "| code | class | when | retryable |\n|---|---|---|---|\n"
    for code, facts in FACTS.items():
        yield f"| `{code.value}` | {facts.error_class} | {_cell(facts.when)} | {'yes' if facts.retryable else ''} |\n"


def events() -> Iterator[str]:
    """Every kind of event in a journal."""
    from handrail.gates.record import EVENTS, EVERY_EVENT

    yield "# Events\n\n`events.jsonl` holds one JSON object a line. Every event has "
    yield ", ".join(f"`{name}`" for name in EVERY_EVENT)
    yield " (`call_id` only where there is a call); `prev` is the SHA-256 of the line before.\n\n"
    yield "| kind | when | further fields |\n|---|---|---|\n"
    for kind, about in EVENTS.items():
        yield f"| `{kind}` | {_cell(about.when)} | {', '.join(f'`{name}`' for name in about.fields)} |\n"


def settings() -> Iterator[str]:
    """Every setting."""
    from handrail.settings import keys, rule_keys

    yield "# Settings\n\n"
    yield "`handrail.toml` in the project, `config.toml` in the user's configuration folder, `--config`, the\n"
    yield "environment (`HANDRAIL_SECTION__KEY`) and flags; later beats earlier. The last column says what a\n"
    yield "project's file may do to a value before a person has trusted it (`handrail config trust`).\n\n"
    yield "A variable holds a value as TOML would; text may stand bare. Lists are written as in JSON:\n"
    yield """`HANDRAIL_TOOLS__ENABLE='["fs", "exec"]'`, `HANDRAIL_LIMITS__BULK_FILES=50`,\n"""
    yield "`HANDRAIL_MODE=headless`.\n\n"
    yield "| setting | type | default | meaning | untrusted |\n|---|---|---|---|---|\n"
    for key in keys():
        default = "" if key.default is None else f"`{_json(key.default)}`"
        yield f"| `{key.name}` | {_cell(key.type)} | {_cell(default)} | {_cell(key.says)} | {key.meets.value} |\n"
    yield "\n## Rules\n\nEach `[[rules]]` entry; all given fields must match.\n\n"
    yield "| field | type | meaning |\n|---|---|---|\n"
    for key in rule_keys():
        yield f"| `{key.name.removeprefix('rules.')}` | {_cell(key.type)} | {_cell(key.says)} |\n"


def _json(value: Any) -> str:
    import json

    return json.dumps(value, default=str)


def verbs() -> Iterator[str]:
    """Every verb of the command line."""
    import click

    from handrail.front.cli.root import VERBS, handrail

    yield "# Command line\n\nData on stdout, the rest on stderr. Exit codes: 0 done, 1 failed, 2 wrong usage,\n"
    yield "3 denied, 4 approval pending, 124 timed out, 130 interrupted. A call whose arguments do not fit its tool\n"
    yield "(`INVALID_ARGS`) was made and failed: 1. Words that are no call (an unknown option, a pair without `=`,\n"
    yield "`--args` that is no JSON object) are wrong usage: 2; so is `policy explain` of arguments that do not fit.\n"
    root = click.Context(handrail, info_name="handrail")
    for name in VERBS:
        found = handrail.get_command(root, name)
        assert found is not None
        yield from _verb(found, f"handrail {name}", root)


def _verb(found: Any, name: str, above: Any) -> Iterator[str]:
    import click

    context = click.Context(found, info_name=name.rsplit(" ", 1)[-1], parent=above)
    inner = getattr(found, "commands", {})
    if not inner or found.params:
        usage = " ".join(found.collect_usage_pieces(context))
        yield f"\n## {name}\n\n{cleandoc(found.help or '').split(chr(8))[0].strip()}\n\n```\n{name} {usage}\n```\n"
        options = [item for item in found.params if isinstance(item, click.Option)]
        if options:
            yield "\n| option | |\n|---|---|\n"
        for option in options:
            names = ", ".join(f"`{flag}`" for flag in option.opts)
            yield f"| {names} | {_cell(option.help or '')} |\n"
    for sub, command in inner.items():
        yield from _verb(command, f"{name} {sub}", context)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ") if "\\|" not in text else text


def dialects() -> Iterator[str]:
    """Every dialect: its tools, what its errors are called, what its document promises."""
    from handrail import dialects as spoken

    yield "# Dialects\n\nAnother system's names, arguments, envelopes, errors and events over the same tools. A\n"
    yield "dialect translates; it adds nothing, grants nothing and skips nothing. What a document's system allows by\n"
    yield "default is a preset of the same name. How to use them: [speak a dialect](../how-to/dialects.md).\n"
    for name in spoken.names():
        if name != "native":
            yield from _dialect(spoken.get(name))
    yield from _promises(Path(__file__).parents[3] / "tests" / "dialects" / "promises")


def _dialect(dialect: Any) -> Iterator[str]:
    yield f"\n## {dialect.name}\n\n{dialect.about}.\n\n"
    yield "| tool | ours | arguments |\n|---|---|---|\n"
    for word in dialect.words.values():
        required = word.args.get("required", ())
        args = ", ".join(f"`{arg}`" if arg in required else f"`{arg}`?" for arg in word.args["properties"])
        yield f"| `{word.name}` | `{word.ours}` | {args} |\n"
    if dialect.former:
        yield f"\nAlso understood: {', '.join(f'`{old}` as `{now}`' for old, now in dialect.former.items())}.\n"
    for tool, why in dialect.refused.items():
        yield f"\n`{tool}` is not served: {why}.\n"
    if any(code.value != called for code, called in dialect.errors.items()):
        yield "\n| error | our codes |\n|---|---|\n"
        for called in dict.fromkeys(dialect.errors.values()):
            codes = [f"`{code.value}`" for code, told in dialect.errors.items() if told == called]
            yield f"| `{called}` | {', '.join(codes)} |\n"
        for called, when in dialect.special.items():
            yield f"| `{called}` | {when} |\n"


def _promises(folder: Path) -> Iterator[str]:
    """List what the documents promise, each with what holds it."""
    import tomllib

    yield "\n## Promises\n\nWhat each document promises, sentence by sentence, and the tests that hold it.\n\n"
    yield "| document | no | section | promise | held by |\n|---|---|---|---|---|\n"
    for document in ("skills-agent", "clude", "tool-hub", "kgent", "autonous"):
        for row in tomllib.loads((folder / f"{document}.toml").read_text())["promises"]:
            cells = (document, row.get("sentence", ""), row["section"], row["promise"], _held_by(row))
            yield f"| {' | '.join(_cell(str(cell)) for cell in cells)} |\n"


def _held_by(row: Mapping[str, Any]) -> str:
    """Name the tests of a promise, what it waits for, and why it is deviated from."""
    tests = [*([row["test"]] if "test" in row else []), *row.get("tests", ())]
    parts = [", ".join(f"`{test}`" for test in tests)] if tests else []
    if "waits" in row:
        parts.append(f"waits for the {row['waits']}")
    if "deviates" in row:
        parts.append(f"deviates: {row['deviates']}")
    return "; ".join(parts)


def python() -> Iterator[str]:
    """Everything that a program imports."""
    from handrail.front.reference_python import page

    yield from page()


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "tools.md": tools,
    "errors.md": errors,
    "events.md": events,
    "settings.md": settings,
    "dialects.md": dialects,
    "command-line.md": verbs,
    "python.md": python,
}


def main(argv: list[str]) -> int:
    """Write the pages, or check that they are up to date."""
    what, folder = argv[0], Path(argv[1])
    stale = 0
    for name, page in PAGES.items():
        text, file = HEAD + "".join(page()), folder / name
        old = file.read_text() if file.exists() else ""
        if what == "--write":
            file.write_text(text)
        elif text != old:
            stale += 1
            sys.stderr.writelines(
                list(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, name))[:20]
            )
    if stale:
        sys.stderr.write(f"{stale} reference page(s) are out of date: run `make docs`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

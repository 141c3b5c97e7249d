"""handrail skills: which skills there are, what each asks for, and whether one is written well."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import CONFIG, JSON, WORKSPACE, console, loaded, print_json
from handrail.spelling import nearest

if TYPE_CHECKING:
    from handrail.skills.finding import Library, Whole


@click.group("skills", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, show and validate skills: folders with SKILL.md.

    They are looked for in the folders that settings name (`skills.folders`), and in ~/.agents/skills and
    ~/.claude/skills unless `skills.user` is off.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_skills)


@command.command("list")
@WORKSPACE
@CONFIG
@JSON
def list_skills(**given: Any) -> None:
    """List the skills, with those that are broken."""
    library = _library(given)
    found = [library.whole(item) for item in library.found()]
    if given["as_json"]:
        print_json([_row(whole) for whole in found])
        return
    if not found:
        sys.stderr.write("There are no skills here; each is a folder with SKILL.md, such as .agents/skills/NAME.\n")
        return
    from handrail.front.cli._tables import plain, print_rows

    rows = []
    for whole in found:
        skill = whole.skill
        tools = "all" if skill.allowed_tools is None else plain(", ".join(sorted(skill.allowed_tools)) or "none")
        state = f"[red]{plain(_short(skill.problems))}[/]" if skill.problems else ""
        says = plain(" ".join(skill.description.split()))
        rows.append((plain(skill.id), plain(skill.source), "[dim]-[/]" if skill.problems else tools, state, says))
    head = ("skill", "source", "tools", "problems", "description")
    print_rows(console(), head, rows, ("description", "tools", "problems"))


@command.command("show")
@click.argument("skill_id", metavar="ID")
@WORKSPACE
@CONFIG
@JSON
def show(skill_id: str, **given: Any) -> int:
    """Show one skill: what it says of itself, its files, what is wrong with it."""
    library = _library(given)
    found = {item.id: item for item in library.found()}
    if skill_id not in found:
        same = [item.id for item in found.values() if item.name == skill_id]
        near = same or nearest(skill_id, found, 1, 0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`handrail skills list` names them."
        raise click.UsageError(f"There is no skill {skill_id!r}. {hint}")
    whole = library.whole(found[skill_id])
    if given["as_json"]:
        print_json({**_row(whole), "files": _files(whole), "body": whole.header.body})
    else:
        _describe(whole)
    return 1 if whole.skill.problems else 0


@command.command("validate")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True))
@JSON
def validate(paths: Sequence[str], as_json: bool) -> int:
    """Check skills before others meet them; PATH is a skill's folder or its SKILL.md.

    Ends with 1 where a skill could not be loaded, or breaks the Agent Skills specification.
    """
    library = _plain_library()
    found = [library.whole(library.at(_folder(path))) for path in paths]
    bad = any(whole.skill.problems or whole.remarks for whole in found)
    if as_json:
        rows = [{"path": path, **_row(whole)} for path, whole in zip(paths, found, strict=True)]
        print_json({"ok": not bad, "skills": rows})
        return int(bad)
    from handrail.front.cli._tables import plain

    out = console()
    for path, whole in zip(paths, found, strict=True):
        wrong, remarks = whole.skill.problems, whole.remarks
        out.print(f"{plain(path)}: {'[green]valid[/]' if not (wrong or remarks) else ''}".rstrip(), soft_wrap=True)
        for text in wrong:
            out.print(f"  [red]problem[/]: {plain(text)}", soft_wrap=True)
        for text in remarks:
            out.print(f"  [yellow]against the specification[/]: {plain(text)}", soft_wrap=True)
        for text in whole.notes:
            out.print(f"  note: {plain(text)}", soft_wrap=True)
    return int(bad)


def _library(given: Mapping[str, Any]) -> Library:
    """The skills of a workspace, found without opening a run."""
    from handrail.settings import paths
    from handrail.skills.finding import Library
    from handrail.skills.sources import project_sources, user_sources
    from handrail.words import Root

    settings = loaded(given).settings
    home = os.path.realpath(settings.workspace.root)
    sources = (
        []
        if settings.workspace.root == "run:workspace"
        else [*project_sources(Root("workspace", home, writable=True), settings.skills.folders)]
    )
    if settings.skills.user:
        sources += user_sources(paths.home_dir())
    return Library(lambda: sources, _tool_names())


def _plain_library() -> Library:
    from handrail.skills.finding import Library

    return Library(lambda: (), _tool_names())


def _tool_names() -> Any:
    from handrail.catalog import Catalog
    from handrail.packages import entry_point_tools
    from handrail.tools import builtin

    return Catalog(lazy=builtin(), more=entry_point_tools).names


def _folder(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))


def _row(whole: Whole) -> dict[str, Any]:
    skill, header = whole.skill, whole.header
    return {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "source": skill.source,
        "folder": skill.folder,
        "digest": skill.digest,
        "license": header.license,
        "compatibility": header.compatibility,
        "allowed_tools": None if skill.allowed_tools is None else sorted(skill.allowed_tools),
        "allowed_tools_written": None if header.allowed_tools is None else list(header.allowed_tools),
        "permissions": list(skill.permissions),
        "problems": list(skill.problems),
        "remarks": list(whole.remarks),
        "notes": list(whole.notes),
    }


def _files(whole: Whole) -> list[dict[str, Any]]:
    return [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in whole.files]


def _short(problems: Sequence[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def _describe(whole: Whole) -> None:
    from handrail.front.cli._tables import plain

    out, skill, header = console(), whole.skill, whole.header
    out.print(f"[bold]{plain(skill.id)}[/]   {plain(skill.source)}   {plain(skill.folder)}", soft_wrap=True)
    out.print(f"{plain(skill.description)}\n", soft_wrap=True)
    tools = "all (it does not narrow)"
    if skill.allowed_tools is not None:
        tools = ", ".join(sorted(skill.allowed_tools)) or "none"
    facts = {
        "allowed tools": tools,
        "asks for": ", ".join(skill.permissions),
        "license": header.license,
        "compatibility": header.compatibility,
        "digest": skill.digest,
    }
    for name, text in facts.items():
        if text:
            out.print(f"{name}: {plain(text)}", soft_wrap=True)
    for file in whole.files:
        out.print(f"  {plain(file.path)}  [dim]{file.bytes} bytes, sha256 {file.sha256[:12]}…[/]", soft_wrap=True)
    for text in skill.problems:
        out.print(f"[red]problem[/]: {plain(text)}", soft_wrap=True)
    for text in whole.remarks:
        out.print(f"[yellow]against the specification[/]: {plain(text)}", soft_wrap=True)
    for text in whole.notes:
        out.print(f"note: {plain(text)}", soft_wrap=True)

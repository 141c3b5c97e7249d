"""handrail identities: who may use the service, and as what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from handrail.front.cli._common import JSON, clock, console, print_json

if TYPE_CHECKING:
    from handrail.service.identities import Identities

ROLES = ("caller", "approver", "auditor", "admin")


@click.group("identities")
def command() -> None:
    """Add, list, renew and remove those who may use the service.

    Roles: caller makes calls and sees its own runs; approver answers; auditor reads everything; admin does all of that
    but calls. A caller can be neither approver nor admin.
    """


@command.command("add")
@click.argument("name")
@click.option("--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="what it may do")
def add(name: str, roles: tuple[str, ...]) -> None:
    """Add NAME, and print its token: the only time that it is shown."""
    sys.stdout.write(f"{known().add(name, roles)}\n")
    sys.stderr.write("This is the token; it is kept nowhere. `handrail identities renew` gives another one.\n")


@command.command("list")
@JSON
def list_identities(as_json: bool) -> None:
    """List the identities and their roles."""
    found = known().list()
    if as_json:
        told = [{"name": item.name, "roles": sorted(item.roles), "made": item.made} for item in found]
        print_json(told)
        return
    if not found:
        sys.stderr.write("There are no identities yet; `handrail serve` makes an admin, `identities add` more.\n")
        return
    from handrail.front.cli._tables import plain, print_rows

    rows = [[plain(item.name), plain(", ".join(sorted(item.roles)))] for item in found]
    print_rows(console(), ("name", "roles"), rows, ("roles",))


@command.command("renew")
@click.argument("name")
def renew(name: str) -> None:
    """Give NAME another token; the former one and its logins end."""
    sys.stdout.write(f"{known().renew(name)}\n")


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove NAME with its logins; what it did stays on record."""
    known().remove(name)
    sys.stderr.write("Removed.\n")


def known() -> Identities:
    """Open the identities of this account."""
    from handrail.service.identities import DATABASE, Identities
    from handrail.settings import paths

    return Identities(paths.state_dir() / DATABASE, clock())

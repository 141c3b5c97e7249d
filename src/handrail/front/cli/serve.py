"""handrail serve: the inbox, the timeline, REST and metrics of this account, on one port."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import run_async

NEEDED = ("fastapi", "uvicorn", "jinja2", "sse_starlette", "segno")


@click.group("serve", invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen at")
@click.option("--port", default=8421, show_default=True, type=click.IntRange(0, 65535), help="the port; 0: a free one")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="a certificate chain")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="its private key")
@click.option(
    "--behind-proxy", metavar="URL", help="the address that people open, where a proxy with TLS stands before"
)
@click.option("--config", "-c", metavar="FILE", help="a settings file instead of the user's")
@click.option("--install-systemd", is_flag=True, help="write a unit of the user that starts this, and end")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Serve the inbox, the timeline, REST and metrics of this account.

    \b
    handrail serve                              on this machine; the first start prints a link
    handrail serve link                         another link that logs you in
    handrail serve pair ann-phone               a QR code that makes a phone an approver
    handrail serve --behind-proxy https://handrail.example.org

    Any address but this machine's own needs --tls-cert and --tls-key, or --behind-proxy.
    """
    if ctx.invoked_subcommand is not None:
        return
    need_extra()
    from handrail.front.web.serve import Listening, address_of, serve

    cert, key, proxy = given["tls_cert"], given["tls_key"], given["behind_proxy"]
    asked = Listening(given["host"], given["port"], cert, key, proxy)
    address_of(asked)
    if given["install_systemd"]:
        _install(given)
        return
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    run_async(serve(_loaded(given["config"]), asked))


def need_extra() -> None:
    """Say what is missing before anything is served."""
    from handrail.installed import find_module

    if any(find_module(name) is None for name in NEEDED):
        raise click.UsageError("The service needs more packages: pip install 'handrail[serve]'.")


def _loaded(config: str | None) -> Any:
    """Load the user's own settings: no project's file counts for the service itself."""
    import os

    from handrail.settings import load, paths

    file = Path(config) if config else None
    if file is None and paths.user_file().exists():
        file = paths.user_file()
    return load(paths.state_dir().parent, config=file if file is not None else {}, environment=os.environ)


def _install(given: dict[str, Any]) -> None:
    from handrail.front.web.serve import unit_text
    from handrail.settings import paths

    words = ["--host", given["host"], "--port", str(given["port"])]
    for name in ("tls_cert", "tls_key", "config"):
        if given[name]:
            words += [f"--{name.replace('_', '-')}", str(Path(given[name]).absolute())]
    if given["behind_proxy"]:
        words += ["--behind-proxy", given["behind_proxy"]]
    unit = paths.config_dir().parent / "systemd" / "user" / "handrail.service"
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(unit_text(words))
    sys.stderr.write(
        f"Written: {unit}\nStart it: systemctl --user daemon-reload && systemctl --user enable --now handrail\n"
    )


@command.command("link")
@click.argument("name", default="admin")
def link(name: str) -> None:
    """Print a link for one use that logs NAME in at a browser, for fifteen minutes."""
    from handrail.front.cli.identities import known

    code = known().make_link(name)
    sys.stdout.write(f"{_address()}/login/{code}\n")


@command.command("pair")
@click.argument("name")
@click.option("--role", default="approver", type=click.Choice(["approver", "auditor"]), help="what the phone may do")
def pair(name: str, role: str) -> None:
    """Show a QR code that makes a phone an approver called NAME: for one use, within five minutes."""
    need_extra()
    from handrail.front.cli.identities import known
    from handrail.front.web.serve import qr_lines
    from handrail.service.identities import PAIR_SECONDS

    address = _address()
    url = f"{address}/login/{known().make_link(name, [role], PAIR_SECONDS)}"
    sys.stdout.write(f"{qr_lines(url)}\n{url}\n")
    if address.startswith(("http://127.", "http://localhost", "http://[::1]")):
        sys.stderr.write("A phone cannot reach this address. Serve with --tls-cert and --tls-key, or --behind-proxy.\n")


def _address() -> str:
    from handrail.settings import paths
    from handrail.store.serving import service_address

    found = service_address(paths.state_dir())
    if found is None:
        raise click.UsageError("The service does not run; start it with `handrail serve`.")
    return found

"""Take the screenshots of the console from its real pages, filled by the demo (`make screenshots`; needs chromium).

`console.py FOLDER` takes every page at both widths, light and dark, to look at them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from handrail.front.web import demo

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = (1280, 800)
PHONE = (360, 740)
WAIT_SECONDS = 60.0


class Shot(NamedTuple):
    """One picture of the docs."""

    name: str
    page: str
    size: tuple[int, int]
    scheme: str


SHOTS = (
    Shot("console-inbox", "inbox", DESK, "light"),
    Shot("console-request", "request", DESK, "light"),
    Shot("console-run", "run", DESK, "dark"),
    Shot("console-undo", "undo", DESK, "light"),
    Shot("console-policy", "explain", DESK, "light"),
    Shot("console-phone", "request", PHONE, "dark"),
)


class Demo:
    """A demo that is served, with the places of its pages."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def get(self, path: str) -> Any:
        """Ask for something over REST."""
        request = urllib.request.Request(f"{self.url}{path}", headers={"authorization": f"Bearer {self.token}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return json.loads(answer.read())

    def wait(self) -> list[dict[str, Any]]:
        """Wait until the scripted agent asks; gives what waits."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            waiting: list[dict[str, Any]] = self.get("/v1/approvals")["approvals"]
            if any(item["caller"] == "agent" for item in waiting) and self.get("/v1/runs?q=")["runs"]:
                return waiting
            time.sleep(0.2)
        raise SystemExit("The demo's agent did not ask within a minute.")

    def places(self) -> dict[str, str]:
        """Name every page of the console by its path."""
        waiting = self.wait()
        asked = {item["tool"]: item["id"] for item in waiting}
        task = next(item for item in waiting if item["caller"] == "agent")
        runs = self.get("/v1/runs")["runs"]
        changed = next(run["run_id"] for run in runs if run.get("changed"))
        return {
            "login": "/login",
            "inbox": "/",
            "request": f"/requests/{task['id']}",
            "request-command": f"/requests/{asked['run_command']}",
            "request-delete": f"/requests/{asked['delete_path']}",
            "runs": "/runs",
            "search": "/runs?q=discount",
            "run": f"/runs/{task['run_id']}",
            "undo": f"/runs/{changed}/undo",
            "explain": "/policy?tool=read_file&args=%7B%22path%22%3A%20%22.env%22%7D",
            "policy": "/policy?tab=effective",
            "settings": "/policy?tab=settings",
            "tasks": "/tasks",
            "health": "/health",
            "missing": "/runs/none",
        }


@contextmanager
def served() -> Iterator[Demo]:
    """Serve the demo in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="handrail-console-") as folder:
        home = Path(folder)
        env = demo.prepare(home)
        demo.fill(home, env)
        command = [sys.executable, "-m", "handrail"]
        added = subprocess.run(
            [*command, "identities", "add", "anna", "--role", "admin"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        error = home / "serve.err"
        with open(error, "wb") as stream:
            serving = subprocess.Popen([*command, "serve", "--port", "0"], env=env, stderr=stream)
            worker = subprocess.Popen([*command, "worker"], env=env, stdout=stream, stderr=subprocess.DEVNULL)
        try:
            yield Demo(_listening(error), added.stdout.strip())
        finally:
            for process in (worker, serving):
                process.terminate()
                process.wait(20)


def _listening(error: Path) -> str:
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        for line in error.read_text().splitlines():
            if line.startswith("listening on "):
                return line.removeprefix("listening on ")
        time.sleep(0.05)
    raise SystemExit(f"The service did not start: {error.read_text()}")


def open_page(browser: Browser, found: Demo, size: tuple[int, int], scheme: str) -> Page:
    """Open a browser's window that is logged in."""
    view = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=view, color_scheme=scheme, is_mobile=size == PHONE, has_touch=size == PHONE)  # type: ignore[arg-type]
    page.goto(f"{found.url}/login")
    page.fill("#token", found.token)
    page.click("button.first")
    page.wait_for_url(f"{found.url}/")
    return page


def take(page: Page, url: str, file: Path, *, whole: bool) -> None:
    """Take a picture of one page, once it stands still."""
    page.goto(url)
    page.wait_for_timeout(400)
    page.screenshot(path=file, full_page=whole)


def main() -> int:
    """Take the pictures of the docs, or every page into a folder."""
    with served() as found, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        places = found.places()
        if len(sys.argv) > 1:
            for size in (DESK, PHONE):
                for scheme in ("light", "dark"):
                    page = open_page(browser, found, size, scheme)
                    for name, path in places.items():
                        file = Path(sys.argv[1]) / f"{name}-{size[0]}-{scheme}.png"
                        take(page, found.url + path, file, whole=True)
        else:
            for shot in SHOTS:
                page = open_page(browser, found, shot.size, shot.scheme)
                take(page, found.url + places[shot.page], HERE / f"{shot.name}.png", whole=False)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

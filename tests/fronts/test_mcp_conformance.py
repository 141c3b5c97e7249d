"""The official conformance suite against our server, with its fixtures."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NEEDS = "@modelcontextprotocol/conformance"
GIVEN = os.environ.get("HANDRAIL_NODE_MODULES")  # read before a test's own user takes the place of ours
ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PACKAGES = (f"node-linux-{ARCH}@22", f"{NEEDS}@0.1.16")  # the first is what `node@22` would fetch by a script


def modules(tmp: Path) -> Path:
    """The folder of node modules that has the suite; where npm may install it (CI=true), it is installed."""
    if GIVEN and Path(GIVEN, NEEDS).is_dir():
        return Path(GIVEN)
    if os.environ.get("CI") != "true":
        pytest.skip(f"set HANDRAIL_NODE_MODULES to a node_modules folder with {' and '.join(PACKAGES)}")
    assert shutil.which("npm"), "npm is missing"
    options = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", *options, *PACKAGES], cwd=tmp, check=True, timeout=300)
    return tmp / "node_modules"


def node_of(found: Path) -> str:
    """A node that is new enough: the one installed beside the suite, or the system's."""
    beside = [
        *found.glob("node/bin/node"),
        *found.glob("node-linux-*/bin/node"),
        *found.glob("node/node_modules/*/bin/node"),
    ]
    node = str(beside[0]) if beside else shutil.which("node") or "node"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < 22:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the suite needs Node 22, and this is {version}")
        pytest.skip(f"the suite needs Node 22, and this is {version}")
    return node


def test_the_conformance_suite_passes(tmp_path: Path) -> None:
    """All active scenarios, none of them expected to fail."""
    found = modules(tmp_path)
    node, work = node_of(found), tmp_path / "work"
    work.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", HERE / "_conformance.py", work],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        suite = [node, str(found / NEEDS / "dist" / "index.js"), "server", "--url", url, "-o", str(tmp_path / "out")]
        done = subprocess.run(suite, capture_output=True, text=True, timeout=120, check=False)
    finally:
        server.terminate()
        server.communicate(timeout=20)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert ", 0 failed" in done.stdout.partition("Total: ")[2]

"""What the MCP tests take from npm: one installation for all of them, pinned."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

CONFORMANCE = "@modelcontextprotocol/conformance"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"
INSPECTOR = "@modelcontextprotocol/inspector-cli"
VERSIONS = {CONFORMANCE: "0.1.16", FILESYSTEM: "2026.8.31", INSPECTOR: "0.15.0"}
ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NODE = f"node-linux-{ARCH}@22.23.3"  # what the package `node` would fetch by a script
PACKAGES = (NODE, *(f"{name}@{version}" for name, version in VERSIONS.items()))
GIVEN = os.environ.get("HANDRAIL_NODE_MODULES")  # read before a test's own user takes the place of ours


def modules(needs: str, factory: pytest.TempPathFactory) -> Path:
    """The folder of node modules that has a package; where npm may install it (CI=true), it is installed."""
    if GIVEN and Path(GIVEN, needs).is_dir():
        return Path(GIVEN)
    if os.environ.get("CI") != "true":
        pytest.skip(f"set HANDRAIL_NODE_MODULES to a node_modules folder with {needs}@{VERSIONS[needs]} and {NODE}")
    return _installed(factory)


def node_of(found: Path) -> str:
    """A node that is new enough: the one installed beside the packages, or the system's."""
    beside = [
        *found.glob("node/bin/node"),
        *found.glob("node-linux-*/bin/node"),
        *found.glob("node/node_modules/*/bin/node"),
    ]
    node = str(beside[0]) if beside else shutil.which("node")
    version = "v0" if node is None else subprocess.check_output([node, "--version"], text=True).strip()
    if node is None or int(version.lstrip("v").split(".")[0]) < 22:
        reason = f"Node 22 is needed, and there is {version if node else 'none'}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return node


def _installed(factory: pytest.TempPathFactory) -> Path:
    """Install everything once in this run of the tests; other workers wait for it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "node"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            assert shutil.which("npm"), "npm is missing"
            options = ["--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(["npm", "install", *options, *PACKAGES], cwd=folder, check=True, timeout=300)
            (folder / "complete").touch()
    return folder / "node_modules"

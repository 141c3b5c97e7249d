"""The official conformance suite against our server, with its fixtures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fronts._node import CONFORMANCE, modules, node_of

HERE = Path(__file__).parent
SCENARIOS, CHECKS = 30, 40  # what the pinned version of the suite has for servers


def test_the_conformance_suite_passes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """All active scenarios, none of them expected to fail."""
    found = modules(CONFORMANCE, tmp_path_factory)
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
        suite = [
            node,
            str(found / CONFORMANCE / "dist" / "index.js"),
            "server",
            "--url",
            url,
            "-o",
            str(tmp_path / "out"),
        ]
        done = subprocess.run(suite, capture_output=True, text=True, timeout=120, check=False)
    finally:
        server.terminate()
        server.communicate(timeout=20)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    passed = re.findall(r"^✓ (\S+): [1-9]\d* passed, 0 failed$", summary, re.MULTILINE)
    total = re.search(r"^Total: (\d+) passed, 0 failed$", summary, re.MULTILINE)
    assert len(set(passed)) >= SCENARIOS, summary
    assert total is not None, summary
    assert int(total[1]) >= CHECKS, summary

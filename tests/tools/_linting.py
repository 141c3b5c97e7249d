"""What tests of linters need of the machine: programs and a sandbox. Without them they are skipped, in CI they fail."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from handrail.errors import Problem


def sandboxed() -> bool:
    """Whether programs can be confined here."""
    from handrail.sandbox.choose import choose

    try:
        choose(backend="auto", min_tier="B", allow_unconfined=False, cache_dir=None).close()
    except Problem:
        return False
    return True


_SANDBOX = sandboxed()


def _skip(missing: bool, why: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(missing and os.environ.get("CI") != "true", reason=why)


confined = _skip(not _SANDBOX, "programs cannot be confined here")


def needs(program: str) -> pytest.MarkDecorator:
    """Skip a test where a program or the sandbox is missing."""
    here = shutil.which(program) or (Path(sysconfig.get_path("scripts")) / program).exists()
    return _skip(not (here and _SANDBOX), f"{program} or a sandbox is missing")

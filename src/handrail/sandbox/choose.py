"""Chooses, once at start, how programs are confined: by trying each way for real, never by version numbers."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from handrail import __version__
from handrail.errors import Code, Problem
from handrail.sandbox import landlock
from handrail.sandbox.backends import OFFERED, UNCONFINED, Offer
from handrail.sandbox.bubblewrap import Bubblewrap
from handrail.sandbox.launching import Confined, Sandbox, SetupFailed
from handrail.sandbox.selftest import Finding, self_test

_FIX = (
    "Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor's "
    "restriction), or use a kernel with Landlock, or install bubblewrap."
)


def choose(
    *,
    backend: str = "auto",
    min_tier: str = "B",
    allow_unconfined: bool = False,
    cache_dir: Path | None = None,
    bwrap: str | None = None,
) -> Sandbox:
    """Give the strongest confinement that holds here. Raises Problem SANDBOX_UNAVAILABLE when none fits."""
    if backend == "none":
        if allow_unconfined:
            return UNCONFINED.make()
        raise Problem(
            Code.SANDBOX_UNAVAILABLE,
            'programs would run unconfined: `exec.sandbox = "none"` counts only with `exec.allow_unconfined = true`.',
        )
    tried: list[Finding] = []
    for offer in _wanted(backend, min_tier, bwrap):
        sandbox = offer.make()
        finding = _remembered(offer, cache_dir) or self_test(offer, sandbox)
        if finding.holds:
            _remember(finding, offer, cache_dir)
            return sandbox
        sandbox.close()
        tried.append(finding)
    raise _unavailable(backend, min_tier, tried)


def report(bwrap: str | None = None) -> list[tuple[str, str, bool]]:
    """Try every way there is and say what came of it: name, what was found, whether it holds."""
    lines: list[tuple[str, str, bool]] = []
    chosen: Offer | None = None
    for offer in _offered(bwrap):
        sandbox = offer.make()
        try:
            finding = self_test(offer, sandbox)
        finally:
            sandbox.close()
        lines.append((f"{offer.backend} {offer.tier}", finding.said, finding.holds))
        chosen = chosen or (offer if finding.holds else None)
    version = landlock.abi()
    lines.append(("landlock", f"ABI {version}" if version else "not offered by this kernel", version > 0))
    if chosen is None:
        return [("tier", f"none: programs are refused. {_FIX}", False), *lines]
    gaps = [("gap", gap, False) for gap in chosen.confined().gaps]
    return [("tier", chosen.tier, True), ("backend", chosen.backend, True), *lines, *gaps]


def _offered(bwrap: str | None) -> Iterator[Offer]:
    """List the ways there are, with the `bwrap` that settings name."""
    for offer in OFFERED:
        if bwrap is not None and offer.kind is Bubblewrap:
            yield replace(offer, kind=partial(Bubblewrap, named=bwrap), program=bwrap)
        else:
            yield offer


def _wanted(backend: str, min_tier: str, bwrap: str | None) -> Iterator[Offer]:
    for offer in _offered(bwrap):
        if backend in ("auto", offer.backend) and (min_tier != "A" or offer.tier == "A"):
            yield offer


def _unavailable(backend: str, min_tier: str, tried: list[Finding]) -> Problem:
    told = "; ".join(f"{finding.backend} {finding.tier}: {finding.said}" for finding in tried)
    lower = ' Or take less: `exec.min_tier = "B"`.' if min_tier == "A" else ""
    return Problem(
        Code.SANDBOX_UNAVAILABLE,
        f"programs cannot be confined here as asked (sandbox {backend}, at least tier {min_tier}), so none is run. "
        f"Tried {told}. {_FIX}{lower}",
        tried=[
            {"backend": finding.backend, "tier": finding.tier, "stage": finding.stage, "errno": finding.errno}
            for finding in tried
        ],
    )


# ── what was found before ────────────────────────────────────────────────────────────────────


def _key(offer: Offer) -> list[object]:
    """All that a finding depends on: another boot, kernel, user or version is tested again."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt")]
        kernel = [platform.release(), platform.version()]
        here = [boot, *kernel, *spaces, os.geteuid(), sys.executable, __version__]
        return [*here, offer.backend, offer.tier, offer.program]
    return []


def _place(offer: Offer, cache_dir: Path) -> Path:
    return cache_dir / f"sandbox-{offer.backend}-{offer.tier}.json"


def _remembered(offer: Offer, cache_dir: Path | None) -> Finding | None:
    """A finding that holds and was made under the same circumstances."""
    if cache_dir is None:
        return None
    try:
        key = json.loads(_place(offer, cache_dir).read_bytes())
    except (OSError, ValueError):
        return None
    same = bool(key) and key == _key(offer)
    return Finding(offer.backend, offer.tier, True, "holds, as found before") if same else None


def _remember(finding: Finding, offer: Offer, cache_dir: Path | None) -> None:
    if cache_dir is None or finding.said.endswith("as found before"):
        return
    with contextlib.suppress(OSError):
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = _place(offer, cache_dir)
        aside = place.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(_key(offer)))
        aside.replace(place)


__all__ = ["Confined", "Sandbox", "SetupFailed", "choose", "report"]

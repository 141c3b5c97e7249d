"""The runs that the service holds open for its callers: one for each identity and workspace, closed when idle."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Misuse, Problem, RunFault
from handrail.service.identities import Identity
from handrail.service.waiting import PatientApprover
from handrail.settings import Settings, load, paths
from handrail.store.folders import RunFolder, check_run_id

if TYPE_CHECKING:
    from handrail.runtime import Runtime

log = logging.getLogger("handrail.service")
_LOOK_SECONDS = 2.0  # between two looks whether settings have changed
CALLER = "rest"

Key = tuple[str, str, str]  # identity, workspace, and the run where the caller named one


@dataclass(slots=True)
class HeldRun:
    """One open run."""

    runtime: Runtime
    users: int = 0
    used: float = field(default_factory=time.monotonic)
    looked: float = field(default_factory=time.monotonic)


class OpenRuns:
    """Opens, lends and closes runs; a run is closed after some time without a call."""

    def __init__(self, settings: Settings) -> None:
        self._workspaces = settings.serve.workspaces
        self._idle_seconds = settings.serve.idle_seconds
        self._held: dict[Key, HeldRun] = {}
        self._locks: dict[Key, asyncio.Lock] = {}

    def __len__(self) -> int:
        return len(self._held)

    def workspace_of(self, identity: Identity, name: str) -> str:
        """Give the folder of a workspace that this identity may use; NOT_FOUND where there is none."""
        known = self._workspaces.get(name)
        if known is None or not _may_use(identity, known.get("roles", ())):
            names = [item for item, entry in self._workspaces.items() if _may_use(identity, entry.get("roles", ()))]
            there = f"there are: {', '.join(names)}" if names else "settings name none: [serve.workspaces]"
            raise Problem(Code.NOT_FOUND, f"There is no workspace {name[:100]!r} for {identity.name}; {there}.")
        return str(known["path"])

    def names(self, identity: Identity) -> list[str]:
        """Name the workspaces that an identity may use."""
        return [name for name, entry in self._workspaces.items() if _may_use(identity, entry.get("roles", ()))]

    def paths(self) -> dict[str, str]:
        """Give all workspaces by name."""
        return {name: str(entry["path"]) for name, entry in self._workspaces.items()}

    @asynccontextmanager
    async def lend(self, identity: Identity, workspace: str, run: str | None = None) -> AsyncIterator[Runtime]:
        """Lend a run of an identity for one call."""
        key = self._key(identity.name, self.workspace_of(identity, workspace), run or "")
        held = self._held.get(key)
        if held is None or time.monotonic() - held.looked > _LOOK_SECONDS:
            async with self._locks.setdefault(key, asyncio.Lock()):
                held = await self._current(key)
                held.users += 1
        else:
            held.users += 1
        try:
            yield held.runtime
        finally:
            held.users -= 1
            held.used = time.monotonic()

    def _key(self, name: str, folder: str, run: str) -> Key:
        """Give the key of a run; one that is open without having been named is found by its name, too."""
        unnamed = self._held.get((name, folder, ""))
        if unnamed is not None and unnamed.runtime.run_id == run:
            return name, folder, ""
        return name, folder, run

    def held(self, run_id: str) -> Runtime | None:
        """Give the open run of a name, if this process has it."""
        return next((held.runtime for held in self._held.values() if held.runtime.run_id == run_id), None)

    async def _current(self, key: Key) -> HeldRun:
        """Give the open run of a key, opened again where settings have changed since."""
        held = self._held.get(key)
        if held is not None:
            held.looked = time.monotonic()
            if held.users or _is_current(held.runtime):
                return held
            run_id = held.runtime.run_id
            del self._held[key]
            await held.runtime.__aexit__(None, None, None)
            return await self._open(key, run_id)
        return await self._open(key, key[2] or None)

    async def _open(self, key: Key, run_id: str | None) -> HeldRun:
        name, workspace, named = key
        if named:
            _check_own(name, named)
        runtime = await open_runtime(workspace, run_id=run_id, caller=CALLER, asked_by=name)
        self._held[key] = held = HeldRun(runtime)
        return held

    async def close_idle(self) -> None:
        """Close the runs that nobody used for a while."""
        now = time.monotonic()
        for key, held in list(self._held.items()):
            if not held.users and now - held.used > self._idle_seconds:
                del self._held[key]
                self._locks.pop(key, None)
                await _close(held.runtime)

    async def close(self) -> None:
        """Close all runs."""
        held, self._held = self._held, {}
        for item in held.values():
            await _close(item.runtime)


async def open_runtime(workspace: str, **options: Any) -> Runtime:
    """Open a run as the service does: asked by the ledger, shown nowhere but in its journal."""
    from handrail.runtime import Runtime
    from handrail.worlds import Options

    if not os.path.isdir(workspace):
        raise Problem(Code.NOT_FOUND, f"The workspace {workspace} is no folder.")
    options.setdefault("approver", PatientApprover())
    options.setdefault("screen", _Nowhere())
    runtime = Runtime(Options(Path(workspace), **options))
    try:
        return await runtime.__aenter__()
    except RunFault as fault:
        raise Problem(fault.code, str(fault), details=fault.details) from fault
    except Misuse as misuse:
        raise Problem(Code.INVALID_ARGS, str(misuse)) from misuse


class _Nowhere:
    """A screen that shows nothing: what tools display is an event."""

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show nothing."""


def _may_use(identity: Identity, roles: Any) -> bool:
    return not roles or identity.name in roles or identity.has(*roles)


def _is_current(runtime: Runtime) -> bool:
    """Whether settings still say what the run was opened with."""
    former = runtime.parts.loaded
    try:
        return load(Path(former.workspace), environment=os.environ).digest == former.digest
    except Exception:  # noqa: BLE001  (settings that cannot be taken are told when the next run is opened)
        return True


def _check_own(identity: str, run_id: str) -> None:
    """Refuse a run of somebody else."""
    try:
        check_run_id(run_id)
    except Misuse as misuse:
        raise Problem(Code.INVALID_ARGS, str(misuse)) from None
    folder = RunFolder(paths.runs_dir() / run_id)
    if folder.path.exists() and folder.description().get("identity") != identity:
        raise Problem(Code.NOT_FOUND, f"There is no run {run_id} of {identity}; name another one, or none.")


async def _close(runtime: Runtime) -> None:
    try:
        await runtime.__aexit__(None, None, None)
    except Exception:
        log.exception("run could not be closed in order")

"""Grammars in a process of their own: they are native code over whatever lies in a workspace, and some text never ends.

Without that process nothing is lost but how well files are cut.
"""

from __future__ import annotations

import os
import select
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from handrail import strict_json
from handrail.index.grammars import has_grammar, marks_by_grammar
from handrail.index.parts import Mark
from handrail.own_imports import INTERPRETER, OWN_IMPORTS, PACKAGE

if TYPE_CHECKING:
    import subprocess

CPU_SECONDS = 2.0  # of one file
WALL_SECONDS = 20.0
MEMORY_BYTES = 1 << 30
MAX_ENDS = 3  # after so many bad ends grammars are left alone
LONG_LINES = 400  # characters of a line on average: no person wrote it, and a grammar takes long for it
# The package is found by its own place: the folder above it may be one of a project, and is no part of the path.
_START = """
import sys
sys.path[:] = {path!r}
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("handrail", {package!r} + "/__init__.py", submodule_search_locations=[{package!r}])
sys.modules["handrail"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
from handrail.index.reader import serve
serve()
"""
_PASSED = ("LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_HEAD = struct.Struct(">II")
_SIZE = struct.Struct(">I")


class Reader:
    """Finds definitions by grammar; its process starts with the first file and ends with `close`, or with ours."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ends = 0
        self._lock = threading.Lock()

    def marks(self, texts: Sequence[tuple[str, str]]) -> list[list[Mark] | None]:
        """The definitions of texts with these extensions; None where no grammar is at hand, or none came to an end."""
        found: list[list[Mark] | None] = [None] * len(texts)
        todo = [number for number, (text, extension) in enumerate(texts) if _is_readable(text, extension)]
        with self._lock:
            while todo and self._ends < MAX_ENDS:
                try:
                    for marks in self._asked([texts[number] for number in todo]):
                        found[todo.pop(0)] = marks
                except (OSError, ValueError, EOFError):
                    del todo[:1]  # it was at this one
                    self._ends += 1
                    self._end()
        return found

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _asked(self, texts: Sequence[tuple[str, str]]) -> Iterator[list[Mark] | None]:
        """Ask for all at once, and give the answers as they come: a question each would be a wait each."""
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        writer = threading.Thread(target=_write, args=(process.stdin, texts), daemon=True)
        writer.start()
        for _ in texts:
            deadline = time.monotonic() + WALL_SECONDS
            (size,) = _SIZE.unpack(_exactly(process.stdout, _SIZE.size, deadline))
            marks = strict_json.loads(_exactly(process.stdout, size, deadline))
            yield None if marks is None else [Mark(*item) for item in marks]
        writer.join()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                assert stream is not None
                stream.close()
        process.wait()


def helper_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of the helper: nothing in it names code that a tool may write."""
    passed = {name: environment[name] for name in _PASSED if name in environment}
    folders = environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    # An interpreter can need it to find its own library.
    safe = [folder for folder in folders if os.path.isabs(folder) and not OWN_IMPORTS.is_unsafe(folder)]
    return {**passed, "LD_LIBRARY_PATH": os.pathsep.join(safe)} if safe else passed


def _started() -> subprocess.Popen[bytes]:
    import subprocess

    env = helper_environment(os.environ)
    start = _START.format(path=OWN_IMPORTS.safe_path(), package=PACKAGE)
    argv = [INTERPRETER, "-I", "-S", "-c", start]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env, cwd="/")


def _is_readable(text: str, extension: str) -> bool:
    return has_grammar(extension) and len(text) <= LONG_LINES * (text.count("\n") + 1)


def _write(stream: IO[bytes], texts: Sequence[tuple[str, str]]) -> None:
    with suppress(OSError, ValueError):  # who reads the answers sees that the other end is gone
        for text, extension in texts:
            name, data = extension.encode(), text.encode("utf-8", "replace")
            stream.write(_HEAD.pack(len(name), len(data)) + name + data)
        stream.flush()


def _exactly(stream: IO[bytes], size: int, deadline: float) -> bytes:
    """Read so many bytes; EOFError where the other end is gone, or there is no more time."""
    parts, left = [], size
    while left:
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(stream.fileno(), left) if ready else b""
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def shut_in() -> None:
    """Read what programs are made of and nothing else: no other file, no writing, nobody to talk to.

    As far as the kernel offers it; what it offers and then refuses ends the process.
    """
    from handrail.sandbox import landlock, seccomp
    from handrail.sandbox.inside import calls

    folders = {*_LIBRARIES, sys.prefix, sys.base_prefix, PACKAGE, *(path for path in sys.path if path)}
    fds = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in folders if os.path.isdir(path)]
    if landlock.abi():
        landlock.restrict_self(fds)
    for fd in fds:
        os.close(fd)
    if seccomp.supported(machine := os.uname().machine):
        calls.prctl(calls.NO_NEW_PRIVS, 1)
        calls.filter_calls(seccomp.program(seccomp.Filter(machine, network=False, unix=False, ipc=False)))


def serve() -> None:
    """Be that process: read a text, write its marks, until nobody asks any more."""
    import json
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    shut_in()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(_HEAD.size):
        extension, text = (source.read(size).decode() for size in _HEAD.unpack(head))
        # No exception is raised for it: native code would not come back to see one. The process ends.
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        told = json.dumps(marks_by_grammar(text, extension)).encode()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sink.write(_SIZE.pack(len(told)) + told)
        sink.flush()

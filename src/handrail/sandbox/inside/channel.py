"""How the fork server and what it starts talk to the runtime: small messages, descriptors with them."""

import _socket
import marshal
import os
import select

_SIZE = 17


class Channel:
    """One program's way to say how far its start got; closed by the execution of the program itself."""

    def __init__(self, fd: int, server: int) -> None:
        self.fd = fd
        self.stage = "request"
        self._server = server

    def server_is_gone(self) -> bool:
        """Whether the fork server ended before its end could be noticed."""
        poller = select.poll()
        poller.register(self._server, select.POLLIN)
        return bool(poller.poll(0))

    def send(self, message: tuple[str | int, ...], *fds: int) -> None:
        """Tell the runtime something, with descriptors; who is no longer listening is not told."""
        packed = b"".join(fd.to_bytes(4, "little") for fd in fds)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if fds else []
        end = _socket.socket(fileno=self.fd)
        try:
            end.sendmsg([marshal.dumps(message)], rights, _socket.MSG_NOSIGNAL)
        except OSError:
            pass
        finally:
            end.detach()

    def receive(self) -> list[int]:
        """Wait for what the runtime hands over; nothing when it is gone or wants nothing any more."""
        end = _socket.socket(fileno=self.fd)
        try:
            message, ancillary, _, _ = end.recvmsg(16, _socket.CMSG_SPACE(4 * 8), _socket.MSG_CMSG_CLOEXEC)
        finally:
            end.detach()
        data = b"".join(data for _, _, data in ancillary)
        found = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - 3, 4)]
        return found if message else []

    def failed(self, error: BaseException) -> None:
        """Tell at which stage and why the start failed."""
        number = error.errno if isinstance(error, OSError) else None
        self.send(("failed", self.stage, number or 0, str(error)[:2000]))


def ended_record(kind: bytes, first: int, second: int) -> bytes:
    """Write one of the two facts about an end: `S` status and memory, `U` processor time and status of the first."""
    return kind + first.to_bytes(8, "little", signed=True) + second.to_bytes(8, "little", signed=True)


def ended_records(data: bytes) -> dict[bytes, tuple[int, int]]:
    """Read what was told about an end."""
    found = {}
    for at in range(0, len(data) - _SIZE + 1, _SIZE):
        first, second = (int.from_bytes(data[at + a : at + a + 8], "little", signed=True) for a in (1, 9))
        found[data[at : at + 1]] = (first, second)
    return found


def write_file(path: str, text: str) -> None:
    """Write a file of the kernel's, in one go."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)

"""The SDK's own minimal server, for `mcp_front.py` to compare with: one tool, nothing checked or recorded."""

from __future__ import annotations

import os
import sys
from typing import Any


def main() -> None:
    """Serve one tool over HTTP on a port."""
    from mcp.server import MCPServer

    server: Any = MCPServer("bench", log_level="ERROR")
    root = sys.argv[2]

    async def read_file(path: str) -> str:
        """Read a file."""
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read()

    server.add_tool(read_file)
    import uvicorn

    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")


if __name__ == "__main__":
    main()

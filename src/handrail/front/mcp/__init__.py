"""The MCP front end: what an MCP client asks becomes calls through the one gate, and outcomes become its results."""

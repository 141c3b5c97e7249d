"""The tests of `make test-fast`: pure parts, laws, and one scenario for every front end."""

from __future__ import annotations

from pathlib import Path

# Files of tests/laws that start processes or wait for them, each with its reason.
SLOW_LAWS = {
    "test_index_fresh.py": "builds the code index again and again",
    "test_index_processes.py": "starts the process of the code index",
    "test_net_alone.py": "starts an interpreter to see what it imports",
}
# One approval from question to effect: it passes the gate, the ledger and the journal of every front end.
SCENARIO = "granted elsewhere, then repeated"
# Front ends that hand a framework its tools and answer no request: one call each through the gate.
FRAMEWORKS = {
    "test_langchain_calls_through_the_gate": "langchain",
    "test_openai_agents_call_through_the_gate": "openai_agents",
}


def is_fast(path: Path, name: str) -> bool:
    """Return whether `make test-fast` runs this test."""
    if path.parent.name == "laws":
        return path.name not in SLOW_LAWS
    if path.name == "test_function_calls.py":
        return name in FRAMEWORKS
    return path.name == "test_scenarios.py" and name.endswith(f"[{SCENARIO}]")

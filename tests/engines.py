"""The fast engine's database of secret patterns, compiled once for all tests of a process."""

from __future__ import annotations

from handrail.output.redact import compile_database

DATABASE = compile_database()  # None where hyperscan is not installed

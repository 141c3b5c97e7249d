"""Commanders: ways in which people give the agent tasks and hear of them. `protocol` has the contract."""

"""Confinement of what tools start: plans, launchers and probes."""

"""Hooks: agents that people already run ask Handrail before they act.

client      what an agent starts: standard library alone, speaks to the daemon, and denies where that fails
daemon      one process an account that owns the runs of all agents
alone       one hook decided in its own process, where there is no daemon
sessions    a run for each session of an agent: judge, hand over, observe
claude_code, codex, gemini_cli    payloads and answers of each agent, and where its settings lie
"""

"""Judge a line of shell before it runs: what it would run, what is harmless, what is denied whatever rules say.

reading     put the parts together; two readers, `scan` (exact, a part of bash) and `tree` (the grammar), must agree
wrappers    commands that run other commands
harmless    what needs no prompt inside the sandbox
forbidden   what no rule allows
outside     what an agent runs itself

It saves people prompts; the sandbox is the wall.
"""

from __future__ import annotations

from handrail.policy.shell import outside
from handrail.policy.shell.forbidden import forbidden, forbidden_line
from handrail.policy.shell.harmless import harmless
from handrail.policy.shell.model import Part, Reading
from handrail.policy.shell.reading import read_line
from handrail.policy.shell.wrappers import wraps

__all__ = ["Part", "Reading", "forbidden", "forbidden_line", "harmless", "outside", "read_line", "wraps"]

"""Programs that a call starts: their output, background jobs, and what they changed. Confinement is the sandbox's."""

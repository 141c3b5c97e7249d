"""Notes that outlive a run: providers, the write modes, and candidates that wait for a person."""

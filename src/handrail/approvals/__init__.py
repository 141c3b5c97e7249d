"""The ways to ask a person: at the terminal, elsewhere through the ledger, or not at all."""

"""Tools that serve people, not models: they are never offered to one."""
